"""The peer of a server that has the module rdma_loop: this process's own table of memory and queue pairs
(its layout stands in tests/modules/rdma_loop.c), and the file that asks the module for faults."""

import ctypes
import ipaddress
import mmap
import os
import pathlib
import random
import struct
import tempfile

import kvserver

MODULE = kvserver.BUILD / "test-modules/rdma_loop.so"
READ, WRITE = 1, 2
LIVE = 1
KEYS_MAX = PAIRS_MAX = 4096
KEY = struct.Struct("=IIQQ")
PAIR = struct.Struct("=II")
PAIRS_AT = KEYS_MAX * KEY.size


class Control:
    """What the module shall do wrong from now on, and how many transfers wait in it; shared by all who
    load it."""

    NAMES = ("delay_ms", "fail_jobs", "hold", "gone", "refuse", "waiting")

    def __init__(self):
        descriptor, path = tempfile.mkstemp(prefix="kvasir-loop-")
        self.path = pathlib.Path(path)
        os.ftruncate(descriptor, 4096)
        self.words = memoryview(mmap.mmap(descriptor, 4096)).cast("I")
        os.close(descriptor)

    def __call__(self, **wanted):
        for name, number in wanted.items():
            self.words[self.NAMES.index(name)] = number

    def left(self, name):
        return self.words[self.NAMES.index(name)]

    def close(self):
        self.path.unlink(missing_ok=True)


class Peer:
    """A process's side: one table, in which memory and queue pairs are entered."""

    def __init__(self):
        self.descriptor = os.memfd_create("loop-peer")
        os.ftruncate(self.descriptor, PAIRS_AT + PAIRS_MAX * PAIR.size)
        self.table = mmap.mmap(self.descriptor, 0)
        place = struct.pack("=II", self.descriptor, os.getpid())
        self.gid = str(ipaddress.IPv6Address(b"\xfd\x6clooprdm"[:8] + place))
        self.key_count = self.pair_count = 0

    def expose(self, memory, rights=READ | WRITE):
        """A key for a writable buffer; address, key."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        key = random.randrange(1, 1 << 32)
        KEY.pack_into(self.table, self.key_count * KEY.size, key, rights, address, len(memory))
        self.key_count += 1
        return address, key

    def hide(self, key):
        for i in range(self.key_count):
            if KEY.unpack_from(self.table, i * KEY.size)[0] == key:
                KEY.pack_into(self.table, i * KEY.size, 0, 0, 0, 0)

    def pair(self):
        number = random.randrange(1, 1 << 24)
        at = PAIRS_AT + self.pair_count * PAIR.size
        PAIR.pack_into(self.table, at, number, LIVE)
        self.pair_count += 1
        return number

    def close(self):
        self.table.close()
        os.close(self.descriptor)


class Memory:
    """A buffer of this process that the server may reach."""

    def __init__(self, peer, length, rights=READ | WRITE):
        self.bytes = bytearray(length)
        self.address, self.key = peer.expose(self.bytes, rights)

    def at(self, offset, length):
        return (self.address + offset, self.key, length)

    def words(self, pieces=1):
        """The whole buffer as address, key and length of that many segments."""
        step = -(-len(self.bytes) // pieces)
        return [
            word
            for offset in range(0, len(self.bytes), step)
            for word in self.at(offset, min(step, len(self.bytes) - offset))
        ]


def connect(connection, peer, **changes):
    """KV.CONNECT RDMA: the server's address as a dictionary."""
    wanted = {
        "QPN": peer.pair(),
        "PSN": random.randrange(1 << 24),
        "GID": peer.gid,
        "MTU": 4096,
        "RD_ATOMIC": 16,
    }
    wanted.update(changes)
    words = [word for pair in wanted.items() if pair[1] is not None for word in pair]
    reply = connection("KV.CONNECT", "RDMA", *words)
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])}
