#!/usr/bin/env python3
"""One pass of the demonstration: an engine answers questions about one long text.

Usage: demo_vllm.py pass NAME --model DIR --address ADDRESS --out FILE.json --log FILE
       demo_vllm.py table COLD.json WARM.json

"pass" starts vLLM with Kvasir behind it and writes tokens, times and counts to FILE.json; what vLLM
prints goes to the log. "table" compares two passes; exit status 1 when their tokens differ or the
second loaded nothing.
"""

import argparse
import json
import os
import sys
import threading
import time

BLOCK_TOKENS = 32
ANSWER_TOKENS = 12
MAX_TOKENS = 4096
TEXT = "".join(
    f"Chapter {i}. On day {i * 7 % 31} of the journey the {animal} crossed the {place}, counted "
    f"{i * i % 97} stones and wrote it down. "
    for i, (animal, place) in enumerate(
        [(a, p) for a in ("raven", "wolf", "eagle", "bear", "hare", "fox", "owl")
         for p in ("river", "mountain", "fjord", "forest", "bridge")]
    )
)
QUESTIONS = [
    "Which animal crossed the fjord?",
    "How many stones were there on day one?",
    "What stood at the end of the journey?",
]


class Progress:
    """Says every ten seconds that something goes on, and what."""

    def __init__(self, name, screen):
        self._name, self._screen = name, screen
        self._what = ""
        self._began = time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    def say(self, what):
        self._what = what
        seconds = time.monotonic() - self._began
        print(f"  {self._name}: {what} ({seconds:.0f} s)", file=self._screen, flush=True)

    def _run(self):
        while True:
            time.sleep(10)
            self.say(self._what)


def connector_config(address):
    from vllm.config import KVTransferConfig

    return KVTransferConfig(
        kv_connector="KvasirConnector",
        kv_connector_module_path="kvasir.vllm",
        kv_role="kv_both",
        kv_load_failure_policy="recompute",
        kv_connector_extra_config={"address": address},
    )


def make_engine(model, address):
    from vllm import LLM

    return LLM(
        model=model,
        enforce_eager=True,
        dtype="float32",
        max_model_len=MAX_TOKENS,
        max_num_batched_tokens=MAX_TOKENS,
        max_num_seqs=4,
        block_size=BLOCK_TOKENS,
        kv_cache_memory_bytes=512 << 20,
        prefix_caching_hash_algo="sha256_cbor",
        kv_transfer_config=connector_config(address),
        seed=0,
    )


def answer(llm, number, prompt, tokens):
    """Greedy tokens of one request, stepping the engine by hand: the clock stops at the first
    token, whatever comes after it."""
    from vllm import SamplingParams

    engine = llm.llm_engine
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    began = time.perf_counter()
    first, last = None, None
    engine.add_request(f"request-{number}", prompt, params)
    while engine.has_unfinished_requests():
        for output in engine.step():
            if first is None and output.outputs and output.outputs[0].token_ids:
                first = time.perf_counter() - began
            last = output
    return {
        "tokens": list(last.outputs[0].token_ids),
        "prompt": len(last.prompt_token_ids),
        "cached": last.num_cached_tokens or 0,
        "first_token_s": first,
    }


def counts(worker):
    """What the connector of this process has counted so far, after all saves are done."""
    worker._worker._saver.drain(30)
    return dict(worker.counters())


def run_pass(a):
    screen = os.fdopen(os.dup(1), "w", buffering=1)
    progress = Progress(a.name, screen)
    log = os.open(a.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
    )
    progress.say("loading vLLM")
    llm = make_engine(a.model, a.address)
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    worker = get_kv_transfer_group()
    progress.say("warming up with another text")
    # Differs from its first word on and between the passes, so that nothing of it can hit.
    answer(llm, "warm-up", f"{a.name} " * 300, 2)
    before = counts(worker)
    progress.say("answering questions about the text")
    answers = [
        answer(llm, i, f"{TEXT}\nQuestion: {question}\nAnswer:", ANSWER_TOKENS)
        for i, question in enumerate(QUESTIONS)
    ]
    after = counts(worker)
    result = {
        "answers": answers,
        "block_bytes": worker._worker._layout.block_bytes,
        "counts": {name: n - before.get(name, 0) for name, n in after.items()},
    }
    with open(a.out, "w", encoding="utf-8") as file:
        json.dump(result, file)
    worker.shutdown()
    progress.say("done")
    os._exit(0)  # vLLM's own way out takes seconds and prints what would only confuse


def path_of(found):
    paths = [p for p in ("shm", "unix", "tcp") if found.get(f"calls_{p}")]
    names = {"shm": "shared memory", "unix": "Unix socket", "tcp": "TCP"}
    return " + ".join(names[p] for p in paths) or "none"


def column(result):
    found, first = result["counts"], result["answers"][0]
    prompts = sum(a["prompt"] for a in result["answers"])
    moved = found.get("bytes_saved", 0) + found.get("bytes_loaded", 0)
    took = found.get("load_us", 0) + found.get("save_us", 0)
    return [
        f"{first['first_token_s'] * 1000:.0f} ms",
        f"{first['prompt']}",
        f"{first['cached']}",
        f"{first['prompt'] - first['cached']}",
        f"{found.get('blocks_saved', 0)}",
        f"{found.get('blocks_loaded', 0)}",
        f"{moved / 1e6:.1f} MB",
        f"{moved / took / 1000:.2f} GB/s" if took else "-",
        path_of(found),
        f"{prompts}",
    ]


def print_table(a):
    results = []
    for path in (a.cold, a.warm):
        with open(path, encoding="utf-8") as file:
            results.append(json.load(file))
    labels = [
        "time to first token",
        "prompt tokens, first question",
        "  not computed (from Kvasir)",
        "  computed",
        "blocks stored",
        "blocks loaded",
        "bytes moved",
        "speed of moving them",
        "path",
        "prompt tokens, all questions",
    ]
    print(f"{'':32}{'cold':>16}{'warm':>16}")
    for label, cold, warm in zip(labels, column(results[0]), column(results[1]), strict=True):
        print(f"{label:32}{cold:>16}{warm:>16}")
    cold, warm = (r["answers"] for r in results)
    speedup = cold[0]["first_token_s"] / warm[0]["first_token_s"]
    same = [a["tokens"] for a in cold] == [a["tokens"] for a in warm]
    loaded = results[1]["counts"].get("blocks_loaded", 0)
    print(f"{'block':32}{results[0]['block_bytes'] // 1024:>12} KiB")
    print()
    print(f"greedy tokens identical: {'yes' if same else 'NO'} ({len(cold)} answers)")
    print(f"first token {speedup:.1f} times faster with the blocks from Kvasir")
    if not same or not loaded:
        print("demo: FAILED: " + ("the tokens differ" if not same else "nothing was loaded"))
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("pass")
    one.add_argument("name")
    for name in ("model", "address", "out", "log"):
        one.add_argument(f"--{name}", required=True)
    both = commands.add_parser("table")
    both.add_argument("cold")
    both.add_argument("warm")
    a = parser.parse_args()
    return run_pass(a) if a.command == "pass" else print_table(a)


if __name__ == "__main__":
    sys.exit(main())
