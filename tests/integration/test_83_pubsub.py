"""Publish and subscribe over several reactors, in both protocols; who does not read is cut."""

import threading

import kvserver
import pytest
import redis
import resp

pytestmark = pytest.mark.reactors


@pytest.fixture(params=[1, 4])
def server(start, request):
    return start(reactors=request.param)


def test_everybody_gets_every_message_in_order(server):
    listeners = [server.connect() for _ in range(6)]
    for listener in listeners[:3]:
        assert listener("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
    for listener in listeners[3:]:
        assert listener("PSUBSCRIBE", "n*") == [b"psubscribe", b"n*", 1]
    with server.connect() as publisher:
        counts = publisher.pipeline([("PUBLISH", "news", f"m{i}") for i in range(200)])
        assert counts == [6] * 200
        assert publisher("PUBLISH", "other", "x") == 0
        assert publisher("PUBSUB", "CHANNELS") == [b"news"]
        assert publisher("PUBSUB", "NUMSUB", "news", "none") == [b"news", 3, b"none", 0]
        assert publisher("PUBSUB", "NUMPAT") == 1
    for listener in listeners[:3]:
        for i in range(200):
            assert listener.read() == [b"message", b"news", b"m%d" % i]
    for listener in listeners[3:]:
        for i in range(200):
            assert listener.read() == [b"pmessage", b"n*", b"news", b"m%d" % i]
        listener.close()
    kvserver.wait_until(lambda: server.info()["connected_clients"] == 4, "three to go")
    with server.connect() as publisher:
        assert publisher("PUBLISH", "news", "again") == 3


def test_subscribers_in_resp2_do_little_else(server):
    with server.connect() as c:
        c("SUBSCRIBE", "a", "b")
        assert c.read() == [b"subscribe", b"b", 2]
        assert c.error("GET", "a").startswith("ERR Can't execute 'get'")
        assert c("PING") == [b"pong", b""]
        assert c("PING", "x") == [b"pong", b"x"]
        c("UNSUBSCRIBE")
        assert c.read()[2] == 0
        assert c("GET", "a") is None
        assert c("UNSUBSCRIBE") == [b"unsubscribe", None, 0]
        c("SUBSCRIBE", "a")
        assert c("RESET") == "RESET"
        assert c("PING") == "PONG"


def test_pushes_come_between_replies(server):
    """In RESP3 a subscriber asks for long values meanwhile: no message is within a reply."""
    with server.connect() as c, server.connect() as publisher:
        c("HELLO", "3")
        c("SUBSCRIBE", "ch")
        keys = [f"k{i}" for i in range(40)]
        publisher("MSET", *[word for key in keys for word in (key, b"v" * 20000)])
        done = threading.Event()

        def publish():
            with server.connect() as p:
                while not done.is_set():
                    p("PUBLISH", "ch", "m")

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            answers = messages = 0
            c.send(resp.encode("MGET", *keys) * 50)
            while answers < 50:
                reply = c.read()
                if reply == [b"message", b"ch", b"m"]:
                    messages += 1
                else:
                    assert reply == [b"v" * 20000] * 40
                    answers += 1
        finally:
            done.set()
            thread.join(20)
        assert messages > 0


def test_who_does_not_read_is_cut(start):
    server = start(reactors=2, **{"client-output-buffer-limit": "pubsub 1mb 512kb 5"})
    with server.connect(receive_buffer=4096) as slow, server.connect() as publisher:
        slow("SUBSCRIBE", "ch")
        publisher("SET", "kept", "1")
        message = b"x" * 100000
        kvserver.wait_until(lambda: publisher("PUBLISH", "ch", message) == 0, "it to be cut", 30)
        assert publisher("GET", "kept") == b"1", "nothing was evicted for it"


def test_redis_py(server):
    with redis.Redis(port=server.port, protocol=3) as client:
        pubsub = client.pubsub()
        pubsub.subscribe("a")
        pubsub.psubscribe("b*")
        got = []
        kvserver.wait_until(lambda: client.publish("a", "1") == 1, "the subscription")
        kvserver.wait_until(lambda: client.publish("bb", "2") == 1, "the other")
        client.publish("a", "end")
        while not got or got[-1]["data"] != b"end":
            message = pubsub.get_message(timeout=10)
            assert message is not None
            got.append(message)
        assert {b"1", b"2", b"end"} <= {message["data"] for message in got}
        pubsub.close()


def test_in_a_transaction(server):
    with server.connect() as c, server.connect() as listener:
        listener("SUBSCRIBE", "ch")
        c("MULTI")
        c("SET", "a", "1")
        c("PUBLISH", "ch", "m")
        c("GET", "a")
        assert c("EXEC") == ["OK", 1, b"1"]
        assert listener.read() == [b"message", b"ch", b"m"]


def test_rights_on_channels(server):
    with server.connect() as admin, server.connect() as c:
        admin("ACL", "SETUSER", "u", "on", ">p", "+@all", "resetchannels", "&mine*")
        c("AUTH", "u", "p")
        assert c.error("PUBLISH", "yours", "x").startswith("NOPERM ")
        assert c("PUBLISH", "mine1", "x") == 0
        assert c.error("SUBSCRIBE", "yours").startswith("NOPERM ")
        assert c("SUBSCRIBE", "mine1") == [b"subscribe", b"mine1", 1]
