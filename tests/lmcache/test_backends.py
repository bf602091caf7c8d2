"""LMCache's redis://, resp:// and valkey:// against the server, LMCache unchanged: its connectors, and its
remote back end over them, as its engine drives it."""

import asyncio
import os
import random
import threading

os.environ["LMCACHE_LOG_LEVEL"] = "ERROR"

import kvserver
import pytest
import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
from lmcache.v1.storage_backend.remote_backend import RemoteBackend

KIB, MIB = 1 << 10, 1 << 20
DEADLINE_S = 60 * kvserver.SLOW
BLOCKING_S = 10 * kvserver.SLOW  # LMCache's own deadline, which it waits for when no server is there
LAYERS, TOKENS = 16, 256
THREADS = 4
POOL_GIB = 0.25  # the pools of all sizes live as long as the process
POOLS = {}
HELD = []  # chunks that the test has made

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def run(coroutine):
    """The result of a coroutine of LMCache on its loop; one that waits for ever fails its test."""
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(DEADLINE_S)


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


async def cancel_others():
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def metadata_of(chunk_bytes):
    # Keys and values of all layers, with a head of one number.
    head_bytes = LAYERS * 2 * TOKENS * torch.bfloat16.itemsize
    assert chunk_bytes % head_bytes == 0
    return LMCacheMetadata(
        model_name="tiny",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(LAYERS, 2, TOKENS, 1, chunk_bytes // head_bytes),
        chunk_size=TOKENS,
    )


def pool_of(chunk_bytes, config):
    """LMCache's memory for chunks of this size; it knows nothing of where they are stored."""
    if chunk_bytes not in POOLS:
        POOLS[chunk_bytes] = LocalCPUBackend(config, metadata_of(chunk_bytes), dst_device="cpu")
    return POOLS[chunk_bytes]


class Cache:
    """LMCache's remote back end for chunks of one size, over one scheme."""

    def __init__(self, scheme, port, chunk_bytes=MIB, **extra):
        extra |= {"resp_num_threads": THREADS, "valkey_num_workers": THREADS}
        if scheme != "redis":
            extra["save_chunk_meta"] = False
        self.config = LMCacheEngineConfig.from_defaults(
            chunk_size=TOKENS,
            local_cpu=False,
            max_local_cpu_size=POOL_GIB,
            remote_url=f"{scheme}://127.0.0.1:{port}",
            remote_serde="naive",
            save_unfull_chunk=False,
            blocking_timeout_secs=BLOCKING_S,
            extra_config=extra,
        )
        self.metadata = metadata_of(chunk_bytes)
        self.memory = pool_of(chunk_bytes, self.config)
        self.backend = RemoteBackend(
            self.config, self.metadata, LOOP, self.memory, dst_device="cpu"
        )
        self.connector = self.backend.connection
        self.chunk_bytes = chunk_bytes
        assert self.connector is not None

    def chunk(self, seed):
        """A chunk of KV and what its bytes are."""
        chunk = self.memory.allocate(
            self.metadata.get_shapes(), self.metadata.get_dtypes(), MemoryFormat.KV_2LTD
        )
        HELD.append(chunk)
        content = random.Random(seed).randbytes(self.chunk_bytes)
        assert chunk.get_size() == self.chunk_bytes
        view_of(chunk)[:] = content
        return chunk, content

    def chunks(self, count):
        """Keys, chunks and contents."""
        made = [self.chunk(i) for i in range(count)]
        return [key_of(i) for i in range(count)], *map(list, zip(*made, strict=True))

    def put(self, keys, chunks):
        """As the engine stores: all at once, and it is told of each."""
        stored = threading.Semaphore(0)
        self.backend.batched_submit_put_task(
            keys, chunks, on_complete_callback=lambda key: stored.release()
        )
        for _ in keys:
            assert stored.acquire(timeout=DEADLINE_S)


def key_of(number):
    return CacheEngineKey("tiny", 1, 0, 0x1000_0000_0000 + number, torch.bfloat16)


def view_of(chunk):
    return memoryview(chunk.byte_array).cast("B")


def content_of(chunk):
    """The bytes of what came back, which goes back to LMCache's pool."""
    assert chunk is not None
    content = bytes(view_of(chunk))
    chunk.ref_count_down()
    return content


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


def test_another_process_finds_what_one_stored(server, scheme):
    keys, chunks, contents = (cache := Cache(scheme, server.port)).chunks(8)
    cache.put(keys, chunks)
    other = Cache(scheme, server.port)
    assert other.backend.batched_contains(keys) == 8
    loaded = other.backend.batched_get_blocking(keys)
    assert [content_of(chunk) for chunk in loaded] == contents


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
        kvserver.wait_until(lambda: stores(cache, keys, chunks), "LMCache to store again", 60)
        loaded = cache.backend.batched_get_blocking(keys)
        assert [content_of(chunk) for chunk in loaded] == contents
    finally:
        following.stop()


def stores(cache, keys, chunks):
    cache.put(keys, chunks)
    return cache.backend.batched_contains(keys) == len(keys)
