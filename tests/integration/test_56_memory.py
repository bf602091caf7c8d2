"""What INFO sums is what the process takes: under each load used_memory grows as the resident memory does."""

import kvserver
import pytest

pytestmark = pytest.mark.plain

KIB = 1 << 10
MIB = 1 << 20
# Code, stacks and what the heap keeps free are no part of used_memory.
OWN_BYTES = 8 * MIB


def many_keys(server):
    with server.connect() as connection:
        for part in range(30):
            keys = [f"key:{part}:{i}" for i in range(10000)]
            connection.pipeline([("SET", key, "v" * 100) for key in keys])


def many_connections(server):
    held = [server.connect() for _ in range(800)]
    for connection in held:
        assert connection("PING") == "PONG"
    return held


def many_subscriptions(server):
    held = [server.connect() for _ in range(50)]
    for i, connection in enumerate(held):
        channels = [f"{'c' * 200}:{i}:{number}" for number in range(500)]
        connection.pipeline([("SUBSCRIBE", channel) for channel in channels])
    return held


def many_users(server):
    with server.connect() as connection:
        for i in range(2000):
            rules = ["on", f">{i}", *[f"~{i}:{part}:*" for part in range(20)], "+@all"]
            assert connection("ACL", "SETUSER", f"user:{i}", *rules) == "OK"


def many_tenants(server):
    text = "; ".join(
        f"t{i} prefix tenant{i}: guarantee 1mb burst 4mb" for i in range(31)
    )
    with server.connect() as connection:
        assert connection("CONFIG", "SET", "tenants", text) == "OK"
        for i in range(31):
            keys = [f"tenant{i}:{number}" for number in range(30)]
            connection.pipeline([("SET", key, "t" * (100 * KIB)) for key in keys])


def events_backlog(server):
    with server.connect() as connection:
        assert connection("CONFIG", "SET", "events-backlog", "8mb") == "OK"
        connection("KV.EVENTS", "SINCE", "0")
        for part in range(8):
            keys = [f"{'e' * 200}:{part}:{i}" for i in range(10000)]
            connection.pipeline([("SET", key, "v") for key in keys])
            connection("KV.EVENTS", "SINCE", "0", "COUNT", "1")


def many_grants(server):
    with server.connect() as connection:
        for part in range(8):
            keys = [f"pinned:{part}:{i}" for i in range(5000)]
            connection.pipeline([("SET", key, "v") for key in keys])
            replies = connection.pipeline(
                [("KV.PIN", key, "HARD", "60000") for key in keys]
            )
            assert replies == [1] * len(keys)


def warm_up(server):
    """Touches what is counted from the start on, such as buffers, on each reactor."""
    held = [server.connect() for _ in range(16)]
    for i, connection in enumerate(held):
        keys = [f"warm:{i}:{number}" for number in range(5000)]
        connection.pipeline([("SET", key, "v") for key in keys])
        connection.pipeline([("DEL", key) for key in keys])
    for connection in held:
        connection.close()


@pytest.mark.parametrize(
    "load",
    [
        many_keys,
        many_connections,
        many_subscriptions,
        many_users,
        many_tenants,
        events_backlog,
        many_grants,
    ],
)
def test_what_is_counted_is_what_is_taken(start, load):
    server = start(reactors=2, maxmemory="512mb", populate="no")
    warm_up(server)
    before, resident_before = int(server.info()["used_memory"]), server.resident_bytes()
    assert before <= resident_before + OWN_BYTES
    held = load(server)
    after, resident_after = int(server.info()["used_memory"]), server.resident_bytes()
    counted, taken = after - before, resident_after - resident_before
    print(f"{load.__name__}: counted {counted >> 10} KiB, taken {taken >> 10} KiB")
    assert taken <= 1.05 * counted + 3 * MIB
    assert counted <= 1.05 * taken + 3 * MIB
    assert after <= 512 * MIB
    for connection in held or []:
        connection.close()


def test_what_grows_beside_the_payload_makes_it_give_way(start):
    """Users count only in the heap as a whole; payload gets smaller, and maxmemory holds."""
    server = start(maxmemory="96mb", buffer_memory="4mb", populate="no", shm="no")
    with server.connect() as connection:
        for i in range(200):
            connection("SET", f"key:{i}", "x" * (512 * KIB))
        full = int(server.info()["payload_region_bytes"])
        for i in range(3000):
            rules = ["on", f">{i}", *[f"~{'p' * 200}:{part}:*" for part in range(20)]]
            assert connection("ACL", "SETUSER", f"user:{i}", *rules) == "OK"
        heap = int(server.info()["heap_bytes"])
        assert heap > 16 * MIB
        kvserver.wait_until(
            lambda: int(server.info()["payload_region_bytes"]) < full - heap + 12 * MIB,
            "payload to give way",
        )
        assert int(server.info()["used_memory"]) <= 96 * MIB
        assert server.resident_bytes() <= 1.02 * 96 * MIB + OWN_BYTES
        connection("ACL", "DELUSER", *[f"user:{i}" for i in range(3000)])
        kvserver.wait_until(
            lambda: int(server.info()["payload_region_bytes"]) == full,
            "payload to come back",
        )
