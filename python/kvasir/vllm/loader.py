"""Threads that fetch blocks into the KV tensors while the engine computes other requests."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvasir.vllm.counters import PATHS, Counters
from kvasir.vllm.keys import block_keys
from kvasir.vllm.plan import Load
from kvasir.vllm.store import Store, StoreFailure, reason_of


@dataclass
class _Job:
    load: Load
    fence: Any = None
    chunks_left: int = 0
    bad: list[int] = field(default_factory=list)
    cancelled: bool = False


@dataclass
class _Chunk:
    job: _Job
    hashes: Sequence[bytes]
    blocks: Sequence[int]


class Loader:
    """Begun jobs always end and are always reported, whatever happens to the store: vLLM waits for
    them and keeps their blocks until then."""

    def __init__(
        self,
        make_store: Callable[[], Store],
        make_memory: Callable[[], Any],
        prefix: bytes,
        counters: Counters,
        logger: logging.Logger,
    ) -> None:
        self._prefix = prefix
        self._counters = counters
        self._logger = logger
        self._queue: queue.SimpleQueue[_Chunk | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._running: dict[str, _Job] = {}
        self._done: list[_Job] = []
        memory = make_memory()
        self._block_bytes = memory.layout.block_bytes
        store = make_store()
        options = store.options
        self._chunk_blocks = max(1, options.batch_bytes // self._block_bytes)
        makers = [(store, memory)]
        makers += [(make_store(), make_memory()) for _ in range(options.load_workers - 1)]
        self._memory = memory
        self._threads = [
            threading.Thread(target=self._run, args=pair, name=f"kvasir-load-{i}", daemon=True)
            for i, pair in enumerate(makers)
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, load: Load) -> None:
        """Queues a request's blocks in calls of bounded size; several threads share a long one."""
        self._counters.add("loads")
        # What the engine was given before may still read or write the blocks.
        job = _Job(load, self._memory.fence())
        size = self._chunk_blocks
        chunks = [
            _Chunk(job, load.hashes[i : i + size], load.blocks[i : i + size])
            for i in range(0, len(load.blocks), size)
        ]
        job.chunks_left = len(chunks)
        with self._changed:
            self._running[load.request_id] = job
            if not chunks:
                self._finish(job)
        for chunk in chunks:
            self._queue.put(chunk)

    def cancel(self, request_id: str) -> None:
        """Nobody waits for this request's blocks any more: what has not begun is not fetched."""
        with self._changed:
            job = self._running.get(request_id)
            if job is not None:
                job.cancelled = True

    def take_done(self, wait_s: float) -> list[tuple[str, list[int]]]:
        """(request, blocks that could not be loaded) for every job that ended; waits up to wait_s
        for one if some are running."""
        with self._changed:
            if wait_s > 0 and self._running and not self._done:
                self._changed.wait(wait_s)
            done, self._done = self._done, []
        return [(job.load.request_id, job.bad) for job in done]

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=10)

    # ---- in the threads ----------------------------------------------------------------------

    def _run(self, store: Store, memory: Any) -> None:
        store.on_connect = memory.attach
        try:
            store.prepare()
        except Exception:
            self._logger.exception("kvasir: the connection could not be prepared")
        while True:
            chunk = self._queue.get()
            if chunk is None:
                break
            try:
                bad = self._fetch(store, memory, chunk)
            except Exception:
                self._logger.exception("kvasir: a load failed unexpectedly")
                self._counters.add("load_blocks_error", len(chunk.blocks))
                bad = list(chunk.blocks)
            with self._changed:
                chunk.job.bad += bad
                chunk.job.chunks_left -= 1
                if chunk.job.chunks_left == 0:
                    self._finish(chunk.job)
        store.close()

    def _finish(self, job: _Job) -> None:
        self._running.pop(job.load.request_id, None)
        self._done.append(job)
        self._changed.notify_all()

    def _fetch(self, store: Store, memory: Any, chunk: _Chunk) -> list[int]:
        """Fetches one chunk; returns the blocks that must be computed instead."""
        if chunk.job.cancelled:
            self._counters.add("load_blocks_cancelled", len(chunk.blocks))
            return list(chunk.blocks)
        began = time.perf_counter_ns()
        try:
            answers = store.get_into(
                block_keys(self._prefix, chunk.hashes),
                lambda: memory.for_load(chunk.blocks, chunk.job.fence),
            )
        except StoreFailure as failure:
            self._counters.add(f"load_blocks_{failure.reason}", len(chunk.blocks))
            return list(chunk.blocks)
        good = [answer == self._block_bytes for answer in answers]
        memory.loaded(chunk.blocks, good)
        self._count(store, answers, good, time.perf_counter_ns() - began)
        return [b for b, ok in zip(chunk.blocks, good, strict=True) if not ok]

    def _count(self, store: Store, answers: list[Any], good: list[bool], took_ns: int) -> None:
        add = self._counters.add
        add("load_us", took_ns // 1000)
        add("blocks_loaded", sum(good))
        add("bytes_loaded", sum(good) * self._block_bytes)
        if store.path in PATHS:
            add(f"calls_{store.path}")
        for answer, ok in zip(answers, good, strict=True):
            if ok:
                continue
            if answer is None:
                add("load_blocks_expired")
            elif isinstance(answer, int):
                add("load_blocks_corrupt")
            else:
                reason = reason_of(answer)
                add(f"load_blocks_{'error' if reason == 'full' else reason}")
