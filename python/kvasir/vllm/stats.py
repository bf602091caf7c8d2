"""Counters in the form in which vLLM collects, logs and exports them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)
from vllm.v1.metrics.utils import create_metric_per_engine

from kvasir.vllm.counters import COUNTERS, REASONS, merged


@dataclass
class KvasirStats(KVConnectorStats):  # type: ignore[misc]
    """Plain sums; ``data`` maps a counter's name to its growth."""

    def reset(self) -> None:
        self.data: dict[str, Any] = {}

    def aggregate(self, other: KVConnectorStats) -> KvasirStats:
        self.data = merged(self.data, other.data)
        return self

    def is_empty(self) -> bool:
        return not any(self.data.values())

    def reduce(self) -> dict[str, int | float]:
        """A line for the log: sums, speeds, the share of tokens that was found."""
        data = self.data
        line: dict[str, int | float] = {
            f"kvasir {name}": data[name] for name in COUNTERS if data.get(name)
        }
        if data.get("tokens_needed"):
            share = data.get("tokens_hit", 0) / data["tokens_needed"]
            line["kvasir hit ratio"] = round(share, 4)
        for verb, noun in (("load", "loaded"), ("save", "saved")):
            if data.get(f"{verb}_us"):
                speed = data.get(f"bytes_{noun}", 0) / data[f"{verb}_us"] / 1000
                line[f"kvasir {verb} GB/s"] = round(speed, 3)
        return line


class KvasirPromMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """vllm:kvasir_<counter>_total; look-ups are one metric with the label ``reason``."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: Any,
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._metrics: dict[str, dict[int, Any]] = {}
        for name, text in COUNTERS.items():
            if not name.startswith("lookups_"):
                counter = self._counter_cls(
                    name=f"vllm:kvasir_{name}", documentation=f"Kvasir: {text}.",
                    labelnames=labelnames,
                )
                self._metrics[name] = create_metric_per_engine(counter, per_engine_labelvalues)
        lookups = self._counter_cls(
            name="vllm:kvasir_lookups", documentation="Kvasir: look-ups by how they ended.",
            labelnames=[*labelnames, "reason"],
        )
        for reason in REASONS:
            self._metrics[f"lookups_{reason}"] = create_metric_per_engine(
                lookups, {i: [*values, reason] for i, values in per_engine_labelvalues.items()}
            )

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, amount in transfer_stats_data.items():
            if amount and name in self._metrics:
                self._metrics[name][engine_idx].inc(amount)
