"""Names of blocks in the store.

A block's key is ``kv1:[<namespace>:]<fingerprint>:<vLLM's block hash>``. The hash names the tokens
(chained over the whole prefix, with salt, LoRA and multimodal inputs); the fingerprint names
everything else that decides whether the bytes mean the same: model, weights, dtypes, memory layout,
block size, rank. Two engines that differ in one of these never see each other's blocks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KEY_VERSION = "kv1"
FINGERPRINT_HEX = 16  # 64 bits: an accident among a million configurations has odds of 1 in 10^7

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_SAMPLES = 16
_SAMPLE_BYTES = 4096


@dataclass(frozen=True)
class Fingerprint:
    """Everything besides the tokens that decides what a block's bytes mean."""

    fields: Mapping[str, object]
    secret: str = ""  # the cache salt: hashed, never shown

    def hex(self) -> str:
        text = json.dumps([dict(self.fields), self.secret], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_HEX]

    def public(self) -> dict[str, str]:
        """The fields as short texts, for the marker that other engines read."""
        shown = {name: str(value) for name, value in self.fields.items()}
        return {
            name: text if len(text) <= 80 else _digest(text) for name, text in shown.items()
        }


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16]


def key_prefix(namespace: str, fingerprint_hex: str) -> bytes:
    """What stands before the block hash in a key."""
    space = f"{namespace}:" if namespace else ""
    return f"{KEY_VERSION}:{space}{fingerprint_hex}:".encode()


def block_keys(prefix: bytes, hashes: Iterable[bytes]) -> list[bytes]:
    return [prefix + bytes(block_hash) for block_hash in hashes]


def marker_key(namespace: str, model_name: str) -> bytes:
    """Key under which the engines of a model leave the fingerprints that they use."""
    space = f"{namespace}:" if namespace else ""
    return f"{KEY_VERSION}-model:{space}{model_name}".encode()


def hash_seed_identity(algorithm: str, environment: Mapping[str, str] = os.environ) -> str:
    """What PYTHONHASHSEED does to block hashes, as a word for the fingerprint."""
    seed = environment.get("PYTHONHASHSEED")
    if seed is not None:
        return f"seed:{seed}"
    return "random" if algorithm.startswith("xxhash") else "fixed"


def weights_identity(path: str) -> str:
    """A digest of a local checkpoint: names, sizes and samples of its weight files.

    Paths differ between machines and equal names hide fine-tunes; sixteen samples of each file
    tell two trained models apart without reading gigabytes. "" when path is not a directory.
    """
    if not os.path.isdir(path):
        return ""
    names = sorted(n for n in os.listdir(path) if n.endswith(_WEIGHT_SUFFIXES))
    digest = hashlib.sha256()
    for name in names:
        _sample_file(os.path.join(path, name), name, digest)
    return digest.hexdigest()[:16] if names else ""


def _sample_file(path: str, name: str, digest: hashlib._Hash) -> None:
    size = os.path.getsize(path)
    digest.update(f"{name}:{size}\0".encode())
    with open(path, "rb") as file:
        for i in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * i // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))


class Marker:
    """The fingerprints that engines of one model have used, as kept under the marker key.

    A hint for people and for telling "absent" from "stored under another fingerprint"; racing
    writers may lose one entry until its owner starts again, which harms nothing.
    """

    LIMIT = 32

    def __init__(self, entries: dict[str, dict[str, str]] | None = None) -> None:
        self.entries = entries or {}

    @classmethod
    def decode(cls, raw: bytes | None) -> Marker:
        """Bytes from the store are not trusted: what is not as expected is left out."""
        try:
            loaded = json.loads(raw or b"{}")
        except (ValueError, UnicodeDecodeError):
            return cls()
        if not isinstance(loaded, dict):
            return cls()
        entries = {}
        for name, fields in list(loaded.items())[: cls.LIMIT]:
            if _is_fingerprint(name) and isinstance(fields, dict):
                entries[name] = {str(k): str(v) for k, v in list(fields.items())[:32]}
        return cls(entries)

    def encode(self) -> bytes:
        return json.dumps(self.entries, sort_keys=True).encode()

    def add(self, fingerprint: Fingerprint) -> bool:
        """True when the marker changed (and must be stored)."""
        name, public = fingerprint.hex(), fingerprint.public()
        if self.entries.get(name) == public:
            return False
        self.entries.pop(name, None)
        while len(self.entries) >= self.LIMIT:
            del self.entries[next(iter(self.entries))]
        self.entries[name] = public
        return True

    def others(self, own: Iterable[str]) -> list[str]:
        mine = set(own)
        return [name for name in self.entries if name not in mine]

    def differences(self, own: Fingerprint, other: str) -> list[str]:
        """"name: theirs, here ours" for each field that differs; salt differs silently."""
        theirs, ours = self.entries.get(other, {}), own.public()
        names = sorted(set(theirs) | set(ours))
        found = [
            f"{n}: {theirs.get(n, '-')}, here {ours.get(n, '-')}"
            for n in names
            if theirs.get(n) != ours.get(n)
        ]
        return found or ["cache_salt"]


def _is_fingerprint(name: str) -> bool:
    return len(name) == FINGERPRINT_HEX and all(c in "0123456789abcdef" for c in name)
