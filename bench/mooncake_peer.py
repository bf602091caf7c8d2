"""Measures Mooncake Store over TCP: batch put and get of large values, small calls, existence.

One JSON line per operation and size on stdout, in the form that the C benchmarks print. The client
has no segment of its own: the values live in the owner's process, as they do in a server.
"""

import argparse
import ctypes
import json
import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable

from mooncake.store import MooncakeDistributedStore

BUFFER_BYTES = 64 << 20


def fail(message: str) -> None:
    print(f"mooncake_peer.py: {message}", file=sys.stderr, flush=True)
    os._exit(1)  # the library's threads would keep a failed client alive


def expect(got: int, wanted: int, what: str) -> None:
    if got != wanted:
        fail(f"{what} gave {got}, expected {wanted}")


class Area:
    """Warm anonymous memory, registered with the store."""

    def __init__(self, store: MooncakeDistributedStore, seed: bytes) -> None:
        self.map = mmap.mmap(-1, BUFFER_BYTES)
        self.fill(seed)
        self.address = ctypes.addressof((ctypes.c_char * BUFFER_BYTES).from_buffer(self.map))
        expect(store.register_buffer(self.address, BUFFER_BYTES), 0, "register_buffer")

    def fill(self, seed: bytes) -> None:
        self.map[:] = seed * (BUFFER_BYTES // len(seed))


def show(operation: str, size: int, **results: float) -> None:
    line = {"peer": "mooncake", "path": "tcp", "op": operation, "size": size, **results}
    print(json.dumps(line), flush=True)


def measure_rates(
    store: MooncakeDistributedStore, source: Area, sink: Area, size: int, rounds: int, repeat: int
) -> None:
    count = min(64, BUFFER_BYTES // size)
    keys = [f"bench:{os.getpid()}:{size}:{i}" for i in range(count)]
    sources = [source.address + i * size for i in range(count)]
    sinks = [sink.address + i * size for i in range(count)]
    sizes = [size] * count
    rates: dict[str, list[float]] = {"put_batch": [], "get_batch": []}
    for turn in range(rounds):
        put_seconds = get_seconds = 0.0
        for _ in range(repeat):
            start = time.perf_counter()
            statuses = store.batch_put_from(keys, sources, sizes)
            put_seconds += time.perf_counter() - start
            for status in statuses:
                expect(status, 0, f"batch_put_from of {size} bytes")
            if turn == 0:
                sink.fill(b"\0" * 4096)
            start = time.perf_counter()
            lengths = store.batch_get_into(keys, sinks, sizes)
            get_seconds += time.perf_counter() - start
            for length in lengths:
                expect(length, size, f"batch_get_into of {size} bytes")
            if turn == 0 and sink.map[: count * size] != source.map[: count * size]:
                fail(f"values of {size} bytes came back with other contents")
            # A second put of a key would be answered without moving anything.
            for key in keys:
                expect(store.remove(key, True), 0, "remove")
        moved = repeat * count * size
        rates["put_batch"].append(moved / put_seconds / 1e9)
        rates["get_batch"].append(moved / get_seconds / 1e9)
    for operation, values in rates.items():
        show(operation, size, gbps=statistics.median(values), rounds=rounds)


def timed(operation: str, size: int, calls: int, call: Callable[[int], None]) -> None:
    times = []
    for i in range(calls):
        start = time.perf_counter()
        call(i)
        times.append((time.perf_counter() - start) * 1e6)
    times.sort()
    show(operation, size, p50_us=times[calls // 2], p99_us=times[calls * 99 // 100], calls=calls)


def measure_calls(
    store: MooncakeDistributedStore, source: Area, sink: Area, size: int, calls: int
) -> None:
    keys = [f"bench:{os.getpid()}:small:{size}:{i}" for i in range(calls)]
    put, get, exists = store.put_from, store.get_into, store.is_exist
    timed("put", size, calls, lambda i: expect(put(keys[i], source.address, size), 0, "put_from"))
    timed("exists", size, calls, lambda i: expect(exists(keys[i]), 1, "is_exist"))
    timed("get", size, calls, lambda i: expect(get(keys[i], sink.address, size), size, "get_into"))
    for key in keys:
        expect(store.remove(key, True), 0, "remove")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--port", type=int, required=True, help="of this client")
    parser.add_argument("--sizes", default="1048576,4194304,16777216")
    parser.add_argument("--small", default="64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=2, help="batches per round")
    parser.add_argument("--calls", type=int, default=1000)
    options = parser.parse_args()

    store = MooncakeDistributedStore()
    status = store.setup(
        f"127.0.0.1:{options.port}", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", options.master
    )
    expect(status, 0, "setup")
    source = Area(store, os.urandom(1 << 20))
    sink = Area(store, b"\0" * 4096)
    for size in [int(text) for text in options.sizes.split(",") if int(text) > 0]:
        measure_rates(store, source, sink, size, options.rounds, options.repeat)
    for size in [int(text) for text in options.small.split(",") if int(text) > 0]:
        measure_calls(store, source, sink, size, options.calls)
    sys.stdout.flush()
    os._exit(0)  # ends the library's threads without waiting for them


if __name__ == "__main__":
    main()
