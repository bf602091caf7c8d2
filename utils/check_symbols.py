#!/usr/bin/env python3
"""Check what object files and the library define.

An object may export only names that start with its unit's: .../lease.o exports lease_*. A variant
chosen at link time, or a part of a unit (loop_event.o, shard_evict.o), may use the unit's name
without its last word. Names that start with kvasir_ are public. Names that ISO C reserves for the
library are refused. No object holds mutable data, because all state hangs off structures that are
handed in; exceptions stand in utils/tidy.allow as `global PATH NAME reason`.

With --library, the shared library must export exactly what the public headers declare.
Usage: check_symbols.py OBJECT... [--library LIBRARY]
"""

import argparse
import glob
import os
import re
import subprocess
import sys

RESERVED = re.compile(r"^(str|mem|wcs|is|to|atomic_|mtx_|thrd_|cnd_|tss_)[a-z]")
INSTRUMENTATION = ("__asan", "__tsan", "__odr_asan", "__sanitizer", "__ubsan", ".L", "__gcov")
PUBLIC = re.compile(r"\bKVASIR_API\b[^;{]*?\b(kvasir_\w+)\s*\(")


def run(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def allowed_globals() -> set[tuple[str, str]]:
    allowed = set()
    with open("utils/tidy.allow", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if words[:1] == ["global"]:
                allowed.add((words[1], words[2]))
    return allowed


def source_of(path: str) -> str:
    """The source an object was made from: build/gcc-release/obj/src/base/log.o."""
    found = re.search(r"/(?:obj|pic|test-obj)/(.*)\.o$", path)
    return found.group(1) + ".c" if found else path


def check_names(path: str) -> list[str]:
    unit = os.path.splitext(os.path.basename(path))[0]
    prefixes: tuple[str, ...] = ("kvasir_", unit + "_")
    if "_" in unit:
        prefixes += (unit.rpartition("_")[0] + "_",)
    errors = []
    for line in run("nm", "-g", "--defined-only", path):
        name = line.split()[-1]
        if name in ("main", unit) or name.startswith(INSTRUMENTATION):
            continue
        if not name.startswith(prefixes):
            errors.append(f"{path}: {name} should start with {' or '.join(prefixes)}")
        if RESERVED.match(name):
            errors.append(f"{path}: {name} is reserved by ISO C")
    return errors


def check_data(path: str, allowed: set[tuple[str, str]]) -> list[str]:
    errors = []
    source = source_of(path)
    for line in run("objdump", "-t", path):
        # Address, flags, section, tab, size, name.
        found = re.match(r"^\S+ .{6}O (\.(?:data|bss|tbss|tdata)\S*)\t\S+ (?:\.hidden )?(\S+)", line)
        if not found or found.group(1).startswith(".data.rel.ro"):
            continue
        name = re.sub(r"\.\d+$", "", found.group(2))
        if name.startswith(INSTRUMENTATION) or (source, name) in allowed:
            continue
        errors.append(f"{path}: {name} is mutable data of the whole process")
    return errors


def check_library(path: str) -> list[str]:
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", path)}
    exported = {name for name in exported if not name.startswith("KVASIR_")}
    declared: set[str] = set()
    for header in glob.glob("src/include/kvasir/*.h"):
        with open(header, encoding="utf-8") as file:
            declared |= set(PUBLIC.findall(file.read()))
    errors = [f"{path}: {name} is exported but in no public header" for name in exported - declared]
    errors += [f"{path}: {name} is declared but not exported" for name in declared - exported]
    return sorted(errors)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("objects", nargs="*")
    parser.add_argument("--library")
    arguments = parser.parse_args()
    allowed = allowed_globals()
    errors: list[str] = []
    for path in arguments.objects:
        errors += check_names(path) + check_data(path, allowed)
    if arguments.library:
        errors += check_library(arguments.library)
    print("\n".join(errors) or f"symbols: ok, {len(arguments.objects)} objects")
    return 1 if errors else 0


sys.exit(main())
