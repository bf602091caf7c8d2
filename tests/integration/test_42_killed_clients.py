"""Clients that die in the middle: what they held comes back, what others stored is untouched."""

import hashlib
import os
import signal
import subprocess
import sys
import textwrap

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20
PAYLOAD = os.urandom(3 * MIB + 12345)
KEPT = {f"kept:{i}": os.urandom(200000 + 777 * i) for i in range(20)}

# The client of each scene prints "ready" when it is where it is to be killed, and waits there.
SCENES = {
    "mid SET": """
        c.send(b"*3\\r\\n$3\\r\\nSET\\r\\n$4\\r\\ndead\\r\\n$8000000\\r\\n" + b"x" * 5000000)
    """,
    "mid SET of a key that is there": """
        c.send(b"*3\\r\\n$3\\r\\nSET\\r\\n$6\\r\\nkept:1\\r\\n$8000000\\r\\n" + b"x" * 5000000)
    """,
    "mid GET": """
        c.send(resp.encode("GET", "big") * 50)
        c.socket.recv(100000)
    """,
    "mid MGET of everything": """
        c.send(resp.encode("MGET", *[f"kept:{i}" for i in range(20)], "big") * 10)
        c.socket.recv(1000)
    """,
    "holding leases": """
        c("KV.LEASE", 60000, "big", *[f"kept:{i}" for i in range(20)])
    """,
    "holding leases of values that are gone": """
        c("KV.LEASE", 60000, "big", *[f"kept:{i}" for i in range(10, 20)])
        c("DEL", "big")
    """,
    "shm reservations half written": """
        c("KV.CONNECT", "SHM")
        import mmap
        staging = mmap.mmap(c.descriptors[1], 0)
        for i in range(8):
            grant = c("KV.RESERVE", f"dead:{i}", 2000000)
            offset, length = grant[2][0], grant[2][1]
            staging[offset : offset + length // 2] = b"y" * (length // 2)
    """,
    "shm commit under way": """
        c("KV.CONNECT", "SHM")
        ids = [c("KV.RESERVE", f"dead:{i}", 7000000)[0] for i in range(4)]
        c.send(b"".join(resp.encode("KV.COMMIT", i) for i in ids))
    """,
    "shm leases and reservations": """
        c("KV.CONNECT", "SHM")
        c("KV.LEASE", 60000, "big", "kept:3")
        c("KV.RESERVE", "dead", 3000000)
        c("KV.RESERVE", "kept:4", 3000000)
    """,
}


def client_process(where, scene):
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(kvserver.ROOT / 'tests/integration')!r})\n"
        "import resp\n"
        f"c = resp.Connection({where!r}, receive_buffer=4096)\n"
        f"{textwrap.dedent(SCENES[scene])}\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def fill(server):
    with server.connect() as connection:
        for key, value in KEPT.items():
            assert connection("SET", key, value) == "OK"
        assert connection("SET", "big", PAYLOAD) == "OK"


@pytest.mark.parametrize("scene", SCENES)
def test_killed(start, scene):
    server = start(reactors=2)
    pages = server.info()["payload_pages_free"]
    fill(server)
    descriptors = server.descriptor_count()
    for _ in range(3):
        with server.connect() as connection:
            connection("SET", "big", PAYLOAD)
        where = server.port if "shm" not in scene else str(server.socket)
        client = client_process(where, scene)
        try:
            assert client.stdout.readline() == b"ready\n", client.stderr.read().decode()
        finally:
            client.send_signal(signal.SIGKILL)
            client.wait(10)
            client.stdout.close()
            client.stderr.close()
    kvserver.wait_until(server.nothing_held, "what it held to come back")
    with server.connect() as connection:
        for i in range(8):
            if scene != "shm commit under way":
                assert connection("EXISTS", f"dead:{i}", "dead") == 0
            elif connection("EXISTS", f"dead:{i}") == 1:
                # A commit that was sent counts even when its sender is gone: it is whole.
                assert connection("STRLEN", f"dead:{i}") == 7000000
        for key, value in KEPT.items():
            if connection("EXISTS", key) or server.info()["evicted_keys"] == 0:
                got = connection("GET", key)
                assert hashlib.sha256(got).digest() == hashlib.sha256(value).digest()
    kvserver.wait_until(
        lambda: server.descriptor_count() <= descriptors + 1, "its descriptors closed"
    )
    server.expect_pages_back(pages)


def test_many_die_at_once(start):
    """Half of twenty writers are reset in mid-upload while the other half reads back what it wrote."""
    server = start(reactors=4)
    pages = server.info()["payload_pages_free"]
    for round_number in range(5):
        doomed = [server.connect() for _ in range(10)]
        for i, connection in enumerate(doomed):
            connection.send(resp.encode("SET", f"doomed:{i}", b"z" * 900000)[: 300000 + 50000 * i])
        for connection in doomed:
            # A reset, not an end of stream.
            connection.socket.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
        with server.connect() as connection:
            for i in range(10):
                value = os.urandom(400000)
                assert connection("SET", f"live:{i}", value) == "OK"
                doomed[i].close()
                assert connection("GET", f"live:{i}") == value
            assert connection("EXISTS", *[f"doomed:{i}" for i in range(10)]) == 0, round_number
    kvserver.wait_until(server.nothing_held, "what they held to come back")
    server.expect_pages_back(pages)
