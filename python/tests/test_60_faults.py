"""Dead, stopped, absent and foreign servers; threads; forks. Nothing hangs, nothing crashes."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest
from conftest import SLACK_S, StartServer, connect, stopped

import kvasir
from kvasir.server import Server

KeyMaker = Callable[[str], bytes]


def test_faults_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises((kvasir.Closed, kvasir.Timeout)) as caught:
            kvasir.Client(address, connect_timeout=0.5)
    assert time.monotonic() - start < 0.5 + SLACK_S
    assert address.removeprefix("tcp://") in str(caught.value)


@pytest.mark.parametrize(
    "address", ["", "http://a:1", "tcp://a", "tcp://a:99999", "unix://", "a:b"]
)
def test_faults_bad_address_is_invalid(address: str) -> None:
    with pytest.raises(kvasir.Invalid):
        kvasir.Client(address)
    with pytest.raises(ValueError):
        kvasir.Client(address)


def test_faults_peer_that_is_no_server() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises((kvasir.Protocol, kvasir.Closed)):
            kvasir.Client(f"tcp://127.0.0.1:{port}", connect_timeout=2.0)
        thread.join(5)


def test_faults_silent_peer_is_a_timeout() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        start = time.monotonic()
        with pytest.raises(kvasir.Timeout):
            kvasir.Client(f"tcp://127.0.0.1:{listener.getsockname()[1]}", connect_timeout=0.3)
        assert time.monotonic() - start < 0.3 + SLACK_S


def test_faults_killed_server_is_an_error_at_once(start_server: StartServer, path: str) -> None:
    server = start_server()
    with connect(server, path) as client:
        client.put(b"a", bytes(1 << 20))
        server.signal(signal.SIGKILL)
        while server.running:
            time.sleep(0.01)
        for _ in range(3):
            start = time.monotonic()
            with pytest.raises((kvasir.Closed, kvasir.Timeout)):
                client.get(b"a", timeout=1.0)
            assert time.monotonic() - start < 1.0 + SLACK_S
        start = time.monotonic()
        results = client.get_into_batch([b"a", b"b"], [bytearray(1 << 20)] * 2, timeout=1.0)
        assert all(isinstance(result, (kvasir.Closed, kvasir.Timeout)) for result in results)
        assert time.monotonic() - start < 1.0 + SLACK_S


def test_faults_killed_server_leaves_views_readable(start_server: StartServer) -> None:
    server = start_server()
    with connect(server, "shm") as client:
        data = os.urandom(1 << 20)
        client.put(b"a", data)
        view = client.get_view(b"a")
        assert view is not None
        server.signal(signal.SIGKILL)
        while server.running:
            time.sleep(0.01)
        assert view.tobytes() == data
        view.release()


def test_faults_stopped_server_is_a_timeout(start_server: StartServer, path: str) -> None:
    server = start_server()
    with connect(server, path) as client:
        client.put(b"a", bytes(1 << 20))
        with stopped(server):
            for call in (
                lambda: client.get(b"a", timeout=0.3),
                lambda: client.exists(b"a", timeout=0.3),
                lambda: client.put(b"b", bytes(1 << 20), timeout=0.3),
                lambda: client.match([b"a"], timeout=0.3),
            ):
                start = time.monotonic()
                with pytest.raises((kvasir.Timeout, kvasir.Closed)):
                    call()
                assert time.monotonic() - start < 0.3 + SLACK_S
        end = time.monotonic() + 10
        while True:
            try:
                assert client.get(b"a", timeout=1.0) == bytes(1 << 20)
                break
            except (kvasir.Timeout, kvasir.Closed):
                assert time.monotonic() < end


def test_faults_restarted_server_is_found_again(start_server: StartServer, path: str) -> None:
    server = start_server()
    client = connect(server, path, backoff=(0.02, 0.1))
    client.put(b"a", b"1")
    port, where = server.port, server.socket
    server.stop()
    with pytest.raises((kvasir.Closed, kvasir.Timeout)):
        client.get(b"a", timeout=0.5)
    start_server(port=port, unixsocket=where)
    end = time.monotonic() + 10
    while True:
        try:
            assert client.get(b"a", timeout=1.0) is None
            break
        except (kvasir.Closed, kvasir.Timeout):
            assert time.monotonic() < end
            time.sleep(0.02)
    client.put(b"a", b"2")
    assert client.get(b"a") == b"2"
    assert client.counters()["reconnects"] >= 1
    client.close()


def _until_path(client: kvasir.Client, wanted: str, block: bytes) -> None:
    """Puts until one goes by the path; failures are what a restart is like."""
    end = time.monotonic() + 60
    seen: list[object] = []
    while time.monotonic() < end:
        try:
            client.put("k", block)
            if client.path == wanted:
                assert client.get("k") == block
                return
            seen.append(client.path)
        except kvasir.Error as error:
            seen.append(error)
        time.sleep(0.02)
    raise AssertionError(f"no put went by {wanted}: {seen[-5:]}")


def test_faults_client_leaves_shared_memory_and_returns(start_server: StartServer) -> None:
    block = os.urandom(100_000)
    server = start_server(reactors=3)
    port, path = server.port, server.socket
    with kvasir.Client(server.tcp_address, backoff=(0.01, 0.1), timeout=10.0) as client:
        _until_path(client, "shm", block)
        assert client.server_info().shm
        server.stop()
        # Fewer reactors, never more: only the first server's ports were looked at for being free.
        without = start_server(port=port, unixsocket=None, reactors=2)
        _until_path(client, "tcp", block)
        assert client.server_info().reactor_count == 2
        without.stop()
        start_server(port=port, unixsocket=path, reactors=3)
        _until_path(client, "shm", block)
        assert client.server_info().shm


def test_faults_shared_memory_that_comes_later_is_taken(start_server: StartServer) -> None:
    block = os.urandom(100_000)
    server = start_server()
    hidden = server.socket + ".hidden"
    os.rename(server.socket, hidden)
    with kvasir.Client(server.tcp_address, timeout=10.0) as client:
        client.put("k", block)
        assert client.path == "tcp"
        os.rename(hidden, server.socket)
        _until_path(client, "shm", block)


def test_faults_password(start_server: StartServer) -> None:
    server = start_server(requirepass="geheim")
    for password in (None, "falsch"):
        with pytest.raises(kvasir.Denied) as caught:
            connect(server, "tcp", password=password)
        assert "geheim" not in str(caught.value)
    for path in ("tcp", "unix", "shm"):
        with connect(server, path, password="geheim") as client:
            assert client.put(b"a", b"1") is True
            assert client.get(b"a") == b"1"


def test_faults_store_full_of_leases_evicts_none_of_them(start_server: StartServer) -> None:
    server = start_server(reactors=1)
    with connect(server, "shm") as client:
        leased: list[kvasir.View] = []
        # The server lets leases hold only a part of its memory.
        with pytest.raises((kvasir.Busy, kvasir.NoMemory)):
            for index in range(60):
                client.put(f"{index}", bytes([index]) * (2 << 20))
                view = client.get_view(f"{index}")
                assert view is not None
                leased.append(view)
        assert len(leased) >= 4
        with pytest.raises(kvasir.NoMemory):
            client.put("large", bytes(40 << 20))
        for index in range(60):
            client.put(f"flood {index}", bytes(2 << 20))
        keys = [f"{index}" for index in range(len(leased))]
        assert client.exists_batch(keys) == [True] * len(keys)
        for index, view in enumerate(leased):
            assert view.segments[0][:100] == bytes([index]) * 100
            view.release()
        assert client.put("large", bytes(40 << 20)) is True
        client.put("again", bytes(2 << 20))
        assert client.get_view("again") is not None


def test_faults_closed_client_says_so(shared_server: Server) -> None:
    client = connect(shared_server, "shm")
    client.close()
    client.close()
    assert client.closed
    for call in (
        lambda: client.get(b"a"),
        lambda: client.put(b"a", b""),
        lambda: client.exists(b"a"),
        lambda: client.get_view(b"a"),
        lambda: client.get_into_batch([b"a"], [bytearray(1)]),
        lambda: client.submit_put([b"a"], [b""]),
        lambda: client.path,
        client.counters,
        client.server_info,
    ):
        with pytest.raises(kvasir.Closed, match="client is closed"):
            call()


def test_faults_threads_share_a_client(client: kvasir.Client, key: KeyMaker) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            name = key(str(number))
            data = bytes([number]) * 50_000
            buffer = bytearray(50_000)
            for _ in range(50):
                assert client.put(name, data) is True
                assert client.get_into(name, buffer) == 50_000
                assert buffer == data
                assert client.exists(name)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_faults_call_releases_the_interpreter_lock(start_server: StartServer) -> None:
    server = start_server()
    with connect(server, "tcp") as client, stopped(server):
        ended = threading.Event()

        def wait() -> None:
            with pytest.raises(kvasir.Error):
                client.get(b"a", timeout=1.0)
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
        turns = 0
        while not ended.is_set():
            turns += 1
            time.sleep(0.001)
        thread.join(5)
        # With the lock held this thread would have come round once or twice.
        assert turns > 50


def test_faults_wait_for_the_turn_counts_against_the_deadline(start_server: StartServer) -> None:
    server = start_server()
    with connect(server, "tcp") as client, stopped(server):
        thread = threading.Thread(target=lambda: client.exists_batch([b"a"], timeout=3.0))
        thread.start()
        time.sleep(0.1)
        with pytest.raises(kvasir.Timeout):
            client.exists(b"a", timeout=0.2)
        assert thread.is_alive()
        thread.join(3.0 + SLACK_S)
        assert not thread.is_alive()


def test_faults_views_are_collected_while_other_threads_call(
    shm_client: kvasir.Client, key: KeyMaker
) -> None:
    shm_client.put(key("a"), bytes(10_000))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                view = shm_client.get_view(key("a"))
                assert view is not None
                cycle = [view]
                cycle.append(cycle)  # type: ignore[arg-type]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_faults_child_of_a_fork_leaves_the_parents_client_alone(
    client: kvasir.Client, key: KeyMaker, path: str
) -> None:
    client.put(key("a"), b"1")
    view = client.get_view(key("a")) if path == "shm" else None
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            try:
                client.get(key("a"))
            except kvasir.ForkedClient:
                status = 0
            del view
            client.close()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert client.get(key("a")) == b"1"
    if view is not None:
        assert view.tobytes() == b"1"
