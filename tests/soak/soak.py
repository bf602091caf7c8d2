#!/usr/bin/env python3
"""Mixed load on one server for a long time: many connections, small and large values, expiry, leases
over rings, half requests, slow readers, clients that vanish, processes killed, FLUSHALL. Every value
that is read is checked; the server's memory must stay within its bounds, and when all is over every
page must come back. Nothing here is timed: a slow machine only does less.

    tests/soak/soak.py [--seconds 1800] [--connections 500] [--workers 4] [--reactors 2]
                       [--maxmemory 512mb] [--seed N]

Environment: KVASIR_BUILD, KVASIR_SANITIZE, KVASIR_TEST_PORT as for the integration tests.
Exit status 0: all held. The seed is printed.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import kvserver
import resp

KEYS = 4000
LARGE = (16 << 10, 64 << 10, 300_001, 1 << 20, 3 << 20)
# What the process may have beside maxmemory: code, libevent, connections; sanitizers need far more.
BESIDE_BYTES = 96 << 20
# An answer takes as long as the machine is slow; this is for one that never comes.
ANSWER_S = 60


def payload_of(key, version, length):
    """The only bytes that a value of this key, version and length can have."""
    unit = b"%s/%d/" % (key, version)
    head = struct.pack("<QI", length, version)
    return (head + unit * (length // len(unit) + 1))[:length]


def check_payload(key, data):
    if len(data) < 12:
        raise AssertionError(f"{key!r}: {len(data)} bytes")
    length, version = struct.unpack("<QI", data[:12])
    if length != len(data) or data != payload_of(key, version, length):
        raise AssertionError(f"{key!r} has torn or foreign bytes ({len(data)}, version {version})")


class Client:
    """One connection after the other, each with a part of its own."""

    def __init__(self, chance, port, path, counts):
        self.chance, self.port, self.path, self.counts = chance, port, path, counts
        self.reader = self.writer = None

    async def connect(self):
        small = self.chance.random() < 0.2
        family = socket.AF_UNIX if self.chance.random() < 0.2 else socket.AF_INET
        sock = socket.socket(family)
        sock.setblocking(False)
        if small:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        where = self.path if family == socket.AF_UNIX else ("127.0.0.1", self.port)
        await asyncio.get_running_loop().sock_connect(sock, where)
        self.reader, self.writer = await asyncio.open_connection(sock=sock, limit=1 << 16)

    def vanish(self):
        """Without goodbye, and with what is under way."""
        sock = self.writer.get_extra_info("socket")
        if sock.fileno() >= 0 and sock.family == socket.AF_INET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def ask(self, *arguments):
        self.writer.write(resp.encode(*arguments))
        await self.writer.drain()
        return await self.reply()

    async def reply(self):
        line = await self.reader.readuntil(b"\r\n")
        kind, text = line[:1], line[1:-2]
        if kind == b"$":
            if text == b"-1":
                return None
            data = await self.reader.readexactly(int(text) + 2)
            return data[:-2]
        if kind == b"*":
            return [await self.reply() for _ in range(int(text))]
        if kind == b":":
            return int(text)
        if kind == b"-":
            if not text.startswith((b"OOM", b"BUSY", b"TOOLARGE", b"ERR value is not an integer")):
                raise AssertionError(f"unexpected error: {text[:200]!r}")
            return None
        return text

    def key(self, kind):
        return b"%s:%d" % (kind, self.chance.randrange(KEYS))

    # ---- what a connection does --------------------------------------------------------------

    async def small(self):
        commands = []
        for _ in range(self.chance.randrange(1, 60)):
            key = self.key(b"s")
            version = self.chance.randrange(1 << 30)
            length = self.chance.randrange(12, 2000)
            commands.append(
                self.chance.choice(
                    [
                        ("SET", key, payload_of(key, version, length)),
                        ("SET", key, payload_of(key, version, length), "PX", 50 + length),
                        ("GET", key),
                        ("GET", key),
                        ("DEL", key, self.key(b"s")),
                        ("EXPIRE", key, 1 + length % 3),
                        ("EXISTS", key, self.key(b"l")),
                        ("INCR", self.key(b"n")),
                        ("TTL", key),
                    ]
                )
            )
        self.writer.write(b"".join(resp.encode(*command) for command in commands))
        await self.writer.drain()
        for command in commands:
            answer = await self.reply()
            if command[0] == "GET" and answer is not None:
                check_payload(command[1], answer)
            self.counts["commands"] += 1

    async def large(self):
        key = self.key(b"l")
        if self.chance.random() < 0.4:
            version = self.chance.randrange(1 << 30)
            data = payload_of(key, version, self.chance.choice(LARGE))
            options = ("TTL", 200 + version % 5000) if version % 3 == 0 else ()
            await self.ask("KV.SET", key, data, *options)
        else:
            answer = await self.ask("GET", key)
            if answer is not None:
                check_payload(key, answer)
                self.counts["large"] += 1

    async def chain(self):
        keys = [self.key(b"l") for _ in range(20)]
        await self.ask("KV.MATCH", "PIN", 500, *keys)
        granted = await self.ask("KV.LEASE", 300, *keys[:4])
        if self.chance.random() < 0.5 and granted is not None:
            ids = [grant[0] for grant in granted if grant]
            if ids:
                await self.ask("KV.RELEASE", *ids)

    async def many(self):
        keys = [self.key(b"s") for _ in range(self.chance.randrange(1, 500))]
        answers = await self.ask("MGET", *keys)
        for key, answer in zip(keys, answers or []):
            if answer is not None:
                check_payload(key, answer)

    async def slowly(self):
        """Asks for much and reads it in small pieces, or not at all."""
        self.writer.write(b"".join(resp.encode("GET", self.key(b"l")) for _ in range(8)))
        for _ in range(self.chance.randrange(40)):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.reader.read(4096), 0.1)
            await asyncio.sleep(0.02)
        raise ConnectionAbortedError

    async def half(self):
        """Stops in the middle of a request, for good."""
        key = self.key(b"l")
        whole = resp.encode("SET", key, payload_of(key, 1, self.chance.choice(LARGE)))
        self.writer.write(whole[: self.chance.randrange(1, len(whole))])
        await self.writer.drain()
        await asyncio.sleep(self.chance.random() * 2)
        raise ConnectionAbortedError

    async def rubbish(self):
        self.writer.write(self.chance.randbytes(self.chance.randrange(1, 3000)))
        await self.writer.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.reader.read(1 << 16), 1)
        raise ConnectionAbortedError

    async def flush(self):
        if self.chance.random() < 0.02:
            await self.ask("FLUSHALL")
            self.counts["flushes"] += 1

    async def look(self):
        await self.ask("INFO")
        await self.ask("SCAN", 0, "COUNT", 100)

    async def live(self, until):
        parts = (
            [self.small] * 30
            + [self.large] * 20
            + [self.chain] * 6
            + [self.many] * 5
            + [self.slowly] * 2
            + [self.half] * 3
            + [self.rubbish] * 1
            + [self.flush] * 1
            + [self.look] * 1
        )
        while time.monotonic() < until:
            try:
                await self.connect()
                self.counts["connections"] += 1
                for _ in range(self.chance.randrange(1, 60)):
                    part = self.chance.choice(parts)
                    try:
                        async with asyncio.timeout(ANSWER_S * kvserver.SLOW):
                            await part()
                    except TimeoutError:
                        raise AssertionError(f"{part.__name__}: no answer") from None
                    await asyncio.sleep(self.chance.random() * 0.2)
                    if time.monotonic() > until:
                        break
                if self.chance.random() < 0.5:
                    self.writer.close()
                else:
                    self.vanish()
            except (OSError, asyncio.IncompleteReadError):
                # Ended by us, or by the server for good reason (slow, rubbish).
                if self.writer is not None:
                    self.vanish()
                await asyncio.sleep(0.05)


async def work_all(seed, count, port, path, until, report):
    counts = {"connections": 0, "commands": 0, "large": 0, "flushes": 0}

    async def tell():
        while True:
            await asyncio.sleep(1)
            report.send(dict(counts))

    teller = asyncio.create_task(tell())
    clients = [
        Client(random.Random(f"{seed}/{index}"), port, path, counts) for index in range(count)
    ]
    await asyncio.gather(*(client.live(until) for client in clients))
    teller.cancel()
    report.send(dict(counts))


def work(seed, count, port, path, until, report):
    try:
        asyncio.run(work_all(seed, count, port, path, until, report))
    except Exception as reason:
        report.send({"failure": f"{type(reason).__name__}: {reason}"})
        raise


def work_rings(seed, path, until, report):
    """A client over shared memory, one call after the other, that reads in place what it leased."""
    chance = random.Random(f"{seed}/rings")
    counts = {"rings": 0}
    try:
        while time.monotonic() < until:
            with resp.RingConnection(path) as connection:
                for _ in range(chance.randrange(1, 300)):
                    key = b"l:%d" % chance.randrange(KEYS)
                    data = payload_of(key, chance.randrange(1 << 30), chance.choice(LARGE[:3]))
                    try:
                        grant = connection("KV.RESERVE", key, len(data))
                        done = 0
                        for offset, length in zip(grant[2][::2], grant[2][1::2]):
                            connection.memory[offset : offset + length] = data[
                                done : done + length
                            ]
                            done += length
                        if chance.random() < 0.9:
                            connection("KV.COMMIT", grant[0])
                        answer = connection("GET", key)
                    except resp.Error as error:
                        if not str(error).startswith(("OOM", "BUSY", "NOTFOUND", "EXPIRED")):
                            raise AssertionError(f"rings: {error}") from None
                        continue
                    if answer is not None:
                        check_payload(key, answer)
                    counts["rings"] += 1
            report.send(dict(counts))
    except (resp.Closed, OSError):
        pass
    except Exception as reason:
        report.send({"failure": f"{type(reason).__name__}: {reason}"})
        raise


class Soak:
    def __init__(self, options):
        self.options = options
        self.chance = random.Random(options.seed)
        self.until = time.monotonic() + options.seconds
        self.server = kvserver.Server(
            reactors=options.reactors,
            maxmemory=options.maxmemory,
            upload_timeout_ms=3000,
            output_timeout_ms=5000,
        )
        self.pages_free = self.server.info()["payload_pages_free"]
        self.maxmemory = self.server.info()["maxmemory"]
        self.workers = []
        self.totals = {}
        self.serial = 0
        self.highest = 0
        self.failures = []

    def spawn(self, target, *arguments):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        self.serial += 1
        process = multiprocessing.Process(
            target=target,
            args=(f"{self.options.seed}/{self.serial}", *arguments, self.until, theirs),
            daemon=True,
        )
        process.start()
        theirs.close()
        self.workers.append([process, ours, target, arguments, {}])

    def listen(self, worker):
        process, pipe = worker[0], worker[1]
        try:
            while pipe.poll():
                said = pipe.recv()
                if "failure" in said:
                    self.failures.append(said["failure"])
                else:
                    worker[4] = said
        except EOFError:
            pass
        if not process.is_alive():
            for name, number in worker[4].items():
                self.totals[name] = self.totals.get(name, 0) + number
            self.workers.remove(worker)
            if time.monotonic() < self.until and not self.failures:
                self.spawn(worker[2], *worker[3])

    def watch(self):
        resident = self.server.resident_bytes()
        self.highest = max(self.highest, resident)
        if not kvserver.SANITIZE and resident > self.maxmemory + BESIDE_BYTES:
            self.failures.append(f"resident {resident} bytes with maxmemory {self.maxmemory}")
        if self.server.process.poll() is not None:
            self.failures.append(f"the server ended with {self.server.process.returncode}")

    def kill_one(self):
        worker = self.chance.choice(self.workers)
        os.kill(worker[0].pid, signal.SIGKILL)
        worker[0].join()
        self.totals["kills"] = self.totals.get("kills", 0) + 1

    def run(self):
        options = self.options
        each = options.connections // options.workers
        for _ in range(options.workers):
            self.spawn(work, each, self.server.port, str(self.server.socket))
        self.spawn(work_rings, str(self.server.socket))
        next_kill = next_word = time.monotonic() + 10
        while self.workers and not self.failures:
            time.sleep(0.2)
            for worker in list(self.workers):
                self.listen(worker)
            self.watch()
            now = time.monotonic()
            if now > next_kill and self.workers and now < self.until:
                self.kill_one()
                next_kill = now + self.chance.uniform(5, 20)
            if now > next_word:
                self.say(f"{max(0, self.until - now):.0f} s left")
                next_word = now + 30
            if now > self.until + 2 * ANSWER_S * kvserver.SLOW:
                self.failures.append("clients do not come to an end")
        for worker in self.workers:
            os.kill(worker[0].pid, signal.SIGKILL)
        if not self.failures:
            self.settle()

    def settle(self):
        def count(name):
            return self.server.info()[name]

        try:
            kvserver.wait_until(lambda: count("connected_clients") == 1, "all clients to go", 30)
            self.server.expect_pages_back(self.pages_free)
        except AssertionError as reason:
            self.failures.append(str(reason))

    def say(self, text):
        running = dict(self.totals)
        for worker in self.workers:
            for name, number in worker[4].items():
                running[name] = running.get(name, 0) + number
        done = ", ".join(f"{number} {name}" for name, number in sorted(running.items()))
        print(f"soak: {text}; resident {self.highest >> 20} MiB at most; {done}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--workers", type=int, default=4, help="client processes")
    parser.add_argument("--reactors", type=int, default=2)
    parser.add_argument("--maxmemory", default="512mb")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"soak: seed {options.seed}, {options.seconds:g} s", flush=True)
    soak = Soak(options)
    try:
        soak.run()
        soak.server.stop(30)
    except AssertionError as reason:
        soak.failures.append(str(reason))
    finally:
        if not soak.server.gone:
            soak.server.kill()
    soak.say("ended")
    for failure in soak.failures:
        print(f"soak: FAILED: {failure}")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
