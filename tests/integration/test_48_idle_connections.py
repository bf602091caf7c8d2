"""Twenty thousand idle connections: all are held and served, and one costs little, by what INFO says
and by what the process has."""

import pathlib
import resource
import socket
import struct

import kvserver
import pytest

WANTED = 20000
FEWEST = 4000
BYTES_EACH_MAX = 4096
# Descriptors that both sides need for other things than these connections.
DESCRIPTORS_OWN = 400
# Ports of one address are fewer than the connections to one port of the server may be.
SOURCE_ADDRESSES = 50


@pytest.fixture
def descriptors():
    """The limit of open files, raised as far as this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED + DESCRIPTORS_OWN
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def private_bytes(server):
    """Memory that only this process has and that it wrote to: payload pages are there from the start."""
    text = pathlib.Path(f"/proc/{server.pid}/smaps_rollup").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines()[1:] if ":" in line)
    return int(lines["Private_Dirty"].split()[0]) * 1024


def dial(server, i):
    connection = socket.socket()
    connection.settimeout(30 * kvserver.SLOW)
    # Closed at once: thousands of ports in TIME_WAIT would keep others from listening on them.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.bind((f"127.0.0.{2 + i % SOURCE_ADDRESSES}", 0))
    connection.connect(("127.0.0.1", server.port))
    return connection


def exchange(connections):
    """Each sends a request and gets its answer: it has been served, and is idle again."""
    for connection in connections:
        connection.sendall(b"PING\r\n")
    for connection in connections:
        assert connection.recv(16) == b"+PONG\r\n"


@pytest.mark.plain
def test_twenty_thousand_idle_connections(start, descriptors):
    count = min(WANTED, descriptors - DESCRIPTORS_OWN)
    if count < FEWEST:
        pytest.skip(f"the limit of open files, {descriptors}, forbids {FEWEST} connections")
    server = start(reactors=2, maxclients=WANTED + DESCRIPTORS_OWN)
    held = [dial(server, i) for i in range(200)]
    try:
        exchange(held)
        info, private = server.info(), private_bytes(server)
        added = [dial(server, i) for i in range(count)]
        held += added
        exchange(added)
        after = server.info()
        assert after["connected_clients"] == len(held) + 1
        assert after["rejected_connections"] == 0
        counted = after["used_memory"] - info["used_memory"]
        assert count * 1000 < counted <= count * BYTES_EACH_MAX
        of_clients = after["mem_clients_normal"] - info["mem_clients_normal"]
        assert count * 1000 < of_clients <= counted  # which has the loop's part as well
        taken = private_bytes(server) - private
        print(f"{count} connections: {counted // count} bytes each counted, {taken // count} taken")
        assert taken <= count * BYTES_EACH_MAX
        # They idled through the ticks meanwhile, and all are served still.
        exchange(held)
    finally:
        for connection in held:
            connection.close()
    kvserver.wait_until(lambda: server.info()["connected_clients"] == 1, "all to be gone", 60)
    # Of the buffers some are kept.
    assert server.info()["used_memory"] < info["used_memory"] + (4 << 20)
    assert server.descriptor_count() < 200
    if count < WANTED:
        limit = f"the limit of open files, {descriptors}, forbids {WANTED} connections"
        pytest.skip(f"{limit}; {count} were held, and what they cost was as it should be")
