"""The worker's half: moves blocks between the KV tensors and the store, in threads of its own."""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Mapping
from typing import Any

from kvasir.vllm.counters import Counters
from kvasir.vllm.health import Health
from kvasir.vllm.keys import Fingerprint, Marker, key_prefix
from kvasir.vllm.layout import Layout
from kvasir.vllm.loader import Loader
from kvasir.vllm.memory import DeviceMemory, HostMemory, StagedMemory
from kvasir.vllm.options import Options
from kvasir.vllm.plan import Plan, Report
from kvasir.vllm.saver import Saver
from kvasir.vllm.store import Store

# How long a step that computes nothing may wait for a load to end, instead of spinning.
_IDLE_WAIT_S = 0.005


class WorkerSide:
    """Called by vLLM's model runner, in its thread, once per step:
    begin(), save(), take_loaded(), take_load_errors(), take_report()."""

    def __init__(
        self,
        options: Options,
        health: Health,
        counters: Counters,
        logger: logging.Logger,
        kv_caches: Mapping[str, Any],
        layout: Layout,
        fingerprint: Fingerprint,
        marker_key: bytes,
    ) -> None:
        self._options = options
        self._health = health
        self._counters = counters
        self._logger = logger
        self._kv_caches = dict(kv_caches)  # the threads read this memory: it must stay
        self._layout = layout
        self._fingerprint = fingerprint
        self._marker_key = marker_key
        self._prefix = key_prefix(options.namespace, fingerprint.hex())
        self._bad: set[int] = set()
        self._report = Report()
        self._reported_down = False
        self._closed = False
        common = (self._make_store, self._make_memory, self._prefix, counters, logger)
        self._loader = Loader(*common) if options.load else None
        self._saver = Saver(*common, self._announce) if options.save else None
        atexit.register(self.close)

    def _make_store(self) -> Store:
        return Store(self._options, self._health)

    def _make_memory(self) -> Any:
        devices = {str(t.device): t.device for t in self._kv_caches.values()}
        types = {device.type for device in devices.values()}
        if self._options.staging == "auto" and types == {"cpu"}:
            return HostMemory(self._layout)
        if self._options.staging == "auto" and types == {"cuda"} and len(devices) == 1:
            return DeviceMemory(
                self._layout,
                next(iter(devices.values())),
                self._make_copy,
                self._options.checksum,
                self._logger,
            )
        return self._make_copy()

    def _make_copy(self) -> StagedMemory:
        return StagedMemory(self._layout, self._kv_caches)

    def _announce(self, store: Store) -> None:
        """Adds this engine to the marker; keeps the marker's other entries."""
        marker = Marker.decode(store.get_small(self._marker_key))
        if marker.add(self._fingerprint):
            store.put_small(self._marker_key, marker.encode())

    def begin(self, plan: Plan) -> None:
        """Before the step computes: no block that it writes may still be read; loads begin now, so
        that they run beside the computation. Again with the same plan does nothing."""
        if plan.begun:
            return
        plan.begun = True
        if self._saver is not None and plan.flush:
            self._saver.flush(plan.flush)
        if self._loader is None:
            return
        for load in plan.loads:
            self._loader.begin(load)
        for request_id in plan.cancel:
            self._loader.cancel(request_id)

    def save(self, plan: Plan) -> None:
        """After the step was computed (or given to the device): its blocks may be stored."""
        if self._saver is not None and plan.saves:
            self._saver.begin(plan.saves, self._health.up)

    def take_loaded(self, plan: Plan) -> set[str]:
        """Requests whose loads ended; with it their bad blocks become visible in
        take_load_errors(), in the same step as vLLM demands."""
        if self._loader is None:
            return set()
        finished = set()
        for request_id, bad in self._loader.take_done(_IDLE_WAIT_S if plan.idle else 0.0):
            finished.add(request_id)
            if bad:
                self._bad.update(bad)
                self._report.failed_loads.add(request_id)
        return finished

    def take_load_errors(self) -> set[int]:
        bad, self._bad = self._bad, set()
        return bad

    def take_report(self) -> Report | None:
        if self._saver is not None:
            for job in self._saver.take_done():
                self._report.saved[job] = 1
        down = not self._health.up
        self._report.down = down and not self._reported_down
        self._reported_down = down
        if self._report.empty():
            return None
        report, self._report = self._report, Report()
        return report

    def close(self) -> None:
        """Stores what waits (within drain_ms), ends the threads. Again does no harm."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        began = time.monotonic()
        if self._saver is not None:
            if self._health.up and not self._saver.drain(self._options.drain_ms / 1000):
                self._logger.warning("kvasir: not all blocks could be stored before the end")
            self._saver.close()
        if self._loader is not None:
            self._loader.close()
        self._health.close()
        total = self._counters.total()
        self._logger.info(
            "kvasir: stored %d blocks (%d known already), loaded %d; closed in %.2f s",
            total.get("blocks_saved", 0), total.get("blocks_known", 0),
            total.get("blocks_loaded", 0), time.monotonic() - began,
        )
