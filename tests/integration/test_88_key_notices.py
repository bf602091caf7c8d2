"""Keyspace notifications: which are published, over several reactors, and who does not read is cut."""

import kvserver
import pytest
import redis

pytestmark = pytest.mark.reactors


@pytest.fixture(params=[1, 4])
def server(start, request):
    return start(reactors=request.param)


def listen(server, classes, *patterns):
    connection = server.connect()
    connection("CONFIG", "SET", "notify-keyspace-events", classes)
    for pattern in patterns or ("*",):
        connection("PSUBSCRIBE", pattern)
    return connection


def test_nothing_is_published_unless_asked_for(server):
    with listen(server, "") as listener, server.connect() as client:
        client("SET", "k", "v")
        client("CONFIG", "SET", "notify-keyspace-events", "g$xe")  # neither K nor E
        client("SET", "k", "v")
        client("PUBLISH", "c", "end")
        assert listener.read()[2:] == [b"c", b"end"]


def test_each_key_tells_in_order_from_every_reactor(server):
    """Both kinds of channel; one key's events come in the order in which they happened."""
    with listen(server, "KA", "__keyspace@0__:*") as listener:
        clients = [server.connect() for _ in range(4)]
        for i in range(100):
            data = [("SET", f"k{i}", i), ("INCR", f"k{i}"), ("APPEND", f"k{i}", "x")]
            clients[i % 4].pipeline([*data, ("DEL", f"k{i}")])
        heard = {}
        for _ in range(400):
            _, _, channel, event = listener.read()
            heard.setdefault(channel, []).append(event)
        assert len(heard) == 100
        assert all(v == [b"set", b"incrby", b"append", b"del"] for v in heard.values())
        for client in clients:
            client.close()


def test_channels_carry_database_event_and_key(server):
    with listen(server, "KEA") as listener, server.connect() as client:
        client("SELECT", 3)
        key = b"\x00\xff key"
        client("SET", key, "v")
        assert listener.read()[2:] == [b"__keyspace@3__:" + key, b"set"]
        assert listener.read()[2:] == [b"__keyevent@3__:set", key]
        long_key = b"k" * 5000
        client("SET", long_key, "v")
        assert listener.read()[2:] == [b"__keyspace@3__:" + long_key, b"set"]


def test_expired_keys_are_told_whether_looked_at_or_not(server):
    with listen(server, "Ex") as listener, server.connect() as client:
        client("SET", "unseen", "v", "PX", 50)
        assert listener.read()[2:] == [b"__keyevent@0__:expired", b"unseen"]
        client("SET", "seen", "v", "PX", 50)
        kvserver.wait_until(lambda: client("GET", "seen") is None, "it to expire")
        assert listener.read()[2:] == [b"__keyevent@0__:expired", b"seen"]
        client("SET", "again", "v", "PX", 50)
        listener.read()
        client("SET", "past", "v", "PXAT", 1)
        assert listener.read()[2:] == [b"__keyevent@0__:expired", b"past"]


def test_misses_and_new_keys_are_told_if_wanted(server):
    with listen(server, "Em") as listener, server.connect() as client:
        client("SET", "k", "v")
        client.pipeline([("GET", "k"), ("GET", "none"), ("MGET", "k", "gone"), ("EXISTS", "not")])
        heard = [listener.read()[2:] for _ in range(3)]
        names = [b"none", b"gone", b"not"]
        assert sorted(heard) == sorted([b"__keyevent@0__:keymiss", name] for name in names)
        client("CONFIG", "SET", "notify-keyspace-events", "En")
        client.pipeline([("SET", "k", "w"), ("SET", "l", "v"), ("APPEND", "m", "v")])
        heard = [listener.read()[2:] for _ in range(2)]
        assert sorted(heard) == [[b"__keyevent@0__:new", name] for name in (b"l", b"m")]


def test_what_a_transaction_does_is_told(server):
    with listen(server, "Kg$") as listener, server.connect() as client:
        commands = [("MULTI",), ("SET", "a", 1), ("INCR", "a"), ("DEL", "a"), ("EXEC",)]
        assert client.pipeline(commands)[4] == ["OK", 2, 1]
        assert [listener.read()[3] for _ in range(3)] == [b"set", b"incrby", b"del"]


def test_evicted_keys_are_told(start):
    server = start(reactors=2, maxmemory="96mb")
    with listen(server, "Ee") as listener, server.connect() as client:
        value = b"x" * 65536
        count = 0
        while server.info()["evicted_keys"] == 0:
            client.pipeline([("SET", f"k{count + i}", value) for i in range(100)])
            count += 100
        channel, key = listener.read()[2:]
        assert channel == b"__keyevent@0__:evicted" and client("GET", key) is None


def test_letters_are_written_as_redis_writes_them(server):
    with server.connect() as client:
        for given, shown in [
            ("gKE", b"gKE"),
            ("KA", b"AK"),
            ("EA", b"AE"),
            ("mKnE", b"nKEm"),
            ("Etdzhsl$gxe", b"AE"),
            ("$lshzxeKE", b"$lshzxeKE"),
            ("", b""),
        ]:
            assert client("CONFIG", "SET", "notify-keyspace-events", given) == "OK"
            assert client("CONFIG", "GET", "notify-keyspace-events")[1] == shown
        assert "letters" in client.error("CONFIG", "SET", "notify-keyspace-events", "KQ")


def test_who_does_not_read_is_cut(server):
    with server.connect() as client:
        client("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 512kb 60")
        slow = server.connect(receive_buffer=4096)
        slow("PSUBSCRIBE", "__key*")
        client("CONFIG", "SET", "notify-keyspace-events", "KEA")
        before = server.info()["evicted_clients"]
        for _ in range(300):
            client.pipeline([("SET", b"k" * 200 + b"%d" % i, "v") for i in range(100)])
            if server.info()["evicted_clients"] > before:
                break
        slow.closed()
        slow.close()
        assert client("PING") == "PONG"


def test_it_can_be_set_at_the_start(start):
    server = start(reactors=2, notify_keyspace_events="KEA")
    client = redis.Redis(port=server.port)
    pubsub = client.pubsub()
    pubsub.psubscribe("__keyevent@0__:*")
    assert pubsub.get_message(timeout=10)["type"] == "psubscribe"
    client.set("k", "v")
    message = pubsub.get_message(timeout=10)
    assert message["channel"] == b"__keyevent@0__:set" and message["data"] == b"k"
    pubsub.close()
    client.close()
