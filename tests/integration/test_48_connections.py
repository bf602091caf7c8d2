"""One connection over time: when its clock is read, when it is idle, what it may ask for."""

import threading
import time

import pytest
import resp

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


@pytest.mark.plain
def test_request_of_another_form_after_an_upload_is_read_in_one_piece(start):
    """After an upload only a header's length is read at a time, as long as it may be a header."""
    server = start(reactors=1)
    pairs = [word for i in range(2000) for word in (f"m:{i}", b"y" * 10000)]
    request = resp.encode("MSET", *pairs)
    with server.connect() as connection:

        def seconds():
            began = time.monotonic()
            connection.send(request)
            assert connection.read() == "OK"
            return time.monotonic() - began

        seconds()
        plain = min(seconds() for _ in range(3))
        after = []
        for _ in range(3):
            connection("SET", "long", b"x" * 20000)
            after.append(seconds())
    assert min(after) < 4 * plain


def test_mget_of_more_than_the_buffers_hold(start):
    """12 MiB of buffers; the answer is sent while it is made."""
    server = start(reactors=2)
    count, payload = 20000, b"x" * 2000
    with server.connect() as connection:
        for first in range(0, count, 1000):
            pairs = [word for i in range(first, first + 1000) for word in (f"k:{i}", payload)]
            assert connection("MSET", *pairs) == "OK"
        connection.send(resp.encode("MGET", *(f"k:{i}" for i in range(count))))
        time.sleep(0.5)  # it does not read: the buffers must not fill up
        assert server.info()["buffer_bytes"] < 4 * MIB
        assert connection.read() == [payload] * count
        assert connection("PING") == "PONG"


@pytest.mark.reactors
def test_settings_that_are_changed_at_once_are_alike_everywhere(start):
    """Several connections on different reactors set one option: whoever was last, was last for all."""
    server = start(reactors=4)
    with server.connect() as connection:
        hello = connection("KV.HELLO")
        ports = hello[hello.index(b"reactor_ports") + 1]
    connections = [resp.Connection(port) for port in ports]
    assert len(connections) == 4
    together = threading.Barrier(len(connections))

    def change(connection, value):
        together.wait()
        connection("CONFIG", "SET", "slowlog-max-len", value)

    for turn in range(100):
        threads = [
            threading.Thread(target=change, args=(connection, turn * 10 + i))
            for i, connection in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        values = {connection("CONFIG", "GET", "slowlog-max-len")[1] for connection in connections}
        assert len(values) == 1, (turn, values)
    for connection in connections:
        connection.close()
