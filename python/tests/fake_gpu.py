"""GPU memory for tests: a CUDA driver of memory files (tests/fake/cuda), and arrays on it that
speak the protocols. A process that loaded it has the driver, by its name, as one with a GPU has."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUILD = Path(os.environ.get("KVASIR_BUILD", "."))
DRIVER = BUILD / "tests/fake_cuda/libcuda.so.1"
MODULE = BUILD / "modules/cuda.so"


class Driver:
    """The library. A CPU that touches its devices' memory dies; ``look`` is for tests."""

    def __init__(self) -> None:
        self.library = library = ctypes.CDLL(str(DRIVER))
        library.fake_cuda_alloc.restype = ctypes.c_void_p
        library.fake_cuda_alloc.argtypes = [ctypes.c_int, ctypes.c_size_t]
        library.fake_cuda_free.argtypes = [ctypes.c_void_p]
        library.fake_cuda_look.restype = ctypes.c_void_p
        library.fake_cuda_look.argtypes = [ctypes.c_void_p]
        library.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_int]

    def alloc(self, length: int, device: int = 0) -> int:
        address: int = self.library.fake_cuda_alloc(device, length)
        return address

    def free(self, address: int) -> None:
        self.library.fake_cuda_free(address)

    def bytes_at(self, address: int, length: int) -> bytes:
        return ctypes.string_at(self.library.fake_cuda_look(address), length)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(self.library.fake_cuda_look(address), data, len(data))

    def fail(self, call: str, error: int = 999) -> None:
        """The next call of this name answers with the error."""
        self.library.fake_cuda_fail(call.encode(), 0, error)

    def left(self) -> int:
        """Contexts, streams and pinned pieces that were not given back."""
        left: int = self.library.fake_cuda_left()
        return left

    @contextlib.contextmanager
    def memory(self, length: int, device: int = 0) -> Iterator[Memory]:
        memory = Memory(self, length, device)
        yield memory
        self.free(memory.address)


class Memory:
    """An allocation on a device."""

    def __init__(self, driver: Driver, length: int, device: int = 0) -> None:
        self.driver = driver
        self.device = device
        self.length = length
        self.address = driver.alloc(length, device)

    def array(self, offset: int = 0, length: int | None = None, **changes: Any) -> Array:
        """The bytes as an array with __cuda_array_interface__; changes are entries of that."""
        count = self.length - offset if length is None else length
        return Array(self.address + offset, count, changes)

    def tensor(self, offset: int = 0, length: int | None = None, **options: Any) -> Tensor:
        """The bytes as an array that speaks DLPack."""
        count = self.length - offset if length is None else length
        return Tensor(self.address + offset, count, self.device, **options)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        count = self.length - offset if length is None else length
        return self.driver.bytes_at(self.address + offset, count)

    def write(self, data: bytes, offset: int = 0) -> None:
        self.driver.write(self.address + offset, data)


class Array:
    def __init__(self, address: int, length: int, changes: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = {
            "shape": (length,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
            **changes,
        }


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object


class Tensor:
    """Sixteen-bit items in two rows. Old: it knows nothing of versions."""

    def __init__(
        self,
        address: int,
        length: int,
        device: int,
        *,
        old: bool = False,
        read_only: bool = False,
        strides: tuple[int, int] | None = None,
        device_type: int = 2,
        major: int = 1,
    ) -> None:
        self.shape = (ctypes.c_int64 * 2)(2, length // 4)
        self.strides = (ctypes.c_int64 * 2)(*strides) if strides else None
        self.place = (device_type, device)
        self.old = old
        self.record = _Versioned(
            major=major,
            flags=int(read_only),
            data=address - 64,
            byte_offset=64,
            device_type=device_type,
            device_id=device,
            ndim=2,
            code=2,
            bits=16,
            lanes=1,
            shape=ctypes.addressof(self.shape),
            strides=ctypes.addressof(self.strides) if self.strides else None,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        assert stream == -1, "nobody is to wait"
        start = ctypes.addressof(self.record)
        if self.old:
            if options:
                raise TypeError("max_version is unknown")
            return _new_capsule(start + _Versioned.data.offset, b"dltensor", None)
        return _new_capsule(start, b"dltensor_versioned", None)
