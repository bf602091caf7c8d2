"""The RDMA path as the server drives it, over a transport for tests that copies between processes: what
the commands answer, in which order, and what becomes of work under way when something ends."""

import ctypes
import os
import random
import signal
import subprocess
import sys

import kvserver
import loop
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def server(start, control):
    return loop.start_server(start, control)


@pytest.fixture
def peer():
    peer = loop.Peer()
    yield peer


@pytest.fixture
def client(server, peer):
    with server.connect() as connection:
        loop.connect(connection, peer)
        yield connection


def payload_of(length, seed=0):
    return random.Random(length * 31 + seed).randbytes(length)


def hello(connection):
    reply = connection("KV.HELLO")
    facts = {name.decode(): value for name, value in zip(reply[::2], reply[1::2])}
    transports = [
        {name.decode(): value for name, value in zip(t[::2], t[1::2])} for t in facts["transports"]
    ]
    return {transport["name"].decode(): transport for transport in transports}


def put(connection, key, memory, *options, pieces=1):
    return connection("KV.PUT", key, len(memory.bytes), *options, "FROM", *memory.words(pieces))


def get(connection, key, memory, pieces=1):
    return connection("KV.GET", key, "INTO", *memory.words(pieces))


# ---- set-up ----


def test_without_a_module(start):
    server = start()
    with server.connect() as connection:
        assert "rdma" not in hello(connection)
        assert connection.error("KV.CONNECT", "RDMA", "QPN", 1).startswith("UNSUPPORTED no RDMA: ")
        error = connection.error("KV.GET", "k", "INTO", 1, 2, 3)
        assert error.startswith("UNSUPPORTED ") and "KV.CONNECT RDMA" in error
        error = connection.error("KV.PUT", "k", 3, "FROM", 1, 2, 3)
        assert error.startswith("UNSUPPORTED ")
        assert connection("PING") == "PONG"


def test_hello_describes_the_device(server, client):
    with server.connect() as connection:
        device = hello(connection)["rdma"]
    assert device["device"] == b"loop0" and device["port"] == 1
    assert device["mtu"] == 4096 and device["rd_atomic"] == 16
    assert device["layer"] == b"ethernet" and device["gid_type"] == b"rocev2"
    assert device["modes"] == [b"server", b"client"]
    assert device["gids"] == [b"0 rocev2 " + device["gid"]]


def test_connect_answers_with_the_servers_address(server, peer):
    with server.connect() as connection:
        address = loop.connect(connection, peer)
        assert 0 < address["qpn"] < 1 << 24 and 0 <= address["psn"] < 1 << 24
        assert address["gid"] == hello(connection)["rdma"]["gid"]
        assert server.info()["rdma_clients"] == 1
        again = loop.connect(connection, peer)
        assert again["qpn"] != address["qpn"], "another takes the first one's place"
        assert server.info()["rdma_clients"] == 1
    kvserver.wait_until(lambda: server.info()["rdma_clients"] == 0, "the queue pair to go")


def test_connect_refuses_what_is_no_address(server, peer):
    with server.connect() as connection:
        for name in ("QPN", "PSN", "GID", "MTU", "RD_ATOMIC"):
            with pytest.raises(resp.Error, match=f"needs {name.lower()}"):
                loop.connect(connection, peer, **{name: None})
        for name, bad in (
            ("QPN", 1 << 24),
            ("QPN", -1),
            ("PSN", "x"),
            ("GID", "fe80:"),
            ("GID", ""),
            ("MTU", 1000),
            ("MTU", 8192),
            ("LAYER", "token-ring"),
            ("DEVICE", "x" * 64),
            ("SPEED", 100),
        ):
            with pytest.raises(resp.Error, match=f"does not take '{name}' '{str(bad)[:64]}'"):
                loop.connect(connection, peer, **{name: bad})
        with pytest.raises(resp.Error, match="GID is none of this transport"):
            loop.connect(connection, peer, GID="fe80::1")
        assert connection.error("KV.CONNECT", "RDMA", "QPN").startswith("ERR KV.CONNECT RDMA needs")
        assert server.info()["rdma_clients"] == 0
        assert connection.error("KV.GET", "k", "INTO", 1, 2, 3).startswith("UNSUPPORTED ")


def test_no_way_to_the_client(server, control, peer):
    control(refuse=1)
    with server.connect() as connection:
        with pytest.raises(resp.Error, match="no way to the peer"):
            loop.connect(connection, peer)
        control(refuse=0)
        loop.connect(connection, peer)
        assert server.info()["rdma_clients"] == 1


@pytest.fixture
def slow(start, control):
    """A server of one reactor whose device takes its time to connect queue pairs."""
    server = loop.start_server(start, control, reactors=1, rdma_timeout_ms=60000)
    control(slow=1)
    yield server
    control(slow=0)


def test_a_slow_device_holds_up_nobody(slow, control, peer):
    with slow.connect() as one, slow.connect() as other:
        loop.send_connect(one, peer)
        one.send(resp.encode("PING"))
        kvserver.wait_until(lambda: slow.info()["rdma_clients"] == 1, "the queue pair")
        assert other("SET", "k", "v") == "OK" and other("GET", "k") == b"v"
        control(slow=0)
        assert loop.address_of(one.read())["qpn"] > 0
        assert one.read() == "PONG", "what comes behind waits its turn"
        memory = loop.Memory(peer, 1)
        assert get(one, "k", memory) == 1 and memory.bytes == b"v"


def test_in_a_transaction_a_slow_device_is_waited_for(slow, control, peer):
    with slow.connect() as connection:
        assert connection("MULTI") == "OK"
        loop.send_connect(connection, peer)
        assert connection.read() == "QUEUED"
        connection.send(resp.encode("EXEC"))
        kvserver.wait_until(lambda: slow.info()["rdma_clients"] == 1, "the queue pair")
        control(slow=0)
        assert loop.address_of(connection.read()[0])["qpn"] > 0


def test_a_client_that_leaves_while_it_is_connected(slow, control, peer):
    with slow.connect() as connection:
        loop.send_connect(connection, peer)
        kvserver.wait_until(lambda: slow.info()["rdma_clients"] == 1, "the queue pair")
    kvserver.wait_until(lambda: slow.info()["rdma_clients"] == 0, "it to go")
    control(slow=0)
    with slow.connect() as connection:
        loop.connect(connection, peer)


def test_a_device_that_never_connects_is_given_up(start, control, peer):
    server = loop.start_server(start, control, reactors=1, rdma_timeout_ms=300)
    control(slow=1)
    with server.connect() as connection:
        with pytest.raises(resp.Error, match="no queue pair: .*time was up"):
            loop.connect(connection, peer)
        assert server.info()["rdma_clients"] == 0
        control(slow=0)
        loop.connect(connection, peer)


def test_the_server_stops_while_it_connects(slow, control, peer):
    with slow.connect() as connection:
        loop.send_connect(connection, peer)
        kvserver.wait_until(lambda: slow.info()["rdma_clients"] == 1, "the queue pair")
        slow.stop()


def test_queue_pairs_are_bounded(start, control, peer):
    server = loop.start_server(start, control, reactors=1, rdma_clients_max=2)
    with server.connect() as one, server.connect() as two, server.connect() as three:
        loop.connect(one, peer)
        loop.connect(two, peer)
        with pytest.raises(resp.Error, match="BUSY .*rdma-clients-max 2"):
            loop.connect(three, peer)
        two.close()
        kvserver.wait_until(lambda: server.info()["rdma_clients"] == 1, "one to go")
        loop.connect(three, peer)


def test_a_user_without_the_right(server, peer):
    with server.connect() as admin:
        admin("ACL", "SETUSER", "plain", "on", ">x", "~*", "+@all", "-@rdma")
        admin("SET", "k", "value")
    with server.connect() as connection:
        connection("AUTH", "plain", "x")
        assert "rdma" not in hello(connection), "nor does it learn of any device"
        with pytest.raises(resp.Error, match="NOPERM"):
            loop.connect(connection, peer)
        memory = loop.Memory(peer, 5)
        assert connection.error("KV.GET", "k", "INTO", *memory.words()).startswith("NOPERM ")
        assert connection.error("KV.PUT", "k", 5, "FROM", *memory.words()).startswith("NOPERM ")
        assert connection("KV.GET", "k") == b"value"


def test_a_right_that_is_taken_away(server, client, peer):
    memory = loop.Memory(peer, 5)
    client("SET", "k", "value")
    with server.connect() as admin:
        admin("ACL", "SETUSER", "plain", "on", ">x", "~*", "+@all", "-@rdma")
    client("AUTH", "plain", "x")
    assert client.error("KV.GET", "k", "INTO", *memory.words()).startswith("NOPERM ")
    assert memory.bytes == bytes(5)


# ---- puts and gets ----


@pytest.mark.parametrize("pieces", (1, 3, 40))
@pytest.mark.parametrize("length", (1, 100, 4096, 65537, 2 * MIB, 5 * MIB + 17, 33 * MIB))
def test_put_and_get(client, peer, length, pieces):
    payload = payload_of(length)
    source, target = loop.Memory(peer, length), loop.Memory(peer, length)
    source.bytes[:] = payload
    assert put(client, "k", source, pieces=pieces) == "OK"
    assert client("KV.GET", "k") == payload, "as any client reads it"
    assert get(client, "k", target, pieces=pieces) == length
    assert target.bytes == payload


def test_nothing_is_copied(server, client, peer):
    length = 4 * MIB
    source, target = loop.Memory(peer, length), loop.Memory(peer, length)
    before = server.info()
    put(client, "k", source)
    get(client, "k", target)
    after = server.info()
    assert after["copied_bytes"] == before["copied_bytes"]
    assert after["rdma_puts"] == 1 and after["rdma_gets"] == 1
    assert after["rdma_in_bytes"] == after["rdma_out_bytes"] == length
    assert after["rdma_failed"] == 0


def test_empty_values(client, peer):
    memory = loop.Memory(peer, 8)
    assert client("KV.PUT", "k", 0, "FROM", *memory.at(0, 0)) == "OK"
    assert client("STRLEN", "k") == 0 and client("EXISTS", "k") == 1
    assert get(client, "k", memory) == 0


def test_absent_and_too_long(client, peer):
    memory = loop.Memory(peer, 10)
    assert get(client, "absent", memory) is None
    client("SET", "k", "longer than that")
    assert get(client, "k", memory) == 16, "its length"
    assert memory.bytes == bytes(10), "and nothing is written"


def test_room_to_spare_stays_as_it_is(client, peer):
    memory = loop.Memory(peer, 100)
    client("SET", "k", "x" * 60)
    assert get(client, "k", memory, pieces=7) == 60
    assert memory.bytes == b"x" * 60 + bytes(40)


def test_options_of_a_put(client, peer):
    memory = loop.Memory(peer, 1000)
    memory.bytes[:] = payload_of(1000)
    assert put(client, "k", memory, "NX", "TTL", 60000, "CLASS", "WINDOW", "PARENT", "from") == "OK"
    assert 50000 < client("PTTL", "k") <= 60000
    stat = client("KV.STAT", "k")
    assert stat[stat.index(b"class") + 1] == b"window"
    memory.bytes[:] = bytes(1000)
    assert put(client, "k", memory, "NX") == "EXISTS"
    assert client("KV.GET", "k") == payload_of(1000)


@pytest.mark.parametrize("length", (1000, 300000, 21 * MIB))
def test_a_checksum_that_is_right(client, peer, length):
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        pytest.skip("libxxhash is not installed")
    library.XXH3_64bits.restype = ctypes.c_uint64
    memory = loop.Memory(peer, length)
    memory.bytes[:] = payload_of(length)
    digest = library.XXH3_64bits(bytes(memory.bytes), ctypes.c_size_t(length))
    assert put(client, "k", memory, "CHECKSUM", f"{digest:016x}") == "OK"
    stat = client("KV.STAT", "k")
    assert stat[stat.index(b"checksum") + 1] == b"%016x" % digest
    assert client("KV.GET", "k") == memory.bytes


def test_a_checksum_that_is_wrong(server, client, peer):
    memory = loop.Memory(peer, 300000)
    free = server.info()["payload_pages_free"]
    error = client.error("KV.PUT", "k", 300000, "CHECKSUM", "1234", "FROM", *memory.words())
    assert error.startswith("CORRUPT ")
    assert client("EXISTS", "k") == 0
    server.expect_pages_back(free)


def test_bad_requests(client, peer):
    memory = loop.Memory(peer, 10)
    a, k, n = memory.words()
    for words, said in (
        (("KV.PUT", "k", "x", "FROM", a, k, n), "ERR the length"),
        (("KV.PUT", "k", 10, "NX", "NX", "NX"), "ERR KV.PUT takes its payload FROM"),
        (("KV.PUT", "k", 10, "FROM", a, k, 9), "ERR the segments are not as long"),
        (("KV.PUT", "k", 10, "FROM", a, k), "ERR memory is told by"),
        (("KV.PUT", "k", 10, "BY", a, k, n), "ERR syntax"),
        (("KV.PUT", "k", 10, "FROM", a, 1 << 34, n), "ERR a segment's"),
        (("KV.PUT", "k", 10, "FROM", (1 << 64) - 5, k, n), "ERR a segment's"),
        (("KV.GET", "k", "INTO"), "ERR memory is told by"),
        (("KV.GET", "k", "ONTO", a, k, n), "ERR syntax"),
        (("KV.GET", "k", "INTO", a, k, -1), "ERR a segment's"),
        (("KV.GET", "k", "INTO", a, k, 1 << 63), "ERR a segment's"),
        (("KV.PUT", "k", 1 << 50, "FROM", a, k, 1 << 50), "TOOLARGE "),
        (("KV.PUT", "x" * 70000, 10, "FROM", a, k, n), "ERR the key"),
    ):
        assert client.error(*words).startswith(said), words
    assert client("MULTI") == "OK"
    assert client.error("KV.PUT", "k", 10, "FROM", a, k, n).startswith("ERR Command not allowed")
    assert client("DISCARD") == "OK"
    client("SET", "k", "v")
    client("MULTI")
    client("KV.GET", "k", "INTO", a, k, n)
    client("GET", "k")
    refused, value = client("EXEC")
    assert "inside a transaction" in str(refused) and value == b"v"
    assert put(client, "k", memory) == "OK", "the queue pair is as good as before"


# ---- pipelines ----


def test_a_long_pipeline_is_answered_in_order(server, client, peer):
    count = 256
    lengths = [random.Random(7).randrange(1, 40000) for _ in range(count)]
    source = [loop.Memory(peer, length) for length in lengths]
    target = [loop.Memory(peer, length) for length in lengths]
    for i, memory in enumerate(source):
        memory.bytes[:] = payload_of(lengths[i], i)
    client.send(
        b"".join(
            resp.encode("KV.PUT", f"k{i}", lengths[i], "FROM", *source[i].words(1 + i % 3))
            for i in range(count)
        )
    )
    assert [client.read() for _ in range(count)] == ["OK"] * count
    client.send(
        b"".join(
            resp.encode("KV.GET", f"k{i}", "INTO", *target[i].words(1 + i % 5))
            + resp.encode("STRLEN", f"k{i}")
            for i in range(count)
        )
    )
    assert [client.read() for _ in range(2 * count)] == [n for n in lengths for _ in range(2)]
    for i in range(count):
        assert target[i].bytes == payload_of(lengths[i], i)
    assert server.info()["rdma_puts"] == count


def test_what_follows_a_put_sees_it(client, peer):
    old, new = loop.Memory(peer, 5000), loop.Memory(peer, 5000)
    old.bytes[:], new.bytes[:] = b"o" * 5000, b"n" * 5000
    into = loop.Memory(peer, 5000)
    client.send(
        resp.encode("KV.PUT", "k", 5000, "FROM", *old.words())
        + resp.encode("GETRANGE", "k", 0, 0)
        + resp.encode("KV.PUT", "k", 5000, "FROM", *new.words())
        + resp.encode("KV.PUT", "k", 5000, "NX", "FROM", *old.words())
        + resp.encode("KV.GET", "k", "INTO", *into.words())
        + resp.encode("DEL", "k")
        + resp.encode("KV.GET", "k", "INTO", *old.words())
    )
    replies = [client.read() for _ in range(7)]
    assert replies == ["OK", b"o", "OK", "EXISTS", 5000, 1, None]
    assert into.bytes == new.bytes


def test_puts_longer_than_the_store_together(start, control, peer):
    server = loop.start_server(start, control, reactors=1)
    memory = loop.Memory(peer, 16 * MIB)
    with server.connect() as client:
        loop.connect(client, peer)
        one = resp.encode("KV.PUT", "k%d", len(memory.bytes), "FROM", *memory.words())
        client.send(b"".join(one.replace(b"%d", b"%02d" % i) for i in range(40)))
        assert [client.read() for _ in range(40)] == ["OK"] * 40
        assert server.info()["evicted_keys"] > 0


# ---- what goes wrong ----


def test_a_wrong_key_breaks_its_own_queue_pair_only(server, client, peer):
    free = server.info()["payload_pages_free"]
    with server.connect() as other:
        loop.connect(other, peer)
        memory = loop.Memory(peer, 3 * MIB)
        memory.bytes[:] = payload_of(3 * MIB)
        a, k, n = memory.words()
        assert client.error("KV.PUT", "k", n, "FROM", a, k ^ 1, n).startswith("IO ")
        assert client("EXISTS", "k") == 0
        error = client.error("KV.PUT", "k", n, "FROM", a, k, n)
        assert error.startswith("IO ") and "KV.CONNECT RDMA" in error
        assert put(other, "k", memory) == "OK"
        assert client("KV.GET", "k") == memory.bytes, "by the socket it gets on"
        loop.connect(client, peer)
        assert get(client, "k", memory) == n
        assert server.info()["rdma_failed"] == 1
    server.expect_pages_back(free)


def test_no_further_than_the_memory_and_the_right(client, peer):
    client("SET", "k", "v" * 100)
    for rights, offset in ((loop.WRITE, 1), (loop.READ, 0)):
        memory = loop.Memory(peer, 100, rights)
        address, key, length = memory.at(offset, 100)
        assert client.error("KV.GET", "k", "INTO", address, key, length).startswith("IO ")
        assert memory.bytes == bytes(100)
        loop.connect(client, peer)


def test_two_clients_keys_are_their_own(server, peer):
    """Each process's keys are good on its own queue pairs alone."""
    stranger = loop.Peer()
    mine, theirs = loop.Memory(peer, 64), loop.Memory(stranger, 64)
    with server.connect() as one, server.connect() as two:
        loop.connect(one, peer)
        loop.connect(two, stranger)
        one("SET", "k", "s" * 64)
        assert one.error("KV.GET", "k", "INTO", *theirs.words()).startswith("IO ")
        assert two.error("KV.PUT", "stolen", 64, "FROM", *mine.words()).startswith("IO ")
        assert theirs.bytes == bytes(64) and one("EXISTS", "stolen") == 0


def test_failure_in_the_middle_of_a_pipeline(server, control, client, peer):
    free = server.info()["payload_pages_free"]
    count, length = 100, MIB
    memory = loop.Memory(peer, length)
    bad = loop.Memory(peer, length)
    peer.hide(bad.key)
    client.send(
        b"".join(
            resp.encode("KV.PUT", f"k{i}", length, "FROM", *(bad if i == 60 else memory).words())
            for i in range(count)
        )
    )
    replies = []
    for _ in range(count):
        try:
            replies.append(client.read())
        except resp.Error as reason:
            assert str(reason).startswith("IO "), reason
            replies.append("IO")
    assert replies[60] == "IO" and "OK" in replies
    present = [client("EXISTS", f"k{i}") for i in range(count)]
    assert present == [int(reply == "OK") for reply in replies]
    server.expect_pages_back(free)


def test_held_transfers_end_in_time(start, control, peer):
    server = loop.start_server(start, control, rdma_timeout_ms=300)
    free = server.info()["payload_pages_free"]
    memory = loop.Memory(peer, 3 * MIB)
    with server.connect() as client:
        loop.connect(client, peer)
        control(hold=1)
        assert client.error("KV.PUT", "k", 3 * MIB, "FROM", *memory.words()).startswith("IO ")
        control(hold=0)
        loop.connect(client, peer)
        assert put(client, "k", memory) == "OK"
    server.expect_pages_back(free)


@pytest.mark.parametrize("command", ("put", "get"))
def test_a_connection_that_ends_with_work_under_way(server, control, peer, command):
    free = server.info()["payload_pages_free"]
    memory = loop.Memory(peer, 5 * MIB)
    with server.connect() as other:
        other("SET", "k", b"v" * (5 * MIB))
        control(hold=1)
        with server.connect() as client:
            loop.connect(client, peer)
            client.send(
                resp.encode("KV.PUT", "new", 5 * MIB, "FROM", *memory.words())
                if command == "put"
                else resp.encode("KV.GET", "k", "INTO", *memory.words())
            )
            kvserver.wait_until(lambda: control.left("waiting") == 1, "it to be under way")
            assert other("DEL", "k") == 1
            assert server.info()["orphan_values"] == int(command == "get")
            assert server.info()["reserved_values"] == int(command == "put")
        kvserver.wait_until(lambda: server.info()["rdma_clients"] == 0, "the client to go")
        control(hold=0)
        assert memory.bytes == bytes(5 * MIB), "nothing came after its end"
        assert other("EXISTS", "new") == 0
    server.expect_pages_back(free)


KILLED = """if True:
    import sys
    sys.path.insert(0, sys.argv[1])
    import loop, resp
    peer = loop.Peer()
    connection = resp.Connection(int(sys.argv[2]))
    loop.connect(connection, peer)
    memory = loop.Memory(peer, 4 << 20)
    for i in range(20):
        connection.send(resp.encode("KV.PUT", f"new{i}", 4 << 20, "FROM", *memory.words()))
        connection.send(resp.encode("KV.GET", "k", "INTO", *memory.words()))
    print("posted", flush=True)
    connection.read()
"""


@pytest.mark.parametrize("hold", (0, 1))
def test_kill_9_of_a_client_with_work_under_way(server, control, hold):
    free = server.info()["payload_pages_free"]
    with server.connect() as other:
        other("SET", "k", b"v" * (4 * MIB))
        control(hold=hold, delay_ms=5)
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, HERE, str(server.port)], stdout=subprocess.PIPE
        )
        assert child.stdout.readline() == b"posted\n"
        child.send_signal(signal.SIGKILL)
        child.wait(20)
        child.stdout.close()
        kvserver.wait_until(lambda: server.info()["rdma_clients"] == 0, "its queue pair to go")
        control(hold=0)
        assert other("STRLEN", "k") == 4 * MIB
        for i in range(20):
            assert other("STRLEN", f"new{i}") in (0, 4 * MIB)
    server.expect_pages_back(free)


def test_the_client_takes_its_queue_pair_away(server, client, peer):
    client("SET", "k", "v" * 100)
    memory = loop.Memory(peer, 100)
    loop.PAIR.pack_into(peer.table, loop.PAIRS_AT, 0, 0)
    assert client.error("KV.GET", "k", "INTO", *memory.words()).startswith("IO ")
    assert memory.bytes == bytes(100)


# ---- a value that goes while it is sent ----


@pytest.mark.parametrize("way", ("expires", "flushed", "overwritten", "deleted"))
def test_a_value_that_goes_under_way_arrives_whole(server, control, client, peer, way):
    length = 6 * MIB
    payload = payload_of(length)
    memory = loop.Memory(peer, length)
    free = server.info()["payload_pages_free"]
    with server.connect() as other:
        other("SET", "k", payload)
        control(hold=1)
        client.send(resp.encode("KV.GET", "k", "INTO", *memory.words()))
        kvserver.wait_until(lambda: control.left("waiting") == 1, "it to be under way")
        if way == "expires":
            assert other("PEXPIRE", "k", 1) == 1
            kvserver.wait_until(lambda: other("EXISTS", "k") == 0, "it to expire")
        elif way == "flushed":
            assert other("FLUSHALL") == "OK"
        elif way == "overwritten":
            assert other("SET", "k", b"x" * length) == "OK"
        else:
            assert other("DEL", "k") == 1
        # Whatever memory there is is written over.
        for i in range(100):
            other("SET", f"filler{i}", bytes([i]) * (4 * MIB))
        control(hold=0)
        assert client.read() == length
        assert memory.bytes == payload
    server.expect_pages_back(free)


def test_flush_while_a_put_is_under_way(server, control, client, peer):
    memory = loop.Memory(peer, 3 * MIB)
    memory.bytes[:] = payload_of(3 * MIB)
    control(hold=1)
    with server.connect() as other:
        client.send(resp.encode("KV.PUT", "k", 3 * MIB, "FROM", *memory.words()))
        kvserver.wait_until(lambda: server.info()["reserved_values"] == 1, "it to begin")
        assert other("FLUSHALL") == "OK"
        assert other("SET", "k", "other") == "OK"
        control(hold=0)
        assert client.read() == "OK"
        assert other("KV.GET", "k") == memory.bytes, "the put came last"


# ---- the device ----


def test_the_device_goes(server, control, client, peer):
    memory = loop.Memory(peer, 2 * MIB)
    client("SET", "k", b"v" * (2 * MIB))
    control(hold=1)
    client.send(resp.encode("KV.GET", "k", "INTO", *memory.words()))
    control(gone=1)
    with pytest.raises(resp.Error, match="IO "):
        client.read()
    assert "rdma" not in hello(client)
    with pytest.raises(resp.Error, match="the device is gone"):
        loop.connect(client, peer)
    assert client("KV.GET", "k") == b"v" * (2 * MIB)
    assert "is gone" in server.log()


def test_registered_memory_stays(start, control, peer):
    """maxmemory goes down and up again; no page that the device knows is given away meanwhile."""
    server = loop.start_server(start, control, reactors=1, maxmemory="256mb", unixsocket="")
    memory = loop.Memory(peer, 2 * MIB)
    memory.bytes[:] = payload_of(2 * MIB)
    with server.connect() as client:
        loop.connect(client, peer)
        total = server.info()["payload_pages_total"]
        client("CONFIG", "SET", "maxmemory", "160mb")
        kvserver.wait_until(
            lambda: server.info()["payload_pages_total"] < total - 30, "payload to shrink"
        )
        client("CONFIG", "SET", "maxmemory", "256mb")
        kvserver.wait_until(
            lambda: server.info()["payload_pages_total"] == total, "payload to grow again"
        )
        assert client.error("CONFIG", "SET", "maxmemory", "512mb")
        for i in range(total):
            assert put(client, f"k{i}", memory) == "OK"
        into = loop.Memory(peer, 2 * MIB)
        assert get(client, f"k{total - 1}", into) == 2 * MIB
        assert into.bytes == memory.bytes


def test_keys_are_shown_to_nobody(server, client, peer):
    client("CONFIG", "SET", "slowlog-log-slower-than", 0)
    memory = loop.Memory(peer, 4)
    put(client, "k", memory)
    get(client, "k", memory)
    log = repr(client("SLOWLOG", "GET", 100))
    assert "KV.PUT" in log and "INTO" in log
    assert str(memory.key) not in log and str(memory.address) not in log


def test_the_server_stops_with_work_under_way(start, control, peer):
    server = loop.start_server(start, control, shutdown_timeout=0)
    memory = loop.Memory(peer, 2 * MIB)
    with server.connect() as client:
        loop.connect(client, peer)
        control(hold=1)
        client.send(resp.encode("KV.PUT", "k", 2 * MIB, "FROM", *memory.words()))
        kvserver.wait_until(lambda: server.info()["reserved_values"] == 1, "it to begin")
        server.stop()
