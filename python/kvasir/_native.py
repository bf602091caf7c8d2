"""Access to libkvasir through ctypes: finding it, its prototypes, its struct layouts.

Functions that may wait are called with the interpreter lock released, those that only look at
memory keep it. Structs that the hot path fills are not built field by field: an item is nine
64-bit words in an ``array('Q')``. That such words are what the C compiler sees is checked here,
once, against the ctypes mirrors of ``kvasir/client.h``.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from ctypes import (
    POINTER,
    c_bool,
    c_char,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

from ._version import __version__

LIBRARY_NAME = "libkvasir.so.0"
LIBRARY_VARIABLE = "KVASIR_LIBRARY"

# Words of one struct kvasir_item.
ITEM_WORDS = 9
ITEM_STATUS, ITEM_LENGTH, ITEM_PATH = 6, 7, 8
# Words of one Py_buffer: the address is the first, the length the third.
BUFFER_WORDS = 10

CALL_PUT, CALL_GET, CALL_EXISTS, CALL_DELETE, CALL_MATCH = 1, 2, 3, 4, 5
# In the order of enum kvasir_buffer, and those of them that are a device's memory.
BUFFER_KINDS = ("none", "host", "device", "staged")
DEVICE_KINDS = (2, 3)
PATH_NAMES = ("none", "tcp", "unix", "shm", "rdma", "rdma-client")


class Iovec(ctypes.Structure):
    _fields_ = [("iov_base", c_void_p), ("iov_len", c_size_t)]


class Item(ctypes.Structure):
    _fields_ = [
        ("key", c_void_p),
        ("key_length_bytes", c_size_t),
        ("segments", c_void_p),
        ("segment_count", c_uint32),
        ("segment", Iovec),
        ("status", c_int),
        ("length_bytes", c_size_t),
        ("path", c_int),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("address", c_char_p),
        ("user", c_char_p),
        ("password", c_char_p),
        ("name", c_char_p),
        ("timeout_ms", c_uint32),
        ("connect_timeout_ms", c_uint32),
        ("backoff_min_ms", c_uint32),
        ("backoff_max_ms", c_uint32),
        ("shm", c_bool),
        ("staging_bytes", c_size_t),
        ("lease_ms", c_uint32),
        ("rdma", c_bool),
        ("rdma_module", c_char_p),
        ("rdma_device", c_char_p),
        ("rdma_gid_index", c_int),
        ("rdma_mtu_bytes", c_uint32),
        ("rdma_mode", c_int),
        ("cuda_module", c_char_p),
        ("bounce_bytes", c_size_t),
        ("rdma_traffic_class", c_uint8),
    ]


class PutOptions(ctypes.Structure):
    _fields_ = [
        ("only_if_absent", c_bool),
        ("checksum", c_bool),
        ("value_class", c_int),
        ("ttl_ms", c_uint64),
        ("parent", c_char_p),
        ("parent_length_bytes", c_size_t),
        ("chain", c_bool),
        ("cost", c_uint64),
    ]


class SubmitOptions(ctypes.Structure):
    _fields_ = [
        ("put", POINTER(PutOptions)),
        ("pin_ms", c_uint32),
        ("timeout_ms", c_uint32),
        ("user_data", c_void_p),
    ]


class StatRecord(ctypes.Structure):
    _fields_ = [
        ("length_bytes", c_size_t),
        ("stored_bytes", c_size_t),
        ("checksum", c_uint64),
        ("checksum_valid", c_bool),
        ("value_class", c_int),
        ("ttl_ms", c_int64),
        ("pin_ms", c_int64),
        ("hit_count", c_uint64),
        ("generation", c_uint64),
        ("lease_count", c_uint32),
        ("codec", c_char * 16),
        ("tier", c_char * 16),
    ]


class EventRecord(ctypes.Structure):
    _fields_ = [
        ("number", c_uint64),
        ("kind", c_int),
        ("database", c_uint32),
        ("shard", c_uint32),
        ("key", c_void_p),
        ("key_length_bytes", c_size_t),
        ("length_bytes", c_size_t),
        ("tier", c_char * 16),
    ]


COUNTER_NAMES = (
    "calls",
    "round_trips",
    "reconnects",
    "timeouts",
    "errors",
    "put_items",
    "put_bytes",
    "get_hits",
    "get_misses",
    "get_bytes",
    "tcp_bytes",
    "unix_bytes",
    "shm_bytes",
    "rdma_bytes",
    "rdma_client_bytes",
    "path_fallbacks",
    "leases_expired",
    "bounced_bytes",
)


class CountersRecord(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in COUNTER_NAMES]


class ServerInfoRecord(ctypes.Structure):
    _fields_ = [
        ("version", c_char * 32),
        ("node_id", c_char * 48),
        ("reactor_count", c_uint32),
        ("value_bytes_max", c_uint64),
        ("key_bytes_max", c_uint32),
        ("shm", c_bool),
        ("rdma", c_bool),
    ]


# What a 64-bit C compiler makes of the structs in kvasir/client.h: name, mirror, bytes. A test
# compiles the header and compares; this table is compared with the mirrors at every import.
LAYOUTS: tuple[tuple[str, type[ctypes.Structure], int], ...] = (
    ("iovec", Iovec, 16),
    ("kvasir_item", Item, 8 * ITEM_WORDS),
    ("kvasir_options", Options, 136),
    ("kvasir_put_options", PutOptions, 48),
    ("kvasir_submit_options", SubmitOptions, 24),
    ("kvasir_stat", StatRecord, 104),
    ("kvasir_key_event", EventRecord, 64),
    ("kvasir_counters", CountersRecord, 8 * len(COUNTER_NAMES)),
    ("kvasir_server_info", ServerInfoRecord, 104),
)

_CLIENT_P = POINTER(c_void_p)
_PUT_P = POINTER(PutOptions)

# name: (result, arguments, whether the interpreter lock is released during the call)
_PROTOTYPES: dict[str, tuple[Any, list[Any], bool]] = {
    "kvasir_options_init": (None, [c_void_p], False),
    "kvasir_connect": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p)], True),
    "kvasir_close": (None, [_CLIENT_P], True),
    "kvasir_path": (c_int, [c_void_p], False),
    "kvasir_error": (c_char_p, [c_void_p], False),
    "kvasir_put_batch": (c_int, [c_void_p, c_void_p, c_size_t, _PUT_P, c_uint32], True),
    "kvasir_get_batch": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32], True),
    "kvasir_get_view_batch": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_uint32], True),
    "kvasir_view_length_bytes": (c_size_t, [c_void_p], False),
    "kvasir_view_segments": (c_void_p, [c_void_p, POINTER(c_uint32)], False),
    "kvasir_view_deadline_us": (c_int64, [c_void_p], False),
    "kvasir_view_release": (None, [POINTER(c_void_p)], False),
    "kvasir_exists": (c_int, [c_void_p, c_char_p, c_size_t, c_uint32], True),
    "kvasir_exists_batch": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32], True),
    "kvasir_match": (
        c_int,
        [c_void_p, c_void_p, c_size_t, c_uint32, POINTER(c_size_t), c_uint32],
        True,
    ),
    "kvasir_delete": (c_int, [c_void_p, c_char_p, c_size_t, c_uint32], True),
    "kvasir_delete_batch": (c_int, [c_void_p, c_void_p, c_size_t, c_uint32], True),
    "kvasir_stat": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(StatRecord), c_uint32], True),
    "kvasir_stat_batch": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_uint32], True),
    "kvasir_submit": (
        c_int,
        [c_void_p, c_int, c_void_p, c_size_t, POINTER(SubmitOptions), POINTER(c_void_p)],
        True,
    ),
    "kvasir_poll": (c_int, [c_void_p, c_int, POINTER(c_void_p)], True),
    "kvasir_request_status": (c_int, [c_void_p], False),
    "kvasir_request_user_data": (c_void_p, [c_void_p], False),
    "kvasir_request_match_count": (c_size_t, [c_void_p], False),
    "kvasir_request_free": (None, [c_void_p, POINTER(c_void_p)], True),
    "kvasir_events_open": (
        c_int,
        [c_void_p, c_uint64, c_uint32, c_uint32, POINTER(c_void_p)],
        True,
    ),
    "kvasir_events_poll": (
        c_int,
        [c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_size_t)],
        True,
    ),
    "kvasir_events_number": (c_uint64, [c_void_p], False),
    "kvasir_events_close": (None, [POINTER(c_void_p)], False),
    "kvasir_counters": (None, [c_void_p, POINTER(CountersRecord)], False),
    "kvasir_server_info": (None, [c_void_p, POINTER(ServerInfoRecord)], False),
    "kvasir_register": (c_int, [c_void_p, c_void_p, c_size_t], True),
    "kvasir_unregister": (c_int, [c_void_p, c_void_p, c_size_t], True),
    "kvasir_buffer": (c_int, [c_void_p, c_void_p, c_size_t], False),
    "kvasir_version": (c_char_p, [], False),
}


def find_library() -> str:
    """The library to load: $KVASIR_LIBRARY, else the wheel's own, else the system's by name."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return named
    bundled = Path(__file__).parent / "_lib" / LIBRARY_NAME
    return str(bundled) if bundled.exists() else LIBRARY_NAME


def _check_layouts() -> None:
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        raise ImportError("kvasir needs a 64-bit little-endian machine")
    for name, mirror, size in LAYOUTS:
        if ctypes.sizeof(mirror) != size:
            raise ImportError(
                f"kvasir: struct {name} has {ctypes.sizeof(mirror)} bytes here instead of {size}"
            )
    words = [Item.key, Item.key_length_bytes, Item.segments, Item.segment_count, Item.segment]
    offsets = [field.offset for field in words] + [40, Item.status.offset]
    offsets += [Item.length_bytes.offset, Item.path.offset]
    if offsets != [8 * word for word in range(ITEM_WORDS)]:
        raise ImportError(f"kvasir: struct kvasir_item has its fields at {offsets}")


class Library:
    """The loaded library; each function is an attribute under its C name without ``kvasir_``."""

    def __init__(self, path: str) -> None:
        _check_layouts()
        try:
            waiting, looking = ctypes.CDLL(path), ctypes.PyDLL(path)
        except OSError as error:
            raise ImportError(
                f"kvasir: the client library cannot be loaded ({error}); install the wheel, or "
                f"name a built {LIBRARY_NAME} in ${LIBRARY_VARIABLE}"
            ) from error
        self.file = path
        missing = []
        for name, (result, arguments, releases_lock) in _PROTOTYPES.items():
            function = getattr(waiting if releases_lock else looking, name, None)
            if function is None:
                missing.append(name)
                continue
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("kvasir_"), function)
        if missing:
            raise ImportError(
                f"kvasir: {path} lacks {', '.join(missing)}; it is not the library of "
                f"version {__version__}"
            )
        self._check_version()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"libkvasir has no function kvasir_{name}")

    def _check_version(self) -> None:
        version = (self.version() or b"").decode("utf-8", "replace")
        if version.split(".")[:2] != __version__.split(".")[:2]:
            raise ImportError(
                f"kvasir: {self.file} is version {version}, the package is {__version__}"
            )
        self.new_options()

    def new_options(self) -> Options:
        """Default options. The library's own size is compared before any field is believed."""
        room = (c_uint64 * 64)()
        self.options_init(ctypes.addressof(room))
        if room[0] != ctypes.sizeof(Options):
            raise ImportError(
                f"kvasir: {self.file} has options of {room[0]} bytes, "
                f"the package knows {ctypes.sizeof(Options)}"
            )
        return Options.from_buffer_copy(room)


library = Library(find_library())
