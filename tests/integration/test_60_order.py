"""Many reactors, one order: replies come as requests went, and every shard says what it holds."""

import os
import random

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
