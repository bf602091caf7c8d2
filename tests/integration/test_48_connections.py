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
