"""MONITOR: every reactor's requests are shown, secrets are not, who does not read is cut."""

import re
import shutil
import subprocess

import kvserver
import pytest
import redis
import resp

pytestmark = pytest.mark.reactors

LINE = re.compile(r"(\d+)\.(\d{6}) \[(\d+) (\S+)\] (.*)")


@pytest.fixture(params=[1, 4])
def server(start, request):
    return start(reactors=request.param)


def words(line):
    """What a line shows of the request."""
    match = LINE.fullmatch(line)
    assert match, line
    return match[5]


def monitor(server, **options):
    connection = server.connect(**options)
    assert connection("MONITOR") == "OK"
    return connection


def test_requests_of_every_reactor_are_shown(server):
    with monitor(server) as m:
        clients = [server.connect() for _ in range(8)]
        expected = []
        for i, client in enumerate(clients):
            assert client("sEt", f"k{i}", "v") == "OK"
            expected.append(f'"sEt" "k{i}" "v"')
        assert sorted(words(m.read()) for _ in clients) == sorted(expected)
        names = clients[0].socket.getsockname()
        clients[0].pipeline([("SELECT", 3)] + [("GET", f"k{i}") for i in range(300)])
        lines = [m.read() for _ in range(301)]
        assert words(lines[0]) == '"SELECT" "3"'
        assert [words(line) for line in lines[1:]] == [f'"GET" "k{i}"' for i in range(300)]
        match = LINE.fullmatch(lines[5])
        assert match[3] == "3" and match[4] == f"{names[0]}:{names[1]}"
        for client in clients:
            client.close()


def test_the_time_grows(server):
    with monitor(server) as m, server.connect() as client:
        client.pipeline([("PING",)] * 50)
        times = [float(m.read().split(" ")[0]) for _ in range(50)]
        assert times == sorted(times)


def test_bytes_are_escaped_and_long_arguments_cut(server):
    with monitor(server) as m, server.connect() as client:
        client("SET", b'\x00\xff"\\\n\r\t\a\b~', "x")
        assert words(m.read()) == r'"SET" "\x00\xff\"\\\n\r\t\a\b~" "x"'
        client("SET", "k", b"a" * 3000)
        assert words(m.read()) == f'"SET" "k" "{"a" * 1024}... (1976 more bytes)"'
        client("SET", "k", b"a" * 300000)  # long ones go straight into their value
        assert words(m.read()).endswith('more bytes)"')
        client("DEL", *[f"k{i}" for i in range(200)])
        assert words(m.read()).endswith(' "k126" "... (73 more arguments)"')


def test_secrets_and_admin_commands_are_not_shown(server):
    with monitor(server) as m, server.connect() as client:
        client("ACL", "SETUSER", "eve", "on", ">secret", "+@all", "~*")
        client("CONFIG", "SET", "requirepass", "secret")
        client("CONFIG", "GET", "requirepass")
        client("AUTH", "eve", "secret")
        assert words(m.read()) == '"AUTH" "(redacted)" "(redacted)"'
        client("HELLO", "3", "AUTH", "eve", "secret")
        assert words(m.read()) == '"HELLO" "3" "AUTH" "(redacted)" "(redacted)"'
        client("CONFIG", "SET", "requirepass", "")
        client.error("NOSUCH", "x")
        client.error("GET")
        client("PING")
        assert words(m.read()) == '"PING"'


def test_a_transaction_is_shown_as_it_runs(server):
    with monitor(server) as m, server.connect() as client:
        client("MULTI")
        assert words(m.read()) == '"MULTI"'
        client("SET", "a", "1")
        client("GET", "b")
        client("EXEC")
        assert [words(m.read()) for _ in range(3)] == ['"SET" "a" "1"', '"GET" "b"', '"EXEC"']


def test_a_monitor_does_little_else_until_reset(server):
    with monitor(server) as m, server.connect() as client:
        assert m.error("GET", "k") == "ERR Replica can't interact with the keyspace"
        assert m.error("SET", "k", "v") == "ERR Replica can't interact with the keyspace"
        m.send(resp.encode("MONITOR"))  # says nothing, as in Redis
        m.send(resp.encode("PING"))
        assert m.read() == "PONG"
        assert words(m.read()) == '"PING"'
        assert b"flags=O " in client("CLIENT", "LIST")
        m.send(resp.encode("RESET"))
        assert m.read() == "RESET"
        client("PING")
        assert m("ECHO", "x") == b"x"
        with server.connect() as other:
            other("MULTI")
            other("MONITOR")
            (answer,) = other("EXEC")
            assert str(answer) == "ERR MONITOR isn't allowed for DENY BLOCKING client"


def test_monitor_is_for_administrators(server):
    with server.connect() as client:
        client("ACL", "SETUSER", "bob", "on", "nopass", "+@all", "-@admin", "~*")
        client("AUTH", "bob", "x")
        assert client.error("MONITOR").startswith("NOPERM")
        assert client("ACL", "WHOAMI") == b"bob"


def test_who_does_not_read_is_cut_and_nobody_waits(server):
    with server.connect() as client:
        client("CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 512kb 60")
        slow = monitor(server, receive_buffer=4096)
        before = server.info()["evicted_clients"]
        value = b"x" * 1024
        for _ in range(200):
            client.pipeline([("SET", f"k{i}", value) for i in range(100)])
        assert server.info()["evicted_clients"] > before
        slow.closed()
        slow.close()
        kvserver.wait_until(lambda: server.info()["connected_clients"] == 2, "it to go")
        with monitor(server) as m:
            client("PING")
            while words(m.read()) != '"PING"':
                pass


def test_monitors_come_and_go_beside_requests(server):
    with server.connect() as client:
        for turn in range(30):
            listeners = [server.connect() for _ in range(4)]
            for listener in listeners:
                listener.send(resp.encode("MONITOR"))
            if turn % 2 == 0:
                for listener in listeners:
                    assert listener.read() == "OK"
            client.pipeline([("GET", f"k{i}") for i in range(100)])
            for listener in listeners:
                listener.close()
        kvserver.wait_until(lambda: server.info()["connected_clients"] == 2, "them to go")


def test_redis_py_reads_the_lines(server):
    with redis.Redis(port=server.port) as client, client.monitor() as m, server.connect() as other:
        other("SET", "key with blank", "v")
        command = m.next_command()
        while not command["command"].startswith("SET"):
            command = m.next_command()
        assert command["command"] == "SET key with blank v"
        assert command["client_type"] == "tcp" and command["db"] == 0
        with server.connect(unix=True) as local:
            local("PING")
            command = m.next_command()
            assert command["command"] == "PING" and command["client_type"] == "unix"


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
def test_redis_cli_shows_the_lines(server):
    process = subprocess.Popen(
        ["redis-cli", "-p", str(server.port), "MONITOR"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "OK\n"
        with server.connect() as client:
            client("SET", "a", "b")
        assert process.stdout.readline().endswith('"SET" "a" "b"\n')
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
