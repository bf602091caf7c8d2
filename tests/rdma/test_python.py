#!/usr/bin/env python3
"""The Python package against the server over RDMA. Prints cmocka's lines: it runs in the emulated
machine, which has the standard library only."""

import os
import random
import subprocess
import sys
import time
import traceback

import kvasir

MIB = 1 << 20
PORT = 7410


def start_server():
    process = subprocess.Popen(
        [
            *(os.environ["KVASIR_SERVER"], "--port", str(PORT), "--reactors", "2"),
            *("--maxmemory", "256mb", "--loadmodule", os.environ["KVASIR_RDMA_MODULE"]),
            *("--rdma-device", os.environ["VM_DEVICE"]),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connect().close()
            return process
        except kvasir.Error:
            time.sleep(0.05)
    process.kill()
    raise AssertionError("the server does not answer")


def connect():
    return kvasir.Client(
        f"tcp://127.0.0.1:{PORT}",
        shm=False,
        timeout=100.0,
        connect_timeout=100.0,
        rdma_module=os.environ["KVASIR_RDMA_MODULE"],
        rdma_device=os.environ["VM_DEVICE2"],
    )


def test_python_registered_buffers_go_by_rdma():
    with connect() as client:
        source = bytearray(random.Random(1).randbytes(8 * MIB + 5))
        target = bytearray(len(source))
        assert client.register(source) and client.register(target)
        for length in (4096, 65537, len(source)):
            assert client.put("k", memoryview(source)[:length]) and client.path == "rdma"
            target[:] = bytes(len(target))
            assert client.get_into("k", memoryview(target)[: length + 1]) == length
            assert client.path == "rdma"
            assert target[:length] == source[:length] and not any(target[length:])
        assert client.get("k") == source and client.path == "tcp"


def test_python_batch_goes_by_rdma():
    with connect() as client:
        arena = bytearray(random.Random(2).randbytes(200 * 4096))
        expected = bytes(arena)
        assert client.register(arena)
        view = memoryview(arena)
        blocks = [view[i * 4096 : (i + 1) * 4096] for i in range(200)]
        keys = [f"b{i}" for i in range(200)]
        assert client.put_batch(keys, blocks) == [True] * 200
        arena[:] = bytes(len(arena))
        assert client.get_into_batch(keys, blocks) == [4096] * 200
        assert arena == expected and client.path == "rdma"
        assert client.counters()["tcp_bytes"] == 0


def main():
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    failed = []
    server = start_server()
    for test in tests:
        print(f"[ RUN      ] {test.__name__}")
        try:
            test()
            print(f"[       OK ] {test.__name__}")
        except (AssertionError, kvasir.Error):
            traceback.print_exc(file=sys.stdout)
            print(f"[  FAILED  ] {test.__name__}")
            failed.append(test)
    server.terminate()
    assert server.wait(120) == 0, "the server ended badly"
    if failed:
        print(f"[  FAILED  ] {len(failed)} test(s), listed below:")
    return len(failed)


sys.exit(main())
