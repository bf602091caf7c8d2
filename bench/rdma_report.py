#!/usr/bin/env python3
"""Makes the table of bench/rdma.sh from its JSON lines. A ratio is taken within one turn, where both
sides ran close together; its median over the turns is judged."""

import argparse
import json
import statistics
import sys

MIB = 1 << 20
TARGET = 0.9
JUDGED = (MIB, 4 * MIB, 16 * MIB)
# Lines that perftest or the machine say besides are no results.
FIELD = "operation"


def read_lines(path):
    groups = {}
    with open(path, encoding="utf-8") as file:
        for text in file:
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            if FIELD in line:
                groups.setdefault((line["driver"], line["size"], line[FIELD]), []).append(line)
    return groups


def row(key, lines, judge):
    driver, size, operation = key
    ratios = sorted(line["gbps"] / line["reference_gbps"] for line in lines)
    ratio = statistics.median(ratios)
    values = sum(line["values"] for line in lines)
    total = {
        name: sum(line[name] for line in lines)
        for name in (
            *("work_requests", "completions", "copied_bytes", "round_trips", "cpu_s"),
            "windows_bound",
        )
    }
    gigabytes = values * size / 1e9
    verdict = ""
    if judge and size in JUDGED:
        verdict = "ok" if ratio >= TARGET else "BELOW"
    return (
        f"| {driver} | {operation} | {size >> 10} KiB | {statistics.median(x['gbps'] for x in lines):.4f} "
        f"| {statistics.median(x['gbps'] * 1e9 / size for x in lines):.1f} "
        f"| {statistics.median(x['reference_gbps'] for x in lines):.4f} "
        f"| {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {verdict} "
        f"| {total['round_trips'] / sum(x['batches'] for x in lines):.1f} "
        f"| {total['work_requests'] / values:.1f} | {total['completions'] / values:.2f} "
        f"| {total['windows_bound'] / values:.1f} "
        f"| {total['copied_bytes']} | {total['cpu_s'] / gigabytes:.2f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines")
    parser.add_argument("--judge", choices=("yes", "no"), default="yes")
    arguments = parser.parse_args()
    groups = read_lines(arguments.lines)
    if not groups:
        sys.exit("rdma_report: there are no results")
    print(
        "| driven by | operation | value | GB/s | values/s | perftest GB/s | ratio | target 0.90 "
        "| round trips a batch | work requests a value | completions a value | windows a value | bytes copied "
        "| server CPU s/GB |"
    )
    print("|" + "---|" * 14)
    for key, lines in sorted(groups.items(), reverse=True):
        print(row(key, lines, arguments.judge == "yes"))


main()
