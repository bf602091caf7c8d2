"""LMCache unchanged, over one of its schemes: its connector, its remote back end, and chunks to store. What
the tests and the process beside them share."""

import asyncio
import os
import random
import threading

os.environ["LMCACHE_LOG_LEVEL"] = "ERROR"

import kvserver
import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
from lmcache.v1.storage_backend.remote_backend import RemoteBackend

KIB, MIB = 1 << 10, 1 << 20
DEADLINE_S = 60 * kvserver.SLOW
BLOCKING_S = (
    10 * kvserver.SLOW
)  # LMCache's own deadline, which it waits for when no server is there
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
        POOLS[chunk_bytes] = LocalCPUBackend(
            config, metadata_of(chunk_bytes), dst_device="cpu"
        )
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
