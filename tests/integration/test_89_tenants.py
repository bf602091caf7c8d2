"""Tenants: quotas by prefix and by user, over several reactors, changed while the server runs."""

import kvserver
import pytest

pytestmark = pytest.mark.reactors

KIB = 1 << 10
MIB = 1 << 20


def tenant_of(server, name):
    """The numbers of INFO's line for the tenant ("" is everybody else)."""
    line = server.info()[f"tenant_{name}"]
    return {word.split("=")[0]: int(word.split("=")[1]) for word in line.split(",")}


def stat_of(connection, key):
    reply = connection("KV.STAT", key)
    return {k.decode(): v for k, v in zip(reply[::2], reply[1::2])}


def test_a_tenant_is_a_prefix_or_a_user(start):
    server = start(reactors=2, tenants="chat prefix chat:; batch user bob; other prefix o:")
    with server.connect() as connection, server.connect() as bob:
        connection("ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all")
        bob("AUTH", "bob", "pw")
        connection.pipeline([("SET", f"chat:{i}", "x" * 1000) for i in range(50)])
        bob.pipeline([("KV.SET", f"chat:bob:{i}", "x" * 1000) for i in range(30)])
        bob("SET", "long", "x" * (3 * MIB))
        connection("MSET", "p:1", "x", "p:2", "x")
        assert stat_of(connection, "chat:1")["tenant"] == b"chat"
        assert stat_of(connection, "chat:bob:1")["tenant"] == b"batch"
        assert stat_of(connection, "p:1")["tenant"] is None
        chat, batch, rest = (tenant_of(server, name) for name in ("chat", "batch", ""))
        assert (chat["values"], batch["values"], rest["values"]) == (50, 31, 2)
        assert 50 * 1000 < chat["bytes"] < 50 * 1200
        assert 3 * MIB + 30 * 1000 < batch["bytes"] < 3 * MIB + 31 * 1200
        connection.pipeline([("GET", key) for key in ("chat:1", "chat:none", "chat:bob:1", "none")])
        assert (tenant_of(server, "chat")["hits"], tenant_of(server, "chat")["misses"]) == (1, 1)
        assert tenant_of(server, "batch")["hits"] == 1
        assert tenant_of(server, "")["misses"] == 1
        # Another user on the same connection, and the tenant is another.
        bob("AUTH", "default", "")
        bob("SET", "q", "x")
        assert stat_of(connection, "q")["tenant"] is None


def test_burst_holds_over_all_reactors(start):
    server = start(reactors=3, tenants="chat prefix chat: burst 20mb")
    with server.connect() as connection:
        for i in range(300):
            assert connection("SET", f"chat:{i}", b"x" * (256 * KIB)) == "OK"
            if i % 10 == 0:
                # Shards look at each other when they put: a value of each may be one too many.
                assert tenant_of(server, "chat")["bytes"] <= 21 * MIB
        chat = tenant_of(server, "chat")
        assert chat["bytes"] > 15 * MIB
        assert chat["evicted_keys"] > 0
        assert int(server.info()["payload_pages_free"]) > 0  # memory was not what was short
        assert connection.error("SET", "chat:long", b"x" * (21 * MIB)).startswith("QUOTA ")
        assert connection.error("KV.SET", "chat:long", b"x" * (21 * MIB)).startswith("QUOTA ")
        assert connection("PING") == "PONG"
        assert connection("SET", "other:long", b"x" * (21 * MIB)) == "OK"
        assert tenant_of(server, "chat")["refused"] == 2


def test_others_take_nothing_of_a_guarantee(start):
    server = start(reactors=2, maxmemory="128mb", shm="no", tenants="calm prefix calm: guarantee 20mb")
    with server.connect() as connection:
        for i in range(60):
            connection("SET", f"calm:{i}", b"c" * (256 * KIB))  # 15 MiB
        for i in range(500):
            assert connection("SET", f"loud:{i}", b"l" * (512 * KIB)) == "OK"
        assert connection("EXISTS", *[f"calm:{i}" for i in range(60)]) == 60
        assert tenant_of(server, "calm")["evicted_keys"] == 0
        assert tenant_of(server, "")["evicted_keys"] > 100
        # The calm one may come back for what it is guaranteed, though the store is full.
        for i in range(60, 76):
            assert connection("SET", f"calm:{i}", b"c" * (256 * KIB)) == "OK"
        assert connection("EXISTS", *[f"calm:{i}" for i in range(76)]) == 76


def test_a_quota_lowered_under_load_shrinks_step_by_step(start):
    server = start(reactors=2, tenants="chat prefix chat: burst 100mb")
    with server.connect() as connection, server.connect() as config:
        keys = [f"chat:{i}" for i in range(1000)]
        connection.pipeline([("SET", key, b"x" * (64 * KIB)) for key in keys])
        before = tenant_of(server, "chat")["bytes"]
        assert before > 62 * MIB
        assert config("CONFIG", "SET", "tenants", "chat prefix chat: guarantee 1mb burst 8mb") == "OK"
        assert config("CONFIG", "GET", "tenants")[1] == b"chat prefix chat: guarantee 1mb burst 8mb"
        for i in range(200):  # it goes on putting
            assert connection("SET", f"chat:more:{i}", b"y" * (64 * KIB)) == "OK"
        kvserver.wait_until(lambda: tenant_of(server, "chat")["bytes"] <= 8 * MIB, "it to shrink")
        # INFO tells what is there.
        there = sum(64 * KIB for key in connection("KEYS", "chat:*"))
        chat = tenant_of(server, "chat")
        assert there <= chat["bytes"] <= 8 * MIB
        assert chat["values"] == connection("DBSIZE")
        assert (chat["guarantee"], chat["burst"]) == (MIB, 8 * MIB)


def test_tenants_change_while_the_server_runs(start):
    server = start(reactors=2)
    with server.connect() as connection:
        assert not any(name.startswith("tenant_") for name in server.info())
        connection.pipeline([("SET", f"a:{i}", "x") for i in range(10)])
        connection.pipeline([("SET", f"b:{i}", "x") for i in range(5)])
        connection("CONFIG", "SET", "tenants", "a prefix a:")
        assert tenant_of(server, "a")["values"] == 10
        assert tenant_of(server, "")["values"] == 5
        connection("CONFIG", "SET", "tenants", "b prefix b:; a prefix a:")
        assert tenant_of(server, "a")["values"] == 10
        assert tenant_of(server, "b")["values"] == 5
        connection("CONFIG", "SET", "tenants", "b prefix b:")
        assert tenant_of(server, "")["values"] == 10
        assert "tenants: a prefix" not in connection.error("CONFIG", "SET", "tenants", "a b c")
        error = connection.error("CONFIG", "SET", "tenants", "a prefix a: burst much")
        assert "burst takes a size such as 4gb, not 'much'" in error
        assert connection("CONFIG", "GET", "tenants")[1] == b"b prefix b: guarantee 0 burst 0"
        connection("CONFIG", "SET", "tenants", "")
        assert not any(name.startswith("tenant_") for name in server.info())
        assert connection("DBSIZE") == 15


def test_pins_of_a_tenant_end_with_its_quota(start):
    server = start(reactors=1, tenants="chat prefix chat: burst 4mb")
    with server.connect() as connection:
        for i in range(3):
            connection("KV.SET", f"chat:{i}", b"x" * MIB, "PIN", "HARD", 60000)
        assert connection("KV.SET", "chat:3", b"x" * (MIB // 2)) == "OK"
        assert connection.error("SET", "chat:4", b"x" * MIB).startswith("QUOTA ")
        assert connection.error("KV.SET", "chat:4", b"x" * MIB).startswith("QUOTA ")
        assert connection.error("APPEND", "chat:3", b"x" * MIB).startswith("QUOTA ")
        assert connection("SET", "elsewhere", b"x" * MIB) == "OK"
        assert connection("KV.UNPIN", "chat:0") == 1
        assert connection("SET", "chat:4", b"x" * MIB) == "OK"
