#!/usr/bin/env python3
"""Runs in the emulated machine for bench/rdma.sh: perftest and a Kvasir server take turns over the same
two devices; prints a JSON line for each measurement, and what each transfer cost the server.

Driven by the server a put is its READ of the client's memory, a get its WRITE into it; driven by the
client a put is its WRITE into the server's memory, a get its READ. So perftest's requester sits on the
device of who drives. Usage: rdma_machine.py SIZES TURNS BYTES
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
# Who drives, with what, and where.
DRIVERS = {
    "server": {"put": "ib_read_bw", "get": "ib_write_bw"},
    "client": {"put": "ib_write_bw", "get": "ib_read_bw"},
}
PASSES = [(driver, *how) for driver, programs in DRIVERS.items() for how in programs.items()]
DEVICES = {"server": (SERVER_DEVICE, SERVER_GID), "client": (CLIENT_DEVICE, CLIENT_GID)}
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


def perftest_once(program, driver, size, total_bytes):
    own_device, own_gid = DEVICES[driver]
    other_device, other_gid = DEVICES["client" if driver == "server" else "server"]
    options = [
        "-F",
        "-s",
        str(size),
        "-n",
        str(max(5, total_bytes // size)),
        "-p",
        str(PERFTEST_PORT),
    ]
    passive = subprocess.Popen(
        [program, "-d", other_device, "-x", other_gid, *options], stdout=subprocess.DEVNULL
    )
    wait_until(lambda: listens(PERFTEST_PORT), program)
    active = subprocess.run(
        [program, "-d", own_device, "-x", own_gid, *options, "127.0.0.1"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    passive.wait(DEADLINE_S)
    found = re.search(rf"^ *{size} +\d+ +\S+ +(\S+)", active.stdout, re.MULTILINE)
    return float(found.group(1)) * (1 << 20) / 1e9 if found else 0.0


def perftest(program, driver, size, total_bytes):
    """GB/s of perftest's program, whose requester is on the driver's device. Now and then it says 0
    of a run that went well: such a run is made again."""
    for _ in range(PERFTEST_TRIES):
        rate = perftest_once(program, driver, size, total_bytes)
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
        self.clients = {
            driver: kvasir.Client(
                f"tcp://127.0.0.1:{PORT}",
                shm=False,
                timeout=DEADLINE_S,
                connect_timeout=DEADLINE_S,
                rdma_module=os.environ["KVASIR_RDMA_MODULE"],
                rdma_device=CLIENT_DEVICE,
                rdma_mode=driver,
            )
            for driver in DRIVERS
        }

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
        for client in self.clients.values():
            client.close()
        self.process.terminate()
        if self.process.wait(DEADLINE_S) != 0:
            sys.exit("rdma_machine: the server ended badly")


def spent(server, client):
    info = server.info()
    counters = client.counters()
    return {
        "work_requests": info["rdma_work_requests"],
        "completions": info["rdma_completions"],
        "copied_bytes": info["copied_bytes"],
        "windows_bound": info["rdma_windows_bound"],
        "rdma_bytes": counters["rdma_bytes"],
        "rdma_client_bytes": counters["rdma_client_bytes"],
        "tcp_bytes": counters["tcp_bytes"],
        "round_trips": counters["round_trips"],
        "cpu_s": server.cpu_s(),
    }


def kvasir_pass(server, driver, operation, keys, blocks, total_bytes):
    """GB/s of batches over registered blocks, and what they cost."""
    size = blocks[0].nbytes
    batches = max(1, total_bytes // (size * len(blocks)))
    client = server.clients[driver]
    before = spent(server, client)
    start = time.monotonic()
    for _ in range(batches):
        if operation == "put":
            good = client.put_batch(keys, blocks) == [True] * len(keys)
        else:
            good = client.get_into_batch(keys, blocks) == [size] * len(keys)
        if not good:
            sys.exit(f"rdma_machine: a {operation} of {size} bytes failed")
    seconds = time.monotonic() - start
    after = spent(server, client)
    cost = {name: after[name] - before[name] for name in after}
    moved = cost["rdma_bytes" if driver == "server" else "rdma_client_bytes"]
    if moved != batches * size * len(blocks):
        sys.exit(f"rdma_machine: {operation} of {size} bytes did not go by RDMA: {cost}")
    return batches * size * len(blocks) / seconds / 1e9, batches, cost


def say(**fields):
    print(json.dumps(fields), flush=True)


def measure(server, size, turns, total_bytes):
    count = max(1, min(DEPTH, total_bytes // size, (64 << 20) // size))
    arena = bytearray(random.Random(size).randbytes(size * count))
    expected = bytes(arena)
    if not all(client.register(arena) for client in server.clients.values()):
        sys.exit("rdma_machine: a client has no RDMA")
    view = memoryview(arena)
    blocks = [view[i * size : (i + 1) * size] for i in range(count)]
    keys = [f"{size}:{i}" for i in range(count)]
    for turn in range(turns):
        for driver, operation, program in PASSES:
            reference = perftest(program, driver, size, total_bytes)
            if operation == "get":
                arena[:] = bytes(len(arena))
            rate, batches, cost = kvasir_pass(server, driver, operation, keys, blocks, total_bytes)
            if arena != expected:
                sys.exit(f"rdma_machine: wrong bytes after a {operation} of {size} bytes")
            say(
                operation=operation,
                driver=driver,
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
    for client in server.clients.values():
        client.unregister(arena)


def main():
    sizes = [int(size) for size in sys.argv[1].split(",")]
    server = Server()
    for size in sizes:
        measure(server, size, int(sys.argv[2]), int(sys.argv[3]))
    server.stop()


main()
