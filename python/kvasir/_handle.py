"""The C client behind a :class:`kvasir.Client`: its lock, what still hangs on it, its end.

A C client is used by one thread at a time, so every call takes the lock. Finalizers may run at any
moment in any thread, also in one that holds the lock: they only leave what they want given back in
``dead`` and whoever has the lock next gives it back.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from ctypes import c_void_p
from typing import TYPE_CHECKING
from weakref import WeakSet

from . import errors
from ._native import DEVICE_KINDS, library
from .errors import Status

if TYPE_CHECKING:
    from ._buffers import Pins
    from .request import Flight
    from .view import View

_view_release = library.view_release

# Releases of views share a message up to this many, and this many seconds after the last one.
_RELEASES_TOGETHER = 16
_RELEASE_PAUSE = 0.001

# Grows in the child of every fork; a client made before belongs to the parent.
_generation = [0]


def _after_fork() -> None:
    _generation[0] += 1


os.register_at_fork(after_in_child=_after_fork)


def milliseconds(seconds: float) -> int:
    """A duration for the C library: rounded, at least 1 ms (0 would mean the default)."""
    if not 0 < seconds < 4_000_000:
        raise ValueError(f"a duration is a positive number of seconds, not {seconds!r}")
    return max(1, round(seconds * 1000))


class Handle:
    """Owns the C client. Every use of ``pointer`` stands between :meth:`enter` and
    :meth:`leave`."""

    __slots__ = (
        "__weakref__",
        "_closing",
        "_generation",
        "_lock",
        "_sent_at",
        "_unsent",
        "dead",
        "devices",
        "flights",
        "lease_count",
        "pointer",
        "registered",
        "timeout_ms",
        "views",
        "waiters",
    )

    def __init__(self, pointer: int, timeout_ms: int) -> None:
        self.pointer = pointer
        self.dead: deque[int] = deque()
        self.flights: dict[int, Flight] = {}
        self.views: WeakSet[View] = WeakSet()
        self.lease_count = 0
        # Memory that the C client registered, by address and length: held until it is closed.
        self.registered: dict[tuple[int, int], list[Pins]] = {}
        # Of these, what lies on a GPU: address and length.
        self.devices: set[tuple[int, int]] = set()
        self.waiters = 0
        self.timeout_ms = timeout_ms
        self._generation = _generation[0]
        self._lock = threading.Lock()
        self._closing = False
        self._unsent = 0
        self._sent_at = 0.0

    # ---- taking turns ----------------------------------------------------------------------

    def enter(self, timeout: float | None) -> int:
        """Takes the lock. Returns the milliseconds left for the call, 0 for the default."""
        timeout_ms = 0 if timeout is None else milliseconds(timeout)
        if self._generation != _generation[0]:
            raise errors.ForkedClient(
                "this client was made before a fork and belongs to the parent process; "
                "make a new one in the child"
            )
        if not self._lock.acquire(False):
            timeout_ms = self._wait_turn(timeout_ms)
        if self._closing:
            self._lock.release()
            raise errors.Closed("the client is closed")
        if self.dead:
            self._reap_locked()
        return timeout_ms

    def _wait_turn(self, timeout_ms: int) -> int:
        allowed = timeout_ms or self.timeout_ms
        start = time.monotonic()
        self.waiters += 1
        taken = self._lock.acquire(True, allowed / 1000)
        self.waiters -= 1
        if not taken:
            raise errors.Timeout(f"another thread kept this client busy for {allowed} ms")
        return max(1, allowed - int((time.monotonic() - start) * 1000))

    def leave(self) -> None:
        """Gives the lock back, and after it what finalizers left in the meantime."""
        self._lock.release()
        if self.dead:
            self.reap()

    def check_devices(self, pins: Pins) -> None:
        """ValueError where memory of a GPU is not registered: no CPU may touch it then; inside the
        lock."""
        for place in pins.devices:
            if place.root in self.devices or place.length == 0:
                continue
            if library.buffer(self.pointer, place.address, place.length) not in DEVICE_KINDS:
                raise ValueError(
                    f"{place.length} bytes at {place.address:#x} of {place.where} are not "
                    "registered with this client: give the array, or one around it, to register() "
                    "first, or copy it to the host"
                )

    def look_at_devices(self) -> None:
        """Forgets what the library forgot: buffers that were freed, and whose place others took;
        inside the lock."""
        self.devices = {
            place
            for place in self.registered
            if library.buffer(self.pointer, *place) in DEVICE_KINDS
        }

    def failure(self, status: int) -> errors.Error:
        """The error of a failed call, with the library's sentence; inside the lock."""
        return errors.from_status(status, self.sentence())

    def sentence(self) -> str:
        """The library's sentence behind the last failure; inside the lock."""
        sentence: bytes = library.error(self.pointer) or b""
        return sentence.decode("utf-8", "replace")

    @property
    def closed(self) -> bool:
        return self._closing

    @property
    def foreign(self) -> bool:
        """Whether this process is not the one that made the client."""
        return self._generation != _generation[0]

    # ---- giving back -----------------------------------------------------------------------

    def reap(self) -> None:
        """Gives leases back if nobody holds the lock; who holds it does it on leaving."""
        while self.dead and not self.foreign:
            if not self._lock.acquire(False):
                return
            try:
                self._reap_locked()
                self._send_releases_locked()
            finally:
                self._lock.release()

    def _send_releases_locked(self) -> None:
        """Tells the server without waiting for the next call, which may never come. With requests
        in flight their waiting does it. Releases in quick succession share a message: when other
        views are still open the last few of a burst may have to wait for the next call."""
        if not self.pointer or self.flights:
            return
        now = time.monotonic()
        many = self._unsent >= _RELEASES_TOGETHER or now - self._sent_at >= _RELEASE_PAUSE
        if self.lease_count == 0 or many:
            self._unsent = 0
            self._sent_at = now
            library.poll(self.pointer, 0, ctypes.byref(c_void_p()))

    def _reap_locked(self) -> None:
        while self.dead:
            pointer = c_void_p(self.dead.popleft())
            _view_release(ctypes.byref(pointer))
            self.lease_count -= 1
            self._unsent += 1
        if self._closing and self.lease_count == 0:
            self._destroy_locked()

    def _destroy_locked(self) -> None:
        if self.pointer:
            pointer = c_void_p(self.pointer)
            self.pointer = 0
            library.close(ctypes.byref(pointer))
            for pins in self.registered.values():
                for pin in pins:
                    pin.release()
            self.registered.clear()
            self.devices.clear()

    def close(self) -> None:
        """Cancels what is in flight, ends views, closes. Arrays that were made from views keep
        the mapping, and with it the C client, until the last of them is gone."""
        if self.foreign:
            self._close_copy()
            return
        for view in list(self.views):
            view.release()
        with self._lock:
            if self._closing:
                return
            for flight in list(self.flights.values()):
                flight.cancel_locked(int(Status.CLOSED))
            self._closing = True
            self._reap_locked()

    def _close_copy(self) -> None:
        """In the child of a fork: closes the copies of the sockets (nothing is sent on them),
        unless something was going on at the moment of the fork or is still looked at."""
        idle = not self.flights and self.lease_count == 0
        if idle and self._lock.acquire(False):
            self._closing = True
            self._destroy_locked()
            self._lock.release()
