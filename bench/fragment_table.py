"""Prints the results of fragment.sh as one table and judges Kvasir's rows against the targets, of which none
is a time."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

LIVE_MIN = 0.97
RSS_MAX = 1.02
PAGE_MIB = 2

HEADINGS = (
    f"{'store':<12} {'phase':<14} {'puts':>8} {'live/payload':>12} {'live/memory':>11} "
    f"{'rss/memory':>10} {'failed':>7} {'p99 put us':>11} {'64m evicts MiB':>14}"
)


def share(line: dict[str, Any], name: str) -> str:
    value = line.get(name)
    return "-" if value is None else f"{value * 100:.1f} %"


def show(line: dict[str, Any]) -> str:
    lost = f"{line['long_evicted_mib']:.0f}" if line["long_fits"] else "does not fit"
    return (
        f"{line['peer']:<12} {line['phase']:<14} {line['puts']:>8} "
        f"{share(line, 'live_share'):>12} {share(line, 'live_of_memory'):>11} "
        f"{share(line, 'rss_share'):>10} {line['failed']:>7} {line['p99_us']:>11.0f} {lost:>14}"
    )


def faults_of(line: dict[str, Any]) -> list[str]:
    """What misses the targets; Kvasir's rows only."""
    where = f"{line['peer']}, {line['phase']}"
    faults = []
    if line["live_share"] < LIVE_MIN:
        faults.append(f"{where}: live {share(line, 'live_share')} is below {LIVE_MIN * 100:.0f} %")
    if line.get("rss_share", 0) > RSS_MAX:
        faults.append(f"{where}: resident {share(line, 'rss_share')} of maxmemory")
    if line["failed"] > 0 or not line["long_fits"]:
        faults.append(f"{where}: {line['failed']} puts failed, the last value fits: {line['long_fits']}")
    # A value evicts its own size and, in each shard that gives, the rest of a last victim of that size, each
    # with the page that it shares.
    shard_count = int(line["peer"].rpartition("x")[2])
    evicted_max = (1 + shard_count) * (line["long_mib"] + PAGE_MIB)
    if line["long_evicted_mib"] > evicted_max:
        faults.append(
            f"{where}: the last value evicted {line['long_evicted_mib']} MiB, at most {evicted_max} is right"
        )
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=Path)
    options = parser.parse_args()
    lines = [json.loads(text) for text in options.lines.read_text().splitlines()]
    print(HEADINGS)
    for line in lines:
        print(show(line))
    faults = [
        fault for line in lines if line["peer"].startswith(("kvasir", "store")) for fault in faults_of(line)
    ]
    for fault in faults:
        print(f"missed: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
