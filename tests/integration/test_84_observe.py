"""SLOWLOG, LATENCY, and the statistics of commands and errors, over several reactors."""

import kvserver
import pytest

pytestmark = pytest.mark.reactors


@pytest.fixture(params=[1, 4])
def server(start, request):
    return start(reactors=request.param)


def lines_of(connection, *sections):
    text = connection("INFO", *sections).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def test_slowlog_over_all_reactors(server):
    connections = [server.connect() for _ in range(8)]
    first = connections[0]
    assert first("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "12") == "OK"
    first("SLOWLOG", "RESET")
    for number, connection in enumerate(connections):
        connection("CLIENT", "SETNAME", f"c{number}")
        connection("GET", f"key:{number}")
    entries = first("SLOWLOG", "GET", "-1")
    assert len(entries) == 12
    assert first("SLOWLOG", "LEN") == 12
    assert len({entry[0] for entry in entries}) == 12, "no id is used twice"
    assert [entry[1] for entry in entries] == sorted((entry[1] for entry in entries), reverse=True)
    # The latest request of the last connection.
    assert entries[0][3] == [b"GET", b"key:7"]
    assert entries[0][5] == b"c7"
    assert b":" in entries[0][4]
    assert len(first("SLOWLOG", "GET")) == 10
    assert first("SLOWLOG", "GET", 0) == []
    first("CONFIG", "SET", "slowlog-log-slower-than", "-1")
    first("SLOWLOG", "RESET")
    assert first("SLOWLOG", "LEN") == 0
    assert first.error("SLOWLOG", "GET", "-2").startswith("ERR count")
    for connection in connections:
        connection.close()


def test_slowlog_hides_passwords(server):
    with server.connect() as connection:
        connection("CONFIG", "SET", "slowlog-log-slower-than", "0")
        connection.error("AUTH", "some", "secret-word")
        connection("CONFIG", "SET", "requirepass", "secret-word")
        connection("HELLO", "2", "AUTH", "default", "secret-word")
        entries = connection("SLOWLOG", "GET", "-1")
    assert b"secret-word" not in b" ".join(word for entry in entries for word in entry[3])
    assert [b"AUTH", b"(redacted)", b"(redacted)"] in [entry[3] for entry in entries]


def test_slow_request_is_found(server):
    with server.connect() as connection:
        connection(
            "CONFIG", "SET", "slowlog-log-slower-than", "20000", "latency-monitor-threshold", "20"
        )
        connection("DEBUG", "SLEEP", "0.05")
        entries = connection("SLOWLOG", "GET")
        assert [b"DEBUG", b"SLEEP", b"0.05"] in [entry[3] for entry in entries]
        assert all(entry[2] >= 20000 for entry in entries)
        latest = {event[0]: event[1:] for event in connection("LATENCY", "LATEST")}
        assert latest[b"command"][1] >= 50
        assert latest[b"command"][2] >= latest[b"command"][1]
        history = connection("LATENCY", "HISTORY", "command")
        assert history[-1][1] >= 50
        assert b"command" in connection("LATENCY", "GRAPH", "command")
        assert b"command" in connection("LATENCY", "DOCTOR")
        assert connection("LATENCY", "RESET", "nothing") == 0
        assert connection("LATENCY", "RESET", "command") == 1
        assert connection("LATENCY", "HISTORY", "command") == []
        assert connection.error("LATENCY", "GRAPH", "command").startswith("ERR No samples")


def test_command_statistics(server):
    with server.connect() as connection:
        connection("CONFIG", "RESETSTAT")
        connection.pipeline([("SET", f"k{i}", "v") for i in range(100)])
        connection("SET", "text", "abc")
        for _ in range(3):
            connection.error("INCR", "text")
        connection.error("GET")
        facts = lines_of(connection, "commandstats", "errorstats", "latencystats")
        assert facts["cmdstat_set"].startswith("calls=101,usec=")
        assert facts["cmdstat_set"].endswith("rejected_calls=0,failed_calls=0")
        assert facts["cmdstat_incr"].endswith("rejected_calls=0,failed_calls=3")
        assert facts["cmdstat_get"].startswith("calls=0,")
        assert facts["cmdstat_get"].endswith("rejected_calls=1,failed_calls=0")
        assert facts["errorstat_ERR"] == "count=4"
        assert facts["latency_percentiles_usec_set"].startswith("p50=")
        assert lines_of(connection, "stats")["total_error_replies"] == "4"
        assert "cmdstat_set" not in lines_of(connection)
        assert "cmdstat_set" in lines_of(connection, "all")
        histogram = connection("LATENCY", "HISTOGRAM", "set")
        assert histogram[0] == b"set"
        assert histogram[1][:2] == [b"calls", 101]
        buckets = histogram[1][3]
        assert buckets[-1] == 101, "the last bucket counts all"
        assert buckets[1::2] == sorted(buckets[1::2])


def test_statistics_of_a_command_that_waits_for_other_reactors(server):
    with server.connect() as connection:
        connection("CONFIG", "RESETSTAT")
        connection("MSET", *[word for i in range(2000) for word in (f"k{i}", "v")])
        assert connection("DEL", *[f"k{i}" for i in range(2000)]) == 2000
        facts = lines_of(connection, "commandstats")
        assert facts["cmdstat_mset"].startswith("calls=1,")
        assert facts["cmdstat_del"].startswith("calls=1,")
    kvserver.wait_until(server.nothing_held, "nothing to be held")
