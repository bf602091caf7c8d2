"""Puts the load of fragment.c into Mooncake Store: mixed sizes that change from phase to phase.

One JSON line per phase on stdout, in the form that fragment.c prints. The owner's segment is as long as
the memory that the other servers get.
"""

import argparse
import ctypes
import json
import math
import mmap
import os
import random
import sys
import time

from mooncake.store import MooncakeDistributedStore

PHASES: list[tuple[str, int, int]] = [
    ("mixed 1k-64m", 1 << 10, 64 << 20),
    ("small 1k-64k", 1 << 10, 64 << 10),
    ("long 4m-64m", 4 << 20, 64 << 20),
    ("middle 64k-4m", 64 << 10, 4 << 20),
    ("two models", 2359296, -655360),
    ("mixed again", 1 << 10, 64 << 20),
]
# Evicting happens in the background there: a refused put is tried again so often, and counts as failed
# when it is refused each time.
TRIES = 50
TRY_SECONDS = 0.02
ASK_BATCH = 500


class Load:
    def __init__(self, store: MooncakeDistributedStore, value_max: int) -> None:
        self.store = store
        self.value_max = value_max
        self.map = mmap.mmap(-1, value_max)
        self.map[:] = os.urandom(1 << 20) * (value_max >> 20)
        self.address = ctypes.addressof((ctypes.c_char * value_max).from_buffer(self.map))
        if store.register_buffer(self.address, value_max) != 0:
            print("mooncake_fragment.py: register_buffer failed", file=sys.stderr, flush=True)
            os._exit(1)
        self.lengths: list[int] = []
        self.random = random.Random(1)
        self.times: list[float] = []

    def length(self, low: int, high: int) -> int:
        if high < 0:
            return self.random.choice((low, -high))
        drawn = math.exp(self.random.uniform(math.log(low), math.log(high)))
        return min(int(drawn), self.value_max)

    def put(self, length: int) -> bool:
        key = f"fragment:{len(self.lengths):010d}"
        start = time.perf_counter()
        status = -1
        for _ in range(TRIES):
            status = self.store.put_from(key, self.address, length)
            if status == 0:
                break
            time.sleep(TRY_SECONDS)
        self.times.append((time.perf_counter() - start) * 1e6)
        self.lengths.append(length if status == 0 else 0)
        return status == 0

    def live_bytes(self) -> tuple[int, int]:
        total = count = 0
        for first in range(0, len(self.lengths), ASK_BATCH):
            numbers = range(first, min(first + ASK_BATCH, len(self.lengths)))
            found = self.store.batch_is_exist([f"fragment:{number:010d}" for number in numbers])
            for number, is_there in zip(numbers, found, strict=True):
                if is_there == 1:
                    total += self.lengths[number]
                    count += 1
        return total, count


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def run_phase(load: Load, phase: tuple[str, int, int], options: argparse.Namespace) -> None:
    name, low, high = phase
    load.times.clear()
    written = failed = 0
    while written < options.turnover * options.memory:
        length = load.length(low, high)
        failed += not load.put(length)
        written += length
    times = sorted(load.times)
    live, count = load.live_bytes()
    resident_bytes = resident(options.pid)
    fits = load.put(options.value_max)
    after, _ = load.live_bytes()
    line = {
        "peer": "mooncake",
        "phase": name,
        "puts": len(times),
        "written_gib": round(written / (1 << 30), 1),
        "live_share": round(live / options.memory, 4),
        "live_of_memory": round(live / options.memory, 4),
        "rss_share": round(resident_bytes / options.memory, 4),
        "failed": failed,
        "p50_us": round(times[len(times) // 2]),
        "p99_us": round(times[len(times) * 99 // 100]),
        "max_us": round(times[-1]),
        "long_fits": fits,
        "long_evicted_mib": round((live + (options.value_max if fits else 0) - after) / (1 << 20), 1),
        "values": count,
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True)
    parser.add_argument("--port", type=int, required=True, help="of this client")
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--turnover", type=int, default=4)
    parser.add_argument("--value-max", type=int, default=64 << 20)
    parser.add_argument("--pid", type=int, required=True, help="of the segment's owner")
    options = parser.parse_args()

    store = MooncakeDistributedStore()
    status = store.setup(
        f"127.0.0.1:{options.port}", "P2PHANDSHAKE", 0, 128 << 20, "tcp", "", options.master
    )
    if status != 0:
        print(f"mooncake_fragment.py: setup failed with {status}", file=sys.stderr, flush=True)
        os._exit(1)
    load = Load(store, options.value_max)
    for phase in PHASES:
        run_phase(load, phase, options)
    sys.stdout.flush()
    os._exit(0)  # ends the library's threads without waiting for them


if __name__ == "__main__":
    main()
