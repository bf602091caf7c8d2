"""Pin storms and chains that make no sense: what is held stays bounded, and the error names the limit."""

import os
import re

import kvserver

MIB = 1 << 20


def test_a_storm_of_hard_pins_ends_at_half_of_the_memory(start):
    server = start(reactors=1, maxmemory="128mb", shm="no")
    with server.connect() as connection:
        total = int(server.info()["payload_region_bytes"])
        pinned = 0
        while True:
            connection("SET", f"block:{pinned}", b"x" * MIB)
            try_pin = connection.pipeline([("KV.PIN", f"block:{pinned}", "HARD", 60000)])[0]
            if try_pin != 1:
                break
            pinned += 1
        error = str(try_pin)
        assert error.startswith("BUSY ")
        limit = int(re.search(r"may hold (\d+) bytes", error).group(1))
        assert limit == total // 2
        assert "grants-max" in error
        assert (pinned + 1) * MIB > limit >= pinned * MIB
        # The rest works as before, and what is pinned stays.
        for i in range(200):
            assert connection("SET", f"other:{i}", b"y" * MIB) == "OK"
        assert connection("KV.MATCH", *[f"block:{i}" for i in range(pinned)]) == pinned
        # A put that asks for one is stored: the pin is a soft one then.
        assert connection("KV.SET", "soft", b"z" * MIB, "PIN", "HARD", 60000) == "OK"
        stat = connection("KV.STAT", "soft")
        assert stat[stat.index(b"pin") + 1] == b"soft"
        # What has a pin gets a longer one at any time; another needs room first.
        assert connection("KV.PIN", "block:0", "HARD", 60000) == 1
        assert connection("KV.UNPIN", "block:0") == 1
        assert connection("KV.PIN", "other:199", "HARD", 60000) == 1


def test_a_storm_of_soft_pins_holds_nothing_up(start):
    server = start(reactors=2, maxmemory="96mb", shm="no")
    with server.connect() as connection:
        for i in range(300):
            assert connection("KV.SET", f"k:{i}", b"x" * MIB, "PIN", "SOFT", 60000) == "OK"
        assert int(server.info()["evicted_keys"]) > 100


def test_pins_of_many_small_values_end_at_grants_max(start):
    server = start(reactors=1, grants_max=16)
    with server.connect() as connection:
        connection("MSET", *[word for i in range(20) for word in (f"k:{i}", "x")])
        replies = connection.pipeline([("KV.PIN", f"k:{i}", "HARD", 60000) for i in range(20)])
        assert replies[:16] == [1] * 16
        assert all("be 16 (grants-max)" in str(reply) for reply in replies[16:])
        # A pin on a key that is not there takes none.
        assert connection("KV.UNPIN", "k:0") == 1
        assert connection.pipeline([("KV.PIN", "absent", "HARD", 60000)] * 20) == [0] * 20
        assert connection("KV.PIN", "k:19", "HARD", 60000) == 1


def test_leases_beyond_their_share_name_the_limit(start):
    server = start(reactors=1, maxmemory="160mb", shm_staging_total="16mb")
    with server.connect(unix=True) as connection:
        connection("KV.CONNECT", "SHM", "STAGING", 2 * MIB)
        connection("MSET", *[word for i in range(40) for word in (f"k:{i}", "x")])
        for i in range(200):
            connection("SET", f"block:{i % 100}", b"x" * MIB)
        replies = connection.pipeline([("KV.LEASE", 60000, f"block:{i}") for i in range(100)])
        refused = [str(reply[0]) for reply in replies if isinstance(reply[0], Exception)]
        assert refused and all(text.startswith("BUSY ") for text in refused)


def test_parents_that_make_no_sense(start):
    """A parent is only a name: one that is not there, is the value itself or makes a circle."""
    for policy in ("allkeys-lru", "s3-fifo", "prefix"):
        server = start(reactors=2, maxmemory="96mb", shm="no", maxmemory_policy=policy)
        payload = os.urandom(MIB // 2)
        with server.connect() as connection:
            assert connection("KV.SET", "orphan", payload, "PARENT", "never-was") == "OK"
            assert connection("KV.SET", "self", payload, "PARENT", "self") == "OK"
            for a, b in (("a", "b"), ("b", "c"), ("c", "a")):
                assert connection("KV.SET", a, payload, "PARENT", b) == "OK"
            for key in ("a", "c", "b", "a", "self", "self", "orphan"):
                assert connection("KV.GET", key) == payload
            for i in range(300):  # all of it goes, and comes again
                parent = ("self", "a", f"x:{(i * 7) % 300}", f"x:{i}")[i % 4]
                assert connection("KV.SET", f"x:{i}", payload, "PARENT", parent) == "OK"
                if i % 3 == 0:
                    connection("KV.GET", f"x:{(i * 5) % 300}")
            assert int(server.info()["evicted_keys"]) > 50
            connection("DEL", "b", "a")
            assert connection("FLUSHALL") == "OK"
            kvserver.wait_until(lambda s=server: int(s.info()["values"]) == 0, "all to be freed")
        server.stop()
