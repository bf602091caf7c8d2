"""What is counted, in one table; a set of counters that threads may add to."""

from __future__ import annotations

import threading
from collections.abc import Mapping

# Why a look-up ended as it did. One look-up per request (and again after a preemption).
REASONS = {
    "hit": "at least one block beyond the engine's own cache was found",
    "local": "the engine's own prefix cache had all of it",
    "short": "the prompt fills no block",
    "absent": "the first block that was needed is not stored",
    "other_fingerprint": "not stored under this fingerprint, but under another one of this model",
    "deadline": "the server did not answer in time",
    "error": "the server refused or the connection broke",
    "down": "the store counts as down; nothing was asked",
    "not_ready": "the workers have not told their layout yet, or it is not supported",
}

COUNTERS = {
    **{f"lookups_{name}": f"look-ups: {text}" for name, text in REASONS.items()},
    "lookup_us": "time spent in look-ups, microseconds",
    "tokens_needed": "tokens looked up beyond the engine's own cache",
    "tokens_hit": "of these, found",
    "loads": "load jobs begun (one per request)",
    "blocks_loaded": "blocks loaded",
    "bytes_loaded": "bytes loaded",
    "load_us": "time spent in load calls, all threads, microseconds",
    "load_blocks_expired": "blocks that were found but gone when they should be loaded",
    "load_blocks_corrupt": "blocks whose length or checksum was wrong; never used",
    "load_blocks_deadline": "blocks not loaded because of the deadline",
    "load_blocks_error": "blocks not loaded because of an error",
    "load_blocks_down": "blocks not loaded because the store was down",
    "load_blocks_cancelled": "blocks not loaded because their request was aborted",
    "blocks_offered": "blocks given to the store threads",
    "blocks_saved": "blocks stored",
    "bytes_saved": "bytes stored",
    "save_us": "time spent in save calls, all threads, microseconds",
    "blocks_known": "blocks that the store had already; no payload was sent",
    "save_blocks_deadline": "blocks not stored because of the deadline",
    "save_blocks_error": "blocks not stored because of an error",
    "save_blocks_full": "blocks that the store refused: no memory",
    "save_blocks_down": "blocks not stored because the store was down",
    "save_blocks_queue_full": "blocks not stored because too many were waiting",
    "save_blocks_reused": "blocks not stored because the engine wanted their memory back",
    "flush_us": "time steps waited until blocks could be reused, microseconds",
    "calls_shm": "load and save calls served by shared memory",
    "calls_unix": "load and save calls served by the Unix socket",
    "calls_tcp": "load and save calls served by TCP",
    "calls_rdma": "load and save calls served by RDMA",
    "store_down": "times that the store was lost",
    "store_up": "times that it came back",
}


# Paths of a client that have a counter.
PATHS = tuple(name.removeprefix("calls_") for name in COUNTERS if name.startswith("calls_"))


class Counters:
    """Counts since the last take() and in all; safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: dict[str, int] = {}
        self._total: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        if name not in COUNTERS:
            raise KeyError(name)
        if not amount:
            return
        with self._lock:
            self._recent[name] = self._recent.get(name, 0) + amount
            self._total[name] = self._total.get(name, 0) + amount

    def take(self) -> dict[str, int]:
        """Counts since the last call; empty when nothing happened."""
        with self._lock:
            recent, self._recent = self._recent, {}
        return recent

    def total(self) -> dict[str, int]:
        with self._lock:
            return dict(self._total)


def merged(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}}
