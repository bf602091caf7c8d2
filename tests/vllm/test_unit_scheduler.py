"""The scheduler's half: matches, plans, flushes; driven with stand-ins for vLLM's objects."""

from fakes import BLOCK, FakeStore, Request, block_hash, counters, quiet, step
from kvasir.vllm.keys import Fingerprint, block_keys, key_prefix, marker_key
from kvasir.vllm.options import Options
from kvasir.vllm.plan import Report
from kvasir.vllm.scheduler import SchedulerSide
from kvasir.vllm.zero import ZeroHits

OWN = Fingerprint({"f": 1})
PREFIX = key_prefix("", OWN.hex())


class Bench:
    """A scheduler side over a store that holds the first blocks of prompt "p"."""

    def __init__(self, stored=0, ranks=1, workers=1, **options):
        self.now = 1000.0
        self.store = FakeStore(Options(**options))
        self.prefixes = [key_prefix("", f"{i:016x}") for i in range(ranks)]
        self.prefixes[0] = PREFIX
        for prefix in self.prefixes:
            self.put(prefix, stored)
        self.counters = counters()
        self.zero = ZeroHits(60, "", quiet(), self.clock)
        self.zero.set_own([OWN], marker_key("", "m"))
        self.side = SchedulerSide(
            self.store, self.counters, self.zero, BLOCK, workers, self.clock
        )
        self.side.set_prefixes(self.prefixes)

    def clock(self):
        return self.now

    def put(self, prefix, count):
        for key in block_keys(prefix, [block_hash("p", i) for i in range(count)]):
            self.store.values[key] = b"x"

    def total(self, name):
        return self.counters.total().get(name, 0)

    def computed(self, request, blocks, tokens):
        """One step that computes the whole request; returns its plan."""
        self.side.allocated(request, blocks, 0)
        return self.side.build(
            step(new=[(request.request_id, blocks, 0)], scheduled={request.request_id: tokens})
        )


def test_lookup_finds_the_stored_prefix_asynchronously():
    bench = Bench(stored=3)
    assert bench.side.lookup(Request("r", 20), 0) == (3 * BLOCK, True)
    assert bench.total("lookups_hit") == 1
    assert bench.total("tokens_hit") == 3 * BLOCK


def test_lookup_never_matches_the_last_token():
    bench = Bench(stored=9)
    assert bench.side.lookup(Request("r", 4 * BLOCK), 0) == (3 * BLOCK, True)
    assert bench.side.lookup(Request("s", 4 * BLOCK + 1), 0) == (4 * BLOCK, True)


def test_lookup_counts_only_beyond_what_the_engine_has():
    bench = Bench(stored=3)
    assert bench.side.lookup(Request("r", 20), 2 * BLOCK) == (BLOCK, True)
    assert bench.side.lookup(Request("s", 20), 3 * BLOCK) == (0, False)
    assert bench.total("lookups_absent") == 1


def test_lookup_asks_the_store_once_while_the_pins_last():
    bench = Bench(stored=3, pin_ms=10_000)
    request = Request("r", 20)
    for _ in range(5):
        bench.side.lookup(request, 0)
    assert len(bench.store.matches) == 1
    assert bench.store.matches[0][1] == 10_000
    bench.now += 11
    bench.side.lookup(request, 0)
    assert len(bench.store.matches) == 2


def test_lookup_of_several_ranks_takes_what_all_have():
    bench = Bench(stored=4, ranks=2)
    del bench.store.values[block_keys(bench.prefixes[1], [block_hash("p", 2)])[0]]
    assert bench.side.lookup(Request("r", 20), 0) == (2 * BLOCK, True)


def test_lookup_is_a_miss_when_the_store_fails_and_says_why():
    for reason in ("deadline", "error", "down"):
        bench = Bench(stored=3)
        bench.store.fail_with = reason
        assert bench.side.lookup(Request("r", 20), 0) == (0, False)
        assert bench.total(f"lookups_{reason}") == 1


def test_lookup_before_the_workers_told_their_layout_is_not_ready():
    bench = Bench(stored=3)
    bench.side.set_prefixes([])
    assert bench.side.lookup(Request("r", 20), 0) == (0, False)
    assert bench.total("lookups_not_ready") == 1


def test_lookup_of_a_short_prompt_asks_nothing():
    bench = Bench(stored=3)
    assert bench.side.lookup(Request("r", BLOCK), 0) == (0, False)
    assert bench.store.matches == []


def test_lookup_with_loading_off_asks_nothing():
    bench = Bench(stored=3, load=False)
    assert bench.side.lookup(Request("r", 20), 0) == (0, False)
    assert bench.store.matches == []


def test_load_plan_names_the_blocks_beyond_the_local_ones():
    bench = Bench(stored=3)
    request = Request("r", 20)
    bench.side.lookup(request, BLOCK)
    bench.side.allocated(request, [10, 11, 12, 13, 14], 2 * BLOCK)
    plan = bench.side.build(step())
    assert [(p.blocks, p.hashes) for p in plan.loads] == [
        ([11, 12], [block_hash("p", 1), block_hash("p", 2)])
    ]
    assert plan.idle
    assert bench.side.build(step()).loads == []


def test_save_plan_has_each_block_once_it_is_full():
    bench = Bench()
    request = Request("r", 10)
    bench.side.lookup(request, 0)
    plan = bench.computed(request, [5, 6, 7], 10)
    assert [s.blocks for s in plan.saves] == [[5, 6]]
    request.num_tokens = 13
    request.block_hashes.append(block_hash("p", 2))
    plan = bench.side.build(step(cached=[("r", [8], 11)], scheduled={"r": 2}))
    assert [(s.blocks, s.parent) for s in plan.saves] == [([7], block_hash("p", 1))]
    plan = bench.side.build(step(cached=[("r", [], 13)], scheduled={"r": 1}))
    assert plan.saves == []


def test_save_plan_of_a_chunked_prefill_follows_the_chunks():
    bench = Bench()
    request = Request("r", 16)
    bench.side.lookup(request, 0)
    plan = bench.computed(request, [1, 2], 6)
    assert [s.blocks for s in plan.saves] == [[1]]
    plan = bench.side.build(step(cached=[("r", [3, 4], 6)], scheduled={"r": 10}))
    assert [s.blocks for s in plan.saves] == [[2, 3, 4]]


def test_save_plan_leaves_out_draft_tokens():
    bench = Bench()
    request = Request("r", 12)
    bench.side.lookup(request, 0)
    bench.side.allocated(request, [1, 2, 3], 0)
    out = step(new=[("r", [1, 2, 3], 0)], scheduled={"r": 8}, spec={"r": [1, 2]})
    assert [s.blocks for s in bench.side.build(out).saves] == [[1]]


def test_save_plan_waits_for_hashes_that_are_not_known_yet():
    bench = Bench()
    request = Request("r", 8)
    later = request.block_hashes.pop()
    bench.side.lookup(request, 0)
    assert [s.blocks for s in bench.computed(request, [1, 2], 8).saves] == [[1]]
    request.block_hashes.append(later)
    plan = bench.side.build(step(cached=[("r", [], 8)], scheduled={"r": 1}))
    assert [s.blocks for s in plan.saves] == [[2]]


def test_save_plan_does_not_offer_what_was_loaded():
    bench = Bench(stored=2)
    request = Request("r", 13)
    bench.side.lookup(request, 0)
    bench.side.allocated(request, [1, 2, 3, 4], 2 * BLOCK)
    bench.side.build(step())
    plan = bench.side.build(step(new=[("r", [1, 2, 3, 4], 8)], scheduled={"r": 5}))
    assert [s.blocks for s in plan.saves] == [[3]]


def test_save_plan_offers_again_what_could_not_be_loaded():
    bench = Bench(stored=2)
    request = Request("r", 13)
    bench.side.lookup(request, 0)
    bench.side.allocated(request, [1, 2, 3, 4], 2 * BLOCK)
    bench.side.build(step())
    bench.side.report(Report(failed_loads={"r"}))
    assert bench.side.lookup(request, 0) == (0, False), "a request is tried once"
    plan = bench.side.build(step(new=[("r", [1, 2, 3, 4], 4)], scheduled={"r": 9}))
    assert [s.blocks for s in plan.saves] == [[2, 3]]


def test_save_plan_heals_a_store_that_lost_what_the_engine_has():
    bench = Bench(stored=1)
    request = Request("r", 13)
    bench.side.lookup(request, 3 * BLOCK)
    bench.side.allocated(request, [1, 2, 3, 4], 0)
    plan = bench.side.build(step(new=[("r", [1, 2, 3, 4], 12)], scheduled={"r": 1}))
    assert [s.blocks for s in plan.saves] == [[2, 3]]


def test_save_plan_leaves_generated_tokens_out_when_told():
    bench = Bench(save_decode=False)
    request = Request("r", 12)
    request.num_prompt_tokens = 9
    bench.side.lookup(request, 0)
    assert [s.blocks for s in bench.computed(request, [1, 2, 3], 12).saves] == [[1, 2]]


def test_save_plan_is_empty_with_saving_off():
    bench = Bench(save=False)
    request = Request("r", 12)
    bench.side.lookup(request, 0)
    assert bench.computed(request, [1, 2, 3], 12).saves == []


def test_finished_request_offers_the_rest_with_the_next_step():
    bench = Bench()
    request = Request("r", 12)
    later = [request.block_hashes.pop()]
    bench.side.lookup(request, 0)
    bench.computed(request, [1, 2, 3], 12)
    request.block_hashes += later
    request.num_tokens, request.num_computed_tokens = 13, 12
    bench.side.finished(request, [1, 2, 3], complete=True)
    assert [s.blocks for s in bench.side.build(step()).saves] == [[3]]


def test_finished_request_offers_nothing_whose_memory_has_a_new_owner():
    bench = Bench()
    request = Request("r", 12)
    later = [request.block_hashes.pop()]
    bench.side.lookup(request, 0)
    bench.computed(request, [1, 2, 3], 12)
    request.block_hashes += later
    request.num_tokens, request.num_computed_tokens = 13, 12
    bench.side.finished(request, [1, 2, 3], complete=True)
    other = Request("s", 4, prompt="q")
    bench.side.lookup(other, 0)
    plan = bench.computed(other, [3], 4)
    assert [(s.request_id, s.blocks) for s in plan.saves] == [("s", [3])]


def test_flush_names_the_jobs_whose_blocks_are_about_to_be_written():
    bench = Bench()
    first = Request("r", 8)
    bench.side.lookup(first, 0)
    job = bench.computed(first, [1, 2], 8).saves[0].job
    bench.side.finished(first, [1, 2], complete=True)
    second = Request("s", 8, prompt="q")
    bench.side.lookup(second, 0)
    plan = bench.computed(second, [2, 3], 8)
    assert plan.flush == {job}


def test_flush_is_not_asked_for_jobs_that_every_worker_reported():
    bench = Bench(workers=2)
    first = Request("r", 8)
    bench.side.lookup(first, 0)
    job = bench.computed(first, [1, 2], 8).saves[0].job
    bench.side.report(Report(saved={job: 1}))
    second = Request("s", 4, prompt="q")
    bench.side.lookup(second, 0)
    assert bench.computed(second, [2], 4).flush == {job}, "one worker of two is not enough"
    bench.side.report(Report(saved={job: 1}))
    third = Request("t", 4, prompt="t")
    bench.side.lookup(third, 0)
    assert job not in bench.computed(third, [1], 4).flush


def test_flush_covers_blocks_that_a_load_will_write():
    bench = Bench(stored=2)
    first = Request("r", 8, prompt="q")
    bench.side.lookup(first, 0)
    job = bench.computed(first, [1, 2], 8).saves[0].job
    second = Request("s", 13)
    bench.side.lookup(second, 0)
    bench.side.allocated(second, [1, 7, 8, 9], 2 * BLOCK)
    plan = bench.side.build(step())
    assert plan.flush == {job}
    assert plan.loads[0].blocks == [1, 7]


def test_flush_covers_a_request_that_is_resumed_into_other_blocks():
    bench = Bench()
    first = Request("r", 8)
    bench.side.lookup(first, 0)
    job = bench.computed(first, [1, 2], 8).saves[0].job
    second = Request("s", 8, prompt="q")
    bench.side.lookup(second, 0)
    bench.computed(second, [3, 4], 8)
    plan = bench.side.build(step(cached=[("s", [1, 5], 0)], scheduled={"s": 8}, resumed={"s"}))
    assert job in plan.flush


def test_aborted_load_is_cancelled_and_forgotten():
    bench = Bench(stored=3)
    request = Request("r", 20)
    bench.side.lookup(request, 0)
    bench.side.allocated(request, [1, 2, 3], 3 * BLOCK)
    bench.side.build(step())
    bench.side.finished(request, [], complete=False)
    plan = bench.side.build(step())
    assert plan.cancel == {"r"}
    assert plan.saves == []
    assert bench.side._requests == {}


def test_report_of_a_lost_store_stops_look_ups_without_a_deadline():
    bench = Bench(stored=3)
    bench.side.report(Report(down=True))
    assert not bench.store.health.up


def test_reports_of_several_workers_add_up():
    merged = Report({1: 1}, {"a"}, False).merge(Report({1: 1, 2: 1}, {"b"}, True))
    assert merged == Report({1: 2, 2: 1}, {"a", "b"}, True)
