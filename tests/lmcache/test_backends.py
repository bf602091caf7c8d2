"""LMCache's redis://, resp:// and valkey:// against the server, LMCache unchanged: its connectors, and its
remote back end over them, as its engine drives it."""

import hashlib

import kvserver
import pytest
from cache import HELD, KIB, MIB, Cache, cancel_others, content_of, run


@pytest.fixture(autouse=True)
def workers_end():
    """LMCache's closing of a connector on its own loop would wait for itself: its workers end here, and the
    chunks go back to its pools."""
    yield
    run(cancel_others())
    while HELD:
        chunk = HELD.pop()
        while chunk.get_ref_count() > 0:
            chunk.ref_count_down()


@pytest.mark.parametrize("chunk_bytes", [64 * KIB, MIB, 16 * MIB])
def test_connector_gives_back_what_it_was_given(server, scheme, chunk_bytes):
    cache = Cache(scheme, server.port, chunk_bytes)
    keys, chunks, contents = cache.chunks(4)
    for key, chunk in zip(keys, chunks, strict=True):
        run(cache.connector.put(key, chunk))
    assert [content_of(run(cache.connector.get(key))) for key in keys] == contents


def test_connector_knows_what_is_there(server, scheme):
    cache = Cache(scheme, server.port)
    keys, chunks, _ = cache.chunks(6)
    for i in (0, 1, 2, 4):
        run(cache.connector.put(keys[i], chunks[i]))
    there = [True, True, True, False, True, False]
    assert [run(cache.connector.exists(key)) for key in keys] == there
    assert [cache.connector.exists_sync(key) for key in keys] == there
    assert run(cache.connector.batched_async_contains("lookup", keys)) == 3
    assert run(cache.connector.batched_async_contains("lookup", keys[3:])) == 0
    if cache.connector.support_batched_contains():
        assert cache.connector.batched_contains(keys) == 3


def test_connector_stores_and_loads_batches(server, scheme):
    cache = Cache(scheme, server.port)
    keys, chunks, contents = cache.chunks(32)
    run(cache.connector.batched_put(keys, chunks))
    loaded = run(cache.connector.batched_get_non_blocking("lookup", keys))
    assert [content_of(chunk) for chunk in loaded] == contents
    if cache.connector.support_batched_get():
        again = run(cache.connector.batched_get(keys[::-1]))
        assert [content_of(chunk) for chunk in again] == contents[::-1]


# The native client of resp:// waits for a header of the chunk's length: it asks whether a chunk is there first.
@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_chunk_that_is_not_there_is_a_miss(server, scheme):
    cache = Cache(scheme, server.port)
    keys, chunks, contents = cache.chunks(2)
    cache.put(keys[:1], chunks[:1])
    assert cache.backend.get_blocking(keys[1]) is None
    assert content_of(cache.backend.get_blocking(keys[0])) == contents[0]


def test_newer_chunk_takes_the_place_of_the_older(server, scheme):
    cache = Cache(scheme, server.port)
    keys, chunks, contents = cache.chunks(2)
    run(cache.connector.put(keys[0], chunks[0]))
    run(cache.connector.put(keys[0], chunks[1]))
    assert content_of(run(cache.connector.get(keys[0]))) == contents[1]


def test_engine_side_stores_looks_up_and_loads(server, scheme):
    cache = Cache(scheme, server.port)
    keys, chunks, contents = cache.chunks(24)
    assert cache.backend.batched_contains(keys) == 0
    cache.put(keys[:16], chunks[:16])
    assert cache.backend.batched_contains(keys) == 16
    assert [cache.backend.contains(key) for key in keys[14:18]] == [
        True,
        True,
        False,
        False,
    ]
    loaded = cache.backend.batched_get_blocking(keys[:16])
    assert [content_of(chunk) for chunk in loaded] == contents[:16]


def test_another_process_finds_what_one_stored(server, scheme, other_process):
    cache = Cache(scheme, server.port)
    keys, chunks, contents = cache.chunks(8)
    cache.put(keys, chunks)
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    assert other_process(scheme, server.port, len(keys)) == ["8", *digests]


def test_server_restarts_in_the_middle(server, scheme):
    cache = Cache(scheme, server.port)
    keys, chunks, contents = cache.chunks(8)
    cache.put(keys, chunks)
    port = server.port
    server.stop()
    assert cache.backend.contains(keys[0]) is False
    following = kvserver.Server(port=port)
    try:
        if scheme == "resp":
            # Its native client does not connect again; the engine's next start does.
            cache = Cache(scheme, port)
        assert cache.backend.batched_contains(keys) == 0
        kvserver.wait_until(
            lambda: stores(cache, keys, chunks), "LMCache to store again", 60
        )
        loaded = cache.backend.batched_get_blocking(keys)
        assert [content_of(chunk) for chunk in loaded] == contents
    finally:
        following.stop()


def stores(cache, keys, chunks):
    cache.put(keys, chunks)
    return cache.backend.batched_contains(keys) == len(keys)
