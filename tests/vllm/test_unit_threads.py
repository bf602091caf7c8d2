"""The loading and storing threads, over real memory and a store in a dictionary."""

import threading

import kvasir
from fakes import FakeStore, FakeTensor, block_hash, counters, quiet
from kvasir.vllm.keys import block_keys
from kvasir.vllm.layout import layout_of
from kvasir.vllm.loader import Loader
from kvasir.vllm.memory import HostMemory
from kvasir.vllm.options import Options
from kvasir.vllm.plan import Load, Save
from kvasir.vllm.saver import Saver

PREFIX = b"kv1:f:"
BYTES = 6  # of a block: two layers of three


class Bench:
    def __init__(self, **options):
        self.options = Options(**{"batch_bytes": 2 * BYTES, **options})
        self.values = {}
        self.stores = []
        self.tensors = {"l0": FakeTensor((8, 3)), "l1": FakeTensor((8, 3))}
        self.layout = layout_of(self.tensors, 8)
        self.counters = counters()
        self.fail_with = ""
        self.gate = None
        self.announced = []

    def store(self):
        store = FakeStore(self.options, self.values)
        store.fail_with, store.gate = self.fail_with, self.gate
        self.stores.append(store)
        return store

    def loader(self):
        return Loader(self.store, self.memory, PREFIX, self.counters, quiet())

    def saver(self):
        return Saver(
            self.store, self.memory, PREFIX, self.counters, quiet(), self.announced.append
        )

    def memory(self):
        return HostMemory(self.layout)

    def fill(self, block, text):
        for piece, part in zip(self.memory().block(block), (text[:3], text[3:])):
            piece[:] = part

    def read(self, block):
        return b"".join(bytes(piece) for piece in self.memory().block(block))

    def total(self, name):
        return self.counters.total().get(name, 0)


def hashes(*numbers):
    return [block_hash("p", i) for i in numbers]


def wait_done(loader, count=1):
    done = []
    for _ in range(1000):
        done += loader.take_done(0.05)
        if len(done) >= count:
            break
    return done


def test_loader_fills_blocks_over_several_calls_and_reports_once():
    bench = Bench(load_workers=2)
    for i, key in enumerate(block_keys(PREFIX, hashes(0, 1, 2, 3, 4))):
        bench.values[key] = b"%06d" % i
    loader = bench.loader()
    loader.begin(Load("r", hashes(0, 1, 2, 3, 4), [7, 1, 5, 0, 3]))
    assert wait_done(loader) == [("r", [])]
    loader.close()
    assert [bench.read(b) for b in (7, 1, 5, 0, 3)] == [b"%06d" % i for i in range(5)]
    assert bench.read(2) == bytes(6)
    assert bench.total("blocks_loaded") == 5
    assert bench.total("bytes_loaded") == 30


def test_loader_reports_absent_short_long_and_corrupt_blocks_as_bad():
    bench = Bench()
    keys = block_keys(PREFIX, hashes(0, 1, 2, 3, 4))
    bench.values.update(
        {keys[0]: b"good..", keys[2]: b"short", keys[3]: b"longer.", keys[4]: kvasir.Corrupt("c")}
    )
    loader = bench.loader()
    loader.begin(Load("r", hashes(0, 1, 2, 3, 4), [0, 1, 2, 3, 4]))
    (request, bad), = wait_done(loader)
    loader.close()
    assert (request, sorted(bad)) == ("r", [1, 2, 3, 4])
    assert bench.total("load_blocks_expired") == 1
    assert bench.total("load_blocks_corrupt") == 3
    assert bench.total("blocks_loaded") == 1


def test_loader_reports_everything_bad_when_the_store_fails():
    for reason in ("deadline", "error", "down"):
        bench = Bench()
        bench.fail_with = reason
        loader = bench.loader()
        loader.begin(Load("r", hashes(0, 1, 2), [0, 1, 2]))
        (_, bad), = wait_done(loader)
        loader.close()
        assert sorted(bad) == [0, 1, 2]
        assert bench.total(f"load_blocks_{reason}") == 3


def test_loader_reports_a_job_even_when_its_thread_meets_a_bug():
    bench = Bench()
    loader = bench.loader()
    loader.begin(Load("r", hashes(0), [99]))  # no such block
    assert wait_done(loader) == [("r", [99])]
    loader.begin(Load("s", hashes(0), [1]))
    assert wait_done(loader) == [("s", [1])], "the thread lives on"
    loader.close()


def test_loader_ends_a_job_without_blocks():
    bench = Bench()
    loader = bench.loader()
    loader.begin(Load("r", [], []))
    assert wait_done(loader) == [("r", [])]
    loader.close()


def test_loader_reports_a_cancelled_job_without_fetching_it():
    bench = Bench(load_workers=1)
    held, entered = threading.Event(), threading.Event()
    loader = bench.loader()
    fetch = bench.stores[0].get_into

    def slow(keys, memory):
        entered.set()
        held.wait(10)
        return fetch(keys, memory)

    bench.stores[0].get_into = slow
    loader.begin(Load("a", hashes(0), [0]))
    assert entered.wait(10)
    loader.begin(Load("b", hashes(1, 2), [1, 2]))
    loader.cancel("b")
    held.set()
    done = dict(wait_done(loader, 2))
    loader.close()
    assert sorted(done["b"]) == [1, 2]
    assert bench.total("load_blocks_cancelled") == 2
    assert bench.stores[0].closed


def test_saver_stores_new_blocks_as_chains_and_skips_known_ones():
    bench = Bench()
    keys = block_keys(PREFIX, hashes(0, 1, 2, 3, 4, 5))
    bench.values[keys[2]] = b"known."
    for i in range(6):
        bench.fill(i, b"%06d" % i)
    saver = bench.saver()
    saver.begin([Save(1, "r", hashes(0, 1, 2, 3, 4, 5), [0, 1, 2, 3, 4, 5], b"root")], True)
    assert saver.drain(10)
    saver.close()
    puts = bench.stores[0].puts
    assert puts == [
        (keys[0:2], PREFIX + b"root"), (keys[3:5], keys[2]), (keys[5:6], keys[4])
    ]
    assert bench.values[keys[2]] == b"known."
    assert bench.values[keys[5]] == b"000005"
    assert saver.take_done() == [1]
    assert (bench.total("blocks_saved"), bench.total("blocks_known")) == (5, 1)


def test_saver_announces_once_and_again_after_the_store_came_back():
    bench = Bench()
    saver = bench.saver()
    saver.begin([Save(1, "r", hashes(0), [0])], True)
    assert saver.drain(10)
    assert len(bench.announced) == 1
    bench.stores[0].health.epoch += 1
    saver.begin([Save(2, "r", hashes(1), [1])], True)
    assert saver.drain(10)
    saver.close()
    assert len(bench.announced) == 2


def test_saver_gives_up_when_the_store_fails_and_counts_it():
    bench = Bench()
    bench.fail_with = "deadline"
    saver = bench.saver()
    saver.begin([Save(1, "r", hashes(0, 1, 2), [0, 1, 2])], True)
    assert saver.drain(10)
    saver.close()
    assert saver.take_done() == [1]
    assert bench.total("save_blocks_deadline") == 3


def test_saver_takes_nothing_while_the_store_is_down_or_the_queue_is_full():
    bench = Bench(save_queue_blocks=2)
    bench.gate = threading.Event()
    saver = bench.saver()
    saver.begin([Save(1, "r", hashes(0), [0])], False)
    saver.begin([Save(2, "r", hashes(0, 1), [0, 1]), Save(3, "r", hashes(2), [2])], True)
    assert sorted(saver.take_done()) == [1, 3]
    bench.gate.set()
    assert saver.drain(10)
    saver.close()
    assert bench.total("save_blocks_down") == 1
    assert bench.total("save_blocks_queue_full") == 1
    assert bench.total("blocks_saved") == 2


def test_saver_flush_ends_waiting_jobs_and_waits_for_the_running_one():
    bench = Bench(flush_wait_ms=0)
    bench.gate = threading.Event()
    saver = bench.saver()
    bench.fill(0, b"before")
    saver.begin([Save(1, "r", hashes(0), [0]), Save(2, "r", hashes(1), [1])], True)
    while not saver._pending[1].active:
        pass
    flushed = threading.Thread(target=saver.flush, args=({1, 2, 99},))
    flushed.start()
    flushed.join(0.1)
    assert flushed.is_alive(), "job 1 is reading its block"
    bench.gate.set()
    flushed.join(10)
    assert not flushed.is_alive()
    bench.fill(0, b"after.")
    assert sorted(saver.take_done()) == [1, 2]
    saver.close()
    keys = block_keys(PREFIX, hashes(0, 1))
    assert bench.values[keys[0]] == b"before"
    assert keys[1] not in bench.values
    assert bench.total("save_blocks_reused") == 1


def test_saver_flush_of_jobs_that_are_done_waits_for_nothing():
    bench = Bench()
    saver = bench.saver()
    saver.begin([Save(1, "r", hashes(0), [0])], True)
    assert saver.drain(10)
    saver.flush({1})
    saver.close()
    assert bench.total("flush_us") == 0


def test_saver_lives_on_after_a_bug():
    bench = Bench()
    saver = bench.saver()
    saver.begin([Save(1, "r", hashes(0), [99]), Save(2, "r", hashes(1), [1])], True)
    assert saver.drain(10)
    saver.close()
    assert sorted(saver.take_done()) == [1, 2]
    assert bench.total("blocks_saved") == 1
