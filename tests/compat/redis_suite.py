#!/usr/bin/env python3
"""Runs Redis's own test-suite (Debian's source package `redis`, fetched when first needed and never
part of this project) against a server of this build, one unit after another, each with a server of
its own: units change settings and do not change them back.

    tests/compat/redis_suite.py [--try-left-out] [UNIT ...]

What is left out stands in left_out.txt, with the reason; a unit that is left out whole runs when it is
named on the command line. With --try-left-out those tests are run,
too, and those that pass are named: they need not be left out any more. Names in the list that the
suite does not have are an error, so the list stays true.

Environment: KVASIR_BUILD and KVASIR_TEST_PORT as for the integration tests. Ends with a line
"compat: N passed, N failed, N skipped"; skipped are the tests left out, and the units where the
suite or tclsh cannot be had.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import kvserver

UNITS = [
    "unit/type/string",
    "unit/type/incr",
    "unit/expire",
    "unit/keyspace",
    "unit/scan",
    "unit/protocol",
    "unit/info",
    "unit/querybuf",
    "unit/other",
    "unit/quit",
    "unit/auth",
    "unit/acl",
    "unit/acl-v2",
    "unit/multi",
    "unit/pubsub",
    "unit/pubsubshard",
    "unit/pause",
    "unit/slowlog",
    "unit/latency-monitor",
    "unit/introspection",
    "unit/introspection-2",
    "unit/info-command",
    "unit/bitops",
    "unit/bitfield",
    "unit/tracking",
]
# These count on one connection's request being done before another's that was sent later, without
# waiting for an answer.
ONE_REACTOR = {"unit/pubsub", "unit/pubsubshard"}
# Units whose tests are kept from servers of others but need nothing beyond the protocol.
OWN_SERVER = {"unit/auth", "unit/info"}
# What is changed in the unpacked suite, and why: file, old, new, reason.
FITTINGS = (
    (
        "support/server.tcl",
        "    r flushall\n    r function flush\n",
        "    r flushall\n    catch {r function flush}\n",
        "between tests it empties what the server has; there are no functions to empty",
    ),
    (
        "support/server.tcl",
        "if {$::external && [lsearch $tags",
        "if {$::external && ![info exists ::env(KVASIR_OWN_SERVER)] && [lsearch $tags",
        "each unit has a server to itself, so it may run what is kept from servers of others",
    ),
    (
        "unit/auth.tcl",
        'start_server {tags {"masterauth"}} {',
        'start_server {tags {"masterauth needs:repl"}} {',
        "a tag that is missing, since the test around it was kept from external servers",
    ),
    (
        "unit/keyspace.tcl",
        "    test {MOVE basic usage} {\n        r set",
        "    test {MOVE basic usage} {\n        r flushdb\n        r set",
        "the flush stands at the end of a test of streams",
    ),
)
UNIT_LIMIT_S = 240
# What a test may do to the server by DEBUG is different here; what it needs is said by its tags.
TAGS = (
    "-needs:debug -needs:repl -needs:save -needs:config-maxmemory -slow -large-memory"
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OUTCOME = re.compile(r"^\[(ok|err|skip|ignore|exception|timeout)\]:? ?(.*)$")
ALL = "*"


def left_out():
    """[(unit, test or '*', reason)] of left_out.txt."""
    rows = []
    for number, line in enumerate((HERE / "left_out.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts):
            raise SystemExit(f"left_out.txt:{number}: wanted 'unit | test | reason'")
        rows.append(tuple(parts))
    return rows


def name_of(text):
    """The test's name in an outcome line: 'name (12 ms)', 'name in tests/unit/x.tcl'."""
    text = re.sub(r" \(\d+ ms\)$", "", text)
    return re.sub(r" in tests/unit/\S+\.tcl$", "", text)


def run_unit(suite, unit, skipped_names, log_path):
    """[(outcome, name, detail)] of one unit."""
    server = kvserver.Server(
        reactors=1 if unit in ONE_REACTOR else 2,
        maxmemory="512mb",
        **{"proto-max-bulk-len": "512mb", "lease-max-ms": 60000},
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as skip_file:
        skip_file.write("\n".join(skipped_names))
        skip_file.flush()
        command = ["tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1"]
        command += ["--port", str(server.port), "--single", unit, "--tags", TAGS]
        command += ["--durable", "--ignore-encoding", "--ignore-digest"]
        command += ["--skipfile", skip_file.name, "--baseport", str(server.port + 2)]
        environment = dict(os.environ)
        if unit in OWN_SERVER:
            environment["KVASIR_OWN_SERVER"] = "1"
        try:
            done = subprocess.run(
                command,
                cwd=suite,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=UNIT_LIMIT_S * kvserver.SLOW,
                check=False,
            )
            output, ended = done.stdout, f"exit status {done.returncode}"
        except subprocess.TimeoutExpired as reason:
            output, ended = reason.stdout or b"", "stopped: it took too long"
    text = COLOURS.sub("", output.decode(errors="replace"))
    log_path.write_text(text + "\n" + server.log())
    outcomes = []
    for line in text.splitlines():
        match = OUTCOME.match(line)
        if match:
            outcomes.append((match[1], name_of(match[2]), line))
    if "stopped" in ended or not re.search(r"All tests passed|The End", text):
        outcomes.append(("exception", f"({unit} did not come to its end)", ended))
    try:
        server.stop()
    except AssertionError as reason:
        outcomes.append(("exception", f"(the server after {unit})", str(reason)[-400:]))
    return outcomes


def fit(path, old, new):
    """Changes a file of the suite, once; another run may be reading it."""
    text = path.read_text()
    if new in text:
        return
    if old not in text:
        raise SystemExit(f"{path}: not the suite that redis_suite.py knows, it lacks {old!r}")
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(text.replace(old, new))
    fresh.replace(path)


def suite_folder():
    """Where the suite is, ready to run; a string that says why it cannot be had."""
    if shutil.which("tclsh") is None:
        return "tclsh is not installed (deps/install.sh --all)"
    done = subprocess.run(
        [HERE / "fetch_source.sh", "redis"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        return "the source package redis is out of reach"
    folder = pathlib.Path(done.stdout.decode().strip())
    for name, old, new, _ in FITTINGS:
        fit(folder / "tests" / name, old, new)
    # The suite looks for programs where its own build would put them.
    for program in ("redis-cli", "redis-benchmark", "redis-server"):
        found, link = shutil.which(program), folder / "src" / program
        if found and not os.path.lexists(link):
            link.symlink_to(found)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--try-left-out", action="store_true")
    parser.add_argument("units", nargs="*", metavar="UNIT", default=UNITS)
    options = parser.parse_args()
    suite = suite_folder()
    if isinstance(suite, str):
        for unit in options.units:
            print(f"SKIPPED {unit}: {suite}")
        print(f"compat: 0 passed, 0 failed, {len(options.units)} skipped")
        return 0
    rows = left_out()
    logs = pathlib.Path(os.environ.get("KVASIR_BUILD", "build")) / "compat"
    logs.mkdir(parents=True, exist_ok=True)
    passed = failed = skipped = 0
    for unit in options.units:
        own = {test: reason for row_unit, test, reason in rows if row_unit == unit}
        if ALL in own and not options.try_left_out and options.units == UNITS:
            print(f"left out {unit}: {own[ALL]}")
            skipped += 1
            continue
        names = [] if options.try_left_out else sorted(own)
        outcomes = run_unit(suite, unit, names, logs / f"{unit.replace('/', '_')}.log")
        counts = {"ok": 0, "bad": 0, "skip": 0}
        seen = set()
        for outcome, name, detail in outcomes:
            seen.add(name)
            if outcome == "ok":
                counts["ok"] += 1
                if options.try_left_out and name in own:
                    print(f"passes though left out: {unit} | {name}")
            elif outcome == "skip" or (options.try_left_out and name in own):
                counts["skip"] += 1
            elif outcome in ("err", "exception", "timeout"):
                counts["bad"] += 1
                print(f"FAILED {unit} | {name}\n    {detail[:300]}")
        for name in sorted(set(own) - seen - {ALL}):
            counts["bad"] += 1
            print(f"FAILED left_out.txt names a test that {unit} does not have: {name}")
        if counts["ok"] == 0 and counts["bad"] == 0:
            print(f"SKIPPED {unit}: the suite runs none of it against a server of others")
            skipped += counts["skip"] + 1
            continue
        state = "ok" if counts["bad"] == 0 else "FAILED"
        print(
            f"{state} {unit}: {counts['ok']} passed, {counts['bad']} failed, "
            f"{counts['skip']} left out",
            flush=True,
        )
        passed += counts["ok"]
        failed += counts["bad"]
        skipped += counts["skip"]
    print(f"compat: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
