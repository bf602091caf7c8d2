"""Threads that store computed blocks behind the engine's back.

A job reads the blocks where they lie in the KV tensors, after the step that filled them. vLLM is
not asked to hold the blocks back until then (that would shrink the engine's cache whenever the
store is slow), and they are not copied out in the step (that would cost every step a copy). Instead
a step that is about to overwrite a block of a job that is not done names the job (flush): the step
waits a moment, and then the job gives up what it has not begun. A block is freed last-used-last by
vLLM, so that a wait is rare; a stored value never mixes two blocks."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kvasir.vllm.counters import PATHS, Counters
from kvasir.vllm.keys import block_keys
from kvasir.vllm.plan import Save
from kvasir.vllm.store import Store, StoreFailure, reason_of

_STALL_S = 10.0  # a flush that waits longer than this says so; it must not go on


@dataclass
class _Job:
    save: Save
    fence: Any
    active: bool = False
    cancelled: bool = False


class Saver:
    """Jobs end in any order; take_done() tells which. ``announce`` is run by a thread before its
    first job and again whenever the store came back."""

    def __init__(
        self,
        make_store: Callable[[], Store],
        make_memory: Callable[[], Any],
        prefix: bytes,
        counters: Counters,
        logger: logging.Logger,
        announce: Callable[[Store], None],
    ) -> None:
        self._prefix = prefix
        self._counters = counters
        self._logger = logger
        self._announce = announce
        self._announced = -1
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending: dict[int, _Job] = {}
        self._waiting_blocks = 0
        self._done: list[int] = []
        self._memory = make_memory()
        self._block_bytes = self._memory.layout.block_bytes
        store = make_store()
        self._options = store.options
        self._chunk_blocks = max(1, self._options.batch_bytes // self._block_bytes)
        pairs = [(store, self._memory)]
        pairs += [(make_store(), make_memory()) for _ in range(self._options.save_workers - 1)]
        self._threads = [
            threading.Thread(target=self._run, args=pair, name=f"kvasir-save-{i}", daemon=True)
            for i, pair in enumerate(pairs)
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, saves: Iterable[Save], up: bool) -> None:
        """Queues the jobs of the step that has just been computed."""
        jobs = [_Job(save, None) for save in saves]
        fence = self._memory.fence() if jobs else None
        for job in jobs:
            job.fence = fence
            count = len(job.save.blocks)
            self._counters.add("blocks_offered", count)
            with self._changed:
                full = self._waiting_blocks + count > self._options.save_queue_blocks
                if full or not up:
                    self._counters.add(f"save_blocks_{'down' if not up else 'queue_full'}", count)
                    self._done.append(job.save.job)
                    continue
                self._waiting_blocks += count
                self._pending[job.save.job] = job
            self._queue.put(job)

    def flush(self, jobs: Iterable[int]) -> None:
        """Returns when none of the jobs will read its blocks any more."""
        wanted = set(jobs)
        began = time.perf_counter_ns()
        with self._changed:
            if not wanted & self._pending.keys():
                return
            self._changed.wait_for(
                lambda: not wanted & self._pending.keys(), self._options.flush_wait_ms / 1000
            )
            for number in wanted & self._pending.keys():
                job = self._pending[number]
                job.cancelled = True
                if not job.active:
                    self._counters.add("save_blocks_reused", len(job.save.blocks))
                    self._end(job)
            # What is left is inside one call, which ends by its deadline.
            while not self._changed.wait_for(
                lambda: not wanted & self._pending.keys(), _STALL_S
            ):
                self._logger.error("kvasir: blocks that are to be reused are still being stored")
        self._counters.add("flush_us", (time.perf_counter_ns() - began) // 1000)

    def take_done(self) -> list[int]:
        with self._changed:
            done, self._done = self._done, []
        return done

    def drain(self, seconds: float) -> bool:
        """Waits until nothing is left to store; false when time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def close(self) -> None:
        with self._changed:
            for job in self._pending.values():
                job.cancelled = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=10)

    # ---- in the threads ----------------------------------------------------------------------

    def _run(self, store: Store, memory: Any) -> None:
        store.on_connect = memory.attach
        self._tell(store)
        while True:
            job = self._queue.get()
            if job is None:
                break
            with self._changed:
                if job.save.job not in self._pending:
                    continue  # a flush has ended it
                job.active = True
            try:
                self._tell(store)
                self._store(store, memory, job)
            except StoreFailure as failure:
                self._logger.debug("kvasir: not stored: %s", failure)
            except Exception:
                self._logger.exception("kvasir: a save failed unexpectedly")
            with self._changed:
                self._end(job)
        store.close()

    def _end(self, job: _Job) -> None:
        if self._pending.pop(job.save.job, None) is not None:
            self._waiting_blocks -= len(job.save.blocks)
            self._done.append(job.save.job)
            self._changed.notify_all()

    def _tell(self, store: Store) -> None:
        """Leaves this engine's fingerprint in the store, once per life of the store."""
        if self._announced == store.health.epoch:
            return
        self._announced = store.health.epoch
        try:
            self._announce(store)
        except StoreFailure as failure:
            self._logger.debug("kvasir: fingerprint not announced: %s", failure)

    def _store(self, store: Store, memory: Any, job: _Job) -> None:
        """Asks which blocks are new, and sends only those, as chains of bounded size."""
        save = job.save
        keys = block_keys(self._prefix, save.hashes)
        done = 0
        try:
            present = store.exists(keys)
            for begin, end in _runs(present, self._chunk_blocks):
                known = present[done:begin].count(True)
                self._counters.add("blocks_known", known)
                done = begin
                if job.cancelled:
                    self._counters.add("save_blocks_reused", len(keys) - done)
                    return
                self._put(store, memory, job, keys, begin, end)
                done = end
        except StoreFailure as failure:
            reason = failure.reason if failure.reason in ("deadline", "down", "full") else "error"
            self._counters.add(f"save_blocks_{reason}", len(keys) - done)
            raise
        self._counters.add("blocks_known", len(keys) - done)

    def _put(
        self, store: Store, memory: Any, job: _Job, keys: list[bytes], begin: int, end: int
    ) -> None:
        parent = keys[begin - 1] if begin else None
        if parent is None and job.save.parent is not None:
            parent = self._prefix + job.save.parent
        began = time.perf_counter_ns()
        answers = store.put_absent(
            keys[begin:end],
            lambda: memory.for_save(job.save.blocks[begin:end], job.fence),
            parent,
        )
        add = self._counters.add
        add("save_us", (time.perf_counter_ns() - began) // 1000)
        stored = sum(answer is True for answer in answers)
        add("blocks_saved", stored)
        add("bytes_saved", stored * self._block_bytes)
        add("blocks_known", sum(answer is False for answer in answers))
        if store.path in PATHS:
            add(f"calls_{store.path}")
        for answer in answers:
            if not isinstance(answer, bool):
                reason = reason_of(answer)
                add(f"save_blocks_{'error' if reason == 'corrupt' else reason}")


def _runs(present: list[bool], limit: int) -> list[tuple[int, int]]:
    """(begin, end) of each run of absent blocks, cut at limit blocks."""
    runs: list[tuple[int, int]] = []
    for i, there in enumerate(present):
        if there:
            continue
        if runs and runs[-1][1] == i and i - runs[-1][0] < limit:
            runs[-1] = (runs[-1][0], i + 1)
        else:
            runs.append((i, i + 1))
    return runs
