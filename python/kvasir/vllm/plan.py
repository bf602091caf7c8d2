"""What the scheduler side asks of the worker side in one step, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Load:
    """Blocks to fetch for one request; the worker reports the request when all are done."""

    request_id: str
    hashes: list[bytes]
    blocks: list[int]


@dataclass
class Save:
    """Blocks to store. Their memory is not held back from reuse: when vLLM gives one of them to
    somebody else before the job is reported done, the step that will overwrite it names the job in
    Plan.flush."""

    job: int
    request_id: str
    hashes: list[bytes]
    blocks: list[int]
    parent: bytes | None = None  # hash of the block before the first one


@dataclass
class Plan:
    """One step's work for the worker side."""

    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    flush: set[int] = field(default_factory=set)  # save jobs to end before blocks are written
    cancel: set[str] = field(default_factory=set)  # requests whose loads nobody waits for
    idle: bool = False  # nothing is computed in this step: waiting for a load costs nothing
    begun: bool = False  # a worker has taken it up; set on its own copy

    def empty(self) -> bool:
        return not (self.loads or self.saves or self.flush or self.cancel)


@dataclass
class Report:
    """One step's news from the workers; reports of several workers add up."""

    saved: dict[int, int] = field(default_factory=dict)  # job: how many workers are done with it
    failed_loads: set[str] = field(default_factory=set)  # requests with at least one failed block
    down: bool = False  # a worker lost the store

    def empty(self) -> bool:
        return not (self.saved or self.failed_loads or self.down)

    def merge(self, other: Report) -> Report:
        saved = dict(self.saved)
        for job, count in other.saved.items():
            saved[job] = saved.get(job, 0) + count
        return Report(saved, self.failed_loads | other.failed_loads, self.down or other.down)
