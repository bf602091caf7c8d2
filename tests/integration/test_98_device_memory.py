"""libkvasir and the Python package with buffers in a GPU's memory on the RDMA path: over the transport for
tests and a CUDA driver of memory files, whose devices a CPU cannot touch."""

import os
import sys

import kvserver
import loop
import pytest
from rdma_client import buffer_of, connecting, kvasir

os.environ.setdefault("KVASIR_BUILD", str(kvserver.BUILD))
sys.path.insert(0, str(kvserver.ROOT / "python/tests"))
import fake_gpu

pytestmark = [
    pytest.mark.plain,
    pytest.mark.skipif(
        not (fake_gpu.DRIVER.exists() and fake_gpu.MODULE.exists()),
        reason="built without the CUDA toolkit",
    ),
]
MIB = 1 << 20
LENGTH = 3 * MIB + 777
MODES = {"server": "rdma", "client": "rdma-client"}


@pytest.fixture(scope="module")
def gpu():
    return fake_gpu.Driver()


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control)


@pytest.fixture
def connect(server, gpu):
    with connecting(server, cuda_module=str(fake_gpu.MODULE)) as connect:
        yield connect
    assert gpu.left() == 0


@pytest.fixture
def source(gpu):
    with gpu.memory(4 * MIB, 1) as memory:
        memory.write(bytes(buffer_of(LENGTH)))
        yield memory


@pytest.fixture
def target(gpu):
    with gpu.memory(4 * MIB) as memory:
        yield memory


def moved(client, source, target, kind, **options):
    """The path of a put and of the get after it; the bytes are right."""
    assert client.register(source.array()) and client.register(target.array())
    assert client.buffer_kind(source.array(100, 1)) == kind
    target.write(b"\0" * LENGTH)
    # Neither begins nor ends where a page does.
    assert client.put("k", source.array(100, LENGTH - 100), **options)
    put = client.path
    assert client.get_into("k", target.array(200, LENGTH - 100)) == LENGTH - 100
    assert target.read(200, LENGTH - 100) == source.read(100, LENGTH - 100)
    assert target.read(0, 200) == bytes(200)
    return put, client.path


@pytest.mark.parametrize("mode", MODES)
def test_an_adapter_moves_a_devices_bytes(connect, server, source, target, mode):
    client = connect(rdma_mode=mode)
    assert moved(client, source, target, "device") == (MODES[mode], MODES[mode])
    assert client.counters()["bounced_bytes"] == 0
    assert client.get("k") == source.read(100, LENGTH - 100)


@pytest.mark.parametrize("mode", MODES)
def test_without_dmabuf_pinned_memory_is_what_the_adapter_moves(connect, source, target, gpu, mode):
    gpu.library.fake_cuda_set(2, 0)
    client = connect(rdma_mode=mode)
    assert moved(client, source, target, "staged") == (MODES[mode], MODES[mode])
    assert client.counters()["bounced_bytes"] == 2 * (LENGTH - 100)
    gpu.library.fake_cuda_set(2, 1)


def test_an_export_that_fails_is_staged(connect, source, target, gpu):
    client = connect()
    gpu.fail("cuMemGetHandleForAddressRange", 801)
    client.register(source.array())
    assert client.buffer_kind(source.array()) == "staged"
    # The next registration of it is asked for anew.
    client.register(source.array())
    assert client.buffer_kind(source.array()) == "device"


def test_a_checksum_is_made_of_what_can_be_read(connect, source, target):
    client = connect()
    assert moved(client, source, target, "device", checksum=True) == ("rdma", "rdma")
    assert client.counters()["bounced_bytes"] == LENGTH - 100, "the put's alone"
    assert client.stat("k").checksum is not None


def test_a_failure_falls_back_through_pinned_memory(connect, control, source, target):
    client = connect()
    moved(client, source, target, "device")
    for call in (
        lambda: client.put("again", source.array(0, LENGTH)),
        lambda: client.get_into("again", target.array(0, LENGTH)),
    ):
        before = client.counters()
        control(fail_jobs=1)
        assert call()
        after = client.counters()
        assert after["path_fallbacks"] == before["path_fallbacks"] + 1
        assert after["bounced_bytes"] == before["bounced_bytes"] + LENGTH
        kvserver.wait_until(
            lambda: client.put("p", source.array()) and client.path == "rdma",
            "another queue pair",
        )
    assert target.read(0, LENGTH) == source.read(0, LENGTH)


def test_a_failure_of_a_transfer_of_our_own(connect, control, source, target):
    client = connect(rdma_mode="client")
    moved(client, source, target, "device")
    control(fail_jobs=1)
    assert client.put("again", source.array(0, LENGTH))
    control(fail_jobs=1)
    assert client.get_into("again", target.array(0, LENGTH)) == LENGTH
    assert target.read(0, LENGTH) == source.read(0, LENGTH)


def test_a_device_that_orders_nothing_is_flushed(connect, source, target, gpu):
    gpu.library.fake_cuda_set_ordering(0, 1)
    client = connect()
    before = gpu.library.fake_cuda_flushes()
    moved(client, source, target, "device")
    assert gpu.library.fake_cuda_flushes() == before + 1, "the get"
    gpu.fail("cuFlushGPUDirectRDMAWrites")
    with pytest.raises(kvasir.SystemFailure, match="sees what adapters wrote"):
        client.get_into("k", target.array())
    assert client.get_into("k", target.array())
    gpu.library.fake_cuda_set_ordering(100, 0)


def test_memory_that_takes_the_place_of_freed_memory(connect, gpu):
    client = connect()
    first = gpu.alloc(2 * MIB)
    gpu.write(first, b"old" * 1000)
    client.register(kvasir.DeviceBuffer(first, 2 * MIB))
    gpu.free(first)
    with gpu.memory(MIB) as memory:
        assert memory.address == first
        memory.write(b"new" * 1000)
        client.register(memory.array())
        assert client.buffer_kind(memory.array()) == "device"
        assert client.put("k", memory.array(0, 300000)) and client.path == "rdma"
        assert client.get("k")[:3000] == b"new" * 1000


def test_registrations_overlap_and_end(connect, source):
    """Those of a device as those of the host: an inner one lives on an outer one's."""
    client = connect()
    whole = kvasir.DeviceBuffer(source.address, 4 * MIB)
    inner, across = whole[MIB : 2 * MIB], whole[3 * MIB // 2 : 3 * MIB]
    assert client.register(whole) and client.register(inner) and client.register(across)
    assert client.unregister(whole) and not client.unregister(whole)
    assert client.buffer_kind(inner) == client.buffer_kind(across) == "device"
    assert client.buffer_kind(whole) == "none"
    with pytest.raises(ValueError, match="not registered"):
        client.put("k", whole[:MIB])
    assert client.put("k", inner) and client.path == "rdma"
    assert client.get("k") == source.read(MIB, MIB)
    assert client.unregister(inner) and client.buffer_kind(inner) == "none"
    assert client.put("k", across) and client.path == "rdma"
    assert client.unregister(across) and client.buffer_kind(across) == "none"


def test_a_request_in_flight_keeps_its_buffer(connect, control, source):
    client = connect()
    client.register(source.array())
    client.put("k", source.array())
    control(hold=1)
    request = client.submit_get_into(["k"], [source.array()])
    kvserver.wait_until(lambda: not request.done() and control.left("waiting") == 1, "it to begin")
    with pytest.raises(kvasir.Busy):
        client.unregister(source.array())
    request.cancel()
    assert client.unregister(source.array())
    control(hold=0)


def test_a_forked_child_leaves_the_devices_alone(connect, source, gpu):
    client = connect()
    client.register(source.array())
    assert client.put("k", source.array()) and client.path == "rdma"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            client.put("k", source.array())
        except kvasir.ForkedClient:
            before = gpu.left()
            client.close()
            code = 0 if gpu.left() == before > 0 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert client.put("k", source.array()) and client.path == "rdma"
    assert client.buffer_kind(source.array()) == "device"


# ---- the connector of vLLM -------------------------------------------------------------------


class Tensor:
    """A KV tensor of blocks on a device, as far as the connector looks at it before it copies."""

    def __init__(self, memory, shape):
        self.shape, self.dtype = shape, "torch.uint8"
        self.address = memory.address

    def stride(self):
        return (self.shape[1], 1)

    def element_size(self):
        return 1

    def data_ptr(self):
        return self.address


def test_the_connector_moves_blocks_between_devices(monkeypatch, connect, server, source, target):
    """What a saving engine has on its GPU a loading one gets on its own, and no CPU touches it."""
    import logging
    import types

    from kvasir.vllm import memory as memory_module
    from kvasir.vllm import store as store_module
    from kvasir.vllm.counters import Counters
    from kvasir.vllm.layout import layout_of
    from kvasir.vllm.loader import Loader
    from kvasir.vllm.memory import DeviceMemory
    from kvasir.vllm.options import Options
    from kvasir.vllm.plan import Load, Save
    from kvasir.vllm.saver import Saver
    from kvasir.vllm.store import Store

    fence = types.SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(memory_module, "engine_fence", lambda device: fence)
    monkeypatch.setattr(store_module, "connect", lambda options: connect())
    options = Options(checksum=False, batch_bytes=MIB, timeout_ms=20000, load_workers=2)
    health = types.SimpleNamespace(up=True, epoch=0, fail=lambda *reason: None)
    counters, logger = Counters(), logging.getLogger("test-kvasir")
    blocks, block_bytes = 32, 128 << 10

    def memory_over(memory):
        layout = layout_of({"l0": Tensor(memory, (blocks, block_bytes))}, blocks)
        return lambda: DeviceMemory(layout, "cuda:0", None, options.checksum, logger)

    def common(memory):
        return (lambda: Store(options, health), memory_over(memory), b"kv1:f:", counters, logger)

    source.write(bytes(buffer_of(blocks * block_bytes)))
    target.write(bytes(blocks * block_bytes))
    hashes = [b"hash %d" % i for i in range(20)]
    saver = Saver(*common(source), lambda store: None)
    saver.begin([Save(1, "r", hashes, list(range(20)), None)], True)
    assert saver.drain(60)
    saver.close()
    loader = Loader(*common(target))
    loader.begin(Load("r", hashes, list(range(31, 11, -1))))
    done = []
    kvserver.wait_until(lambda: done.extend(loader.take_done(0.05)) or done, "the load")
    loader.close()
    assert done == [("r", [])]
    for i in range(20):
        at = (31 - i) * block_bytes
        assert target.read(at, block_bytes) == source.read(i * block_bytes, block_bytes)
    assert target.read(0, 12 * block_bytes) == bytes(12 * block_bytes)
    total = counters.total()
    assert (total["blocks_saved"], total["blocks_loaded"]) == (20, 20)
    assert total["calls_rdma"] == 6, "three calls of eight blocks each way"
    assert server.info()["rdma_in_bytes"] == server.info()["rdma_out_bytes"] == 20 * block_bytes
