"""The client-driven mode of libkvasir and the Python package, over the transport for tests: the client moves
the bytes by keys that the server lends, and takes another way when it cannot."""

import os
import signal

import kvserver
import loop
import pytest
from rdma_client import buffer_of, connecting, kvasir, path_of_put

pytestmark = pytest.mark.plain
MIB = 1 << 20


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control)


@pytest.fixture
def connect(server, own):
    with connecting(server, rdma_mode="client") as connect:
        yield connect


def driven_again(client, buffer):
    """Whether a put from the registered buffer is driven by the client."""
    return path_of_put(client, buffer) == "rdma-client"


def nothing_lent(server):
    info = server.info()
    return info["rdma_lent_bytes"] == 0 and info["uploads_under_way_bytes"] == 0


@pytest.mark.parametrize("length", (4096, 65537, 3 * MIB, 20 * MIB + 5, 64 * MIB))
def test_the_client_moves_the_bytes(server, connect, length):
    client = connect()
    source, target = buffer_of(length), bytearray(length + 1)
    assert client.register(source) and client.register(target)
    assert client.put("k", source, checksum=True) and client.path == "rdma-client"
    assert client.get_into("k", target) == length and client.path == "rdma-client"
    assert target[:length] == source and target[length] == 0
    counters = client.counters()
    assert counters["rdma_client_bytes"] == 2 * length
    assert counters["rdma_bytes"] == counters["tcp_bytes"] == counters["path_fallbacks"] == 0
    info = server.info()
    assert info["rdma_puts"] == info["rdma_gets"] == 0, "the server moves none of them"
    client.get_into("absent", target)
    kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")


@pytest.mark.parametrize("length", (1, 100, 4095))
def test_short_values_go_by_the_socket(connect, length):
    client = connect()
    source, target = buffer_of(length), bytearray(length)
    assert client.register(source) and client.register(target)
    assert client.put("k", source) and client.path == "tcp"
    assert client.get_into("k", target) == length and client.path == "tcp"
    assert target == source


@pytest.mark.parametrize("length", (0, 1, 4095))
def test_short_values_in_long_buffers(connect, length):
    client = connect()
    target = bytearray(MIB)
    assert client.register(target)
    client.put("k", buffer_of(length))
    assert client.get_into("k", target) == length and client.path == "rdma-client"
    assert target[:length] == buffer_of(length) and target[length:] == bytes(MIB - length)


def test_batches_are_spread_and_come_back(server, connect):
    client = connect()
    arena = buffer_of(600 * 8192)
    client.register(arena)
    view = memoryview(arena)
    blocks = [view[i * 8192 : (i + 1) * 8192] for i in range(300)]
    into = [view[(300 + i) * 8192 : (301 + i) * 8192] for i in range(300)]
    keys = [f"k{i}" for i in range(300)]
    assert client.put_batch(keys, blocks, chain=True, checksum=True) == [True] * 300
    assert client.put_batch(keys, blocks, only_if_absent=True) == [False] * 300
    assert client.get_into_batch(["absent", *keys[1:]], into) == [None] + [8192] * 299
    assert client.get_into_batch(keys, into) == [8192] * 300
    assert view[: 300 * 8192] == view[300 * 8192 :]
    counters = client.counters()
    assert counters["rdma_client_bytes"] == 899 * 8192 and counters["path_fallbacks"] == 0
    assert server.info()["rdma_clients"] == 2, "one queue pair for each reactor"
    scattered = [blocks[3][:1000], blocks[50][5:4000], blocks[7][:100]]
    assert client.put("s", scattered) and client.path == "rdma-client"
    assert client.get("s") == b"".join(scattered)
    for block in (*blocks, *into, *scattered):
        block.release()
    view.release()


def test_options_that_cannot_be(connect):
    with pytest.raises(ValueError, match="rdma_mode is one of server, client, not 'both'"):
        connect(rdma_mode="both")


# ---- failures ----


def test_without_windows_the_server_drives(start, control):
    control(no_windows=1)
    server = loop.start_server(start, control)
    options = {"shm": False, "rdma_module": str(loop.MODULE), "rdma_mode": "client"}
    with kvasir.Client(f"tcp://127.0.0.1:{server.port}", **options) as client:
        buffer = buffer_of(MIB)
        assert client.register(buffer)
        assert client.put("k", buffer) and client.path == "rdma"
        assert client.get_into("k", buffer) == MIB and client.path == "rdma"
        assert client.counters()["path_fallbacks"] == 0


def test_a_failure_falls_back_within_the_call(server, own, connect):
    client = connect()
    buffer, target = buffer_of(3 * MIB), bytearray(3 * MIB)
    client.register(buffer)
    client.register(target)
    assert driven_again(client, buffer)
    for call in (lambda: client.put("k", buffer), lambda: client.get_into("k", target)):
        before = client.counters()["path_fallbacks"]
        own(fail_jobs=1)
        assert call()
        assert client.path == "tcp" and client.counters()["path_fallbacks"] == before + 1
        kvserver.wait_until(lambda: driven_again(client, buffer), "another queue pair")
    assert target == buffer
    kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")


def test_failures_in_batches(server, own, connect):
    client = connect()
    arena = buffer_of(200 * 8192)
    client.register(arena)
    view = memoryview(arena)
    blocks = [view[i * 8192 : (i + 1) * 8192] for i in range(100)]
    into = [view[(100 + i) * 8192 : (101 + i) * 8192] for i in range(100)]
    keys = [f"k{i}" for i in range(100)]
    for turn in range(5):
        for i in range(100):
            blocks[i][:] = buffer_of(8192, turn * 100 + i)
        own(fail_jobs=1)
        assert client.put_batch(keys, blocks) == [True] * 100
        assert [client.get(key) for key in keys] == blocks
        own(fail_jobs=1)
        assert client.get_into_batch(keys, into) == [8192] * 100
        assert view[: 100 * 8192] == view[100 * 8192 :]
        own(fail_jobs=0)
        kvserver.wait_until(lambda: driven_again(client, blocks[0]), "another queue pair")
    assert client.counters()["path_fallbacks"] > 0
    kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")
    for block in (*blocks, *into):
        block.release()
    view.release()


@pytest.mark.parametrize("side", ("control", "own"))
@pytest.mark.parametrize("put", (False, True))
def test_nothing_moves_after_a_deadline(request, server, connect, put, side):
    client = connect()
    buffer = bytearray(b"b" * 2 * MIB)
    client.put("k", b"v" * (2 * MIB))
    client.register(buffer)
    assert driven_again(client, buffer)
    slow = request.getfixturevalue(side)
    slow(hold=1)
    with pytest.raises(kvasir.Timeout):
        if put:
            client.put("k", buffer, timeout=0.3)
        else:
            client.get_into("k", buffer, timeout=0.3)
    buffer[:] = b"m" * (2 * MIB)
    slow(hold=0)
    kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")
    assert buffer.count(b"m") == len(buffer)
    kvserver.wait_until(lambda: driven_again(client, buffer), "another queue pair")
    assert client.get_into("k", buffer) == 2 * MIB and buffer.count(b"v") == len(buffer)


@pytest.mark.parametrize("put", (False, True))
def test_a_request_that_is_cancelled(server, own, connect, put):
    """Before the grant and after it: what was granted comes back, the buffer is free at once."""
    client = connect()
    buffer, other = bytearray(2 * MIB), buffer_of(2 * MIB)
    client.put("k", b"v" * (2 * MIB))
    client.register(other)
    assert driven_again(client, other)
    for moving in (False, True):
        client.register(buffer)
        own(hold=1)
        begin = client.submit_put if put else client.submit_get_into
        request = begin(["k"], [buffer])
        while moving and own.left("waiting") == 0:
            assert not request.done()
        with pytest.raises(kvasir.Busy):
            client.unregister(buffer)
        request.cancel()
        assert client.unregister(buffer)
        own(hold=0)
        kvserver.wait_until(lambda: driven_again(client, other), "another queue pair")
        kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")
        assert buffer == bytes(2 * MIB)


def test_the_server_dies_and_comes_back(start, control, own, connect, server):
    client = connect(timeout=10.0)
    buffer = buffer_of(2 * MIB)
    client.register(buffer)
    assert driven_again(client, buffer)
    own(hold=1)
    request = client.submit_put(["k"], [buffer])
    kvserver.wait_until(lambda: not request.done() and own.left("waiting") == 1, "it to begin")
    port = server.port
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(10)
    assert isinstance(request.wait()[0], kvasir.Error)
    server.kill()
    own(hold=0)
    assert loop.start_server(start, control).port == port
    kvserver.wait_until(lambda: driven_again(client, buffer), "the client to come back")


def test_the_client_dies_with_loans(server, own):
    free = server.info()["payload_pages_free"]
    own(delay_ms=5)
    child = os.fork()
    if child == 0:
        client = kvasir.Client(
            f"tcp://127.0.0.1:{server.port}",
            shm=False,
            rdma_module=str(loop.MODULE),
            rdma_mode="client",
        )
        buffer = bytearray(4 * MIB)
        client.register(buffer)
        while True:
            client.put("k", buffer)
            client.get_into("k", buffer)
    kvserver.wait_until(lambda: server.info()["rdma_clients"] == 2, "the client to begin")
    kvserver.wait_until(lambda: not nothing_lent(server), "a loan")
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[0] == child
    kvserver.wait_until(lambda: server.info()["rdma_clients"] == 0, "the client to go")
    kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")
    with server.connect() as admin:
        admin("FLUSHALL")
    server.expect_pages_back(free)


def test_more_than_the_server_lends(start, control):
    """Loans to readers hold half of the memory at most: what is beyond goes another way."""
    server = loop.start_server(start, control, maxmemory=256 * MIB)
    options = {"shm": False, "rdma_module": str(loop.MODULE), "rdma_mode": "client", "timeout": 20.0}
    with kvasir.Client(f"tcp://127.0.0.1:{server.port}", **options) as client:
        arena = buffer_of(40 * 4 * MIB)
        client.register(arena)
        view = memoryview(arena)
        blocks = [view[i * 4 * MIB : (i + 1) * 4 * MIB] for i in range(40)]
        keys = [f"k{i}" for i in range(40)]
        stored = client.put_batch(keys, blocks)
        for key, block, done in zip(keys, blocks, stored):
            assert done is True or isinstance(done, kvasir.Error)
            block[:] = bytes(4 * MIB)
        original = buffer_of(40 * 4 * MIB)
        lengths = client.get_into_batch(keys, blocks)
        assert lengths.count(4 * MIB) > 20
        for i, length in enumerate(lengths):
            if length is not None:
                assert blocks[i] == original[i * 4 * MIB : (i + 1) * 4 * MIB]
        kvserver.wait_until(lambda: nothing_lent(server), "what was lent to come back")
        for block in blocks:
            block.release()
        view.release()


@pytest.mark.parametrize("way", ("lease ends", "reservation ends"))
def test_a_grant_that_ends_while_bytes_move(start, control, own, connect, way):
    """The server revokes at its time; what comes later is refused, and the call goes another way."""
    server = loop.start_server(start, control, lease_max_ms=200)
    client = connect(server.port)
    buffer, target = buffer_of(2 * MIB), bytearray(2 * MIB)
    client.register(buffer)
    client.register(target)
    assert driven_again(client, buffer)
    own(delay_ms=1000)
    if way == "lease ends":
        client.put("k", bytes(buffer))
        assert client.get_into("k", target) == 2 * MIB
        assert target == buffer
    else:
        assert client.put("k", buffer)
    assert client.path in ("tcp", "rdma") and client.counters()["path_fallbacks"] == 1
    assert server.info()["rdma_loans_expired"] == 1
    own(delay_ms=0)
    assert client.get("k") == buffer
    kvserver.wait_until(lambda: driven_again(client, buffer), "another queue pair")


def test_two_clients_at_the_same_time(server, connect):
    clients = [connect(), connect()]
    buffers = [buffer_of(MIB, seed) for seed in range(2)]
    targets = [bytearray(MIB) for _ in range(2)]
    for client, buffer, target in zip(clients, buffers, targets):
        client.register(buffer)
        client.register(target)
    for turn in range(20):
        requests = [
            client.submit_put([f"k{turn}{i}"], [buffers[i]]) for i, client in enumerate(clients)
        ]
        assert [request.wait() for request in requests] == [[True]] * 2
        requests = [
            client.submit_get_into([f"k{turn}{1 - i}"], [targets[i]])
            for i, client in enumerate(clients)
        ]
        assert [request.wait() for request in requests] == [[MIB]] * 2
        assert targets == buffers[::-1]
    assert all(client.counters()["path_fallbacks"] == 0 for client in clients)
