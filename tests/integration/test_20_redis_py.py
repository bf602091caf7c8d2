"""redis-py against the server: both protocols, pool, pipelines, large values."""

import hashlib
import os
import random
import threading

import kvserver
import pytest

redis = pytest.importorskip("redis")

pytestmark = pytest.mark.reactors
MIB = 1 << 20


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request, shared):
    with redis.Redis(
        port=shared.port, protocol=request.param, socket_timeout=20 * kvserver.SLOW
    ) as client:
        client.flushall()
        yield client


def test_strings(client):
    assert client.set("a", b"1", ex=100) is True
    assert client.get("a") == b"1"
    assert client.get("absent") is None
    assert 90 < client.ttl("a") <= 100
    assert client.set("a", "2", nx=True) is None
    assert client.set("a", "2", get=True) == b"1"
    assert client.incr("a", 40) == 42
    assert client.append("a", "!") == 3
    assert client.getrange("a", 1, 2) == b"2!"
    assert client.getdel("a") == b"42!"
    assert client.exists("a") == 0
    assert client.mset({f"m{i}": i for i in range(100)}) is True
    assert client.mget([f"m{i}" for i in range(101)]) == [b"%d" % i for i in range(100)] + [None]
    assert client.delete(*[f"m{i}" for i in range(100)]) == 100
    assert client.dbsize() == 0


def test_errors_leave_the_connection_usable(client):
    client.set("a", "not a number")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("a")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("LPUSHX", "a")
    assert client.get("a") == b"not a number"


def test_scan_iter_and_info(client):
    client.mset({f"scan:{i}": i for i in range(1000)})
    assert len(set(client.scan_iter(match="scan:*", count=100))) == 1000
    assert client.info()["redis_version"].startswith("7.")
    assert client.info("keyspace")["db0"]["keys"] == 1000
    assert client.client_id() > 0
    assert client.client_setname("tester") and client.client_getname() in ("tester", b"tester")
    assert client.config_get("maxclients") == {"maxclients": "10000"}
    assert isinstance(client.time(), tuple)
    assert "kv.match" in client.command()


def test_pipeline_without_transaction(client):
    pipeline = client.pipeline(transaction=False)
    for i in range(5000):
        pipeline.set(f"p{i}", i)
        pipeline.get(f"p{i}")
    assert pipeline.execute()[1::2] == [b"%d" % i for i in range(5000)]


def test_pipeline_keeps_an_error_in_its_place(client):
    pipeline = client.pipeline(transaction=False)
    pipeline.set("a", "x").incr("a").get("a")
    done, error, value = pipeline.execute(raise_on_error=False)
    assert done is True and isinstance(error, redis.ResponseError) and value == b"x"


def test_values_of_64_mib(start):
    server = start(reactors=2, maxmemory="320mb")
    payload = random.Random(64).randbytes(64 * MIB)
    for protocol in (2, 3):
        with redis.Redis(
            port=server.port, protocol=protocol, socket_timeout=30 * kvserver.SLOW
        ) as client:
            for key in ("big:1", "big:2"):
                assert client.set(key, payload)
                assert client.strlen(key) == len(payload)
            for key in ("big:1", "big:2"):
                got = client.get(key)
                assert hashlib.sha256(got).digest() == hashlib.sha256(payload).digest()
            assert (
                client.getrange("big:1", 33 * MIB - 5, 33 * MIB + 4)
                == (payload[33 * MIB - 5 : 33 * MIB + 5])
            )


def test_lengths_around_every_border(client):
    """Borders of buffers, chunks, size classes and pages."""
    source = os.urandom(4 * MIB + 10)
    for border in (0, 64, 4096, 16384, 32768, 65536, 1 << 20, 2 * MIB, 4 * MIB):
        for length in range(max(0, border - 2), border + 3):
            assert client.set("border", source[:length])
            assert client.get("border") == source[:length], length


def test_pool_shared_by_threads(shared):
    pool = redis.BlockingConnectionPool(
        port=shared.port, max_connections=8, socket_timeout=20 * kvserver.SLOW
    )
    client = redis.Redis(connection_pool=pool)
    failures = []

    def work(number):
        try:
            rng = random.Random(number)
            for i in range(60):
                value = rng.randbytes(rng.choice((10, 1000, 20000, 300000)))
                client.set(f"pool:{number}", value)
                if client.get(f"pool:{number}") != value:
                    failures.append((number, i))
        except redis.RedisError as error:
            failures.append((number, error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.disconnect()
    assert not failures


def test_password_and_database(start):
    server = start(reactors=2, requirepass="secret")
    for password in ("wrong", None):
        client = redis.Redis(port=server.port, password=password, retry=None)
        with client, pytest.raises(redis.AuthenticationError):
            client.ping()
    for protocol in (2, 3):
        with redis.Redis(port=server.port, password="secret", db=5, protocol=protocol) as client:
            assert client.set("a", protocol)
            assert client.client_info()["db"] in (5, "5")
    with redis.Redis(port=server.port, username="default", password="secret") as client:
        assert client.get("a") is None


def test_unix_socket(shared):
    with redis.Redis(unix_socket_path=str(shared.socket)) as client:
        assert client.set("unix", "x") and client.get("unix") == b"x"


def test_server_stops_and_another_takes_its_place(start):
    """A client with retries lives through a restart on the same port."""
    from redis.backoff import ConstantBackoff
    from redis.retry import Retry

    first = start()
    port = first.port
    client = redis.Redis(port=port, retry=Retry(ConstantBackoff(0.1), 100), socket_timeout=5)
    assert client.set("a", "1")
    first.stop()
    second = kvserver.Server(port=port)
    try:
        assert client.get("a") is None
        assert client.set("a", "2")
    finally:
        client.close()
        second.stop()


def test_health_check_comes_before_the_greeting(client):
    """A connection that is due for its check sends PING before HELLO."""
    kwargs = dict(client.connection_pool.connection_kwargs, health_check_interval=1000)
    connection = redis.Connection(**kwargs)
    connection.next_health_check = 1
    try:
        connection.connect()
        connection.send_command("GET", "absent")
        assert connection.read_response() is None
        connection.next_health_check = 1
        connection.send_command("ECHO", "x")
        assert connection.read_response() in (b"x", "x")
    finally:
        connection.disconnect()


def test_what_needs_a_cluster_or_scripts_is_refused_clearly(client, shared):
    with pytest.raises(redis.exceptions.RedisClusterException, match="Cluster mode is not enabled"):
        redis.RedisCluster(host="127.0.0.1", port=shared.port)
    lock = client.lock("lock", timeout=60)
    assert lock.acquire(blocking=False)
    assert not client.lock("lock", timeout=60).acquire(blocking=False)
    with pytest.raises(redis.ResponseError, match="no scripts or functions run here"):
        lock.release()


@pytest.mark.parametrize("transaction", [True, False])
def test_pipelines_tell_the_place_of_an_error(client, transaction):
    client.set("text", "x")
    with client.pipeline(transaction=transaction) as pipeline:
        pipeline.set("a", 1).incr("text").get("a")
        done, error, value = pipeline.execute(raise_on_error=False)
        assert done is True and value == b"1"
        assert "not an integer" in str(error)
        pipeline.set("a", 2).incr("text")
        with pytest.raises(redis.ResponseError, match="Command # 2"):
            pipeline.execute()
    assert client.get("a") == b"2"


def test_messages_in_both_protocols(client):
    with client.pubsub() as messages:
        messages.subscribe("news")
        messages.psubscribe("n?ws")
        kinds = [messages.get_message(timeout=10 * kvserver.SLOW)["type"] for _ in range(2)]
        assert kinds == ["subscribe", "psubscribe"]
        assert client.publish("news", b"\x00\r\n") == 2
        got = [messages.get_message(timeout=10 * kvserver.SLOW) for _ in range(2)]
        assert sorted(message["type"] for message in got) == ["message", "pmessage"]
        assert {message["data"] for message in got} == {b"\x00\r\n"}
        messages.ping("still there")
        assert messages.get_message(timeout=10 * kvserver.SLOW)["data"] == b"still there"
