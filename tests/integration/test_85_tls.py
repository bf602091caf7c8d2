"""TLS: stock clients with and without certificates, hostile handshakes, long values, reloading."""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys

import pytest
import redis
import resp
from kvserver import SLOW, run_refused, wait_until

MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="the openssl tool is missing"
)


class Certificates:
    """An authority, certificates from it, and what is wrong in one way each."""

    def __init__(self, folder):
        self.folder = folder
        self.authority("ca")
        self.issue(
            "server", "ca", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1"
        )
        self.issue(
            "other", "ca", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1"
        )
        self.issue("client", "ca", "/CN=client")
        self.authority("foreign")
        self.issue("stranger", "foreign", "/CN=stranger")
        self.issue("expired", "ca", "/CN=expired", days="-1")
        self.run("pkey", "-in", self.key("server"), "-aes128", "-passout", "pass:open sesame",
                 "-out", self.key("locked"))  # fmt: skip

    def run(self, *arguments):
        subprocess.run(
            ["openssl", *map(str, arguments)],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def crt(self, name):
        return str(self.folder / f"{name}.crt")

    def key(self, name):
        return str(self.folder / f"{name}.key")

    def authority(self, name):
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-subj", f"/CN={name}", "-days", "2", "-keyout", self.key(name),
                 "-out", self.crt(name))  # fmt: skip

    def issue(self, name, authority, subject, extension="", days="2"):
        request = self.folder / f"{name}.csr"
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(extension + "\n")
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-subj", subject, "-keyout", self.key(name), "-out", request)  # fmt: skip
        self.run("x509", "-req", "-in", request, "-CA", self.crt(authority),
                 "-CAkey", self.key(authority), "-CAcreateserial", "-days", days,
                 "-extfile", extensions, "-out", self.crt(name))  # fmt: skip

    def options(self, **more):
        return {
            "tls_port": True,
            "tls_cert_file": self.crt("server"),
            "tls_key_file": self.key("server"),
            "tls_ca_cert_file": self.crt("ca"),
            "tls_auth_clients": "optional",
            **more,
        }

    def context(self, client=None, version=None):
        context = ssl.create_default_context(cafile=self.crt("ca"))
        if client:
            context.load_cert_chain(self.crt(client), self.key(client))
        if version:
            context.minimum_version = context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls"))


def connect(server, made, **options):
    options.setdefault("deadline_s", resp.DEADLINE_S * SLOW)
    tls = options.pop("tls", None) or made.context()
    return resp.Connection(server.tls_port, tls=tls, **options)


def dial(server):
    plain = socket.create_connection(
        ("127.0.0.1", server.tls_port), timeout=resp.DEADLINE_S * SLOW
    )
    return plain


def drained(plain):
    """Reads until the server closes."""
    with contextlib.suppress(ConnectionResetError):
        while plain.recv(65536):
            pass


def cli(server, made, *arguments, stdin=b"", client=None, port=None):
    command = [
        "redis-cli",
        "-p",
        str(port or server.tls_port),
        "--tls",
        "--cacert",
        made.crt("ca"),
    ]
    if client:
        command += ["--cert", made.crt(client), "--key", made.key(client)]
    done = subprocess.run(
        [*command, *arguments],
        input=stdin,
        capture_output=True,
        timeout=60 * SLOW,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace").strip()


needs_cli = pytest.mark.skipif(
    shutil.which("redis-cli") is None, reason="redis-cli is missing"
)


# ---- stock clients ----


@needs_cli
def test_redis_cli_speaks_tls(start, made):
    server = start(reactors=2, **made.options())
    assert cli(server, made, "PING") == "PONG"
    assert (
        cli(server, made, "-x", "SET", "k", stdin=b"v" * MIB, client="client") == "OK"
    )
    assert cli(server, made, "STRLEN", "k") == str(MIB)
    assert "tls=TLSv1." in cli(server, made, "CLIENT", "LIST")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("client", [None, "client"])
def test_both_versions_with_and_without_certificate(start, made, version, client):
    server = start(reactors=1, **made.options())
    with connect(server, made, tls=made.context(client, version)) as connection:
        assert connection("SET", "k", "v") == "OK"
        assert connection("GET", "k") == b"v"
        wanted = "TLSv1.2" if version == ssl.TLSVersion.TLSv1_2 else "TLSv1.3"
        assert f"tls={wanted}" in connection("CLIENT", "INFO").decode()


def test_redis_py_over_tls(start, made):
    server = start(reactors=2, **made.options(tls_auth_clients="yes"))
    client = redis.Redis(
        port=server.tls_port,
        ssl=True,
        ssl_ca_certs=made.crt("ca"),
        ssl_certfile=made.crt("client"),
        ssl_keyfile=made.key("client"),
    )
    with client:
        assert client.set("k", b"x" * 300000)
        assert client.get("k") == b"x" * 300000
        with client.pipeline(transaction=False) as pipe:
            for i in range(1000):
                pipe.set(f"k:{i}", i)
            assert all(pipe.execute())
        assert client.mget(f"k:{i}" for i in range(1000)) == [
            b"%d" % i for i in range(1000)
        ]


def test_port_0_leaves_only_tls(start, made):
    server = start(reactors=1, **made.options(port=0))
    with connect(server, made) as connection:
        info = connection("INFO").decode()
    assert f"tcp_port:{server.tls_port}\r\n" in info
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_goodbye_is_said(start, made):
    server = start(reactors=1, **made.options())
    with connect(server, made) as connection:
        connection.send(resp.encode("QUIT"))
        assert connection.read() == "OK"
        assert connection.socket.recv(100) == b""  # an SSLEOFError without close_notify


# ---- payload ----


@pytest.mark.parametrize("length", [1, 16384, 16385, 4 * MIB, 64 * MIB])
def test_values_of_any_length_both_ways(start, made, length):
    server = start(reactors=2, **made.options(maxmemory="512mb"))
    payload = random.Random(length).randbytes(length)
    with connect(server, made) as connection:
        for _ in range(2):
            assert connection("SET", "k", payload) == "OK"
            assert connection("GET", "k") == payload
    with server.connect() as connection:
        assert connection("GET", "k") == payload


def test_long_payload_is_copied_once(start, made):
    """From the record straight to where the value lies."""
    server = start(reactors=1, **made.options())
    with connect(server, made) as connection:
        for i in range(4):
            assert connection("SET", f"k:{i}", b"x" * (4 * MIB)) == "OK"
    info = server.info()
    assert info["upload_bytes"] > 15 * MIB
    assert info["copied_bytes"] < MIB


@pytest.mark.reactors
def test_pipelines_keep_their_order(start, made):
    seed = int(os.environ.get("KVASIR_SEED", random.randrange(1 << 30)))
    print(f"KVASIR_SEED={seed}")
    draw = random.Random(seed)
    server = start(reactors=2, **made.options())
    model = {}
    with connect(server, made) as connection:
        for _ in range(20):
            commands, wanted = [], []
            for _ in range(draw.randrange(1, 60)):
                key = f"k:{draw.randrange(20)}"
                if draw.random() < 0.5:
                    value = draw.randbytes(draw.choice([0, 1, 100, 3000, 17000, 70000]))
                    commands.append(("SET", key, value))
                    model[key] = value
                    wanted.append("OK")
                else:
                    commands.append(("GET", key))
                    wanted.append(model.get(key))
            connection_replies = connection.pipeline(commands)
            assert connection_replies == wanted


def test_bytes_that_dribble_in(start, made):
    server = start(reactors=1, **made.options())
    request = resp.encode("SET", "k", b"v" * 40000) + resp.encode("GET", "k")
    with connect(server, made) as connection:
        for i in range(0, len(request), 997):
            connection.socket.sendall(request[i : i + 997])
        assert connection.read() == "OK"
        assert connection.read() == b"v" * 40000


def test_slow_readers_get_everything(start, made):
    server = start(reactors=1, **made.options())
    payload = random.Random(1).randbytes(8 * MIB)
    with (
        connect(server, made, receive_buffer=8192) as slow,
        connect(server, made) as quick,
    ):
        assert quick("SET", "k", payload) == "OK"
        slow.send(resp.encode("GET", "k") * 3)
        for i in range(50):
            assert quick("SET", f"q:{i}", "v") == "OK"
        assert [slow.read() == payload for _ in range(3)] == [True] * 3


# ---- certificates ----


def refused(server, made, context):
    """The handshake, or with TLS 1.3 the first answer, must fail."""
    with (
        pytest.raises((ssl.SSLError, resp.Closed, ConnectionResetError)),
        connect(server, made, tls=context) as connection,
    ):
        connection("PING")


def test_clients_without_a_good_certificate_are_refused(start, made):
    server = start(reactors=1, **made.options(tls_auth_clients="yes"))
    for client in (None, "stranger", "expired"):
        refused(server, made, made.context(client))
    wait_until(lambda: "peer did not return a certificate" in server.log(), "its line")
    wait_until(
        lambda: "certificate has expired" in server.log(), "the expired one's line"
    )
    assert "unable to get local issuer" in server.log()
    with connect(server, made, tls=made.context("client")) as connection:
        assert connection("PING") == "PONG"
    assert server.info()["tls_handshake_failures"] == 3


def test_protocols_are_chosen(start, made):
    server = start(reactors=1, **made.options(tls_protocols="TLSv1.3"))
    refused(server, made, made.context(version=ssl.TLSVersion.TLSv1_2))
    with connect(server, made) as connection:
        assert connection.socket.version() == "TLSv1.3"
        assert connection("CONFIG", "SET", "tls-protocols", "TLSv1.2") == "OK"
        with connect(server, made) as later:
            assert later.socket.version() == "TLSv1.2"
        assert "TLSv1.1" in connection.error(
            "CONFIG", "SET", "tls-protocols", "TLSv1.1"
        )


def test_ciphers_are_chosen(start, made):
    server = start(
        reactors=1,
        **made.options(
            tls_ciphers="ECDHE-ECDSA-CHACHA20-POLY1305",
            tls_ciphersuites="TLS_CHACHA20_POLY1305_SHA256",
        ),
    )
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with connect(server, made, tls=made.context(version=version)) as connection:
            assert "CHACHA20" in connection.socket.cipher()[0]
            assert connection("PING") == "PONG"


def test_sessions_are_resumed_by_ticket(start, made):
    server = start(reactors=2, **made.options())
    context = made.context(version=ssl.TLSVersion.TLSv1_2)

    def resumed(session):
        with (
            socket.create_connection(("127.0.0.1", server.tls_port)) as plain,
            context.wrap_socket(
                plain, server_hostname="localhost", session=session
            ) as tls,
        ):
            tls.sendall(b"PING\r\n")
            assert tls.recv(100) == b"+PONG\r\n"
            return tls.session_reused, tls.session

    first, session = resumed(None)
    assert not first
    assert all(resumed(session)[0] for _ in range(6))  # on whichever reactor
    with server.connect() as connection:
        assert connection("CONFIG", "SET", "tls-session-caching", "no") == "OK"
    assert not resumed(session)[0]


def test_certificates_are_renewed_without_dropping_anyone(start, made):
    server = start(reactors=2, **made.options())

    def serial():
        with connect(server, made) as connection:
            assert connection("PING") == "PONG"
            return connection.socket.getpeercert()["serialNumber"]

    def answers():
        return sum(connection("PING") == "PONG" for connection in old)

    before = serial()
    with contextlib.ExitStack() as stack:
        old = [stack.enter_context(connect(server, made)) for _ in range(8)]
        admin = stack.enter_context(server.connect())
        for wrong in (
            ("tls-cert-file", "/nowhere.crt"),
            ("tls-cert-file", made.crt("other")),  # the key is not its own
            ("tls-key-file", made.key("other")),
            ("tls-cert-file", made.key("server")),
            ("tls-ca-cert-file", ""),
            ("tls-ciphers", "NO-SUCH"),
        ):
            text = admin.error("CONFIG", "SET", "tls-auth-clients", "yes", *wrong)
            assert text.startswith("ERR CONFIG SET failed - tls-"), text
            assert serial() == before
        assert admin("CONFIG", "GET", "tls-auth-clients") == [
            b"tls-auth-clients",
            b"optional",
        ]
        assert answers() == 8
        pair = ("tls-cert-file", made.crt("other"), "tls-key-file", made.key("other"))
        assert admin("CONFIG", "SET", *pair) == "OK"
        assert all(serial() != before for _ in range(6))
        assert answers() == 8


@pytest.mark.reactors
def test_certificates_are_renewed_under_load(start, made):
    server = start(reactors=2, **made.options())
    with server.connect() as one, server.connect() as two:
        for _ in range(20):
            request = resp.encode("CONFIG", "SET", "tls-cert-file", made.crt("server"))
            one.send(request)
            two.send(request)
            with connect(server, made) as connection:
                assert connection("PING") == "PONG"
            for replies in (one, two):
                reply = replies.read_or_error()
                assert reply == "OK" or "under way" in str(reply)
        assert one("CONFIG", "SET", "tls-cert-file", made.crt("server")) == "OK"


def test_key_with_a_passphrase(start, made):
    locked = made.options(tls_key_file=made.key("locked"))
    server = start(reactors=1, **locked, tls_key_file_pass="open sesame")
    with connect(server, made) as connection:
        assert connection("PING") == "PONG"
    server.stop()
    for passphrase in ("", "wrong"):
        arguments = ["--port", "0", "--tls-port", "1", "--tls-auth-clients", "no"]
        arguments += [
            "--tls-cert-file",
            made.crt("server"),
            "--tls-key-file",
            made.key("locked"),
        ]
        text = run_refused([*arguments, "--tls-key-file-pass", passphrase])
        assert "tls-key-file" in text


@pytest.mark.parametrize(
    "options, words",
    [
        ({"tls-cert-file": "", "tls-key-file": ""}, "tls-cert-file and tls-key-file"),
        ({"tls-cert-file": "/nowhere"}, "No such file"),
        (
            {"tls-auth-clients": "yes", "tls-ca-cert-file": ""},
            "tls-ca-cert-file or tls-ca-cert-dir",
        ),
        ({"tls-protocols": "SSLv3"}, "not 'SSLv3'"),
        ({"tls-ciphersuites": "NONE"}, "tls-ciphersuites 'NONE'"),
        ({"port": "21299", "tls-port": "21299"}, "both 21299"),
    ],
)
def test_what_cannot_be_is_refused_at_start(made, options, words):
    chosen = {
        "port": "0",
        "tls-port": "1",
        "tls-cert-file": made.crt("server"),
        "tls-key-file": made.key("server"),
        "tls-auth-clients": "no",
        **options,
    }
    arguments = [
        word for name, value in chosen.items() for word in (f"--{name}", value)
    ]
    assert words in run_refused(arguments)


# ---- the wrong language, and hostile peers ----


def test_plain_client_on_the_tls_port_is_told(start, made):
    server = start(reactors=1, **made.options())
    with resp.Connection(server.tls_port) as plain:
        assert "speaks TLS" in plain.error("PING")
    wait_until(
        lambda: re.search(r"TLS handshake with 127.* speaks no TLS", server.log()),
        "its line",
    )


def test_tls_client_on_the_plain_port_is_logged(start, made):
    server = start(reactors=1, **made.options())
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        resp.Connection(server.port, tls=made.context())
    wait_until(
        lambda: "this is TLS, which this port does not speak" in server.log(),
        "its line",
    )
    with server.connect() as connection:
        assert connection("PING") == "PONG"


def hello(server, made):
    """A real ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = made.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def hostile_openings(server, made):
    good = hello(server, made)
    huge = b"\x16\x03\x01\xff\xff" + b"\x01\x00\xff\xfb" + b"\0" * 65531
    long_hello = b"\x16\x03\x01\x40\x00" + b"\x01\x01\xff\xff" + b"\0" * 16380
    yield b"\0" * 100
    yield os.urandom(500)
    yield b"\x16" + os.urandom(500)
    yield good[: len(good) // 2] + b"\0" * (len(good) - len(good) // 2)
    yield good[:20] + b"\xff" * 100
    yield huge
    yield long_hello
    yield b"\x16\x03\x01\x00\x01\x01" * 100
    yield b"\x15\x03\x01\x00\x02\x02\x28"
    yield good + b"\x17\x03\x03\xff\xff" + b"\0" * 65535
    yield good + good


def test_hostile_openings_hurt_nobody(start, made):
    server = start(reactors=2, **made.options(tls_handshake_timeout_ms=1000))
    with connect(server, made) as witness:
        for opening in hostile_openings(server, made):
            with dial(server) as plain:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    plain.sendall(opening)
                drained(plain)
            assert witness("PING") == "PONG"
    wait_until(lambda: server.info()["tls_clients"] == 0, "all of them to go")
    assert server.info()["tls_bytes"] == 0


def test_half_a_handshake_meets_its_deadline(start, made):
    server = start(reactors=2, **made.options(tls_handshake_timeout_ms=500))
    good = hello(server, made)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(dial(server)) for _ in range(20)]
        for i, plain in enumerate(waiting):
            plain.sendall(good[: i * len(good) // 20])
        for plain in waiting:
            drained(plain)
    wait_until(lambda: server.info()["tls_clients"] == 0, "them to be forgotten")
    assert server.info()["tls_handshake_failures"] == 20
    assert "tls-handshake-timeout-ms" in server.log()


def test_torn_records_end_the_connection_alone(start, made):
    server = start(reactors=1, **made.options())
    with connect(server, made) as witness:
        for garbage in (
            b"\x17\x03\x03\xff\xff" + b"\0" * 1000,
            b"\x17\x03\x03\x00\x20" + b"x" * 32,
        ):
            with connect(server, made) as connection:
                assert connection("PING") == "PONG"
                raw = socket.socket(fileno=os.dup(connection.socket.fileno()))
                with raw:
                    raw.sendall(garbage)
                    raw.settimeout(20 * SLOW)
                    drained(raw)
        assert witness("PING") == "PONG"


def test_renegotiation_is_refused(start, made):
    server = start(reactors=1, **made.options())
    client = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.tls_port}", "-tls1_2", "-CAfile",
         made.crt("ca")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    with connect(server, made) as witness:
        # "R" at the start of a line has s_client ask for a new handshake.
        client.stdin.write(b"PING\r\n")
        client.stdin.flush()
        wait_until(
            lambda: server.info()["tls_handshakes"] >= 2, "s_client to be connected"
        )
        client.stdin.write(b"R\n")
        client.stdin.flush()
        output, _ = client.communicate(timeout=30 * SLOW)
        assert witness("PING") == "PONG"
    assert b"no renegotiation" in output
    assert server.info()["tls_handshakes"] == 2


def test_share_of_memory_bounds_connections(start, made):
    """16 MiB of buffers for two reactors: 6 MiB, or 64 handshakes at most, for each."""
    server = start(reactors=2, **made.options(buffer_memory="16mb"))
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(dial(server)) for _ in range(200)]
        wait_until(
            lambda: server.info()["rejected_connections"] > 0, "some to be refused"
        )
        info = server.info()
        assert info["tls_bytes"] <= 12 * MIB
        assert len(waiting) == 200
        with server.connect() as plain:
            assert plain("SET", "k", b"x" * MIB) == "OK"
    wait_until(lambda: server.info()["tls_bytes"] == 0, "all to be given back")
    with connect(server, made) as connection:
        assert connection("PING") == "PONG"


CHILD = """
import resp, ssl, sys
port, ca = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=ca)
many = [resp.Connection(port, tls=context) for _ in range(10)]
for connection in many[:5]:
    connection.send(b"*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nk\\r\\n$4000000\\r\\n" + b"x" * 1000000)
for connection in many[5:]:
    connection.send(resp.encode("GET", "big") * 20)
print("there", flush=True)
sys.stdin.read()
"""


def test_killed_clients_leave_nothing(start, made):
    server = start(reactors=2, **made.options())
    pages_free = server.info()["payload_pages_free"]
    with connect(server, made) as connection:
        assert connection("SET", "big", b"y" * (4 * MIB)) == "OK"
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(server.tls_port), made.crt("ca")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)})  # fmt: skip
        assert child.stdout.readline() == b"there\n"
        child.send_signal(signal.SIGKILL)
        child.wait(20)
        child.stdin.close()
        child.stdout.close()
    wait_until(lambda: server.info()["tls_clients"] == 0, "the dead to be noticed")
    server.expect_pages_back(pages_free)


def test_issuers_of_the_own_certificate_are_sent(start, made):
    """A client that knows the root alone gets what lies between from the trust file."""
    made.issue("between", "ca", "/CN=between", "basicConstraints=critical,CA:TRUE")
    made.issue("below", "between", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    trusted = made.folder / "trusted.crt"
    with open(made.crt("between")) as between, open(made.crt("ca")) as root:
        trusted.write_text(between.read() + root.read())
    server = start(
        **made.options(
            tls_cert_file=made.crt("below"),
            tls_key_file=made.key("below"),
            tls_ca_cert_file=str(trusted),
        )
    )
    with connect(server, made) as connection:
        assert connection("PING") == "PONG"


@pytest.mark.reactors
def test_hundreds_of_handshakes_at_once(start, made):
    server = start(reactors=2, **made.options(buffer_memory="96mb", maxmemory="400mb"))
    count = 300
    context = made.context()
    openings = []
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            plain = stack.enter_context(dial(server))
            tls = context.wrap_socket(
                plain, server_hostname="localhost", do_handshake_on_connect=False
            )
            stack.enter_context(tls)
            tls.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            openings.append(tls)
        for tls in openings:
            tls.settimeout(60 * SLOW)
            tls.do_handshake()
        for tls in openings:
            tls.sendall(b"PING\r\n")
        assert all(tls.recv(100) == b"+PONG\r\n" for tls in openings)
        assert server.info()["tls_clients"] == count
    wait_until(lambda: server.info()["tls_clients"] == 0, "all to be gone")


def test_shutdown_ends_open_handshakes(start, made):
    """Long before the deadlines that they would have had."""
    server = start(
        reactors=1,
        **made.options(shutdown_timeout=600, tls_handshake_timeout_ms=600000),
    )
    with dial(server) as half, connect(server, made) as whole:
        half.sendall(hello(server, made)[:30])
        assert whole("PING") == "PONG"
        server.stop()
