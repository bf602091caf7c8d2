"""Kvasir as vLLM's external KV cache.

Name it to vLLM, which loads it without a fork or a plug-in package::

    --kv-transfer-config '{"kv_connector": "KvasirConnector",
                           "kv_connector_module_path": "kvasir.vllm",
                           "kv_role": "kv_both",
                           "kv_load_failure_policy": "recompute",
                           "kv_connector_extra_config": {"address": "tcp://127.0.0.1:6379"}}'

python/VLLM.md says what to set and why. The class is imported when it is asked for, so that the
parts that need no engine (``options``, ``keys``, ``layout``, ``plan``) can be used and tested
where vLLM is not installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvasir.vllm.connector import KvasirConnector

__all__ = ["KvasirConnector"]


def __getattr__(name: str) -> Any:
    if name == "KvasirConnector":
        from kvasir.vllm.connector import KvasirConnector

        return KvasirConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
