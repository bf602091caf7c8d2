#!/usr/bin/env python3
"""Check the form of the tree: sizes, banned calls, leftovers, dead files.

Exceptions stand in utils/tidy.allow, each with its reason; an exception that nothing needs is an
error too. Sizes rely on the form that clang-format gives: a function's braces stand alone in the
first column. Usage: tidy.py
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 7
NESTING_MAX = 4
FILE_LINES_MAX = {".c": 600, ".h": 250}

# What replaces a banned call.
BANNED = {
    r"strcpy|strcat|strncpy|strncat|stpcpy": "memcpy with known lengths, or snprintf",
    r"sprintf|vsprintf": "snprintf, vsnprintf",
    r"gets|scanf|sscanf|fscanf": "a parser of slices",
    r"strtok": "strtok_r, or a parser of slices",
    r"atoi|atol|atoll|atof": "slice_to_i64",
    r"alloca|setjmp|longjmp": "nothing",
    r"rand|srand|random|srandom|drand48|rand_r": "base/random",
    r"system|popen|tmpnam|tempnam|mktemp": "nothing",
    r"localtime|gmtime|ctime|asctime|ctime_r|asctime_r": "localtime_r, gmtime_r with strftime",
    r"bzero|bcopy|index|rindex": "memset, memmove, memchr",
}

# What only some files may use: rule, pattern, files, and why.
RESERVED = [
    ("atomic", r"\b(_Atomic|atomic_\w+|memory_order_\w+|__atomic_\w+|__sync_\w+)\b",
     r"src/base/(spsc|byte_ring|metric|log|stack|gate)\.[ch]|src/net/mailbox\.[ch]",
     "data belongs to one core; others send a message"),
    ("thread-local", r"\b(_Thread_local|__thread|thread_local)\b", r"src/base/(copy|fault)\.c",
     "state hangs off structures that are handed in"),
    ("mutex", r"\bpthread_(mutex|rwlock|spin|cond)_\w+", r"(?!)",
     "no lock on the data path; others send a message"),
    ("clock", r"\b(clock_gettime|gettimeofday|time)\s*\(", r"src/base/(clock|log)\.c",
     "time is an argument, so that it can be simulated"),
    ("sleep", r"\b(sleep|usleep|nanosleep|clock_nanosleep)\s*\(", r"(?!)",
     "a reactor waits in its loop only"),
]

COMMENT_OR_STRING = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
LOCAL_PATH = re.compile(r"(?<![\w.$~}])/(?:root|work|home)/\w")
UNOWNED_TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
# Files in which a tab is part of the language or of the data.
TABS_ALLOWED = re.compile(r"(^|/)Makefile$|\.mk$|^tests/.*/(corpus|data)/|^LICENSE$")
TEXT_ENDINGS = (".c", ".h", ".py", ".sh", ".md", ".txt", ".def", ".map", ".toml", ".conf", ".allow",
                ".yml", ".cfg", ".in", ".js", ".css", ".html", ".pyi")


class Report:
    """Collects errors, less those that utils/tidy.allow excuses."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.allowed: dict[tuple[str, ...], bool] = {}
        with open("utils/tidy.allow", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                words = line.split("#")[0].split()
                if not words or words[0] == "global":
                    continue
                named = 3 if words[0] in ("function-size", "parameters", "nesting") else 2
                if len(words) <= named:
                    self.errors.append(f"utils/tidy.allow:{number}: an exception needs a reason")
                self.allowed[tuple(words[:named])] = False

    def add(self, rule: str, path: str, message: str, line: int = 0, name: str = "") -> None:
        for key in ((rule, path, name), (rule, path)):
            if key in self.allowed:
                self.allowed[key] = True
                return
        where = f"{path}:{line}" if line else path
        self.errors.append(f"{where}: {message} [{rule}]")

    def finish(self) -> int:
        self.errors += [f"utils/tidy.allow: nothing needs '{' '.join(key)}' any more"
                        for key, used in self.allowed.items() if not used]
        return 1 if self.errors else 0


def list_files() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        names = done.stdout.splitlines()
    else:
        names = [os.path.normpath(os.path.join(folder, name))
                 for folder, _, names in os.walk(".") for name in names]
        names = [name for name in names if not name.startswith((".git/", "build/"))]
    return sorted(name for name in set(names) if os.path.isfile(name))


def blank(match: re.Match[str]) -> str:
    """Comments and strings become blanks, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match.group(0))


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def functions(code: str) -> Iterator[tuple[str, str, int, list[str]]]:
    """Name, parameters, first line and body of each function."""
    for found in re.finditer(r"^(\w[^;{}=]*?\b(\w+)\(([^;{}]*)\)[^;{}()]*)\n\{\n(.*?)^\}$", code,
                             re.DOTALL | re.MULTILINE):
        yield found.group(2), found.group(3), line_of(code, found.start()), \
            found.group(4).split("\n")[:-1]


def count_parameters(parameters: str) -> int:
    depth = 0
    count = 1
    for byte in parameters:
        depth += {"(": 1, ")": -1}.get(byte, 0)
        count += byte == "," and depth == 0
    return count


def nesting_of(body: list[str]) -> int:
    depth = deepest = 0
    for line in body:
        for place, byte in enumerate(line):
            if byte == "{":
                # A brace behind '=', ')' of a compound literal or ',' opens a value, not a block.
                before = line[:place].rstrip()
                block = before == "" or before.endswith((")", "else", "do", ":"))
                depth += 1
                if block:
                    deepest = max(deepest, depth)
            elif byte == "}":
                depth -= 1
    return deepest


def check_c(path: str, text: str, report: Report) -> None:
    code = COMMENT_OR_STRING.sub(blank, text)
    line_count = text.count("\n")
    limit = FILE_LINES_MAX[os.path.splitext(path)[1]]
    if line_count > limit:
        report.add("file-size", path, f"{line_count} lines, at most {limit}")
    for comment in COMMENT_OR_STRING.finditer(text):
        if comment.group(0).startswith("//"):
            report.add("comment", path, "// comment", line_of(text, comment.start()))
    for name, parameters, line, body in functions(code):
        # The whole definition with its head and braces, as clang-tidy counts.
        if len(body) > FUNCTION_LINES_MAX:
            report.add("function-size", path, f"{name} has {len(body)} lines, at most "
                       f"{FUNCTION_LINES_MAX}", line, name)
        if count_parameters(parameters) > PARAMETERS_MAX:
            report.add("parameters", path, f"{name} has more than {PARAMETERS_MAX} parameters",
                       line, name)
        if nesting_of(body) > NESTING_MAX:
            report.add("nesting", path, f"{name} nests deeper than {NESTING_MAX}", line, name)
    for calls, instead in BANNED.items():
        for found in re.finditer(rf"(?<![\w.>])({calls})\s*\((?!\))", code):
            report.add("banned", path, f"{found.group(1)} is banned; use {instead}",
                       line_of(code, found.start()))
    if path.startswith(("src/", "modules/")):
        check_reserved(path, code, report)


def check_reserved(path: str, code: str, report: Report) -> None:
    for rule, pattern, files, why in RESERVED:
        if re.fullmatch(files, path):
            continue
        for found in re.finditer(pattern, code):
            report.add(rule, path, f"{found.group(0)}: {why}", line_of(code, found.start()))


def check_text(path: str, text: str, report: Report) -> None:
    if text and not text.endswith("\n"):
        report.add("end-of-file", path, "no line feed at the end")
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            report.add("trailing-blank", path, "blank at the end of the line", number)
        if "\t" in line and not TABS_ALLOWED.search(path):
            report.add("tab", path, "tab", number)
        # This file names what it looks for.
        if path == "utils/tidy.py":
            continue
        if UNOWNED_TODO.search(line):
            report.add("todo", path, "TODO without (#issue)", number)
        if LOCAL_PATH.search(line):
            report.add("local-path", path, "a path of somebody's machine", number)


def check_dead(files: list[str], texts: dict[str, str], report: Report) -> None:
    included = set()
    for path, text in texts.items():
        for found in re.finditer(r'#\s*include\s+["<]([^">]+)[">]', text):
            included.add(os.path.basename(found.group(1)))
    seen: dict[str, str] = {}
    for path in files:
        name = os.path.basename(path)
        if path.endswith(".h") and name not in included and not path.startswith("src/include/"):
            report.add("dead", path, "nothing includes it")
        if path.startswith("src/") and path.endswith((".c", ".h")):
            # Object files and messages name units by file name alone.
            if name in seen:
                report.add("file-name", path, f"{seen[name]} has the same name")
            seen[name] = path
        script = path.startswith("utils/") and path.endswith((".py", ".sh"))
        if script and not any(name in text for other, text in texts.items() if other != path):
            report.add("dead", path, "nothing calls it")


def main() -> int:
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    report = Report()
    files = list_files()
    texts: dict[str, str] = {}
    for path in files:
        scripted = path in ("Makefile", ".ci/run", ".gitignore", ".clang-format", ".clang-tidy")
        if not (scripted or path.endswith(TEXT_ENDINGS)) or "/corpus/" in path:
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            texts[path] = file.read()
    for path, text in texts.items():
        check_text(path, text, report)
        if path.endswith((".c", ".h")):
            check_c(path, text, report)
    check_dead(files, texts, report)
    rc = report.finish()
    print("\n".join(report.errors) or f"{len(texts)} files")
    return rc


sys.exit(main())
