"""The fingerprint of an engine, read from vLLM's configuration."""

from __future__ import annotations

import os
from typing import Any

from kvasir.vllm.keys import Fingerprint, hash_seed_identity, weights_identity
from kvasir.vllm.layout import Layout
from kvasir.vllm.options import Options

# What of the model's own configuration decides the numbers in its KV cache.
_CONFIG_NAMES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "sliding_window",
)


def model_name(config: Any, options: Options) -> str:
    """As the option says, else vLLM's model; of a local directory its last part, for the same
    checkpoint may be mounted elsewhere on the next machine."""
    if options.model_name:
        return options.model_name
    path = str(config.model_config.model)
    return os.path.basename(os.path.normpath(path)) if os.path.isdir(path) else path


def engine_fields(config: Any, options: Options) -> dict[str, object]:
    """What all ranks of an engine have in common."""
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    algorithm = str(cache.prefix_caching_hash_algo)
    text_config = getattr(model, "hf_text_config", None)
    fields: dict[str, object] = {
        "model": model_name(config, options),
        "revision": model.revision or "",
        "weights": weights_identity(str(model.model)) or "by name",
        "quantization": model.quantization or "",
        "dtype": str(model.dtype),
        "cache_dtype": str(cache.cache_dtype),
        "block_size": cache.block_size,
        "hash_algorithm": algorithm,
        "hash_seed": hash_seed_identity(algorithm),
        "tensor_parallel": parallel.tensor_parallel_size,
        "pipeline_parallel": parallel.pipeline_parallel_size,
    }
    load_format = str(getattr(config.load_config, "load_format", ""))
    if "dummy" in load_format:
        fields["weights"] = f"random, seed {model.seed}"
    for name in _CONFIG_NAMES:
        value = getattr(text_config, name, None)
        if value is not None:
            fields[f"config.{name}"] = str(value)
    return fields


def rank_fingerprint(
    config: Any, options: Options, layout: Layout, tensor_rank: int, pipeline_rank: int
) -> Fingerprint:
    """The fingerprint of one worker: what it holds of each layer, and in which form."""
    fields = engine_fields(config, options)
    fields["tensor_rank"] = tensor_rank
    fields["pipeline_rank"] = pipeline_rank
    fields["layout"] = list(layout.description)
    return Fingerprint(fields, options.cache_salt)
