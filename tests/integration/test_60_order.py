"""Many reactors, one order: replies come as requests went, and every shard says what it holds."""

import os
import random
import threading

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors


def seeded():
    seed = int(os.environ.get("KVASIR_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"KVASIR_SEED={seed}")
    return random.Random(seed)


def scan_all(connection, *options):
    """All keys of a full SCAN, duplicates kept; fails when it does not end."""
    keys, cursor, calls = [], b"0", 0
    while True:
        cursor, part = connection("SCAN", cursor, *options)
        keys += part
        calls += 1
        assert calls < 5000, "SCAN does not end"
        if cursor == b"0":
            return keys


@pytest.mark.parametrize("reactors", [2, 4])
def test_scan_ends_whichever_reactor_is_asked(start, reactors):
    server = start(reactors=reactors)
    expected = {b"key:%d" % i for i in range(300)}
    with server.connect() as connection:
        connection.pipeline([("SET", key, "v") for key in expected])
    for own in range(reactors):
        # The connection's own reactor is a different one each time.
        with resp.Connection(server.port + 1 + own) as connection:
            for _ in range(20):
                keys = scan_all(connection, "COUNT", 100)
                assert sorted(keys) == sorted(expected)
            assert len(scan_all(connection, "MATCH", "key:1*", "COUNT", 7)) == 111
            assert scan_all(connection, "TYPE", "hash") == []


@pytest.mark.parametrize("reactors", [1, 4])
def test_scan_finds_few_keys_in_one_call(start, reactors):
    expected = sorted(b"key:%d" % i for i in range(9))
    with start(reactors=reactors).connect() as connection:
        connection.pipeline([("SET", key, "v") for key in expected])
        cursor, keys = connection("SCAN", 0)
        assert (cursor, sorted(keys)) == (b"0", expected)
        assert connection("SCAN", 0, "MATCH", "key:7") == [b"0", [b"key:7"]]
        assert connection("MULTI") == "OK"
        assert connection("SCAN", 0) == "QUEUED"
        ((cursor, keys),) = connection("EXEC")
        assert (cursor, sorted(keys)) == (b"0", expected)


class Model:
    """What a store of strings must answer."""

    def __init__(self):
        self.values = {}

    def expect(self, words):
        name, *rest = words
        return getattr(self, name.lower())(*rest)

    def set(self, key, value):
        self.values[key] = value
        return "OK"

    def get(self, key):
        return self.values.get(key)

    def delete(self, *keys):
        return sum(self.values.pop(key, None) is not None for key in keys)

    def exists(self, *keys):
        return sum(key in self.values for key in keys)

    def strlen(self, key):
        return len(self.values.get(key, b""))

    def append(self, key, value):
        self.values[key] = self.values.get(key, b"") + value
        return len(self.values[key])

    def getrange(self, key, first, last):
        return self.values.get(key, b"")[first : last + 1]

    def mget(self, *keys):
        return [self.values.get(key) for key in keys]

    def mset(self, *pairs):
        self.values.update(zip(pairs[::2], pairs[1::2]))
        return "OK"

    def echo(self, text):
        return text


def draw(rng, keys, pool):
    """A command of a random mix; sizes around the borders of the direct path."""

    def value():
        length = rng.choice((0, 3, 100, 5000, 16384, 16385, 40000, 200000))
        start = rng.randrange(len(pool) - length)
        return pool[start : start + length]

    def some(most):
        return [rng.choice(keys) for _ in range(rng.randint(1, most))]

    choice = rng.random()
    if choice < 0.3:
        return ("SET", rng.choice(keys), value())
    if choice < 0.55:
        return ("GET", rng.choice(keys))
    if choice < 0.65:
        return ("MGET", *some(40))
    if choice < 0.72:
        return ("MSET", *[word for key in some(10) for word in (key, value()[:2000])])
    if choice < 0.8:
        return ("DEL", *some(5))
    if choice < 0.86:
        return ("EXISTS", *some(10))
    if choice < 0.9:
        return ("APPEND", rng.choice(keys), value()[:300])
    if choice < 0.94:
        return ("GETRANGE", rng.choice(keys), rng.randrange(100), rng.randrange(100, 30000))
    if choice < 0.97:
        return ("STRLEN", rng.choice(keys))
    return ("ECHO", value())


@pytest.mark.parametrize("reactors", [1, 2, 4])
def test_random_pipelines_agree_with_a_model(start, reactors):
    rng = seeded()
    server = start(reactors=reactors, maxmemory="512mb")
    pool = rng.randbytes(400000)
    model = Model()
    keys = [b"order:%d" % i for i in range(60)]
    rounds = 15 if kvserver.SANITIZE else 40
    with server.connect() as connection:
        for _ in range(rounds):
            commands = [draw(rng, keys, pool) for _ in range(rng.choice((1, 10, 100, 300)))]
            replies = connection.pipeline(commands)
            for i, (command, reply) in enumerate(zip(commands, replies)):
                name = "delete" if command[0] == "DEL" else command[0]
                expected = model.expect((name, *command[1:]))
                assert reply == expected, (i, command[0], command[1], str(reply)[:80])
        assert connection("DBSIZE") == len(model.values)
    assert server.info()["evicted_keys"] == 0


@pytest.mark.parametrize("reactors", [1, 4])
def test_long_values_between_short_commands(start, reactors):
    server = start(reactors=reactors, maxmemory="512mb")
    rng = seeded()
    long_values = [rng.randbytes(3 << 20) for _ in range(6)]
    commands = []
    expected = []
    for i, value in enumerate(long_values * 2):
        commands += [("SET", f"s:{i}", i), ("SET", f"l:{i}", value), ("GET", f"s:{i}")]
        commands += [("STRLEN", f"l:{i}"), ("GET", f"l:{i}"), ("PING",)]
        expected += ["OK", "OK", b"%d" % i, len(value), value, "PONG"]
    data = b"".join(resp.encode(*command) for command in commands)
    with server.connect() as connection:
        # Sent while replies are read: neither side may wait for the other for ever.
        writer = threading.Thread(target=connection.send, args=(data,), daemon=True)
        writer.start()
        for want in expected:
            assert connection.read() == want
        writer.join(20)


@pytest.mark.parametrize("reactors", [1, 4])
def test_mget_of_65535_keys(start, reactors):
    server = start(reactors=reactors, maxmemory="512mb")
    keys = [b"m:%d" % i for i in range(65535)]
    with server.connect() as connection:
        pairs = [word for key in keys[::2] for word in (key, b"v" + key)]
        assert connection("MSET", *pairs) == "OK"
        got = connection("MGET", *keys)
        assert got == [b"v" + key if i % 2 == 0 else None for i, key in enumerate(keys)]
        assert connection("EXISTS", *keys) == 32768
        assert connection("KV.MATCH", *keys[::2]) == 32768
        assert connection("DEL", *keys) == 32768
        assert connection("DBSIZE") == 0


@pytest.mark.parametrize("reactors", [2, 4])
def test_connections_see_each_others_writes(start, reactors):
    """What one connection was told is stored is seen by every other, whatever its reactor."""
    server = start(reactors=reactors)
    connections = [resp.Connection(server.port + 1 + i) for i in range(reactors)]
    for i in range(300):
        writer = connections[i % reactors]
        reader = connections[(i + 1) % reactors]
        assert writer("SET", f"seen:{i % 7}", i) == "OK"
        assert reader("GET", f"seen:{i % 7}") == b"%d" % i
    total = sum(connection("INCR", "sum") > 0 for connection in connections * 50)
    assert int(connections[0]("GET", "sum")) == total
    for connection in connections:
        connection.close()


def test_counters_of_many_threads(start):
    server = start(reactors=4)
    threads_count, each = 8, 200

    def count():
        with server.connect() as connection:
            for _ in range(each):
                connection.pipeline([("INCR", f"c:{i}") for i in range(5)])

    threads = [threading.Thread(target=count) for _ in range(threads_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with server.connect() as connection:
        assert (
            connection("MGET", *[f"c:{i}" for i in range(5)])
            == [b"%d" % (threads_count * each)] * 5
        )
