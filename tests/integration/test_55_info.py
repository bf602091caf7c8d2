"""INFO: Redis's sections, fields and order, and numbers that are true."""

import shutil
import subprocess

import kvserver
import pytest
import resp

MIB = 1 << 20

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
    return next(
        (part for part in text.split("\r\n\r\n") if part.startswith(f"# {title}\r\n")),
        "",
    )


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
        assert titles(text_of(connection, "everything")) == [
            *titles(redis_text),
            "# Transports",
        ]
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


def test_counts_of_keys_begin_anew_with_resetstat(start):
    with start(reactors=2).connect() as connection:
        for number in range(50):
            connection("SET", f"key:{number}", "v", "PX", "1")
            connection("GET", f"absent:{number}")
            connection("SET", f"stays:{number}", "v")
            connection("GET", f"stays:{number}")
        kvserver.wait_until(
            lambda: fields_of(text_of(connection, "stats"))["expired_keys"] == "50", "expiry"
        )
        assert fields_of(text_of(connection, "stats"))["keyspace_hits"] == "50"
        assert connection("CONFIG", "RESETSTAT") == "OK"
        stats = fields_of(text_of(connection, "stats"))
        for name in ("keyspace_hits", "keyspace_misses", "expired_keys", "evicted_keys"):
            assert stats[name] == "0", name
        assert connection("DBSIZE") == 50


def test_time_of_a_slow_command_is_counted(start):
    with start(reactors=1).connect() as connection:
        connection("DEBUG", "SLEEP", "0.05")
        stats = fields_of(text_of(connection, "commandstats"))
        pairs = dict(pair.split("=") for pair in stats["cmdstat_debug"].split(","))
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
            resp.encode("CLIENT", "REPLY", "SKIP")
            + resp.encode("CONFIG", "SET", "loglevel", "error")
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


def number(server, name):
    return server.info()[name]


@pytest.mark.reactors
def test_channels_are_counted_once(start):
    server = start(reactors=4)
    listeners = [server.connect() for _ in range(8)]
    for i, listener in enumerate(listeners):
        listener("SUBSCRIBE", "for all")
        listener("SUBSCRIBE", f"own:{i}")
        listener("PSUBSCRIBE", "a*")
        listener("SSUBSCRIBE", "shard")
    info = server.info()
    assert info["pubsub_channels"] == 9
    assert info["pubsub_patterns"] == 1
    assert info["pubsubshard_channels"] == 1
    for listener in listeners:
        listener.close()
    kvserver.wait_until(lambda: number(server, "pubsub_channels") == 0, "channels to go")
    assert number(server, "pubsub_patterns") == 0


def test_the_largest_buffers_are_told(start):
    server = start(reactors=2)
    with server.connect() as connection:
        connection("SET", "k", b"x" * MIB * 8)
        with server.connect() as half, server.connect(receive_buffer=8192) as slow:
            half.send(b"*3\r\n$4\r\nMSET\r\n$1\r\nk\r\n$300000\r\n" + b"x" * 200000)
            slow.send(b"GET k\r\n")
            kvserver.wait_until(
                lambda: number(server, "client_recent_max_input_buffer") >= 200000,
                "the input",
            )
            kvserver.wait_until(
                lambda: MIB < number(server, "client_recent_max_output_buffer") <= 8 * MIB + 20,
                "the output",
            )
        kvserver.wait_until(
            lambda: number(server, "client_recent_max_output_buffer") < 100000,
            "the output to go",
        )
        kvserver.wait_until(
            lambda: number(server, "client_recent_max_input_buffer") < 100000,
            "the input to go",
        )


def test_who_waits_for_memory_is_blocked(start):
    server = start(reactors=2, maxmemory="128mb", buffer_memory="16mb")
    assert number(server, "blocked_clients") == 0
    length = number(server, "payload_region_bytes") * 6 // 10
    header = b"*3\r\n$3\r\nSET\r\n$1\r\n%s\r\n$%d\r\n"
    with server.connect() as first, server.connect() as second:
        # Fast enough at first not to be taken for one that has stopped.
        first.send(header % (b"a", length) + b"x" * (20 * MIB))
        kvserver.wait_until(
            lambda: number(server, "uploads_under_way_bytes") == length,
            "the first upload",
        )
        second.send(header % (b"b", length))
        kvserver.wait_until(lambda: number(server, "blocked_clients") == 1, "the second to wait")
    kvserver.wait_until(lambda: number(server, "blocked_clients") == 0, "it to have gone")


def test_background_work_is_counted(start):
    server = start(reactors=2)
    with server.connect() as connection:
        assert float(number(server, "expired_stale_perc")) == 0

        def stale():
            connection.pipeline([("SET", f"k:{i}", "v", "PX", "1") for i in range(500)])
            return float(number(server, "expired_stale_perc")) > 0

        kvserver.wait_until(stale, "keys that have expired to be met")
        kvserver.wait_until(
            lambda: number(server, "expire_cycle_cpu_milliseconds") > 0, "time for it"
        )
        assert number(server, "expired_time_cap_reached_count") >= 0


def test_more_memory_than_allowed_is_told_with_its_time(start):
    server = start(reactors=1, maxmemory="256mb", shm="no")
    with server.connect() as connection:
        assert number(server, "current_eviction_exceeded_time") == 0
        for i in range(150):
            connection("SET", f"k:{i}", b"x" * MIB)
        leases = connection("KV.LEASE", 60000, *[f"k:{i}" for i in range(150)])
        held = [lease[0] for lease in leases if isinstance(lease, list)]
        assert len(held) > 60
        connection("CONFIG", "SET", "maxmemory", "80mb")
        kvserver.wait_until(
            lambda: number(server, "current_eviction_exceeded_time") > 50, "the excess"
        )
        assert connection("KV.RELEASE", *held) == len(held)
        kvserver.wait_until(
            lambda: number(server, "current_eviction_exceeded_time") == 0, "it to end"
        )
        assert number(server, "total_eviction_exceeded_time") > 50


def test_subcommands_have_their_times(start):
    with start(reactors=2).connect() as connection:
        connection("CONFIG", "GET", "port")
        connection("CLIENT", "ID")
        stats = fields_of(text_of(connection, "latencystats"))
        assert stats["latency_percentiles_usec_config|get"].startswith("p50=")
        assert stats["latency_percentiles_usec_client|id"].startswith("p50=")
        assert "latency_percentiles_usec_config" not in stats
        histogram = connection("LATENCY", "HISTOGRAM", "config", "client|id")
        assert histogram[::2] == [b"config|get", b"client|id"] or histogram[::2] == [
            b"client|id",
            b"config|get",
        ]


def test_memory_stats_has_redis_fields_in_redis_order(shared):
    """Its numbers are those of INFO."""
    with shared.connect() as client:
        client("FLUSHALL")
        client.pipeline([("SET", f"k{i}", b"x" * 10000) for i in range(100)])
        reply = client("MEMORY", "STATS")
        stats = dict(zip(reply[::2], reply[1::2]))
        info = fields_of(text_of(client, "MEMORY"))
        names = [name for name in reply[::2] if not name.startswith(b"db.")]
        theirs = """peak.allocated total.allocated startup.allocated replication.backlog
            clients.slaves clients.normal cluster.links aof.buffer lua.caches functions.caches
            overhead.total keys.count keys.bytes-per-key dataset.bytes dataset.percentage
            peak.percentage allocator.allocated allocator.active allocator.resident
            allocator-fragmentation.ratio allocator-fragmentation.bytes allocator-rss.ratio
            allocator-rss.bytes rss-overhead.ratio rss-overhead.bytes fragmentation
            fragmentation.bytes"""
        assert [name.decode() for name in names[:27]] == theirs.split()
        assert stats[b"keys.count"] == 100
        assert stats[b"dataset.bytes"] == int(info["used_memory_dataset"]) == 1000000
        assert abs(stats[b"total.allocated"] - int(info["used_memory"])) < MIB
        assert stats[b"db.0"][0] == b"overhead.hashtable.main"
        assert client("MEMORY", "PURGE") == "OK"
        text = client("MEMORY", "MALLOC-STATS").decode()
        assert "they use 1000000\n" in text


def test_doctor_says_what_is_wrong_with_memory(start):
    server = start(reactors=1, maxmemory="96mb", maxmemory_policy="allkeys-lru")
    with server.connect() as connection:
        assert connection("MEMORY", "DOCTOR").endswith(b"No trouble seen.\n")
        for i in range(120):
            connection("SET", f"k:{i}", b"x" * MIB)
        text = connection("MEMORY", "DOCTOR")
        assert b"The store is full" in text and b"values were evicted" in text
        connection("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert connection.error("SET", "big", b"x" * 4 * MIB).startswith("OOM")
        text = connection("MEMORY", "DOCTOR")
        assert b"there was no memory for a value" in text and b"No trouble" not in text


def test_times_of_commands_are_kept_as_the_options_say(start):
    with start(reactors=2, latency_tracking="no").connect() as connection:

        def told():
            return fields_of(text_of(connection, "latencystats")).get("latency_percentiles_usec_get")

        for _ in range(10):
            connection("GET", "k")
        assert told() is None
        assert connection("LATENCY", "HISTOGRAM", "get") == []
        assert fields_of(text_of(connection, "commandstats"))["cmdstat_get"].startswith("calls=10,")
        connection("CONFIG", "SET", "latency-tracking", "yes")
        connection("GET", "k")
        assert [pair.split("=")[0] for pair in told().split(",")] == ["p50", "p99", "p99.9"]
        connection("CONFIG", "SET", "latency-tracking-info-percentiles", "0.0 75.500 100")
        assert [pair.split("=")[0] for pair in told().split(",")] == ["p0", "p75.5", "p100"]
        assert connection("LATENCY", "HISTOGRAM", "get")[1][:2] == [b"calls", 1]
        names = " ".join(["99.999"] * 16)
        connection("CONFIG", "SET", "latency-tracking-info-percentiles", names)
        assert told().count("p99.999=") == 16
        connection("CONFIG", "SET", "latency-tracking-info-percentiles", "")
        assert told() == ""
        assert connection.error(
            "CONFIG", "SET", "latency-tracking-info-percentiles", "101"
        ).startswith("ERR CONFIG SET failed (possibly related to argument")
