"""Memory of GPUs: what objects say of theirs, and pieces of it by their address.

An object tells by ``__cuda_array_interface__`` (cupy, numba) or by DLPack. Nothing here asks a
driver: whether the library can use the memory turns out when it is registered.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

_DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED = 2, 3, 13
_DLPACK_READ_ONLY = 1
# No stream of ours is to wait for the producer's: that is the caller's to see to.
_DLPACK_NO_STREAM = -1
_ITEM = re.compile(r"[<>|=][a-zA-Z](\d+)")


class Place(NamedTuple):
    """Where a payload's bytes lie."""

    address: int
    length: int
    where: str
    """"cuda:0"; empty: the host's memory."""
    root: tuple[int, int]
    """Address and length of the memory that it is a piece of."""
    holder: Any
    """What keeps the memory where it is, besides the payload itself."""


class DeviceBuffer:
    """A piece of a GPU's memory by its address, for who has no array around it. A slice of bytes of
    it is another one; ``owner`` is kept alive with them. All calls take it as they take an array on
    the GPU, and quicker where a value is made of many pieces."""

    __slots__ = ("address", "device", "nbytes", "owner", "root")

    def __init__(self, address: int, nbytes: int, device: str = "cuda", owner: Any = None) -> None:
        if address < 0 or nbytes < 0:
            raise ValueError(
                f"a device buffer has an address and a length, not {address}, {nbytes}"
            )
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self.owner = owner
        self.root = (address, nbytes)

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> DeviceBuffer:
        start, stop, step = part.indices(self.nbytes)
        if step != 1:
            raise ValueError("a piece of a device buffer has no gaps: its step is 1")
        piece = DeviceBuffer(self.address + start, max(0, stop - start), self.device, self.owner)
        piece.root = self.root
        return piece

    def __repr__(self) -> str:
        return f"<kvasir.DeviceBuffer {self.nbytes} bytes at {self.address:#x} of {self.device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }


def place_on_device(address: int, length: int, where: str, holder: Any = None) -> Place:
    """The whole of an object's memory."""
    return Place(address, length, where, (address, length), holder)


def place_of(payload: Any, writable: bool) -> Place | None:
    """Where an object that speaks one of the protocols has its bytes; None: it speaks none, or lies
    in the host's memory like any other. TypeError, ValueError: it cannot be moved as it is."""
    interface = getattr(payload, "__cuda_array_interface__", None)
    if isinstance(interface, dict):
        return _of_interface(payload, interface, writable)
    if hasattr(payload, "__dlpack__") and hasattr(payload, "__dlpack_device__"):
        return _of_dlpack(payload, writable)
    return None


def _of_interface(payload: Any, interface: dict[str, Any], writable: bool) -> Place:
    kind = type(payload).__name__
    address, read_only = interface["data"]
    item = _ITEM.match(interface["typestr"])
    if item is None or interface.get("mask") is not None:
        raise TypeError(f"{kind} has items that are no plain bytes: {interface['typestr']!r}")
    _check(kind, read_only and writable, interface["shape"], interface.get("strides"), int(item[1]))
    length = _product(interface["shape"]) * int(item[1])
    return place_on_device(address or 0, length, f"the GPU of {kind}")


def _check(
    kind: str, refused: bool, shape: Sequence[int], strides: Sequence[int] | None, item: int
) -> None:
    """Strides are in bytes."""
    if refused:
        raise TypeError(f"{kind} is read-only; give a writable array")
    expected = item
    for size, stride in reversed(list(zip(shape, strides or ()))):
        if size > 1 and stride != expected:
            raise ValueError(f"{kind} is not contiguous in C order; make a contiguous copy first")
        expected *= size


def _product(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


class _Tensor(ctypes.Structure):
    """struct DLTensor of dlpack.h."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """struct DLManagedTensorVersioned of dlpack.h."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, c_char_p]
_capsule_pointer.restype = c_void_p


def _of_dlpack(payload: Any, writable: bool) -> Place | None:
    kind = type(payload).__name__
    device_type, device = payload.__dlpack_device__()
    if device_type not in (_DLPACK_CUDA, _DLPACK_CUDA_HOST, _DLPACK_CUDA_MANAGED):
        return None
    # As long as nobody renames the capsule its end gives the memory back.
    try:
        capsule = payload.__dlpack__(stream=_DLPACK_NO_STREAM, max_version=(1, 0))
    except TypeError:
        capsule = payload.__dlpack__(stream=_DLPACK_NO_STREAM)
    read_only = False
    if _capsule_is(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise TypeError(f"{kind} speaks DLPack {versioned.major}; 1 is known here")
        read_only = bool(versioned.flags & _DLPACK_READ_ONLY)
        tensor = versioned.tensor
    else:
        tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    item_bits = tensor.bits * tensor.lanes
    if item_bits % 8 != 0:
        raise TypeError(f"{kind} has items of {item_bits} bits")
    shape = tensor.shape[: tensor.ndim]
    strides = (
        [stride * (item_bits // 8) for stride in tensor.strides[: tensor.ndim]]
        if tensor.strides
        else None
    )
    _check(kind, read_only and writable, shape, strides, item_bits // 8)
    where = f"cuda:{device}" if device_type == _DLPACK_CUDA else ""
    address = (tensor.data or 0) + tensor.byte_offset
    return place_on_device(address, _product(shape) * item_bits // 8, where, capsule)
