"""Users and what they may do: AUTH, ACL, protected mode, shared memory; changes reach every reactor."""

import socket
import subprocess
import threading

import kvserver
import pytest
import resp

NOPERM_KEY = "NOPERM this user has no permissions to access one of the keys used as arguments"
REACTORS = pytest.mark.parametrize("reactors", [1, 4])


def as_user(server, name, password="x", **options):
    connection = server.connect(**options)
    assert connection("AUTH", name, password) == "OK"
    return connection


def noperm(command):
    return f"NOPERM this user has no permissions to run the '{command}' command"


@REACTORS
def test_a_user_may_what_the_rules_say(start, reactors):
    server = start(reactors=reactors)
    with server.connect() as admin:
        rules = (">x", "on", "+@read", "+set", "+config|get", "%R~r:*", "~rw:*", "(+del ~gone)")
        assert admin("ACL", "SETUSER", "alice", *rules) == "OK"
        admin("SET", "r:1", "one")
        with as_user(server, "alice") as alice:
            assert alice.error("PING") == noperm("ping")
            assert alice("GET", "r:1") == b"one"
            assert alice.error("GET", "other") == NOPERM_KEY
            assert alice.error("SET", "r:1", "two") == NOPERM_KEY
            assert alice("SET", "rw:1", "two", "GET") is None
            assert alice("DEL", "gone") == 0
            assert alice.error("DEL", "rw:1") == NOPERM_KEY
            assert alice.error("CONFIG", "SET", "timeout", "5") == noperm("config|set")
            assert alice.error("MGET", "r:1", "r:2", "w:1") == NOPERM_KEY


@REACTORS
def test_changed_rules_apply_at_once_everywhere(start, reactors):
    """Connections on all reactors, while another one changes the rules again and again."""
    server = start(reactors=reactors)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "bob", "on", ">x", "~*", "+get", "+client")
        clients = [as_user(server, "bob") for _ in range(16)]
        for allow in (False, True) * 10:
            assert admin("ACL", "SETUSER", "bob", "+get" if allow else "-get") == "OK"
            for client in clients:
                if allow:
                    assert client("GET", "k") is None
                else:
                    assert client.error("GET", "k") == noperm("get")
        for client in clients:
            client.close()


@REACTORS
def test_concurrent_changes_leave_all_reactors_alike(start, reactors):
    """Several connections change one user at once: whatever comes last, all reactors have the same."""
    server = start(reactors=reactors)

    def change(letter):
        with server.connect() as connection:
            for i in range(40):
                connection("ACL", "SETUSER", "eve", "resetkeys", f"~{letter}:{i}")
                connection("ACL", "SETUSER", f"user{letter}{i}", "on")
                assert connection("ACL", "DELUSER", f"user{letter}{i}") == 1

    threads = [threading.Thread(target=change, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lists = set()
    for _ in range(16):
        with server.connect() as connection:
            lists.add(tuple(connection("ACL", "LIST")))
    assert len(lists) == 1
    assert len(lists.pop()) == 2


@REACTORS
def test_deleting_a_user_ends_its_connections(start, reactors):
    server = start(reactors=reactors)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "gone", "on", ">x", "+@all", "~*")
        clients = [as_user(server, "gone") for _ in range(8)]
        assert admin("ACL", "DELUSER", "gone", "nobody") == 1
        for client in clients:
            assert client.closed() == b""
        assert admin("PING") == "PONG"
        assert admin.error("ACL", "DELUSER", "default") == (
            "ERR The 'default' user cannot be removed"
        )
        admin("ACL", "SETUSER", "self", "on", ">x", "+@all", "~*")
        with as_user(server, "self") as client:
            assert client("ACL", "DELUSER", "self") == 1
            assert client.closed() == b""


def test_passwords_are_binary_and_never_shown(start):
    server = start(reactors=2, loglevel="debug")
    with server.connect() as admin:
        secret = b"pa\x00ss\r\nword"
        admin("ACL", "SETUSER", "bin", "on", b">" + secret, "+ping")
        with server.connect() as client:
            assert client.error("AUTH", "bin", "pa").startswith("WRONGPASS")
            assert client("AUTH", "bin", secret) == "OK"
            assert client("PING") == "PONG"
        assert admin.error("ACL", "SETUSER", "bin", "<sesame-open").startswith(
            "ERR Error in ACL SETUSER modifier '<': "
        )
        assert admin("CONFIG", "SET", "requirepass", b"abc\x00def") == "OK"
        assert admin("CONFIG", "GET", "requirepass") == [b"requirepass", b"abc\x00def"]
        with server.connect() as client:
            assert client.error("GET", "k") == "NOAUTH Authentication required."
            assert client.error("AUTH", "abc").startswith("WRONGPASS")
            assert client("AUTH", b"abc\x00def") == "OK"
        assert admin("CONFIG", "SET", "requirepass", "") == "OK"
        with server.connect() as client:
            assert client("PING") == "PONG"
    assert "sesame" not in server.log()


def test_hello_and_reset_change_the_user(start):
    server = start(reactors=1)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "h", "on", ">x", "+ping", "+acl|whoami")
        with server.connect() as client:
            assert client.error("HELLO", "3", "AUTH", "h", "y").startswith("WRONGPASS")
            client("HELLO", "2", "AUTH", "h", "x")
            assert client("ACL", "WHOAMI") == b"h"
            assert client.error("GET", "k") == noperm("get")
            assert client("RESET") == "RESET"
            assert client("ACL", "WHOAMI") == b"default"


@REACTORS
def test_log_counts_what_was_denied(start, reactors):
    server = start(reactors=reactors, acllog_max_len=4)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "l", "on", ">x", "+get", "~a")
        for _ in range(3):
            with as_user(server, "l") as client:
                assert client.error("GET", "b") == NOPERM_KEY
        entries = admin("ACL", "LOG")
        assert len(entries) == 1
        entry = dict(zip(entries[0][::2], entries[0][1::2]))
        assert entry[b"count"] == 3
        assert entry[b"reason"] == b"key" and entry[b"object"] == b"b"
        assert entry[b"username"] == b"l" and b"user=l " in entry[b"client-info"]
        assert b" cmd=get " in entry[b"client-info"]
        with as_user(server, "l") as client:
            for i in range(10):
                client.error("GET", f"k{i}")
        assert len(admin("ACL", "LOG", "100")) == 4
        assert admin("ACL", "LOG", "RESET") == "OK"
        assert admin("ACL", "LOG") == []


@REACTORS
def test_denials_are_counted_by_kind_and_reset(start, reactors):
    server = start(reactors=reactors)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "c", "on", ">x", "+get", "+publish", "~a", "&news")
        with as_user(server, "c") as client:
            client.error("SET", "a", "v")
            for _ in range(2):
                client.error("GET", "b")
            client.error("PUBLISH", "other", "text")
        with server.connect() as client:
            client.error("AUTH", "c", "wrong")

        def counts():
            info = server.info()
            kinds = ("auth", "cmd", "key", "channel")
            return [info[f"acl_access_denied_{kind}"] for kind in kinds]

        assert counts() == [1, 1, 2, 1]
        assert admin("CONFIG", "RESETSTAT") == "OK"
        assert counts() == [0, 0, 0, 0]


def test_log_tells_a_transaction(start):
    """When the command is queued, and when it was permitted then and is not any more."""
    server = start(reactors=2)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "t", "on", ">x", "+get", "+incr", "+multi", "+exec", "~*")

        def latest():
            entry = admin("ACL", "LOG")[0]
            entry = dict(zip(entry[::2], entry[1::2]))
            return entry[b"context"], entry[b"object"]

        with as_user(server, "t") as client:
            client.error("SET", "k", "v")
            assert latest() == (b"toplevel", b"set")
            client("MULTI")
            client.error("SET", "k", "v")
            assert latest() == (b"multi", b"set")
            client.error("EXEC")
            client("MULTI")
            assert client("INCR", "n") == "QUEUED"
            admin("ACL", "SETUSER", "t", "-incr")
            client("EXEC")
            assert latest() == (b"multi", b"incr")


@REACTORS
@pytest.mark.parametrize(
    "command, rules",
    [
        (("SUBSCRIBE", "news:1"), ("resetchannels", "&news:2")),
        (("PSUBSCRIBE", "news:*"), ("resetchannels", "&news:1")),
        (("SSUBSCRIBE", "news:1"), ("resetchannels",)),
    ],
    ids=lambda value: value[0],
)
def test_who_listens_is_cut_when_a_rule_revokes_the_channel(start, reactors, command, rules):
    server = start(reactors=reactors)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "s", "on", ">x", "+@all", "&news:*")
        listeners = [as_user(server, "s") for _ in range(4)]
        for listener in listeners:
            listener(*command)
        with as_user(server, "s") as other:
            other("SUBSCRIBE", "news:2")
            # What takes nothing from them leaves all alone, and so does a change of somebody else.
            admin("ACL", "SETUSER", "s", "&more")
            admin("ACL", "SETUSER", "else", "resetchannels")
            assert admin("PUBLISH", "news:2", "text") >= 1
            assert other.read() == [b"message", b"news:2", b"text"]
            admin("ACL", "SETUSER", "s", *rules)
            for listener in listeners:
                listener.closed()
                listener.close()
            if "&news:2" in rules:
                assert admin("PUBLISH", "news:2", "text") == 1
                assert other.read() == [b"message", b"news:2", b"text"]


def test_who_has_not_said_the_password_is_cut_when_it_does_not_read(start):
    server = start(reactors=2, requirepass="secret")
    with resp.Connection(server.port, receive_buffer=4096) as stranger:
        stranger.socket.settimeout(1)
        try:
            for _ in range(100000):
                stranger.socket.sendall(resp.encode("GET", "k") * 1000)
        except (TimeoutError, ConnectionError):
            pass
        kvserver.wait_until(
            lambda: server.info()["evicted_clients"] == 1, "the stranger to be cut"
        )


def test_users_are_kept_in_a_file(start, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("user alice on >pw ~a:* +@all\nuser bob on nopass (+get ~rw*)\n")
    server = start(reactors=2, aclfile=path)
    with server.connect() as admin:
        assert admin("ACL", "USERS") == [b"alice", b"bob", b"default"]
        admin("ACL", "SETUSER", "eve", "on", ">x", "+get", "allkeys")
        before = admin("ACL", "LIST")
        assert admin("ACL", "SAVE") == "OK"
        assert path.stat().st_mode & 0o777 == 0o600
        admin("ACL", "DELUSER", "eve")
        client = as_user(server, "alice", "pw")
        assert admin("ACL", "LOAD") == "OK"
        assert client.closed() == b""
        assert admin("ACL", "LIST") == before
        path.write_text("user alice on\nuser alice off\nuser carl +nothing\n")
        error = admin.error("ACL", "LOAD")
        assert "users.acl:2: Duplicate user 'alice' found" in error
        assert "users.acl:3: Error in ACL SETUSER modifier '+nothing': Unknown command" in error
        assert admin("ACL", "LIST") == before


def test_faults_of_users_are_named_at_start(tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("nonsense\n")
    arguments = ["--port", "0", "--unixsocket", tmp_path / "s", "--maxmemory", "256mb"]
    said = kvserver.run_refused([*arguments, "--aclfile", path])
    assert "users.acl:1: should start with user keyword followed by the username" in str(said)
    said = kvserver.run_refused([*arguments, "--user", "a on", "--user", "a off"])
    assert "Duplicate user 'a' found" in str(said)
    said = kvserver.run_refused([*arguments, "--aclfile", path, "--user", "a on"])
    assert "both aclfile and user lines are given" in str(said)


def test_start_says_whether_a_password_is_needed(start, tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("user default on >secret ~* &* +@all\nuser eve on nopass +ping\n")
    assert "password not required" in start().log()
    assert "password required" in start(requirepass="secret").log()
    # Not by requirepass, but by whom the server takes for the user default.
    with_file = start(aclfile=path, protected_mode="no", bind="0.0.0.0")
    assert "users 2, password required" in with_file.log()
    assert "without a password" not in with_file.log()
    open_to_all = start(user="default on nopass ~* &* +@all", protected_mode="no", bind="0.0.0.0")
    assert "may act as the user default without a password" in open_to_all.log()


def test_long_values_of_who_may_not_write_evict_nothing(start):
    server = start(reactors=2)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "reader", "on", ">x", "+get", "+set", "%R~*", "%W~mine")
        value = b"v" * (4 << 20)
        admin("SET", "k", value)
        with as_user(server, "reader") as reader:
            assert reader.error("SET", "k", b"w" * (8 << 20)) == NOPERM_KEY
            assert reader("SET", "mine", b"w" * (8 << 20)) == "OK"
            assert reader("GET", "k") == value


def test_shared_memory_needs_all_keys(start):
    server = start(reactors=2)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "part", "on", ">x", "+@all", "~a*")
        admin("ACL", "SETUSER", "whole", "on", ">x", "+@all", "%R~*", "%W~a*")
        with as_user(server, "part", unix=True) as part:
            assert part.error("KV.CONNECT", "SHM").startswith(
                "NOPERM shared memory shows every key"
            )
            assert part.error("KV.LEASE", "1000", "b") == NOPERM_KEY
        with as_user(server, "whole", unix=True) as whole:
            assert whole("KV.CONNECT", "SHM")
            assert whole.error("KV.RESERVE", "b", "100") == NOPERM_KEY
            assert whole("KV.RESERVE", "a", "100")
            admin("ACL", "SETUSER", "whole", "resetkeys", "~a*")
            assert whole.closed() == b""


def own_address():
    """An address of this machine that is not loopback; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        return probe.getsockname()[0]


def test_protected_mode_serves_this_machine_only(start):
    address = own_address()
    if address is None or address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    server = start(reactors=2, bind="*")

    def greeting():
        with socket.create_connection((address, server.port), 10) as client:
            try:
                client.sendall(b"PING\r\n")
                return client.recv(4096)
            except ConnectionError:
                return b"reset"

    with server.connect() as admin, server.connect(unix=True) as local:
        assert admin("PING") == "PONG" and local("PING") == "PONG"
        assert greeting().startswith((b"-DENIED Kvasir is running in protected mode", b"reset"))
        admin("CONFIG", "SET", "protected-mode", "no")
        assert greeting() == b"+PONG\r\n"
        admin("CONFIG", "SET", "protected-mode", "yes")
        admin("CONFIG", "SET", "requirepass", "x")
        assert greeting() == b"-NOAUTH Authentication required.\r\n"


def test_redis_cli_logs_in(start):
    server = start(reactors=2)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "cli", "on", ">x", "+acl|whoami")
    command = ["redis-cli", "-p", server.port, "--user", "cli", "--pass", "x"]
    command += ["--no-auth-warning", "acl", "whoami"]
    done = subprocess.run(list(map(str, command)), capture_output=True, timeout=30, check=True)
    assert done.stdout.strip() == b"cli"


def test_dryrun_and_cat(start):
    server = start(reactors=1)
    with server.connect() as admin:
        admin("ACL", "SETUSER", "d", "+@all", "%R~r*", "%W~w*")
        assert admin("ACL", "DRYRUN", "d", "GET", "r") == "OK"
        assert admin("ACL", "DRYRUN", "d", "COPY", "r", "w") == "OK"
        assert admin("ACL", "DRYRUN", "d", "COPY", "w", "r") == (
            b"This user has no permissions to access the 'w' key"
        )
        assert admin.error("ACL", "DRYRUN", "nobody", "GET", "r") == "ERR User 'nobody' not found"
        assert b"kv.lease" in admin("ACL", "CAT", "kv")
        assert admin.error("ACL", "CAT", "x") == "ERR Unknown category 'x'"
        assert len(admin("ACL", "GENPASS", "5")) == 2
        with pytest.raises(resp.Error):
            admin("ACL", "GENPASS", "5000")
