"""The server that comes with the package, as a child process and as a command."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import StartServer, _port_range

import kvasir
from kvasir.server import Server, ServerError, free_port


def test_server_starts_answers_and_ends(start_server: StartServer) -> None:
    server = start_server()
    assert server.port
    assert server.running
    with kvasir.Client(server.tcp_address) as client:
        client.put("a", b"1")
    with kvasir.Client(server.address) as client:
        assert client.get("a") == b"1"
    assert server.stop() == 0
    assert not server.running
    assert server.stop() == 0
    assert server.log_tail()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_server_without_a_port_has_only_its_socket(start_server: StartServer) -> None:
    server = start_server(port=None)
    with kvasir.Client(server.address) as client:
        assert client.put("a", b"1") is True
    with pytest.raises(ValueError, match="no TCP port"):
        _ = server.tcp_address


def test_server_without_a_door_is_refused() -> None:
    with pytest.raises(ValueError, match="port, a unixsocket or both"):
        Server(None)


def test_server_that_does_not_start_says_why(start_server: StartServer) -> None:
    with pytest.raises(ServerError, match="maxmemory"):
        start_server(maxmemory="banana")


def test_server_on_a_busy_port_says_so(start_server: StartServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port("127.0.0.1", 1, _port_range())))
        taken.listen()
        with pytest.raises(ServerError, match=str(taken.getsockname()[1])):
            start_server(port=taken.getsockname()[1])


def test_server_that_ignores_sigterm_is_killed(start_server: StartServer) -> None:
    server = start_server(stop_timeout=0.3)
    server.signal(signal.SIGSTOP)
    assert server.stop() == -signal.SIGKILL


def test_server_runs_as_a_module(binary: str) -> None:
    with tempfile.TemporaryDirectory(prefix="kvasir-") as folder:
        where = f"{folder}/k.sock"
        command = [sys.executable, "-m", "kvasir.server", "--port", "0", "--unixsocket", where]
        command += ["--maxmemory", "64mb", "--reactors", "1"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                for _ in range(1000):
                    if Path(where).exists():
                        break
                    assert process.poll() is None
                    signal.sigtimedwait([], 0.01)
                with kvasir.Client(f"unix://{where}") as client:
                    assert client.put("a", b"1") is True
                # The module became the server: the process that was started is the one to end.
                assert "kvasir-server" in os.readlink(f"/proc/{process.pid}/exe")
                process.terminate()
                assert process.wait(10) == 0
            finally:
                process.kill()
