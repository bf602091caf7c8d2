"""INFO's section Transports: what came and went by each way, over the transport for tests."""

import os

import kvserver
import loop
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control)


@pytest.fixture
def connect(server):
    """A connection; with changes, one with a queue pair, and its peer."""
    made = []

    def connect(unix=False, **changes):
        made.append(server.connect(unix=unix))
        if not changes:
            return made[-1]
        made.append(loop.Peer())
        loop.connect(made[-2], made[-1], **changes)
        return made[-2], made[-1]

    yield connect
    for one in made:
        one.close()


def counts(server, prefix):
    """The counters of one way, without its name."""
    with server.connect() as connection:
        text = connection("INFO", "transports").decode()
    fields = dict(line.split(":") for line in text.splitlines() if ":" in line)
    return {k.removeprefix(f"{prefix}_"): int(v) for k, v in fields.items() if k.startswith(prefix)}


def only(counted, **expected):
    """Whether these are as expected, and the other counters of payload are 0."""
    names = ("puts", "gets", "in_bytes", "out_bytes", "failed")
    return {name: counted[name] for name in names} == {name: expected.get(name, 0) for name in names}


def test_sockets_count_apart(server, connect):
    before = {name: counts(server, name) for name in ("tcp", "unix", "tls", "ring")}
    local = connect(unix=True)
    local("SET", "k", "v" * 100000)
    local("GET", "k")
    after = {name: counts(server, name) for name in before}
    assert after["unix"]["commands"] - before["unix"]["commands"] == 2
    assert 100000 < after["unix"]["in_bytes"] - before["unix"]["in_bytes"] < 100200
    assert 100000 < after["unix"]["out_bytes"] - before["unix"]["out_bytes"] < 100200
    assert after["tcp"]["in_bytes"] - before["tcp"]["in_bytes"] < 1000, "what asked for INFO"
    assert after["tls"] == before["tls"] and after["ring"] == before["ring"]
    info = server.info()
    total = sum(info[f"{name}_commands"] for name in before)
    assert info["total_commands_processed"] == total
    assert info["total_net_input_bytes"] == sum(info[f"{name}_in_bytes"] for name in before)


def test_shared_memory(server, connect):
    local = connect(unix=True)
    local("KV.CONNECT", "SHM")
    try:
        for length in (5000, 70000):
            assert local("KV.COMMIT", local("KV.RESERVE", "k", length)[0]) == "OK"
        wrong = local("KV.RESERVE", "w", 10)[0]
        assert local.error("KV.COMMIT", wrong, "1").startswith("CORRUPT")
        ((lease, *_),) = local("KV.LEASE", 10000, "k")
        assert local("KV.LEASE", 10000, "absent") == [None]
        local("KV.RELEASE", lease)
        assert only(
            counts(server, "shm"), puts=2, gets=1, in_bytes=75000, out_bytes=70000, failed=1
        )
        assert counts(server, "ring")["commands"] == 0
        assert local("KV.CONNECT", "RING") == "OK"
    finally:
        for descriptor in local.descriptors:
            os.close(descriptor)


def test_the_server_drives(server, connect):
    client, peer = connect(MODE="SERVER")
    memory = loop.Memory(peer, MIB)
    for _ in range(3):
        assert client("KV.PUT", "k", MIB, "FROM", *memory.words()) == "OK"
    assert client("KV.GET", "k", "INTO", *memory.words()) == MIB
    assert client("KV.GET", "absent", "INTO", *memory.words()) is None
    assert only(
        counts(server, "rdma"), puts=3, gets=1, in_bytes=3 * MIB, out_bytes=MIB
    ), "and nothing failed"
    assert only(counts(server, "rdma_client"))


def test_the_client_drives(server, connect):
    client, _ = connect(MODE="CLIENT")
    for length in (5000, 3 * MIB):
        assert client("KV.COMMIT", client("KV.RESERVE", "k", length)[0]) == "OK"
    assert client.error("KV.COMMIT", client("KV.RESERVE", "w", 10)[0], "1").startswith("CORRUPT")
    ((lease, *_),) = client("KV.LEASE", 10000, "k")
    lent = counts(server, "rdma")
    assert lent["lent_bytes"] == 3 * MIB and lent["windows_bound"] > lent["windows_revoked"] > 0
    assert client("KV.RELEASE", lease) == 1
    assert client("KV.LEASE", 10000, "absent") == [None]
    assert only(
        counts(server, "rdma_client"),
        puts=2,
        gets=1,
        in_bytes=5000 + 3 * MIB,
        out_bytes=3 * MIB,
        failed=1,
    )
    after = counts(server, "rdma")
    assert only(after) and after["lent_bytes"] == 0
    assert after["windows_bound"] == after["windows_revoked"]


def test_links_that_fail_and_are_rebuilt(server, control, connect):
    client, peer = connect(MODE="SERVER")
    memory = loop.Memory(peer, MIB)
    control(fail_jobs=1)
    assert client.error("KV.PUT", "k", MIB, "FROM", *memory.words()).startswith("IO ")
    links = counts(server, "rdma_links")
    assert links == {"opened": 1, "rebuilt": 0, "failed": 1, "refused": 0}
    with pytest.raises(resp.Error, match="no queue pair"):
        loop.connect(client, peer, GID="::")
    loop.connect(client, peer)
    assert client("KV.PUT", "k", MIB, "FROM", *memory.words()) == "OK"
    links = counts(server, "rdma_links")
    assert links == {"opened": 2, "rebuilt": 1, "failed": 1, "refused": 1}
    assert only(counts(server, "rdma"), puts=1, in_bytes=MIB, failed=1)
    other, _ = connect(MODE="SERVER")
    other.close()
    kvserver.wait_until(lambda: server.info()["rdma_clients"] == 1, "it to go")
    links = counts(server, "rdma_links")
    assert links == {"opened": 3, "rebuilt": 1, "failed": 1, "refused": 1}, "it just went"


def test_reset(server, connect):
    client, _ = connect(MODE="CLIENT")
    client("SET", "k", "v" * 5000)
    ((lease, *_),) = client("KV.LEASE", 10000, "k")
    assert client("CONFIG", "RESETSTAT") == "OK"
    after = counts(server, "rdma")
    assert after["lent_bytes"] == 5000, "what there is stays"
    assert after["windows_bound"] == 0 and only(counts(server, "rdma_client"))
    assert client("KV.RELEASE", lease) == 1
    assert counts(server, "rdma")["windows_revoked"] == 1
