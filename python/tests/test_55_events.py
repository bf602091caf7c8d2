"""Subscriptions to what happens to keys."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest
from conftest import StartServer, connect

import kvasir

KeyMaker = Callable[[str], bytes]


def collect(events: kvasir.Events, key: bytes, count: int) -> list[kvasir.Event]:
    """The next count events of a key; the server is shared with other tests' keys."""
    found: list[kvasir.Event] = []
    end = time.monotonic() + 10
    while len(found) < count:
        assert time.monotonic() < end, found
        found += [event for event in events.poll() if event.key == key]
    return found


def test_events_tell_what_happens_in_order(client: kvasir.Client, key: KeyMaker) -> None:
    events = client.events()
    client.put(key("a"), b"x" * 1000)
    client.put(key("a"), b"y" * 2000)
    client.delete(key("a"))
    found = collect(events, key("a"), 3)
    assert [(event.kind, event.length_bytes) for event in found][:2] == [
        ("sealed", 1000),
        ("sealed", 2000),
    ]
    assert found[2].kind == "deleted"
    numbers = [event.number for event in found]
    assert numbers == sorted(set(numbers))
    assert len({event.shard for event in found}) == 1
    assert events.number >= numbers[-1]
    assert all(event.key != key("a") for event in events.poll())


def test_events_go_on_from_a_number(client: kvasir.Client, key: KeyMaker) -> None:
    events = client.events(count_max=1)
    for name in "abc":
        client.put(key(name), name.encode())
    first = collect(events, key("a"), 1)[0]
    again = client.events(since=first.number)
    names: list[bytes] = []
    end = time.monotonic() + 10
    while names[-1:] != [key("c")]:
        assert time.monotonic() < end, names
        names += [
            event.key for event in again.poll() if event.key in (key("a"), key("b"), key("c"))
        ]
    assert names == [key("b"), key("c")]


def test_events_are_an_iterator(client: kvasir.Client, key: KeyMaker) -> None:
    events = client.events()
    client.put(key("a"), b"x")
    event = next(event for event in events if event.key == key("a"))
    assert (event.kind, event.length_bytes) == ("sealed", 1)


@pytest.mark.parametrize("length", [1, 300, 5000, 60000])
def test_events_name_long_and_binary_keys(
    client: kvasir.Client, key: KeyMaker, length: int
) -> None:
    events = client.events()
    name = (key("") + bytes(range(256)) * 300)[: max(length, len(key("")) + 1)]
    client.put(name, b"v")
    assert collect(events, name, 1)[0].kind == "sealed"


def test_events_tell_a_flush(start_server: StartServer) -> None:
    server = start_server(reactors=2)
    with connect(server, "tcp") as client:
        events = client.events()
        client.put(b"a", b"x")
        held = {event.key: event.shard for event in collect(events, b"a", 1)}
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as bare:
            bare.sendall(b"FLUSHALL\r\n")
            assert bare.recv(100) == b"+OK\r\n"
        end = time.monotonic() + 10
        while held:
            assert time.monotonic() < end
            for event in events.poll():
                if event.kind == "flushed":
                    held = {name: shard for name, shard in held.items() if shard != event.shard}


def test_events_lost_are_said_and_the_next_go_on(start_server: StartServer) -> None:
    server = start_server(reactors=1, events_backlog="256kb")
    with connect(server, "tcp") as client:
        events = client.events()
        for index in range(6000):
            client.put(b"lost:%05d" % index + b"k" * 200, b"v")
        with pytest.raises(kvasir.Overrun):
            events.poll()
        client.put(b"after", b"v")
        assert collect(events, b"after", 1)[0].kind == "sealed"


def test_events_refuse_what_makes_no_sense(client: kvasir.Client) -> None:
    with pytest.raises(ValueError, match="interval"):
        client.events(interval=0)
    with pytest.raises(ValueError, match="since"):
        client.events(since=-1)
    with pytest.raises(kvasir.Invalid, match="10000"):
        client.events(count_max=10001)
