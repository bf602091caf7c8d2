"""A server that cannot start says why in one sentence that names the value and the fix; status 1."""

import os
import socket
import subprocess

import kvserver
import pytest
import resp

SMALL = ["--maxmemory", "96mb", "--populate", "no"]
NO_TCP = ["--port", "0", "--unixsocket"]

# Arguments, and what the sentence must name.
BAD_ARGUMENTS = {
    "unknown option": (["--nosuch", "1"], ["'nosuch'", "--help"]),
    "no value": (["--port"], ["--port", "needs a value"]),
    "no option": (["--port", "1", "what"], ["'what'", "--help", "file stands first"]),
    "no file": (["/nonexistent/kvasir.conf"], ["/nonexistent/kvasir.conf", "No such file"]),
    "port": (["--port", "65536"], ["port", "0 to 65535", "'65536'"]),
    "port text": (["--port", "http"], ["port", "'http'"]),
    "reactors": (["--reactors", "65"], ["reactors", "0 to 64", "'65'"]),
    "negative": (["--reactors", "-1"], ["reactors", "'-1'"]),
    "maxmemory small": (["--maxmemory", "1mb"], ["maxmemory", "32mb", "'1mb'"]),
    "maxmemory unit": (["--maxmemory", "1xb"], ["maxmemory", "512mb", "'1xb'"]),
    "maxmemory overflow": (["--maxmemory", "99999999999gb"], ["maxmemory", "'99999999999gb'"]),
    "switch": (["--populate", "maybe"], ["populate", "yes or no", "'maybe'"]),
    "choice": (["--maxmemory-policy", "lfu"], ["maxmemory-policy", "noeviction", "'lfu'"]),
    "mode": (["--unixsocketperm", "8x"], ["unixsocketperm", "octal", "'8x'"]),
    "users by name": (["--shm-uid", "0,bob"], ["shm-uid", "numbers", "'0,bob'"]),
    "text too long": (["--requirepass", "x" * 300], ["requirepass", "255"]),
    "ports beyond the last": (
        ["--port", "65535", "--reactors", "2", *SMALL],
        ["65536", "reactor-port-base", "reactor-ports no"],
    ),
    "nobody could connect": (["--port", "0"], ["port", "unixsocket"]),
    "nothing left for payload": (
        ["--maxmemory", "96mb", "--metadata-memory", "60mb", "--buffer-memory", "60mb"],
        ["metadata-memory", "buffer-memory", "maxmemory"],
    ),
}


def refused(arguments, words, prefix=()):
    said = kvserver.run_refused(arguments, prefix)
    sentences = [line for line in said.splitlines() if line.strip()]
    for word in words:
        assert word in sentences[-1], said
    return said


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments(name):
    said = refused(*BAD_ARGUMENTS[name])
    assert len(said.splitlines()) == 1, said


@pytest.mark.parametrize(
    "text, words",
    [
        ("port 1\nnosuch 2\n", ["line 2", "'nosuch'"]),
        ("# comment\n\nmaxmemory much\n", ["line 3", "maxmemory", "'much'"]),
        ("port\n", ["line 1", "name value"]),
        ("port 1\0\n", ["line 1"]),
        ("loglevel " + "x" * 5000 + "\n", ["line 1", "loglevel"]),
        ("#" + "x" * (1 << 20) + "\n", ["longer than 1 MiB"]),
    ],
    ids=["unknown", "size", "no value", "nul", "long word", "long file"],
)
def test_bad_file(tmp_path, text, words):
    path = tmp_path / "kvasir.conf"
    path.write_text(text)
    refused([path, *NO_TCP, tmp_path / "s"], [*words, str(path)])


def test_file_that_may_not_be_read(tmp_path):
    refused([tmp_path], [str(tmp_path)])


def test_file_and_arguments_together(tmp_path):
    path = tmp_path / "kvasir.conf"
    path.write_text('# of ours\nmaxclients 123\ntimeout 7\nrequirepass "pass word"\n')
    process = subprocess.Popen(
        [kvserver.BINARY, path, *NO_TCP, tmp_path / "s", "--timeout", "9", *SMALL],
        stderr=subprocess.DEVNULL,
    )
    try:
        kvserver.wait_until((tmp_path / "s").exists, "the socket")
        # The command line wins over the file.
        with resp.Connection(tmp_path / "s", password="pass word") as connection:
            assert connection("CONFIG", "GET", "timeout") == [b"timeout", b"9"]
            assert connection("CONFIG", "GET", "maxclients") == [b"maxclients", b"123"]
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_busy_port_of_another_program():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        refused(["--port", port, *SMALL], [str(port), "in use"])


def test_busy_port_of_another_server(start):
    """Two servers on one port would share its clients: each would miss the other's keys."""
    server = start()
    refused(["--port", server.port, *SMALL], [str(server.port), "in use"])
    with server.connect() as connection:
        assert connection("PING") == "PONG"


def test_busy_socket(start):
    server = start()
    refused([*NO_TCP, server.socket, *SMALL], [str(server.socket), "in use"])
    with server.connect(unix=True) as connection:
        assert connection("PING") == "PONG"


def test_socket_left_behind_is_replaced(start):
    first = start()
    path = first.socket
    first.process.kill()
    first.process.wait(10)
    assert path.exists()
    second = start(unixsocket=path)
    with resp.Connection(path) as connection:
        assert connection("PING") == "PONG"
    second.stop()
    first.kill()


@pytest.mark.parametrize("address", ["192.0.2.1", "no.such.host.invalid"])
def test_bad_bind(address):
    refused(["--bind", address, "--port", "21599", *SMALL], [address])


@pytest.mark.parametrize("path", ["/nonexistent/folder/k.sock", "/tmp/" + "x" * 120])
def test_bad_socket_path(path):
    refused([*NO_TCP, path, *SMALL], [path[:100]])


def test_socket_path_that_is_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    refused([*NO_TCP, path, *SMALL], [str(path)])
    assert path.read_text() == "precious"


def test_log_and_pid_files_that_cannot_be_written(tmp_path):
    refused([*NO_TCP, tmp_path / "s", "--logfile", "/nonexistent/log"], ["/nonexistent/log"])
    refused(
        [*NO_TCP, tmp_path / "s", "--pidfile", "/nonexistent/pid", *SMALL], ["/nonexistent/pid"]
    )


def test_maxmemory_larger_than_the_machine(tmp_path):
    refused([*NO_TCP, tmp_path / "s", "--maxmemory", "64tb"], ["maxmemory"])


@pytest.mark.plain
@pytest.mark.parametrize("limit_mb", [40, 100, 200])
def test_address_space_limit_too_low(tmp_path, limit_mb):
    prefix = ("prlimit", f"--as={limit_mb << 20}")
    refused([*NO_TCP, tmp_path / "s", "--maxmemory", "256mb"], ["maxmemory"], prefix)


def test_file_size_limit_too_low(tmp_path):
    """Payload is a file to the kernel."""
    prefix = ("prlimit", f"--fsize={1 << 20}")
    refused([*NO_TCP, tmp_path / "s", *SMALL], ["limit"], prefix)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_socket_folder_of_another_user(tmp_path):
    tmp_path.chmod(0o755)
    prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if not os.access(kvserver.BINARY, os.X_OK) or kvserver.SANITIZE:
        pytest.skip("the other user cannot run the server")
    refused([*NO_TCP, tmp_path / "s", *SMALL], [str(tmp_path), "ermission denied"], prefix)


def test_help_and_version():
    said = subprocess.run([kvserver.BINARY, "--help"], capture_output=True, check=True, text=True)
    assert "--maxmemory" in said.stdout and "default" in said.stdout
    said = subprocess.run(
        [kvserver.BINARY, "--version"], capture_output=True, check=True, text=True
    )
    assert said.stdout.startswith("kvasir-server ")


def test_own_ports_past_the_last():
    arguments = ["--port", "65535", "--reactors", "2", "--maxmemory", "64mb", "--populate", "no"]
    refused(arguments, ["65536", "pass 65535", "reactor-port-base"])


def reachable(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.settimeout(resp.DEADLINE_S)
        if probe.connect_ex((address, port)) != 0:
            return False
        probe.sendall(b"PING\r\n")
        return probe.recv(100) == b"+PONG\r\n"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.reactors
def test_several_addresses_are_listened_on(start):
    """Each with the common port and the reactors' own ones; those that may be absent are left out."""
    server = start(reactors=2, bind="127.0.0.1  -192.0.2.1 127.0.0.3 -2001:db8::1")
    for address in ("127.0.0.1", "127.0.0.3"):
        for port in range(server.port, server.port + 3):
            assert reachable(address, port), (address, port)
    assert not reachable("127.0.0.2", server.port)
    with server.connect() as client:
        shown = client("CONFIG", "GET", "bind")[1]
        assert shown == b"127.0.0.1  -192.0.2.1 127.0.0.3 -2001:db8::1"
        host = socket.create_connection(("127.0.0.3", server.port))
        assert b"laddr=127.0.0.3:%d " % server.port in client("CLIENT", "LIST")
        host.close()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("bind", ["* -::*", "127.0.0.1 ::1"])
def test_ipv6_beside_ipv4(start, bind):
    server = start(reactors=2, bind=bind)
    for address in ("127.0.0.1", "::1"):
        assert reachable(address, server.port) and reachable(address, server.port + 1)
    assert reachable("127.0.0.2", server.port) == bind.startswith("*")


def test_ipv6_alone_takes_no_ipv4(start):
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    server = start(bind="::1")
    assert reachable("::1", server.port) and not reachable("127.0.0.1", server.port)


@pytest.mark.parametrize("bind", ["127.0.0.1 192.0.2.1", "-192.0.2.1", "", "- 127.0.0.1", "a" * 200])
def test_addresses_that_cannot_be_are_named(bind):
    refused(["--bind", bind, "--port", "21299", *SMALL], [bind.split(" ")[-1].lstrip("-"), "bind"])
