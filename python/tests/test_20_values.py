"""Values in and out, on each path."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

import kvasir
from kvasir.server import Server

KeyMaker = Callable[[str], bytes]
StartServer = Callable[..., Server]

SIZES = (0, 1, 63, 64, 4095, 4096, 4097, 65536, (1 << 20) + 1, (2 << 20), (5 << 20) + 12345)


@pytest.mark.parametrize("size", SIZES)
def test_values_come_back_as_they_went(client: kvasir.Client, key: KeyMaker, size: int) -> None:
    data = os.urandom(size)
    assert client.put(key("a"), data) is True
    assert client.get(key("a")) == data
    buffer = bytearray(b"\xaa" * (size + 16))
    assert client.get_into(key("a"), buffer) == size
    assert buffer[:size] == data


def test_values_large_ones_take_the_path_of_the_client(
    client: kvasir.Client, key: KeyMaker, path: str
) -> None:
    client.put(key("a"), bytes(1 << 20))
    assert client.path == path
    before = client.counters()[f"{path}_bytes"]
    client.get_into(key("a"), bytearray(1 << 20))
    assert client.path == path
    assert client.counters()[f"{path}_bytes"] - before >= 1 << 20


def test_values_absent_key_is_none_and_leaves_the_buffer(
    client: kvasir.Client, key: KeyMaker
) -> None:
    buffer = bytearray(b"before")
    assert client.get(key("a")) is None
    assert client.get_into(key("a"), buffer) is None
    assert buffer == b"before"
    assert client.exists(key("a")) is False
    assert client.delete(key("a")) is False
    assert client.stat(key("a")) is None


def test_values_key_may_be_text_or_any_bytes(client: kvasir.Client, key: KeyMaker) -> None:
    text = key("käse").decode()
    client.put(text, b"1")
    assert client.get(text.encode()) == b"1"
    odd = key("\0\r\n") + bytes(range(256))
    client.put(odd, b"2")
    assert client.get(odd) == b"2"
    assert client.exists_batch([text, odd, odd + b"x"]) == [True, True, False]


def test_values_short_buffer_is_too_small_and_says_the_length(
    client: kvasir.Client, key: KeyMaker
) -> None:
    client.put(key("a"), bytes(100_000))
    with pytest.raises(kvasir.TooSmall) as caught:
        client.get_into(key("a"), bytearray(99_999))
    assert caught.value.length_bytes == 100_000
    assert caught.value.status == kvasir.Status.TOO_SMALL
    assert client.get_into(key("a"), bytearray(100_000)) == 100_000


def test_values_only_if_absent_keeps_the_first(client: kvasir.Client, key: KeyMaker) -> None:
    assert client.put(key("a"), b"first", only_if_absent=True) is True
    assert client.put(key("a"), b"second", only_if_absent=True) is False
    assert client.get(key("a")) == b"first"
    assert client.put(key("a"), b"third") is True
    assert client.get(key("a")) == b"third"


def test_values_ttl_ends_them(client: kvasir.Client, key: KeyMaker) -> None:
    client.put(key("long"), b"1", ttl=100.0)
    client.put(key("short"), b"1", ttl=0.05)
    stat = client.stat(key("long"))
    assert stat is not None
    assert stat.ttl is not None
    assert 90 < stat.ttl <= 100
    end = time.monotonic() + 5
    while client.exists(key("short")) and time.monotonic() < end:
        pass
    assert client.exists(key("short")) is False
    assert client.exists(key("long")) is True


def test_values_stat_tells_what_was_put(client: kvasir.Client, key: KeyMaker) -> None:
    client.put(key("a"), bytes(70_000), checksum=True, value_class="window")
    stat = client.stat(key("a"))
    assert stat is not None
    assert stat.length_bytes == 70_000
    assert stat.value_class == "window"
    assert stat.checksum is not None
    assert stat.ttl is None
    first = stat.generation
    client.put(key("a"), b"again")
    again = client.stat(key("a"))
    assert again is not None
    assert (again.length_bytes, again.value_class) == (5, "full")
    assert again.generation > first
    both = client.stat_batch([key("a"), key("none")])
    assert isinstance(both[0], kvasir.Stat)
    assert both[0].length_bytes == 5
    assert both[1] is None


def test_values_batch_answers_each_key_in_its_place(client: kvasir.Client, key: KeyMaker) -> None:
    keys = [key(str(index)) for index in range(64)]
    data = [os.urandom(index * 1000) for index in range(64)]
    assert client.put_batch(keys, data) == [True] * 64
    assert client.exists_batch(keys) == [True] * 64
    assert client.delete_batch(keys[::2]) == [True] * 32
    buffers = [bytearray(64_000) for _ in keys]
    buffers[3] = bytearray(10)
    results = client.get_into_batch(keys, buffers)
    for index, result in enumerate(results):
        if index == 3:
            assert isinstance(result, kvasir.TooSmall)
            assert result.length_bytes == 3000
        elif index % 2 == 0:
            assert result is None
        else:
            assert result == len(data[index])
            assert buffers[index][:result] == data[index]
    assert client.delete_batch(keys) == [bool(index % 2) for index in range(64)]


def test_values_batch_only_if_absent_tells_stored_from_existing(
    client: kvasir.Client, key: KeyMaker
) -> None:
    client.put(key("1"), b"old")
    keys = [key("0"), key("1"), key("2")]
    assert client.put_batch(keys, [b"new"] * 3, only_if_absent=True) == [True, False, True]
    assert client.get(key("1")) == b"old"


def test_values_empty_batch_asks_nothing(client: kvasir.Client) -> None:
    before = client.counters()["round_trips"]
    assert client.put_batch([], []) == []
    assert client.get_into_batch([], []) == []
    assert client.exists_batch([]) == []
    assert client.delete_batch([]) == []
    assert client.stat_batch([]) == []
    assert client.match([]) == 0
    assert client.submit_put([], []).wait(1) == []
    assert client.counters()["round_trips"] == before


def test_values_match_counts_the_leading_ones(client: kvasir.Client, key: KeyMaker) -> None:
    keys = [key(str(index)) for index in range(10)]
    client.put_batch(keys[:6] + keys[7:], [b"x"] * 9, chain=True)
    assert client.match(keys) == 6
    assert client.match(keys[7:], pin=5.0) == 3
    assert client.match([key("none"), *keys]) == 0
    stat = client.stat(keys[8])
    assert stat is not None
    assert 0 < stat.pin <= 5


def test_values_what_is_dear_stays(start_server: StartServer) -> None:
    server = start_server(maxmemory="96mb")
    with kvasir.Client(server.address) as client:
        block = bytes(64 << 10)
        for i in range(400):
            client.put_batch(
                [f"cheap:{i}:{j}" for j in range(8)], [block] * 8, cost=1, value_class="full"
            )
            client.put(f"dear:{i}", block, cost=100_000)
        dear = client.exists_batch([f"dear:{i}" for i in range(400)])
        assert dear.count(True) > 360  # the first came before it was known what is dear
        cheap = client.exists_batch([f"cheap:{i}:{j}" for i in range(400) for j in range(8)])
        assert cheap.count(True) < 1600


def test_values_cost_is_a_whole_number(client: kvasir.Client, key: KeyMaker) -> None:
    for cost in (-1, 1 << 64):
        with pytest.raises(ValueError, match="cost is a whole number"):
            client.put(key("a"), b"", cost=cost)


def test_values_parent_is_taken(client: kvasir.Client, key: KeyMaker) -> None:
    assert client.put(key("parent"), b"1") is True
    assert client.put(key("child"), b"2", parent=key("parent"), value_class="state") is True
    assert client.get(key("child")) == b"2"


def test_values_too_large_is_refused_and_evicts_nothing(
    client: kvasir.Client, key: KeyMaker
) -> None:
    client.put(key("a"), b"kept")
    # Untouched zero pages: nothing is really allocated.
    import mmap

    with mmap.mmap(-1, 300 << 20) as huge, pytest.raises((kvasir.TooLarge, kvasir.NoMemory)):
        client.put(key("huge"), huge)
    assert client.get(key("a")) == b"kept"


def test_values_bad_arguments_are_refused_before_anything_is_sent(
    client: kvasir.Client, key: KeyMaker
) -> None:
    before = client.counters()["calls"]
    with pytest.raises(ValueError, match="2 keys but 1 payloads"):
        client.put_batch([b"a", b"b"], [b"1"])
    with pytest.raises(TypeError, match="sequence of keys"):
        client.exists_batch(b"abc")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a key is bytes or str"):
        client.exists(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="value_class is one of full, window"):
        client.put(key("a"), b"", value_class="odd")  # type: ignore[arg-type]
    for timeout in (0, -1.0, float("nan"), 1e12):
        with pytest.raises(ValueError, match="positive number of seconds"):
            client.exists(key("a"), timeout=timeout)
    with pytest.raises(ValueError, match="positive number of seconds"):
        client.put(key("a"), b"", ttl=-1)
    assert client.counters()["calls"] == before


def test_values_server_info_is_filled_in(client: kvasir.Client, path: str) -> None:
    info = client.server_info()
    assert info.version == kvasir.__version__
    assert info.reactor_count == 2
    assert info.key_bytes_max > 0
    assert info.value_bytes_max > 0
    assert info.shm is (path == "shm")


def test_values_counters_count(client: kvasir.Client, key: KeyMaker) -> None:
    before = client.counters()
    client.put(key("a"), bytes(1000))
    client.get_into(key("a"), bytearray(1000))
    client.get_into(key("none"), bytearray(1000))
    after = client.counters()
    grown = {name: after[name] - before[name] for name in after}
    assert grown["put_items"] == 1
    assert grown["put_bytes"] == 1000
    assert grown["get_hits"] == 1
    assert grown["get_misses"] == 1
    assert grown["get_bytes"] == 1000
    assert grown["timeouts"] == grown["errors"] == grown["reconnects"] == 0
