"""Clients that ask for too much: descriptors, connections, bytes that never come, replies nobody reads."""

import os
import random
import socket
import threading
import time

import kvserver
import pytest
import resp

MIB = 1 << 20


def half_open(port, data=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    if data:
        connection.sendall(data)
    return connection


def test_half_open_connections_up_to_maxclients(start):
    server = start(reactors=2, maxclients=300)
    with server.connect() as connection:
        assert connection("PING") == "PONG"
        before = server.descriptor_count()
        held = [half_open(server.port, b"*3\r\n$3\r\nSET\r\n$1") for _ in range(295)]
        kvserver.wait_until(
            lambda: b"connected_clients:296\r\n" in connection("INFO", "clients"), "296 clients"
        )
        held += [half_open(server.port) for _ in range(4)]
        kvserver.wait_until(
            lambda: b"connected_clients:300\r\n" in connection("INFO", "clients"), "300 clients"
        )
        for _ in range(20):
            refused = resp.Connection(server.port)
            assert refused.closed() == b"-ERR max number of clients reached\r\n"
            refused.close()
        assert b"rejected_connections:20\r\n" in connection("INFO", "stats")
        for one in held:
            one.close()
        kvserver.wait_until(
            lambda: b"connected_clients:1\r\n" in connection("INFO", "clients"), "all gone"
        )
        assert server.descriptor_count() == before
    with server.connect() as connection:
        assert connection("PING") == "PONG"


@pytest.mark.plain
def test_descriptors_run_out(start):
    """Under a low limit the server says so at start, refuses with an error, and serves on."""
    server = start(prefix=("prlimit", "--nofile=256:256"), maxclients=1000)
    assert "open files are limited to 256" in server.log()
    with server.connect() as connection:
        held = []
        refused = 0
        for _ in range(400):
            one = half_open(server.port)
            one.settimeout(0.5)
            held.append(one)
        time.sleep(0.2)
        for one in held:
            one.setblocking(False)
            try:
                data = one.recv(100)
            except BlockingIOError:
                continue
            assert data == b"-ERR max number of clients reached\r\n"
            refused += 1
        assert refused > 100
        assert connection("SET", "fd", "x") == "OK"
        assert "raise the limit (ulimit -n) or lower maxclients" in server.log()
        for one in held:
            one.close()
        kvserver.wait_until(
            lambda: b"connected_clients:1\r\n" in connection("INFO", "clients"), "all gone"
        )
    with server.connect() as connection:
        assert connection("GET", "fd") == b"x"


def declare(server, length, count):
    """Connections that announce a SET of length bytes and send a thousand of them."""
    header = b"*3\r\n$3\r\nSET\r\n$5\r\nnever\r\n$%d\r\n" % length
    return [half_open(server.port, header + b"x" * 1000) for _ in range(count)]


@pytest.mark.plain
def test_declared_lengths_take_no_memory(start):
    server = start(reactors=2, maxmemory="1gb", upload_timeout_ms=1500)
    with server.connect() as connection:
        resident = server.resident_bytes()
        uploads = declare(server, 512 * MIB, 40)
        held = [half_open(server.port, b"*1000000\r\n$4\r\nMGET\r\n") for _ in range(40)]
        held += [half_open(server.port, b"*3\r\n$3\r\nSET\r\n$536870912\r\nk") for _ in range(20)]
        time.sleep(0.3)
        assert connection("SET", "other", "y" * 100000) == "OK"
        assert connection("GET", "other") == b"y" * 100000
        assert server.resident_bytes() - resident < 64 * MIB
        # The uploads end by upload-timeout-ms.
        kvserver.wait_until(lambda: server.info()["timeout_closed"] >= 40, "uploads given up")
        for one in uploads:
            one.settimeout(5)
            assert one.recv(100) == b""
        for one in uploads + held:
            one.close()
    kvserver.wait_until(server.nothing_held, "nothing of them left")


@pytest.mark.plain
def test_declared_lengths_evict_nothing(start):
    server = start(reactors=2, maxmemory="1gb", shutdown_timeout=1)
    with server.connect() as connection:
        for i in range(200):
            connection("SET", f"v:{i}", b"x" * 1000000)
        held = declare(server, 512 * MIB, 3)
        kvserver.wait_until(lambda: server.info()["connected_clients"] >= 4, "all accepted")
        assert connection("EXISTS", *[f"v:{i}" for i in range(200)]) == 200
        for one in held:
            one.close()


def test_upload_that_goes_on_slowly_is_not_given_up(start):
    server = start(upload_timeout_ms=400)
    payload = os.urandom(100000)
    data = resp.encode("SET", "slow", payload)
    with server.connect() as connection:
        for i in range(0, len(data), 10000):
            connection.send(data[i : i + 10000])
            time.sleep(0.15)
        assert connection.read() == "OK"
        assert connection("GET", "slow") == payload


@pytest.mark.reactors
@pytest.mark.parametrize("reactors", [1, 2])
def test_upload_that_stands_still_gives_way_to_others(start, reactors):
    """Who declares half of the memory and does not send holds others up no longer than a moment."""
    server = start(reactors=reactors)
    half = server.info()["payload_pages_free"] * (2 * MIB) // 2
    with server.connect() as slow, server.connect() as other:
        slow.send(b"*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$%d\r\n" % (half - 2 * MIB))
        slow.send(b"x" * 100000)
        payload = os.urandom(8 * MIB)
        assert other("SET", "quick", payload) == "OK"
        assert slow.closed() == b""
        assert other("GET", "quick") == payload
        assert other("EXISTS", "slow") == 0
    assert server.info()["timeout_closed"] == 1


def test_idle_connections_are_closed(start):
    server = start(timeout=1)
    with server.connect() as connection:
        assert connection("PING") == "PONG"
        assert connection.closed() == b""
    assert server.info()["timeout_closed"] >= 1


def test_reader_that_reads_nothing_is_closed(start):
    """Its replies take bounded memory, evict nothing and hold nothing once it is gone."""
    server = start(reactors=2, output_timeout_ms=1500)
    payload = os.urandom(8 * MIB)
    with server.connect() as connection:
        for i in range(4):
            connection("SET", f"out:{i}", payload)
        reader = server.connect(receive_buffer=4096)
        reader.send(b"".join(resp.encode("GET", f"out:{i % 4}") for i in range(400)))
        assert connection("PING") == "PONG"
        used = server.info()["used_memory"]
        assert used < 64 * MIB
        kvserver.wait_until(lambda: server.info()["evicted_clients"] >= 1, "the reader closed")
        reader.close()
        for i in range(4):
            assert connection("GET", f"out:{i}") == payload
    assert server.info()["evicted_keys"] == 0
    kvserver.wait_until(server.nothing_held, "its pins to come back")


@pytest.mark.reactors
@pytest.mark.parametrize("kind", ["reads nothing", "sends half"])
def test_standstill_does_not_take_all_buffers(start, kind):
    """More clients at a standstill than there are buffers: they go, others are served."""
    server = start(reactors=2, maxmemory="64mb")
    with server.connect() as other:
        other("SET", "long", b"x" * (4 * MIB))
        request = resp.encode("GET", "long")
        held = []
        for _ in range(900):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(request if kind == "reads nothing" else request[:-5])
            held.append(connection)

    def served(deadline_s=2):
        try:
            with server.connect(deadline_s=deadline_s) as new:
                return new("SET", "short", b"y") == "OK" and new("GET", "short") == b"y"
        except (resp.Closed, TimeoutError):
            return False

    kvserver.wait_until(served, "the first who are closed")
    time.sleep(0.6 * kvserver.SLOW)  # so that all who are left stand still for long enough
    kvserver.wait_until(served, "room for others")
    assert all(served(resp.DEADLINE_S * kvserver.SLOW) for _ in range(50))
    info = server.info()
    assert info["evicted_clients"] > 0
    assert info["connected_clients"] > 100, "no more are closed than need be"
    for connection in held:
        connection.close()
    kvserver.wait_until(server.nothing_held, "their pins to come back")


PIPELINE_REQUESTS = 10000


def write_all_then_read(port, length):
    """Writes every request before it reads the first reply; the replies must be whole and in order."""
    with resp.Connection(port, deadline_s=60) as connection:
        connection.send(
            b"".join(resp.encode("GET", f"ahead:{i % 100}") for i in range(PIPELINE_REQUESTS))
        )
        for i in range(PIPELINE_REQUESTS):
            assert connection.read() == b"%02d" % (i % 100) * (length // 2)


@pytest.mark.parametrize("reactors", [1, 2])
def test_requests_all_written_before_a_reply_is_read(start, reactors):
    """Both sides would wait for each other if the server stopped reading while replies wait."""
    server = start(reactors=reactors, output_timeout_ms=5000, maxmemory="256mb")
    with server.connect() as connection:
        for i in range(100):
            assert connection("SET", f"ahead:{i}", b"%02d" % i * 2500) == "OK"
        write_all_then_read(server.port, 5000)
        failures = []

        def client():
            try:
                write_all_then_read(server.port, 5000)
            except (AssertionError, OSError, resp.Closed, resp.Error) as failure:
                failures.append(failure)

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert connection("DBSIZE") == 100


def test_requests_of_one_who_never_reads_stay_bounded(start):
    """What is read ahead stays within the buffers, evicts nothing, and ends with the connection."""
    server = start(reactors=1, output_timeout_ms=2000, maxmemory="64mb")
    with server.connect() as connection:
        assert connection("SET", "ahead:0", b"x" * 5000) == "OK"
        silent = resp.Connection(server.port, receive_buffer=4096)
        silent.socket.settimeout(30)
        request = resp.encode("GET", "ahead:0") * 1000
        with pytest.raises((OSError, resp.Closed)):
            for _ in range(20000):
                silent.send(request)
        silent.close()
        assert "has read nothing for output-timeout-ms 2000" in server.log()
        assert "of its requests were read ahead" in server.log()
        assert b"evicted_keys:0\r\n" in connection("INFO", "stats")
        assert connection("GET", "ahead:0") == b"x" * 5000


def test_slow_reader_gets_everything(start):
    server = start(reactors=2)
    payload = random.Random(3).randbytes(300000)
    with server.connect() as connection:
        connection("SET", "slow", payload)
    with server.connect(receive_buffer=8192) as connection:
        writer = threading.Thread(
            target=connection.send, args=(resp.encode("GET", "slow") * 20,), daemon=True
        )
        writer.start()
        for _ in range(20):
            time.sleep(0.01)
            assert connection.read() == payload
        writer.join(10)


@pytest.mark.parametrize("limit", ["normal 2mb 0 0", "normal 0 1mb 1"])
def test_slow_reader_is_cut_by_the_limit_of_its_class_and_evicts_nothing(start, limit):
    server = start(client_output_buffer_limit="normal 0 0 0")
    payload = random.Random(3).randbytes(16 * MIB)
    with server.connect() as connection:
        connection("SET", "long", payload)
        assert connection("CONFIG", "SET", "client-output-buffer-limit", limit) == "OK"
        _, value = connection("CONFIG", "GET", "client-output-buffer-limit")
        assert value.startswith(b"normal ") and b" pubsub 33554432 8388608 60" in value
        error = connection.error("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb")
        assert "client-output-buffer-limit" in error and "normal 64mb 16mb 60" in error
        with server.connect(receive_buffer=8192) as reader:
            reader.send(resp.encode("GET", "long"))
            kvserver.wait_until(
                lambda: server.info()["evicted_clients"] == 1,
                "the slow reader to be cut",
            )
        assert connection("GET", "key") is None
        assert connection("EXISTS", "long") == 1
    info = server.info()
    assert info["evicted_keys"] == 0
    kvserver.wait_until(server.nothing_held, "its pins to come back")


def test_small_replies_to_one_who_does_not_read(start):
    """A million replies are not kept: the server stops reading the requests."""
    server = start(reactors=2)
    with server.connect(receive_buffer=4096) as reader, server.connect() as other:
        reader.socket.settimeout(1)
        sent = 0
        chunk = resp.encode("ECHO", "x" * 100) * 1000
        try:
            while sent < 200 * MIB:
                reader.socket.sendall(chunk)
                sent += len(chunk)
        except TimeoutError:
            pass
        assert sent < 200 * MIB, "the server must stop reading"
        assert other("PING") == "PONG"
        assert server.info()["used_memory"] < 64 * MIB


def test_arguments_count_as_memory_and_have_a_limit(start):
    """Short arguments take more memory as arguments than as bytes: both are counted, and bounded."""
    server = start(client_query_buffer_limit="64mb", buffer_memory="16mb")
    before = server.info()["used_memory"]
    count = 1 << 20
    tail = 64
    bulk = b"$0\r\n\r\n"
    with server.connect() as first:
        first.send(b"*%d\r\n" % count + bulk * (count - tail))
        kvserver.wait_until(
            lambda: server.info()["used_memory"] - before >= (8 + 16) * MIB, "both to be counted"
        )
        others = [server.connect() for _ in range(6)]
        for other in others:
            try:
                other.send(b"*%d\r\n" % count + bulk * (count - tail))
            except resp.Closed:
                pass
        kvserver.wait_until(
            lambda: server.info()["protocol_errors"] >= 4, "those for whom there is no room to go"
        )
        assert server.info()["used_memory"] - before <= 72 * MIB
        first.send(bulk * tail)
        assert "unknown command" in str(first.read_or_error())
        for other in others:
            other.close()
    kvserver.wait_until(
        lambda: server.info()["used_memory"] - before < 2 * MIB, "the memory to come back"
    )


def test_request_longer_than_the_query_buffer(start):
    server = start(client_query_buffer_limit="1mb")
    with server.connect() as connection:
        count = 40000
        connection.send(b"*%d\r\n$4\r\nMGET\r\n" % (count + 1))
        try:
            for _ in range(count):
                connection.send(b"$40\r\n" + b"k" * 40 + b"\r\n")
        except resp.Closed:
            pass
        connection.closed()  # The reason may be lost: it was sent while we were sending.
    with server.connect() as connection:
        assert connection("PING") == "PONG"
        assert server.info()["protocol_errors"] == 1
