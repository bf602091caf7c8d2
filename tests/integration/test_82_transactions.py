"""MULTI, EXEC, DISCARD, WATCH: nobody sees or changes a key between two commands of an EXEC, on any
number of reactors, and a queue is bounded."""

import os
import threading

import kvserver
import pytest
import redis
import resp

pytestmark = pytest.mark.reactors


@pytest.fixture(params=[1, 2, 4])
def server(start, request):
    return start(reactors=request.param)


def test_queue_and_answers(server):
    with server.connect() as c:
        assert c("MULTI") == "OK"
        assert c("SET", "a", "1") == "QUEUED"
        assert c("INCR", "a") == "QUEUED"
        assert c("GET", "none") == "QUEUED"
        assert c("MGET", *[f"k{i}" for i in range(300)]) == "QUEUED"
        assert c("EXEC") == ["OK", 2, None, [None] * 300]
        assert c("GET", "a") == b"2"
        assert c("MULTI") == "OK"
        assert c("SET", "a", "9") == "QUEUED"
        assert c("DISCARD") == "OK"
        assert c("GET", "a") == b"2"
        assert c("MULTI") == "OK"
        assert c("EXEC") == []


def test_errors(server):
    with server.connect() as c:
        assert c.error("EXEC") == "ERR EXEC without MULTI"
        assert c.error("DISCARD") == "ERR DISCARD without MULTI"
        c("MULTI")
        assert c.error("MULTI") == "ERR MULTI calls can not be nested"
        assert c.error("WATCH", "a") == "ERR WATCH inside MULTI is not allowed"
        c("SET", "a", "text")
        c("INCR", "a")
        c("SET", "b", "kept")
        replies = c("EXEC")
        assert replies[0] == "OK"
        assert str(replies[1]).startswith("ERR value is not an integer")
        assert c("GET", "b") == b"kept", "one that fails stops nothing"
        c("MULTI")
        c("SET", "b", "lost")
        assert c.error("NOSUCH").startswith("ERR unknown command")
        assert c.error("GET").startswith("ERR wrong number")
        assert c.error("EXEC").startswith("EXECABORT ")
        assert c("GET", "b") == b"kept"
        c("MULTI")
        assert c("RESET") == "RESET"
        assert c("GET", "b") == b"kept", "RESET ends a transaction"


def test_long_values(server):
    payload = os.urandom(300000)
    with server.connect() as c:
        c("MULTI")
        assert c("SET", "long", payload) == "QUEUED"
        assert c("GET", "long") == "QUEUED"
        assert c("APPEND", "long", payload) == "QUEUED"
        assert c("EXEC") == ["OK", payload, 2 * len(payload)]
        assert c("GET", "long") == payload * 2


def test_queue_is_bounded(start):
    server = start(reactors=2, **{"multi-commands-max": 100, "client-query-buffer-limit": "2mb"})
    with server.connect() as c:
        c("MULTI")
        replies = c.pipeline([("SET", f"k{i}", "v") for i in range(150)])
        assert replies[:100] == ["QUEUED"] * 100
        assert "multi-commands-max" in str(replies[100])
        assert c.error("EXEC").startswith("EXECABORT ")
        c("MULTI")
        replies = c.pipeline([("SET", f"k{i}", b"v" * 100000) for i in range(30)])
        assert any("client-query-buffer-limit" in str(reply) for reply in replies), replies
        assert c.error("EXEC").startswith("EXECABORT ")
        assert c("DBSIZE") == 0
        # What was refused is free again.
        for _ in range(30):
            c("MULTI")
            c.pipeline([("SET", f"k{i}", b"v" * 100000) for i in range(10)])
            assert c("EXEC") == ["OK"] * 10
    kvserver.wait_until(server.nothing_held, "nothing to be held")


def test_watch(server):
    with server.connect() as c, server.connect() as other:
        for change in (
            ("SET", "w", "2"),
            ("DEL", "w"),
            ("EXPIRE", "w", "100"),
            ("INCR", "w"),
            ("FLUSHALL",),
        ):
            c("SET", "w", "1")
            assert c("WATCH", "w", "other") == "OK"
            other(*change)
            c("MULTI")
            c("SET", "seen", str(change))
            assert c("EXEC") is None, change
        c("SET", "w", "1")
        c("WATCH", "w")
        other("SET", "w", "2")
        assert c("UNWATCH") == "OK"
        c("MULTI")
        c("GET", "w")
        assert c("EXEC") == [b"2"]
        c("WATCH", "w", "absent")
        other("GET", "w")
        other("SET", "something", "else")
        other("DEL", "absent")
        c("MULTI")
        c("PING")
        assert c("EXEC") == ["PONG"], "what was only read, or never there, is not changed"
        c("WATCH", "absent")
        other("SET", "absent", "now")
        c("MULTI")
        assert c("EXEC") is None


def test_nobody_looks_between_two_commands(server):
    """Two keys of different shards always have the same value, whoever looks by EXEC."""
    keys = [f"pair:{i}" for i in range(6)]
    failures, done = [], threading.Event()

    def writer(number):
        with server.connect() as c:
            turn = 0
            while not done.is_set():
                turn += 1
                value = f"{number}:{turn}"
                c.send(
                    resp.encode("MULTI")
                    + b"".join(resp.encode("SET", key, value) for key in keys)
                    + resp.encode("EXEC")
                )
                for _ in range(len(keys) + 1):
                    c.read()
                if c.read() != ["OK"] * len(keys):
                    failures.append("a write was not answered")

    def reader():
        with server.connect() as c:
            while not done.is_set():
                c.send(
                    resp.encode("MULTI")
                    + b"".join(resp.encode("GET", key) for key in keys)
                    + resp.encode("EXEC")
                )
                for _ in range(len(keys) + 1):
                    c.read()
                seen = set(c.read())
                if len(seen) != 1:
                    failures.append(f"keys differ: {seen}")
                    return

    with server.connect() as c:
        c("MSET", *[word for key in keys for word in (key, "start")])
    threads = [threading.Thread(target=writer, args=(i,)) for i in range(3)]
    threads += [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    done.wait(3)
    done.set()
    for thread in threads:
        thread.join(30)
    assert failures == []


def test_watched_counters_lose_nothing(server):
    """Read, add one, write, with WATCH, from several clients: every addition counts."""
    each, clients = 60, 5

    def add_one(pipe):
        value = int(pipe.get("counter") or 0)
        pipe.multi()
        pipe.set("counter", value + 1)

    def count():
        with redis.Redis(port=server.port, protocol=3) as client:
            for _ in range(each):
                client.transaction(add_one, "counter")

    threads = [threading.Thread(target=count) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    with server.connect() as c:
        assert c("GET", "counter") == b"%d" % (each * clients)


def test_redis_py_pipelines(server):
    with redis.Redis(port=server.port, protocol=2) as client:
        with client.pipeline() as pipe:
            assert pipe.set("a", 1).incr("a").get("a").execute() == [True, 2, b"2"]
        with client.pipeline(transaction=False) as pipe:
            assert pipe.set("a", 1).incr("a").execute() == [True, 2]


def test_a_client_that_dies_in_a_transaction(server):
    pages = server.info()["payload_pages_free"]
    for ending in ("MULTI", "WATCH"):
        for _ in range(20):
            c = server.connect()
            c("WATCH", "a", "b", "c")
            if ending == "MULTI":
                c("MULTI")
                c("SET", "a", b"x" * 50000)
            c.close()
    kvserver.wait_until(lambda: server.info()["connected_clients"] == 1, "all clients to go")
    server.expect_pages_back(pages)


def test_what_asks_all_reactors_in_a_transaction(server):
    with server.connect() as c:
        c("MULTI")
        for command in (("INFO",), ("DBSIZE",), ("FLUSHALL",), ("CONFIG", "SET", "timeout", "0")):
            assert c(*command) == "QUEUED"
        c("SET", "after", "1")
        replies = c("EXEC")
        assert b"redis_version" in replies[0]
        assert replies[1:] == [0, "OK", "OK", "OK"]
        assert c("GET", "after") == b"1"


def test_rights_are_looked_at_twice(server):
    """When a command is queued, and again when it runs."""
    with server.connect() as admin, server.connect() as c:
        admin("ACL", "SETUSER", "u", "on", ">p", "~mine:*", "+@all")
        c("AUTH", "u", "p")
        c("MULTI")
        assert c("SET", "mine:1", "a") == "QUEUED"
        assert c.error("SET", "yours", "a").startswith("NOPERM ")
        assert c.error("EXEC").startswith("EXECABORT ")
        c("MULTI")
        assert c("SET", "mine:1", "a") == "QUEUED"
        assert c("GET", "mine:1") == "QUEUED"
        admin("ACL", "SETUSER", "u", "-set")
        replies = c("EXEC")
        assert str(replies[0]).startswith("NOPERM ")
        assert replies[1] is None


def test_what_takes_several_steps_is_done_inside_a_transaction(server):
    """Long values are put together in steps, and some commands keep pins from one to the next: those
    that are not given back fail the server's own check when it stops."""
    with server.connect() as connection:
        connection("SET", "long", b"x" * 6_000_000)
        connection("MULTI")
        commands = [
            ("APPEND", "long", "y"),
            ("SETRANGE", "far", 8_000_000, "z"),
            ("COPY", "long", "copy"),
            ("BITOP", "NOT", "inverse", "long"),
            ("BITCOUNT", "long"),
            ("MSETNX", "p", "1", "q", "2"),
        ]
        assert [connection(*command) for command in commands] == ["QUEUED"] * len(commands)
        bits = 6_000_000 * ord("x").bit_count() + ord("y").bit_count()
        assert connection("EXEC") == [6_000_001, 8_000_001, 1, 6_000_001, bits, 1]
        stats = connection("INFO", "commandstats").decode()
        appended = next(line for line in stats.splitlines() if line.startswith("cmdstat_append:"))
        assert "calls=1," in appended and "rejected_calls=0," in appended


def test_replies_of_a_transaction_may_be_more_than_the_buffers(start):
    """What EXEC answers cannot wait between two commands: it is kept until the client has read it."""
    server = start(reactors=2, buffer_memory="16mb", client_query_buffer_limit="64mb")
    value = os.urandom(2000)
    with server.connect() as c:
        before = server.info()["buffer_bytes"]
        c("SET", "k", value)
        c("MULTI")
        assert all(reply == "QUEUED" for reply in c.pipeline([("GET", "k")] * 12000))
        replies = c("EXEC")
        assert len(replies) == 12000 and all(reply == value for reply in replies)
        assert c("PING") == "PONG"
        # What was taken for it goes back.
        kvserver.wait_until(
            lambda: server.info()["buffer_bytes"] < before + (16 << 20), "buffers to go back"
        )


def test_a_reactor_that_was_held_up_does_not_blame_its_clients(start):
    """All buffers are taken and nothing was read for a second: because nothing was sent."""
    server = start(reactors=1, buffer_memory="16mb", client_query_buffer_limit="64mb")
    value = os.urandom(2000)
    with server.connect() as c:
        c("SET", "k", value)
        c("MULTI")
        assert all(reply == "QUEUED" for reply in c.pipeline([("GET", "k")] * 12000))
        assert c("DEBUG", "SLEEP", 1) == "QUEUED"
        assert c("EXEC") == [value] * 12000 + ["OK"]


def test_replies_of_a_transaction_are_bounded(start):
    server = start(reactors=1, buffer_memory="16mb", client_query_buffer_limit="4mb")
    with server.connect() as c, server.connect() as other:
        c("SET", "k", os.urandom(2000))
        c("MULTI")
        c.pipeline([("GET", "k")] * 12000)
        c.send(b"*1\r\n$4\r\nEXEC\r\n")
        c.closed()
        assert other("PING") == "PONG"
        assert other("STRLEN", "k") == 2000


@pytest.mark.parametrize("reactors", [1, 2])
def test_a_full_store_refuses_transactions_whole(start, reactors):
    """Nothing is evicted: what would store is refused when it is queued, or by EXEC, and none of it done."""
    server = start(reactors=reactors, maxmemory="128mb", maxmemory_policy="noeviction")
    with server.connect() as client, server.connect() as filler:
        client("SET", "old", "v")
        client("MULTI")
        assert client("SET", "early", "v") == "QUEUED"
        assert client("DEL", "old") == "QUEUED"
        count = 0
        while filler.pipeline([("SET", f"fill:{count}", "x" * 1_000_000)]) == ["OK"]:
            count += 1
            assert count < 200
        assert client.error("EXEC") == (
            "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > "
            "'maxmemory'."
        )
        assert client("MGET", "early", "old") == [None, b"v"]
        client("MULTI")
        assert client.error("APPEND", "old", "more").startswith("OOM ")
        assert client("DEL", "old") == "QUEUED"
        assert client.error("EXEC").startswith("EXECABORT ")
        assert client("GET", "old") == b"v"
        client("MULTI")
        assert client.error("SET", "late", "v").startswith("OOM ")
        assert client("DISCARD") == "OK"
        client("MULTI")
        client("GET", "old")
        client("DEL", "fill:0", "fill:1", "fill:2", "fill:3")
        assert client("EXEC") == [b"v", 4]
        client("FLUSHALL")
        kvserver.wait_until(lambda: server.info()["payload_pages_free"] > 0, "pages to come back")
        client("MULTI")
        assert client("SET", "late", "v") == "QUEUED"
        assert client("EXEC") == ["OK"]
