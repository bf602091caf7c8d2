"""The Python package on the RDMA paths, as the tests of both modes use it: over the transport for tests."""

import contextlib
import importlib
import os
import random
import sys

import kvserver
import loop

os.environ.setdefault("KVASIR_LIBRARY", str(kvserver.BUILD / "libkvasir.so.0"))
sys.path.insert(0, str(kvserver.ROOT / "python"))
kvasir = importlib.import_module("kvasir") if not kvserver.SANITIZE else None


@contextlib.contextmanager
def connecting(server, **defaults):
    """connect(port, option=…) gives a client by TCP with the module; all are closed at the end."""
    defaults = {"shm": False, "timeout": 20.0, "rdma_module": str(loop.MODULE), **defaults}
    with contextlib.ExitStack() as stack:

        def connect(port=server.port, **options):
            client = kvasir.Client(f"tcp://127.0.0.1:{port}", **{**defaults, **options})
            return stack.enter_context(client)

        yield connect


def buffer_of(length, seed=0):
    return bytearray(random.Random(length * 31 + seed).randbytes(length))


def path_of_put(client, buffer):
    """The path of a put from the registered buffer; None when it failed."""
    try:
        client.put("again", buffer)
    except kvasir.Closed:
        return None  # after a deadline a client waits before it connects anew
    return client.path
