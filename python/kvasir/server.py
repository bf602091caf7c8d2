"""The server that comes with the package.

``python -m kvasir.server --port 6379`` (or the script ``kvasir-server``) becomes the server.
:class:`Server` runs one as a child process, for tests and demonstrations.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import TracebackType

SERVER_NAME = "kvasir-server"
SERVER_VARIABLE = "KVASIR_SERVER"

# Below the range from which the kernel takes ports of outgoing connections.
_PORT_RANGE = (20000, 32000)
_PORT_TRIES = 100
_START_TRIES = 3
_LOG_TAIL_BYTES = 4000


class ServerError(RuntimeError):
    """The server did not start; the text ends with what it last wrote to its log."""


def find_server() -> str:
    """The binary: $KVASIR_SERVER, else the wheel's own, else the one on PATH. Raises
    FileNotFoundError when there is none."""
    named = os.environ.get(SERVER_VARIABLE)
    if named:
        return named
    bundled = Path(__file__).parent / "_bin" / SERVER_NAME
    if bundled.exists():
        return str(bundled)
    # The console script of this package has the same name; it would call itself for ever.
    scripts = os.path.realpath(os.path.dirname(sys.executable))
    for folder in os.get_exec_path():
        found = shutil.which(SERVER_NAME, path=folder)
        if found and os.path.realpath(folder) != scripts:
            return found
    raise FileNotFoundError(
        f"no {SERVER_NAME}: it is not in this package ({bundled}) and not on PATH; install the "
        f"wheel, or name a built one in ${SERVER_VARIABLE}"
    )


def main() -> NoReturn:
    """Replaces this process by the server, with the same arguments."""
    try:
        path = find_server()
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"kvasir.server: {error}")


def _ports_free(host: str, first: int, count: int) -> bool:
    for port in range(first, first + count):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                return False
    return True


def free_port(host: str, count: int, port_range: tuple[int, int] = _PORT_RANGE) -> int:
    """The first of ``count`` neighbouring TCP ports that nobody listens on just now. Raises
    OSError when the range (its end is not part of it) has none."""
    last = max(port_range[0], port_range[1] - count)
    for _ in range(_PORT_TRIES):
        first = random.randint(port_range[0], last)
        if _ports_free(host, first, count):
            return first
    raise OSError(errno.EADDRINUSE, f"no {count} free ports in {port_range[0]}-{port_range[1]}")


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _stop(process: subprocess.Popen[bytes], timeout: float) -> int:
    """SIGTERM, and SIGKILL when that does not end it in time; returns the exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


class Server:
    """A server as a child process: starts, waits until it answers, stops at the end.

    ``port=0`` takes free ports (one shared, one per reactor), ``port=None`` none at all. Further
    options are those of ``kvasir-server --help`` with ``_`` for ``-``:
    ``Server(maxmemory="256mb", reactors=2, unixsocket="/tmp/k.sock")``; True and False become yes
    and no, None leaves the option out. ``log`` is a file for what the server writes (None: a
    temporary one). It also ends with this process, unless that is killed.

    Raises FileNotFoundError (no binary), ServerError (it ended or did not answer within
    ``start_timeout`` seconds), OSError (no free port).
    """

    def __init__(
        self,
        port: int | None = 0,
        unixsocket: str | os.PathLike[str] | None = None,
        *,
        start_timeout: float = 30.0,
        stop_timeout: float = 15.0,
        log: str | os.PathLike[str] | None = None,
        port_range: tuple[int, int] = _PORT_RANGE,
        **options: object,
    ) -> None:
        if port is None and unixsocket is None:
            raise ValueError("a server needs a port, a unixsocket or both")
        self.host = str(options.get("bind") or "127.0.0.1")
        self.port = port
        self.socket = None if unixsocket is None else os.fspath(unixsocket)
        self._options = {name: value for name, value in options.items() if value is not None}
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._port_range = port_range
        self._chosen = port == 0
        self._log_file = (
            tempfile.TemporaryFile() if log is None else open(log, "a+b")  # noqa: SIM115
        )
        self._last_log = ""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self._log_file.close()
            raise

    # ---- starting --------------------------------------------------------------------------

    def _start(self) -> None:
        for attempt in range(_START_TRIES):
            if self._chosen:
                reactors = int(str(self._options.get("reactors") or 0))
                reactors = reactors or len(os.sched_getaffinity(0))
                self.port = free_port(self._probe_host(), 1 + reactors, self._port_range)
            try:
                self._start_once()
                return
            except ServerError as error:
                # Somebody else may have taken a port between the look and the start.
                busy = self._chosen and "in use" in str(error)
                if not busy or attempt == _START_TRIES - 1:
                    raise

    def _start_once(self) -> None:
        command = [find_server(), "--port", str(self.port or 0)]
        if self.socket is not None:
            command += ["--unixsocket", self.socket]
        for name, value in self._options.items():
            command += ["--" + name.replace("_", "-"), _option_text(value)]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log_file, stderr=subprocess.STDOUT
        )
        self._finalizer = weakref.finalize(self, _stop, process, self._stop_timeout)
        end = time.monotonic() + self._start_timeout
        while not self._answers():
            if process.poll() is not None:
                raise ServerError(
                    f"{command[0]} ended with status {process.returncode}:\n{self.log_tail()}"
                )
            if time.monotonic() >= end:
                self._finalizer()
                raise ServerError(
                    f"{command[0]} does not answer after {self._start_timeout} s:\n"
                    f"{self.log_tail()}"
                )
            time.sleep(0.01)

    def _probe_host(self) -> str:
        return "127.0.0.1" if self.host in ("*", "0.0.0.0") else self.host

    def _answers(self) -> bool:
        """Whether it answers PING on each of its doors."""
        doors: list[tuple[socket.AddressFamily, tuple[str, int] | str]] = []
        if self.port:
            doors.append((socket.AF_INET, (self._probe_host(), self.port)))
        if self.socket is not None:
            doors.append((socket.AF_UNIX, self.socket))
        for family, address in doors:
            with socket.socket(family) as probe:
                probe.settimeout(1.0)
                try:
                    probe.connect(address)
                    probe.sendall(b"PING\r\n")
                    answer = probe.recv(64)
                except OSError:
                    return False
            if not answer.startswith((b"+PONG", b"-NOAUTH")):
                return False
        return True

    # ---- facts -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where a :class:`kvasir.Client` finds it: the Unix socket if there is one, else TCP."""
        return f"unix://{self.socket}" if self.socket is not None else self.tcp_address

    @property
    def tcp_address(self) -> str:
        """Its address by TCP. Raises ValueError when it has no port."""
        if not self.port:
            raise ValueError("the server has no TCP port")
        return f"tcp://{self._probe_host()}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the server, also after its end."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def log_tail(self) -> str:
        """The last lines that the server wrote."""
        if self._log_file.closed:
            return self._last_log
        descriptor = self._log_file.fileno()
        size = os.fstat(descriptor).st_size
        start = max(0, size - _LOG_TAIL_BYTES)
        return os.pread(descriptor, size - start, start).decode("utf-8", "replace")

    # ---- ending ----------------------------------------------------------------------------

    def stop(self) -> int:
        """Ends it: SIGTERM, after ``stop_timeout`` seconds SIGKILL. Returns its exit status
        (negative: the signal that ended it); again does no harm."""
        assert self._process is not None
        self._finalizer()
        if not self._log_file.closed:
            self._last_log = self.log_tail()
            self._log_file.close()
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Sends a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


if __name__ == "__main__":
    main()
