"""Kvasir: a KV-cache store for LLM inference. This package is its client and carries its server.

>>> import kvasir
>>> with kvasir.Client("tcp://127.0.0.1:6379") as client:
...     client.put("block", b"bytes")
...     client.get("block")
"""

from ._devices import DeviceBuffer
from ._native import library as _library
from ._version import __version__
from .client import Client, ServerInfo, Stat
from .errors import (
    Busy,
    Cancelled,
    Closed,
    Corrupt,
    Denied,
    Error,
    Expired,
    ForkedClient,
    Invalid,
    NoMemory,
    Overrun,
    Protocol,
    Quota,
    Status,
    SystemFailure,
    Timeout,
    TooLarge,
    TooSmall,
    Unsupported,
)
from .events import Event, Events
from .request import Request
from .view import View

__all__ = [
    "Busy",
    "Cancelled",
    "Client",
    "Closed",
    "Corrupt",
    "Denied",
    "DeviceBuffer",
    "Error",
    "Event",
    "Events",
    "Expired",
    "ForkedClient",
    "Invalid",
    "NoMemory",
    "Overrun",
    "Protocol",
    "Quota",
    "Request",
    "ServerInfo",
    "Stat",
    "Status",
    "SystemFailure",
    "Timeout",
    "TooLarge",
    "TooSmall",
    "Unsupported",
    "View",
    "__version__",
    "library_version",
]


def library_version() -> str:
    """Version of the loaded libkvasir."""
    version: bytes = _library.version()
    return version.decode()
