"""Read-only looks at values where they lie in the server's shared memory."""

from __future__ import annotations

import ctypes
import time
from ctypes import c_ubyte, c_uint32, c_uint64
from typing import TYPE_CHECKING, Any

from ._buffers import Pins
from ._native import library

if TYPE_CHECKING:
    from types import TracebackType

    from ._handle import Handle

_memmove = ctypes.memmove


class _Lease:
    """One C view. It ends when nothing refers to it any more: the View, and each piece of memory
    (array, slice) that was made from it."""

    __slots__ = ("_handle", "pointer")

    def __init__(self, handle: Handle, pointer: int) -> None:
        self._handle = handle
        self.pointer = pointer

    def __del__(self) -> None:
        self._handle.dead.append(self.pointer)
        self._handle.reap()


def _read_pieces(pointer: int) -> list[tuple[int, int]]:
    """Address and length of each piece, neighbours joined."""
    count = c_uint32()
    address = library.view_segments(pointer, ctypes.byref(count))
    pieces: list[tuple[int, int]] = []
    if count.value == 0:
        return pieces
    words = list((c_uint64 * (2 * count.value)).from_address(address))
    for base, size in zip(words[0::2], words[1::2]):
        if pieces and sum(pieces[-1]) == base:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + size)
        elif size:
            pieces.append((base, size))
    return pieces


def _open_piece(lease: _Lease, base: int, size: int) -> memoryview:
    owner = (c_ubyte * size).from_address(base)
    # The memoryview keeps its exporter alive, and through it the lease.
    owner.lease = lease  # type: ignore[attr-defined]
    return memoryview(owner).toreadonly().cast("B")


class View:
    """A value as it lies in the server's memory, without a copy, for as long as its lease lasts.

    Use it as a context manager, or call :meth:`release`; garbage collection releases it too. After
    that the view and its memoryviews raise ``ValueError``. Arrays and slices made from it keep the
    lease until the last of them is gone, so that they never show another value's bytes before
    :attr:`deadline`. Beyond the deadline the server may reuse the memory: the bytes are then
    undefined, though reading them stays harmless.
    """

    __slots__ = ("__weakref__", "_client", "_lease", "_length", "_segments")

    def __init__(self, client: object, handle: Handle, pointer: int) -> None:
        """Inside the client's lock; takes the C view."""
        handle.lease_count += 1
        lease = _Lease(handle, pointer)
        self._client = client
        self._length: int = library.view_length_bytes(pointer)
        self._segments = [_open_piece(lease, *piece) for piece in _read_pieces(pointer)]
        self._lease: _Lease | None = lease
        handle.views.add(self)

    def _check(self) -> None:
        if self._lease is None:
            raise ValueError("the view is released")

    def __len__(self) -> int:
        """Length of the value in bytes; also after release."""
        return self._length

    @property
    def released(self) -> bool:
        """Whether the view was released."""
        return self._lease is None

    @property
    def deadline(self) -> float:
        """The end of the lease on the clock of ``time.monotonic()``, in seconds; 0 when it ended
        early, because the connection was lost or the view was released."""
        lease = self._lease
        return 0.0 if lease is None else library.view_deadline_us(lease.pointer) / 1e6

    @property
    def expired(self) -> bool:
        """Whether the lease has run out."""
        return time.monotonic() >= self.deadline

    @property
    def segments(self) -> list[memoryview]:
        """The pieces of the value in order: read-only memoryviews of bytes (format ``B``).
        Raises ValueError after release."""
        self._check()
        return list(self._segments)

    def memoryview(self) -> memoryview:
        """The whole value as one read-only memoryview. Raises ValueError when it lies in several
        pieces (use ``segments``, ``numpy()`` or ``copy_into()``) or is released."""
        self._check()
        if len(self._segments) > 1:
            raise ValueError(
                f"the value lies in {len(self._segments)} pieces; use segments, numpy() or "
                "copy_into()"
            )
        return self._segments[0] if self._segments else memoryview(b"")

    def numpy(self, dtype: Any = "uint8", *, copy: bool | None = None) -> Any:
        """The value as a one-dimensional numpy array of ``len(view) / itemsize`` elements.

        ``copy=None`` copies only when the value lies in several pieces, ``False`` never (raises
        ValueError instead), ``True`` always. An array that is no copy is read-only. Raises
        ValueError when the length is no multiple of the item size or the view is released.
        """
        import numpy

        self._check()
        if copy is False or (not copy and len(self._segments) <= 1):
            return numpy.frombuffer(self.memoryview(), dtype=dtype)
        joined: Any = numpy.empty(self._length, dtype=numpy.uint8)
        self.copy_into(joined)
        return joined.view(dtype)

    def tobytes(self) -> bytes:
        """A copy of the value. Raises ValueError after release."""
        self._check()
        return b"".join(self._segments)

    def copy_into(self, buffer: Any) -> int:
        """Copies the value to the start of a writable buffer; returns its length in bytes. Raises
        ValueError when the buffer is shorter or the view is released."""
        self._check()
        pins = Pins([buffer], writable=True)
        try:
            if pins.scattered:
                raise TypeError("copy_into takes one buffer")
            if pins.sizes[0] < self._length:
                raise ValueError(f"the buffer has {pins.sizes[0]} bytes, the value {self._length}")
            target = pins.bases[0]
            for piece in self._segments:
                owner: Any = piece.obj
                _memmove(target, ctypes.addressof(owner), piece.nbytes)
                target += piece.nbytes
        finally:
            pins.release()
        return self._length

    def release(self) -> None:
        """Ends the lease (see the class for arrays that are still in use); again does no harm."""
        self._lease = None
        while self._segments:
            piece = self._segments.pop()
            try:
                piece.release()
            except BufferError:
                # An array looks through this memoryview and keeps it, and the lease, alive.
                continue

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "released" if self.released else f"{len(self._segments)} pieces"
        return f"<kvasir.View {self._length} bytes, {state}>"
