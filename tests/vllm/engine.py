"""Starts engine processes and talks to them; see engine_process.py for the commands."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
START_S = 400  # imports and start take a minute, several at once on two cores several


class Engine:
    """One engine process. Starting does not wait; the first command does."""

    def __init__(self, model, address="", **setup):
        extra = {"address": address, **setup.pop("extra", {})} if address else {}
        self._setup = {"model": model, "extra": extra, **setup}
        handle, self._log = tempfile.mkstemp(prefix="kvasir-engine-", suffix=".log")
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "engine_process.py"), json.dumps(self._setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=handle,
            text=True,
        )
        os.close(handle)
        self._answers = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._ready = False

    def _read(self):
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def tell(self, do, **more):
        """Sends a command without waiting for its answer."""
        if not self._ready:
            assert self.answer(START_S) == {"ready": True}
            self._ready = True
        self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self._process.stdin.flush()

    def answer(self, timeout=120):
        try:
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no answer within {timeout} s\n{self.log()}") from None
        if answer is None:
            raise AssertionError(f"the engine ended\n{self.log()}")
        return answer

    def ask(self, do, timeout=120, **more):
        self.tell(do, **more)
        return self.answer(timeout)

    def generate(self, prompts, **more):
        return self.ask("generate", prompts=prompts, **more)

    def total(self, name):
        """A counter, of both sides together."""
        found = self.ask("counters")
        return found["scheduler"].get(name, 0) + found["worker"].get(name, 0)

    def wait_total(self, name, least, timeout=30):
        end = time.monotonic() + timeout
        while self.total(name) < least:
            assert time.monotonic() < end, f"{name} is {self.total(name)}\n{self.log()}"
            time.sleep(0.1)

    def log(self, tail=6000):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-tail:]

    def close(self):
        """Ends the process; kills it when it does not go."""
        try:
            if self._process.poll() is None and self._ready:
                self._process.stdin.write('{"do": "quit"}\n')
                self._process.stdin.close()
                self._process.wait(30)
        except (OSError, subprocess.TimeoutExpired):
            pass
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
        os.unlink(self._log)
