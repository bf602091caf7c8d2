"""redis-cli and redis-benchmark, as an operator uses them."""

import json
import re
import shutil
import subprocess

import kvserver
import pytest

pytestmark = pytest.mark.skipif(
    not (shutil.which("redis-cli") and shutil.which("redis-benchmark")),
    reason="redis-tools is not installed",
)


def cli(server, *arguments, stdin=b"", deadline_s=20, check=True):
    """What redis-cli prints."""
    done = subprocess.run(
        ["redis-cli", "-p", str(server.port), *arguments],
        input=stdin,
        capture_output=True,
        timeout=deadline_s * kvserver.SLOW,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_shot_commands(shared):
    assert cli(shared, "SET", "cli:a", "value") == b"OK\n"
    assert cli(shared, "GET", "cli:a") == b"value\n"
    assert cli(shared, "GET", "cli:absent") == b"\n"
    assert cli(shared, "--no-raw", "DEL", "cli:a", "cli:absent") == b"(integer) 1\n"
    assert b"ERR unknown command 'NOSUCH'" in cli(shared, "NOSUCH", "x")


def test_unix_socket_and_database(shared):
    through_socket = ["redis-cli", "-s", str(shared.socket), "-n", "3"]
    assert subprocess.check_output([*through_socket, "SET", "cli:db", "3"]) == b"OK\n"
    assert cli(shared, "-n", "3", "GET", "cli:db") == b"3\n"
    assert cli(shared, "GET", "cli:db") == b"\n"


def test_resp3(shared):
    hello = cli(shared, "-3", "--no-raw", "HELLO", "3")
    assert b'3# "proto" => (integer) 3' in hello or b'"proto" => (integer) 3' in hello
    assert cli(shared, "-3", "SET", "cli:3", "x") == b"OK\n"
    assert cli(shared, "-3", "--no-raw", "GET", "cli:absent") == b"(nil)\n"
    assert b"redis_version:" in cli(shared, "-3", "INFO", "server")


def test_keys_with_spaces_quotes_and_bytes(shared):
    lines = b'SET "key with  spaces" "a \\"b\\" \\x00\\xff"\nGET "key with  spaces"\nSTRLEN "key with  spaces"\n'
    out = cli(shared, "--no-raw", stdin=lines)
    assert out == b'OK\n"a \\"b\\" \\x00\\xff"\n(integer) 8\n'


def test_value_from_standard_input(shared):
    payload = bytes(range(256)) * 4000
    assert cli(shared, "-x", "SET", "cli:x", stdin=payload) == b"OK\n"
    assert cli(shared, "GET", "cli:x") == payload + b"\n"


def test_pipe_mode(shared):
    count = 5000
    lines = b"".join(b"SET cli:pipe:%d %d\r\n" % (i, i) for i in range(count))
    out = cli(shared, "--pipe", stdin=lines)
    assert b"errors: 0, replies: %d" % count in out
    assert cli(shared, "GET", "cli:pipe:4999") == b"4999\n"


def test_pipe_mode_counts_errors(shared):
    out = cli(shared, "--pipe", stdin=b"SET cli:p 1\r\nNOSUCH\r\nSET cli:p 2\r\n", check=False)
    assert b"errors: 1, replies: 3" in out


def test_scan(shared):
    cli(shared, "--pipe", stdin=b"".join(b"SET cli:scan:%d x\r\n" % i for i in range(500)))
    keys = cli(shared, "--scan", "--pattern", "cli:scan:*").split()
    assert sorted(keys) == sorted(b"cli:scan:%d" % i for i in range(500))


def test_bigkeys_and_memkeys(start):
    server = start(reactors=2)
    cli(server, "-x", "SET", "cli:big", stdin=b"b" * 300000)
    cli(server, "--pipe", stdin=b"".join(b"SET cli:k:%d x\r\n" % i for i in range(200)))
    out = cli(server, "--bigkeys")
    assert b"Sampled 201 keys" in out
    assert re.search(rb"Biggest string found \W*cli:big\W* has 300000 bytes", out), out
    out = cli(server, "--memkeys")
    assert re.search(rb"Biggest string found \W*cli:big\W* has 3\d{5} bytes", out), out


def test_stat_and_latency(shared):
    # --stat never ends by itself: its first rows are read, then it is ended.
    with subprocess.Popen(
        ["redis-cli", "-p", str(shared.port), "--stat", "-i", "0.1"], stdout=subprocess.PIPE
    ) as process:
        rows = [process.stdout.readline() for _ in range(4)]
        process.terminate()
        process.wait(10)
    assert b"keys" in rows[1] and b"clients" in rows[1]
    assert re.match(rb"^\d+\s+[\d.]+[BKMG]?\s+\d+", rows[2]), rows
    out = cli(shared, "--latency", "--raw", "-i", "0.3")
    low, high, mean, samples = map(float, out.split())
    assert low <= mean <= high and samples >= 1


def test_help_and_hints(shared):
    # The table of help comes from COMMAND DOCS when the session is interactive.
    out = cli(shared, stdin=b"help get\nhelp KV.MATCH\n")
    assert b"GET" in out and b"KV.MATCH" in out and out.count(b"summary:") == 2, out


def test_command_reports(shared):
    count = int(cli(shared, "COMMAND", "COUNT"))
    assert count > 60
    listed = cli(shared, "COMMAND", "LIST").split()
    assert len([name for name in listed if b"|" not in name]) == count
    assert b"client|list" in listed, "with the subcommands, as in Redis"
    assert b"KV.MATCH" in cli(shared, "COMMAND", "DOCS", "KV.MATCH").upper()


# What the stock clients send, together.
WANTED = """PING ECHO AUTH HELLO SELECT QUIT RESET CLIENT CLIENT|ID CLIENT|GETNAME CLIENT|SETNAME
CLIENT|SETINFO CLIENT|LIST CLIENT|INFO CLIENT|KILL CLIENT|NO-EVICT CLIENT|NO-TOUCH CLIENT|REPLY
CLIENT|TRACKING CLIENT|PAUSE CLIENT|UNPAUSE COMMAND COMMAND|COUNT COMMAND|DOCS COMMAND|INFO COMMAND|LIST
COMMAND|GETKEYS CONFIG|GET CONFIG|SET CONFIG|RESETSTAT CONFIG|REWRITE INFO DBSIZE TIME ROLE LOLWUT GET
SET SETEX PSETEX SETNX GETEX GETDEL GETSET MGET MSET STRLEN GETRANGE SETRANGE APPEND INCR DECR INCRBY
DECRBY EXISTS DEL UNLINK TOUCH TYPE TTL PTTL EXPIRE PEXPIRE EXPIREAT PERSIST EXPIRETIME RENAME SCAN KEYS
RANDOMKEY OBJECT|FREQ OBJECT|IDLETIME OBJECT|ENCODING OBJECT|REFCOUNT MEMORY|USAGE MEMORY|STATS
MEMORY|DOCTOR DEBUG LATENCY|LATEST LATENCY|HISTORY LATENCY|RESET LATENCY|DOCTOR SLOWLOG|GET SLOWLOG|LEN
SLOWLOG|RESET MONITOR FLUSHDB FLUSHALL WAIT SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE
SUNSUBSCRIBE PUBLISH SPUBLISH MULTI EXEC DISCARD WATCH UNWATCH CLUSTER READONLY READWRITE ASKING EVAL
EVALSHA SCRIPT FUNCTION MODULE|LIST"""


def test_commands_that_stock_clients_send_are_there(shared):
    listed = set(cli(shared, "COMMAND", "LIST").decode().upper().split())
    assert set(WANTED.split()) - listed == set()
    names = [name.lower() for name in WANTED.split()]
    told = json.loads(cli(shared, "-3", "--json", "COMMAND", "INFO", *names))
    assert [entry[0] for entry in told] == names
    # Clients that route by keys read ten facts of each.
    assert all(len(entry) == 10 for entry in told)


@pytest.mark.parametrize("command", ["REPLCONF", "MIGRATE", "LPUSH", "XADD", "BGSAVE"])
def test_what_is_absent_answers_one_clear_error(shared, command):
    text = cli(shared, command, "a", "b")
    assert text.startswith(b"ERR unknown command '%s'" % command.encode()) and b"absent" in text
    assert text.strip().count(b"\n") == 0, text


def test_password(start):
    server = start(requirepass="s3 cret")
    assert b"NOAUTH" in cli(server, "GET", "a")
    assert cli(server, "-a", "s3 cret", "--no-auth-warning", "SET", "a", "1") == b"OK\n"
    assert b"WRONGPASS" in cli(server, "-a", "wrong", "--no-auth-warning", "AUTH", "wrong")


@pytest.mark.reactors
@pytest.mark.parametrize("options", [("-P", "1"), ("-P", "16"), ("-3", "-P", "4", "-d", "20000")])
def test_benchmark(start, options):
    server = start(reactors=2)
    count = "4000" if kvserver.SANITIZE else "20000"
    command = ["redis-benchmark", "-p", str(server.port), "-n", count, "-c", "20", "-q", "--csv"]
    out = subprocess.run(
        [*command, "-t", "ping,set,get,incr,mset", "-r", "1000", *options],
        capture_output=True,
        timeout=60 * kvserver.SLOW,
        check=True,
        text=True,
    )
    rates = dict(re.findall(r'^"([A-Z_]+)[^"]*","([\d.]+)"', out.stdout, re.MULTILINE))
    assert {"SET", "GET", "INCR", "MSET", "PING_INLINE", "PING_MBULK"} <= set(rates), out.stdout
    assert all(float(rate) > 0 for rate in rates.values())
    assert "rror" not in out.stdout + out.stderr
    assert server.info()["total_error_replies"] == 0


def test_help_shows_the_arguments(shared):
    text = cli(shared, stdin=b"help set\nhelp mset\nhelp kv.match\nhelp client kill\n").decode()
    text = re.sub(r"\x1b\[\d+m", "", text)
    assert "SET key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds" in text
    assert "MSET key value [key value ...]" in text
    assert "KV.MATCH [PIN milliseconds] [POLICY PREFIX|SUFFIX|EACH] key [key ...]" in text
    assert "CLIENT KILL ip:port|[ID client-id] [TYPE type] [USER username]" in text
