"""Requests and replies through rings in shared memory: everything that goes over a socket goes over
them, and a client that writes nonsense into them harms itself only."""

import os
import random
import socket

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20


@pytest.fixture
def server(start):
    return start(reactors=2)


def rings(server, **options):
    return resp.RingConnection(server.socket, **options)


def alive(server):
    with server.connect() as other:
        assert other("PING") == "PONG"


def test_commands(server):
    with rings(server) as connection:
        assert connection("PING") == "PONG"
        assert connection("SET", "a", "1") == "OK"
        assert connection("INCR", "a") == 2
        assert connection.error("NOSUCH").startswith("ERR unknown command")
    with server.connect() as other:
        assert other("GET", "a") == b"2"
    kvserver.wait_until(lambda: server.info()["connected_clients"] == 1, "the end of the client")


@pytest.mark.parametrize("length", [1, 16383, 16384, 65535, 65536, 65537, 3 * MIB + 1])
def test_values_longer_than_the_ring(server, length):
    payload = os.urandom(length)
    with rings(server) as connection:
        for _ in range(3):
            assert connection("SET", "value", payload) == "OK"
            assert connection("GET", "value") == payload
            assert connection("GETRANGE", "value", "-5", "-1") == payload[-5:]


def test_pipeline(server):
    with rings(server) as connection:
        commands = [("SET", f"key:{i}", "v" * (i % 700)) for i in range(3000)]
        assert connection.pipeline(commands) == ["OK"] * 3000
        replies = connection.pipeline([("GET", f"key:{i}") for i in range(3000)])
        assert replies == [b"v" * (i % 700) for i in range(3000)]


def test_replies_that_are_not_read(server):
    """The ring is full and the rest waits in the server; nobody else notices."""
    with rings(server) as connection, server.connect() as other:
        payload = os.urandom(MIB)
        assert other("SET", "long", payload) == "OK"
        request = resp.encode("GET", "long") * 5
        connection.send(request)
        for i in range(200):
            assert other("SET", f"other:{i}", "x") == "OK"
        assert [connection.read() for _ in range(5)] == [payload] * 5
        assert connection("PING") == "PONG"


def test_leases_and_puts(server):
    payload = os.urandom(300000)
    with rings(server) as connection:
        grant = connection("KV.RESERVE", "block", len(payload))
        offset, length = grant[2][0], grant[2][1]
        assert length == len(payload)
        connection.memory[offset : offset + length] = payload
        assert connection("KV.COMMIT", grant[0]) == "OK"
        assert connection("GET", "block") == payload
        assert len(connection("KV.LEASE", 5000, "block")[0]) == 4


def test_who_may_not(server):
    with server.connect(unix=True) as connection:
        assert connection.error("KV.CONNECT", "RING").startswith("UNSUPPORTED ")
        connection("KV.CONNECT", "SHM")
        assert connection.error("KV.CONNECT", "RING", "64").startswith("ERR syntax")
    with rings(server) as connection:
        assert connection.error("KV.CONNECT", "RING").startswith("EXISTS ")
        assert connection.error("KV.CONNECT", "SHM").startswith("EXISTS ")
    with server.connect() as connection:
        assert connection.error("KV.CONNECT", "RING").startswith("UNSUPPORTED ")


def test_there_are_so_many(start):
    server = start(reactors=1)
    connections = []
    try:
        for _ in range(64):
            connections.append(rings(server, staging=65536))
        with server.connect(unix=True) as one_more:
            one_more("KV.CONNECT", "SHM", "STAGING", 65536)
            assert one_more.error("KV.CONNECT", "RING").startswith("BUSY ")
            assert one_more("PING") == "PONG", "the socket stays in use"
        connections.pop().close()
        kvserver.wait_until(lambda: server.info()["connected_clients"] == 64, "one client to go")
        connections.append(rings(server, staging=65536))
        for connection in connections:
            assert connection("PING") == "PONG"
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("ring, line", [("requests", 0), ("replies", 1)])
@pytest.mark.parametrize("claim", [70000, 2**31, 2**32 - 70000])
def test_positions_that_cannot_be_true(server, ring, line, claim):
    with rings(server) as connection:
        assert connection("PING") == "PONG"
        connection._take = lambda: None  # which would put it right
        word = connection.word(getattr(connection, ring), line)
        connection.words[word] = (connection.words[word] + claim) % 2**32
        try:
            connection.socket.send(resp.encode("PING"))  # a bell, whatever it says
            if ring == "replies":
                connection.send(resp.encode("PING"))
        except (OSError, resp.Closed):
            pass
        kvserver.wait_until(lambda: server.info()["connected_clients"] == 1, "the liar's end")
    alive(server)


def test_garbage_in_the_ring(server):
    seed = int(os.environ.get("KVASIR_SEED", random.randrange(2**32)))
    print(f"KVASIR_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(40):
        with rings(server) as connection:
            try:
                for _ in range(20):
                    data = chance.choice(
                        [
                            chance.randbytes(chance.randrange(1, 3000)),
                            resp.encode("SET", "k", chance.randbytes(chance.randrange(20000))),
                            resp.encode("GET", "k"),
                            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$99999\r\nshort",
                        ]
                    )
                    connection.send(data)
            except (resp.Closed, TimeoutError):
                pass
            offset = connection.requests if chance.random() < 0.5 else connection.replies
            for line in range(4):
                connection.words[connection.word(offset, line)] = chance.randrange(2**32)
            try:
                connection.socket.send(b"!")
            except OSError:
                pass
        alive(server)
    kvserver.wait_until(lambda: server.info()["connected_clients"] == 1, "all of them to go")
    server.nothing_held()


def test_many_bells_and_no_bell(server):
    with rings(server) as connection:
        connection.socket.send(b"!" * 5000)
        assert connection("PING") == "PONG"
        connection._bell = lambda: None
        # Whoever never rings is found by the timer.
        assert connection("ECHO", "quiet") == b"quiet"


def test_last_requests_and_the_end_at_once(server):
    """The end is noticed when the bell and the last bytes came together with it."""
    for _ in range(100):
        with rings(server) as connection:
            connection("SET", "a", "1")
            connection.send(resp.encode("SET", "a", "2"))
    kvserver.wait_until(lambda: server.info()["connected_clients"] == 1, "all of them to go")
    kvserver.wait_until(lambda: server.info()["staging_bytes"] == 0, "their staging areas to go")


def test_half_closed(server):
    """The end of the socket is the end of the connection; what was asked before is answered."""
    with rings(server) as connection:
        connection.send(resp.encode("ECHO", "last"))
        assert connection.read() == b"last"
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.closed() == b""
