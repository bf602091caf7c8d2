"""Makes a hit ratio of zero loud: who looks up all day and finds nothing is told, and told why."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from kvasir.vllm.counters import REASONS
from kvasir.vllm.keys import Fingerprint, Marker, key_prefix
from kvasir.vllm.store import Store, StoreFailure

_MARKER_SECONDS = 60.0  # how old our picture of the other fingerprints may be
_PROBED = 8  # other fingerprints that one missing block is looked up under


class ZeroHits:
    """Counts look-ups by reason in a window and warns at its end when nothing hit."""

    def __init__(
        self,
        window_s: float,
        namespace: str,
        logger: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window_s = window_s
        self._namespace = namespace
        self._logger = logger
        self._clock = clock
        self._began = clock()
        self._counts: dict[str, int] = {}
        self._own: list[Fingerprint] = []
        self._marker_key = b""
        self._marker = Marker()
        self._marker_at = -_MARKER_SECONDS
        self._found_under = ""
        self.hints: list[str] = []

    def set_own(self, own: Sequence[Fingerprint], marker_key: bytes) -> None:
        self._own = list(own)
        self._marker_key = marker_key

    def note(self, reason: str) -> None:
        """One look-up ended. Warns when the window is over, look-ups happened and none hit."""
        if self._clock() - self._began >= self._window_s:
            self._close_window()
        self._counts[reason] = self._counts.get(reason, 0) + 1

    def _close_window(self) -> None:
        counts, self._counts = self._counts, {}
        self._began = self._clock()
        asked = {r: n for r, n in counts.items() if r not in ("local", "short")}
        if self._window_s > 0 and asked and "hit" not in asked:
            self._logger.warning("%s", self.sentence(asked))

    def sentence(self, asked: dict[str, int]) -> str:
        parts = [
            f"{count} {reason} ({REASONS[reason]})"
            for reason, count in sorted(asked.items(), key=lambda item: -item[1])
        ]
        return (
            f"kvasir: {sum(asked.values())} look-ups in the last {self._window_s:.0f} s and not "
            f"one hit: {'; '.join(parts)}.{self._why()}"
        )

    def _why(self) -> str:
        texts = list(self.hints)
        if self._own:
            own = [fingerprint.hex() for fingerprint in self._own]
            texts.append(f"This engine's fingerprint is {own[0]}.")
            others = self._marker.others(own)
            near = self._found_under or (others[-1] if others else "")
            if near:
                differ = "; ".join(self._marker.differences(self._own[0], near))
                texts.append(f"The store has blocks of this model under {near}, where: {differ}.")
        return "".join(" " + text for text in texts)

    def elsewhere(self, store: Store, block_hash: bytes) -> bool:
        """Whether the block is stored under another fingerprint of this model. Costs nothing where
        no other is known."""
        try:
            self._refresh(store)
            others = self._marker.others(f.hex() for f in self._own)[-_PROBED:]
            if not others:
                return False
            keys = [key_prefix(self._namespace, other) + block_hash for other in others]
            present = store.exists(keys)
        except StoreFailure:
            return False
        for other, there in zip(others, present, strict=True):
            if there:
                self._found_under = other
                return True
        return False

    def _refresh(self, store: Store) -> None:
        now = self._clock()
        if self._marker_key and now - self._marker_at >= _MARKER_SECONDS:
            self._marker_at = now
            self._marker = Marker.decode(store.get_small(self._marker_key))
