"""The options of ``kv_connector_extra_config``: one table, from which parsing, checks and the
documentation come."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{0,64}")


def _option(default: Any, doc: str, minimum: int | None = None, maximum: int | None = None) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True)
class Options:
    """What an operator may set; every field is one key of ``kv_connector_extra_config``."""

    address: str = _option(
        "tcp://127.0.0.1:6379",
        "Where the server is: tcp://host:port or unix:///path. On the same host shared memory is "
        "used by itself.",
    )
    user: str = _option("", "User name for AUTH; empty: the default user.")
    password: str = _option("", "Password for AUTH; empty: no AUTH is sent.")
    namespace: str = _option(
        "", "Part of every key; engines share blocks only within one namespace. [A-Za-z0-9._-]"
    )
    model_name: str = _option(
        "",
        "Name of the model in the fingerprint. Empty: vLLM's model argument (of a local directory "
        "its last part). The weights are sampled besides, so equal names do not mix models up.",
    )
    cache_salt: str = _option(
        "", "Secret part of the fingerprint: who does not know it can neither find nor use a block."
    )
    load: bool = _option(True, "Look blocks up and load them (also off with kv_role kv_producer).")
    save: bool = _option(True, "Store computed blocks (also off with kv_role kv_consumer).")
    save_decode: bool = _option(True, "Store blocks that hold generated tokens, not only prompts.")
    enabled: bool = _option(True, "false: the connector does nothing; the engine runs as without.")
    shm: bool = _option(True, "Use shared memory when engine and server share a host.")
    rdma: bool = _option(
        True, "Use RDMA from and to the KV tensors where server and adapter offer it."
    )
    checksum: bool = _option(
        True, "Send a checksum with every block; the server verifies it and keeps it."
    )
    cost: int = _option(
        0,
        "What computing one block takes, in any unit that all engines of the store share (say, "
        "microseconds): for its length, what is dearer stays longer. 0: nothing is said.",
        0,
        (1 << 63) - 1,
    )
    timeout_ms: int = _option(
        1000, "Deadline of a load or save call; a load that misses it is recomputed.", 1, 600_000
    )
    lookup_timeout_ms: int = _option(
        250,
        "Deadline of a look-up. The scheduler waits for it, and all requests with it.",
        1,
        60_000,
    )
    connect_timeout_ms: int = _option(500, "Deadline of one attempt to connect.", 1, 60_000)
    retry_ms: int = _option(
        500,
        "After a failure the store counts as down and costs nothing; a background thread looks for "
        "it this often (doubling up to 16 times this).",
        10,
        600_000,
    )
    pin_ms: int = _option(
        10_000,
        "How long found blocks are kept from eviction; loading should start within it.",
        0,
        600_000,
    )
    load_workers: int = _option(2, "Threads that load, each with its own connection.", 1, 64)
    save_workers: int = _option(1, "Threads that store, each with its own connection.", 1, 64)
    batch_bytes: int = _option(
        16 << 20, "Payload of one call at most (at least one block goes).", 1, 1 << 32
    )
    save_queue_blocks: int = _option(
        8192, "Blocks that may wait to be stored; more are not stored (and counted).", 1, 1 << 24
    )
    flush_wait_ms: int = _option(
        20,
        "When vLLM wants to reuse a block that waits to be stored: how long the step waits before "
        "the store of that block is given up.",
        0,
        10_000,
    )
    drain_ms: int = _option(
        5000, "At shutdown: how long blocks that still wait may take to be stored.", 0, 600_000
    )
    staging: str = _option(
        "auto",
        "auto: straight from and to the KV tensors where they are host memory or an adapter "
        "reaches them, else through a pinned copy; always: the copy everywhere (for tests).",
    )
    warn_seconds: int = _option(
        60, "Every so often a warning when look-ups happened and nothing hit; 0: never.", 0, 86_400
    )

    @classmethod
    def parse(cls, extra: Mapping[str, Any]) -> Options:
        """Options from ``kv_connector_extra_config``.

        ValueError with a sentence that names the option, its value and what is allowed.
        """
        known = {f.name: f for f in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in extra.items():
            if name not in known:
                raise ValueError(_unknown(name, list(known)))
            values[name] = _checked(name, value, known[name])
        options = cls(**values)
        _check_texts(options)
        return options

    @classmethod
    def table(cls) -> list[tuple[str, Any, str]]:
        """(name, default, documentation) of every option, in order."""
        return [(f.name, f.default, f.metadata["doc"]) for f in fields(cls)]


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"kvasir: unknown option {name!r} in kv_connector_extra_config{hint} "
        f"Known: {', '.join(known)}"
    )


def _checked(name: str, value: Any, spec: Any) -> Any:
    wanted = type(spec.default)
    fits = isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
    if not fits:
        kind = {str: "a text", int: "a whole number", bool: "true or false"}[wanted]
        raise ValueError(f"kvasir: option {name!r} is {value!r}, must be {kind}")
    low, high = spec.metadata["minimum"], spec.metadata["maximum"]
    if low is not None and not low <= value <= high:
        raise ValueError(f"kvasir: option {name!r} is {value}, must be {low} to {high}")
    return value


def _check_texts(options: Options) -> None:
    if not options.address.startswith(("tcp://", "unix://")):
        raise ValueError(
            f"kvasir: option 'address' is {options.address!r}, must be tcp://host:port or "
            "unix:///path"
        )
    if not _NAMESPACE.fullmatch(options.namespace):
        raise ValueError(
            f"kvasir: option 'namespace' is {options.namespace!r}, must be at most 64 of "
            "A-Z a-z 0-9 . _ -"
        )
    if options.staging not in ("auto", "always"):
        raise ValueError(
            f"kvasir: option 'staging' is {options.staging!r}, must be 'auto' or 'always'"
        )
