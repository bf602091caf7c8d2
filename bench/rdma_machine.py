#!/usr/bin/env python3
"""Runs in the emulated machine for bench/rdma.sh: perftest and a Kvasir server take turns over the same
two devices; prints a JSON line for each measurement, and what each transfer cost the server.

A put is the server's READ of the client's memory, a get its WRITE into it: so perftest's requester
sits on the server's device, too. Usage: rdma_machine.py SIZES TURNS BYTES
"""

import json
import os
import random
import re
import subprocess
import sys
import time

import kvasir

PORT = 7420
PERFTEST_PORT = 18515
PERFTEST_TRIES = 5
DEADLINE_S = 240
SERVER_DEVICE, SERVER_GID = os.environ["VM_DEVICE"], os.environ["VM_GID_INDEX"]
CLIENT_DEVICE, CLIENT_GID = os.environ["VM_DEVICE2"], os.environ["VM_GID_INDEX2"]
TICKS = os.sysconf("SC_CLK_TCK")
# Values under way at a time, as perftest has messages.
DEPTH = 16


def wait_until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"rdma_machine: waited in vain for {what}")
        time.sleep(0.02)


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as four, open("/proc/net/tcp6") as six:
        return re.search(rf":{port:04X} [0-9A-F]+:0000 0A", four.read() + six.read()) is not None


def perftest_once(program, size, total_bytes):
    options = ["-F", "-s", str(size), "-n", str(max(5, total_bytes // size)), "-p", str(PERFTEST_PORT)]
    passive = subprocess.Popen(
        [program, "-d", CLIENT_DEVICE, "-x", CLIENT_GID, *options], stdout=subprocess.DEVNULL
    )
    wait_until(lambda: listens(PERFTEST_PORT), program)
    active = subprocess.run(
        [program, "-d", SERVER_DEVICE, "-x", SERVER_GID, *options, "127.0.0.1"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    passive.wait(DEADLINE_S)
    found = re.search(rf"^ *{size} +\d+ +\S+ +(\S+)", active.stdout, re.MULTILINE)
    return float(found.group(1)) * (1 << 20) / 1e9 if found else 0.0


def perftest(program, size, total_bytes):
    """GB/s of perftest's program, whose requester is on the server's device. Now and then it says 0
    of a run that went well: such a run is made again."""
    for _ in range(PERFTEST_TRIES):
        rate = perftest_once(program, size, total_bytes)
        if rate > 0:
            return rate
    return sys.exit(f"rdma_machine: {program} says no rate for {size} bytes")


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            [
                *(os.environ["KVASIR_SERVER"], "--port", str(PORT), "--reactors", "1"),
                *("--maxmemory", "512mb", "--loadmodule", os.environ["KVASIR_RDMA_MODULE"]),
                *("--rdma-device", SERVER_DEVICE),
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_until(lambda: listens(PORT), "the server")
        self.client = kvasir.Client(
            f"tcp://127.0.0.1:{PORT}",
            shm=False,
            timeout=DEADLINE_S,
            connect_timeout=DEADLINE_S,
            rdma_module=os.environ["KVASIR_RDMA_MODULE"],
            rdma_device=CLIENT_DEVICE,
        )

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def info(self):
        text = subprocess.run(
            ["nc", "127.0.0.1", str(PORT)],
            input="INFO everything\r\nQUIT\r\n",
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout
        found = re.findall(r"^(\w+):(\d+)\r?$", text, re.MULTILINE)
        return {name: int(value) for name, value in found}

    def stop(self):
        self.client.close()
        self.process.terminate()
        if self.process.wait(DEADLINE_S) != 0:
            sys.exit("rdma_machine: the server ended badly")


def spent(server):
    info = server.info()
    counters = server.client.counters()
    return {
        "work_requests": info["rdma_work_requests"],
        "completions": info["rdma_completions"],
        "copied_bytes": info["copied_bytes"],
        "rdma_bytes": info["rdma_in_bytes"] + info["rdma_out_bytes"],
        "tcp_bytes": counters["tcp_bytes"],
        "round_trips": counters["round_trips"],
        "cpu_s": server.cpu_s(),
    }


def kvasir_pass(server, operation, keys, blocks, total_bytes):
    """GB/s of batches over registered blocks, and what they cost."""
    size = blocks[0].nbytes
    batches = max(1, total_bytes // (size * len(blocks)))
    before = spent(server)
    start = time.monotonic()
    for _ in range(batches):
        if operation == "put":
            good = server.client.put_batch(keys, blocks) == [True] * len(keys)
        else:
            good = server.client.get_into_batch(keys, blocks) == [size] * len(keys)
        if not good:
            sys.exit(f"rdma_machine: a {operation} of {size} bytes failed")
    seconds = time.monotonic() - start
    after = spent(server)
    cost = {name: after[name] - before[name] for name in after}
    if cost["rdma_bytes"] != batches * size * len(blocks):
        sys.exit(f"rdma_machine: {operation} of {size} bytes did not go by RDMA: {cost}")
    return batches * size * len(blocks) / seconds / 1e9, batches, cost


def say(**fields):
    print(json.dumps(fields), flush=True)


def measure(server, size, turns, total_bytes):
    count = max(1, min(DEPTH, total_bytes // size, (64 << 20) // size))
    arena = bytearray(random.Random(size).randbytes(size * count))
    expected = bytes(arena)
    if not server.client.register(arena):
        sys.exit("rdma_machine: the client has no RDMA")
    view = memoryview(arena)
    blocks = [view[i * size : (i + 1) * size] for i in range(count)]
    keys = [f"{size}:{i}" for i in range(count)]
    for turn in range(turns):
        for operation, program in (("put", "ib_read_bw"), ("get", "ib_write_bw")):
            reference = perftest(program, size, total_bytes)
            if operation == "get":
                arena[:] = bytes(len(arena))
            rate, batches, cost = kvasir_pass(server, operation, keys, blocks, total_bytes)
            if arena != expected:
                sys.exit(f"rdma_machine: wrong bytes after a {operation} of {size} bytes")
            say(
                operation=operation,
                size=size,
                turn=turn,
                gbps=rate,
                reference=program,
                reference_gbps=reference,
                values=batches * count,
                batches=batches,
                **cost,
            )
    for block in (*blocks, view):
        block.release()
    server.client.unregister(arena)


def main():
    sizes = [int(size) for size in sys.argv[1].split(",")]
    server = Server()
    for size in sizes:
        measure(server, size, int(sys.argv[2]), int(sys.argv[3]))
    server.stop()


main()
