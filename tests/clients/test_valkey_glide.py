"""valkey-glide, blocking and asyncio, against the server: its handshake, binary values of any size, batches
with and without a transaction, pub/sub, and that it comes back after a restart."""

import asyncio
import os
import random

import glide
import glide_sync
import kvserver

MIB = 1 << 20
DEADLINE_MS = int(20_000 * kvserver.SLOW)


def sync_client(server, **options):
    addresses = [glide_sync.NodeAddress("127.0.0.1", server.port)]
    return glide_sync.GlideClient.create(
        glide_sync.GlideClientConfiguration(addresses, request_timeout=DEADLINE_MS, **options)
    )


async def async_client(server, **options):
    addresses = [glide.NodeAddress("127.0.0.1", server.port)]
    return await glide.GlideClient.create(
        glide.GlideClientConfiguration(addresses, request_timeout=DEADLINE_MS, **options)
    )


def limited(coroutine):
    """Runs it, with a limit: a client that waits for ever fails its test."""
    return asyncio.run(asyncio.wait_for(coroutine, 60 * kvserver.SLOW))


def scan_all(scan):
    """The keys that scan(cursor) gives from the beginning to the end."""
    keys, cursor = [], b"0"
    while True:
        cursor, part = scan(cursor)
        keys += part
        if cursor == b"0":
            return keys


def test_sync_strings_and_expiry(server):
    client = sync_client(server)
    expiry = glide_sync.ExpirySet(glide_sync.ExpiryType.SEC, 100)
    assert client.set("a", "1", expiry=expiry) == "OK"
    assert client.get("a") == b"1"
    assert 90 < client.ttl("a") <= 100
    assert client.get("absent") is None and client.ttl("absent") == -2
    assert client.mset({f"m{i}": str(i) for i in range(300)}) == "OK"
    assert client.mget([f"m{i}" for i in range(301)]) == [b"%d" % i for i in range(300)] + [None]
    assert client.exists(["a", "m0", "absent"]) == 2
    assert len(scan_all(lambda cursor: client.scan(cursor, match="m*", count=50))) == 300
    assert client.delete([f"m{i}" for i in range(300)]) == 300
    memory = client.info([glide_sync.InfoSection.MEMORY])
    assert b"\r\nused_memory:" in memory and b"\r\nmaxmemory:" in memory
    client.close()


def test_sync_big_values_are_binary_safe(server):
    client = sync_client(server)
    for size in (0, 1, 4096, MIB + 1, 16 * MIB):
        key, value = b"\x00\r\n*%d" % size, random.Random(size).randbytes(size)
        assert client.set(key, value) == "OK"
        assert client.get(key) == value
    client.close()


def test_sync_batches(server):
    client = sync_client(server)
    for atomic in (False, True):
        batch = glide_sync.Batch(is_atomic=atomic)
        for i in range(200):
            batch.set(f"p{i}", str(i))
            batch.get(f"p{i}")
        batch.set("text", "x")
        batch.incr("text")
        answers = client.exec(batch, raise_on_error=False)
        assert answers[:400] == [x for i in range(200) for x in ("OK", b"%d" % i)]
        assert isinstance(answers[401], glide_sync.RequestError)
    client.close()


def test_sync_comes_back_after_a_restart(server):
    client = sync_client(server)
    assert client.set("a", "1") == "OK"
    port = server.port
    server.stop()
    following = kvserver.Server(port=port)
    try:
        kvserver.wait_until(lambda: comes_back(client), "the client to connect again", 30)
        assert client.get("a") is None
        assert client.set("a", "2") == "OK" and client.get("a") == b"2"
    finally:
        client.close()
        following.stop()


def comes_back(client):
    try:
        return client.ping() == b"PONG"
    except glide_sync.GlideError:
        return False


def test_async_many_at_once(server):
    async def run():
        client = await async_client(server)
        values = [random.Random(i).randbytes(i * 1009) for i in range(200)]
        await asyncio.gather(*(client.set(f"k{i}", v) for i, v in enumerate(values)))
        assert await asyncio.gather(*(client.get(f"k{i}") for i in range(200))) == values
        assert await client.mget([f"k{i}" for i in range(200)]) == values
        big = os.urandom(32 * MIB)
        assert await client.set("big", big) == "OK"
        assert await client.get("big") == big
        assert await client.unlink(["big", "absent"]) == 1
        await client.close()

    limited(run())


def test_async_transaction_and_errors(server):
    async def run():
        client = await async_client(server, database_id=3, client_name="tester")
        assert await client.client_getname() == b"tester"
        batch = glide.Batch(is_atomic=True)
        batch.set("a", "1")
        batch.incrby("a", 41)
        assert await client.exec(batch, raise_on_error=True) == ["OK", 42]
        try:
            await client.lpush("list", ["v"])
            raise AssertionError("LPUSH was not refused")
        except glide.RequestError as refusal:
            assert "unknown command" in str(refusal).lower()
        assert await client.get("a") == b"42"
        await client.select(0)
        assert await client.get("a") is None
        await client.close()

    limited(run())


def test_async_messages(server):
    async def run():
        kinds = glide.GlideClientConfiguration.PubSubChannelModes
        wanted = {kinds.Exact: {"news"}, kinds.Pattern: {"new*"}}
        listener = await async_client(
            server,
            pubsub_subscriptions=glide.GlideClientConfiguration.PubSubSubscriptions(
                channels_and_patterns=wanted, callback=None, context=None
            ),
        )
        speaker = await async_client(server)
        text = os.urandom(100_000)
        assert await speaker.publish(text, "news") == 2
        got = [await listener.get_pubsub_message() for _ in range(2)]
        assert all(message.message == text and message.channel == b"news" for message in got)
        assert {message.pattern for message in got} == {None, b"new*"}
        await listener.close()
        await speaker.close()

    limited(run())
