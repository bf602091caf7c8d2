#!/usr/bin/env python3
"""Fail when a file includes a header of a layer that its own layer may not use.

Reads utils/layers.txt: one line a layer, `name: allowed allowed ...`. A layer is a folder, named by
its path from the repository root; a folder below src or modules that is no layer is an error.
Quoted includes are resolved against the including file's folder and the include roots (`roots:`
line); one that resolves to no file is an error too, so a system header must use <>.
`system name: pattern ...` lists the third-party headers that only the layers so named may include.
Usage: check_layers.py [ROOT]
"""

import fnmatch
import os
import re
import sys
from dataclasses import dataclass, field

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
LAYERS_FILE = "utils/layers.txt"
SOURCE_ENDINGS = (".c", ".h", ".cu", ".cuh")


@dataclass
class Rules:
    allowed: dict[str, set[str]] = field(default_factory=dict)
    owners: dict[str, set[str]] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)


def load(path: str) -> Rules:
    rules = Rules()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.split("#")[0].strip()
            if not line:
                continue
            key, _, rest = line.partition(":")
            if key == "roots":
                rules.roots = rest.split()
            elif key.startswith("system "):
                for pattern in rest.split():
                    rules.owners.setdefault(pattern, set()).add(key.split()[1])
            else:
                rules.allowed[key] = set(rest.split())
    return rules


def check_rules(rules: Rules) -> list[str]:
    """A graph without cycles can be taken apart from its leaves; what remains is a cycle."""
    errors = [
        f"{LAYERS_FILE}: unknown layer {name}"
        for name in sorted(set().union(*rules.allowed.values()) - set(rules.allowed))
    ]
    left = {name: set(uses) & set(rules.allowed) for name, uses in rules.allowed.items()}
    while True:
        leaves = {name for name, uses in left.items() if not uses & set(left)}
        if not leaves:
            break
        for name in leaves:
            del left[name]
    if left:
        errors.append(f"{LAYERS_FILE}: these layers form a cycle: {' '.join(sorted(left))}")
    return errors


def layer_of(path: str, rules: Rules) -> str | None:
    best = [name for name in rules.allowed if path.startswith(name + "/")]
    return max(best, key=len) if best else None


def check_file(path: str, layer: str, rules: Rules) -> list[str]:
    errors = []
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    for match in INCLUDE.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start(1)) + 1}"
        kind, target = match.groups()
        own = [os.path.normpath(os.path.join(root, target)) for root in rules.roots]
        if kind == "<":
            for pattern, who in rules.owners.items():
                if fnmatch.fnmatch(target, pattern) and layer not in who:
                    errors.append(f"{where}: <{target}> belongs to {' '.join(sorted(who))}")
        else:
            own.insert(0, os.path.normpath(os.path.join(os.path.dirname(path), target)))
        found = [name for name in own if os.path.isfile(name)]
        if not found:
            if kind == '"':
                errors.append(f'{where}: "{target}" is no file of this project')
            continue
        other = layer_of(found[0], rules)
        if other is not None and other != layer and other not in rules.allowed[layer]:
            errors.append(f"{where}: {layer} may not include {other} ({target})")
    return errors


def main() -> int:
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else ".")
    rules = load(LAYERS_FILE)
    errors = check_rules(rules)
    file_count = 0
    for top in ("src", "modules", "bench"):
        for folder, _, names in os.walk(top):
            for name in sorted(names):
                if not name.endswith(SOURCE_ENDINGS):
                    continue
                path = os.path.normpath(os.path.join(folder, name))
                layer = layer_of(path, rules)
                if layer is None:
                    errors.append(f"{path}: its folder is no layer of {LAYERS_FILE}")
                    continue
                file_count += 1
                errors += check_file(path, layer, rules)
    print("\n".join(errors) or f"{file_count} files")
    return 1 if errors else 0


sys.exit(main())
