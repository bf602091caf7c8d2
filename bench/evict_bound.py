#!/usr/bin/env python3
"""What an eviction policy may reach on a trace when it knows, for each class of blocks, how likely and how
soon such blocks come back, but not which of them will.

Every time that a block is stored or read begins a life, which ends with its next read. A policy
decides for each class how long to keep a life that is not read. From one half of the conversations the
best such times are chosen, so that the memory in use is on average the store's; then the reads that
they yield and the memory that they take are counted in the other half. That is an estimate, not a bound: a
real policy learns on the way, and its memory is full at any moment and not on average, but it learns from
all conversations and may tell other classes apart. With --seen the times are chosen and counted on the
same lives: what a fit to the trace would promise, which new conversations do not keep.
"""

import argparse
import bisect
import itertools
import json
import random
from collections.abc import Callable

Class = tuple[int, ...]
Curve = list[tuple[float, float]]  # memory in block-requests, reads; after each age

AGES = [0] + sorted({round(10 * 1.12**k) for k in range(64)})
SIZES = [2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 96, 128]
CAPACITIES = [1000, 3000, 10000, 30000, 50000]


class Trace:
    """Requests, and what can be told of each when it comes."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            self.requests: list[list[int]] = [json.loads(line)["hash_ids"] for line in file]
        count = len(self.requests)
        self.matched = [0] * count  # blocks at the start that were seen before
        self.turn = [1] * count  # how often the conversation came
        self.gap = [0] * count  # requests since it came last
        self.half = [0] * count  # of which half of the conversations it is
        self.next_read: dict[tuple[int, int], int] = {}
        self._read()

    def _read(self) -> None:
        last: dict[int, tuple[int, int]] = {}
        coin = random.Random(1)
        for i, blocks in enumerate(self.requests):
            while self.matched[i] < len(blocks) and blocks[self.matched[i]] in last:
                self.matched[i] += 1
            self.half[i] = coin.randrange(2)
            if self.matched[i] > 1:
                before = last[blocks[self.matched[i] - 1]][0]
                self.turn[i] = self.turn[before] + 1
                self.gap[i] = i - before
                self.half[i] = self.half[before]
            for place, block in enumerate(blocks):
                if block in last:
                    self.next_read[last[block]] = i
                last[block] = (i, place)


def size_of(value: int) -> int:
    return bisect.bisect(SIZES, value)


def classes_of(trace: Trace) -> dict[str, Callable[[int], Class]]:
    """By request; whether a block begins or ends its chain is added to each."""
    length = [len(blocks) for blocks in trace.requests]
    new = [length[i] - trace.matched[i] for i in range(len(length))]
    gaps = [50, 100, 200, 400, 800, 1600]
    return {
        "nothing": lambda i: (),
        "turn": lambda i: (min(trace.turn[i], 10),),
        "turn, new blocks": lambda i: (min(trace.turn[i], 6), size_of(new[i])),
        "turn, new, length": lambda i: (min(trace.turn[i], 6), size_of(new[i]), size_of(length[i])),
        "turn, new, length, gap": lambda i: (
            min(trace.turn[i], 6),
            size_of(new[i]),
            size_of(length[i]),
            bisect.bisect(gaps, trace.gap[i]),
        ),
    }


def curves(trace: Trace, class_of: Callable[[int], Class], half: int | None) -> dict[Class, Curve]:
    """For each class: memory and reads of its lives, kept up to each age."""
    counts: dict[Class, tuple[list[int], list[int]]] = {}
    end = len(trace.requests)
    for i, blocks in enumerate(trace.requests):
        if half is not None and trace.half[i] != half:
            continue
        for place in range(len(blocks)):
            kind = (min(place, 1), min(len(blocks) - 1 - place, 1), *class_of(i))
            reads, lost = counts.setdefault(kind, ([0] * len(AGES), [0] * len(AGES)))
            read_at = trace.next_read.get((i, place))
            age = (end if read_at is None else read_at) - i
            (lost if read_at is None else reads)[bisect.bisect_right(AGES, age) - 1] += 1
    return {kind: curve(reads, lost) for kind, (reads, lost) in counts.items()}


def curve(reads: list[int], lost: list[int]) -> Curve:
    alive = sum(reads) + sum(lost)
    points: Curve = [(0.0, 0.0)]
    memory = count = 0.0
    for k in range(len(AGES) - 1):
        ending = reads[k] + lost[k]
        memory += (alive - ending / 2) * (AGES[k + 1] - AGES[k])
        count += reads[k]
        alive -= ending
        points.append((memory, count))
    return points


def hull(points: Curve) -> list[int]:
    """Ages at which it pays to stop: the upper convex hull."""
    kept: list[int] = []
    for k, (memory, reads) in enumerate(points):
        while len(kept) >= 2:
            (m0, r0), (m1, r1) = points[kept[-2]], points[kept[-1]]
            if (r1 - r0) * (memory - m1) > (reads - r1) * (m1 - m0):
                break
            kept.pop()
        kept.append(k)
    return kept


def reads_within(chosen: dict[Class, Curve], counted: dict[Class, Curve], memory: float) -> float:
    steps = []
    for kind, points in chosen.items():
        stops = hull(points)
        for a, b in itertools.pairwise(stops):
            gain = (points[b][1] - points[a][1]) / max(points[b][0] - points[a][0], 1e-9)
            other = counted.get(kind)
            if other is not None:
                steps.append((gain, other[b][0] - other[a][0], other[b][1] - other[a][1]))
    total = 0.0
    for _, cost, reads in sorted(steps, reverse=True):
        if cost > memory:
            return total + reads * memory / cost
        memory -= cost
        total += reads
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--seen", action="store_true", help="choose and count on the same lives")
    arguments = parser.parse_args()
    trace = Trace(arguments.trace)
    block_count = sum(len(blocks) for blocks in trace.requests)
    print(f"{'known of a block':24}" + "".join(f"{capacity:>8}" for capacity in CAPACITIES))
    for name, class_of in classes_of(trace).items():
        halves = [None] if arguments.seen else [0, 1]
        known = {half: curves(trace, class_of, half) for half in halves}
        line = f"{name:24}"
        for capacity in CAPACITIES:
            memory = capacity * len(trace.requests) / len(halves)
            pairs = [(None, None)] if arguments.seen else [(0, 1), (1, 0)]
            total = sum(reads_within(known[a], known[b], memory) for a, b in pairs)
            line += f"  {total / block_count:.4f}"
        print(line)


if __name__ == "__main__":
    main()
