"""What happens to keys: a subscription to the seals, evictions and other ends of values."""

from __future__ import annotations

import ctypes
import time
import weakref
from collections import deque
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ._native import EventRecord, library
from .errors import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._handle import Handle

EventKind = Literal["other", "sealed", "evicted", "deleted", "expired", "flushed"]

# In the order of enum kvasir_key_event_kind.
_KINDS: tuple[EventKind, ...] = ("other", "sealed", "evicted", "deleted", "expired", "flushed")
_NOW = (1 << 64) - 1


@dataclass(frozen=True)
class Event:
    """One change of a key."""

    number: int
    """Grows from event to event, with gaps."""
    kind: EventKind
    """``"sealed"``: the key has this value now, whatever it had before; ``"evicted"``,
    ``"deleted"``, ``"expired"``: it is gone; ``"flushed"``: gone are all keys of this database and
    shard, and none is named; ``"other"``: of a server newer than this package."""
    database: int
    shard: int
    """Of the key, which stays in it as long as the server runs."""
    key: bytes
    length_bytes: int
    """Of the value."""
    tier: str


def _close(pointer: int) -> None:
    library.events_close(ctypes.byref(c_void_p(pointer)))


def _event_of(record: EventRecord) -> Event:
    return Event(
        number=record.number,
        kind=_KINDS[record.kind] if 0 <= record.kind < len(_KINDS) else "other",
        database=record.database,
        shard=record.shard,
        key=ctypes.string_at(record.key, record.key_length_bytes) if record.key else b"",
        length_bytes=record.length_bytes,
        tier=record.tier.decode("utf-8", "replace"),
    )


class Events:
    """Made by :meth:`Client.events`: an iterator that never ends by itself, and waits in ``next``
    until something happens. After an exception it goes on with the next ``next``: with what
    happens from now on after :class:`Overrun`, where it was after all others."""

    def __init__(
        self,
        handle: Handle,
        since: int | None,
        count_max: int,
        interval: float,
        timeout: float | None,
    ) -> None:
        if interval <= 0:
            raise ValueError(f"an interval is a positive number of seconds, not {interval!r}")
        if (since is not None and not 0 <= since < _NOW) or not 0 <= count_max < 1 << 32:
            raise ValueError("since is the number of an event, or 0; count_max is from 1 to 10000")
        self._handle = handle
        self._interval = interval
        self._timeout = timeout
        self._waiting: deque[Event] = deque()
        pointer = c_void_p()
        timeout_ms = handle.enter(timeout)
        try:
            status = library.events_open(
                handle.pointer,
                _NOW if since is None else since,
                count_max,
                timeout_ms,
                ctypes.byref(pointer),
            )
            if status != Status.OK:
                raise handle.failure(status)
            self._pointer = pointer.value or 0
            self._number: int = library.events_number(self._pointer)
            self._reached = self._number
        finally:
            handle.leave()
        weakref.finalize(self, _close, self._pointer)

    @property
    def number(self) -> int:
        """The number that is reached: a subscription ``since`` it goes on from here, also on
        another client. In a ``for`` it is that of the last event that was handed out."""
        return self._number

    def poll(self) -> list[Event]:
        """What happened since, at once; may be empty, and is when nothing happened. Raises Overrun
        (events were lost: learn anew what is there), Denied, Timeout, Closed."""
        if self._waiting:
            events = list(self._waiting)
            self._waiting.clear()
            self._number = self._reached
            return events
        events = self._ask()
        self._number = self._reached
        return events

    def _ask(self) -> list[Event]:
        handle = self._handle
        first, count = c_void_p(), c_size_t()
        timeout_ms = handle.enter(self._timeout)
        try:
            status = library.events_poll(
                self._pointer, timeout_ms, ctypes.byref(first), ctypes.byref(count)
            )
            self._reached = library.events_number(self._pointer)
            if status != Status.OK:
                self._number = self._reached
                raise handle.failure(status)
            if count.value == 0:
                return []
            records = (EventRecord * count.value).from_address(first.value or 0)
            return [_event_of(record) for record in records]
        finally:
            handle.leave()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._waiting:
            self._waiting.extend(self._ask())
            if not self._waiting:
                self._number = self._reached
                time.sleep(self._interval)
        event = self._waiting.popleft()
        self._number = event.number if self._waiting else self._reached
        return event
