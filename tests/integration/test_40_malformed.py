"""Bytes that are no request: an error that says so, the connection closed, everybody else served."""

import os
import random

import pytest
import resp

# What is sent, and how the error must begin.
BROKEN = {
    "count not a number": (b"*x\r\n", "ERR Protocol error: invalid multibulk length"),
    "count beyond all bounds": (b"*99999999999999999999\r\n", "ERR Protocol error"),
    "count over the limit": (b"*1048577\r\n", "ERR Protocol error: invalid multibulk length"),
    "length not a number": (b"*1\r\n$abc\r\n", "ERR Protocol error: invalid bulk length"),
    "length negative": (b"*1\r\n$-5\r\n", "ERR Protocol error: invalid bulk length"),
    "length over the limit": (b"*1\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
    "length overflows": (b"*1\r\n$18446744073709551617\r\n", "ERR Protocol error"),
    "length empty": (b"*1\r\n$\r\n", "ERR Protocol error"),
    "no dollar": (b"*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
    "nested array": (b"*1\r\n*1\r\n$4\r\nPING\r\n", "ERR Protocol error: expected '$', got '*'"),
    "unbalanced quotes": (b'SET "a b\r\n', "ERR Protocol error: unbalanced quotes"),
    "text behind quotes": (b'SET "a"b c\r\n', "ERR Protocol error: unbalanced quotes"),
    "inline line too long": (b"A" * 70000, "ERR Protocol error: too big inline request"),
    "length line too long": (b"*1\r\n$" + b"1" * 70000, "ERR Protocol error"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_request_is_answered_and_closed(shared, name):
    data, expected = BROKEN[name]
    with shared.connect() as connection, shared.connect() as other:
        # The requests before it are served, those behind it are not.
        connection.send(resp.encode("ECHO", "before") + data + b"\r\nPING\r\n")
        assert connection.read() == b"before"
        with pytest.raises(resp.Error) as error:
            connection.read()
        assert str(error.value).startswith(expected), str(error.value)
        assert connection.closed() == b""
        assert other("PING") == "PONG"


@pytest.mark.parametrize("length", [2, 20000, 70000, 3 << 20])
@pytest.mark.parametrize("end", [b"xx", b"\r\r", b"\nx"])
def test_wrong_end_of_a_bulk_is_no_part_of_it(shared, length, end):
    """As in Redis the two bytes behind a payload are passed over, whatever they are."""
    with shared.connect() as connection:
        header = b"*3\r\n$3\r\nSET\r\n$7\r\nwrong:e\r\n$%d\r\n" % length
        connection.send(header + b"v" * length + end + b"PING\r\n")
        assert [connection.read(), connection.read()] == ["OK", "PONG"]
        assert connection("GET", "wrong:e") == b"v" * length


def test_empty_and_null_requests_are_passed_over(shared):
    with shared.connect() as connection:
        connection.send(b"\r\n\r\n*0\r\n*-1\r\n\r\nPING\r\n")
        assert connection.read() == "PONG"


def test_before_authentication_the_limits_are_small(start):
    server = start(requirepass="secret")
    for data in (b"*11\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$16385\r\n"):
        connection = resp.Connection(server.port)
        connection.send(data)
        assert b"unauthenticated" in connection.closed()
        connection.close()


def test_one_byte_at_a_time(shared):
    payload = os.urandom(40)
    stream = resp.encode("SET", "slow:bytes", payload) + resp.encode("GET", "slow:bytes")
    with shared.connect() as connection:
        for byte in stream + b'ECHO "inline \\x41"\r\n':
            connection.send(bytes([byte]))
        assert [connection.read() for _ in range(3)] == ["OK", payload, b"inline A"]


def test_random_bytes_never_hurt(shared):
    seed = int(os.environ.get("KVASIR_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"KVASIR_SEED={seed}")
    rng = random.Random(seed)
    valid = resp.encode("SET", "rnd", "v") + resp.encode("MGET", "rnd", "other") + b"PING\r\n"
    for _ in range(150):
        data = bytearray(valid * rng.randint(1, 4))
        for _ in range(rng.randint(1, 6)):
            position = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[position] = rng.randrange(256)
            else:
                del data[position : position + rng.randint(1, 9)]
        connection = shared.connect()
        try:
            connection.send(bytes(data) + b"\r\nQUIT\r\n")
            connection.socket.settimeout(0.03)
            connection.closed()
        except (TimeoutError, resp.Closed):
            pass  # It waits for the rest of a bulk; or was closed while we sent.
        connection.close()
    with shared.connect() as connection:
        assert connection("PING") == "PONG"
    assert shared.nothing_held()
