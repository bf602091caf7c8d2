"""The extension commands over the wire, in both protocols, with keys on several reactors."""

import ctypes
import os
import time

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors


@pytest.fixture
def server(start):
    return start(reactors=4)


@pytest.fixture
def connection(server):
    with server.connect() as connection:
        yield connection


def stat_of(connection, key):
    reply = connection("KV.STAT", key)
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2]))
    return {name.decode(): value for name, value in reply.items()}


def checksum_of(payload):
    """XXH3-64 in hexadecimal, by the installed library."""
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        pytest.skip("libxxhash is not installed")
    library.XXH3_64bits.restype = ctypes.c_uint64
    return f"{library.XXH3_64bits(payload, ctypes.c_size_t(len(payload))):016x}"


def test_match_prefix(connection):
    keys = [f"chain:{i}" for i in range(300)]
    connection("MSET", *[word for key in keys[:200] for word in (key, "x")])
    assert connection("KV.MATCH", *keys) == 200
    assert connection("KV.MATCH", "POLICY", "PREFIX", *keys) == 200
    connection("DEL", keys[70])
    assert connection("KV.MATCH", *keys) == 70
    connection("DEL", keys[0])
    assert connection("KV.MATCH", *keys) == 0
    assert connection("KV.MATCH", keys[1]) == 1
    assert connection("KV.MATCH", "absent") == 0


def test_times_that_are_not_allowed_name_the_bound(connection):
    connection("CONFIG", "SET", "lease-max-ms", "12345")
    for command in (
        ("KV.MATCH", "PIN", "12346", "k"),
        ("KV.LEASE", "0", "k"),
        ("KV.PIN", "k", "SOFT", "x"),
        ("KV.SET", "k", "v", "PIN", "HARD", "99999999999999999999"),
    ):
        said = connection.error(*command)
        assert said == "ERR the time in milliseconds must be from 1 to 12345, which is lease-max-ms"
    connection("MULTI")
    assert connection("KV.LEASE", "0", "k") == "QUEUED"
    assert "12345" in str(connection("EXEC")[0])


def test_checksums_of_long_values(server):
    """A long one is summed over several turns; what is behind it in the pipeline waits."""
    payload = os.urandom(3 << 20) * 7
    checksum = checksum_of(payload)
    wrong = f"{int(checksum, 16) ^ 1:016x}"
    with server.connect() as c:
        replies = c.pipeline(
            [
                ("KV.SET", "k", payload, "CHECKSUM", checksum, "TTL", "100000"),
                ("STRLEN", "k"),
                ("KV.SET", "k", payload, "CHECKSUM", wrong),
                ("KV.SET", "k", payload, "CHECKSUM", checksum, "NX"),
                ("KV.SET", "n", payload, "NX", "CHECKSUM", wrong),
                ("EXISTS", "n"),
            ]
        )
        assert replies[:2] == ["OK", len(payload)]
        assert str(replies[2]).startswith("CORRUPT")
        assert replies[3] == "EXISTS"
        assert str(replies[4]).startswith("CORRUPT")
        assert replies[5] == 0
        assert c("GET", "k") == payload
    with server.connect() as c:
        # Gone while it is summed, or shortly before.
        c.send(resp.encode("KV.SET", "gone", payload, "CHECKSUM", checksum))
    kvserver.wait_until(server.nothing_held, "the payload's pages to come back")


def test_match_suffix(connection):
    keys = [f"chain:{i}" for i in range(300)]
    assert connection("KV.MATCH", "POLICY", "suffix", *keys) == 0
    connection("SET", keys[9], "x")
    connection("SET", keys[270], "x")
    assert connection("KV.MATCH", "POLICY", "SUFFIX", *keys) == 271
    assert connection("KV.MATCH", "POLICY", "SUFFIX", *keys[:100]) == 10


def test_match_each(connection):
    keys = [f"chain:{i}" for i in range(600)]
    connection("MSET", *[word for key in keys[::3] for word in (key, "x")])
    assert connection("KV.MATCH", "POLICY", "EACH", *keys) == [
        1 if i % 3 == 0 else 0 for i in range(600)
    ]
    assert connection("KV.MATCH", "POLICY", "each", "absent") == [0]


def test_match_arguments(connection):
    connection("SET", "k", "x")
    assert "POLICY is PREFIX, SUFFIX or EACH" in connection.error("KV.MATCH", "POLICY", "best", "k")
    for bad in (0, -1, "soon", 60001, 1 << 40):
        assert "milliseconds" in connection.error("KV.MATCH", "PIN", bad, "k")
    assert connection("KV.MATCH", "PIN", 100, "POLICY", "EACH", "k", "l") == [1, 0]
    assert connection("KV.MATCH", "POLICY", "EACH", "PIN", 100, "k") == [1]
    # Words that stand where keys stand are keys.
    connection("MSET", "PIN", "x", "POLICY", "x")
    assert connection("KV.MATCH", "PIN", "POLICY") == 2
    assert "wrong number of arguments" in connection.error("KV.MATCH")


def test_match_pins(start):
    """What MATCH found stays although the store is written over many times."""
    server = start(reactors=2, maxmemory="96mb", buffer_memory="16mb")
    with server.connect() as connection:
        payload = os.urandom(1 << 20)
        keys = [f"pinned:{i}" for i in range(8)]
        for key in keys:
            connection("SET", key, payload)
        assert connection("KV.MATCH", "PIN", 60000, *keys, "absent") == 8
        for i in range(150):
            connection("SET", f"fill:{i}", payload)
        assert connection("EXISTS", *keys) == 8
        assert server.info()["evicted_keys"] > 50
        assert stat_of(connection, keys[0])["pin"] == b"soft"
        assert connection("KV.UNPIN", *keys, "absent") == 8
        for i in range(150):
            connection("SET", f"more:{i}", payload)
        assert connection("EXISTS", *keys) == 0


def test_pin_and_unpin(connection):
    connection("SET", "k", "x")
    assert connection("KV.PIN", "k", "HARD", 50000) == 1
    stat = stat_of(connection, "k")
    assert stat["pin"] == b"hard" and 49000 < stat["pin_ms"] <= 50000
    assert connection("KV.UNPIN", "k") == 1
    assert stat_of(connection, "k")["pin"] == b"none"
    assert connection("KV.PIN", "absent", "SOFT", 100) == 0
    assert "SOFT or HARD" in connection.error("KV.PIN", "k", "WEAK", 100)
    assert "milliseconds" in connection.error("KV.PIN", "k", "SOFT", 60001)
    assert connection("KV.PIN", "k", "SOFT", 1) == 1
    kvserver.wait_until(lambda: stat_of(connection, "k")["pin"] == b"none", "the pin to end")
    connection("KV.PIN", "k", "HARD", 60000)
    assert connection("DEL", "k") == 1, "a pin keeps from eviction, not from DEL"


def test_set_options(connection):
    assert connection("KV.SET", "k", "first") == "OK"
    assert connection("KV.SET", "k", "second", "NX") == "EXISTS"
    assert connection("KV.GET", "k") == b"first"
    assert connection("KV.SET", "k", "third", "TTL", 50000, "CLASS", "window") == "OK"
    stat = stat_of(connection, "k")
    assert stat["length"] == 5 and stat["class"] == b"window" and stat["codec"] == b"none"
    assert 49000 < stat["ttl_ms"] <= 50000
    assert 49000 < connection("PTTL", "k") <= 50000
    assert connection("KV.SET", "k", "v", "PARENT", "p", "CODEC", "none", "PIN", "SOFT", 9000)
    assert stat_of(connection, "k")["pin"] == b"soft"
    assert connection("PTTL", "k") == -1
    assert connection("KV.SET", "gone", "v", "TTL", 1) == "OK"
    time.sleep(0.01)
    assert connection("KV.GET", "gone") is None


def tokens_of(documentation):
    """The words that stand for themselves in a command's syntax, by COMMAND DOCS."""
    found = set()
    for at, word in enumerate(documentation):
        if isinstance(word, list):
            found |= tokens_of(word)
        elif word == b"token":
            found.add(documentation[at + 1].decode())
    return found


@pytest.mark.parametrize("command", ["KV.SET", "KV.PUT", "KV.RESERVE"])
def test_documentation_names_every_option_of_a_put(connection, command):
    options = {"NX", "TTL", "CODEC", "PARENT", "CLASS", "COST", "PIN", "CHECKSUM"}
    assert options <= tokens_of(connection("COMMAND", "DOCS", command))
    assert connection("KV.SET", "dear", "v", "COST", 1000) == "OK"


@pytest.mark.parametrize(
    "options, error",
    [
        (("TTL", 0), "TTL takes milliseconds"),
        (("TTL", "x"), "TTL takes milliseconds"),
        (("TTL",), "syntax error"),
        (("CODEC", "zip"), "UNSUPPORTED"),
        (("CLASS", "none"), "CLASS is FULL, WINDOW, STATE or ENCODER"),
        (("CLASS",), "syntax error"),
        (("COST", 0), "COST takes a number"),
        (("PIN", "HARD"), "SOFT or HARD"),
        (("PIN", "HARD", 0), "milliseconds"),
        (("CHECKSUM", "xyz"), "in hexadecimal"),
        (("CHECKSUM", "1"), "CORRUPT"),
        (("PARENT",), "syntax error"),
        (("NX", "XX"), "syntax error"),
    ],
)
@pytest.mark.parametrize("length", [5, 300000])
def test_set_refuses(server, connection, options, error, length):
    """Nothing is stored, nothing is left, and the connection goes on: also with long payload."""
    assert error in connection.error("KV.SET", "refused", b"x" * length, *options)
    assert connection("EXISTS", "refused") == 0
    assert connection("PING") == "PONG"
    kvserver.wait_until(server.nothing_held, "the payload's pages to come back")


@pytest.mark.parametrize("length", [10, 300000])
def test_set_with_the_right_checksum(connection, length):
    payload = os.urandom(length)
    checksum = checksum_of(payload)
    assert connection("KV.SET", "k", payload, "CHECKSUM", checksum) == "OK"
    assert stat_of(connection, "k")["checksum"] == checksum.encode()
    assert connection("KV.GET", "k") == payload


def test_stat(connection):
    assert connection("KV.STAT", "absent") is None
    connection("SET", "k", b"x" * 70000)
    for _ in range(3):
        connection("GET", "k")
    stat = stat_of(connection, "k")
    assert stat["length"] == 70000 and stat["stored"] >= 70000
    assert stat["ttl_ms"] == -1 and stat["leases"] == 0 and stat["pin_ms"] == 0
    assert stat["tier"] == b"dram" and stat["checksum"] is None
    lease = connection("KV.LEASE", 1000, "k")[0][0]
    assert stat_of(connection, "k")["leases"] == 1
    connection("KV.RELEASE", lease)
    assert stat_of(connection, "k")["leases"] == 0


def test_lease_and_release_over_many_shards(server, connection):
    keys = [f"l:{i}" for i in range(600)]
    connection("MSET", *[word for key in keys for word in (key, "x" * 50)])
    leases = connection("KV.LEASE", 60000, *keys, "absent")
    assert leases[600] is None
    assert len({lease[0] for lease in leases[:600]}) == 600
    assert server.info()["leases"] == 600
    assert connection("KV.RELEASE", *[lease[0] for lease in leases[:300]]) == 300
    assert server.info()["leases"] == 300
    assert connection("KV.RELEASE", *[lease[0] for lease in leases[:600]]) == 300
    assert "a lease id is a number" in connection.error("KV.RELEASE", "x")
    assert connection("KV.RELEASE", 0, (1 << 64) - 1) == 0


def test_leases_have_a_bound(start):
    server = start(reactors=2, grants_max=16)
    with server.connect() as connection:
        keys = [f"l:{i}" for i in range(100)]
        connection("MSET", *[word for key in keys for word in (key, "x")])
        replies = connection("KV.LEASE", 60000, *keys)
        granted = [reply for reply in replies if isinstance(reply, list)]
        refused = [reply for reply in replies if isinstance(reply, resp.Error)]
        assert len(granted) == 32 and len(refused) == 68
        assert all(str(error).startswith("BUSY ") for error in refused)
        assert connection("KV.RELEASE", *[lease[0] for lease in granted]) == 32


def test_shapes_of_both_protocols(server):
    with server.connect() as two, server.connect() as three:
        three("HELLO", 3)
        two("SET", "k", "x")
        hello_two, hello_three = two("KV.HELLO"), three("KV.HELLO")
        assert isinstance(hello_two, list) and isinstance(hello_three, dict)
        names = set(hello_two[::2])
        assert names == set(hello_three)
        assert {b"server", b"node", b"reactors", b"reactor_ports", b"transports"} <= names
        assert hello_three[b"server"] == b"kvasir" and hello_three[b"reactors"] == 4
        assert hello_three[b"reactor_ports"] == [server.port + 1 + i for i in range(4)]
        assert isinstance(two("KV.STAT", "k"), list) and isinstance(three("KV.STAT", "k"), dict)
        for connection in (two, three):
            assert connection("KV.GET", "absent") is None
            assert connection("KV.STAT", "absent") is None
            assert connection("KV.LEASE", 10, "absent") == [None]
            assert connection("KV.MATCH", "k") == 1
            connection.send(resp.encode("KV.GET", "absent"))
        assert two._line() == b"$-1" and three._line() == b"_"


def test_every_reactor_says_which_it_is(server):
    for i in range(4):
        with resp.Connection(server.port + 1 + i) as connection:
            connection("HELLO", 3)
            assert connection("KV.HELLO")[b"reactor"] == i


@pytest.mark.parametrize(
    "command, keys",
    [
        (("KV.MATCH", "a", "b", "c"), [b"a", b"b", b"c"]),
        (("KV.MATCH", "PIN", 5, "POLICY", "EACH", "a", "b"), [b"a", b"b"]),
        (("KV.SET", "a", "v", "PARENT", "p"), [b"a"]),
        (("KV.GET", "a"), [b"a"]),
        (("KV.RESERVE", "a", 5, "NX"), [b"a"]),
        (("KV.LEASE", 5, "a", "b"), [b"a", b"b"]),
        (("KV.PIN", "a", "SOFT", 5), [b"a"]),
        (("KV.UNPIN", "a", "b"), [b"a", b"b"]),
        (("KV.STAT", "a"), [b"a"]),
    ],
)
def test_getkeys(connection, command, keys):
    got = connection("COMMAND", "GETKEYS", *command)
    # PARENT names a key, too: a client may be told of it.
    assert got[: len(keys)] == keys


def test_getkeys_of_commands_without_keys(connection):
    for command in (("KV.RELEASE", 1), ("KV.ABORT", 1), ("KV.COMMIT", 1)):
        assert "no key arguments" in connection.error("COMMAND", "GETKEYS", *command)


def test_command_info_of_extensions(connection):
    names = [b"kv.match", b"kv.set", b"kv.get", b"kv.lease", b"kv.stat"]
    entries = connection("COMMAND", "INFO", *names, "nosuch")
    assert [entry[0] for entry in entries[:5]] == names and entries[5] is None
    positions = {entry[0]: tuple(entry[3:6]) for entry in entries[:5]}
    assert positions[b"kv.get"] == (1, 1, 1)
    assert positions[b"kv.lease"] == (2, -1, 1)
