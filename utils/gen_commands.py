#!/usr/bin/env python3
"""Make what follows from src/proto/commands.def: the look-up index and redis-compat.md.

usage: gen_commands.py [--check]

Without an option both files are written. With --check nothing is written; the exit status is 1,
and a line says which file is stale, when one is not what would be written.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

import command_syntax

ROOT = Path(__file__).resolve().parent.parent
DEF = ROOT / "src/proto/commands.def"
INDEX = ROOT / "src/proto/command_index.h"
ABSENT_NAMES = ROOT / "src/proto/command_absent.h"
ARGUMENTS = ROOT / "src/proto/command_arguments.def"
COMPAT = ROOT / "redis-compat.md"

INDEX_BITS = 12
INDEX_NONE = 255
SEEDS_MAX = 1_000_000
FNV_PRIME = 16777619

GROUPS = {
    "connection": "Connection",
    "string": "Strings",
    "bitmap": "Bits",
    "generic": "Keys",
    "transactions": "Transactions",
    "pubsub": "Publish and subscribe",
    "server": "Server",
    "scripting": "Scripting",
    "cluster": "Cluster",
    "kvcache": "KV cache (extensions)",
}

# Redis commands that are not there, and what to do instead. The order is that of the document.
ABSENT = [
    (
        "Keys",
        "MIGRATE, SORT, SORT_RO",
        "read the value and store it under the other name; a block's name is its hash",
    ),
    (
        "Lists",
        (
            "LPUSH, RPUSH, LPUSHX, RPUSHX, LPOP, RPOP, LLEN, LRANGE, LINDEX, LSET, LREM, "
            "LINSERT, LTRIM, LPOS, LMOVE, LMPOP, RPOPLPUSH, BLPOP, BRPOP, BLMOVE, BLMPOP, "
            "BRPOPLPUSH"
        ),
        "values are byte strings only; keep such data in Redis",
    ),
    (
        "Hashes",
        (
            "HSET, HGET, HDEL, HMSET, HMGET, HGETALL, HKEYS, HVALS, HLEN, HEXISTS, HINCRBY, "
            "HINCRBYFLOAT, HSETNX, HSTRLEN, HRANDFIELD, HSCAN"
        ),
        "one key for each field, with MGET and MSET",
    ),
    (
        "Sets and sorted sets",
        (
            "SADD, SREM, SMEMBERS, SISMEMBER, SMISMEMBER, SCARD, SPOP, SRANDMEMBER, SMOVE, SUNION, "
            "SUNIONSTORE, SINTER, SINTERSTORE, SINTERCARD, SDIFF, SDIFFSTORE, SSCAN, ZADD, ZREM, "
            "ZRANGE, ZRANGESTORE, ZRANGEBYSCORE, ZRANGEBYLEX, ZREVRANGE, ZREVRANGEBYSCORE, "
            "ZREVRANGEBYLEX, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX, ZSCORE, ZMSCORE, "
            "ZRANK, ZREVRANK, ZCARD, ZCOUNT, ZLEXCOUNT, ZINCRBY, ZPOPMIN, ZPOPMAX, ZMPOP, BZPOPMIN, "
            "BZPOPMAX, BZMPOP, ZRANDMEMBER, ZUNION, ZUNIONSTORE, ZINTER, ZINTERSTORE, ZINTERCARD, "
            "ZDIFF, ZDIFFSTORE, ZSCAN"
        ),
        "values are byte strings only; keep such data in Redis",
    ),
    (
        "Streams, geo, HyperLogLog",
        (
            "XADD, XLEN, XREAD, XREADGROUP, XRANGE, XREVRANGE, XDEL, XTRIM, XACK, XGROUP, XINFO, "
            "XPENDING, XCLAIM, XAUTOCLAIM, XSETID, GEOADD, GEOPOS, GEODIST, GEOHASH, GEOSEARCH, "
            "GEOSEARCHSTORE, GEORADIUS, GEORADIUSBYMEMBER, PFADD, PFCOUNT, PFMERGE"
        ),
        "values are byte strings only; keep such data in Redis",
    ),
    (
        "Replication and persistence",
        (
            "REPLCONF, SYNC, PSYNC, FAILOVER, WAITAOF, SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE"
        ),
        "contents are a cache and can be computed again",
    ),
    (
        "Server",
        "MODULE LOAD, MODULE LOADEX, MODULE UNLOAD",
        "modules are loaded at start, by option",
    ),
    (
        "Server",
        "DEBUG RELOAD, DEBUG JMAP, DEBUG DIGEST",
        "DEBUG OBJECT, MEMORY USAGE and KV.STAT",
    ),
]


class Row(NamedTuple):
    """One row of commands.def, all as text but without quotes."""

    id: str
    name: str
    arity: str
    flags: str
    first_key: str
    last_key: str
    key_step: str
    group: str
    categories: str
    since: str
    complexity: str
    summary: str
    syntax: str
    compares: str


def fail(message: str) -> None:
    sys.exit(f"gen_commands: {message}")


def split_fields(body: str) -> list[str]:
    """Split at commas outside strings; join adjacent strings and drop their quotes."""
    fields: list[str] = []
    for piece in re.findall(r'(?:"[^"]*"|[^,"])+', body):
        strings = re.findall(r'"([^"]*)"', piece)
        fields.append("".join(strings) if strings else " ".join(piece.split()))
    return fields


def read_rows() -> list[Row]:
    text = re.sub(r"/\*.*?\*/", "", DEF.read_text(encoding="utf-8"), flags=re.DOTALL)
    rows = []
    for body in re.findall(
        r'^COMMAND\(((?:"[^"]*"|[^")])*)\)$', text, flags=re.MULTILINE
    ):
        fields = split_fields(body)
        if len(fields) != len(Row._fields):
            fail(
                f"{DEF.name}: row {fields[0]} has {len(fields)} fields, not {len(Row._fields)}"
            )
        rows.append(Row(*fields))
    if len(rows) != len(re.findall(r"^COMMAND\(", text, flags=re.MULTILINE)):
        fail(
            f"{DEF.name}: a row is not of the form COMMAND(…) with its end at a line's end"
        )
    return rows


def check_rows(rows: list[Row]) -> None:
    """What the compiler cannot see."""
    names = [row.name for row in rows]
    for row in rows:
        if names.count(row.name) != 1:
            fail(f"{DEF.name}: {row.name} stands there more than once")
        if row.id != re.sub(r"[.|-]", "_", row.name).upper():
            fail(
                f"{DEF.name}: {row.name} should have the id {row.name.upper()} with '_'"
            )
        if ("|" in row.name) != ("SUBCOMMAND" in row.flags):
            fail(f"{DEF.name}: {row.name}: SUBCOMMAND goes with a '|' in the name")
        before = names[max(names.index(row.name) - 1, 0)]
        if "|" in row.name and before.split("|")[0] != row.name.split("|")[0]:
            fail(f"{DEF.name}: {row.name} does not stand right behind its container")
        if row.group not in GROUPS:
            fail(
                f"{DEF.name}: {row.name}: group {row.group} is none of {', '.join(GROUPS)}"
            )
        if not re.fullmatch(r"same|extension|differs: .+", row.compares):
            fail(f"{DEF.name}: {row.name}: compares is same, extension or differs: how")
        if not row.summary.endswith("."):
            fail(
                f"{DEF.name}: {row.name}: the summary is a sentence and ends with a full stop"
            )
    if len(rows) >= INDEX_NONE:
        fail(f"{len(rows)} rows do not fit into an index of bytes")


def hash_name(seed: int, name: str) -> int:
    value = seed
    for byte in name.encode():
        value = ((value ^ (byte | 0x20)) * FNV_PRIME) & 0xFFFFFFFF
    return value


def make_index(rows: list[Row]) -> str:
    """Find the first seed under which no two names share an entry."""
    shift = 32 - INDEX_BITS
    for number in range(SEEDS_MAX):
        seed = (2166136261 + number) & 0xFFFFFFFF
        entries = {hash_name(seed, row.name) >> shift: i for i, row in enumerate(rows)}
        if len(entries) == len(rows):
            break
    else:
        fail("no seed keeps all names apart: raise INDEX_BITS")
    longest = max(len(row.name) for row in rows)
    table = [str(entries.get(i, INDEX_NONE)) for i in range(1 << INDEX_BITS)]
    macros = [
        ("BITS", str(INDEX_BITS)),
        ("SEED", f"{seed}U"),
        ("NONE", str(INDEX_NONE)),
        ("COUNT", str(len(rows))),
        ("NAME_BYTES_MAX", str(longest)),
    ]
    width = max(len(name) for name, _ in macros)
    lines = [
        "#pragma once",
        "/* command_index – which row of commands.def has a name with a given hash. Made by",
        " * utils/gen_commands.py from commands.def; included by command_table.c only. No two names share",
        " * an entry, so that a look-up takes one comparison. */",
        "",
        "#include <stdint.h>",
        "",
        *[
            f"#define COMMAND_INDEX_{name.ljust(width)} {value}"
            for name, value in macros
        ],
        "",
        "/* clang-format off */",
        "static const uint8_t COMMAND_INDEX[1 << COMMAND_INDEX_BITS] = {",
    ]
    lines += [
        "    " + ", ".join(table[at : at + 19]) + "," for at in range(0, len(table), 19)
    ]
    lines += ["};", "/* clang-format on */", ""]
    return "\n".join(lines)


def make_absent() -> str:
    """The names of commands that are not there, in order, each with what to do instead."""
    names: dict[str, str] = {}
    for _, words, instead in ABSENT:
        for word in words.split(", "):
            if " " not in word:
                names[word.lower()] = instead
    reasons = sorted(set(names.values()))
    lines = [
        "#pragma once",
        "/* command_absent – Redis commands that are not there, and what to use instead. Made by",
        " * utils/gen_commands.py; included by command_table.c only. */",
        "",
        "/* clang-format off */",
        "static const char *const ABSENT_REASONS[] = {",
        *[f'    "{reason}",' for reason in reasons],
        "};",
        "",
        "static const struct {",
        "    const char *name;",
        "    unsigned reason;",
        "} ABSENT[] = {",
    ]
    row = "   "
    for name in sorted(names):
        entry = f' {{"{name}", {reasons.index(names[name])}}},'
        if len(row) + len(entry) > 100:
            lines.append(row)
            row = "   "
        row += entry
    return "\n".join([*lines, row, "};", "/* clang-format on */", ""])


def c_text(text: str) -> str:
    return f'"{text}"' if text else "NULL"


def make_arguments(rows: list[Row]) -> str:
    """The arguments of all commands, each before its children, and where those of a command begin."""
    lines = [
        "/* command_arguments.def – the arguments of every command, from its syntax, each before its",
        " * children. Made by utils/gen_commands.py.",
        " *",
        " * ARGUMENT(name, token, type, flags, key_spec, child_count): as in struct command_argument",
        " * COMMAND(first, count, top_count): those of a command; one row for each of commands.def */",
        "",
    ]
    spans = []
    total = 0
    for row in rows:
        container = "CONTAINER" in row.flags
        arguments = [] if container else command_syntax.parse(row.name, row.syntax)
        flat = command_syntax.flatten(row.name, arguments)
        spans.append(f"COMMAND({total}, {len(flat)}, {len(arguments)}) /* {row.name} */")
        total += len(flat)
        for argument, spec in flat:
            flags = [
                flag.upper()
                for flag in ("optional", "multiple", "multiple_token")
                if getattr(argument, flag)
            ]
            lines.append(
                f"ARGUMENT({c_text(argument.name)}, {c_text(argument.token)}, "
                f"{argument.kind.upper().replace('-', '_')}, {' | '.join(flags) or '0'}, "
                f"{spec}, {len(argument.children)})"
            )
    return "\n".join([*lines, "", *spans, ""])


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def make_compat(rows: list[Row]) -> str:
    commands = [row for row in rows if "|" not in row.name]
    own = [row for row in commands if row.compares == "extension"]
    lines = [
        "# Compatibility with Redis",
        "",
        "Made by `utils/gen_commands.py` from `src/proto/commands.def`; change that, not this.",
        "",
        f"Kvasir speaks RESP2 and RESP3 and knows {len(commands) - len(own)} commands of Redis 7 and",
        f"{len(own)} of its own. *same* means: syntax, replies and error texts are those of Redis 7.",
        "Values are byte strings; there are no other types. Commands that are not listed answer",
        "`-ERR unknown command`, and those under *Absent* say there what to use instead.",
        "",
    ]
    for group, title in GROUPS.items():
        lines += [
            f"## {title}",
            "",
            "| Command | What it does | Compared with Redis 7 |",
            "|---|---|---|",
        ]
        for row in sorted(
            (row for row in rows if row.group == group), key=lambda row: row.name
        ):
            if "CONTAINER" in row.flags and row.name != "command":
                continue
            lines.append(
                f"| `{cell(row.syntax)}` | {row.summary} | {cell(row.compares)} |"
            )
        lines.append("")
    lines += ["## Absent", "", "| Area | Commands | Instead |", "|---|---|---|"]
    for area, names, instead in ABSENT:
        lines.append(f"| {area} | {names} | absent: {instead} |")
    lines.append("")
    return "\n".join(lines)


def check_absent(rows: list[Row]) -> None:
    """A command cannot be both there and absent."""
    present = {row.name.upper().replace("|", " ") for row in rows}
    for _, names, _ in ABSENT:
        for word in names.split(", "):
            if word in present:
                fail(f"{word} is in {DEF.name} and in the list of absent commands")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make what follows from commands.def.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when stale"
    )
    options = parser.parse_args()
    rows = read_rows()
    check_rows(rows)
    check_absent(rows)
    stale = False
    made = (
        (INDEX, make_index(rows)),
        (ABSENT_NAMES, make_absent()),
        (ARGUMENTS, make_arguments(rows)),
        (COMPAT, make_compat(rows)),
    )
    for path, text in made:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if options.check:
            stale = True
            name = path.relative_to(ROOT)
            print(
                f"gen_commands: {name} is stale: run utils/gen_commands.py and commit it"
            )
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
