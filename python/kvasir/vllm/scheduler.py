"""The scheduler's half: which blocks a request may take from the store, which are to be stored.

Runs in vLLM's scheduler, in its thread. It talks to the store once per request (a match over the
block hashes, one per rank) and never moves a payload. It knows vLLM's objects only by the few
attributes that it reads, so that tests can drive it with stand-ins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvasir.vllm.counters import Counters
from kvasir.vllm.keys import block_keys
from kvasir.vllm.plan import Load, Plan, Report, Save
from kvasir.vllm.store import Store, StoreFailure
from kvasir.vllm.zero import ZeroHits

_NOTHING = (0, False)


@dataclass
class _Request:
    """What is known of one request between the scheduler's calls."""

    request: Any
    blocks: list[int] = field(default_factory=list)
    saved: int = 0  # blocks below this were offered to the store, or are in it
    matched: int = 0  # leading blocks found by the last match
    matched_hashes: int = -1  # how many were asked for then; -1: never asked
    matched_until: float = 0.0  # the pins of that match end then
    load_from: int = 0
    loading: bool = False
    load_failed: bool = False  # once is enough: compute it this time


class SchedulerSide:
    """See the module. ``ranks`` are key prefixes, one per worker, told after they registered."""

    def __init__(
        self,
        store: Store,
        counters: Counters,
        zero: ZeroHits,
        block_size: int,
        worker_count: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._options = store.options
        self._counters = counters
        self._zero = zero
        self._block_size = block_size
        self._worker_count = worker_count
        self._clock = clock
        self._prefixes: list[bytes] = []
        self._requests: dict[str, _Request] = {}
        self._plan = Plan()
        self._written: set[int] = set()  # blocks that got a new owner since the last build()
        self._final_saves: list[Save] = []
        self._next_job = 1
        self._job_reports: dict[int, int] = {}  # pending save job: workers that reported it
        self._job_blocks: dict[int, list[int]] = {}
        self._block_jobs: dict[int, set[int]] = {}
        self.load = self._options.load
        self.save = self._options.save

    def set_prefixes(self, prefixes: Sequence[bytes]) -> None:
        """The key prefixes of all ranks; nothing is looked up before."""
        self._prefixes = list(prefixes)

    # ---- look-up --------------------------------------------------------------------------

    def lookup(self, request: Any, computed_tokens: int) -> tuple[int, bool]:
        """(tokens to load beyond computed_tokens, loaded asynchronously?). Asks the store once per
        request; vLLM may call again when it had no room, which is answered from the first match
        while its pins last. The last token is never matched: the engine must compute something."""
        state = self._state(request)
        if not self.load or state.load_failed:
            return _NOTHING
        hashes = request.block_hashes
        limit = min((request.num_tokens - 1) // self._block_size, len(hashes))
        local = computed_tokens // self._block_size
        if limit != state.matched_hashes or self._clock() >= state.matched_until:
            self._match(state, hashes[:limit], local)
        found = min(state.matched, limit) - local
        if found <= 0:
            return _NOTHING
        state.load_from = local
        return found * self._block_size, True

    def _match(self, state: _Request, hashes: Sequence[bytes], local: int) -> None:
        """Finds how many leading blocks are stored. The blocks that the engine has itself are asked
        for as well: those that the store lost meanwhile are stored again, and a prefix that is hot
        here stays warm there."""
        first = state.matched_hashes < 0
        state.matched_hashes = len(hashes)
        state.matched = 0
        state.matched_until = self._clock() + max(self._options.pin_ms, 1) / 2000
        if not hashes:
            self._note("short", 0, 0)
            return
        reason, began = "", time.perf_counter_ns()
        try:
            state.matched = self._match_all_ranks(hashes)
        except StoreFailure as failure:
            reason = failure.reason
        self._counters.add("lookup_us", (time.perf_counter_ns() - began) // 1000)
        state.saved = state.matched if not reason else local
        needed = len(hashes) - local
        hit = max(state.matched - local, 0)
        if not reason:
            reason = "hit" if hit else "local" if needed <= 0 else self._why_absent(hashes[local])
        if first or reason == "hit":
            self._note(reason, max(needed, 0), hit)

    def _match_all_ranks(self, hashes: Sequence[bytes]) -> int:
        if not self._prefixes:
            raise StoreFailure("not_ready", "the workers have not told their layout")
        count = len(hashes)
        for prefix in self._prefixes:
            count = self._store.match(block_keys(prefix, hashes[:count]), self._options.pin_ms)
            if not count:
                break
        return count

    def _why_absent(self, block_hash: bytes) -> str:
        return "other_fingerprint" if self._zero.elsewhere(self._store, block_hash) else "absent"

    def _note(self, reason: str, needed_blocks: int, hit_blocks: int) -> None:
        self._counters.add(f"lookups_{reason}")
        self._counters.add("tokens_needed", needed_blocks * self._block_size)
        self._counters.add("tokens_hit", hit_blocks * self._block_size)
        self._zero.note(reason)

    # ---- allocation and the step's plan ------------------------------------------------------

    def allocated(self, request: Any, blocks: Sequence[int], external_tokens: int) -> None:
        """vLLM gave the request its blocks; the first external_tokens beyond what it had itself
        are to be loaded. Hashes are taken from the request, whose chain is right at any time."""
        state = self._state(request)
        state.blocks = list(blocks)
        if external_tokens <= 0:
            return
        first, count = state.load_from, external_tokens // self._block_size
        targets = state.blocks[first : first + count]
        hashes = [bytes(h) for h in request.block_hashes[first : first + count]]
        self._written.update(targets)
        state.loading = True
        self._plan.loads.append(Load(request.request_id, hashes, targets))

    def build(self, output: Any) -> Plan:
        """The plan of the step that vLLM has just put together; begins a new one."""
        plan, self._plan = self._plan, Plan()
        for new in output.scheduled_new_reqs:
            state = self._requests.get(new.req_id)
            if state is not None:
                self._replace_blocks(state, new.block_ids[0], new.num_computed_tokens)
                self._plan_save(plan, state, new.num_computed_tokens, output)
        cached = output.scheduled_cached_reqs
        for i, request_id in enumerate(cached.req_ids):
            state = self._requests.get(request_id)
            if state is not None:
                self._cached_blocks(state, cached, i)
                self._plan_save(plan, state, cached.num_computed_tokens[i], output)
        self._plan_final_saves(plan)
        for block in self._written:
            plan.flush |= self._block_jobs.get(block, set())
        self._written = set()
        for save in plan.saves:
            self._track(save)
        plan.idle = not output.total_num_scheduled_tokens
        return plan

    def _replace_blocks(self, state: _Request, blocks: Sequence[int], computed: int) -> None:
        state.blocks = list(blocks)
        state.loading = False
        self._written.update(state.blocks[computed // self._block_size :])

    def _cached_blocks(self, state: _Request, cached: Any, i: int) -> None:
        ids = cached.new_block_ids[i]
        fresh = list(ids[0]) if ids else []
        if state.request.request_id in cached.resumed_req_ids:
            self._replace_blocks(state, fresh, cached.num_computed_tokens[i])
        else:
            state.blocks += fresh
            self._written.update(fresh)

    def _plan_save(self, plan: Plan, state: _Request, computed: int, output: Any) -> None:
        """Offers the blocks that are full once this step is computed. Draft tokens do not count,
        they may be rejected; blocks whose hash vLLM does not know yet come a step later."""
        request_id = state.request.request_id
        tokens = computed + output.num_scheduled_tokens.get(request_id, 0)
        tokens -= len(output.scheduled_spec_decode_tokens.get(request_id, ()))
        save = self._save(state, tokens, computed // self._block_size)
        if save is not None:
            plan.saves.append(save)

    def _save(self, state: _Request, tokens: int, computed_blocks: int) -> Save | None:
        if not self.save or not self._prefixes:
            return None
        request = state.request
        if not self._options.save_decode:
            tokens = min(tokens, request.num_prompt_tokens)
        hashes = request.block_hashes
        end = min(tokens // self._block_size, len(hashes), len(state.blocks))
        begin = min(state.saved, computed_blocks)
        if end <= begin:
            return None
        state.saved = end
        job, self._next_job = self._next_job, self._next_job + 1
        return Save(
            job,
            request.request_id,
            [bytes(h) for h in hashes[begin:end]],
            state.blocks[begin:end],
            bytes(hashes[begin - 1]) if begin else None,
        )

    def _plan_final_saves(self, plan: Plan) -> None:
        """Blocks of finished requests, unless this very step gives their memory to another."""
        for save in self._final_saves:
            keep = 0
            while keep < len(save.blocks) and save.blocks[keep] not in self._written:
                keep += 1
            if keep:
                save.hashes, save.blocks = save.hashes[:keep], save.blocks[:keep]
                plan.saves.append(save)
        self._final_saves = []

    # ---- the end of a request; news from the workers ------------------------------------------

    def finished(self, request: Any, blocks: Iterable[int], complete: bool) -> None:
        """The request is over. What it computed and did not offer yet is offered with the next
        plan; loads still running for it are cancelled."""
        state = self._requests.pop(request.request_id, None)
        if state is None:
            return
        if state.loading:
            self._plan.cancel.add(request.request_id)
            return
        if complete:
            state.blocks = list(blocks)
            tokens = min(request.num_computed_tokens, request.num_tokens - 1)
            save = self._save(state, tokens, state.saved)
            if save is not None:
                self._final_saves.append(save)

    def report(self, report: Report) -> None:
        for job, count in report.saved.items():
            if job not in self._job_reports:
                continue
            self._job_reports[job] += count
            if self._job_reports[job] >= self._worker_count:
                self._forget(job)
        for request_id in report.failed_loads:
            state = self._requests.get(request_id)
            if state is not None:
                state.load_failed = True
        if report.down:
            self._store.health.fail("error", "a worker lost the store")

    def _state(self, request: Any) -> _Request:
        state = self._requests.get(request.request_id)
        if state is None:
            state = self._requests[request.request_id] = _Request(request)
        return state

    def _track(self, save: Save) -> None:
        self._job_reports[save.job] = 0
        self._job_blocks[save.job] = save.blocks
        for block in save.blocks:
            self._block_jobs.setdefault(block, set()).add(save.job)

    def _forget(self, job: int) -> None:
        del self._job_reports[job]
        for block in self._job_blocks.pop(job):
            jobs = self._block_jobs.get(block, set())
            jobs.discard(job)
            if not jobs:
                self._block_jobs.pop(block, None)
