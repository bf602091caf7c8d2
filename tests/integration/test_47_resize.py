"""maxmemory changed while the server runs and is written to: it follows, and INFO tells the truth."""

import os
import threading

import kvserver
import pytest
import resp

MIB = 1 << 20


class Writer(threading.Thread):
    """Sets values of mixed length until it is told to end; none may be refused."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.ends = threading.Event()
        self.error = None
        self.count = 0

    def run(self):
        value = os.urandom(3 * MIB)
        lengths = (100, 5000, 70000, 900000, 3 * MIB)
        try:
            with self.server.connect() as connection:
                while not self.ends.is_set():
                    length = lengths[self.count % len(lengths)]
                    assert connection("SET", f"key:{self.count}", value[:length]) == "OK"
                    self.count += 1
        except (AssertionError, OSError, resp.Error) as error:  # reported by finish()
            self.error = error

    def finish(self):
        self.ends.set()
        self.join(60)
        assert not self.is_alive() and self.error is None, self.error


def follows(server, limit):
    """The payload, as INFO has it, has come to what the limit allows."""
    info = server.info()
    part = info["payload_region_bytes"]
    return info["maxmemory"] == limit and limit - 80 * MIB < part < limit - 30 * MIB


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
def test_maxmemory_follows_config_set_under_load(start, reactors):
    server = start(
        reactors=reactors,
        maxmemory="512mb",
        buffer_memory="16mb",
        metadata_memory="16mb",
        unixsocket="",
        populate="yes",
    )
    assert follows(server, 512 * MIB)
    writer = Writer(server)
    writer.start()
    with server.connect() as connection:
        kvserver.wait_until(lambda: server.info()["evicted_keys"] > 0, "the store to fill", 60)
        full_bytes = server.resident_bytes()
        assert connection("CONFIG", "SET", "maxmemory", "128mb") == "OK"
        kvserver.wait_until(lambda: follows(server, 128 * MIB), "payload to shrink", 60)
        # The kernel has it back, and what is left works.
        if not kvserver.SANITIZE:  # they take much memory of their own
            assert server.resident_bytes() < full_bytes - 300 * MIB
            assert server.resident_bytes() < 1.02 * 128 * MIB + 24 * MIB  # code and libraries
        count = writer.count
        kvserver.wait_until(lambda: writer.count > count + 20, "more values to be written", 60)
        assert connection("CONFIG", "SET", "maxmemory", "384mb") == "OK"
        kvserver.wait_until(lambda: follows(server, 384 * MIB), "payload to grow", 60)
        kvserver.wait_until(
            lambda: server.info()["payload_live_bytes"] > 250 * MIB, "what was gained to be used", 60
        )
        writer.finish()
        assert connection("CONFIG", "GET", "maxmemory") == [b"maxmemory", str(384 * MIB).encode()]
        assert connection("FLUSHALL") == "OK"

    def all_free():
        info = server.info()
        return info["payload_pages_free"] == info["payload_pages_total"] and follows(server, 384 * MIB)

    kvserver.wait_until(all_free, "every page to come back")
    assert server.info()["denied_no_memory"] == 0


def test_maxmemory_that_cannot_be_is_refused(start):
    server = start(maxmemory="128mb", buffer_memory="16mb", maxmemory_reserve="256mb", unixsocket="")
    with server.connect() as connection:
        for wrong, said in (("64mb", None), ("1tb", "maxmemory-reserve"), ("1kb", "32mb")):
            try:
                answer = connection("CONFIG", "SET", "maxmemory", wrong)
            except resp.Error as error:
                assert said is not None and said in str(error), str(error)
            else:
                assert answer == "OK" and said is None
        assert connection("CONFIG", "SET", "maxmemory", "200mb") == "OK"
    kvserver.wait_until(lambda: follows(server, 200 * MIB), "payload to grow")


@pytest.mark.parametrize("reactors", [1, 4])
def test_lowered_maxmemory_counts_at_once_for_long_values(start, reactors):
    """Nothing is evicted for a value that fits only until the pages have gone."""
    server = start(reactors=reactors, maxmemory="256mb", buffer_memory="16mb", unixsocket="")
    with server.connect() as connection:
        for i in range(16):
            assert connection("SET", f"k:{i}", b"x" * MIB) == "OK"
        assert connection("CONFIG", "SET", "maxmemory", "128mb") == "OK"
        assert "OOM" in connection.error("SET", "long", b"y" * (130 * MIB))
        assert connection("EXISTS", *(f"k:{i}" for i in range(16))) == 16
        assert connection("CONFIG", "SET", "maxmemory", "256mb") == "OK"
        kvserver.wait_until(lambda: follows(server, 256 * MIB), "payload to grow")
        assert connection("SET", "long", b"y" * (130 * MIB)) == "OK"


@pytest.mark.parametrize("reactors", [1, 2])
def test_nothing_is_put_beyond_a_lowered_maxmemory(start, reactors):
    """What is free beyond it is out of reach before the answer to CONFIG SET."""
    server = start(
        reactors=reactors,
        maxmemory="1gb",
        buffer_memory="16mb",
        maxmemory_policy="noeviction",
        populate="yes",
        unixsocket="",
    )
    long = 8 * MIB
    with server.connect() as connection:
        # Short requests, so that all of them are there before the server could do anything by and by.
        replies = connection.pipeline(
            [("CONFIG", "SET", "maxmemory", "256mb")]
            + [("SETRANGE", f"key:{i}", long - 1, "x") for i in range(60)]
        )
        assert replies[0] == "OK"
        stored = replies.count(long)
        assert 0 < stored * long < 256 * MIB, stored
        assert all(reply == long or "OOM" in str(reply) for reply in replies[1:])
        # What is deleted makes room at once.
        again = connection.pipeline([("DEL", "key:0"), ("SETRANGE", "again", long - 1, "x")])
        assert again == [1, long]
        kvserver.wait_until(
            lambda: server.info()["payload_unreleased_bytes"] == 0, "the rest to go", 30
        )


def test_leased_values_outlive_a_lowered_maxmemory(start):
    server = start(maxmemory="256mb", buffer_memory="16mb", metadata_memory="16mb")
    value = os.urandom(MIB)
    with server.connect() as holder, server.connect() as writer:
        for number in range(60):
            assert writer("SET", f"leased:{number}", value) == "OK"
        leases = [holder("KV.LEASE", 60000, f"leased:{number}")[0] for number in range(60)]
        assert all(isinstance(lease, list) for lease in leases)
        assert writer("CONFIG", "SET", "maxmemory", "96mb") == "OK"
        kvserver.wait_until(
            lambda: server.info()["payload_pages_free"] == 0, "all that is free to go", 30
        )
        info = server.info()
        assert info["maxmemory"] == 96 * MIB
        # No lie: what is leased is still there, and counted.
        assert info["payload_live_bytes"] >= 60 * MIB and info["leases"] == 60
        for number in range(60):
            assert writer("GET", f"leased:{number}") == value
        for lease in leases:
            assert holder("KV.RELEASE", lease[0]) == 1
        kvserver.wait_until(
            lambda: server.info()["payload_region_bytes"] < 64 * MIB, "the rest to go", 30
        )
        assert writer("SET", "after", value) == "OK"
        assert writer("GET", "after") == value


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
def test_metadata_follows_demand_and_comes_back(start, reactors):
    server = start(reactors=reactors, maxmemory="256mb", buffer_memory="16mb", unixsocket="")
    first = server.info()
    value = os.urandom(MIB)
    with server.connect() as connection:
        # More small values than the sixteenth for metadata has room for.
        wanted = 2 * first["metadata_region_bytes"] // 128
        number = 0
        while number < wanted:
            connection.pipeline(
                [("SET", f"key:{i:09d}", b"x" * 50) for i in range(number, number + 1000)]
            )
            number += 1000
        info = server.info()
        assert info["evicted_keys"] < wanted // 10, info["evicted_keys"]
        assert info["metadata_region_bytes"] > 1.5 * first["metadata_region_bytes"]
        assert info["payload_region_bytes"] < first["payload_region_bytes"]
        assert info["metadata_region_bytes"] + info["payload_region_bytes"] <= (
            first["metadata_region_bytes"] + first["payload_region_bytes"]
        )
        # Long values take over again.
        assert connection("FLUSHALL") == "OK"

        def payload_is_back():
            for i in range(300):
                assert connection("SET", f"long:{i}", value) == "OK"
            info = server.info()
            return info["payload_region_bytes"] >= first["payload_region_bytes"] - 4 * MIB

        kvserver.wait_until(payload_is_back, "payload to have its memory back", 60)
    assert server.info()["denied_no_memory"] == 0


def test_payload_gives_way_to_a_long_request(start):
    server = start(maxmemory="256mb", buffer_memory="16mb", unixsocket="", populate="yes")
    before = server.info()
    value = os.urandom(MIB)
    with server.connect() as connection, server.connect() as other:
        for i in range(300):
            assert connection("SET", f"key:{i}", value) == "OK"
        count = 100
        connection.send(b"*%d\r\n$4\r\nMSET\r\n" % (2 * count + 1))
        for i in range(count - 1):
            connection.send(b"$7\r\nlong:%02d\r\n$%d\r\n%s\r\n" % (i, MIB, value))
        kvserver.wait_until(
            lambda: server.info()["buffer_bytes"] > 90 * MIB
            and server.info()["payload_region_bytes"] < before["payload_region_bytes"] - 90 * MIB,
            "payload to give way",
            30,
        )
        if not kvserver.SANITIZE:
            assert server.resident_bytes() < 1.02 * 256 * MIB + 24 * MIB  # code and libraries
        assert other("PING") == "PONG"
        connection.send(b"$7\r\nlong:%02d\r\n$%d\r\n%s\r\n" % (count - 1, MIB, value))
        assert connection.read() == "OK"
        assert other("GET", "long:99") == value
        kvserver.wait_until(
            lambda: server.info()["payload_region_bytes"] == before["payload_region_bytes"],
            "payload to come back",
            30,
        )
