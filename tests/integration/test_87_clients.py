"""CLIENT: pauses, filters of LIST and KILL, and what is said of tracking."""

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors

BLOCKED = "blocked_clients"


@pytest.fixture(params=[1, 4])
def server(start, request):
    return start(reactors=request.param)


def blocked(server, count):
    kvserver.wait_until(lambda: server.info()[BLOCKED] == count, f"{count} to wait")


def test_writes_wait_and_reads_do_not(server):
    with server.connect() as client, server.connect() as writer:
        assert client("SET", "k", "old") == "OK"
        assert client("CLIENT", "PAUSE", 100000, "WRITE") == "OK"
        writer.send(resp.encode("GET", "k") + resp.encode("SET", "k", "new") + resp.encode("PING"))
        assert writer.read() == b"old"
        blocked(server, 1)
        assert b"flags=b " in client("CLIENT", "LIST")
        assert client("GET", "k") == b"old"
        assert client.error("SET", "k").startswith("ERR wrong number")
        assert client("CLIENT", "UNPAUSE") == "OK"
        assert writer.read() == "OK" and writer.read() == "PONG"
        assert client("GET", "k") == b"new"
        blocked(server, 0)


def test_a_pause_ends_by_itself(server):
    with server.connect() as client, server.connect() as other:
        client("CLIENT", "PAUSE", 300)
        other.send(resp.encode("PING"))
        assert other.read() == "PONG"
        assert client("SET", "k", "v") == "OK"


def test_the_longer_and_wider_pause_counts(server):
    with server.connect() as client, server.connect() as writer:
        client("CLIENT", "PAUSE", 100000, "WRITE")
        client("CLIENT", "PAUSE", 1, "WRITE")
        writer.send(resp.encode("SET", "k", "v"))
        blocked(server, 1)
        client("CLIENT", "UNPAUSE")
        assert writer.read() == "OK"
        for wrong in (["x"], ["-1"], [1, "BOTH"], [1, "ALL", "x"]):
            assert client.error("CLIENT", "PAUSE", *wrong).startswith("ERR ")


def test_whoever_waits_is_in_nobodys_way(server):
    """More connections than there are batches wait, with short and with long values."""
    writers = [server.connect() for _ in range(300)]
    with server.connect() as client:
        client("CLIENT", "PAUSE", 100000, "WRITE")
        for i, writer in enumerate(writers):
            value = b"%d" % i if i % 10 else b"%06d" % i * 10000
            writer.send(resp.encode("SET", f"k{i}", value) + resp.encode("GET", f"k{i}"))
        blocked(server, 300)
        assert client("GET", "k1") is None
        with server.connect() as late:
            assert late("CLIENT", "UNPAUSE") == "OK"
        for i, writer in enumerate(writers):
            assert writer.read() == "OK"
            assert writer.read() == (b"%d" % i if i % 10 else b"%06d" % i * 10000)
            writer.close()


def test_a_request_that_came_in_pieces_waits_whole(server):
    words = ["MSET", *[f"w{i}" for i in range(2000)]]
    data = resp.encode(*words)
    with server.connect() as client, server.connect() as writer:
        client("CLIENT", "PAUSE", 100000, "WRITE")
        writer.send(resp.encode("GET", "absent") + data[:9000])
        assert writer.read() is None
        writer.send(data[9000:] + resp.encode("PING"))
        blocked(server, 1)
        client("CLIENT", "UNPAUSE")
        assert writer.read() == "OK" and writer.read() == "PONG"
        assert client("GET", "w998") == b"w999"


def test_transactions_wait_if_they_write(server):
    with server.connect() as client, server.connect() as reader, server.connect() as writer:
        for connection, command in ((reader, ["GET", "k"]), (writer, ["SET", "k", "v"])):
            connection("MULTI")
            connection(*command)
        client("CLIENT", "PAUSE", 100000, "WRITE")
        assert reader("EXEC") == [None]
        writer.send(resp.encode("EXEC"))
        blocked(server, 1)
        with server.connect() as publisher:
            publisher.send(resp.encode("PUBLISH", "c", "m"))
            blocked(server, 2)
            client("CLIENT", "UNPAUSE")
            assert publisher.read() == 0
        assert writer.read() == ["OK"]


def test_a_pause_within_a_transaction_begins_behind_it(server):
    with server.connect() as client, server.connect() as writer:
        client.pipeline([("MULTI",), ("SET", "a", 1), ("CLIENT", "PAUSE", 60000, "WRITE")])
        assert client.pipeline([("SET", "b", 2), ("EXEC",)])[1] == ["OK"] * 3
        writer.send(resp.encode("SET", "c", 3))
        blocked(server, 1)
        assert client("MGET", "a", "b", "c") == [b"1", b"2", None]
        client("CLIENT", "UNPAUSE")
        assert writer.read() == "OK"


def test_who_waits_can_be_killed_and_the_server_stopped(server):
    with server.connect() as client, server.connect() as writer, server.connect() as other:
        client("CLIENT", "PAUSE", 100000, "WRITE")
        number = writer("CLIENT", "ID")
        writer.send(resp.encode("SET", "k", "v"))
        other.send(resp.encode("SET", "k", b"v" * 100000))
        blocked(server, 2)
        assert client("CLIENT", "KILL", "ID", number) == 1
        writer.closed()
        assert server.info()[BLOCKED] == 1
    server.stop()


@pytest.mark.parametrize("kind", ["WRITE", "ALL"])
def test_who_leaves_while_he_waits_is_gone(server, kind):
    """Neither he nor his request is left; and who waits for nothing is not counted."""
    with server.connect() as client, server.connect(unix=True) as idle:
        writers = [server.connect(unix=i % 2 == 0) for i in range(4)]
        client("CLIENT", "PAUSE", 100000 if kind == "WRITE" else 500, kind)
        for writer in writers:
            writer.send(resp.encode("SET", "left", "v") + resp.encode("PING"))
        if kind == "WRITE":
            blocked(server, 4)
        for writer in writers:
            writer.close()
        if kind == "WRITE":
            blocked(server, 0)
            client("CLIENT", "UNPAUSE")
            assert client("GET", "left") is None
        kvserver.wait_until(lambda: server.info()["connected_clients"] == 3, "them to go")
        assert idle("PING") == "PONG"


def test_list_and_kill_take_redis_filters(server):
    with server.connect() as client, server.connect() as one, server.connect() as listener:
        ids = [c("CLIENT", "ID") for c in (client, one)]
        ids.append(listener("CLIENT", "ID"))
        listener("SUBSCRIBE", "c")

        def listed(*words):
            text = client("CLIENT", "LIST", *words).decode()
            return sorted(int(line.split()[0][3:]) for line in text.splitlines())

        assert listed() == sorted(ids)
        assert listed("TYPE", "normal") == sorted(ids[:2])
        assert listed("TYPE", "PubSub") == ids[2:]
        assert listed("TYPE", "replica") == listed("TYPE", "master") == []
        assert listed("ID", ids[1], ids[2], 999999) == sorted(ids[1:])
        assert client.error("CLIENT", "LIST", "TYPE", "odd") == "ERR Unknown client type 'odd'"
        assert client.error("CLIENT", "LIST", "ID", 1, "x") == "ERR Invalid client ID"
        assert client.error("CLIENT", "LIST", "x") == "ERR syntax error"
        assert b" sub=1 psub=0" in client("CLIENT", "LIST", "TYPE", "pubsub")
        error = client.error("CLIENT", "KILL", "USER", "nobody")
        assert error == "ERR No such user 'nobody'"
        error = client.error("CLIENT", "KILL", "TYPE", "odd")
        assert error == "ERR Unknown client type 'odd'"
        for wrong in (0, -1, "x"):
            error = client.error("CLIENT", "KILL", "ID", wrong)
            assert error == "ERR client-id should be greater than 0"
        assert client("CLIENT", "KILL", "TYPE", "replica") == 0
        assert client("CLIENT", "KILL", "ADDR", "1.2.3.4:5") == 0
        assert client("CLIENT", "KILL", "TYPE", "pubsub") == 1
        listener.closed()
        address = "{}:{}".format(*one.socket.getsockname())
        assert client("CLIENT", "KILL", "ADDR", address, "USER", "default") == 1
        one.closed()
        assert client("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no") >= 1
        client.closed()


def test_tracking_is_off_and_says_so(server):
    with server.connect() as client:
        client("HELLO", 3)
        assert client("CLIENT", "TRACKING", "OFF") == "OK"
        assert "not supported" in client.error("CLIENT", "TRACKING", "ON", "BCAST")
        assert client.error("CLIENT", "TRACKING", "ON", "odd") == "ERR syntax error"
        assert client("CLIENT", "GETREDIR") == -1
        info = client("CLIENT", "TRACKINGINFO")
        assert info == {b"flags": [b"off"], b"redirect": -1, b"prefixes": []}
        assert client.error("CLIENT", "CACHING", "YES").startswith("ERR CLIENT CACHING can be")
        assert client("CLIENT", "UNBLOCK", 1, "ERROR") == 0
        assert client.error("CLIENT", "UNBLOCK", 1, "odd").startswith("ERR CLIENT UNBLOCK reason")
        assert client.error("CLIENT", "UNBLOCK", "x").startswith("ERR value is not an integer")
