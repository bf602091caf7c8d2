"""SWAPDB: one step over all shards, whatever is said of keys afterwards says the new numbers."""

import threading

import kvserver
import pytest

pytestmark = pytest.mark.reactors

KEYS = [f"k{i}" for i in range(16)]
LARGE = "x" * 300_000


@pytest.fixture(params=[1, 2, 4])
def server(start, request):
    return start(reactors=request.param)


@pytest.fixture
def client(server):
    with server.connect() as connection:
        yield connection


def select(connection, database):
    assert connection("SELECT", database) == "OK"
    return connection


def keyspace(connection):
    text = connection("INFO", "keyspace").decode()
    lines = [line.split(":") for line in text.split("\r\n") if line.startswith("db")]
    return {name: int(facts.split(",")[0].removeprefix("keys=")) for name, facts in lines}


def test_every_command_sees_the_other_database(server, client):
    with server.connect() as other:
        for key in KEYS:
            client("SET", key, "zero", "EX", "1000")
        client("SET", "large", LARGE)
        select(other, 1)("SET", "k0", "one")
        assert client("SWAPDB", "0", "1") == "OK"
        assert client("GET", "k0") == b"one"
        assert client("DBSIZE") == 1
        assert client("KEYS", "*") == [b"k0"]
        assert client("RANDOMKEY") == b"k0"
        assert other("MGET", *KEYS) == [b"zero"] * len(KEYS)
        assert other("GET", "large") == LARGE.encode()
        assert 0 < other("TTL", "k1") <= 1000
        assert other("TTL", "k0") > 0
        assert sorted(other("SCAN", 0, "COUNT", 1000)[1]) == sorted(
            [key.encode() for key in KEYS] + [b"large"]
        )
        assert keyspace(client) == {"db0": 1, "db1": len(KEYS) + 1}
        assert other("FLUSHDB") == "OK"
        assert keyspace(client) == {"db0": 1}
        assert client("SWAPDB", "1", "0") == "OK"
        assert keyspace(client) == {"db1": 1}
        assert client("SWAPDB", "2", "2") == "OK"
        assert keyspace(client) == {"db1": 1}


def test_copy_move_and_parents_follow(server, client):
    client("SET", "a", "zero")
    client("SWAPDB", "0", "5")
    client("SET", "b", "new zero")
    assert client("COPY", "b", "a", "DB", "5") == 0
    assert client("COPY", "b", "b2", "DB", "5") == 1
    assert client("MOVE", "b", "5") == 1
    assert client("EXISTS", "b") == 0
    assert client.error("MOVE", "b", "0") == "ERR source and destination objects are the same"
    select(client, 5)
    assert client("MGET", "a", "b", "b2") == [b"zero", b"new zero", b"new zero"]
    assert client("RENAME", "a", "c") == "OK"
    assert client("KV.SET", "child", "v", "PARENT", "c") == "OK"
    stat = client("KV.STAT", "child")
    assert dict(zip(stat[::2], stat[1::2], strict=True))[b"parent"] == 1


def test_what_is_swapped_twice_and_in_a_ring_is_where_it_belongs(server, client):
    for database in range(4):
        select(client, database)("SET", "k", database)
    order = [0, 1, 2, 3]
    for first, second in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3), (1, 1)]:
        assert client("SWAPDB", first, second) == "OK"
        order[first], order[second] = order[second], order[first]
    for database in range(4):
        assert select(client, database)("GET", "k") == b"%d" % order[database]


def test_in_a_transaction_it_counts_for_what_follows(server, client):
    client("SET", "k", "zero")
    select(client, 1)("SET", "k", "one")
    client("MULTI")
    for words in (
        ("GET", "k"),
        ("SWAPDB", "0", "1"),
        ("GET", "k"),
        ("SELECT", "0"),
        ("GET", "k"),
        ("SWAPDB", "x", "1"),
        ("DBSIZE",),
    ):
        assert client(*words) == "QUEUED"
    replies = client("EXEC")
    assert replies[:5] == [b"one", "OK", b"zero", "OK", b"one"]
    assert str(replies[5]) == "ERR invalid first DB index"
    assert replies[6] == 1


@pytest.mark.parametrize(
    ("there", "other", "touched"), [(1, 0, True), (0, 1, True), (1, 1, True), (0, 0, False)]
)
def test_watched_keys_are_touched_if_there_was_or_is_one(server, client, there, other, touched):
    with server.connect() as swapper:
        if there:
            client("SET", "k", "zero")
        if other:
            select(swapper, 1)("SET", "k", "one")
        client("WATCH", "k")
        swapper("SWAPDB", "0", "1")
        client("MULTI")
        client("PING")
        assert client("EXEC") == (None if touched else ["PONG"])


def test_a_watched_key_that_was_in_neither_is_watched_on(server, client):
    with server.connect() as swapper:
        client("WATCH", *KEYS)
        swapper("SWAPDB", "0", "1")
        select(swapper, 1)("SET", "k3", "v")  # the database that was watched at first
        client("MULTI")
        client("PING")
        assert client("EXEC") == ["PONG"]
        client("WATCH", *KEYS)
        swapper("SWAPDB", "0", "2")
        select(swapper, 0)("SET", "k3", "v")
        client("MULTI")
        client("PING")
        assert client("EXEC") is None


def test_notices_and_events_name_the_number_that_clients_use(server, client):
    assert client("CONFIG", "SET", "notify-keyspace-events", "KA") == "OK"
    client("KV.EVENTS", "SINCE", "0")
    with server.connect() as listener:
        listener("PSUBSCRIBE", "*")
        client("SWAPDB", "0", "7")
        client("SET", "k", "v")
        assert listener.read()[2:] == [b"__keyspace@0__:k", b"set"]
        client("SWAPDB", "0", "7")
        select(client, 7)("DEL", "k")
        assert listener.read()[2:] == [b"__keyspace@7__:k", b"del"]


def test_others_see_it_in_one_step(start):
    """Readers on other reactors never meet keys of both databases at once."""
    server = start(reactors=4)
    ended = threading.Event()
    faults = []

    def read(transaction):
        with server.connect() as connection:
            while not ended.is_set():
                if transaction:
                    connection("MULTI")
                    for key in KEYS:
                        connection("GET", key)
                    values = connection("EXEC")
                else:
                    values = connection("MGET", *KEYS)
                if len(set(values)) != 1 or None in values:
                    faults.append(values)

    with server.connect() as connection:
        for database in range(2):
            select(connection, database)
            connection("MSET", *[word for key in KEYS for word in (key, f"of {database}")])
        readers = [threading.Thread(target=read, args=(i % 2 == 0,)) for i in range(4)]
        for reader in readers:
            reader.start()
        for _ in range(int(400 / kvserver.SLOW)):
            assert connection("SWAPDB", "0", "1") == "OK"
        ended.set()
        for reader in readers:
            reader.join()
    assert faults == []


def test_puts_under_way_end_in_the_database_where_they_began(server, client):
    with server.connect() as writer:
        head = b"*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n" % len(LARGE)
        writer.send(head + LARGE[:100_000].encode())
        kvserver.wait_until(lambda: server.info()["reserved_values"] >= 1, "the value to be begun")
        client("SWAPDB", "0", "1")
        writer.send(LARGE[100_000:].encode() + b"\r\n")
        assert writer.read() == "OK"
        assert client("EXISTS", "large") == 0
        assert select(client, 1)("GET", "large") == LARGE.encode()
