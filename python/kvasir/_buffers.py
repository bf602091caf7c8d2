"""Addresses of the caller's memory: keys and payloads, held still for the length of a call.

A payload is anything with the buffer protocol in C order, a contiguous torch tensor, an array on a
GPU (``_devices.py``), or a list or tuple of those (one value scattered over several pieces). Memory
is asked for through ``PyObject_GetBuffer``, so it can neither move nor shrink until
:meth:`Pins.release`.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Sequence
from ctypes import c_int, c_void_p, py_object
from itertools import accumulate, chain, repeat
from typing import Any, TypeAlias

from ._devices import DeviceBuffer, Place, place_of, place_on_device
from ._native import BUFFER_WORDS, ITEM_STATUS, ITEM_WORDS
from .errors import Status

Key: TypeAlias = bytes | str

_BUFFER_BYTES = 8 * BUFFER_WORDS
_SIMPLE, _WRITABLE = 0, 1

_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [py_object, c_void_p, c_int]
_get_buffer.restype = c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [c_void_p]
_release_buffer.restype = None
bytes_address = ctypes.pythonapi.PyBytes_AsString
bytes_address.argtypes = [py_object]
bytes_address.restype = c_void_p
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes = [c_void_p, ctypes.c_ssize_t]
_new_bytes.restype = py_object


_from_buffer = ctypes.c_char.from_buffer


def new_bytes(length: int) -> bytes:
    """A bytes object whose contents are yet to be written, before anybody else sees it."""
    made: bytes = _new_bytes(None, length)
    return made


def key_bytes(key: Any) -> bytes:
    """A key as the server sees it: bytes as they are, str in UTF-8."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    raise TypeError(f"a key is bytes or str, not {type(key).__name__}")


class Pins:
    """Payload memory held still. ``bases`` and ``sizes`` hold one entry per payload; a payload in
    several pieces has base 0 and its pieces in ``scattered`` under its index. ``devices`` are the
    pieces that lie on a GPU, where only registered memory may be touched."""

    __slots__ = (
        "_extra",
        "_holders",
        "_kept",
        "_records",
        "_taken",
        "bases",
        "devices",
        "scattered",
        "sizes",
    )

    def __init__(self, payloads: Sequence[Any], writable: bool) -> None:
        self._extra: list[Pins] = []
        self._taken: list[int] = []
        self._kept: list[Any] = []
        # What keeps the memory where it is besides the buffers that were taken.
        self._holders: Sequence[Any] = payloads
        self.scattered: dict[int, array[int]] = {}
        self.devices: list[Place] = []
        self.bases: list[int]
        self.sizes: list[int]
        if not writable and set(map(type, payloads)) == {bytes}:
            self.bases = list(map(bytes_address, payloads))
            self.sizes = list(map(len, payloads))
        elif not self._pin_writable(payloads) and not self._pin_device_buffers(payloads):
            try:
                self._pin_any(payloads, writable)
            except BaseException:
                self.release()
                raise

    def _pin_writable(self, payloads: Sequence[Any]) -> bool:
        """The quick way, for a batch of nothing but plain writable buffers."""
        try:
            holders = list(map(_from_buffer, payloads))
            sizes = [len(p) if type(p) is bytearray else memoryview(p).nbytes for p in payloads]
        except (TypeError, ValueError, BufferError):
            return False
        self._holders = holders
        self.bases = list(map(ctypes.addressof, holders))
        self.sizes = sizes
        return True

    def _pin_device_buffers(self, payloads: Sequence[Any]) -> bool:
        """The quick way, for nothing but pieces of a GPU's memory by their address."""
        if set(map(type, payloads)) != {DeviceBuffer}:
            return False
        self.bases = [piece.address for piece in payloads]
        self.sizes = [piece.nbytes for piece in payloads]
        self.devices = [
            Place(piece.address, piece.nbytes, piece.device, piece.root, None) for piece in payloads
        ]
        return True

    def _pin_any(self, payloads: Sequence[Any], writable: bool) -> None:
        self._records = array("Q", bytes(_BUFFER_BYTES * len(payloads)))
        flags = _WRITABLE if writable else _SIMPLE
        record = self._records.buffer_info()[0]
        special: list[tuple[int, int, int]] = []
        for index, payload in enumerate(payloads):
            try:
                _get_buffer(payload, record, flags)
                self._taken.append(record)
            except (TypeError, BufferError, ValueError) as error:
                special.append((index, *self._pin_special(index, payload, writable, error)))
            record += _BUFFER_BYTES
        self.bases = self._records[0::BUFFER_WORDS].tolist()
        self.sizes = self._records[2::BUFFER_WORDS].tolist()
        for index, base, size in special:
            self.bases[index], self.sizes[index] = base, size

    def _pin_special(
        self, index: int, payload: Any, writable: bool, error: Exception
    ) -> tuple[int, int]:
        if isinstance(payload, (list, tuple)):
            pieces = Pins(payload, writable)
            self._extra.append(pieces)
            self.devices += pieces.devices
            if pieces.scattered:
                raise TypeError("the pieces of a scattered payload may not be lists themselves")
            self.scattered[index] = array("Q", chain.from_iterable(zip(pieces.bases, pieces.sizes)))
            return 0, sum(pieces.sizes)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(payload, torch.Tensor):
            place: Place | None = _tensor_place(payload)
        else:
            place = place_of(payload, writable)
        if place is not None:
            if place.where:
                self.devices.append(place)
            self._kept.append(place.holder)
            return place.address, place.length
        raise _explain(payload, writable, error) from error

    def release(self) -> None:
        """Lets go of the memory; more than once does no harm."""
        while self._taken:
            _release_buffer(self._taken.pop())
        while self._extra:
            self._extra.pop().release()
        self._kept.clear()
        self._holders = ()

    def __del__(self) -> None:
        self.release()


def _tensor_place(tensor: Any) -> Place:
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(
            f"the tensor lives on {tensor.device}; only memory of the host and of CUDA devices can "
            "be moved: copy it with tensor.cpu() first, or receive into a pinned CPU tensor"
        )
    if str(tensor.layout) != "torch.strided" or not tensor.is_contiguous():
        raise ValueError("the tensor is not contiguous; use tensor.contiguous() first")
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError("the tensor is a lazy conjugate or negative; use tensor.resolve_conj()")
    where = "" if tensor.device.type == "cpu" else str(tensor.device)
    return place_on_device(tensor.data_ptr(), tensor.numel() * tensor.element_size(), where)


def _explain(payload: Any, writable: bool, error: Exception) -> Exception:
    """The error that says what to do about a payload that gives no simple buffer."""
    kind = type(payload).__name__
    if isinstance(payload, str):
        return TypeError("a payload is bytes-like, not str; encode it first")
    try:
        view = memoryview(payload)
    except TypeError:
        wanted = "a bytearray" if writable else "bytes"
        return TypeError(
            f"a payload is {wanted}, a buffer, a numpy array, a torch tensor, an array on a GPU or "
            f"a list of those, not {kind}"
        )
    except (BufferError, ValueError):
        return ValueError(f"{kind} gives no access to its memory: {error}")
    with view:
        if writable and view.readonly:
            return TypeError(
                f"{kind} is read-only; give a bytearray, a writable numpy array or a CPU tensor"
            )
        if not view.c_contiguous:
            return ValueError(
                f"{kind} is not contiguous in C order; use numpy.ascontiguousarray(), or for "
                "receiving give the pieces as a list"
            )
    return ValueError(f"{kind} gives no access to its memory: {error}")


class Items:
    """An array of ``struct kvasir_item`` with everything its pointers point to."""

    __slots__ = ("_blob", "address", "count", "keys", "pins", "sentence", "words")

    def __init__(
        self,
        keys: Sequence[Key],
        payloads: Sequence[Any] | None = None,
        writable: bool = False,
    ) -> None:
        if isinstance(keys, (str, bytes, bytearray)):
            raise TypeError("a batch takes a sequence of keys, not one key")
        plain = [key if type(key) is bytes else key_bytes(key) for key in keys]
        count = len(plain)
        if payloads is not None and len(payloads) != count:
            raise ValueError(f"{count} keys but {len(payloads)} payloads")
        self.pins = None if payloads is None else Pins(payloads, writable)
        self.keys = plain
        self.sentence = ""
        self.count = count
        self._blob = blob = b"".join(plain)
        lengths = list(map(len, plain))
        addresses = accumulate(lengths[:-1], initial=bytes_address(blob))
        none = repeat(0)
        bases, sizes = (none, none) if self.pins is None else (self.pins.bases, self.pins.sizes)
        self.words: array[int] = array(
            "Q",
            chain.from_iterable(
                zip(addresses, lengths, none, none, bases, sizes, none, none, none)
            ),
        )
        self.address = self.words.buffer_info()[0]
        if self.pins is not None and self.pins.scattered:
            for index, pieces in self.pins.scattered.items():
                word = index * ITEM_WORDS
                self.words[word + 2] = pieces.buffer_info()[0]
                self.words[word + 3] = len(pieces) // 2

    def failed_on_device(self) -> bool:
        """Whether a copy from or to a GPU failed, which the library has a sentence about."""
        words = self.words[ITEM_STATUS::ITEM_WORDS]
        return any(status_of(word) in (Status.IO, Status.NO_MEMORY) for word in words)

    def release(self) -> None:
        """Lets go of the payload memory."""
        if self.pins is not None:
            self.pins.release()


def status_of(word: int) -> int:
    """The signed 32-bit status in an item's word."""
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >= 1 << 31 else word
