"""The same-host path over the wire: who may have it, what can be done with the descriptors, and what
reservations, commits and leases answer."""

import ctypes
import errno
import fcntl
import mmap
import os
import subprocess
import sys

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20
BLOCK = 64 << 10


@pytest.fixture
def server(start):
    return start(reactors=2)


class Memory:
    """A connection with shared memory, and its two mappings."""

    def __init__(self, server, *options):
        self.connection = server.connect(unix=True)
        reply = self.connection("KV.CONNECT", "SHM", *options)
        self.facts = dict(zip((name.decode() for name in reply[::2]), reply[1::2]))
        self.region_fd, self.staging_fd = self.connection.descriptors
        self.region = mmap.mmap(self.region_fd, self.facts["region_bytes"], prot=mmap.PROT_READ)
        self.staging = mmap.mmap(self.staging_fd, self.facts["staging_bytes"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.region.close()
        self.staging.close()
        for descriptor in self.connection.descriptors:
            os.close(descriptor)
        self.connection.close()

    def __call__(self, *words):
        return self.connection(*words)

    def error(self, *words):
        return self.connection.error(*words)

    def write(self, pieces, payload):
        done = 0
        for offset, length in zip(pieces[::2], pieces[1::2]):
            self.staging[offset : offset + length] = payload[done : done + length]
            done += length
        assert done == len(payload)

    def read(self, pieces):
        return b"".join(self.region[o : o + n] for o, n in zip(pieces[::2], pieces[1::2]))

    def put(self, key, payload, *options):
        reply = self("KV.RESERVE", key, len(payload), *options)
        if reply == "EXISTS":
            return reply
        self.write(reply[2], payload)
        return self("KV.COMMIT", reply[0])


def checksum_of(server, payload):
    """XXH3-64 in hexadecimal, by the installed library."""
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        pytest.skip("libxxhash is not installed")
    library.XXH3_64bits.restype = ctypes.c_uint64
    return f"{library.XXH3_64bits(payload, ctypes.c_size_t(len(payload))):016x}"


def test_connect_over_tcp_is_refused(server):
    with server.connect() as connection:
        assert connection.error("KV.CONNECT", "SHM").startswith("UNSUPPORTED ")
        assert connection.error("KV.RESERVE", "k", 10).startswith("UNSUPPORTED ")
        assert connection("PING") == "PONG"


def test_connect_arguments(server):
    with server.connect(unix=True) as connection:
        assert connection.error("KV.CONNECT", "RDMA").startswith("UNSUPPORTED ")
        assert connection.error("KV.CONNECT", "SHM", "STAGING").startswith("ERR syntax")
        assert connection.error("KV.CONNECT", "SHM", "SIZE", 100000).startswith("ERR syntax")
        for bad in ("x", -1, 0, BLOCK - 1, 64 * MIB + 1, 1 << 62, "99999999999999999999"):
            error = connection.error("KV.CONNECT", "SHM", "STAGING", bad)
            assert error.startswith("TOOLARGE ") and "shm-staging-max" in error
        assert connection.descriptors == []
        assert connection("KV.CONNECT", "SHM", "STAGING", BLOCK)[5] == BLOCK
        assert len(connection.descriptors) == 2
        assert connection.error("KV.CONNECT", "SHM").startswith("EXISTS ")
        for descriptor in connection.descriptors:
            os.close(descriptor)


def test_switched_off(start):
    server = start(shm="no")
    with server.connect(unix=True) as connection:
        assert connection.error("KV.CONNECT", "SHM").startswith("UNSUPPORTED ")


def test_password_is_asked_for_first(start):
    server = start(requirepass="secret")
    with resp.Connection(server.socket) as connection:
        assert connection.error("KV.CONNECT", "SHM").startswith("NOAUTH ")
        assert connection.descriptors == []
    with server.connect(unix=True) as connection:
        assert connection("KV.CONNECT", "SHM")
        assert len(connection.descriptors) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_denied(start):
    server = start(unixsocketperm="777")
    server.folder.chmod(0o755)
    code = (
        "import sys, socket; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'KV.CONNECT SHM\\r\\nSET by:other 1\\r\\n'); s.settimeout(10); d = b'';\n"
        "while d.count(b'\\r\\n') < 2 and not d.startswith(b'*'): d += s.recv(4096)\n"
        "sys.stdout.buffer.write(d)"
    )

    def ask():
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        command = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            python,
            "-c",
            code,
        ]
        return subprocess.run(
            [*command, str(server.socket)], capture_output=True, check=True
        ).stdout

    assert ask().startswith(b"-DENIED user id 65534 may not use shared memory; add it to shm-uid")
    with server.connect() as connection:
        assert connection("GET", "by:other") == b"1", "other commands are served"
        assert connection("CONFIG", "SET", "shm-uid", "1,65534") == "OK"
        assert ask().startswith(b"*12\r\n")
        connection("CONFIG", "SET", "shm-uid", "6553,655340")
        assert ask().startswith(b"-DENIED ")
        connection("CONFIG", "SET", "shm-uid", "*")
        assert ask().startswith(b"*12\r\n")


def test_payload_cannot_be_written(server):
    with Memory(server) as memory:
        with pytest.raises(PermissionError):
            mmap.mmap(memory.region_fd, 4096)
        with pytest.raises(PermissionError):
            mmap.mmap(memory.region_fd, 4096, prot=mmap.PROT_WRITE)
        with pytest.raises(OSError):
            os.pwrite(memory.region_fd, b"x", 0)
        with pytest.raises(OSError):
            os.ftruncate(memory.region_fd, 0)
        # A read-only mapping cannot be made writable.
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        address = library.mmap(
            None,
            ctypes.c_size_t(4096),
            mmap.PROT_READ,
            mmap.MAP_SHARED,
            memory.region_fd,
            ctypes.c_long(0),
        )
        assert (
            library.mprotect(
                ctypes.c_void_p(address), ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE
            )
            == -1
        )
        assert ctypes.get_errno() == errno.EACCES
        library.munmap(ctypes.c_void_p(address), ctypes.c_size_t(4096))


def test_payload_cannot_be_reopened_for_writing(server):
    """Not even by the way of /proc, where modes are checked anew; root passes any mode, so that the
    other user is asked."""
    code = """if True:
        import mmap, os, socket, sys, array
        s = socket.socket(socket.AF_UNIX)
        s.connect(sys.argv[1])
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        s.sendall(b"KV.CONNECT SHM\\r\\n")
        data, messages, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(32))
        numbers = array.array("i")
        for _, _, body in messages:
            numbers.frombytes(body)
        for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
            try:
                descriptor = os.open("/proc/self/fd/%d" % numbers[0], flags)
                os.pwrite(descriptor, b"x", 0)
                print("WRITTEN")
            except OSError as error:
                print("refused", error.errno)
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(server.socket)], capture_output=True, check=True, text=True
    )
    assert done.stdout.count("refused") == 3, done.stdout + done.stderr


def test_payload_is_sealed_against_writing_by_anyone(server):
    """Root may open what it likes; a seal holds for it, too, where the kernel has the right one."""
    with Memory(server) as memory:
        seals = fcntl.fcntl(memory.region_fd, fcntl.F_GET_SEALS)
        assert seals & fcntl.F_SEAL_SHRINK and seals & fcntl.F_SEAL_GROW
        try:
            descriptor = os.open(f"/proc/self/fd/{memory.region_fd}", os.O_RDWR)
        except OSError:
            return
        try:
            with pytest.raises(OSError):
                os.ftruncate(descriptor, 0)
            with pytest.raises(OSError):
                mmap.mmap(descriptor, 4096)
        finally:
            os.close(descriptor)


def test_staging_cannot_be_truncated(server):
    with Memory(server) as memory:
        for length in (0, 4096, memory.facts["staging_bytes"] + 4096):
            with pytest.raises(PermissionError):
                os.ftruncate(memory.staging_fd, length)
        with pytest.raises(PermissionError):
            fcntl.fcntl(memory.staging_fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        punch = ctypes.CDLL(None).fallocate(
            memory.staging_fd, 3, ctypes.c_long(0), ctypes.c_long(memory.facts["staging_bytes"])
        )
        assert punch in (0, -1)
        # Whatever the client does to its own area, the server lives.
        assert memory.put("after", b"x" * 100000) == "OK"
        assert memory("PING") == "PONG"


@pytest.mark.parametrize("length", [0, 1, 100, 65536, 65537, 1 * MIB, 5 * MIB + 333])
def test_put_and_read_in_place(server, length):
    payload = os.urandom(length)
    with Memory(server) as memory:
        assert memory.put("k", payload) == "OK"
        assert memory("GET", "k") == payload
        ((lease, size, checksum, pieces),) = memory("KV.LEASE", 1000, "k")
        assert (size, checksum) == (length, None)
        assert memory.read(pieces) == payload
        assert memory("KV.RELEASE", lease) == 1
        assert memory("KV.RELEASE", lease) == 0


def test_what_is_read_stays_while_leased(server):
    first, second = os.urandom(3 * MIB), os.urandom(3 * MIB)
    with Memory(server) as memory, server.connect() as other:
        other("SET", "k", first)
        ((lease, _, _, pieces),) = memory("KV.LEASE", 30000, "k")
        other("SET", "k", second)
        other("DEL", "k")
        for i in range(30):
            other("SET", f"fill:{i}", os.urandom(MIB))
        assert memory.read(pieces) == first
        assert server.info()["orphan_values"] == 1
        memory("KV.RELEASE", lease)
        kvserver.wait_until(server.nothing_held, "the orphan to go")


@pytest.mark.parametrize("length", [200_000, 9 * MIB + 5])
def test_checksum_right_and_wrong(server, length):
    payload = os.urandom(length)
    right = checksum_of(server, payload)
    with Memory(server) as memory:
        grant = memory("KV.RESERVE", "k", len(payload))
        memory.write(grant[2], payload)
        wrong = f"{int(right, 16) ^ 1:x}"
        assert memory.error("KV.COMMIT", grant[0], wrong).startswith("CORRUPT ")
        assert memory("EXISTS", "k") == 0
        assert memory.error("KV.COMMIT", grant[0], right).startswith("NOTFOUND "), "it is gone"
        grant = memory("KV.RESERVE", "k", len(payload))
        memory.write(grant[2], payload)
        assert memory("KV.COMMIT", grant[0], right) == "OK"
        assert memory("KV.LEASE", 1000, "k")[0][2] == right.encode()
        grant = memory("KV.RESERVE", "k2", 10)
        assert memory.error("KV.COMMIT", grant[0], "not hex").startswith("ERR ")
        assert memory("KV.ABORT", grant[0]) == 1
    kvserver.wait_until(server.nothing_held, "nothing left")


def test_abort(server):
    pages = server.info()["payload_pages_free"]
    with Memory(server) as memory:
        grant = memory("KV.RESERVE", "k", 3 * MIB)
        assert server.info()["reserved_values"] == 1
        assert memory("KV.ABORT", grant[0]) == 1
        assert memory.error("KV.ABORT", grant[0]).startswith("NOTFOUND ")
        assert memory.error("KV.COMMIT", grant[0]).startswith("NOTFOUND ")
        assert memory("EXISTS", "k") == 0
    server.expect_pages_back(pages)


def test_reservation_of_another_connection(server):
    with Memory(server) as memory, Memory(server) as thief, server.connect(unix=True) as bare:
        grant = memory("KV.RESERVE", "k", 100)
        for command in ("KV.COMMIT", "KV.ABORT"):
            assert thief.error(command, grant[0]).startswith("NOTFOUND ")
            assert bare.error(command, grant[0]).startswith("UNSUPPORTED ")
            for number in (0, 1, 1 << 40, (1 << 64) - 1):
                assert thief.error(command, number).startswith("NOTFOUND ")
            assert thief.error(command, "x").startswith("NOTFOUND ")
        memory.write(grant[2], b"a" * 100)
        assert memory("KV.COMMIT", grant[0]) == "OK"
        ((lease, *_),) = memory("KV.LEASE", 60000, "k")
        assert thief("KV.RELEASE", lease) == 0, "leases, too, are their connection's own"
        assert memory("KV.RELEASE", lease) == 1


def test_staging_is_used_up(server):
    with Memory(server, "STAGING", 4 * BLOCK) as memory:
        assert memory.error("KV.RESERVE", "long", 4 * BLOCK + 1).startswith("TOOLARGE ")
        grants = [memory("KV.RESERVE", f"k{i}", BLOCK) for i in range(4)]
        assert memory.error("KV.RESERVE", "k4", 1).startswith("BUSY ")
        offsets = sorted(offset for grant in grants for offset in grant[2][::2])
        assert offsets == [0, BLOCK, 2 * BLOCK, 3 * BLOCK], "none has another's"
        memory("KV.ABORT", grants[1][0])
        memory("KV.ABORT", grants[3][0])
        grant = memory("KV.RESERVE", "two", 2 * BLOCK)
        assert sorted(grant[2][::2]) == [BLOCK, 3 * BLOCK], "pieces need not be neighbours"
        payload = os.urandom(2 * BLOCK)
        memory.write(grant[2], payload)
        assert memory("KV.COMMIT", grant[0]) == "OK"
        assert memory("GET", "two") == payload


def test_many_reservations(server):
    with Memory(server) as memory:
        replies = memory.connection.pipeline([("KV.RESERVE", f"k{i}", 1) for i in range(300)])
        given = [reply for reply in replies if isinstance(reply, list)]
        assert len(given) == 256
        assert str(replies[-1]).startswith("BUSY ")
        done = memory.connection.pipeline([("KV.COMMIT", grant[0]) for grant in given])
        assert done == ["OK"] * 256


def test_all_staging_of_a_reactor(start):
    server = start(shm_staging_total="4mb")
    half = ("STAGING", 2 * MIB)
    with Memory(server, *half), Memory(server, *half), server.connect(unix=True) as connection:
        error = connection.error("KV.CONNECT", "SHM", "STAGING", BLOCK)
        assert error.startswith("BUSY ") and "shm-staging-total" in error
    kvserver.wait_until(lambda: server.info()["staging_bytes"] == 0, "the areas to go")
    with Memory(server, "STAGING", 4 * MIB) as memory:
        assert memory("PING") == "PONG"


def test_lease_expires(server):
    with Memory(server) as memory, server.connect() as other:
        memory("SET", "k", os.urandom(100000))
        ((lease, *_),) = memory("KV.LEASE", 150, "k")
        assert memory("KV.STAT", "k")[17] == 1
        other("DEL", "k")
        assert server.info()["orphan_values"] == 1
        kvserver.wait_until(server.nothing_held, "the lease to expire")
        assert server.info()["expired_grants"] == 1
        assert memory("KV.RELEASE", lease) == 0
        for bad in (0, -1, "x", 60001):
            assert memory.error("KV.LEASE", bad, "k").startswith("ERR ")


def test_reservation_expires(server):
    pages = server.info()["payload_pages_free"]
    with Memory(server) as memory:
        grant = memory("KV.RESERVE", "k", 3 * MIB, "TIMEOUT", 150)
        assert 0 < grant[1] <= 150
        memory.write(grant[2], b"z" * (3 * MIB))
        kvserver.wait_until(lambda: server.info()["reservations"] == 0, "it to expire")
        assert memory.error("KV.COMMIT", grant[0]).split()[0] in ("NOTFOUND", "EXPIRED")
        assert memory("EXISTS", "k") == 0
        assert memory.put("k", b"again" * 1000) == "OK", "its staging blocks are free again"
    server.expect_pages_back(pages)


def test_put_of_a_key_that_is_there(server):
    with Memory(server) as memory:
        assert memory.put("k", b"first") == "OK"
        assert memory.put("k", b"second", "NX") == "EXISTS"
        assert memory("GET", "k") == b"first"
        assert memory.put("k", b"third") == "OK"
        assert memory("GET", "k") == b"third"
        # Somebody else stores it between RESERVE and COMMIT.
        grant = memory("KV.RESERVE", "n", 4, "NX")
        with server.connect() as other:
            other("SET", "n", "theirs")
        memory.write(grant[2], b"ours")
        assert memory("KV.COMMIT", grant[0]) == "EXISTS"
        assert memory("GET", "n") == b"theirs"
    kvserver.wait_until(server.nothing_held, "nothing left")


def test_committed_value_is_the_stores_own(server):
    """What the client writes into its area afterwards does not change the value."""
    payload = os.urandom(MIB)
    with Memory(server) as memory:
        grant = memory("KV.RESERVE", "k", MIB)
        memory.write(grant[2], payload)
        assert memory("KV.COMMIT", grant[0]) == "OK"
        memory.write(grant[2], b"\xff" * MIB)
        assert memory("GET", "k") == payload


def test_pipelined_puts(server):
    values = [os.urandom(300000 + i) for i in range(40)]
    with Memory(server) as memory:
        grants = memory.connection.pipeline(
            [("KV.RESERVE", f"p:{i}", len(value)) for i, value in enumerate(values)]
        )
        for grant, value in zip(grants, values):
            memory.write(grant[2], value)
        commits = [("KV.COMMIT", grant[0]) for grant in grants]
        mixed = [word for commit in commits for word in (commit, ("PING",))]
        assert memory.connection.pipeline(mixed) == ["OK", "PONG"] * 40
        leases = memory("KV.LEASE", 5000, *[f"p:{i}" for i in range(41)])
        assert leases[40] is None
        for lease, value in zip(leases, values):
            assert memory.read(lease[3]) == value
        assert memory("KV.RELEASE", *[lease[0] for lease in leases[:40]]) == 40


def test_connect_without_its_reply_is_refused(server):
    """Descriptors would go with the reply to another command, to a client that does not expect them."""
    with server.connect(unix=True) as connection:
        connection.send(resp.encode("CLIENT", "REPLY", "SKIP") + resp.encode("KV.CONNECT", "SHM"))
        assert connection("PING") == "PONG"
        assert not connection.descriptors
        assert server.info()["staging_bytes"] == 0
        assert connection("KV.CONNECT", "SHM")
        assert len(connection.descriptors) == 2
        connection.send(resp.encode("CLIENT", "REPLY", "SKIP") + resp.encode("KV.CONNECT", "RING"))
        assert connection("PING") == "PONG"
        for descriptor in connection.descriptors:
            os.close(descriptor)
