"""KV tensors on a GPU as the adapter takes them, and what happens where it does not: with clients that
only note what they are asked, and without a GPU."""

import logging

import kvasir
import pytest
from fakes import FakeHealth, FakeStore, FakeTensor, block_hash, counters, quiet
from kvasir.vllm import memory as memory_module
from kvasir.vllm import worker as worker_module
from kvasir.vllm.keys import Fingerprint
from kvasir.vllm.layout import layout_of
from kvasir.vllm.loader import Loader
from kvasir.vllm.memory import DeviceMemory, HostMemory, regions_of
from kvasir.vllm.options import Options
from kvasir.vllm.plan import Load
from kvasir.vllm.worker import WorkerSide


class Client:
    """Registers what it is given as ``kind``; an error in its place is raised."""

    def __init__(self, kind="device", after=100):
        self.kind = kind
        self.after = after  # so many registrations work
        self.held = []

    def register(self, buffer):
        if len(self.held) >= self.after:
            raise kvasir.NoMemory("memlock is too low")
        if self.kind is None:
            return False
        if isinstance(self.kind, Exception):
            raise self.kind
        self.held.append(buffer)
        return True

    def unregister(self, buffer):
        self.held.remove(buffer)
        return True

    def buffer_kind(self, buffer):
        return self.kind if buffer in self.held else "none"


class Staged:
    """Stands in for the pinned copy."""

    def __init__(self):
        self.clients = []
        self.calls = []

    def attach(self, client):
        self.clients.append(client)

    def for_save(self, blocks, fence):
        self.calls.append(("save", blocks, fence))
        return [b"staged"] * len(blocks)

    def for_load(self, blocks, fence=None):
        self.calls.append(("load", blocks, fence))
        return [bytearray(6) for _ in blocks]

    def loaded(self, blocks, good):
        self.calls.append(("loaded", blocks, good))


class Fence:
    def __init__(self):
        self.waits = 0

    def synchronize(self):
        self.waits += 1


class Bench:
    def __init__(self, checksum=False):
        # Never touched: what is on a GPU has an address that a CPU cannot use.
        self.tensors = {f"l{i}": FakeTensor((8, 3), address=(i + 1) << 40) for i in range(2)}
        self.layout = layout_of(self.tensors, 8)
        self.staged = Staged()
        self.records = []
        logger = logging.getLogger("test-kvasir-device")
        logger.handlers, logger.propagate = [logging.Handler()], False
        logger.handlers[0].emit = lambda record: self.records.append(record.getMessage())
        logger.setLevel(logging.INFO)
        self.memory = DeviceMemory(
            self.layout, "cuda:1", lambda: self.staged, checksum, logger
        )

    def places(self, buffers):
        return [[(p.address, p.nbytes, p.root) for p in pieces] for pieces in buffers]


ROOTS = [(1 << 40, 24), (2 << 40, 24)]


def at(block):
    return [((i + 1 << 40) + 3 * block, 3, ROOTS[i]) for i in range(2)]


def test_device_memory_gives_the_tensors_themselves_once_they_are_registered():
    bench, client, fence = Bench(), Client(), Fence()
    bench.memory.attach(client)
    assert [(b.address, b.nbytes) for b in client.held] == ROOTS
    assert bench.places(bench.memory.for_load([5, 0], fence)) == [at(5), at(0)]
    bench.memory.loaded([5, 0], [True, True])
    assert bench.places(bench.memory.for_save([7], fence)) == [at(7)]
    assert fence.waits == 2, "what the engine was given before is done first"
    assert bench.staged.calls == []
    assert bench.records == ["kvasir: an adapter moves blocks from and to cuda:1"]
    with pytest.raises(IndexError):
        bench.memory.for_load([8])


def test_device_memory_saves_through_the_copy_when_checksums_are_wanted():
    bench, client, fence = Bench(checksum=True), Client(), Fence()
    bench.memory.attach(client)
    assert bench.memory.for_save([1], fence) == [b"staged"]
    assert bench.staged.calls == [("save", [1], fence)]
    assert bench.staged.clients == [client], "the copy goes by RDMA, too"
    assert bench.places(bench.memory.for_load([1])) == [at(1)]


@pytest.mark.parametrize(
    ("client", "text"),
    [
        (Client(kind=None), "no RDMA on this connection"),
        (Client(kind="staged"), "would travel as staged"),
        (Client(kind=kvasir.Unsupported("no module cuda.so")), "no module cuda.so"),
        (Client(after=1), "memlock is too low"),
    ],
    ids=["no rdma", "no dmabuf", "no module", "no memory"],
)
def test_device_memory_falls_back_to_the_copy_and_says_why_once(client, text):
    bench, fence = Bench(), Fence()
    bench.memory.attach(client)
    assert client.held == [], "all or none"
    assert bench.memory.for_save([2], fence) == [b"staged"]
    assert len(bench.memory.for_load([3, 4], fence)) == 2
    bench.memory.loaded([3, 4], [True, False])
    assert bench.staged.calls == [
        ("save", [2], fence), ("load", [3, 4], fence), ("loaded", [3, 4], [True, False])
    ]
    assert fence.waits == 0, "the copy's stream waits for it"
    bench.memory.attach(client)
    assert len(bench.records) == 1
    assert "go through a pinned copy" in bench.records[0]
    assert text in bench.records[0]


def test_device_memory_changes_its_way_with_the_client():
    """A load that began on one way ends on it."""
    bench = Bench()
    bench.memory.attach(Client(kind="staged"))
    bench.memory.for_load([1])
    second = Client()
    bench.memory.attach(second)
    bench.memory.loaded([1], [True])
    assert [call[0] for call in bench.staged.calls] == ["load", "loaded"]
    assert bench.staged.clients[-1] is second
    assert bench.places(bench.memory.for_load([1])) == [at(1)]
    bench.memory.loaded([1], [True])
    assert len(bench.staged.calls) == 2


def test_regions_are_one_where_layers_take_turns_in_one_tensor():
    base = 1 << 30
    interleaved = {
        f"l{i}": FakeTensor((4, 3), stride=(9, 1), address=base + 3 * i) for i in range(3)
    }
    assert regions_of(layout_of(interleaved, 4)) == [(base, 36)]
    apart = {f"l{i}": FakeTensor((4, 3), address=base + 12 * i) for i in range(2)}
    assert regions_of(layout_of(apart, 4)) == [(base, 12), (base + 12, 12)]


def test_host_memory_is_registered_as_it_is():
    tensors = {"l0": FakeTensor((8, 3)), "l1": FakeTensor((8, 3))}
    layout = layout_of(tensors, 8)
    memory, client = HostMemory(layout), Client(kind="host")
    memory.attach(client)
    assert [len(region) for region in client.held] == [24, 24]
    memory.attach(Client(kind=None))
    memory.attach(Client(kind=kvasir.NoMemory("memlock")))
    memory.block(3)[1][:] = b"abc"
    assert bytes(tensors["l1"].bytes()[9:12]) == b"abc"


class Opening(FakeStore):
    """Connects when it is prepared, as a store does."""

    def __init__(self, client, **options):
        super().__init__(Options(**options))
        self.client = client

    def prepare(self):
        self.on_connect(self.client)

    def _fill(self, key, pieces):
        return sum(piece.nbytes for piece in pieces)


def test_loader_registers_before_the_first_load(monkeypatch):
    bench, client = Bench(), Client()
    fence = Fence()
    monkeypatch.setattr(memory_module, "engine_fence", lambda device: fence)
    store = Opening(client, load_workers=1)
    loader = Loader(lambda: store, lambda: bench.memory, b"p:", counters(), quiet())
    loader.begin(Load("r", [block_hash("p", 0)], [6]))
    done = []
    for _ in range(1000):
        done += loader.take_done(0.05)
        if done:
            break
    loader.close()
    assert done == [("r", [])]
    assert len(client.held) == 2
    assert fence.waits == 1


def test_loader_lives_on_after_a_bug_at_the_start():
    store = Opening(None, load_workers=1)
    tensors = {"l0": FakeTensor((8, 3))}
    memory = HostMemory(layout_of(tensors, 8))  # has nothing to register with
    loader = Loader(lambda: store, lambda: memory, b"p:", counters(), quiet())
    loader.begin(Load("r", [block_hash("p", 0)], [6]))
    done = []
    for _ in range(1000):
        done += loader.take_done(0.05)
        if done:
            break
    loader.close()
    assert [request for request, _ in done] == ["r"]


@pytest.mark.parametrize(
    ("kinds", "staging", "made"),
    [
        (("cpu", "cpu"), "auto", "HostMemory"),
        (("cuda", "cuda"), "auto", "DeviceMemory"),
        (("cuda", "cuda"), "always", "StagedMemory"),
        (("cuda", "cpu"), "auto", "StagedMemory"),
        (("xpu", "xpu"), "auto", "StagedMemory"),
    ],
)
def test_worker_picks_the_memory_by_where_the_tensors_lie(monkeypatch, kinds, staging, made):
    class Copy:
        def __init__(self, layout, tensors):
            pass

    monkeypatch.setattr(worker_module, "StagedMemory", Copy)
    tensors = {f"l{i}": FakeTensor((8, 3)) for i in range(2)}
    for tensor, kind in zip(tensors.values(), kinds):
        tensor.device = type("Device", (), {"type": kind, "__str__": lambda self: self.type})()
    options = Options(staging=staging, load=False, save=False)
    layout, own = layout_of(tensors, 8), Fingerprint({})
    side = WorkerSide(
        options, FakeHealth(), counters(), quiet(), tensors, layout, own, b"m"
    )
    assert type(side._make_memory()).__name__ == {"StagedMemory": "Copy"}.get(made, made)
    side.close()
