#!/usr/bin/env python3
"""A vLLM engine that is driven by JSON lines: one command on stdin, one answer on stdout.

Usage: engine_process.py '{"model": DIR, "dtype": ..., "extra": {...}, "stand_in": DIR, ...}'
Commands: {"do": "generate", "prompts": [...], "tokens": 16}, {"do": "reset"}, {"do": "counters"},
{"do": "abort", "prompt": "...", "steps": 1}, {"do": "tick"}, {"do": "quit"}. What vLLM prints goes
to stderr.
"""

import json
import os
import sys
import time

# Answers have the real stdout for themselves; whatever else prints goes to stderr.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


class Engine:
    def __init__(self, setup):
        os.environ.update(
            HF_HUB_OFFLINE="1",
            TRANSFORMERS_OFFLINE="1",
            VLLM_NO_USAGE_STATS="1",
            VLLM_ENABLE_V1_MULTIPROCESSING="1" if setup.get("processes") else "0",
        )
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")
        if setup.get("stand_in"):
            self._use_stand_in(setup["stand_in"])
        from vllm import LLM
        from vllm.config import KVTransferConfig

        transfer = None
        if setup.get("connector", True):
            transfer = KVTransferConfig(
                kv_connector="KvasirConnector",
                kv_connector_module_path="kvasir.vllm",
                kv_role="kv_both",
                kv_load_failure_policy="recompute",
                kv_connector_extra_config=setup.get("extra", {}),
            )
        options = {
            "enforce_eager": True,
            "dtype": "float32",
            "max_model_len": 2048,
            "max_num_seqs": 8,
            "block_size": 32,
            "kv_cache_memory_bytes": 64 << 20,
            "prefix_caching_hash_algo": "sha256_cbor",
            "seed": 0,
            "disable_log_stats": False,
            **setup.get("engine", {}),
        }
        self.llm = LLM(model=setup["model"], kv_transfer_config=transfer, **options)

    @staticmethod
    def _use_stand_in(directory):
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        from kvasir.vllm import store
        from stand_in import DirectoryClient

        store.connect = lambda options: DirectoryClient(directory)

    def generate(self, command):
        """Greedy tokens, the number of prompt tokens that were not computed, seconds it took."""
        from vllm import SamplingParams

        began = time.perf_counter()
        params = SamplingParams(
            temperature=0, max_tokens=command.get("tokens", 16), ignore_eos=True
        )
        outputs = self.llm.generate(command["prompts"], params, use_tqdm=False)
        return {
            "seconds": time.perf_counter() - began,
            "tokens": [list(o.outputs[0].token_ids) for o in outputs],
            "finish": [o.outputs[0].finish_reason for o in outputs],
            "prompt": [len(o.prompt_token_ids) for o in outputs],
            "cached": [o.num_cached_tokens for o in outputs],
        }

    def abort(self, command):
        """Aborts a request after some steps and lets the engine run dry."""
        from vllm import SamplingParams

        engine = self.llm.llm_engine
        params = SamplingParams(temperature=0, max_tokens=64, ignore_eos=True)
        given = engine.add_request("aborted", command["prompt"], params)
        for _ in range(command.get("steps", 1)):
            engine.step()
        engine.abort_request([given if isinstance(given, str) else "aborted"])
        end = time.monotonic() + 20
        scheduler = engine.engine_core.engine_core.scheduler
        while scheduler.requests and time.monotonic() < end:
            engine.step()
        pool = scheduler.kv_cache_manager.block_pool
        return {
            "left": len(scheduler.requests),
            "tracked": len(scheduler.connector._scheduler._requests),
            "free": pool.get_num_free_blocks(),
            "blocks": pool.num_gpu_blocks,
        }

    def counters(self, command):
        """Counts of both halves; with several processes from vLLM's metrics, which a last short
        request brings up to date."""
        core = getattr(self.llm.llm_engine.engine_core, "engine_core", None)
        if core is None:
            return {"metrics": self._metrics()}
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        worker = get_kv_transfer_group()
        if worker._worker is not None and worker._worker._saver is not None:
            worker._worker._saver.drain(10)
        return {
            "scheduler": core.scheduler.connector.counters(),
            "worker": worker.counters(),
            "fingerprint": worker._worker._fingerprint.hex() if worker._worker else "",
            "block_bytes": worker._worker._layout.block_bytes if worker._worker else 0,
        }

    def _metrics(self):
        time.sleep(1.0)
        self.generate({"prompts": ["tick"], "tokens": 2})
        found = {}
        for metric in self.llm.get_metrics():
            if metric.name.startswith("vllm:kvasir_"):
                name = metric.name.removeprefix("vllm:kvasir_")
                reason = metric.labels.get("reason", "")
                found[f"{name}_{reason}" if reason else name] = int(metric.value)
        return found

    def reset(self, command):
        return {"ok": self.llm.reset_prefix_cache()}


def main():
    engine = Engine(json.loads(sys.argv[1]))
    print(json.dumps({"ready": True}), file=ANSWERS)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            break
        # What goes wrong ends the process; the test sees that and shows the log.
        print(json.dumps(getattr(engine, command["do"])(command)), file=ANSWERS)


if __name__ == "__main__":
    main()
