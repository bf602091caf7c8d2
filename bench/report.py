"""Makes the table of ratios against the targets, and results.json, from the lines of a bench run.

A ratio is taken within one turn, where both sides ran close together, and its median over the turns
is judged: the machine's speed may change between turns without moving it.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
LARGE_SIZES = (MIB, 4 * MIB, 16 * MIB)

# part, peer, path, operation, size, depth of the pipeline
Key = tuple[str, str, str, str, int, int]
# By key and turn: the line.
Lines = dict[Key, dict[int, dict[str, float]]]


@dataclass
class Row:
    """One comparison: ours against a reference, as a ratio that should reach the target."""

    what: str
    reference: str
    unit: str
    target: float
    ours: float | None
    theirs: float | None
    ratios: list[float]
    cores: int = 0  # that it takes to judge it; the client has one of them

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "not measured"
        if self.cores > core_count():
            return f"needs {self.cores} cores"
        return "yes" if self.ratio >= self.target else "NO"


def core_count() -> int:
    return len(os.sched_getaffinity(0))


def size_name(size: int) -> str:
    for unit, factor in (("MiB", MIB), ("KiB", 1024)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def index_lines(lines: list[dict[str, Any]]) -> Lines:
    indexed: Lines = defaultdict(dict)
    for line in lines:
        if "peer" in line:
            key = tuple(line[name] for name in ("part", "peer", "path", "op", "size"))
            indexed[(*key, line.get("depth", 1))][line["turn"]] = line
    return indexed


def values(lines: Lines, keys: list[Key], field: str) -> dict[int, float]:
    """By turn; the best of several keys."""
    found: dict[int, float] = {}
    for key in keys:
        for turn, line in lines.get(key, {}).items():
            if field in line:
                found[turn] = max(found.get(turn, 0.0), line[field])
    return found


def compare(
    lines: Lines, what: str, reference: str, target: float, ours: Key, theirs: list[Key], field: str
) -> Row:
    left = values(lines, [ours], field)
    right = values(lines, theirs, field)
    turns = [turn for turn in left if right.get(turn)]
    if field in ("p50_us", "cpu_us"):  # less is better
        ratios = [right[turn] / left[turn] for turn in turns if left[turn]]
    else:
        ratios = [left[turn] / right[turn] for turn in turns]
    unit = {"gbps": "GB/s", "ops": "op/s", "p50_us": "us", "cpu_us": "us"}[field]

    def middle(by_turn: dict[int, float]) -> float | None:
        return statistics.median(by_turn.values()) if by_turn else None

    return Row(what, reference, unit, target, middle(left), middle(right), ratios)


def stream_rows(lines: Lines) -> list[Row]:
    rows = []
    peers = (
        ("raw", "raw stream", 0.9),
        ("redis", "redis-server", 1.0),
        ("valkey", "Valkey 9", 1.0),
    )
    for operation in ("get", "set"):
        for size in LARGE_SIZES:
            for peer, name, target in peers:
                # One thread on either side, as the peers have.
                ours: Key = ("stream", "kvasir1", "tcp", operation, size, 1)
                theirs: Key = ("stream", peer, "tcp", operation, size, 1)
                what = f"{operation.upper()} {size_name(size)} TCP"
                rows.append(compare(lines, what, name, target, ours, [theirs], "gbps"))
            all_of_them: Key = ("stream", "kvasir", "tcp", operation, size, 1)
            what = f"{operation.upper()} {size_name(size)} TCP, all reactors"
            row = compare(lines, what, "1 reactor", 0.9, all_of_them, [ours], "gbps")
            row.cores = core_count() + 1
            rows.append(row)
    return rows


def shm_rows(lines: Lines) -> list[Row]:
    rows = []
    for size in LARGE_SIZES:
        ours: Key = ("path", "kvasir", "shm", "get", size, 1)
        copies: list[Key] = [
            ("path", peer, "memory", "copy", size, 1) for peer in ("memcpy", "nontemporal")
        ]
        what = f"get-into {size_name(size)} shm"
        rows.append(compare(lines, what, "best copy", 0.9, ours, copies, "gbps"))
    small: Key = ("path", "kvasir", "shm", "view", LARGE_SIZES[0], 1)
    for size in LARGE_SIZES[1:]:
        large: Key = ("path", "kvasir", "shm", "view", size, 1)
        what = f"get-view {size_name(size)}"
        # A longer value has more pieces to name; a copy would show as 4 and 16 times the time.
        rows.append(compare(lines, what, "view of 1 MiB", 0.8, large, [small], "p50_us"))
    return rows


def small_rows(lines: Lines) -> list[Row]:
    rows = []
    pairs = (
        ("kvasir1", "1 reactor", "redis", "redis-server"),
        ("kvasir1", "1 reactor", "valkey", "Valkey 9"),
        ("kvasir", "all reactors", "kvasir1", "1 reactor"),
    )
    for depth in (1, 16):
        for operation in ("get", "set"):
            for ours, ours_name, theirs, theirs_name in pairs:
                left: Key = ("small", ours, "tcp", operation, 64, depth)
                right: Key = ("small", theirs, "tcp", operation, 64, depth)
                what = f"{operation.upper()} 64 B -P {depth}, {ours_name}"
                rows.append(compare(lines, what, theirs_name, 1.0, left, [right], "ops"))
            # As many reactors as cores leave none for the client: what a request costs tells more.
            rows[-1].cores = core_count() + 1
            rows.append(compare(lines, f"{what}, CPU", theirs_name, 0.75, left, [right], "cpu_us"))
    return rows


def beside_rows(lines: Lines) -> list[Row]:
    """This build beside another one, when there is one; both with one reactor."""
    rows = []
    for operation in ("get", "set"):
        for size in LARGE_SIZES:
            ours: Key = ("stream", "kvasir1", "tcp", operation, size, 1)
            theirs: Key = ("stream", "beside", "tcp", operation, size, 1)
            what = f"{operation.upper()} {size_name(size)} TCP"
            rows.append(compare(lines, what, "other build", 0.97, ours, [theirs], "gbps"))
        for depth in (1, 16):
            ours = ("small", "kvasir1", "tcp", operation, 64, depth)
            theirs = ("small", "beside", "tcp", operation, 64, depth)
            what = f"{operation.upper()} 64 B -P {depth}"
            rows.append(compare(lines, what, "other build", 0.97, ours, [theirs], "ops"))
            row = compare(lines, f"{what}, CPU", "other build", 0.97, ours, [theirs], "cpu_us")
            rows.append(row)
    return [row for row in rows if row.theirs is not None]


def mooncake_rows(lines: Lines) -> list[Row]:
    rows = []
    for path, target in (("tcp", 2.0), ("shm", 4.0)):
        for operation in ("get_batch", "put_batch"):
            for size in LARGE_SIZES:
                ours: Key = ("path", "kvasir", path, operation, size, 1)
                theirs: Key = ("path", "mooncake", "tcp", operation, size, 1)
                what = f"{operation.replace('_', ' ')} {size_name(size)} {path}"
                rows.append(compare(lines, what, "Mooncake TCP", target, ours, [theirs], "gbps"))
    for path in ("tcp", "shm"):
        ours = ("path", "kvasir", path, "exists", 64, 1)
        theirs = ("path", "mooncake", "tcp", "exists", 64, 1)
        rows.append(
            compare(lines, f"exists p50 {path}", "Mooncake TCP", 4.0, ours, [theirs], "p50_us")
        )
    return rows


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"


def print_table(rows: list[Row], judged: bool) -> None:
    heads = ("what", "Kvasir", "reference", "", "", "ratio", "turns", "target", "reached")
    form = "{:<33} {:>9} {:<14} {:>9} {:<5} {:>6} {:>11} {:>7}  {}"
    print(form.format(*heads))
    for row in rows:
        spread = f"{min(row.ratios):.2f}-{max(row.ratios):.2f}" if row.ratios else "-"
        print(
            form.format(
                row.what,
                number(row.ours),
                row.reference,
                number(row.theirs),
                row.unit,
                number(row.ratio),
                spread,
                f"{row.target:.2f}",
                row.verdict if judged else "-",
            )
        )


def print_latency(lines: Lines) -> None:
    times = [
        (key, by_turn) for key, by_turn in lines.items() if key[0] == "path" and key[4] <= 65536
    ]
    shown = [
        (key, [line for line in by_turn.values() if "p50_us" in line]) for key, by_turn in times
    ]
    if not any(found for _, found in shown):
        return
    print("\nlatency of small calls (us)          p50      p99")
    for (_, peer, path, operation, size, _), found in sorted(shown, key=lambda item: item[0]):
        if found:
            p50 = statistics.median(line["p50_us"] for line in found)
            p99 = statistics.median(line["p99_us"] for line in found)
            print(
                f"{peer:<9} {path:<5} {operation:<7} {size_name(size):>7} {p50:>9.1f} {p99:>8.1f}"
            )


def print_trace(lines: list[dict[str, Any]]) -> None:
    runs = [line for line in lines if line["part"] == "trace"]
    if not runs:
        return
    run = sorted(runs, key=lambda line: line["whole_gbps"])[len(runs) // 2]
    print(
        f"\ntrace over {run['path']}: {run['requests']} requests, {run['blocks']} blocks of "
        f"{size_name(int(run['block_bytes']))}, hit ratio {run['hit_ratio']:.4f}, "
        f"get {run['get_gbps']:.2f} GB/s, put {run['put_gbps']:.2f} GB/s, "
        f"{run['errors']} errors, {run['wrong']} wrong"
    )
    for call in ("match", "get", "put"):
        p50, p99 = run[f"{call}_p50_us"], run[f"{call}_p99_us"]
        print(f"  {call:<6} p50 {p50:>9.1f} us   p99 {p99:>9.1f} us")


def describe_machine() -> dict[str, str | int | float]:
    model = platform.processor() or platform.machine()
    memory_mib = 0
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal"):
            memory_mib = int(line.split()[1]) // 1024
    return {
        "cpu": model,
        "cores": core_count(),
        "memory_mib": memory_mib,
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--quick", choices=("yes", "no"), default="no")
    parser.add_argument("--skipped", default="")
    options = parser.parse_args()

    raw = read_lines(options.lines)
    lines = index_lines(raw)
    rows = [
        row
        for make in (stream_rows, shm_rows, small_rows, beside_rows, mooncake_rows)
        for row in make(lines)
        if row.ours is not None
    ]
    machine = describe_machine()
    skipped = [text for text in options.skipped.splitlines() if text]

    print(
        f"machine: {machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB, "
        f"Linux {machine['kernel']}, load {machine['load']:.2f}"
    )
    print_table(rows, judged=options.quick != "yes")
    print_latency(lines)
    print_trace(raw)
    for text in skipped:
        print(f"skipped: {text}")
    if options.quick == "yes":
        print("quick run: programs and data were checked, the figures mean nothing")
    else:
        judged = [row for row in rows if row.verdict in ("yes", "NO")]
        reached = sum(row.verdict == "yes" for row in judged)
        print(
            f"{reached} of {len(judged)} targets reached, {len(rows) - len(judged)} not judged "
            f"(the client has no core of its own, or nothing was measured)"
        )

    results = {
        "machine": machine,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "quick": options.quick == "yes",
        "skipped": skipped,
        "rows": [{**vars(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows],
        "lines": raw,
    }
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
