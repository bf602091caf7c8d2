"""Memory of GPUs: what is taken, how it travels, and clear refusals. The driver is one of memory
files, whose devices a CPU cannot touch, so that a forgotten copy dies."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import connect
from fake_gpu import DRIVER, MODULE, Driver

import kvasir
from kvasir.server import Server

KeyMaker = Callable[[str], bytes]
MIB = 1 << 20

needs_driver = pytest.mark.skipif(
    not (DRIVER.exists() and MODULE.exists()),
    reason=f"built without the CUDA toolkit: no {MODULE} or no {DRIVER}",
)


@pytest.fixture(scope="module")
def gpu() -> Driver:
    return Driver()


@pytest.fixture
def client(gpu: Driver, shared_server: Server, path: str) -> Iterator[kvasir.Client]:
    """A client for each path, which leaves nothing of the driver's behind."""
    with connect(shared_server, path, cuda_module=str(MODULE), bounce_bytes=16 * MIB) as made:
        yield made
    assert gpu.left() == 0


def pattern(length: int) -> bytes:
    return random.Random(length).randbytes(length)


@needs_driver
@pytest.mark.parametrize("length", [1, 4096, 100_001, 3 * MIB + 5])
def test_devices_arrays_are_stored_and_filled(
    client: kvasir.Client, gpu: Driver, key: KeyMaker, path: str, length: int
) -> None:
    with gpu.memory(length, 1) as source, gpu.memory(length + 1) as target:
        source.write(pattern(length))
        target.write(b"x" * (length + 1))
        assert client.register(source.array()) is True
        assert client.register(target.array()) is True
        assert client.buffer_kind(source.array()) == "staged"
        assert client.put(key("a"), source.array()) is True
        # What is short goes by the socket, whatever else there is.
        assert client.path == path or (path == "shm" and client.path == "unix" and length < 65536)
        assert client.get(key("a")) == pattern(length)
        assert client.get_into(key("a"), target.array()) == length
        assert target.read() == pattern(length) + b"x"
        assert client.counters()["bounced_bytes"] == 2 * length
        assert client.get_into(key("absent"), target.array()) is None
        assert client.unregister(source.array()) is True
        assert client.unregister(source.array()) is False
        assert client.buffer_kind(source.array()) == "none"


@needs_driver
@pytest.mark.parametrize("old", [False, True])
def test_devices_dlpack_is_understood(
    client: kvasir.Client, gpu: Driver, key: KeyMaker, old: bool
) -> None:
    with gpu.memory(4000, 1) as memory:
        memory.write(pattern(4000))
        assert client.register(memory.tensor(old=old)) is True
        assert client.put(key("a"), memory.tensor(1000, 400, old=old)) is True
        assert client.get(key("a")) == pattern(4000)[1000:1400]
        assert client.get_into(key("a"), memory.tensor(3000, 400, strides=(100, 1), old=old)) == 400
        assert memory.read(3000, 400) == pattern(4000)[1000:1400]
        assert client.unregister(memory.array()) is True


@needs_driver
def test_devices_pieces_and_batches_of_both_kinds(
    client: kvasir.Client, gpu: Driver, key: KeyMaker
) -> None:
    data = pattern(8000)
    with gpu.memory(8000) as memory:
        memory.write(data)
        whole = kvasir.DeviceBuffer(memory.address, 8000)
        client.register(whole)
        pieces = [whole[0:100], whole[5000:8000], whole[100:100]]
        keys = [key(str(index)) for index in range(3)]
        assert (
            client.put_batch(
                keys, [pieces, [b"host", memory.array(0, 10)], whole[10:20]], checksum=True
            )
            == [True] * 3
        )
        assert client.get(keys[0]) == data[:100] + data[5000:]
        assert client.get(keys[1]) == b"host" + data[:10]
        host = bytearray(4)
        request = client.submit_get_into(
            keys, [whole[:4000], [host, whole[4000:4010]], whole[7000:]]
        )
        assert request.wait() == [3100, 14, 10]
        assert host == b"host"
        assert memory.read(0, 3100) == data[:100] + data[5000:]
        assert memory.read(4000, 10) == data[:10]
        assert memory.read(7000, 10) == data[10:20]


@needs_driver
def test_devices_what_is_not_registered_is_refused(
    client: kvasir.Client, gpu: Driver, key: KeyMaker
) -> None:
    with gpu.memory(4096) as memory, gpu.memory(4096) as other:
        client.register(memory.array(0, 2048))
        for payload in (
            other.array(),
            memory.array(),
            memory.tensor(2048),
            [memory.array(0, 10), other.array(0, 1)],
            kvasir.DeviceBuffer(memory.address, 2049)[1000:],
        ):
            with pytest.raises(ValueError, match="not registered with this client"):
                client.put(key("a"), payload)
            with pytest.raises(ValueError, match="not registered with this client"):
                client.get_into_batch([key("a")], [payload])
            with pytest.raises(ValueError, match="not registered with this client"):
                client.submit_put([key("a")], [payload])
        assert client.put(key("a"), kvasir.DeviceBuffer(memory.address, 4096)[:2048]) is True
        client.unregister(memory.array(0, 2048))
        with pytest.raises(ValueError, match="register"):
            client.put(key("a"), memory.array(0, 2048))


@needs_driver
@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"data": (0, True)}, TypeError, "read-only"),
        ({"shape": (4, 4), "strides": (8, 1)}, ValueError, "not contiguous"),
        ({"shape": (4, 4), "typestr": "<f4", "strides": (4, 16)}, ValueError, "not contiguous"),
        ({"mask": object()}, TypeError, "no plain bytes"),
        ({"typestr": "what"}, TypeError, "no plain bytes"),
    ],
)
def test_devices_arrays_that_cannot_be_moved(
    client: kvasir.Client,
    gpu: Driver,
    key: KeyMaker,
    changes: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with gpu.memory(4096) as memory:
        with pytest.raises(error, match=text):
            client.register(memory.array(**changes))
        with pytest.raises(error, match=text):
            client.get_into(key("a"), memory.array(**changes))


@needs_driver
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"read_only": True}, TypeError, "read-only"),
        ({"strides": (1, 2)}, ValueError, "not contiguous"),
        ({"major": 2}, TypeError, "speaks DLPack 2"),
        ({"device_type": 10}, TypeError, "not Tensor"),
    ],
)
def test_devices_tensors_that_cannot_be_moved(
    client: kvasir.Client,
    gpu: Driver,
    options: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with gpu.memory(4096) as memory, pytest.raises(error, match=text):
        client.register(memory.tensor(**options))


@needs_driver
def test_devices_read_only_arrays_are_stored_once_registered(
    client: kvasir.Client, gpu: Driver, key: KeyMaker
) -> None:
    with gpu.memory(64) as memory:
        memory.write(pattern(64))
        client.register(memory.array())
        assert client.put(key("a"), memory.array(data=(memory.address, True))) is True
        assert client.get(key("a")) == pattern(64)


@needs_driver
def test_devices_errors_of_the_driver_are_told(
    client: kvasir.Client, gpu: Driver, key: KeyMaker
) -> None:
    with gpu.memory(MIB, 1) as memory:
        gpu.fail("cuPointerGetAttribute")
        with pytest.raises(
            kvasir.Unsupported, match=r"cannot be used here.*cannot say what address"
        ):
            client.register(memory.array())
        with pytest.raises(kvasir.Invalid, match="beyond their allocation"):
            client.register(kvasir.DeviceBuffer(memory.address, MIB + 1))
        client.register(memory.array())
        gpu.fail("cuMemcpyAsync")
        with pytest.raises(kvasir.SystemFailure, match="device 1"):
            client.put(key("a"), memory.array())
        assert client.put(key("a"), memory.array()) is True


@needs_driver
def test_devices_memory_that_was_freed_is_forgotten(
    shm_client: kvasir.Client, shared_server: Server, gpu: Driver, key: KeyMaker
) -> None:
    with connect(shared_server, "shm", cuda_module=str(MODULE)) as client:
        first = gpu.alloc(2 * MIB)
        client.register(kvasir.DeviceBuffer(first, 2 * MIB))
        gpu.free(first)
        with gpu.memory(MIB) as memory:
            assert memory.address == first, "the driver gives the address out again"
            client.register(memory.array())
            with pytest.raises(ValueError, match="not registered"):
                client.put(key("a"), kvasir.DeviceBuffer(first, 2 * MIB))
            assert client.put(key("a"), memory.array()) is True


@needs_driver
def test_devices_a_missing_module_is_named(
    shared_server: Server, gpu: Driver, tmp_path: Any
) -> None:
    module = str(tmp_path / "none.so")
    with connect(shared_server, "tcp", cuda_module=module) as client, gpu.memory(4096) as memory:
        with pytest.raises(kvasir.Unsupported, match=r"none\.so"):
            client.register(memory.array())
        assert client.register(bytearray(10)) is False, "nothing but RDMA is for the host's"


def test_devices_without_a_driver_are_refused(shared_server: Server) -> None:
    """In a process of its own: here the driver is loaded."""
    code = f"""
import kvasir
with kvasir.Client({shared_server.address!r}) as client:
    array = kvasir.DeviceBuffer(4096, 100)
    try:
        client.register(array)
    except kvasir.Unsupported as error:
        assert "libcuda.so.1" in str(error), error
    else:
        raise SystemExit("registered")
    try:
        client.put("a", array)
    except ValueError as error:
        assert "not registered" in str(error), error
    else:
        raise SystemExit("stored")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@needs_driver
def test_devices_a_forked_child_leaves_the_parents_memory_alone(
    shared_server: Server, gpu: Driver, key: KeyMaker
) -> None:
    module = str(MODULE)
    with connect(shared_server, "tcp", cuda_module=module) as client, gpu.memory(MIB) as memory:
        memory.write(pattern(MIB))
        client.register(memory.array())
        assert client.put(key("a"), memory.array()) is True
        child = os.fork()
        if child == 0:
            code = 1
            try:
                client.put(key("b"), memory.array())
            except kvasir.ForkedClient:
                client.close()
                # Calls of the driver would show: a child has no right to any.
                code = 0 if gpu.left() > 0 else 3
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert client.put(key("c"), memory.array()) is True
        assert client.get(key("c")) == pattern(MIB)
    assert gpu.left() == 0


def test_devices_torch_tensors_on_a_real_gpu(shared_server: Server, key: KeyMaker) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    with connect(shared_server, "shm") as client:
        source = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
        target = torch.zeros_like(source)
        client.register(source)
        client.register(target)
        torch.cuda.synchronize()
        assert client.put(key("a"), source) is True
        assert client.get_into(key("a"), target) == source.numel() * 4
        assert torch.equal(source, target)
