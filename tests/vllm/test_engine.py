"""A real vLLM engine over a real server: the first engine stores, others load and agree.

Starting an engine costs a minute, so each is used for several tests, in the order of this file, and
the next one starts while the one before works.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import TOP
from engine import Engine

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here (make venv-vllm)", allow_module_level=True)

import kvasir
from kvasir.server import Server
from kvasir.vllm.keys import Marker

BLOCK = 32
PORTS = (21300, 21380)
LATE_PORT = 21390  # nobody listens there at first
PROMPTS = [
    "The quick brown fox jumps over the lazy dog. " * 30,
    "def main(argv):\n    import os\n" * 25,
    "The quick brown fox jumps over the lazy dog. " * 20 + "and then something else " * 10,
]
DEADLINE_S = 1.25  # look-up and load of the defaults together


def loadable(tokens):
    """How many tokens of a prompt can come from the store: whole blocks, never the last token."""
    return (tokens - 1) // BLOCK * BLOCK


class World:
    """The model, a server on a fixed port, and the engines."""

    def __init__(self, folder):
        self.folder = folder
        self.model = str(folder / "model")
        subprocess.run(
            [sys.executable, os.path.join(TOP, "utils", "make_tiny_model.py"), self.model],
            check=True,
            timeout=300,
        )
        self.engines = {}
        self.server = None
        self.start_server(0)
        self.port = self.server.port
        self.address = f"tcp://127.0.0.1:{self.port}"

    def start_server(self, port=None):
        self.server = Server(
            self.port if port is None else port,
            None,
            reactors=1,
            maxmemory="256mb",
            huge_pages=False,
            port_range=PORTS,
        )

    def kill_server(self):
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.stop()

    def freeze_server(self):
        """SIGSTOP, and waits until the last thread has stopped: until then it may still answer."""
        os.kill(self.server.pid, signal.SIGSTOP)
        end = time.monotonic() + 10
        while any(state != "T" for state in self._thread_states()):
            assert time.monotonic() < end
            time.sleep(0.001)

    def _thread_states(self):
        for thread in os.listdir(f"/proc/{self.server.pid}/task"):
            with open(f"/proc/{self.server.pid}/task/{thread}/stat", encoding="utf-8") as file:
                yield file.read().rpartition(")")[2].split()[0]

    def engine(self, name):
        if name not in self.engines:
            self.engines[name] = self._start(name)
        return self.engines[name]

    def _start(self, name):
        if name == "cold":
            return Engine(self.model, self.address)
        if name == "warm":
            return Engine(
                self.model,
                self.address,
                extra={"pin_ms": 2000, "retry_ms": 100},
                engine={"max_num_batched_tokens": 128},
            )
        if name == "late":
            # Nobody listens there yet; small timings, and every block goes through the copy.
            return Engine(
                self.model,
                f"tcp://127.0.0.1:{LATE_PORT}",
                extra={"staging": "always", "retry_ms": 100},
                engine={"dtype": "bfloat16"},
            )
        return Engine(self.model, self.address, processes=True)

    def end_engine(self, name):
        self.engines.pop(name).close()

    def client(self):
        return kvasir.Client(self.address, shm=False)

    def stored_keys(self):
        import redis

        plain = redis.Redis(port=self.port)
        try:
            return sorted(plain.scan_iter(match="kv1:*", count=1000))
        finally:
            plain.close()

    def close(self):
        for engine in self.engines.values():
            engine.close()
        if self.server is not None:
            self.server.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("vllm"))
    try:
        world.engine("cold")
        world.engine("warm")
        yield world
    finally:
        world.close()


@pytest.fixture(scope="module")
def reference(world):
    """What the first engine computed, with nothing stored."""
    answer = world.engine("cold").generate(PROMPTS)
    answer["counters"] = world.engine("cold").ask("counters")
    world.end_engine("cold")
    world.engine("late")
    return answer


def test_cold_engine_computes_everything_and_stores_every_full_block(world, reference):
    worker = reference["counters"]["worker"]
    assert reference["cached"][0] == 0
    assert reference["counters"]["scheduler"].get("lookups_hit", 0) == 0
    assert worker["blocks_saved"] == len(world.stored_keys())
    # The prompts' blocks, of which the third shares some with the first, and what was generated.
    assert worker["blocks_saved"] >= sum(n // BLOCK for n in reference["prompt"][:2])
    assert worker["bytes_saved"] == worker["blocks_saved"] * reference["counters"]["block_bytes"]


def test_warm_engine_in_another_process_loads_and_says_the_same(world, reference):
    warm = world.engine("warm").generate(PROMPTS)
    assert warm["tokens"] == reference["tokens"]
    assert warm["cached"] == [loadable(n) for n in reference["prompt"]]
    assert world.engine("warm").total("lookups_hit") >= 2
    assert world.engine("warm").total("load_blocks_expired") == 0


def test_warm_engine_sends_no_payload_for_known_blocks(world, reference):
    engine = world.engine("warm")
    before = engine.total("bytes_saved")
    with world.client() as client:
        count = len(world.stored_keys())
        engine.ask("reset")
        engine.generate(PROMPTS)
        assert engine.total("bytes_saved") == before
        assert len(world.stored_keys()) == count
        assert client.exists(b"kv1-model:model")


def test_values_under_another_fingerprint_are_not_used_and_are_told(world, reference):
    engine = world.engine("warm")
    other = b"0123456789abcdef"
    with world.client() as client:
        moved = world.stored_keys()
        for key in moved:
            client.put(b"kv1:" + other + key[20:], client.get(key))
        assert all(isinstance(done, bool) for done in client.delete_batch(moved))
        marker = Marker.decode(client.get(b"kv1-model:model"))
        marker.entries[other.decode()] = {"block_size": "99"}
        client.put(b"kv1-model:model", marker.encode())
    engine.ask("reset")
    answer = engine.generate(PROMPTS[:1])
    assert answer["tokens"] == reference["tokens"][:1]
    assert answer["cached"] == [0]
    assert engine.total("lookups_other_fingerprint") == 1


def test_corrupt_and_missing_values_are_computed(world, reference):
    engine = world.engine("warm")
    engine.ask("reset")
    engine.generate(PROMPTS)
    engine.ask("counters")  # waits until everything is stored
    fingerprint = engine.ask("counters")["fingerprint"].encode()
    with world.client() as client:
        own = [key for key in world.stored_keys() if key.startswith(b"kv1:" + fingerprint)]
        for key in own[::3]:
            client.put(key, b"no block")
    engine.ask("reset")
    answer = engine.generate(PROMPTS)
    assert answer["tokens"] == reference["tokens"]
    assert engine.total("load_blocks_corrupt") >= 1


def test_foreign_bytes_of_the_right_length_show_in_the_tokens(world, reference):
    """Not a feature: it proves that the comparisons of tokens in this file can fail."""
    engine = world.engine("warm")
    found = engine.ask("counters")
    with world.client() as client:
        for key in world.stored_keys():
            if key.startswith(b"kv1:" + found["fingerprint"].encode()):
                client.put(key, os.urandom(found["block_bytes"]))
        engine.ask("reset")
        answer = engine.generate(PROMPTS)
        client.delete_batch(world.stored_keys())
    assert min(answer["cached"]) > 0
    assert answer["tokens"] != reference["tokens"]


def test_aborted_load_leaves_no_request_no_block_and_no_pin(world, reference):
    engine = world.engine("warm")
    with world.client() as client:
        engine.ask("reset")
        engine.generate(PROMPTS[:1])
        engine.ask("counters")
        loads = engine.total("loads")
        engine.ask("reset")
        left = engine.ask("abort", prompt=PROMPTS[0], steps=1)
        assert engine.total("loads") == loads + 1
        assert (left["left"], left["tracked"]) == (0, 0)
        assert left["free"] == left["blocks"] - 1, "all but vLLM's null block"
        time.sleep(2.1)  # pin_ms of this engine
        stats = client.stat_batch(world.stored_keys())
        assert stats
        assert all(s.pin == 0 and s.lease_count == 0 for s in stats)


def test_stopped_server_costs_one_deadline_and_then_nothing(world, reference):
    engine = world.engine("warm")
    engine.ask("reset")
    usual = engine.generate(PROMPTS)["seconds"]
    engine.ask("counters")
    engine.ask("reset")
    world.freeze_server()
    try:
        stopped = engine.generate(PROMPTS)
        engine.ask("reset")
        down = engine.generate(PROMPTS)
        assert stopped["tokens"] == down["tokens"] == reference["tokens"]
        assert engine.total("lookups_down") >= 3
        assert engine.total("lookups_deadline") == 1, "only the first look-up waits"
    finally:
        os.kill(world.server.pid, signal.SIGCONT)
    # Computing takes longer than loading; what matters is that no deadline is in the second.
    assert stopped["seconds"] - down["seconds"] < DEADLINE_S + usual
    ups = engine.total("store_up")
    engine.wait_total("store_up", max(ups, 1))


def wait_for_hits(engine, prompts, tokens):
    """Generates until the store serves again."""
    end = time.monotonic() + 30
    while True:
        engine.ask("reset")
        answer = engine.generate(prompts)
        assert answer["tokens"] == tokens
        if min(answer["cached"]) > 0:
            return answer
        assert time.monotonic() < end, engine.log()


@pytest.mark.parametrize("delay_ms", [0, 5, 30])
def test_killed_server_in_the_middle_breaks_nothing(world, reference, delay_ms):
    engine = world.engine("warm")
    wait_for_hits(engine, PROMPTS, reference["tokens"])
    engine.ask("counters")
    engine.ask("reset")
    engine.tell("generate", prompts=PROMPTS)
    time.sleep(delay_ms / 1000)
    world.kill_server()
    answer = engine.answer(60)
    assert answer["tokens"] == reference["tokens"]
    assert set(answer["finish"]) == {"length"}
    again = engine.generate(PROMPTS)
    assert again["tokens"] == reference["tokens"]
    world.start_server()
    wait_for_hits(engine, PROMPTS, reference["tokens"])


def test_engine_starts_and_works_without_a_store(world, reference):
    world.end_engine("warm")
    world.engine("processes")
    engine = world.engine("late")
    first = engine.generate(PROMPTS)
    assert first["cached"][:2] == [0, 0]
    assert engine.total("lookups_down") + engine.total("lookups_error") >= 3
    assert engine.total("blocks_saved") == 0
    world.late = first


def test_engine_finds_the_store_that_comes_later_in_bfloat16_through_the_copy(world, reference):
    engine = world.engine("late")
    with Server(
        LATE_PORT, None, reactors=2, maxmemory="256mb", huge_pages=False, port_range=PORTS
    ):
        engine.wait_total("store_up", 2)
        answer = wait_for_hits(engine, PROMPTS, world.late["tokens"])
    assert answer["cached"] == [loadable(n) for n in answer["prompt"]]
    assert engine.total("blocks_loaded") > 0
    world.end_engine("late")


def test_engine_in_a_process_of_its_own_exports_its_metrics(world, reference):
    engine = world.engine("processes")
    with world.client() as client:
        client.delete_batch(world.stored_keys())
    first = engine.generate(PROMPTS)
    metrics = engine.ask("counters")["metrics"]
    assert metrics["blocks_saved"] > 0
    assert metrics["lookups_absent"] >= 1
    assert engine.ask("reset")["ok"]
    second = engine.generate(PROMPTS)
    assert first["tokens"] == second["tokens"] == reference["tokens"]
    assert second["cached"] == [loadable(n) for n in reference["prompt"]]
    metrics = engine.ask("counters")["metrics"]
    assert metrics["lookups_hit"] >= 2
    assert metrics["blocks_loaded"] * BLOCK >= loadable(reference["prompt"][0])
    assert metrics["bytes_loaded"] > 0
