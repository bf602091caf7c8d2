"""Fixtures: a real server, and clients that reach it in each of the three ways."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kvasir
from kvasir.server import Server, find_server

PATHS = ("tcp", "unix", "shm")


def _port_range() -> tuple[int, int]:
    first, last = os.environ.get("KVASIR_TEST_PORTS", "21200-21299").split("-")
    return int(first), int(last) + 1


# A machine with other work is late by less than this; what hangs is later.
SLACK_S = 3.0

StartServer = Callable[..., Server]


@pytest.fixture(scope="session")
def binary() -> str:
    """The server's binary; tests that need it are skipped where there is none."""
    try:
        path = find_server()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    if not os.access(path, os.X_OK):
        pytest.skip(f"{path} is not there")
    return path


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder with a short name: socket paths have at most 107 bytes."""
    path = tempfile.mkdtemp(prefix="kvasir-")
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def shared_servers(binary: str, folder: Path) -> Iterator[list[Server]]:
    """The shared server, last in the list; those before it did not survive their test."""
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture
def shared_server(shared_servers: list[Server], folder: Path) -> Iterator[Server]:
    """One server for all tests that do it no harm; one that dies fails the test it died in."""
    if not shared_servers or not shared_servers[-1].running:
        shared_servers.append(
            Server(
                0,
                folder / f"{len(shared_servers)}.sock",
                reactors=2,
                maxmemory="256mb",
                shm_staging_max="32mb",
                huge_pages=False,
                port_range=_port_range(),
            )
        )
    server = shared_servers[-1]
    yield server
    assert server.running, f"the server died:\n{server.log_tail()}"


@pytest.fixture
def start_server(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers of a test's own and stops them after it."""
    started: list[Server] = []
    folders: list[str] = []

    def start(**options: object) -> Server:
        folders.append(tempfile.mkdtemp(prefix="kvasir-"))
        arguments: dict[str, object] = {
            "port": 0,
            "unixsocket": folders[-1] + "/k.sock",
            "reactors": 2,
            "maxmemory": "96mb",
            "huge_pages": False,
            "port_range": _port_range(),
            **options,
        }
        server = Server(**arguments)  # type: ignore[arg-type]
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server's process stands still (all its threads, for certain) inside the block."""
    server.signal(signal.SIGSTOP)
    try:
        end = time.monotonic() + 5
        states = {""}
        while states - {"T"}:
            assert time.monotonic() < end
            states = {
                thread.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0]
                for thread in Path(f"/proc/{server.pid}/task").iterdir()
            }
        yield
    finally:
        server.signal(signal.SIGCONT)


def connect(server: Server, path: str, **options: object) -> kvasir.Client:
    """A client of the server whose values take the path."""
    address = server.tcp_address if path == "tcp" else server.address
    return kvasir.Client(address, shm=path == "shm", **options)  # type: ignore[arg-type]


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def client(shared_server: Server, path: str) -> Iterator[kvasir.Client]:
    """A client for each path in turn."""
    with connect(shared_server, path) as made:
        yield made


@pytest.fixture
def shm_client(shared_server: Server) -> Iterator[kvasir.Client]:
    with connect(shared_server, "shm") as made:
        yield made


@pytest.fixture
def key() -> Callable[[str], bytes]:
    """Makes keys that no other test uses."""
    prefix = uuid.uuid4().hex[:12]
    return lambda name="": f"{prefix}:{name}".encode()
