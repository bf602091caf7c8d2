"""Requests in flight: submitted batches that are waited for later."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import c_void_p
from itertools import count
from typing import TYPE_CHECKING, Any

from . import errors
from ._native import SubmitOptions, library
from .errors import Status

if TYPE_CHECKING:
    from ._buffers import Items
    from ._handle import Handle

# One turn of waiting; between turns other threads get at the client.
_SLICE_MS = 10
_ids = count(1)


class Flight:
    """A batch that the C client works on: keeps items and buffers alive until it is done. Used
    inside the handle's lock only, but for ``done``, which turns true once."""

    __slots__ = ("_options", "_read", "done", "handle", "identity", "items", "pointer", "results")

    def __init__(self, handle: Handle, items: Items, read: Callable[[Items], list[Any]]) -> None:
        self.handle = handle
        self.items = items
        self.identity = next(_ids)
        self.pointer = 0
        self.done = False
        self.results: list[Any] = []
        self._options: SubmitOptions | None = None
        self._read = read

    def submit_locked(self, call: int, options: SubmitOptions) -> int:
        """KVASIR_PENDING and in flight, or KVASIR_AGAIN, or a failure."""
        options.user_data = self.identity
        # Kept until the end: the library may still look at the parent's key.
        self._options = options
        pointer = c_void_p()
        status: int = library.submit(
            self.handle.pointer,
            call,
            self.items.address,
            self.items.count,
            ctypes.byref(options),
            ctypes.byref(pointer),
        )
        if status == Status.PENDING:
            self.pointer = pointer.value or 0
            self.handle.flights[self.identity] = self
        return status

    def finish_locked(self) -> None:
        """Gives the C request back (which cancels it when it is not done) and reads results."""
        pointer = c_void_p(self.pointer)
        self.pointer = 0
        library.request_free(self.handle.pointer, ctypes.byref(pointer))
        self.handle.flights.pop(self.identity, None)
        self.results = self._read(self.items)
        self.items.release()
        self.done = True

    def cancel_locked(self, status: int) -> None:
        """Withdraws the request; items that were not done carry the status."""
        if self.done:
            return
        self.finish_locked()
        if status == Status.CLOSED:
            closed = errors.Closed("the client was closed while the request was in flight")
            self.results = [
                closed if isinstance(result, errors.Cancelled) else result
                for result in self.results
            ]


def poll_locked(handle: Handle, timeout_ms: int) -> bool:
    """Moves what can be moved and takes in one finished request; false when none was."""
    pointer = c_void_p()
    status: int = library.poll(handle.pointer, timeout_ms, ctypes.byref(pointer))
    if status == Status.OK:
        identity: int = library.request_user_data(pointer) or 0
        handle.flights[identity].finish_locked()
        return True
    if status in (Status.AGAIN, Status.NOT_FOUND):
        return False
    raise handle.failure(status)


class Request:
    """A submitted batch. Keys and buffers are kept alive, and buffers must not be touched, until
    it is done. It goes on while any call or any request of its client is waited for, also when
    this object is dropped; closing the client cancels it."""

    __slots__ = ("_client", "_flight")

    def __init__(self, client: object, flight: Flight) -> None:
        self._client = client
        self._flight = flight

    def done(self) -> bool:
        """Whether it is finished. Moves what can be moved without waiting for the server (it may
        wait for another thread's call on this client)."""
        flight = self._flight
        if not flight.done:
            handle = flight.handle
            handle.enter(None)
            try:
                while not flight.done and poll_locked(handle, 0):
                    pass
            finally:
                handle.leave()
        return flight.done

    def wait(self, timeout: float | None = None) -> list[Any]:
        """Waits and returns one result per key, as the batch call of the same kind would.

        ``timeout`` is in seconds; None waits until the request's own deadline ends it, one way or
        the other. Raises :class:`kvasir.Timeout` when it is not done in time (it stays in
        flight).
        """
        flight = self._flight
        end = None if timeout is None else time.monotonic() + timeout
        while not flight.done:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0 and not self.done():
                raise errors.Timeout(f"the request is not done after {timeout} s")
            self._wait_turn(_SLICE_MS if left is None else min(_SLICE_MS, max(1, int(left * 1000))))
        return flight.results

    def _wait_turn(self, slice_ms: int) -> None:
        flight = self._flight
        handle = flight.handle
        if flight.done:
            return
        handle.enter(None)
        try:
            # Another thread may have taken this one in while we waited for our turn.
            if not flight.done:
                poll_locked(handle, slice_ms)
        finally:
            handle.leave()
        if handle.waiters and not flight.done:
            # The lock is not fair: without a pause the others would not get their turn.
            time.sleep(0.0002)

    def cancel(self) -> bool:
        """Withdraws it; the buffers are the caller's again. True when it was still in flight: its
        results that were not there yet are then :class:`kvasir.Cancelled` errors."""
        flight = self._flight
        if flight.done:
            return False
        flight.handle.enter(None)
        try:
            if flight.done:
                return False
            flight.cancel_locked(int(Status.CANCELLED))
        finally:
            flight.handle.leave()
        return True

    def __repr__(self) -> str:
        state = "done" if self._flight.done else "in flight"
        return f"<kvasir.Request of {self._flight.items.count} items, {state}>"
