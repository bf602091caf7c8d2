"""The end of a server: drained by SIGTERM and SHUTDOWN, killed or stopped under its clients."""

import os
import signal
import subprocess
import threading
import time

import kvserver
import pytest
import resp

pytestmark = pytest.mark.reactors
MIB = 1 << 20


def test_sigterm_during_traffic_drains(start):
    """What was begun is finished: no client sees half a reply, and the status is 0."""
    server = start(reactors=2)
    payload = os.urandom(2 * MIB)
    halves = []
    replies = [0]
    stop = threading.Event()

    def client(number):
        try:
            with server.connect() as connection:
                while not stop.is_set():
                    connection("SET", f"t:{number}", payload)
                    if connection("GET", f"t:{number}") != payload:
                        halves.append(number)
                    replies[0] += 1
        except (resp.Closed, ConnectionError):
            if connection.start < len(connection.buffer):
                halves.append(number)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    kvserver.wait_until(lambda: replies[0] > 12, "traffic")
    server.stop()
    stop.set()
    for thread in threads:
        thread.join(20)
    assert not halves


def test_sigterm_ends_connections_that_do_nothing(start):
    server = start(reactors=2, shutdown_timeout=2)
    idle = [server.connect() for _ in range(50)]
    stuck = server.connect()
    stuck.send(b"*3\r\n$3\r\nSET\r\n$5\r\nstuck\r\n$100000\r\nxxx")
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 5 * kvserver.SLOW
    for connection in [*idle, stuck]:
        assert connection.closed() == b""
        connection.close()


@pytest.mark.parametrize("word", ["SIGTERM", "SIGINT"])
def test_signal_while_memory_is_touched_ends_the_start(tmp_path, word):
    """The signal is there before the first page: all else would be a race."""
    number = signal.Signals[word]

    def hold_back():
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)

    ended = subprocess.run(
        [kvserver.BINARY, "--port", "0", "--unixsocket", tmp_path / "s", "--maxmemory", "96mb"],
        preexec_fn=hold_back,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60 * kvserver.SLOW,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"signal {word} ended the start" in ended.stderr
    assert "ready to serve" not in ended.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("words", [("NOSAVE",), (), ("NOSAVE", "NOW")])
def test_shutdown(start, words):
    server = start(reactors=2)
    with server.connect() as connection:
        connection("SET", "a", "1")
        connection.send(resp.encode("SHUTDOWN", *words))
        assert connection.closed() == b""
    server.process.wait(15 * kvserver.SLOW)
    assert not server.socket.exists()
    server.stop()


def test_files_are_removed(start, tmp_path):
    server = start(reactors=2, pidfile=tmp_path / "pid")
    assert int((tmp_path / "pid").read_text()) == server.pid
    server.process.send_signal(signal.SIGINT)
    server.process.wait(15 * kvserver.SLOW)
    assert not (tmp_path / "pid").exists()
    assert [path.name for path in server.folder.iterdir()] == ["log"]
    server.stop()


def test_shutdown_save_is_refused(start):
    server = start()
    with server.connect() as connection:
        assert "NOSAVE" in connection.error("SHUTDOWN", "SAVE")
        assert connection("PING") == "PONG"


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_redis_py_gets_an_error_within_its_timeout(start, how):
    redis = pytest.importorskip("redis")
    server = start(reactors=2)
    client = redis.Redis(port=server.port, socket_timeout=1, socket_connect_timeout=1, retry=None)
    client.set("a", "x" * 100000)
    server.process.send_signal(getattr(signal, how))
    if how == "SIGSTOP":
        kvserver.wait_until(server.is_stopped, "all threads to stop")
    try:
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
                client.get("a")
            assert time.monotonic() - began < 3 * kvserver.SLOW
    finally:
        server.kill()
        client.close()


def test_server_that_was_stopped_goes_on(start):
    server = start(reactors=2)
    with server.connect() as connection:
        connection("SET", "a", "1")
        connection.send(resp.encode("GET", "a") * 1000)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGCONT)
        assert [connection.read() for _ in range(1000)] == [b"1"] * 1000
