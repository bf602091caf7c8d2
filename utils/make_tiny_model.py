#!/usr/bin/env python3
"""Writes a small Llama checkpoint with random weights and its tokenizer, without any download.

Usage: make_tiny_model.py DIRECTORY [--layers 2] [--hidden 128] [--heads 4] [--kv-heads 2]
                          [--head-dim 32] [--inner 256] [--vocab 1024] [--max-length 4096]
                          [--dtype float32] [--seed 0]

Needs torch, safetensors and tokenizers (they come with vLLM). The same arguments give the same
weights on every machine. A directory that was completed with the same arguments is left alone.
"""

import argparse
import glob
import json
import os
import shutil
import sys

STAMP = "made_by_make_tiny_model.json"
SPECIAL = ["<s>", "</s>", "<pad>"]
CORPUS_BYTES = 2_000_000


def corpus():
    """Texts that every machine with Python has: its standard library."""
    base = os.path.dirname(os.__file__)
    left = CORPUS_BYTES
    for path in sorted(glob.glob(os.path.join(base, "*.py"))):
        with open(path, encoding="utf-8", errors="ignore") as file:
            text = file.read()
        yield text[:left]
        left -= len(text)
        if left <= 0:
            return


def write_tokenizer(directory, vocabulary):
    """A byte-level BPE: every text has tokens, none is unknown."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.save(os.path.join(directory, "tokenizer.json"))
    write_json(
        directory,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[0],
            "eos_token": SPECIAL[1],
            "pad_token": SPECIAL[2],
            "model_max_length": 1_000_000,
            "clean_up_tokenization_spaces": False,
            "chat_template": "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}\n"
            "{% endfor %}assistant:",
        },
    )


def write_json(directory, name, value):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)


def write_config(directory, a):
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    write_json(
        directory,
        "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": a.hidden,
            "intermediate_size": a.inner,
            "num_hidden_layers": a.layers,
            "num_attention_heads": a.heads,
            "num_key_value_heads": a.kv_heads,
            "head_dim": a.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": a.max_length,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "vocab_size": a.vocab,
            "tie_word_embeddings": False,
            "torch_dtype": a.dtype,
            "attention_bias": False,
            "use_cache": True,
            **ids,
        },
    )
    write_json(directory, "generation_config.json", ids)


def write_weights(directory, a):
    """Normal weights scaled by 1/sqrt(inputs), attention doubled: then the greedy output depends on
    the whole context, and a wrong KV block shows in the tokens."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(a.seed)
    dtype = getattr(torch, a.dtype)

    def matrix(rows, columns, scale=1.0):
        values = torch.randn(rows, columns, generator=generator)
        return (values * (scale / columns**0.5)).to(dtype)

    query, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    weights = {
        "model.embed_tokens.weight": matrix(a.vocab, a.hidden, a.hidden**0.5),
        "model.norm.weight": torch.ones(a.hidden, dtype=dtype),
        "lm_head.weight": matrix(a.vocab, a.hidden),
    }
    for layer in range(a.layers):
        p = f"model.layers.{layer}."
        weights[p + "self_attn.q_proj.weight"] = matrix(query, a.hidden, 2.0)
        weights[p + "self_attn.k_proj.weight"] = matrix(kv, a.hidden, 2.0)
        weights[p + "self_attn.v_proj.weight"] = matrix(kv, a.hidden, 2.0)
        weights[p + "self_attn.o_proj.weight"] = matrix(a.hidden, query, 2.0)
        weights[p + "mlp.gate_proj.weight"] = matrix(a.inner, a.hidden)
        weights[p + "mlp.up_proj.weight"] = matrix(a.inner, a.hidden)
        weights[p + "mlp.down_proj.weight"] = matrix(a.hidden, a.inner)
        weights[p + "input_layernorm.weight"] = torch.ones(a.hidden, dtype=dtype)
        weights[p + "post_attention_layernorm.weight"] = torch.ones(a.hidden, dtype=dtype)
    save_file(
        weights, os.path.join(directory, "model.safetensors"), metadata={"format": "pt"}
    )


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    for name, default in (
        ("layers", 2), ("hidden", 128), ("heads", 4), ("kv-heads", 2), ("head-dim", 32),
        ("inner", 256), ("vocab", 1024), ("max-length", 4096), ("seed", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    return parser.parse_args(arguments)


def main(arguments=None):
    a = parse(arguments)
    wanted = {name: value for name, value in sorted(vars(a).items()) if name != "directory"}
    stamp = os.path.join(a.directory, STAMP)
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if json.load(file) == wanted:
                return 0
    if a.heads % a.kv_heads or min(wanted["layers"], a.hidden, a.heads) < 1:
        print("make_tiny_model.py: heads must be a multiple of kv-heads", file=sys.stderr)
        return 2
    # Made aside and renamed, so that nobody finds half a model.
    partial = f"{a.directory}.partial.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    write_tokenizer(partial, a.vocab)
    write_config(partial, a)
    write_weights(partial, a)
    write_json(partial, STAMP, wanted)
    shutil.rmtree(a.directory, ignore_errors=True)
    os.rename(partial, a.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
