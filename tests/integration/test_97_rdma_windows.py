"""Values in the client's hands: leases and reservations by memory windows, over the transport for tests.
What a client may reach, and until when."""

import random

import kvserver
import loop
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control)


class Borrower:
    """A connection with windows, and what its adapter reaches."""

    def __init__(self, server):
        self.peer = loop.Peer()
        self.connection = server.connect()
        self.memory = loop.Server(loop.connect(self.connection, self.peer, MODE="CLIENT"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def __call__(self, *words):
        return self.connection(*words)

    def error(self, *words):
        return self.connection.error(*words)


@pytest.fixture
def client(server):
    with Borrower(server) as borrower:
        yield borrower


def payload_of(length, seed=0):
    return random.Random(length * 31 + seed).randbytes(length)


def expect_revoked(client, pieces):
    kvserver.wait_until(lambda: client.memory.read(pieces) is None, "the key to be revoked")


def nothing_lent(server):
    info = server.info()
    return info["rdma_lent_bytes"] == 0 and info["uploads_under_way_bytes"] == 0


# ---- reading ----


@pytest.mark.parametrize("length", (1, 4096, 65537, 2 * MIB, 9 * MIB + 33))
def test_lease_and_release(server, client, length):
    payload = payload_of(length)
    client("SET", "k", payload)
    ((lease, size, checksum, pieces),) = client("KV.LEASE", 10000, "k")
    assert size == length == sum(pieces[2::3]) and checksum is None
    assert client.memory.read(pieces) == payload
    assert server.info()["rdma_lent_bytes"] == length
    assert client("KV.RELEASE", lease, lease, 12345) == 1
    assert client.memory.read(pieces) is None, "the key is revoked"
    assert nothing_lent(server)
    assert client("KV.GET", "k") == payload


def test_lease_of_many_keys(server, client):
    for i in range(0, 100, 2):
        client("SET", f"k{i}", payload_of(5000, i))
    leases = client("KV.LEASE", 10000, *(f"k{i}" for i in range(100)))
    assert [lease is None for lease in leases] == [i % 2 == 1 for i in range(100)]
    for i in range(0, 100, 2):
        assert client.memory.read(leases[i][3]) == payload_of(5000, i)
    ids = [lease[0] for lease in leases if lease]
    assert len(set(ids)) == 50
    assert client("KV.RELEASE", *ids) == 50
    assert all(client.memory.read(lease[3]) is None for lease in leases if lease)
    assert nothing_lent(server)


def test_a_lease_in_a_pipeline(client):
    client.connection.send(
        resp.encode("SET", "k", "abc")
        + resp.encode("KV.LEASE", 10000, "k")
        + resp.encode("GET", "k")
        + resp.encode("KV.LEASE", 10000, "k", "absent")
        + resp.encode("DEL", "k")
        + resp.encode("KV.RELEASE", 1, 2)
        + resp.encode("PING")
    )
    replies = [client.connection.read() for _ in range(7)]
    assert replies[0] == "OK" and replies[2] == b"abc"
    assert replies[1][0][0] == 1 and replies[3][0][0] == 2 and replies[3][1] is None
    assert replies[4:] == [1, 2, "PONG"]


def test_leased_bytes_stay_when_the_key_is_overwritten(server, client):
    free = server.info()["payload_pages_free"]
    payload = payload_of(5 * MIB)
    client("SET", "k", payload)
    ((lease, _, _, pieces),) = client("KV.LEASE", 30000, "k")
    client("SET", "k", "new")
    for i in range(60):
        client("SET", f"filler{i}", bytes([i]) * (4 * MIB))
    assert client.memory.read(pieces) == payload
    assert client("KV.RELEASE", lease) == 1
    assert client.memory.read(pieces) is None
    server.expect_pages_back(free)


ENDS = {
    "DEL": ("DEL", "k"),
    "UNLINK": ("UNLINK", "k"),
    "GETDEL": ("GETDEL", "k"),
    "RENAME": ("RENAME", "k", "other"),
    "PEXPIRE": ("PEXPIRE", "k", 20),
    "FLUSHDB": ("FLUSHDB",),
    "FLUSHALL": ("FLUSHALL",),
}


@pytest.mark.parametrize("way", ENDS)
def test_the_end_of_a_key_ends_its_leases(server, client, way):
    """Whoever ends it, wherever the key lies, and all leases of it."""
    free = server.info()["payload_pages_free"]
    client("SET", "k", payload_of(5 * MIB))
    with Borrower(server) as second, server.connect() as other:
        leases = [who("KV.LEASE", 30000, "k")[0] for who in (client, second, client)]
        assert all(who.memory.read(lease[3]) for who, lease in zip((client, second, client), leases))
        other(*ENDS[way])
        for who, lease in zip((client, second, client), leases):
            expect_revoked(who, lease[3])
            kvserver.wait_until(lambda: nothing_lent(server), "the loans to end")
            assert who("KV.RELEASE", lease[0]) == 0
        assert server.info()["rdma_loans_recalled"] == 3
        assert server.info()["rdma_loans_expired"] == 0
        other("DEL", "other")
    server.expect_pages_back(free)


def test_a_flush_ends_what_its_database_has_lent(server, client):
    """Of overwritten values as well; other databases, reservations and later values go on."""
    payload = payload_of(MIB)
    client("SELECT", 3)
    client("SET", "k", payload)
    ((_, _, _, other),) = client("KV.LEASE", 30000, "k")
    client("SELECT", 0)
    client("SET", "k", payload)
    ((_, _, _, overwritten),) = client("KV.LEASE", 30000, "k")
    client("SET", "k", "new")
    client("DEL", "k")
    assert client.memory.read(overwritten) == payload
    reservation, _, reserved = client("KV.RESERVE", "r", MIB)
    client("FLUSHDB")
    client("SET", "k", payload)
    ((_, _, _, later),) = client("KV.LEASE", 30000, "k")
    expect_revoked(client, overwritten)
    assert server.info()["rdma_loans_recalled"] == 1
    assert client.memory.read(other) == client.memory.read(later) == payload
    assert client.memory.write(reserved, payload)
    assert client("KV.COMMIT", reservation) == "OK"
    assert client("KV.GET", "r") == payload
    client("FLUSHALL")
    for pieces in (other, later):
        expect_revoked(client, pieces)
    kvserver.wait_until(lambda: nothing_lent(server), "the loans to end")


@pytest.mark.parametrize("way", ("DEL", "FLUSHALL"))
def test_the_ends_of_many_keys_at_once(server, client, way):
    """More than one message tells of."""
    names = [f"k{i}" for i in range(200)]
    for name in names:
        client("SET", name, payload_of(5000))
    leases = client("KV.LEASE", 30000, *names)
    client(*(("DEL", *names) if way == "DEL" else ("FLUSHALL",)))
    kvserver.wait_until(lambda: nothing_lent(server), "the loans to end")
    assert all(client.memory.read(lease[3]) is None for lease in leases)
    assert server.info()["rdma_loans_recalled"] == 200


def test_keys_end_while_they_are_leased(server, client):
    """Leases and deletions race, on both reactors: what is lent is there, and nothing stays lent."""
    payload = payload_of(5000)
    with Borrower(server) as second, server.connect() as other:
        for turn in range(40):
            names = [f"k{turn}.{i}" for i in range(32)]
            for name in names:
                other("SET", name, payload)
            for who in (client, second):
                who.connection.send(resp.encode("KV.LEASE", 30000, *names))
            other(*(("FLUSHALL",) if turn % 4 == 0 else ("DEL", *names)))
            for who in (client, second):
                for lease in who.connection.read():
                    assert lease is None or isinstance(lease, resp.Error) or lease[1] == len(payload)
            kvserver.wait_until(lambda: nothing_lent(server), "the loans to end")
    assert server.info()["orphan_values"] == 0


def test_a_lease_ends_by_time(server, client):
    client("SET", "k", payload_of(MIB))
    ((lease, _, _, pieces),) = client("KV.LEASE", 200, "k")
    expect_revoked(client, pieces)
    kvserver.wait_until(lambda: nothing_lent(server), "the loan to end")
    assert client("KV.RELEASE", lease) == 0
    assert server.info()["rdma_loans_expired"] == 1


@pytest.mark.parametrize("way", ("time", "DEL", "FLUSHALL"))
def test_memory_is_reused_only_after_the_revocation(server, control, client, way):
    """The device is slow to revoke: until it has, the bytes stay."""
    free = server.info()["payload_pages_free"]
    payload = payload_of(3 * MIB)
    client("SET", "k", payload)
    ((_, _, _, pieces),) = client("KV.LEASE", 100 if way == "time" else 30000, "k")
    control(hold=1)
    with server.connect() as other:
        other(*{"time": ("SET", "k", "new"), "DEL": ("DEL", "k"), "FLUSHALL": ("FLUSHALL",)}[way])
        name = "rdma_loans_expired" if way == "time" else "rdma_loans_recalled"
        kvserver.wait_until(lambda: server.info()[name] == 1, "it to be called back")
        for i in range(80):
            other("SET", f"filler{i}", bytes([i]) * (4 * MIB))
        assert client.memory.read(pieces) == payload
        assert server.info()["orphan_values"] == 1
    control(hold=0)
    kvserver.wait_until(lambda: client.memory.read(pieces) is None, "the revocation")
    server.expect_pages_back(free)


def test_a_lease_is_for_reading_and_for_its_own_connection(server, client):
    client("SET", "k", payload_of(MIB))
    ((_, _, _, pieces),) = client("KV.LEASE", 10000, "k")
    assert client.memory.write(pieces, bytes(MIB)) is False
    address, key, length = pieces[:3]
    assert client.memory.read([address, key, length + 1]) is None
    assert client.memory.read([address - 1, key, length]) is None
    with Borrower(server) as other:
        assert other.memory.read(pieces) is None
        assert other("KV.RELEASE", 1) == 0
    assert client.memory.read(pieces) == payload_of(MIB)


@pytest.mark.parametrize("hold", (0, 1))
def test_the_end_of_a_connection_revokes(server, control, hold):
    free = server.info()["payload_pages_free"]
    with server.connect() as other, Borrower(server) as client:
        other("SET", "k", payload_of(3 * MIB))
        ((_, _, _, lent),) = client("KV.LEASE", 30000, "k")
        _, _, reserved = client("KV.RESERVE", "new", 3 * MIB)
        control(hold=hold)
        client.connection.send(resp.encode("KV.LEASE", 30000, "k"))
        if hold:
            kvserver.wait_until(lambda: control.left("waiting") == 1, "it to be under way")
        client.connection.close()
        kvserver.wait_until(lambda: server.info()["rdma_clients"] == 0, "the client to go")
        assert client.memory.read(lent) is None
        assert client.memory.write(reserved, bytes(3 * MIB)) is False
        control(hold=0)
        assert nothing_lent(server)
        assert other("EXISTS", "new") == 0
    server.expect_pages_back(free)


# ---- writing ----


@pytest.mark.parametrize("length", (1, 65537, 5 * MIB + 17))
def test_reserve_write_commit(server, client, length):
    payload = payload_of(length)
    reservation, left_ms, pieces = client("KV.RESERVE", "k", length, "TTL", 60000)
    assert left_ms == 30000 and sum(pieces[2::3]) == length
    assert client("EXISTS", "k") == 0, "nobody sees it yet"
    assert client.memory.read(pieces) is None, "nor may it read what was there"
    assert client.memory.write(pieces, payload)
    assert client("KV.COMMIT", reservation) == "OK"
    assert client.memory.write(pieces, bytes(length)) is False, "sealed for good"
    assert client("KV.GET", "k") == payload
    assert 0 < client("PTTL", "k") <= 60000
    assert client.error("KV.COMMIT", reservation).startswith("NOTFOUND ")
    assert nothing_lent(server)


def test_commit_with_checksum_and_nx(server, client):
    free = server.info()["payload_pages_free"]
    reservation, _, pieces = client("KV.RESERVE", "k", 300000)
    client.memory.write(pieces, payload_of(300000))
    assert client.error("KV.COMMIT", reservation, "1234").startswith("CORRUPT ")
    assert client("EXISTS", "k") == 0
    reservation, _, pieces = client("KV.RESERVE", "k", 5, "NX")
    client("SET", "k", "first")
    client.memory.write(pieces, b"later")
    assert client("KV.COMMIT", reservation) == "EXISTS"
    assert client("KV.RESERVE", "k", 5, "NX") == "EXISTS"
    assert client("GET", "k") == b"first"
    server.expect_pages_back(free)


def test_abort_and_expiry_of_a_reservation(server, client):
    free = server.info()["payload_pages_free"]
    reservation, _, pieces = client("KV.RESERVE", "k", 3 * MIB)
    assert client("KV.ABORT", reservation) == 1
    assert client("KV.ABORT", reservation) == 0
    assert client.memory.write(pieces, bytes(3 * MIB)) is False
    reservation, _, pieces = client("KV.RESERVE", "k", 3 * MIB, "TIMEOUT", 100)
    kvserver.wait_until(lambda: nothing_lent(server), "its time to be up")
    assert client.memory.write(pieces, bytes(3 * MIB)) is False
    assert client.error("KV.COMMIT", reservation).startswith("NOTFOUND ")
    assert client("EXISTS", "k") == 0
    server.expect_pages_back(free)


# ---- bounds, rights, faults ----


def test_loans_are_bounded(server, client):
    client("SET", "k", "v")
    leases = [lease for _ in range(16) for lease in client("KV.LEASE", 30000, *["k"] * 16)]
    assert len({lease[0] for lease in leases}) == 256
    (more,) = client("KV.LEASE", 30000, "k")
    assert isinstance(more, resp.Error) and str(more).startswith("BUSY ")
    assert client("KV.RELEASE", *(lease[0] for lease in leases)) == 256
    assert client.error("KV.RESERVE", "big", 1 << 50).startswith(("TOOLARGE ", "BUSY "))
    total = server.info()["payload_region_bytes"]
    client("SET", "half", bytes(total // 2 // MIB * MIB - MIB))
    assert client("KV.LEASE", 30000, "half")[0]
    (more,) = client("KV.LEASE", 30000, "half")
    assert isinstance(more, resp.Error) and str(more).startswith("BUSY ")


def test_without_windows(start, control):
    control(no_windows=1)
    server = loop.start_server(start, control)
    peer = loop.Peer()
    with server.connect() as connection:
        with pytest.raises(resp.Error, match="UNSUPPORTED MODE CLIENT needs memory windows: the test"):
            loop.connect(connection, peer, MODE="CLIENT")
        with pytest.raises(resp.Error, match="does not take 'MODE' 'BOTH'"):
            loop.connect(connection, peer, MODE="BOTH")
        loop.connect(connection, peer, MODE="SERVER")


def test_the_device_goes_with_loans_out(server, control, client):
    free_after = server.info()["payload_pages_free"]
    client("SET", "k", payload_of(3 * MIB))
    ((lease, _, _, pieces),) = client("KV.LEASE", 30000, "k")
    reservation, _, _ = client("KV.RESERVE", "new", MIB)
    control(gone=1)
    kvserver.wait_until(lambda: client.memory.read(pieces) is None, "the key to go")
    assert client.error("KV.LEASE", 1000, "k").startswith("IO ")
    assert client("KV.RELEASE", lease) == 0
    assert client.error("KV.COMMIT", reservation).startswith("NOTFOUND ")
    assert client("KV.GET", "k") == payload_of(3 * MIB)
    server.expect_pages_back(free_after)


def test_the_server_stops_with_loans_out(start, control):
    server = loop.start_server(start, control, shutdown_timeout=1)
    with Borrower(server) as client:
        client("SET", "k", payload_of(MIB))
        client("KV.LEASE", 30000, "k")
        client("KV.RESERVE", "new", MIB)
        server.stop()


def test_a_user_without_the_right_gets_no_loan(server, client):
    client("SET", "k", "v")
    with server.connect() as admin:
        admin("ACL", "SETUSER", "plain", "on", ">x", "~*", "+@all", "-@rdma")
    client("AUTH", "plain", "x")
    assert client.error("KV.LEASE", 1000, "k").startswith("NOPERM ")
    assert client.error("KV.RESERVE", "k", 10).startswith("NOPERM ")
