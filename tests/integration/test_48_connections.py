"""One connection over time: when its clock is read, when it is idle, what it may ask for."""

import time

import kvserver

MIB = 1 << 20


def test_expiry_counts_from_the_request_on(start):
    """A server that slept must not reckon from the moment at which it fell asleep."""
    server = start(reactors=1)
    with server.connect() as connection:
        for i in range(30):
            time.sleep(0.0137)  # across the beat of its timer
            before_ms = time.time_ns() // 1_000_000
            connection("SET", f"k:{i}", "v", "PX", 60000)
            assert connection("PEXPIRETIME", f"k:{i}") >= before_ms + 60000


def test_who_reads_slowly_is_not_idle(start):
    server = start(reactors=1, timeout=1)
    with server.connect(receive_buffer=8192) as connection:
        connection("SET", "k", b"x" * (48 * MIB))
        connection.send(b"GET k\r\n")
        end = time.monotonic() + 3
        while time.monotonic() < end:
            connection.socket.recv(65536)
            time.sleep(0.001)
        assert server.info()["timeout_closed"] == 0
