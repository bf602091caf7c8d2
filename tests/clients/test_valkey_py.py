"""valkey-py against the server: both protocols, binary values, pipelines, pub/sub, a restart."""

import os
import random

import kvserver
import pytest
import valkey

MIB = 1 << 20


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, server):
    with valkey.Valkey(
        port=server.port, protocol=request.param, socket_timeout=20 * kvserver.SLOW
    ) as client:
        yield client


def test_strings_and_expiry(client):
    assert client.set("a", b"1", ex=100) is True
    assert client.get("a") == b"1"
    assert 90 < client.ttl("a") <= 100
    assert client.set("a", "2", nx=True) is None
    assert client.persist("a") is True and client.ttl("a") == -1
    assert client.get("absent") is None and client.ttl("absent") == -2
    assert client.mset({f"m{i}": i for i in range(300)}) is True
    assert client.mget([f"m{i}" for i in range(301)]) == [b"%d" % i for i in range(300)] + [None]
    assert client.exists("a", "m0", "absent") == 2
    assert client.delete(*[f"m{i}" for i in range(300)]) == 300
    assert client.info("server")["redis_version"].startswith("7.")


def test_big_values_are_binary_safe(client):
    values = {
        b"\x00\r\n*%d" % size: random.Random(size).randbytes(size)
        for size in (0, 1, 4096, MIB + 1, 16 * MIB)
    }
    for key, value in values.items():
        assert client.set(key, value) is True
    assert client.mget(list(values)) == list(values.values())
    assert client.strlen(b"\x00\r\n*%d" % (16 * MIB)) == 16 * MIB
    assert client.getrange(b"\x00\r\n*%d" % MIB, 0, 1) == b""


def test_scan_and_types(client):
    keys = {b"scan:%d" % i for i in range(1000)}
    client.mset(dict.fromkeys(keys, "v"))
    client.set("other", "v")
    assert set(client.scan_iter(match="scan:*", count=100)) == keys
    assert client.type("other") == b"string" and client.type("absent") == b"none"
    assert set(client.keys("scan:99*")) == {b"scan:99"} | {b"scan:99%d" % i for i in range(10)}


@pytest.mark.parametrize("transaction", [False, True])
def test_pipelines(client, transaction):
    with client.pipeline(transaction=transaction) as pipeline:
        for i in range(500):
            pipeline.set(f"p{i}", i).get(f"p{i}")
        pipeline.incr("p1", 5).set("text", "x").incr("text")
        answers = pipeline.execute(raise_on_error=False)
    assert answers[:1000] == [x for i in range(500) for x in (True, b"%d" % i)]
    assert answers[1000:1002] == [6, True]
    assert isinstance(answers[1002], valkey.ResponseError)
    assert client.ping() is True


def test_watched_key_changes(client):
    client.set("w", 1)
    with client.pipeline() as pipeline:
        pipeline.watch("w")
        client.set("w", 2)
        pipeline.multi()
        pipeline.set("w", 3)
        with pytest.raises(valkey.WatchError):
            pipeline.execute()
    assert client.get("w") == b"2"


def test_messages(client):
    with client.pubsub() as messages:
        messages.subscribe("news")
        messages.psubscribe("new*")
        kinds = [messages.get_message(timeout=10 * kvserver.SLOW)["type"] for _ in range(2)]
        assert kinds == ["subscribe", "psubscribe"]
        text = os.urandom(100_000)
        assert client.publish("news", text) == 2
        got = [messages.get_message(timeout=10 * kvserver.SLOW) for _ in range(2)]
        assert sorted(message["type"] for message in got) == ["message", "pmessage"]
        assert all(message["data"] == text for message in got)


def test_another_server_takes_the_place(client, server):
    client.set("a", 1)
    port = server.port
    server.stop()
    with pytest.raises(valkey.ConnectionError):
        client.get("a")
    following = kvserver.Server(port=port)
    try:
        assert client.get("a") is None
        assert client.set("a", 2) is True and client.get("a") == b"2"
    finally:
        following.stop()
