"""No user-space copy of a payload: the server counts what it copies."""

import random

import kvserver
import pytest
import resp

MIB = 1 << 20
COUNT = 100 if kvserver.SANITIZE else 1000


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_payload_is_not_copied(start, reactors, unix):
    if kvserver.SANITIZE and not unix:
        pytest.skip("the short form is enough here")
    server = start(reactors=reactors, maxmemory="1536mb")
    source = random.Random(50).randbytes(MIB + COUNT)
    with server.connect(unix=unix) as connection:
        connection("CONFIG", "RESETSTAT")
        # Pipelined: the next header comes in the same read as the end of the payload before it.
        window = 20
        for first in range(0, COUNT, window):
            connection.send(
                b"".join(
                    resp.encode("SET", f"z:{i}", memoryview(source)[i : i + MIB])
                    for i in range(first, first + window)
                )
            )
            assert [connection.read() for _ in range(window)] == ["OK"] * window
        info = server.info()
        total = COUNT * MIB
        assert info["upload_bytes"] + info["copied_bytes"] == total, "every byte went one way"
        assert info["copied_bytes"] < total // 100, info["copied_bytes"]
        assert total <= info["total_net_input_bytes"] < total + COUNT * 100 + 1000
        connection("CONFIG", "RESETSTAT")
        for first in range(0, COUNT, window):
            connection.send(
                b"".join(resp.encode("GET", f"z:{i}") for i in range(first, first + window))
            )
            for i in range(first, first + window):
                assert connection.read() == source[i : i + MIB]
        info = server.info()
        assert total <= info["total_net_output_bytes"] < total + COUNT * 100 + 10000
        assert info["copied_bytes"] < total // 100, info["copied_bytes"]
        assert info["evicted_keys"] == 0


def test_the_counter_counts(start):
    """What comes in the same read as its header is copied out of the buffer, and counted."""
    server = start()
    with server.connect() as connection:
        connection("CONFIG", "RESETSTAT")
        connection("SET", "one", b"x" * 40000)
        info = server.info()
        assert info["copied_bytes"] > 0
        assert info["upload_bytes"] + info["copied_bytes"] == 40000
