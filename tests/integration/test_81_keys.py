"""KEYS and CLIENT LIST: done in slices, complete, and their answers counted."""

import random
import threading

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors

COUNT = 60_000


def fill(connection, count=COUNT):
    for first in range(0, count, 500):
        words = [word for i in range(first, first + 500) for word in (f"stays:{i}", "v")]
        assert connection("MSET", *words) == "OK"


@pytest.mark.parametrize("reactors", [1, 4])
def test_keys_has_each_once_while_others_come_and_go(start, reactors):
    """The index grows and shrinks under the scan; what stays is there, and once."""
    server = start(reactors=reactors)
    ended = threading.Event()

    def change():
        chance = random.Random(7)
        with server.connect() as connection:
            while not ended.is_set():
                names = [f"goes:{chance.randrange(10**9)}" for _ in range(20_000)]
                for some in range(0, len(names), 500):
                    words = [word for name in names[some : some + 500] for word in (name, "v")]
                    connection("MSET", *words)
                for some in range(0, len(names), 500):
                    connection("UNLINK", *names[some : some + 500])

    with server.connect() as connection:
        fill(connection)
        changer = threading.Thread(target=change)
        changer.start()
        try:
            for _ in range(5):
                keys = connection("KEYS", "*")
                assert len(set(keys)) == len(keys)
                assert sum(key.startswith(b"stays:") for key in keys) == COUNT
            assert len(connection("KEYS", "stays:1?")) == 10
        finally:
            ended.set()
            changer.join()


@pytest.mark.parametrize("reactors", [1, 2])
def test_keys_of_a_transaction_are_of_one_moment(start, reactors):
    server = start(reactors=reactors)
    with server.connect() as connection:
        fill(connection, 20_000)
        connection("MULTI")
        connection("KEYS", "*")
        connection("DBSIZE")
        keys, size = connection("EXEC")
        assert len(keys) == size == 20_000


def test_an_answer_that_waits_is_counted_and_goes(start):
    server = start(reactors=2, buffer_memory="16mb", metadata_memory="96mb")
    with server.connect() as connection:
        fill(connection, 300_000)
        before = server.info()["buffer_bytes"]
        with server.connect(receive_buffer=8192) as slow:
            slow.send(resp.encode("KEYS", "*"))
            kvserver.wait_until(
                lambda: server.info()["buffer_bytes"] > before + 300_000 * 12, "the answer"
            )
            assert connection("PING") == "PONG"
            assert len(slow.read()) == 300_000
        kvserver.wait_until(
            lambda: server.info()["buffer_bytes"] <= before + (1 << 20), "its memory to go back"
        )
        with server.connect(receive_buffer=8192) as vanishes:
            vanishes.send(resp.encode("KEYS", "*"))
            kvserver.wait_until(
                lambda: server.info()["buffer_bytes"] > before + 300_000 * 12, "the answer"
            )
        kvserver.wait_until(
            lambda: server.info()["buffer_bytes"] <= before + (1 << 20), "its memory to go back"
        )


@pytest.mark.parametrize("reactors", [1, 2])
def test_patterns_may_be_long(start, reactors):
    server = start(reactors=reactors)
    with server.connect() as connection:
        for i in range(50):
            assert connection("SET", "a" * 50_000 + str(i), "v") == "OK"
        assert len(connection("KEYS", "*?" * 50_000)) == 50
        assert connection("KEYS", "*?" * 50_003) == []
        assert len(connection("KEYS", "a" * 50_000 + "1?")) == 10
        assert len(connection("KEYS", "[" + "b" * 600 + "a]*")) == 50
        assert sorted(scan(connection, "a" * 50_000 + "?")) == [
            b"a" * 50_000 + b"%d" % i for i in range(10)
        ]


@pytest.mark.parametrize("reactors", [1, 2])
def test_a_pattern_that_takes_long_ends_a_call_and_not_the_scan(start, reactors):
    """Each key takes millions of steps: a call of SCAN looks at few, and the scan comes to its end."""
    server = start(reactors=reactors)
    with server.connect() as connection:
        for i in range(64):
            assert connection("SET", "a" * 60_000 + str(i), "v") == "OK"
        assert connection("SET", "b", "v") == "OK"
        pattern = "*" + "a" * 30_000 + "b"
        calls = []
        assert list(scan(connection, pattern, calls)) == []
        assert len(calls) >= 16
        assert connection("KEYS", pattern) == []
        connection("MULTI")
        connection("KEYS", "*b")
        assert connection("EXEC") == [[b"b"]]


def scan(connection, pattern, calls=None):
    cursor = b"0"
    while True:
        cursor, keys = connection("SCAN", cursor, "MATCH", pattern, "COUNT", "10000")
        yield from keys
        if calls is not None:
            calls.append(cursor)
        if cursor == b"0":
            return


def test_keys_that_are_too_many_are_refused(start):
    server = start(reactors=1, client_query_buffer_limit="1mb", metadata_memory="96mb")
    with server.connect() as connection:
        fill(connection, 200_000)
        assert connection.error("KEYS", "*") == "ERR the keys make too long an answer; use SCAN"
        assert len(connection("KEYS", "stays:1234*")) == 11 + 100
        assert connection("PING") == "PONG"


def test_chains_of_the_index_cannot_be_foretold(start):
    """Keys are hashed with a seed of the process's own: who could compute where a key lies could
    choose thousands that lie in one chain."""
    orders = []
    for _ in range(2):
        server = start(reactors=1)
        with server.connect() as connection:
            fill(connection, 500)
            assert connection("KV.SET", "child", "v", "PARENT", "stays:1") == "OK"
            stat = connection("KV.STAT", "child")
            fields = dict(zip(stat[::2], stat[1::2], strict=True))
            assert fields[b"parent"] == 1, "no hash of a key is told"
            orders.append([key for key in connection("KEYS", "*") if key != b"child"])
        server.stop()
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
