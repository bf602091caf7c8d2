"""INFO: Redis's sections, fields and order, and numbers that are true."""

import shutil
import subprocess

import kvserver
import pytest
import resp

# Fields of Redis that are left out: they count system calls, of which the rings here need none.
LEFT_OUT = {
    "total_reads_processed",
    "total_writes_processed",
    # These threads are all main threads: used_cpu_sys and used_cpu_user say the same.
    "used_cpu_sys_main_thread",
    "used_cpu_user_main_thread",
}
SECTIONS = [
    "Server",
    "Clients",
    "Memory",
    "Persistence",
    "Stats",
    "Replication",
    "CPU",
    "Cluster",
]
# What redis-cli --stat looks for by substring, the first match wins.
LOOKED_FOR = {
    "used_memory": "used_memory",
    "connected_clients": "connected_clients",
    "blocked_clients": "blocked_clients",
    "total_commands_processed": "total_commands_processed",
    "total_connections_received": "total_connections_received",
    "bgsave_in_progress": "rdb_bgsave_in_progress",
    "aof_rewrite_in_progress": "aof_rewrite_in_progress",
    "loading": "loading",
}


def text_of(connection, *sections):
    return connection("INFO", *sections).decode()


def names_of(text):
    return [line.split(":")[0] for line in text.split("\r\n") if ":" in line]


def fields_of(text):
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


@pytest.fixture(scope="module")
def redis_text():
    """INFO everything of a real server."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed")
    ports = kvserver.Ports()
    process = subprocess.Popen(
        [binary, "--port", str(ports.first), "--save", ""],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        kvserver.wait_until(lambda: not ports._free(ports.first), "redis-server to start")
        with resp.Connection(ports.first) as connection:
            yield text_of(connection, "everything")
    finally:
        process.kill()
        process.wait()
        ports.close()


def section_of(text, title):
    return next((part for part in text.split("\r\n\r\n") if part.startswith(f"# {title}\r\n")), "")


@pytest.mark.parametrize("title", SECTIONS)
def test_fields_stand_in_redis_s_order_and_ours_behind(start, redis_text, title):
    with start(reactors=2).connect() as connection:
        ours = names_of(text_of(connection, title))
    wanted = [name for name in names_of(section_of(redis_text, title)) if name not in LEFT_OUT]
    assert wanted, title
    assert ours[: len(wanted)] == wanted


def test_sections_are_redis_s(start, redis_text):
    def titles(text):
        return [line for line in text.split("\r\n") if line.startswith("# ")]

    with start(reactors=2).connect() as connection:
        assert titles(text_of(connection, "everything")) == titles(redis_text)
        default = titles(text_of(connection))
        assert titles(text_of(connection, "default")) == default
        assert "# Commandstats" not in default
        assert "# Modules" not in titles(text_of(connection, "all"))
        assert titles(text_of(connection, "clients", "CPU")) == ["# Clients", "# CPU"]
        assert text_of(connection, "nothing") == ""


def test_no_earlier_line_holds_what_clients_look_for(start):
    with start(reactors=1).connect() as connection:
        text = text_of(connection)
    for bare, field in LOOKED_FOR.items():
        line = text[text.rindex("\n", 0, text.index(f"{bare}:")) + 1 :].split(":")[0]
        assert line == field, bare


def test_commands_are_counted_over_all_reactors(start):
    server = start(reactors=2)
    with server.connect() as first, server.connect() as second:
        for connection in (first, second) * 8:
            connection("SET", "key", "value")
        assert first.error("SET", "key").startswith("ERR wrong number")
        assert first.error("INCR", "key").startswith("ERR value is not an integer")
        assert second.error("NONSENSE").startswith("ERR unknown command")
        stats = fields_of(text_of(first, "commandstats", "errorstats", "latencystats"))
        assert stats["cmdstat_set"].startswith("calls=16,usec=")
        assert stats["cmdstat_set"].endswith("rejected_calls=1,failed_calls=0")
        assert stats["cmdstat_incr"].endswith("rejected_calls=0,failed_calls=1")
        assert stats["errorstat_ERR"] == "count=3"
        assert stats["latency_percentiles_usec_set"].startswith("p50=")
        assert fields_of(text_of(first, "stats"))["total_error_replies"] == "3"
        assert first("CONFIG", "RESETSTAT") == "OK"
        stats = fields_of(text_of(first, "commandstats", "errorstats", "stats"))
        assert "cmdstat_set" not in stats
        assert "errorstat_ERR" not in stats
        assert stats["total_error_replies"] == "0"


def test_time_of_a_slow_command_is_counted(start):
    with start(reactors=1).connect() as connection:
        connection("DEBUG", "SLEEP", "0.05")
        stats = fields_of(text_of(connection, "commandstats"))
        pairs = dict(pair.split("=") for pair in stats["cmdstat_debug|sleep"].split(","))
        assert int(pairs["usec"]) >= 50000


def test_short_values_count_as_copied(start):
    with start(reactors=1).connect() as connection:
        connection("SET", "key", b"x" * 1000)
        connection("GET", "key")
        assert fields_of(text_of(connection, "stats"))["copied_bytes"] == "2000"


def test_loglevel_takes_effect_when_the_reply_is_muted(start):
    server = start(reactors=1)
    with server.connect() as connection:
        connection.socket.sendall(
            resp.encode("CLIENT", "REPLY", "SKIP") + resp.encode("CONFIG", "SET", "loglevel", "error")
        )
        assert connection("PING") == "PONG"
        connection.socket.sendall(resp.encode("SHUTDOWN", "NOSAVE"))
        server.process.wait(30)
    assert "ready to serve" in server.log()
    assert "SHUTDOWN by connection" not in server.log()


def test_used_memory_is_the_sum_of_its_parts(start):
    with start(reactors=2).connect() as connection:
        for number in range(100):
            connection("SET", f"key:{number}", b"v" * 5000)
        memory = {k: v for k, v in fields_of(text_of(connection, "memory")).items()}
        used = int(memory["used_memory"])
        assert used == int(memory["used_memory_overhead"]) + int(memory["used_memory_dataset"])
        assert int(memory["used_memory_dataset"]) == 500000
        assert int(memory["used_memory_peak"]) >= used
