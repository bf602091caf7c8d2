"""A server of the build under test: started on ports of its own, watched, and stopped by its pid.

Each server holds a block of ports from 21500 on, by an abstract socket of the block's name, so that
several runs on one machine do not meet. Stopping checks that it drained, ended with status 0 and that
its log holds nothing a sanitizer or a failed check wrote.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import resp

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KVASIR_BUILD", ROOT / "build/gcc-release")).resolve()
BINARY = BUILD / "kvasir-server"
SANITIZE = os.environ.get("KVASIR_SANITIZE", "")
# Everything that waits waits longer in a build that is slowed down.
SLOW = 4.0 if SANITIZE else 1.0
PORT_FIRST = int(os.environ.get("KVASIR_TEST_PORT", "21500"))
PORTS_PER_SERVER = 6
PORT_BLOCKS = 16

TROUBLE = re.compile(
    r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|check failed|stack smashing)"
)


def wait_until(true, what, deadline_s=10.0):
    """Until true() is; asks often, ends with what was waited for."""
    end = time.monotonic() + deadline_s * SLOW
    while not true():
        assert time.monotonic() < end, f"waited {deadline_s * SLOW:g} s in vain: {what}"
        time.sleep(0.01)


class Ports:
    """Ports first … first + PORTS_PER_SERVER - 1, nobody else's while this lives."""

    def __init__(self):
        for block in range(PORT_BLOCKS):
            self.first = PORT_FIRST + block * PORTS_PER_SERVER
            self.holder = socket.socket(socket.AF_UNIX)
            try:
                self.holder.bind(f"\0kvasir-test-ports-{self.first}")
            except OSError:
                self.holder.close()
                continue
            if all(self._free(self.first + i) for i in range(PORTS_PER_SERVER)):
                return
            self.holder.close()
        raise AssertionError(f"no free ports from {PORT_FIRST} on")

    @staticmethod
    def _free(port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
            return True

    def close(self):
        self.holder.close()


class Server:
    """One process. Options are those of the server, '_' for '-'; config is the text of its file."""

    def __init__(self, reactors=1, prefix=(), config=None, **options):
        self.ports = Ports()
        self.port = self.ports.first
        self.tls_port = self.ports.first + PORTS_PER_SERVER - 1  # used by who gives tls_port=True
        # Short, and outside pytest's own: the path of a Unix socket has 107 bytes.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvasir-"))
        self.socket = self.folder / "k.sock"
        self.log_path = self.folder / "log"
        self.password = options.get("requirepass")
        chosen = {
            "port": self.port,
            "unixsocket": self.socket,
            "reactors": reactors,
            "maxmemory": "320mb",
            "populate": "no",
        }
        if "maxmemory" not in options:
            chosen["shm-staging-total"] = "128mb"
        chosen.update({name.replace("_", "-"): value for name, value in options.items()})
        if chosen.get("tls-port"):
            chosen["tls-port"] = self.tls_port
        command = [*prefix, BINARY]
        self.config_path = self.folder / "kvasir.conf"
        if config is not None:
            self.config_path.write_text(config)
            command.append(self.config_path)
        for name, value in chosen.items():
            command += [f"--{name}", str(value)]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_until(self._ready, "the server to start", 20.0)
        except AssertionError as reason:
            log = self.log()
            self.kill()
            raise AssertionError(f"{reason}\n{log}") from None

    def _ready(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}"
        return "ready to serve" in self.log()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def connect(self, unix=False, **options):
        options.setdefault("deadline_s", resp.DEADLINE_S * SLOW)
        return resp.Connection(
            self.socket if unix else self.port, password=self.password, **options
        )

    def info(self):
        """INFO as a dictionary, numbers as numbers."""
        with self.connect() as connection:
            text = connection("INFO").decode()
        pairs = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        return {name: int(v) if v.isdigit() else v for name, v in pairs.items()}

    def descriptor_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def is_stopped(self):
        """Whether every thread is stopped by a signal."""
        states = [
            path.read_text().rsplit(")", 1)[1].split()[0]
            for path in pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat")
        ]
        return set(states) == {"T"}

    def resident_bytes(self):
        fields = pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGESIZE")

    def mapping_count(self, name):
        """Mappings of files with this word in their name."""
        maps = pathlib.Path(f"/proc/{self.pid}/maps").read_text()
        return sum(name in line for line in maps.splitlines())

    def nothing_held(self):
        """Whether nothing of any client is left but sealed values."""
        info = self.info()
        names = ("orphan_values", "reserved_values", "leases", "reservations")
        return all(info[name] == 0 for name in names)

    def expect_pages_back(self, pages_free):
        """Flushes everything; what clients held, and every page, must come back."""
        with self.connect() as connection:
            assert connection("FLUSHALL") == "OK"
        wait_until(self.nothing_held, "what clients held to come back")
        wait_until(lambda: self.info()["staging_bytes"] == 0, "staging areas to go")
        wait_until(lambda: self.mapping_count("kvasir-staging") == 0, "their mappings to go")
        wait_until(
            lambda: self.info()["payload_pages_free"] == pages_free,
            f"{pages_free} free pages after FLUSHALL",
        )

    def stop(self, deadline_s=15.0):
        """SIGTERM; the exit status must be 0 and the log clean. Once only."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(deadline_s * SLOW)
        except subprocess.TimeoutExpired:
            log = self.log()
            self.kill()
            raise AssertionError(f"SIGTERM did not end the server\n{log}") from None
        log = self.log()
        self._forget()
        assert not TROUBLE.search(log), log
        assert status == 0, f"exit status {status}\n{log}"

    def kill(self):
        """SIGKILL, also when stopped; nothing is checked."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._forget()

    def _forget(self):
        self.ports.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def gone(self):
        return not self.folder.exists()


def run_refused(arguments, prefix=(), deadline_s=20.0):
    """Runs a server that must refuse to start: returns what it said on standard error."""
    done = subprocess.run(
        [*map(str, prefix), str(BINARY), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s * SLOW,
        check=False,
    )
    assert done.returncode == 1, f"exit status {done.returncode}: {done.stdout}{done.stderr}"
    assert not TROUBLE.search(done.stderr), done.stderr
    return done.stderr
