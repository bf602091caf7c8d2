"""Several devices: a connection's queue pairs on each of them, and what becomes of it when one fails. Over
the transport for tests, with two devices."""

import ctypes
import pathlib
import random
import re

import kvserver
import loop
import pytest
import rdma_client
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20
LINK = 1 << 32
BOTH = (0, 1)


@pytest.fixture
def server(start, control):
    control(second=1)
    return loop.start_server(start, control)


@pytest.fixture
def peer():
    peer = loop.Peer()
    yield peer
    peer.close()


def link_up(connection, peer, link, **changes):
    return loop.connect(connection, peer, LINK=link, VIA=f"loop{link}", **changes)


@pytest.fixture
def client(server, peer):
    with server.connect() as connection:
        for link in BOTH:
            assert link_up(connection, peer, link)["device"] == b"loop%d" % link
        yield connection


def devices_of(connection):
    reply = connection("KV.HELLO")
    transports = dict(zip(reply[::2], reply[1::2]))[b"transports"]
    maps = [dict(zip(each[::2], each[1::2])) for each in transports]
    return [each[b"device"] for each in maps if each[b"name"] == b"rdma"]


def payload_of(length, seed=0):
    return random.Random(length * 31 + seed).randbytes(length)


def words_by(memory, links, pieces):
    """The buffer in so many segments, the links in turn."""
    words = memory.words(pieces)
    for i in range(pieces):
        words[3 * i + 1] += LINK * links[i % len(links)]
    return words


def put(client, key, memory, links, pieces=4):
    return client("KV.PUT", key, len(memory.bytes), "FROM", *words_by(memory, links, pieces))


def get(client, key, memory, links, pieces=4):
    return client("KV.GET", key, "INTO", *words_by(memory, links, pieces))


def test_hello_lists_every_device(client):
    assert devices_of(client) == [b"loop0", b"loop1"]


def test_the_option_names_devices(start, control):
    control(second=1)
    for names, expected in (("loop1", [b"loop1"]), ("loop1:1,loop0", [b"loop0", b"loop1"])):
        server = loop.start_server(start, control, **{"rdma-device": names})
        with server.connect() as connection:
            assert devices_of(connection) == expected
        server.stop()


@pytest.mark.parametrize("links", ((0,), (1,), BOTH))
def test_values_by_each_link_and_by_both(server, client, peer, links):
    memory = loop.Memory(peer, 5 * MIB)
    payload = payload_of(len(memory.bytes))
    memory.bytes[:] = payload
    assert put(client, "k", memory, links) == "OK"
    assert client("GET", "k") == payload
    memory.bytes[:] = bytes(len(payload))
    assert get(client, "k", memory, links) == len(payload)
    assert memory.bytes == payload
    assert server.info()["rdma_clients"] == 1


def test_what_names_no_link_or_device(client, peer):
    memory = loop.Memory(peer, 4096)
    for link in (4, 1 << 20):
        assert "out of range" in client.error(
            "KV.GET", "k", "INTO", memory.address, memory.key + LINK * link, 4096
        )
    client("SET", "k", "abc")
    assert "LINK 3" in client.error("KV.GET", "k", "INTO", memory.address, memory.key + 3 * LINK, 4096)
    for changes in ({"LINK": 4}, {"LINK": "x"}, {"VIA": "loop7"}, {"VIA": "x" * 100}):
        with pytest.raises(resp.Error, match="does not take"):
            loop.connect(client, peer, **changes)
    with pytest.raises(resp.Error, match="MODE"):
        link_up(client, peer, 1, MODE="CLIENT")
    assert get(client, "k", memory, (0,), 1) == 3


def test_a_link_that_fails_leaves_the_other_alone(server, control, client, peer):
    memory = loop.Memory(peer, 5 * MIB)
    payload = payload_of(len(memory.bytes))
    client("SET", "k", payload)
    control(down=2)
    for links in ((1,), BOTH):
        client.send(resp.encode("KV.GET", "k", "INTO", *words_by(memory, (0,), 4)))
        client.send(resp.encode("KV.GET", "k", "INTO", *words_by(memory, links, 4)))
        client.send(resp.encode("KV.GET", "k", "INTO", *words_by(memory, (0,), 4)))
        assert client.read() == len(payload)
        with pytest.raises(resp.Error, match="^IO .*LINK 1 "):
            client.read()
        assert client.read() == len(payload)
    assert memory.bytes == payload
    control(down=0)
    link_up(client, peer, 1)
    assert get(client, "k", memory, (1,)) == len(payload)
    assert server.info()["rdma_clients"] == 1


def test_a_put_that_fails_on_one_link_leaves_nothing(server, control, client, peer):
    memory = loop.Memory(peer, 5 * MIB)
    free = server.info()["payload_pages_free"]
    control(down=1)
    with pytest.raises(resp.Error, match="^IO .*LINK 0 "):
        put(client, "k", memory, BOTH)
    assert client("EXISTS", "k") == 0
    server.expect_pages_back(free)
    assert put(client, "k", memory, (1,)) == "OK"


def test_one_device_goes(server, control, client, peer):
    memory = loop.Memory(peer, 5 * MIB)
    assert put(client, "k", memory, BOTH) == "OK"
    control(gone=1)
    kvserver.wait_until(lambda: devices_of(client) == [b"loop1"], "the device to be missed")
    assert get(client, "k", memory, (1,)) == len(memory.bytes)
    with pytest.raises(resp.Error, match="LINK 0 "):
        get(client, "k", memory, (0,))
    with pytest.raises(resp.Error, match="VIA"):
        link_up(client, peer, 0)
    assert "RDMA device loop0 is gone" in server.log()
    control(gone=3)
    kvserver.wait_until(lambda: devices_of(client) == [], "the other, too")
    assert client("STRLEN", "k") == len(memory.bytes)


def test_loans_are_spread_over_the_links(server, control, peer):
    with server.connect() as client:
        adapters = [
            loop.Server(link_up(client, peer, link, MODE="CLIENT")) for link in BOTH
        ]
        payload = payload_of(MIB)
        client("SET", "k", payload)
        leases = [client("KV.LEASE", 30000, "k")[0] for _ in range(4)]
        links = [lease[3][1] // LINK for lease in leases]
        assert sorted(links) == [0, 0, 1, 1]

        def read(lease):
            link = lease[3][1] // LINK
            return adapters[link].read([word % LINK if i % 3 == 1 else word for i, word in enumerate(lease[3])])

        assert all(read(lease) == payload for lease in leases)
        # One is made anew: what was lent on it is over, the rest is not.
        link_up(client, peer, 1, MODE="CLIENT")
        for lease, link in zip(leases, links):
            assert read(lease) == (payload if link == 0 else None)
        assert client("KV.RELEASE", *(lease[0] for lease in leases)) == 2
        assert server.info()["rdma_lent_bytes"] == 0


# ---- libkvasir: a link for each pair of devices ----

MODES = {"server": "rdma", "client": "rdma-client"}


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def connect(server, control, mode, monkeypatch):
    monkeypatch.setenv("KVASIR_LOOP_CONTROL", str(control.path))
    with rdma_client.connecting(server, rdma_mode=mode) as connect:
        yield connect


def roundtrip(client, buffer, key="k"):
    """The path that the bytes took back; they must be the same."""
    before = bytes(buffer)
    client.put(key, buffer)
    buffer[:] = bytes(len(buffer))
    assert client.get_into(key, buffer) == len(before)
    assert buffer == before
    return client.path


needs_python = pytest.mark.skipif(bool(kvserver.SANITIZE), reason="Python cannot load the library")


def moved(server):
    info = server.info()
    return info["rdma_puts"] + info["rdma_gets"], info["rdma_work_requests"]


@needs_python
def test_the_library_uses_both(server, connect, mode):
    client = connect()
    buffer = rdma_client.buffer_of(5 * MIB)
    client.register(buffer)
    assert roundtrip(client, buffer) == MODES[mode]
    assert server.info()["rdma_links_opened"] == 4, "two for each reactor"
    batch = [rdma_client.buffer_of(64 << 10, i) for i in range(64)]
    for each in batch:
        client.register(each)
    client.put_batch([f"b{i}" for i in range(64)], batch)
    assert all(roundtrip(client, each, f"c{i}") == MODES[mode] for i, each in enumerate(batch))


@needs_python
@pytest.mark.parametrize("down", (1, 2))
def test_the_library_goes_on_by_the_other(server, control, connect, mode, down):
    """Within the call, and nothing goes by the socket."""
    client = connect()
    buffer = rdma_client.buffer_of(5 * MIB)
    client.register(buffer)
    assert roundtrip(client, buffer) == MODES[mode]
    control(down=down)
    for i in range(8):
        assert roundtrip(client, buffer, f"k{i}").startswith("rdma")
    assert client.counters()["tcp_bytes"] == 0
    assert client.counters()["path_fallbacks"] > 0
    control(down=3)
    assert roundtrip(client, buffer) == "tcp"
    control(down=0)
    kvserver.wait_until(
        lambda: roundtrip(client, buffer) == MODES[mode] and server.info()["rdma_links_rebuilt"] > 0,
        "RDMA to be back",
    )


def node_of(buffer):
    """The memory node of a buffer whose pages are all on one."""
    maps = pathlib.Path("/proc/self/numa_maps")
    if not maps.exists():
        pytest.skip("a kernel without NUMA")
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    lines = [line for line in maps.read_text().splitlines() if int(line.split()[0], 16) <= address]
    nodes = re.findall(r" N(\d+)=", lines[-1])
    if len(nodes) != 1:
        pytest.skip(f"the buffer is on nodes {nodes}")
    return int(nodes[0])


@needs_python
@pytest.mark.parametrize("near", BOTH)
def test_the_library_goes_by_the_device_that_is_nearest(start, control, monkeypatch, near):
    """The other one is not touched while it serves, whatever the length; and serves when it does not."""
    buffers = [rdma_client.buffer_of(length) for length in (5 * MIB, 64 << 10)]
    places = [node_of(buffers[0]) + 50] * 2
    places[near] = node_of(buffers[0])
    control(second=1, nodes=(places[0] + 1) | (places[1] + 1) << 8)
    server = loop.start_server(start, control)
    monkeypatch.setenv("KVASIR_LOOP_CONTROL", str(control.path))
    with rdma_client.connecting(server, rdma_mode="server") as connect:
        client = connect()
        for buffer in buffers:
            client.register(buffer)
            assert roundtrip(client, buffer) == "rdma"
        control(down=2 >> near)
        for _ in range(4):
            assert [roundtrip(client, buffer) for buffer in buffers] == ["rdma"] * 2
        assert client.counters()["path_fallbacks"] == 0
        control(down=1 << near)
        for _ in range(4):
            assert [roundtrip(client, buffer) for buffer in buffers] == ["rdma"] * 2
        assert client.counters()["path_fallbacks"] > 0
        assert client.counters()["tcp_bytes"] == 0


@needs_python
def test_the_library_loses_a_device(server, control, connect, mode):
    client = connect()
    buffer = rdma_client.buffer_of(5 * MIB)
    client.register(buffer)
    assert roundtrip(client, buffer) == MODES[mode]
    control(gone=1)
    kvserver.wait_until(lambda: "loop0 is gone" in server.log(), "the server to notice")
    for i in range(8):
        assert roundtrip(client, buffer, f"k{i}").startswith("rdma")
    assert client.counters()["tcp_bytes"] == 0
