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
import resp

MODULE = kvserver.BUILD / "test-modules/rdma_loop.so"
READ, WRITE = 1, 2
LIVE = 1
KEYS_MAX = PAIRS_MAX = 4096
KEY = struct.Struct("=IIQQQII")
PAIR = struct.Struct("=II")
PAIRS_AT = KEYS_MAX * KEY.size


class Control:
    """What the module shall do wrong from now on, and how many transfers wait in it; shared by all who
    load it."""

    NAMES = (
        *("delay_ms", "fail_jobs", "hold", "gone", "refuse", "no_windows", "waiting", "slow"),
        *("second", "down", "traffic_class", "nodes"),
    )

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


def start_server(start, control, **options):
    """A server that has the module, which does what control says."""
    options.setdefault("reactors", 2)
    prefix = ("env", f"KVASIR_LOOP_CONTROL={control.path}")
    return start(prefix=prefix, loadmodule=MODULE, **options)


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
        KEY.pack_into(self.table, self.key_count * KEY.size, key, rights, address, len(memory), 0, 0, 0)
        self.key_count += 1
        return address, key

    def hide(self, key):
        for i in range(self.key_count):
            if KEY.unpack_from(self.table, i * KEY.size)[0] == key:
                KEY.pack_into(self.table, i * KEY.size, 0, 0, 0, 0, 0, 0, 0)

    def pair(self):
        number = random.randrange(1, 1 << 24)
        at = PAIRS_AT + self.pair_count * PAIR.size
        PAIR.pack_into(self.table, at, number, LIVE)
        self.pair_count += 1
        return number

    def close(self):
        self.table.close()
        os.close(self.descriptor)


class Server:
    """The server's memory as this client's adapter reaches it: by the keys of windows, on one queue pair."""

    def __init__(self, address):
        gid = ipaddress.IPv6Address(address["gid"].decode()).packed
        descriptor, self.pid = struct.unpack("=II", gid[8:])
        with open(f"/proc/{self.pid}/fd/{descriptor}", "rb") as file:
            self.table = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self.pair = address["qpn"]

    def allowed(self, address, key, length, right):
        for i in range(KEYS_MAX):
            entry = KEY.unpack_from(self.table, i * KEY.size)
            if entry[0] == key:
                _, rights, base, size, _, pair, _ = entry
                inside = base <= address and address + length <= base + size
                return bool(rights & right) and pair == self.pair and inside
        return False

    def _move(self, function, address, buffer):
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

        here = Vector(ctypes.addressof(ctypes.c_char.from_buffer(buffer)), len(buffer))
        there = Vector(address, len(buffer))
        moved = getattr(ctypes.CDLL(None, use_errno=True), function)(
            self.pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1), 0
        )
        assert moved == len(buffer), os.strerror(ctypes.get_errno())

    def read(self, pieces):
        """The bytes of address, key, length …; None: a key was refused."""
        got = bytearray()
        for address, key, length in zip(pieces[::3], pieces[1::3], pieces[2::3]):
            if not self.allowed(address, key, length, READ):
                return None
            part = bytearray(length)
            self._move("process_vm_readv", address, part)
            got += part
        return got

    def write(self, pieces, payload):
        """False: a key was refused."""
        done = 0
        for address, key, length in zip(pieces[::3], pieces[1::3], pieces[2::3]):
            if not self.allowed(address, key, length, WRITE):
                return False
            self._move("process_vm_writev", address, bytearray(payload[done : done + length]))
            done += length
        return True


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


def _connect_words(peer, changes):
    wanted = {
        "QPN": peer.pair(),
        "PSN": random.randrange(1 << 24),
        "GID": peer.gid,
        "MTU": 4096,
        "RD_ATOMIC": 16,
    }
    wanted.update(changes)
    return [word for pair in wanted.items() if pair[1] is not None for word in pair]


def address_of(reply):
    return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])}


def send_connect(connection, peer, **changes):
    """KV.CONNECT RDMA; its reply, for address_of, is still to come."""
    connection.send(resp.encode("KV.CONNECT", "RDMA", *_connect_words(peer, changes)))


def connect(connection, peer, **changes):
    """KV.CONNECT RDMA: the server's address as a dictionary."""
    return address_of(connection("KV.CONNECT", "RDMA", *_connect_words(peer, changes)))
