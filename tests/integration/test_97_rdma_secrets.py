"""Keys of memory windows are told to the connection that they are good for, and to nobody else."""

import kvserver
import loop
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control, loglevel="debug", slowlog_log_slower_than=0)


class Borrower:
    """A connection with windows, and what its adapter reaches."""

    def __init__(self, server):
        self.peer = loop.Peer()
        self.connection = server.connect()
        self.memory = loop.Server(loop.connect(self.connection, self.peer, MODE="CLIENT"))

    def close(self):
        self.connection.close()
        self.peer.close()


@pytest.fixture
def borrow(server):
    borrowers = []

    def borrow():
        borrowers.append(Borrower(server))
        return borrowers[-1]

    yield borrow
    for borrower in borrowers:
        borrower.close()


def keys_of(pieces):
    """As they might be printed. A short one might stand in any text by chance."""
    words = [form for key in pieces[1::3] for form in (str(key), f"{key:x}")]
    return [word for word in words if len(word) > 6]


def test_no_log_and_no_command_shows_a_key_that_is_lent(server, borrow):
    client = borrow()
    with server.connect() as admin, server.connect() as monitor:
        assert monitor("MONITOR") == "OK"
        client.connection("SET", "k", b"v" * (3 * MIB))
        ((_, _, _, lent),) = client.connection("KV.LEASE", 30000, "k")
        _, _, reserved = client.connection("KV.RESERVE", "new", 3 * MIB)
        assert client.memory.read(lent[:3]) is not None, "it is valid"
        shown = [
            server.log(),
            repr(admin("SLOWLOG", "GET", 1000)),
            repr(admin("CLIENT", "LIST")),
            repr(admin("KV.STAT", "k")),
            repr(admin("KV.HELLO")),
            repr(admin("INFO", "everything")),
        ]
        assert admin("CONFIG", "GET", "loglevel")[1] == b"debug"
        admin("ECHO", "the last word")
        while "the last word" not in shown[-1]:
            shown.append(monitor.read())
    assert any("KV.RESERVE" in text for text in shown), "what is searched for keys tells of it"
    for key in keys_of(lent + reserved):
        assert not any(key in text for text in shown), key


def test_a_grant_is_of_use_on_its_own_queue_pair_alone(server, borrow):
    client, thief = borrow(), borrow()
    client.connection("SET", "k", b"v" * 5000)
    ((lease, _, _, lent),) = client.connection("KV.LEASE", 30000, "k")
    grant, _, reserved = client.connection("KV.RESERVE", "new", 5000)
    assert thief.memory.read(lent) is None and not thief.memory.write(reserved, b"x" * 5000)
    assert thief.connection("KV.RELEASE", lease) == 0
    assert thief.connection("KV.ABORT", grant) == 0
    assert thief.connection.error("KV.COMMIT", grant).startswith("NOTFOUND")
    assert client.memory.read(lent) == b"v" * 5000 and client.memory.write(reserved, b"n" * 5000)
    assert client.connection("KV.COMMIT", grant) == "OK"
    # Another queue pair of the same connection is another one, too.
    again = loop.Server(loop.connect(client.connection, client.peer, MODE="CLIENT"))
    assert again.read(lent) is None
    kvserver.wait_until(lambda: client.memory.read(lent) is None, "the old one to be gone")


@pytest.mark.parametrize("rule", ("-@rdma", "-@all +@kv -@rdma"))
def test_without_the_right_no_device_is_listed(server, rule):
    with server.connect() as admin:
        assert "loop0" in repr(admin("KV.HELLO"))
        admin("ACL", "SETUSER", "plain", "on", ">x", "~*", "+@all", *rule.split())
    with server.connect() as client:
        client("AUTH", "plain", "x")
        said = repr(client("KV.HELLO"))
        assert "loop0" not in said and "gid" not in said and "rdma" not in said
        with pytest.raises(resp.Error, match="NOPERM"):
            loop.connect(client, loop.Peer())
