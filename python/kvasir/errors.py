"""Errors of the client: one class per status that a caller may want to tell apart."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """The status of a call or of one item, with the numbers of ``kvasir/types.h``."""

    OK = 0
    PENDING = 1
    AGAIN = 2
    NOT_FOUND = -1
    EXISTS = -2
    NO_MEMORY = -3
    TOO_LARGE = -4
    TOO_SMALL = -5
    INVALID = -6
    TIMEOUT = -7
    CLOSED = -8
    DENIED = -9
    UNSUPPORTED = -10
    PROTOCOL = -11
    CORRUPT = -12
    EXPIRED = -13
    IO = -14
    BUSY = -15
    CANCELLED = -16
    QUOTA = -17
    OVERRUN = -18


class Error(Exception):
    """Base of all errors that the library or the server reports.

    Attributes:
        status: the status behind it, a :class:`Status` (a plain int from a newer library).
        length_bytes: for :class:`TooSmall` the length of the value, otherwise None.
    """

    default_status = Status.INVALID

    def __init__(
        self, message: str, status: int | None = None, length_bytes: int | None = None
    ) -> None:
        super().__init__(message)
        self.status: int = self.default_status if status is None else status
        self.length_bytes = length_bytes


class Timeout(Error, TimeoutError):
    """The deadline passed first. After a put nobody knows whether the value was stored."""

    default_status = Status.TIMEOUT


class Closed(Error, ConnectionError):
    """The server is gone or refuses connections, or this client was closed."""

    default_status = Status.CLOSED


class Denied(Error):
    """Not authenticated, or not allowed."""

    default_status = Status.DENIED


class NoMemory(Error):
    """The store is full of values that may not be evicted, or memory ran out."""

    default_status = Status.NO_MEMORY


class TooLarge(Error):
    """The value or key is longer than the server can ever take."""

    default_status = Status.TOO_LARGE


class TooSmall(Error):
    """The buffer is shorter than the value; ``length_bytes`` says what it takes."""

    default_status = Status.TOO_SMALL


class Corrupt(Error):
    """The checksum of the payload differs."""

    default_status = Status.CORRUPT


class Expired(Error):
    """A lease or reservation ran out before it was used."""

    default_status = Status.EXPIRED


class Invalid(Error, ValueError):
    """An argument is malformed or out of range."""

    default_status = Status.INVALID


class Unsupported(Error):
    """This build, peer or path cannot do it (for example a view without shared memory)."""

    default_status = Status.UNSUPPORTED


class Protocol(Error):
    """The peer sent bytes that are not the protocol."""

    default_status = Status.PROTOCOL


class SystemFailure(Error):
    """The operating system failed a call."""

    default_status = Status.IO


class Busy(Error):
    """A limit on how many is reached; finish something first."""

    default_status = Status.BUSY


class Quota(NoMemory):
    """The tenant holds all that its burst allows, and none of that can go."""

    default_status = Status.QUOTA


class Overrun(Error):
    """What was asked for is not kept any more: events of too long ago."""

    default_status = Status.OVERRUN


class Cancelled(Error):
    """Withdrawn by the caller before it was done."""

    default_status = Status.CANCELLED


class ForkedClient(Error):
    """The client was made before a fork: its sockets belong to the parent. Make a new one."""

    default_status = Status.INVALID


_CLASSES: dict[int, type[Error]] = {
    int(cls.default_status): cls
    for cls in (
        Timeout,
        Closed,
        Denied,
        NoMemory,
        Quota,
        Overrun,
        TooLarge,
        TooSmall,
        Corrupt,
        Expired,
        Invalid,
        Unsupported,
        Protocol,
        SystemFailure,
        Busy,
        Cancelled,
    )
}


def from_status(status: int, message: str = "", length_bytes: int | None = None) -> Error:
    """Returns (does not raise) the error for a status; the message may be empty."""
    try:
        known: int = Status(status)
        words = Status(status).name.lower().replace("_", " ")
    except ValueError:
        known, words = status, f"status {status}"
    cls = _CLASSES.get(status, Error)
    return cls(f"{words}: {message}" if message else words, known, length_bytes)
