"""KvasirConnector: the class that vLLM loads; it binds the two halves to vLLM's interface.

How loads overlap with computing. A request whose prefix is in the store is announced to vLLM as
loading asynchronously. vLLM gives it blocks and sets it aside; its blocks are fetched by threads
while the engine goes on computing other requests, and it is scheduled when they are there. Layer by
layer waiting inside the forward pass is not used: it would stall every other request of the batch
for one request's load. Loads begin before the step's forward pass (handle_preemptions), not after
it as start_load_kv may: on a CPU the forward pass would be over by then.

How saves overlap. See ``saver``: threads read the blocks in place after the step that filled them.

What fails is computed: blocks that could not be loaded are reported to vLLM, which recomputes them
if kv_load_failure_policy is "recompute". A request is tried once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.logger import init_logger

from kvasir.vllm import identity
from kvasir.vllm.counters import Counters
from kvasir.vllm.keys import Fingerprint, key_prefix, marker_key
from kvasir.vllm.layout import LayoutError, layout_of
from kvasir.vllm.options import Options
from kvasir.vllm.plan import Plan, Report
from kvasir.vllm.scheduler import SchedulerSide
from kvasir.vllm.stats import KvasirPromMetrics, KvasirStats
from kvasir.vllm.store import Store, make_health
from kvasir.vllm.worker import WorkerSide
from kvasir.vllm.zero import ZeroHits

# vLLM shows only loggers under its own name.
logger: logging.Logger = init_logger("vllm.kvasir")


@dataclass
class StepPlan(KVConnectorMetadata):  # type: ignore[misc]
    """A plan on its way from the scheduler to the workers."""

    plan: Plan


@dataclass
class StepReport(KVConnectorWorkerMetadata):  # type: ignore[misc]
    """A report on its way back; vLLM adds the reports of all workers up."""

    report: Report

    def aggregate(self, other: KVConnectorWorkerMetadata) -> StepReport:
        assert isinstance(other, StepReport)
        return StepReport(self.report.merge(other.report))


@dataclass
class RankIdentity(KVConnectorHandshakeMetadata):  # type: ignore[misc]
    """What a worker tells the scheduler once its KV tensors exist."""

    fields: dict[str, object]


class KvasirConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """See the module and python/VLLM.md."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = self._kv_transfer_config
        options = Options.parse(transfer.kv_connector_extra_config)
        self._options = replace(
            options,
            load=options.load and options.enabled and transfer.is_kv_consumer,
            save=options.save and options.enabled and transfer.is_kv_producer,
        )
        self._counters = Counters()
        self._scheduler: SchedulerSide | None = None
        self._worker: WorkerSide | None = None
        self._identity: RankIdentity | None = None
        self._unsupported = self._why_unsupported()
        self._marker_key = marker_key(
            options.namespace, identity.model_name(vllm_config, options)
        )
        self._health: Any = None
        if not options.enabled:
            logger.info("kvasir: disabled by option; the engine runs without it")
            return
        side = role.name.lower()
        self._health = make_health(side, self._options, self._counters, logger)
        if role == KVConnectorRole.SCHEDULER:
            self._make_scheduler()

    def _why_unsupported(self) -> str:
        groups = list(self._kv_cache_config.kv_cache_groups)
        if len(groups) != 1:
            return (
                f"the model has {len(groups)} groups of KV caches (hybrid attention), one is "
                "supported; --disable-hybrid-kv-cache-manager may make it one"
            )
        parallel = self._vllm_config.parallel_config
        if (
            getattr(parallel, "decode_context_parallel_size", 1) > 1
            or getattr(parallel, "prefill_context_parallel_size", 1) > 1
        ):
            return "context parallelism is not supported"
        size, spec_size = (
            self._vllm_config.cache_config.block_size,
            groups[0].kv_cache_spec.block_size,
        )
        if size != spec_size:
            return f"blocks of {spec_size} tokens in the cache but {size} in the scheduler"
        return ""

    def _make_scheduler(self) -> None:
        config, options = self._vllm_config, self._options
        if self._unsupported:
            logger.error("kvasir: nothing will be stored or loaded: %s", self._unsupported)
        self._zero = ZeroHits(options.warn_seconds, options.namespace, logger)
        self._hint()
        store = Store(options, self._health, options.lookup_timeout_ms)
        self._scheduler = SchedulerSide(
            store,
            self._counters,
            self._zero,
            config.cache_config.block_size,
            config.parallel_config.world_size,
        )
        logger.info(
            "kvasir: store %s, namespace %r, load %s, save %s",
            options.address, options.namespace, options.load, options.save,
        )

    def _hint(self) -> None:
        """Settings that make hits impossible or failures fatal are told at once."""
        if identity.engine_fields(self._vllm_config, self._options)["hash_seed"] == "random":
            hint = (
                "prefix_caching_hash_algo is xxhash and PYTHONHASHSEED is not set: every process "
                "hashes differently and can never share a block; use sha256_cbor."
            )
            self._zero.hints.append(hint)
            logger.error("kvasir: %s", hint)
        policy = self._kv_transfer_config.kv_load_failure_policy
        if policy != "recompute":
            logger.warning(
                "kvasir: kv_load_failure_policy is %r: a request whose blocks cannot be loaded "
                'will end with an error; set "recompute"',
                policy,
            )

    # ---- worker side -----------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        if not self._options.enabled or self._unsupported:
            return
        config = self._vllm_config
        try:
            layout = layout_of(kv_caches, self._kv_cache_config.num_blocks)
        except LayoutError as error:
            logger.error("kvasir: nothing will be stored or loaded: %s", error)
            return
        from vllm.distributed.parallel_state import get_pp_group, get_tp_group

        tensor_rank = get_tp_group().rank_in_group
        pipeline_rank = get_pp_group().rank_in_group
        fingerprint = identity.rank_fingerprint(
            config, self._options, layout, tensor_rank, pipeline_rank
        )
        self._identity = RankIdentity(dict(fingerprint.fields))
        self._worker = WorkerSide(
            self._options, self._health, self._counters, logger, kv_caches, layout, fingerprint,
            self._marker_key,
        )
        logger.info(
            "kvasir: fingerprint %s, %d blocks of %d bytes in %d pieces",
            fingerprint.hex(), layout.block_count, layout.block_bytes, len(layout.pieces),
        )

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        return self._identity

    def _plan(self) -> Plan:
        metadata = self._connector_metadata
        return metadata.plan if isinstance(metadata, StepPlan) else Plan()

    def handle_preemptions(self, kv_connector_metadata: KVConnectorMetadata) -> None:
        """Called before the step overwrites anything: the barrier for saves, the start of loads."""
        if self._worker is not None and isinstance(kv_connector_metadata, StepPlan):
            self._worker.begin(kv_connector_metadata.plan)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Loads were begun by handle_preemptions (see the module), where the runner calls it."""
        if self._worker is not None:
            self._worker.begin(self._plan())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing: a request is scheduled only when its blocks are there."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Nothing: all layers of a block are stored as one value, after the step."""

    def wait_for_save(self) -> None:
        if self._worker is not None:
            self._worker.save(self._plan())

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        if self._worker is None:
            return None, None
        return None, self._worker.take_loaded(self._plan()) or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._worker.take_load_errors() if self._worker is not None else set()

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        report = self._worker.take_report() if self._worker is not None else None
        return StepReport(report) if report is not None else None

    # ---- scheduler side ----------------------------------------------------------------------

    def set_xfer_handshake_metadata_pp_aware(
        self, metadata: dict[tuple[int, int], KVConnectorHandshakeMetadata]
    ) -> None:
        if self._scheduler is None:
            return
        known = [m for _, m in sorted(metadata.items()) if isinstance(m, RankIdentity)]
        if len(known) != self._vllm_config.parallel_config.world_size:
            logger.error("kvasir: %d workers told their layout; nothing is looked up", len(known))
            return
        own = [Fingerprint(m.fields, self._options.cache_salt) for m in known]
        self._zero.set_own(own, self._marker_key)
        self._scheduler.set_prefixes([key_prefix(self._options.namespace, f.hex()) for f in own])

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        if self._scheduler is None:
            return 0, False
        return self._scheduler.lookup(request, num_computed_tokens)

    def update_state_after_alloc(
        self, request: Any, blocks: Any, num_external_tokens: int
    ) -> None:
        if self._scheduler is not None and not self._unsupported:
            self._scheduler.allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        if self._scheduler is None or self._unsupported:
            return StepPlan(Plan())
        return StepPlan(self._scheduler.build(scheduler_output))

    def update_connector_output(self, connector_output: Any) -> None:
        meta = connector_output.kv_connector_worker_meta
        if self._scheduler is not None and isinstance(meta, StepReport):
            self._scheduler.report(meta.report)

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """Never asks vLLM to hold blocks back: see ``saver``."""
        if self._scheduler is not None:
            complete = request.status.name in ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED")
            self._scheduler.finished(request, block_ids, complete)
        return False, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, block_ids[0] if block_ids else [])

    @property
    def requires_kv_delivery(self) -> bool:
        """A save that is dropped is a miss later on, nothing worse."""
        return False

    def take_events(self) -> Iterable[Any]:
        return ()

    def reset_cache(self) -> bool | None:
        """The store is shared with other engines: one engine's reset does not empty it."""
        return None

    # ---- both ----------------------------------------------------------------------------------

    def get_kv_connector_stats(self) -> KvasirStats | None:
        recent = self._counters.take()
        return KvasirStats(data=recent) if recent else None

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KvasirStats:
        return KvasirStats(data=dict(data or {}))

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: Any,
        metric_types: Any,
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KvasirPromMetrics:
        return KvasirPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def counters(self) -> dict[str, int]:
        """All counts since the start, of this side."""
        return self._counters.total()

    def shutdown(self) -> None:
        if self._worker is not None:
            self._worker.close()
        elif self._health is not None:
            self._health.close()
