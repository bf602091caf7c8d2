"""libkvasir and the Python package on the RDMA path, over the transport for tests: which buffers go by it,
and what a caller sees when it fails."""

import os
import signal

import kvserver
import loop
import pytest
from rdma_client import buffer_of, connecting, kvasir, path_of_put

pytestmark = pytest.mark.plain
MIB = 1 << 20
MODES = {"server": "rdma", "client": "rdma-client"}  # who moves the bytes: the path then


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control)


@pytest.fixture
def connect(server):
    with connecting(server) as connect:
        yield connect


def rdma_again(client, buffer):
    """Whether a put from the registered buffer goes by RDMA."""
    return path_of_put(client, buffer) == "rdma"


@pytest.mark.parametrize("length", (4096, 65537, 3 * MIB, 20 * MIB + 5))
def test_registered_buffers_go_by_rdma(server, connect, length):
    client = connect()
    source, target = buffer_of(length), bytearray(length)
    assert client.register(source) and client.register(target)
    assert client.server_info().rdma
    assert client.put("k", source) and client.path == "rdma"
    assert client.get_into("k", target) == length and client.path == "rdma"
    assert target == source
    assert client.get("k") == source and client.path == "tcp", "a buffer of its own is none of these"
    counters = client.counters()
    assert counters["rdma_bytes"] == 2 * length and counters["path_fallbacks"] == 0
    info = server.info()
    assert info["rdma_puts"] == info["rdma_gets"] == 1
    assert info["rdma_in_bytes"] == info["rdma_out_bytes"] == length


@pytest.mark.parametrize("mode", MODES)
def test_packets_have_the_traffic_class_of_their_sender(start, control, own, mode):
    server = loop.start_server(start, control, rdma_traffic_class=106)
    with connecting(server, rdma_traffic_class=96, rdma_mode=mode) as connect:
        client = connect()
        buffer = buffer_of(MIB)
        assert client.register(buffer) and client.put("k", buffer)
        assert client.path == MODES[mode]
    assert control.left("traffic_class") == 106 and own.left("traffic_class") == 96


def test_batches_are_spread_and_come_back(server, connect):
    client = connect()
    arena = buffer_of(200 * 65536)
    client.register(arena)
    view = memoryview(arena)
    blocks = [view[i * 65536 : (i + 1) * 65536] for i in range(100)]
    into = [view[(100 + i) * 65536 : (101 + i) * 65536] for i in range(100)]
    keys = [f"k{i}" for i in range(100)]
    assert client.put_batch(keys, blocks, chain=True, checksum=True) == [True] * 100
    assert client.put_batch(keys, blocks, only_if_absent=True) == [False] * 100
    assert client.get_into_batch(keys, into) == [65536] * 100
    assert view[: 100 * 65536] == view[100 * 65536 :]
    info = server.info()
    assert info["rdma_puts"] == info["rdma_gets"] == 100
    assert info["rdma_clients"] == 2, "one queue pair for each reactor"
    assert client.stat("k5").checksum is not None
    scattered = [blocks[3][:1000], blocks[50][5:4000], blocks[7][:100]]
    assert client.put("s", scattered) and client.path == "rdma"
    assert client.get("s") == b"".join(scattered)
    for block in (*blocks, *into, *scattered):
        block.release()
    view.release()


def test_what_is_not_registered_goes_by_the_socket(server, connect):
    client = connect()
    registered, other = buffer_of(MIB), buffer_of(MIB, 1)
    client.register(registered)
    assert client.put("k", other) and client.path == "tcp"
    assert client.put("k", [registered, other]) and client.path == "tcp"
    assert client.get("k") == registered + other
    assert client.put("small", memoryview(registered)[:100]) and client.path == "tcp"
    assert client.counters()["path_fallbacks"] == 0
    assert server.info()["rdma_puts"] == 0


def test_registrations_nest_and_end(connect):
    client = connect()
    arena = buffer_of(4 * MIB)
    inner = memoryview(arena)[MIB : 2 * MIB]
    assert client.register(arena) and client.register(inner) and client.register(inner)
    assert client.unregister(arena)
    assert not client.unregister(arena), "that was all"
    assert rdma_again(client, inner)
    assert client.unregister(inner) and rdma_again(client, inner)
    assert client.unregister(inner)
    assert client.put("k", inner) and client.path == "tcp"
    assert not client.unregister(inner)
    assert client.register(inner) and rdma_again(client, inner)
    inner.release()


def test_what_an_ended_registration_leaves_behind_is_not_used(connect):
    """The inner buffer's registration is the outer one's still, but not the memory around it."""
    client = connect()
    arena = buffer_of(4 * MIB)
    inner = memoryview(arena)[MIB : 2 * MIB]
    beside = memoryview(arena)[2 * MIB : 3 * MIB]
    across = memoryview(arena)[MIB // 2 : 2 * MIB]
    assert client.register(arena) and client.register(inner)
    assert client.put("k", beside) and client.path == "rdma"
    assert client.unregister(arena)
    for part in (beside, across, arena):
        assert client.buffer_kind(part) == "none"
        assert client.put("k", part) and client.path == "tcp"
    assert client.buffer_kind(inner) == "host" and rdma_again(client, inner)
    # Memory there is registered anew, for itself.
    assert client.register(across) and rdma_again(client, across)
    assert client.unregister(inner) and rdma_again(client, inner), "it lies within the other"
    assert client.unregister(across) and client.buffer_kind(inner) == "none"
    for part in (inner, beside, across):
        part.release()


def test_registrations_overlap_without_nesting(connect):
    client = connect()
    arena = buffer_of(3 * MIB)
    first = memoryview(arena)[: 2 * MIB]
    second = memoryview(arena)[MIB:]
    assert client.register(first) and client.register(second)
    assert rdma_again(client, first) and rdma_again(client, second)
    assert client.put("k", arena) and client.path == "tcp", "no registration holds all of it"
    assert client.unregister(first)
    assert client.put("k", first) and client.path == "tcp"
    assert rdma_again(client, second)
    assert client.unregister(second)
    for part in (first, second):
        part.release()


@pytest.mark.parametrize("mode", MODES)
def test_a_buffer_that_is_too_short(connect, mode):
    client = connect(rdma_mode=mode)
    client.put("k", buffer_of(10000))
    target = bytearray(5000)
    client.register(target)
    with pytest.raises(kvasir.TooSmall) as caught:
        client.get_into("k", target)
    assert caught.value.length_bytes == 10000
    assert target == bytes(5000)
    assert client.get_into("absent", target) is None


def test_without_rdma_on_the_server(start, control):
    server = start()
    with kvasir.Client(f"tcp://127.0.0.1:{server.port}", shm=False) as client:
        buffer = buffer_of(MIB)
        assert client.register(buffer) is False
        assert client.put("k", buffer) and client.path == "tcp"
        assert not client.unregister(buffer)
        assert not client.server_info().rdma


def test_without_a_module_or_the_wish(connect, tmp_path):
    for options in ({"rdma_module": str(tmp_path / "none.so")}, {"rdma": False}):
        client = connect(**options)
        buffer = buffer_of(MIB)
        assert client.register(buffer) is False
        assert client.put("k", buffer) and client.path == "tcp"


def test_shared_memory_comes_first(server, control):
    with kvasir.Client(f"unix://{server.socket}", rdma_module=str(loop.MODULE)) as client:
        buffer = buffer_of(MIB)
        assert client.register(buffer) is False
        assert client.put("k", buffer) and client.path == "shm"


def test_a_user_without_the_right(server, connect):
    with server.connect() as admin:
        admin("ACL", "SETUSER", "plain", "on", ">x", "~*", "+@all", "-@rdma")
    client = connect(user="plain", password="x")
    buffer = buffer_of(MIB)
    assert client.register(buffer) is False
    assert client.put("k", buffer) and client.path == "tcp"


# ---- failures ----


def test_a_failure_falls_back_within_the_call(server, control, connect):
    client = connect()
    buffer, target = buffer_of(3 * MIB), bytearray(3 * MIB)
    client.register(buffer)
    client.register(target)
    assert rdma_again(client, buffer)
    for call in (lambda: client.put("k", buffer), lambda: client.get_into("k", target)):
        before = client.counters()["path_fallbacks"]
        control(fail_jobs=1)
        assert call()
        assert client.path == "tcp" and client.counters()["path_fallbacks"] == before + 1
        kvserver.wait_until(lambda: rdma_again(client, buffer), "another queue pair")
    assert target == buffer
    assert server.info()["rdma_failed"] == 2


def test_a_failure_in_a_batch(control, connect):
    client = connect()
    arena = buffer_of(64 * 65536)
    client.register(arena)
    view = memoryview(arena)
    blocks = [view[i * 65536 : (i + 1) * 65536] for i in range(64)]
    keys = [f"k{i}" for i in range(64)]
    control(fail_jobs=1)
    assert client.put_batch(keys, blocks) == [True] * 64
    assert [client.get(key) for key in keys] == blocks
    for block in blocks:
        block.release()
    view.release()


def test_nothing_is_written_after_a_deadline(control, connect):
    client = connect()
    buffer = bytearray(2 * MIB)
    client.put("k", b"v" * (2 * MIB))
    client.register(buffer)
    assert rdma_again(client, buffer)
    control(hold=1)
    with pytest.raises(kvasir.Timeout):
        client.get_into("k", buffer, timeout=0.3)
    control(hold=0)
    buffer[:] = b"m" * (2 * MIB)
    kvserver.wait_until(lambda: control.left("waiting") == 0, "the server to give it up")
    assert buffer.count(b"m") == len(buffer)
    kvserver.wait_until(lambda: rdma_again(client, buffer), "another queue pair")
    assert client.get_into("k", buffer) == 2 * MIB and buffer.count(b"v") == len(buffer)


def test_a_request_that_is_cancelled(control, connect):
    client = connect()
    buffer = bytearray(2 * MIB)
    client.put("k", b"v" * (2 * MIB))
    client.register(buffer)
    assert rdma_again(client, buffer)
    control(hold=1)
    request = client.submit_get_into(["k"], [buffer])
    kvserver.wait_until(lambda: not request.done() and control.left("waiting") == 1, "it to begin")
    with pytest.raises(kvasir.Busy):
        client.unregister(buffer)
    request.cancel()
    assert client.unregister(buffer)
    control(hold=0)
    assert client.put("k2", b"x" * 5000)
    assert buffer == bytes(2 * MIB)


def test_the_server_dies_and_comes_back(start, control, connect, server):
    client = connect(timeout=10.0)
    buffer = buffer_of(2 * MIB)
    client.register(buffer)
    control(hold=1)
    request = client.submit_put(["k"], [buffer])
    kvserver.wait_until(lambda: not request.done() and control.left("waiting") == 1, "it to begin")
    port = server.port
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(10)
    assert isinstance(request.wait()[0], kvasir.Error)
    server.kill()
    control(hold=0, waiting=0)
    assert loop.start_server(start, control).port == port
    kvserver.wait_until(lambda: rdma_again(client, buffer), "the client to come back")


@pytest.mark.parametrize("mode", MODES)
def test_the_device_goes(control, connect, mode):
    client = connect(rdma_mode=mode)
    buffer = buffer_of(2 * MIB)
    client.register(buffer)
    assert path_of_put(client, buffer) == MODES[mode]
    control(gone=1)
    kvserver.wait_until(lambda: path_of_put(client, buffer) != MODES[mode], "it to go")
    assert client.path == "tcp" and client.get("again") == buffer


def test_a_forked_child_leaves_the_parents_queue_pairs_alone(connect):
    client = connect()
    buffer = buffer_of(2 * MIB)
    client.register(buffer)
    assert rdma_again(client, buffer)
    child = os.fork()
    if child == 0:
        try:
            try:
                client.put("k", buffer)
                os._exit(1)
            except kvasir.ForkedClient:
                client.close()
                os._exit(0)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert rdma_again(client, buffer)
    assert client.counters()["path_fallbacks"] == 0
