"""Whether the store can be reached: one state per side (scheduler, worker), shared by its threads.

The first failure makes the state "down". From then on nobody asks the store, so a step costs
nothing; a background thread looks for it and makes the state "up" again. Whoever met the failure
waited one deadline, nobody else does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kvasir.vllm.counters import Counters

_DOUBLINGS = 4  # the wait between two attempts grows to 16 times the first


class Health:
    """See the module. ``probe`` tries the store and raises when it does not answer."""

    def __init__(
        self,
        name: str,
        probe: Callable[[], None],
        retry_ms: int,
        counters: Counters,
        logger: logging.Logger,
    ) -> None:
        self._name = name
        self._probe = probe
        self._retry_s = retry_ms / 1000
        self._counters = counters
        self._logger = logger
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._prober: threading.Thread | None = None
        self.up = True
        self.epoch = 0  # grows when the store comes back; connections of older epochs are stale

    def fail(self, reason: str, text: str, epoch: int | None = None) -> None:
        """Tells that the store did not answer. A failure of a connection of an older epoch is old
        news and ignored."""
        with self._lock:
            if not self.up or self._closed.is_set():
                return
            if epoch is not None and epoch != self.epoch:
                return
            self.up = False
            self._prober = threading.Thread(
                target=self._look, name=f"kvasir-{self._name}-probe", daemon=True
            )
            self._prober.start()
        self._counters.add("store_down")
        self._logger.warning(
            "kvasir (%s): the store is down (%s: %s). The engine goes on without it; trying again "
            "in the background every %.1f to %.1f s.",
            self._name, reason, text, self._retry_s, self._retry_s * 2**_DOUBLINGS,
        )

    def _look(self) -> None:
        attempt = 0
        while not self._closed.wait(self._retry_s * 2 ** min(attempt, _DOUBLINGS)):
            attempt += 1
            try:
                self._probe()
            except Exception as error:  # whatever it is, the store is not back
                self._logger.debug("kvasir (%s): still down: %s", self._name, error)
                continue
            with self._lock:
                self.up = True
                self.epoch += 1
                self._prober = None
            self._counters.add("store_up")
            self._logger.warning("kvasir (%s): the store is back.", self._name)
            return

    def close(self) -> None:
        """Ends the background thread; it may take as long as one attempt to connect."""
        self._closed.set()
        prober = self._prober
        if prober is not None:
            prober.join(timeout=5)
