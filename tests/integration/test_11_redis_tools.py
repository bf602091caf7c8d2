"""The other modes of redis-cli and redis-benchmark: each runs against a real server, and what it
prints is read."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import kvserver
import pytest

pytestmark = pytest.mark.skipif(
    not (shutil.which("redis-cli") and shutil.which("redis-benchmark")),
    reason="redis-tools is not installed",
)

BENCHMARK_TESTS = ("ping", "set", "get", "incr", "mset")
# What redis-benchmark measures on types that are not here.
OTHER_TYPES = ("lpush", "sadd", "hset", "zadd")


class Terminal:
    """redis-cli on a pseudo terminal, as a person has it."""

    def __init__(self, server, folder, *arguments):
        pid, self.descriptor = pty.fork()
        if pid == 0:
            environment = {
                "TERM": "xterm",
                "HOME": str(folder),
                "PATH": os.environ["PATH"],
            }
            os.execvpe(
                "redis-cli",
                ["redis-cli", "-p", str(server.port), *arguments],
                environment,
            )
        self.pid = pid
        self.text = b""
        # Without a width it asks the terminal, and nobody answers.
        size = struct.pack("HHHH", 25, 120, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)

    def send(self, text):
        os.write(self.descriptor, text)

    def expect(self, wanted, deadline_s=20):
        """Reads until a pattern is there, and forgets what came up to its end."""
        end = time.monotonic() + deadline_s * kvserver.SLOW
        while not (found := re.search(wanted, self.text)):
            left = end - time.monotonic()
            assert left > 0, f"waited for {wanted} in vain, got {self.text}"
            if select.select([self.descriptor], [], [], left)[0]:
                self.text += os.read(self.descriptor, 65536)
        self.text = self.text[found.end() :]
        return found

    def close(self):
        """Ctrl-D on an empty line ends it; what does not end is killed."""
        self.send(b"\x15\x04")
        try:
            kvserver.wait_until(self._ended, "redis-cli to end with its input")
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise
        finally:
            os.close(self.descriptor)

    def _ended(self):
        if select.select([self.descriptor], [], [], 0)[0]:
            try:
                os.read(self.descriptor, 65536)
            except OSError:
                pass
        return os.waitpid(self.pid, os.WNOHANG) != (0, 0)


def first_lines(server, count, *arguments, deadline_s=20, prefix=()):
    """The first lines of a mode that goes on until it is ended."""
    command = [*prefix, "redis-cli", "-p", str(server.port), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        os.set_blocking(process.stdout.fileno(), False)
        text = b""
        end = time.monotonic() + deadline_s * kvserver.SLOW
        while text.count(b"\n") < count:
            left = end - time.monotonic()
            if left <= 0 or process.poll() is not None:
                break
            if select.select([process.stdout], [], [], min(left, 0.5))[0]:
                text += process.stdout.read() or b""
        process.terminate()
        process.wait(10)
    assert text.count(b"\n") >= count, text
    return text


def run_tool(*command, deadline_s=30, check=True):
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=deadline_s * kvserver.SLOW,
        check=False,
        text=True,
    )
    assert not check or done.returncode == 0, done.stdout
    return done.stdout


def cli(server, *arguments, **options):
    return run_tool("redis-cli", "-p", server.port, *arguments, **options)


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_a_person_types(start, tmp_path, protocol):
    server = start(reactors=2)
    terminal = Terminal(server, tmp_path, *(["-3"] if protocol == "-3" else []))
    try:
        prompt = rb"127\.0\.0\.1:%d" % server.port
        for typed, answer in (
            (b'set person "some text"', rb"OK\r\n"),
            (b"get person", rb'"some text"\r\n'),
            (b"set person x", rb"OK\r\n"),
            (b"strlen person", rb"\(integer\) 1\r\n"),
            (b"help getex", rb"summary:"),
            (b"select 3", rb"OK\r\n"),
        ):
            # What is typed before the prompt is there is thrown away by the line editor.
            terminal.expect(prompt + rb"> ")
            terminal.send(typed + b"\r")
            terminal.expect(answer)
        terminal.expect(prompt + rb"\[3\]> ")
    finally:
        terminal.close()


def test_latency_history(start):
    text = first_lines(start(reactors=2), 2, "--latency-history", "-i", "1", "--raw")
    for line in text.splitlines()[:2]:
        assert re.match(rb"^[\d.]+ [\d.]+ [\d.]+ \d+", line), text


def test_latency_distribution(start):
    text = first_lines(start(reactors=2), 3, "--latency-dist", "-i", "1")
    assert b"\x1b[48;5;" in text and b"rror" not in text, text


def test_stat(start):
    server = start(reactors=2)
    with server.connect() as connection:
        for i in range(7):
            connection("SET", f"stat:{i}", "x")
    rows = first_lines(server, 4, "--stat", "-i", "0.1").splitlines()
    keys, memory, clients = rows[2].split()[:3]
    assert (int(keys), int(clients)) == (7, 1), rows
    assert re.fullmatch(rb"[\d.]+[BKMG]", memory), rows


# Without an LFU policy the counter is how often a key was read; with one it begins at 5 and grows slowly.
@pytest.mark.parametrize(
    "policy, counter", [("prefix", "20"), ("allkeys-lfu", "([5-9]|1[0-9]|2[0-5])")]
)
def test_hot_keys_finds_the_hot_one(start, policy, counter):
    server = start(reactors=2, maxmemory_policy=policy)
    with server.connect() as connection:
        for i in range(5):
            connection("SET", f"hot:{i}", "x")
        for _ in range(20):
            connection("GET", "hot:3")
    text = cli(server, "--hotkeys")
    assert "Sampled 5 keys in the keyspace!" in text, text
    assert re.search(f'hot key found with counter: {counter}\tkeyname: "hot:3"', text), text


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_modes_in_both_protocols(start, protocol):
    server = start(reactors=2)
    options = ["-3"] if protocol == "-3" else []
    with server.connect() as connection:
        for i in range(50):
            connection("SET", f"key:{i}", "x" * i)
    assert len(cli(server, *options, "--scan").split()) == 50
    assert "Sampled 50 keys in the keyspace!" in cli(server, *options, "--bigkeys")
    assert "Sampled 50 keys in the keyspace!" in cli(server, *options, "--memkeys")
    assert len(cli(server, *options, "--latency", "--raw", "-i", "0.2").split()) == 4
    rows = first_lines(server, 4, *options, "--stat", "-i", "0.1").splitlines()
    assert rows[2].split()[0] == b"50", rows


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_what_people_read_is_not_quoted(start, protocol):
    server = start(reactors=2)
    options = ["--no-raw"] + (["-3"] if protocol == "-3" else [])
    for command, words in (
        (("INFO", "server"), "redis_version:"),
        (("CLIENT", "LIST"), "addr=127.0.0.1:"),
        (("CLIENT", "INFO"), "addr=127.0.0.1:"),
        (("MEMORY", "DOCTOR"), "Payload memory: "),
        (("MEMORY", "MALLOC-STATS"), "payload: "),
        (("LATENCY", "DOCTOR"), "Latency is not monitored"),
    ):
        text = cli(server, *options, *command)
        assert words in text and "\\n" not in text and not text.startswith('"'), text


def test_replies_as_json(start):
    server = start(reactors=2)
    assert json.loads(cli(server, "-3", "--json", "CONFIG", "GET", "databases")) == {
        "databases": "16"
    }
    hello = json.loads(cli(server, "-3", "--json", "HELLO", "3"))
    assert hello["proto"] == 3 and hello["role"] == "master"
    assert json.loads(cli(server, "-3", "--json", "MGET", "absent")) == [None]


@pytest.mark.parametrize("protocol", ["-2", "-3"])
@pytest.mark.parametrize(
    "command, publish, kinds",
    [
        (("SUBSCRIBE", "news"), "PUBLISH", ["subscribe", "message"]),
        (("PSUBSCRIBE", "n?ws"), "PUBLISH", ["psubscribe", "pmessage"]),
        (("SSUBSCRIBE", "news"), "SPUBLISH", ["ssubscribe", "smessage"]),
    ],
)
def test_messages_are_shown(start, protocol, command, publish, kinds):
    server = start(reactors=2)
    options = ["-3"] if protocol == "-3" else []
    with subprocess.Popen(
        ["stdbuf", "-oL", "redis-cli", "-p", str(server.port), *options, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            # Kind, channel or pattern, and how many there are now.
            shown = [process.stdout.readline().strip('1234567890) "\n') for _ in range(3)]
            assert shown[0] == kinds[0] and shown[1] == command[1], shown
            with server.connect() as connection:
                assert connection(publish, "news", "some text") == 1
            shown = [process.stdout.readline() for _ in range(4 if "pmessage" in kinds else 3)]
            assert kinds[1] in shown[0] and "some text" in shown[-1], shown
        finally:
            process.terminate()
            process.wait(10)


def test_a_person_sees_the_state_of_the_connection(start, tmp_path):
    server = start(reactors=2)
    terminal = Terminal(server, tmp_path)
    try:
        prompt = rb"127\.0\.0\.1:%d" % server.port
        for before, typed, answer in (
            (rb"> ", b"select 3", rb"OK\r\n"),
            (rb"\[3\]> ", b"multi", rb"OK\r\n"),
            (rb"\[3\]\(TX\)> ", b"set a 1", rb"QUEUED\r\n"),
            (rb"\[3\]\(TX\)> ", b"exec", rb"1\) OK\r\n"),
            (rb"\[3\]> ", b"reset", rb"RESET\r\n"),
            (rb"> ", b"exists a", rb"\(integer\) 0\r\n"),
        ):
            terminal.expect(prompt + before)
            terminal.send(typed + b"\r")
            terminal.expect(answer)
        terminal.expect(prompt + rb"> ")
    finally:
        terminal.close()


@pytest.mark.parametrize("command", ["check", "info"])
def test_tools_for_clusters_say_that_there_is_none(start, command):
    server = start(reactors=2)
    text = cli(server, "--cluster", command, f"127.0.0.1:{server.port}", check=False)
    assert "is not configured as a cluster node" in text, text
    assert cli(server, "-c", "SET", "a", "1") == "OK\n"


def test_scripts_are_refused_clearly(start, tmp_path):
    script = tmp_path / "one.lua"
    script.write_text("return 1")
    text = cli(start(reactors=2), "--eval", script, "a", ",", "b", check=False)
    assert text.startswith("ERR no scripts or functions run here"), text


def test_simulated_least_recently_used_load(start):
    # Its lines are flushed to a terminal only.
    text = first_lines(
        start(reactors=2), 2, "--lru-test", "1000", prefix=("stdbuf", "-oL")
    )
    assert re.search(rb"\d+ Gets/sec \| Hits: \d+ \(", text), text


@pytest.mark.parametrize(
    "mode", [("--rdb", "dump.rdb"), ("--replica",), ("--functions-rdb", "f")]
)
def test_replication_is_refused_clearly(start, tmp_path, mode):
    server = start(reactors=2)
    options = [mode[0], *(str(tmp_path / name) for name in mode[1:])]
    text = cli(server, *options, check=False)
    assert "ERR" in text, text
    assert cli(server, "PING") == "PONG\n"


@pytest.mark.reactors
@pytest.mark.parametrize(
    "options",
    [
        ("-q",),
        ("--csv",),
        ("-q", "-3"),
        ("-q", "-P", "32", "-r", "10000"),
        ("-q", "--threads", "2"),
        ("-q", "-c", "500"),
        ("-q", "-d", "30000", "-c", "8"),
        ("-q", "-k", "0", "-c", "8"),
    ],
    ids=" ".join,
)
def test_benchmark_modes(start, options):
    server = start(reactors=2)
    count = "1000" if kvserver.SANITIZE or "-k" in options else "10000"
    names = ",".join(BENCHMARK_TESTS)
    text = run_tool(
        "redis-benchmark",
        "-p",
        server.port,
        "-n",
        count,
        "-t",
        names,
        *options,
        deadline_s=60,
    )
    rate = (
        r'^"%s[^"]*","([\d.]+)"'
        if "--csv" in options
        else r"^%s[^:\r]*: ([\d.]+) requests"
    )
    for name in ("PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET"):
        found = re.search(rate % name, text.replace("\r", "\n"), re.MULTILINE)
        assert found and float(found[1]) > 0, text
    assert "rror" not in text.replace("WARNING: Could not fetch server CONFIG", ""), (
        text
    )
    assert server.info()["total_error_replies"] == 0


def benchmark(server, *options, check=True):
    text = run_tool("redis-benchmark", "-p", server.port, "-n", "500", *options, check=check)
    return text.replace("\r", "\n")


def test_benchmark_by_socket_password_database_and_command(start):
    server = start(reactors=2, requirepass="secret")
    login = ("-a", "secret", "-q")
    for options in (
        ("-s", server.socket, "-t", "get"),
        ("--user", "default", "-t", "get"),
        ("--dbnum", "3", "-r", "1000", "SET", "k:__rand_int__", "v"),
        ("--precision", "3", "-P", "4", "-t", "set"),
    ):
        text = benchmark(server, *login, *options)
        assert re.search(r": [\d.]+ requests per second", text), text
        assert "rror" not in text.replace("WARNING: Could not fetch server CONFIG", ""), text
    keys = cli(server, "-a", "secret", "--no-auth-warning", "-n", "3", "DBSIZE")
    assert 100 < int(keys) <= 500
    text = benchmark(server, "-q", "-t", "get", check=False)
    assert "NOAUTH" in text, text


def test_benchmark_of_idle_clients(start):
    server = start(reactors=2)
    with subprocess.Popen(
        ["redis-benchmark", "-p", str(server.port), "-c", "100", "-I"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            kvserver.wait_until(
                lambda: server.info()["connected_clients"] > 100, "the idle clients"
            )
        finally:
            process.terminate()
            process.wait(10)


def test_benchmark_of_tracking_says_that_there_is_none(start):
    text = benchmark(start(reactors=2), "-q", "-t", "get", "--enable-tracking", check=False)
    assert "ERR CLIENT TRACKING ON is not supported" in text, text


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_benchmark_of_an_absent_type_says_so(start, name):
    server = start(reactors=2)
    text = run_tool(
        "redis-benchmark", "-p", server.port, "-n", "100", "-q", "-t", name, check=False
    )
    assert f"ERR unknown command '{name}'" in text.lower().replace(
        "err unknown", "ERR unknown"
    ), text


def test_benchmark_of_a_cluster_is_refused_clearly(start):
    server = start(reactors=2)
    text = run_tool(
        "redis-benchmark",
        "-p",
        server.port,
        "-n",
        "100",
        "-q",
        "-t",
        "set",
        "--cluster",
        check=False,
    )
    assert "luster" in text and "ERR" in text, text
    assert cli(server, "PING") == "PONG\n"


def test_credentials_database_and_protocol_in_one_burst(start):
    """memtier_benchmark sends its whole greeting before it reads the first reply."""
    server = start(reactors=2, requirepass="secret")
    command = [
        "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n",
        "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n",
    ]
    command += ["*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "*1\r\n$4\r\nPING\r\n"]
    with kvserver.resp.Connection(server.port) as connection:
        connection.send("".join(command).encode())
        replies = [connection.read() for _ in command]
    assert replies[:2] == ["OK", "OK"]
    assert replies[3] == "PONG"
