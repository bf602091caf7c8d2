"""Requests in flight."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
from conftest import SLACK_S, StartServer, connect, stopped

import kvasir

KeyMaker = Callable[[str], bytes]


def test_requests_put_and_get(client: kvasir.Client, key: KeyMaker) -> None:
    keys = [key(str(index)) for index in range(8)]
    data = [os.urandom(300_000) for _ in keys]
    assert client.submit_put(keys, data).wait(10) == [True] * 8
    buffers = [bytearray(300_000) for _ in keys]
    request = client.submit_get_into([*keys, key("none")], [*buffers, bytearray(1)])
    assert request.wait() == [300_000] * 8 + [None]
    assert request.done()
    assert request.wait(0.001) == request.wait()
    assert buffers == data


def test_requests_many_end_in_any_order(client: kvasir.Client, key: KeyMaker) -> None:
    keys = [key(str(index)) for index in range(40)]
    puts = [client.submit_put([name], [name * 1000]) for name in keys]
    assert [put.wait(10) for put in reversed(puts)] == [[True]] * 40
    buffers = [bytearray(len(name) * 1000) for name in keys]
    gets = [client.submit_get_into([name], [buffer]) for name, buffer in zip(keys, buffers)]
    end = time.monotonic() + 10
    while not all(get.done() for get in gets):
        assert time.monotonic() < end
    assert [bytes(buffer) for buffer in buffers] == [name * 1000 for name in keys]


def test_requests_synchronous_calls_go_between(client: kvasir.Client, key: KeyMaker) -> None:
    put = client.submit_put([key("a")], [bytes(1 << 20)])
    assert client.put(key("b"), b"1") is True
    assert client.get(key("b")) == b"1"
    assert put.wait(10) == [True]
    assert client.exists(key("a"))


def test_requests_dropped_ones_still_end(client: kvasir.Client, key: KeyMaker) -> None:
    client.submit_put([key("a")], [bytearray(b"kept alive" * 10_000)])
    end = time.monotonic() + 10
    while not client.exists(key("a")):
        assert time.monotonic() < end
        client.submit_put([key("b")], [b"1"]).wait(10)
    assert client.get(key("a")) == b"kept alive" * 10_000


def test_requests_options_of_a_put_count(client: kvasir.Client, key: KeyMaker) -> None:
    client.put(key("a"), b"old")
    request = client.submit_put([key("a"), key("b")], [b"new", b"new"], only_if_absent=True)
    assert request.wait(10) == [False, True]
    assert client.get(key("a")) == b"old"


def test_requests_buffers_are_held_until_done(client: kvasir.Client, key: KeyMaker) -> None:
    client.put(key("a"), b"0123456789")
    buffer = bytearray(10)
    request = client.submit_get_into([key("a")], [buffer])
    with pytest.raises(BufferError):
        buffer.append(0)
    assert request.wait(10) == [10]
    buffer.append(0)


def test_requests_to_a_stopped_server_end_at_their_deadline(start_server: StartServer) -> None:
    server = start_server()
    with connect(server, "tcp") as client:
        client.put(b"a", bytes(100))
        with stopped(server):
            start = time.monotonic()
            request = client.submit_get_into([b"a", b"b"], [bytearray(100)] * 2, timeout=2.0)
            with pytest.raises(kvasir.Timeout):
                request.wait(0.1)
            assert time.monotonic() - start < 2.0
            results = request.wait()
            assert 1.9 < time.monotonic() - start < 2.0 + SLACK_S
            assert all(isinstance(result, kvasir.Timeout) for result in results)


def test_requests_cancelled_give_their_buffers_back(start_server: StartServer) -> None:
    server = start_server()
    with connect(server, "tcp") as client:
        client.put(b"a", bytes(100))
        with stopped(server):
            buffer = bytearray(100)
            request = client.submit_get_into([b"a"], [buffer])
            assert request.cancel() is True
            assert request.cancel() is False
            assert request.done()
            assert isinstance(request.wait()[0], kvasir.Cancelled)
            buffer.append(0)
        # What the server still says about it disturbs nobody.
        client.put(b"b", b"1")
        assert client.get(b"a") == bytes(100)
        assert client.get(b"b") == b"1"


def test_requests_are_ended_by_close(start_server: StartServer) -> None:
    server = start_server()
    client = connect(server, "tcp")
    client.put(b"a", bytes(100))
    with stopped(server):
        request = client.submit_get_into([b"a"], [bytearray(100)])
        client.close()
        assert isinstance(request.wait(1)[0], kvasir.Closed)


def test_requests_waited_for_by_many_threads(client: kvasir.Client, key: KeyMaker) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                name = key(f"{number} {turn}")
                assert client.submit_put([name], [name * 100]).wait(10) == [True]
                buffer = bytearray(len(name) * 100)
                assert client.submit_get_into([name], [buffer]).wait(10) == [len(buffer)]
                assert buffer == name * 100
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
