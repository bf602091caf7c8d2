"""DEBUG: who may use it, one reply of each kind, keys that expire only when they are asked for; and
keys that stay during CLIENT PAUSE."""

import kvserver
import pytest

pytestmark = pytest.mark.reactors

KEYS = [f"key:{number}" for number in range(16)]  # some in each shard


@pytest.fixture(params=[1, 4])
def server(start, request):
    return start(reactors=request.param)


def expired_keys(connection):
    text = connection("INFO", "stats").decode()
    return int(text.split("expired_keys:")[1].split()[0])


def test_protocol_kinds(server):
    with server.connect() as connection:
        connection("HELLO", 3)
        assert connection("DEBUG", "PROTOCOL", "map") == {0: False, 1: True, 2: False}
        assert connection("DEBUG", "PROTOCOL", "double") == 3.141
        assert connection("DEBUG", "PROTOCOL", "null") is None
        assert connection("DEBUG", "PROTOCOL", "true") is True
        connection("HELLO", 2)
        assert connection("DEBUG", "PROTOCOL", "bignum") == b"1234567999999999999999999999999999999"
        assert connection("DEBUG", "PROTOCOL", "attrib").startswith(b"Some real reply")
        assert "RESP2 is not supported" in connection.error("DEBUG", "PROTOCOL", "push")
        assert "Wrong protocol type" in connection.error("DEBUG", "PROTOCOL", "nothing")


def test_error_of_any_text(server):
    with server.connect() as connection:
        assert connection.error("DEBUG", "ERROR", "LOADING fake\r\nmessage") == "LOADING fake  message"
        assert connection.error("DEBUG", "ERROR", "x" * 1000) == "x" * 128
        assert connection.error("DEBUG", "ERROR", "") == ""
        assert connection("PING") == "PONG"


def test_object(server):
    with server.connect() as connection:
        connection("SET", "key", "x" * 45)
        text = connection("DEBUG", "OBJECT", "key")
        assert "encoding:raw serializedlength:45 " in text
        assert connection.error("DEBUG", "OBJECT", "absent") == "ERR no such key"


def test_bad_arguments(server):
    with server.connect() as connection:
        assert "Try DEBUG HELP" in connection.error("DEBUG", "nothing")
        assert "Try DEBUG HELP" in connection.error("DEBUG", "SLEEP")
        assert "from 0 to 60" in connection.error("DEBUG", "SLEEP", "61")
        assert "not an integer" in connection.error("DEBUG", "SET-ACTIVE-EXPIRE", "no")


@pytest.mark.parametrize("who", ["yes", "local"])
def test_allowed(start, who):
    with start(enable_debug_command=who).connect() as connection:
        assert connection("DEBUG", "SLEEP", "0") == "OK"


def test_not_allowed(start):
    with start(enable_debug_command="no").connect() as connection:
        for subcommand in (["HELP"], ["SLEEP", "0"], ["OBJECT", "key"], ["nothing"]):
            assert "DEBUG command not allowed" in connection.error("DEBUG", *subcommand)


def test_keys_stay_without_active_expiry(server):
    with server.connect() as connection:
        assert connection("DEBUG", "SET-ACTIVE-EXPIRE", 0) == "OK"
        for key in KEYS:
            connection("SET", key, "value", "PX", 1)
        connection("SET", "other", "value", "PX", 2000)
        # Each round of the walk takes less than a second.
        kvserver.wait_until(lambda: connection("TTL", "other") == -2, "another key to expire")
        assert connection("DBSIZE") == len(KEYS)
        assert connection("MGET", *KEYS) == [None] * len(KEYS)
        assert connection("DBSIZE") == 0
        assert connection("DEBUG", "SET-ACTIVE-EXPIRE", 1) == "OK"
        connection("SET", "key", "value", "PX", 1)
        kvserver.wait_until(lambda: connection("DBSIZE") == 0, "the key to go by itself")


def test_active_expiry_in_a_transaction(server):
    with server.connect() as connection:
        connection("MULTI")
        connection("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        connection("DEBUG", "OBJECT", "absent")
        answers = connection("EXEC")
        assert answers[0] == "OK"
        assert "no such key" in str(answers[1])


def test_keys_stay_during_a_pause(server):
    with server.connect() as connection:
        before = expired_keys(connection)
        connection("MULTI")
        for key in KEYS:
            connection("SET", key, "value", "PX", 1500)
        connection("CLIENT", "PAUSE", 100000, "WRITE")
        connection("EXEC")
        kvserver.wait_until(lambda: connection("EXISTS", *KEYS) == 0, "the keys to expire")
        assert connection("MGET", *KEYS) == [None] * len(KEYS)
        assert connection("KEYS", "*") == []
        assert connection("DBSIZE") == len(KEYS)
        assert expired_keys(connection) == before
        assert connection("CLIENT", "UNPAUSE") == "OK"
        kvserver.wait_until(lambda: connection("DBSIZE") == 0, "the keys to go by themselves")
        assert expired_keys(connection) == before + len(KEYS)
