"""KV.EVENTS: what happened to keys, polled and pushed, in one order over several reactors."""

import kvserver
import pytest

pytestmark = pytest.mark.reactors
MIB = 1 << 20


@pytest.fixture
def server(start):
    return start(reactors=3)


@pytest.fixture
def connection(server):
    with server.connect() as connection:
        yield connection


def now(connection):
    number, events = connection("KV.EVENTS", "SINCE", "$")
    assert events == []
    return number


def poll(connection, since, count=None):
    """(next, [(kind, database, key, length)]), with what every answer must hold checked."""
    words = [] if count is None else ["COUNT", count]
    number, events = connection("KV.EVENTS", "SINCE", since, *words)
    numbers = [event[0] for event in events]
    assert numbers == sorted(set(numbers)) and all(since < n <= number for n in numbers)
    assert all(event[5] == b"dram" for event in events)
    return number, [(event[1].decode(), *event[2:5]) for event in events]


def test_each_change_is_told(connection):
    start = now(connection)
    connection("SET", "a", "123")
    connection("APPEND", "a", "45")
    connection("GET", "a")
    connection("DEL", "a", "absent")
    connection("SET", "b", "x", "PX", "1")
    kvserver.wait_until(lambda: connection("EXISTS", "b") == 0, "b to expire")
    connection("SET", "c", "y")
    connection("EXPIRE", "c", "-1")
    connection("SET", "d", "y")
    connection("RENAME", "d", "e")
    connection("SELECT", 3)
    connection("KV.SET", "f", "zz")
    connection("GETDEL", "f")
    after, events = poll(connection, start)
    assert events == [
        ("sealed", 0, b"a", 3),
        ("sealed", 0, b"a", 5),
        ("deleted", 0, b"a", 5),
        ("sealed", 0, b"b", 1),
        ("expired", 0, b"b", 1),
        ("sealed", 0, b"c", 1),
        ("expired", 0, b"c", 1),
        ("sealed", 0, b"d", 1),
        ("sealed", 0, b"e", 1),
        ("deleted", 0, b"d", 1),
        ("sealed", 3, b"f", 2),
        ("deleted", 3, b"f", 2),
    ]
    assert poll(connection, after)[1] == []


def test_a_flush_is_told_by_each_shard_that_had_keys(connection):
    connection("MSET", *[word for i in range(50) for word in (f"k{i}", "x")])
    start = now(connection)
    connection("FLUSHDB")
    _, events = connection("KV.EVENTS", "SINCE", start)
    assert {event[0] % 64 for event in events} == {0, 1, 2}
    assert [event[1:5] for event in events] == [[b"flushed", 0, b"", 0]] * 3
    connection("FLUSHALL")
    assert len(poll(connection, start)[1]) == 3


def test_pieces_make_the_whole(connection):
    start = now(connection)
    keys = [f"key:{i}".encode() for i in range(500)]
    connection.pipeline([("SET", key, "x") for key in keys])
    at, seen = start, []
    while True:
        at, events = poll(connection, at, 7)
        assert len(events) <= 7
        if not events:
            break
        seen += [event[2] for event in events]
    assert sorted(seen) == sorted(keys)
    assert [event[2] for event in poll(connection, start)[1]] == seen


def test_evictions_are_told(start):
    server = start(reactors=2, maxmemory="96mb", shm="no")
    with server.connect() as connection:
        at = now(connection)
        there, evicted = set(), 0
        for i in range(200):
            connection("SET", f"block:{i}", b"x" * (1 << 20))
            at, events = poll(connection, at)
            for kind, _, key, length in events:
                assert length == 1 << 20
                if kind == "sealed":
                    there.add(key)
                else:
                    assert kind == "evicted"
                    there.remove(key)
                    evicted += 1
        assert evicted > 0
        assert evicted == int(server.info()["evicted_keys"])
        assert set(connection("KEYS", "*")) == there


def test_an_overrun_backlog_is_said(start):
    server = start(reactors=2, events_backlog="256kb")
    with server.connect() as connection:
        at = now(connection)
        connection.pipeline([("SET", f"key:{i % 100}", "x") for i in range(30000)])
        error = connection.error("KV.EVENTS", "SINCE", at)
        assert error.startswith("OVERRUN "), error
        oldest = int(error.split()[1])
        assert oldest > at
        rest = poll(connection, oldest, 10000)[1]
        assert len(rest) > 1000
        # All that is there, without asking what is lost.
        assert len(connection("KV.EVENTS", "SINCE", 0, "COUNT", 10000)[1]) >= len(rest)
        # A number of another life of the server.
        assert connection.error("KV.EVENTS", "SINCE", 2**62).startswith("OVERRUN ")
        assert connection.error("KV.EVENTS", "SINCE", 1).startswith("OVERRUN ")
        # Another size: what was there is gone, and that is said.
        at = now(connection)
        connection("SET", "before", "x")
        connection("CONFIG", "SET", "events-backlog", "512kb")
        assert connection.error("KV.EVENTS", "SINCE", at).startswith("OVERRUN ")
        assert connection("CONFIG", "GET", "events-backlog")[1] == b"524288"
        kvserver.wait_until(
            lambda: int(server.info()["events_bytes"]) == 2 * (512 << 10), "the new rings to count"
        )


def test_nothing_is_kept_before_somebody_asks(server, connection):
    connection("SET", "a", "x")
    assert server.info()["events_bytes"] == 0
    number, events = connection("KV.EVENTS", "SINCE", 0)
    assert events == []
    connection("SET", "b", "x")
    assert [event[2] for event in poll(connection, number)[1]] == [b"b"]
    kvserver.wait_until(lambda: int(server.info()["events_bytes"]) == 3 << 20, "rings to count")


def test_bad_words_are_refused(connection):
    assert "SINCE takes the number" in connection.error("KV.EVENTS", "SINCE", "x")
    assert "SINCE takes the number" in connection.error("KV.EVENTS", "SINCE", "-1")
    assert "syntax error" in connection.error("KV.EVENTS", "SINCE", 0, "COUNT")
    assert "syntax error" in connection.error("KV.EVENTS", "SINCE", 0, "LIMIT", 3)
    assert "COUNT takes" in connection.error("KV.EVENTS", "SINCE", 0, "COUNT", 0)
    assert "COUNT takes" in connection.error("KV.EVENTS", "SINCE", 0, "COUNT", 10001)
    assert "unknown subcommand" in connection.error("KV.EVENTS", "BACKWARDS")
    assert "needs RESP3" in connection.error("KV.EVENTS", "SUBSCRIBE")
    assert connection("KV.EVENTS", "UNSUBSCRIBE") == 0
    connection("MULTI")
    assert "not allowed inside a transaction" in connection.error("KV.EVENTS", "SINCE", 0)
    connection("DISCARD")


def pushed(listener):
    """The next push: (word, number, events)."""
    push = listener.read()
    assert push[0] == b"kv.events"
    return push[1], push[2], push[3] if len(push) > 3 else None


def test_events_are_pushed(server, connection):
    with server.connect() as listener:
        listener("HELLO", 3)
        since = listener("KV.EVENTS", "SUBSCRIBE")
        keys = [f"key:{i}".encode() for i in range(1000)]
        connection.pipeline([("SET", key, "x") for key in keys])
        seen = []
        while len(seen) < len(keys):
            word, number, events = pushed(listener)
            assert word == b"events" and number >= events[-1][0] > since
            seen += [event[3] for event in events]
            since = number
        assert sorted(seen) == sorted(keys)
        # It can ask and listen, and comes back where it was.
        assert listener("PING") == "PONG"
        reached = listener("KV.EVENTS", "UNSUBSCRIBE")
        assert reached >= since
        connection("SET", "meanwhile", "x")
        assert listener("PING") == "PONG"
        assert listener("KV.EVENTS", "SUBSCRIBE", "SINCE", reached) == reached
        assert [event[3] for event in pushed(listener)[2]] == [b"meanwhile"]
        listener("RESET")
        connection("SET", "after", "x")
        assert listener("PING") == "PONG"
        assert "OVERRUN" in _subscribe_error(listener, 1)


def _subscribe_error(listener, since):
    listener("HELLO", 3)
    return listener.error("KV.EVENTS", "SUBSCRIBE", "SINCE", since)


def test_who_does_not_read_holds_one_push_at_most(start):
    """All that he has not been told is there, and yet waits with the shards and not for him."""
    server = start(reactors=2, events_backlog="32mb")
    with server.connect() as connection, server.connect(receive_buffer=4096) as listener:
        listener("HELLO", 3)
        listener("KV.EVENTS", "SUBSCRIBE")
        for _ in range(20):
            connection.pipeline([("SET", f"{'k' * 2000}:{i}", "x") for i in range(1000)])
            assert server.info()["mem_clients_normal"] < 2 * MIB
        events = 0
        while events < 20 * 1000:
            word, _, told = pushed(listener)
            assert word == b"events"
            events += len(told)


def test_long_keys_are_told_piece_by_piece_where_buffers_are_small(start):
    """An answer has as many events as there is room for, and never none for good."""
    server = start(reactors=4, maxmemory="64mb", events_backlog="4mb")
    keys = [b"%05d" % i + b"k" * 60000 for i in range(100)]
    with server.connect() as connection, server.connect() as listener:
        listener("HELLO", 3)
        since = listener("KV.EVENTS", "SUBSCRIBE")
        for key in keys:
            connection("SET", key, "x")
        told = []
        while len(told) < len(keys):
            told += [event[3] for event in pushed(listener)[2] if event[1] == b"sealed"]
        assert told == keys
        polled = []
        for _ in range(10 * len(keys)):
            since, events = poll(connection, since, 1000)
            polled += [key for kind, _, key, _ in events if kind == "sealed"]
        assert polled == keys


def test_who_does_not_read_learns_what_he_missed(start):
    server = start(reactors=2, events_backlog="256kb")
    with server.connect() as connection, server.connect(receive_buffer=4096) as listener:
        listener("HELLO", 3)
        since = listener("KV.EVENTS", "SUBSCRIBE")
        value = "x"
        for _ in range(40):
            connection.pipeline([("SET", f"{'k' * 200}:{i}", value) for i in range(2000)])
        # It is not cut. When it reads, it learns that it missed something, and goes on from there.
        word = b""
        while word != b"overrun":
            word, number, events = pushed(listener)
            assert number > since
            since = number
        connection("SET", "end", value)
        while not (events and events[-1][3] == b"end"):
            word, number, events = pushed(listener)


def test_a_listener_may_go_at_any_time(server, connection):
    connection("KV.EVENTS", "SINCE", "$")
    for i in range(60):
        listener = server.connect()
        listener("HELLO", 3)
        listener("KV.EVENTS", "SUBSCRIBE")
        connection("SET", f"key:{i}", "x")
        listener.close()
    assert connection("PING") == "PONG"


def test_listeners_are_limited(start):
    server = start(reactors=1)
    listeners = []
    for _ in range(64):
        listeners.append(server.connect())
        listeners[-1]("HELLO", 3)
        listeners[-1]("KV.EVENTS", "SUBSCRIBE")
    with server.connect() as one_more:
        one_more("HELLO", 3)
        assert one_more.error("KV.EVENTS", "SUBSCRIBE").startswith("BUSY 64 connections")
    for listener in listeners:
        listener.close()


def test_nobody_hears_of_keys_that_he_may_not_read(server, connection):
    connection("ACL", "SETUSER", "router", "on", ">pw", "%R~mine:*", "+kv.events", "+select")
    start = now(connection)
    connection("MSET", "mine:1", "x", "theirs:1", "x", "mine:2", "x")
    with server.connect() as router:
        router("AUTH", "router", "pw")
        assert [event[2] for event in poll(router, start)[1]] == [b"mine:1", b"mine:2"]
        number, events = poll(router, start, 1)
        assert [event[2] for event in events] == [b"mine:1"]
        assert [event[2] for event in poll(router, number, 1)[1]] == [b"mine:2"]
    connection("ACL", "SETUSER", "nobody", "on", ">pw", "~*", "+get")
    with server.connect() as nobody:
        nobody("AUTH", "nobody", "pw")
        assert nobody.error("KV.EVENTS", "SINCE", 0).startswith("NOPERM")
