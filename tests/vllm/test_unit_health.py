"""Health, the store's handling of failures, and the warning when nothing hits."""

import logging
import threading

import kvasir
import pytest
from fakes import FakeStore, block_hash, counters, quiet
from kvasir.vllm import store as store_module
from kvasir.vllm.counters import COUNTERS, REASONS, Counters, merged
from kvasir.vllm.health import Health
from kvasir.vllm.keys import Fingerprint, Marker, key_prefix, marker_key
from kvasir.vllm.options import Options
from kvasir.vllm.store import Store, StoreFailure
from kvasir.vllm.zero import ZeroHits


class Probe:
    """A probe that fails until told otherwise and says when it was asked."""

    def __init__(self):
        self.works = False
        self.asked = threading.Event()

    def __call__(self):
        self.asked.set()
        if not self.works:
            raise kvasir.Closed("refused")


def wait_up(health):
    for _ in range(2000):
        if health.up:
            return True
        threading.Event().wait(0.005)
    return False


def test_health_comes_back_only_after_a_probe_succeeded():
    probe, found = Probe(), counters()
    health = Health("t", probe, 10, found, quiet())
    health.fail("error", "gone")
    assert not health.up
    assert probe.asked.wait(10)
    assert not health.up
    probe.works = True
    assert wait_up(health)
    health.close()
    assert health.epoch == 1
    assert (found.total()["store_down"], found.total()["store_up"]) == (1, 1)


def test_health_ignores_a_second_failure_and_one_of_an_old_connection():
    probe, found = Probe(), counters()
    health = Health("t", probe, 10, found, quiet())
    health.fail("error", "gone")
    health.fail("error", "gone")
    probe.works = True
    assert wait_up(health)
    health.fail("deadline", "late news", epoch=0)
    assert health.up
    health.close()
    assert found.total()["store_down"] == 1


class Client:
    """A kvasir.Client whose calls raise or answer as told."""

    path = "tcp"

    def __init__(self, answer=None, error=None):
        self.answer, self.error, self.closed, self.timeouts = answer, error, False, []
        self.options = {}

    def _do(self, *args, timeout=None, **rest):
        self.timeouts.append(timeout)
        self.options = rest
        if self.error is not None:
            raise self.error
        return self.answer

    match = exists_batch = get_into_batch = put_batch = get = put = _do

    def close(self):
        self.closed = True


@pytest.fixture
def connected(monkeypatch):
    """(store, list of clients to be handed out, health)"""
    clients = []
    monkeypatch.setattr(store_module, "connect", lambda options: clients.pop(0))
    health = Health("t", Probe(), 60_000, counters(), quiet())
    yield Store(Options(), health, 250), clients, health
    health.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (kvasir.Timeout("late"), "deadline"),
        (kvasir.Closed("gone"), "error"),
        (kvasir.Protocol("what"), "error"),
        (kvasir.Denied("who"), "error"),
    ],
)
def test_store_is_down_after_its_way_failed_and_asks_nothing_more(connected, error, reason):
    store, clients, health = connected
    client = Client(error=error)
    clients.append(client)
    with pytest.raises(StoreFailure) as failure:
        store.match([b"k"], 1000)
    assert failure.value.reason == reason
    assert not health.up
    assert client.closed
    with pytest.raises(StoreFailure) as failure:
        store.match([b"k"], 1000)
    assert failure.value.reason == "down"
    assert client.timeouts == [pytest.approx(0.25, abs=0.05)]


def test_store_notices_a_lost_way_in_the_answers_of_a_batch(connected):
    store, clients, health = connected
    clients.append(Client(answer=[6, kvasir.Timeout("late")]))
    assert store.get_into([b"a", b"b"], lambda: [[], []])[0] == 6
    assert not health.up


def test_store_stays_up_after_failures_of_single_blocks(connected):
    store, clients, health = connected
    clients.append(Client(answer=[kvasir.NoMemory("full"), kvasir.Corrupt("bad"), True]))
    assert store.put_absent([b"a", b"b", b"c"], lambda: [[], [], []], None)[2] is True
    assert health.up


def test_store_says_of_a_chain_what_it_follows_and_what_it_cost(connected, monkeypatch):
    store, clients, _health = connected
    client = Client(answer=[True])
    clients.append(client)
    monkeypatch.setattr(store, "options", Options(cost=700))
    store.put_absent([b"b"], lambda: [[]], b"a")
    told = {name: client.options[name] for name in ("parent", "chain", "cost")}
    assert told == {"parent": b"a", "chain": True, "cost": 700}


def test_store_takes_a_new_connection_after_the_store_came_back(connected):
    store, clients, health = connected
    old, new = Client(answer=1), Client(answer=2)
    clients += [old, new]
    assert store.match([b"k"], 0) == 1
    health.epoch += 1
    assert store.match([b"k"], 0) == 2
    assert old.closed


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


class ZeroBench:
    def __init__(self, window=60):
        self.now = 0.0
        self.records = Records()
        self.logger = logging.getLogger("test-kvasir-zero")
        self.logger.handlers = [self.records]
        self.logger.propagate = False
        self.zero = ZeroHits(window, "", self.logger, lambda: self.now)
        self.own = Fingerprint({"block_size": 16})
        self.other = Fingerprint({"block_size": 32})
        self.zero.set_own([self.own], marker_key("", "m"))

    def note(self, *reasons):
        for reason in reasons:
            self.zero.note(reason)


def test_zero_hits_warns_once_a_window_and_names_the_reasons():
    bench = ZeroBench()
    bench.note("absent", "absent", "deadline")
    assert bench.records.texts == []
    bench.now = 61
    bench.note("absent")
    assert len(bench.records.texts) == 1
    text = bench.records.texts[0]
    assert "3 look-ups" in text
    assert "2 absent" in text
    assert "1 deadline" in text
    assert bench.own.hex() in text
    bench.note("absent")
    assert len(bench.records.texts) == 1


def test_zero_hits_is_silent_after_one_hit_or_when_nothing_was_asked():
    bench = ZeroBench()
    bench.note("absent", "hit")
    bench.now = 61
    bench.note("local", "short")
    bench.now = 122
    bench.note("absent")
    assert bench.records.texts == []


def test_zero_hits_tells_blocks_under_another_fingerprint_and_what_differs():
    bench = ZeroBench()
    store = FakeStore()
    marker = Marker()
    marker.add(bench.own)
    marker.add(bench.other)
    store.values[marker_key("", "m")] = marker.encode()
    block = block_hash("p", 0)
    assert not bench.zero.elsewhere(store, block)
    store.values[key_prefix("", bench.other.hex()) + block] = b"x"
    assert bench.zero.elsewhere(store, block)
    bench.note("other_fingerprint")
    bench.now = 61
    bench.note("absent")
    assert "block_size: 32, here 16" in bench.records.texts[0]


def test_zero_hits_reads_the_marker_once_a_minute_and_survives_failures():
    bench = ZeroBench()
    store = FakeStore()
    store.fail_with = "error"
    assert not bench.zero.elsewhere(store, b"h")
    calls = []
    store.fail_with = ""
    store.get_small = lambda key: calls.append(key)
    for _ in range(3):
        bench.zero.elsewhere(store, b"h")
    assert calls == []
    bench.now = 61
    for _ in range(3):
        bench.zero.elsewhere(store, b"h")
    assert len(calls) == 1


def test_counters_take_what_is_new_and_keep_the_total():
    found = Counters()
    found.add("loads", 2)
    assert found.take() == {"loads": 2}
    assert found.take() == {}
    found.add("loads")
    assert found.total() == {"loads": 3}
    with pytest.raises(KeyError):
        found.add("no such counter")
    assert all(f"lookups_{reason}" in COUNTERS for reason in REASONS)
    assert merged({"a": 1}, {"a": 2, "b": 3}) == {"a": 3, "b": 3}
