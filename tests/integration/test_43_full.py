"""A store that is full: what is too long, what must not be evicted, and that it recovers."""

import binascii
import os
import random
import re

import kvserver
import pytest
import resp

MIB = 1 << 20
REFUSED = re.compile(r"^(OOM|BUSY) ")


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 4])
def test_value_longer_than_the_store_evicts_nothing(start, reactors):
    server = start(reactors=reactors, maxmemory="96mb", buffer_memory="16mb")
    free = server.info()["payload_pages_free"] * 2 * MIB
    with server.connect() as connection:
        for i in range(50):
            connection("SET", f"small:{i}", os.urandom(50000))
        for length in (free + MIB, 200 * MIB):
            with pytest.raises(resp.Error) as error:
                connection.send(b"*3\r\n$3\r\nSET\r\n$4\r\nhuge\r\n$%d\r\n" % length)
                part = b"x" * MIB
                for _ in range(length // MIB):
                    connection.send(part)
                connection.send(b"x" * (length % MIB) + b"\r\n")
                connection.read()
            assert re.fullmatch(
                rf"OOM .* of {length} bytes is longer than the whole store of \d+ bytes",
                str(error.value),
            ), str(error.value)
            assert connection("PING") == "PONG"
        assert connection("EXISTS", *[f"small:{i}" for i in range(50)]) == 50
        assert connection("EXISTS", "huge") == 0
    assert server.info()["evicted_keys"] == 0


def test_extension_commands_name_a_too_long_value(start):
    with start(maxmemory="96mb", buffer_memory="16mb").connect() as connection:
        said = connection.error("KV.SET", "huge", b"x" * (100 * MIB))
        assert said.startswith(f"TOOLARGE the value of {100 * MIB} bytes is longer than"), said


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
def test_leased_values_are_not_evicted(start, reactors):
    server = start(reactors=reactors, maxmemory="96mb", buffer_memory="16mb")
    pages = server.info()["payload_pages_free"]
    values = {}
    with server.connect() as holder, server.connect() as writer:
        # Lease as much as may be leased.
        refused = 0
        for i in range(200):
            value = os.urandom(MIB)
            try:
                assert writer("SET", f"leased:{i}", value) == "OK"
                (lease,) = holder("KV.LEASE", 60000, f"leased:{i}")
                if isinstance(lease, resp.Error):
                    assert REFUSED.match(str(lease)), str(lease)
                    refused += 1
                    if refused == 5:
                        break
                elif lease is not None:
                    values[f"leased:{i}"] = (value, lease[0])
            except resp.Error as error:
                assert REFUSED.match(str(error)), str(error)
                refused += 1
                if refused == 5:
                    break
        assert refused == 5, "leases never reached their bound"
        assert len(values) > 10
        # Writing on evicts others, or is refused; never what is leased.
        for i in range(100):
            try:
                writer("SET", f"more:{i}", os.urandom(MIB))
            except resp.Error as error:
                assert REFUSED.match(str(error)), str(error)
        for key, (value, _) in values.items():
            assert writer("GET", key) == value
        # Released, all works again.
        ids = [lease for _, lease in values.values()]
        assert holder("KV.RELEASE", *ids) == len(ids)
        for i in range(100):
            assert writer("SET", f"after:{i}", os.urandom(MIB)) == "OK"
    server.expect_pages_back(pages)


@pytest.mark.reactors
def test_reservations_fill_the_store(start):
    """Reservations of many connections that never commit: refused at the bound, back when they go."""
    server = start(reactors=2, maxmemory="256mb", buffer_memory="16mb", shm_staging_total="160mb")
    pages = server.info()["payload_pages_free"]
    connections = []
    refused = None
    for i in range(8):
        connection = server.connect(unix=True)
        connections.append(connection)
        try:
            connection("KV.CONNECT", "SHM", "STAGING", 16 * MIB)
        except resp.Error as error:
            refused = str(error)
            continue
        for k in range(4):
            reply = connection.pipeline([("KV.RESERVE", f"r:{i}:{k}", 4 * MIB)])[0]
            # Many on one reactor get smaller staging areas, which say so themselves.
            if isinstance(reply, resp.Error) and not str(reply).startswith("TOOLARGE "):
                refused = str(reply)
    assert refused is not None and REFUSED.match(refused), refused
    with server.connect() as other:
        assert other("PING") == "PONG"
        for connection in connections:
            connection.close()
        kvserver.wait_until(server.nothing_held, "reservations given up")
        assert other("SET", "after", os.urandom(8 * MIB)) == "OK"
    server.expect_pages_back(pages)


def test_noeviction_answers_oom_and_serves_reads(start):
    server = start(maxmemory="96mb", buffer_memory="16mb", shm_staging_total="8mb", maxmemory_policy="noeviction")
    with server.connect() as connection:
        stored = 0
        text = ""
        for i in range(200):
            try:
                connection("SET", f"n:{i}", os.urandom(MIB))
                stored += 1
            except resp.Error as error:
                text = str(error)
                break
        assert text.startswith("OOM "), text
        assert stored > 20
        assert connection("EXISTS", *[f"n:{i}" for i in range(stored)]) == stored
        assert len(connection("GET", "n:0")) == MIB
        connection("DEL", "n:0", "n:1", "n:2")
        assert connection("SET", "again", os.urandom(MIB)) == "OK"
    assert server.info()["evicted_keys"] == 0


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
def test_full_of_small_then_one_large(start, reactors):
    """A value of many pages fits into a store that is full of small ones."""
    server = start(reactors=reactors, maxmemory="128mb", buffer_memory="16mb")
    with server.connect() as connection:
        value = os.urandom(20000)
        commands = [("SET", f"s:{i}", value) for i in range(6000)]
        for i in range(0, len(commands), 500):
            assert set(connection.pipeline(commands[i : i + 500])) == {"OK"}
        assert server.info()["evicted_keys"] > 0
        large = os.urandom(32 * MIB)
        for i in range(3):
            assert connection("SET", f"large:{i}", large) == "OK"
            assert connection("GET", f"large:{i}") == large


def keys_of_shard(index, reactors, count):
    keys, number = [], 0
    while len(keys) < count:
        key = f"shard:{number}"
        if binascii.crc_hqx(key.encode(), 0) % 16384 * reactors // 16384 == index:
            keys.append(key)
        number += 1
    return keys


@pytest.mark.reactors
def test_one_hot_shard_gets_the_memory_of_an_idle_one(start):
    server = start(reactors=2, maxmemory="128mb", buffer_memory="16mb")
    pages = server.info()["payload_pages_free"]
    idle = keys_of_shard(0, 2, 2 * pages)
    hot = keys_of_shard(1, 2, 2 * pages)
    value = os.urandom(MIB - 4096)
    with server.connect() as connection:
        for key in idle:
            assert connection("SET", key, value) == "OK"
        # The one that holds everything gives pages at once to the one that has nothing.
        for key in hot[:4]:
            assert connection("SET", key, value) == "OK"
        assert connection("EXISTS", *idle) > pages

        def hot_has_most():
            for key in hot:
                assert connection("SET", key, value) == "OK"
            return connection("EXISTS", *hot) > 1.8 * pages

        kvserver.wait_until(hot_has_most, "the hot shard holds most of the memory", deadline_s=60)
        for key in hot[-5:]:
            assert connection("GET", key) == value
    assert server.info()["pages_balanced"] > 0


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
def test_values_that_are_read_do_not_move_and_others_keep_their_bytes(start, reactors):
    """Long values make the store gather its holes while values are sent, leased and read."""
    server = start(reactors=reactors, maxmemory="160mb", buffer_memory="16mb", shm_staging_total="8mb")
    rng = random.Random(11)
    values = {}

    def value_of(number, length):
        return random.Random(number).randbytes(length)

    with server.connect() as connection, server.connect() as holder:
        lengths = (300, 3000, 20000, 90000, 700000)
        number = 0
        while server.info()["evicted_keys"] < 100:
            for _ in range(50):
                values[number] = rng.choice(lengths)
                assert connection("SET", f"v:{number}", value_of(number, values[number])) == "OK"
                number += 1
        leased = []
        for key in range(number - 40, number):
            answer = holder("KV.LEASE", 60000, f"v:{key}")[0]
            if isinstance(answer, list):
                leased.append((key, answer))
        assert len(leased) > 20
        # Slow readers: what they asked for is being sent all the time.
        readers = []
        for key in (n for n in range(number - 400, number) if values[n] == 700000):
            reader = server.connect(receive_buffer=8192)
            reader.send(resp.encode("GET", f"v:{key}"))
            readers.append((key, reader))
        for turn in range(12):
            length = rng.choice((5, 9, 17)) * MIB + 12345
            assert connection("SET", f"long:{turn}", value_of(-1 - turn, length)) == "OK"
            for _ in range(60):
                values[number] = rng.choice(lengths)
                assert connection("SET", f"v:{number}", value_of(number, values[number])) == "OK"
                number += 1
        assert server.info()["payload_moved_bytes"] > 0
        for key, answer in leased:
            assert connection("GET", f"v:{key}") == value_of(key, values[key])
            again = holder("KV.LEASE", 60000, f"v:{key}")[0]
            assert again[3] == answer[3]  # offset and length of each piece
        for key, reader in readers:
            got = reader.read()
            assert got is None or got == value_of(key, values[key])
            reader.close()
        found = 0
        for key in range(number):
            got = connection("GET", f"v:{key}")
            found += got is not None
            assert got is None or got == value_of(key, values[key]), key
        assert found > 50
        assert server.info()["denied_no_memory"] == 0


@pytest.mark.parametrize("reactors", [1, 2])
def test_every_policy_makes_room_and_may_be_changed_under_load(start, reactors):
    server = start(reactors=reactors, maxmemory="96mb", buffer_memory="16mb")
    with server.connect() as connection:
        evicted = 0
        for policy in ["prefix", "s3-fifo", "allkeys-lru", "allkeys-lfu", "allkeys-random", "prefix"]:
            assert connection("CONFIG", "SET", "maxmemory-policy", policy) == "OK"
            assert connection("CONFIG", "GET", "maxmemory-policy")[1] == policy.encode()
            for i in range(60):
                key, parent = f"{policy}:{i}", f"{policy}:{max(i - 1, 0)}"
                payload = bytes([i]) * (2 * MIB)
                assert connection("KV.SET", key, payload, "PARENT", parent) == "OK"
                assert connection("GET", key) == payload
            assert server.info()["evicted_keys"] > evicted
            evicted = server.info()["evicted_keys"]


@pytest.mark.parametrize("end", ["DEL", "PEXPIRE"])
@pytest.mark.parametrize("reactors", [1, 2])
def test_what_continues_a_deleted_block_goes_first(start, reactors, end):
    """Of two chains alike the one whose head was deleted makes room, though it was read last."""
    server = start(reactors=reactors, maxmemory="96mb", buffer_memory="16mb")
    with server.connect() as c:

        def put(name, i, parent):
            assert c("KV.SET", f"{name}:{i}", bytes([i]) * (MIB // 2), "PARENT", parent) == "OK"

        for name in ("kept", "cut"):
            for i in range(16):
                put(name, i, f"{name}:{max(i - 1, 0)}")
        for i in range(16):
            put("settle", i, f"settle:{i}")
        for name in ("kept", "cut"):
            for i in range(16):
                assert c("GET", f"{name}:{i}") is not None
        since = c("KV.EVENTS", "SINCE", "$")[0]
        assert c("DEL", "cut:0") == 1 if end == "DEL" else c("PEXPIRE", "cut:0", 1) == 1
        kvserver.wait_until(lambda: c("EXISTS", "cut:0") == 0, "the head is gone")
        gone = []
        for i in range(400):
            c("SET", f"fill:{i}", os.urandom(MIB // 2))
            if i % 20 == 19:
                since, events = c("KV.EVENTS", "SINCE", since)
                gone += [event[3] for event in events if event[1] == b"evicted"]
            if any(key.startswith(b"kept:") for key in gone):
                break
        before = gone[: next((i for i, key in enumerate(gone) if key.startswith(b"kept:")), len(gone))]
        cut = [key for key in before if key.startswith(b"cut:")]
        # Without that chains go from their tails, so that the second block would be the last of all.
        assert b"cut:1" in cut and len(cut) >= 4, b" ".join(gone)


def test_a_long_value_that_is_already_there_takes_no_memory(start):
    """SETNX, and KV.SET with nothing but NX, know before the payload that they leave the key alone."""
    server = start(reactors=2, maxmemory="96mb", buffer_memory="16mb")
    with server.connect() as c:
        c("SET", "there", b"old")
        # Full: whatever takes memory now must evict.
        for i in range(200):
            c("SET", f"fill:{i}", os.urandom(MIB // 2))
        c("SET", "there", b"old")
        evicted = server.info()["evicted_keys"]
        assert evicted > 0
        for _ in range(5):
            assert c("KV.SET", "there", b"x" * (8 * MIB), "NX") == "EXISTS"
            assert c("SETNX", "there", b"x" * (8 * MIB)) == 0
        assert server.info()["evicted_keys"] == evicted
        assert c("GET", "there") == b"old"
        assert c.error("KV.SET", "there", b"x" * MIB, "WHAT") == "ERR syntax error"
        c("DEL", "there")
        assert c("SETNX", "there", b"x" * MIB) == 1
        assert c("KV.SET", "other", b"y" * MIB, "NX") == "OK"
        assert c("GET", "other") == b"y" * MIB


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2, 4])
def test_volatile_policies_evict_what_expires_and_nothing_else(start, reactors):
    server = start(
        reactors=reactors,
        maxmemory="64mb",
        maxmemory_policy="volatile-lru",
        metadata_memory="4mb",
        buffer_memory="8mb",
        shm="no",
    )
    value = os.urandom(MIB)
    with server.connect() as connection:
        said = connection.pipeline([("SET", f"stays:{i}", value) for i in range(100)])[-1]
        assert isinstance(said, resp.Error) and str(said).startswith("OOM "), said
        connection("FLUSHALL")
        for i in range(8):
            connection("SET", f"keep:{i}", value)
        for i in range(200):
            assert connection("SET", f"goes:{i}", value, "EX", 1000) == "OK"
        assert connection("EXISTS", *[f"keep:{i}" for i in range(8)]) == 8
    assert server.info()["evicted_keys"] > 0


def test_what_exists_found_goes_after_others(start):
    """A client that asks first and reads then, as LMCache does, is not told of what is gone by then."""
    server = start(reactors=1, maxmemory="96mb", maxmemory_policy="allkeys-lru")
    with server.connect() as connection:
        connection("CONFIG", "SET", "exists-pin-ms", "60000")
        for key in ("asked", "not asked"):
            connection("SET", key, b"x" * MIB)
        assert connection("EXISTS", "asked", "absent") == 1
        for i in range(150):
            connection("SET", f"k:{i}", b"x" * MIB)
        assert connection("GET", "not asked") is None
        assert connection("GET", "asked") == b"x" * MIB
        assert connection("CONFIG", "SET", "exists-pin-ms", "0") == "OK"
        assert connection("EXISTS", "k:149") == 1
        stat = connection("KV.STAT", "k:149")
        assert dict(zip(stat[::2], stat[1::2]))[b"pin_ms"] == 0
