#!/usr/bin/env python3
"""Runs Redis's own test-suite (Debian's source package `redis`, fetched when first needed and never
part of this project) against servers of this build. The suite starts them itself, one for each of its
blocks with the options which that block asks for: where it looks for its own server stands
`redis-server` of this folder.

    tests/compat/redis_suite.py [--try-left-out] [UNIT ...]

What is left out stands in left_out.txt, with the reason; a unit that is left out whole runs when it is
named on the command line. With --try-left-out those tests are run, too, and one that passes is a
failure: it need not be left out any more. Names in the list that the suite does not have are an error,
so the list stays true.

Environment: KVASIR_BUILD and KVASIR_TEST_PORT as for the integration tests. Ends with a line
"compat: N passed, N failed, N skipped"; skipped are the tests left out, and the units where the
suite or tclsh cannot be had.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import kvserver
import suites
from redis_fittings import FITTINGS

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
# waiting for an answer, or on ids that leave none out.
ONE_REACTOR = {"unit/pubsub", "unit/pubsubshard", "unit/slowlog"}
UNIT_LIMIT_S = 240
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OUTCOME = re.compile(r"^\[(ok|err|skip|ignore|exception|timeout)\]:? ?(.*)$")
ALL = "*"


def name_of(text):
    """The test's name in an outcome line: 'name (12 ms)', 'name in tests/unit/x.tcl'."""
    text = re.sub(r" \(\d+ ms\)$", "", text)
    return re.sub(r" in tests/unit/\S+\.tcl$", "", text)


def run_unit(suite, unit, skipped_names, log_path):
    """[(outcome, name, detail)] of one unit."""
    ports = kvserver.Ports()
    command = ["tclsh", "tests/test_helper.tcl", "--single", unit]
    command += ["--clients", "1", "--durable", "--dont-clean"]
    command += ["--ignore-encoding", "--ignore-digest"]
    command += ["--baseport", str(ports.first), "--portcount", str(kvserver.PORTS_PER_SERVER)]
    environment = dict(os.environ)
    environment["KVASIR_BUILD"] = str(kvserver.BUILD)
    environment["KVASIR_COMPAT_REACTORS"] = "1" if unit in ONE_REACTOR else "2"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as skip_file:
        skip_file.write("\n".join(skipped_names))
        skip_file.flush()
        # In a group of its own, with its servers: all end together when it is stopped.
        with subprocess.Popen(
            [*command, "--skipfile", skip_file.name],
            cwd=suite,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=UNIT_LIMIT_S * kvserver.SLOW)
                ended = f"exit status {process.returncode}"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                ended = "stopped: it took too long"
            except SystemExit:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    ports.close()
    text = COLOURS.sub("", output.decode(errors="replace"))
    server_logs = [path.read_text(errors="replace") for path in suite.glob("tests/tmp/*/std*")]
    log_path.write_text("\n".join([text, *server_logs]))
    outcomes = []
    for line in text.splitlines():
        match = OUTCOME.match(line)
        if match:
            outcomes.append((match[1], name_of(match[2]), line))
    if "stopped" in ended or not re.search(r"All tests passed|The End", text):
        outcomes.append(("exception", f"({unit} did not come to its end)", ended))
    for log in server_logs:
        trouble = kvserver.TROUBLE.search(log)
        if trouble:
            outcomes.append(("exception", f"(a server of {unit})", log[trouble.start() :]))
    return outcomes


def suite_folder(work):
    """A copy of the suite in the folder work, ready to run; a string that says why there is none."""
    if shutil.which("tclsh") is None:
        return "tclsh is not installed (deps/install.sh --all)"
    done = subprocess.run(
        [HERE / "fetch_source.sh", "redis"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        return "the source package redis is out of reach"
    source = pathlib.Path(done.stdout.decode().strip())
    shutil.copytree(source / "tests", work / "tests", ignore=shutil.ignore_patterns("tmp"))
    (work / "tests/tmp").mkdir()
    for name, old, new, _ in FITTINGS:
        suites.fit(work / "tests" / name, old, new)
    # The suite looks for programs where its own build would put them.
    (work / "src").mkdir()
    (work / "src/redis-server").symlink_to(HERE / "redis-server")
    for program in ("redis-cli", "redis-benchmark"):
        found = shutil.which(program)
        if found:
            (work / "src" / program).symlink_to(found)
    return work


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--try-left-out", action="store_true")
    parser.add_argument("units", nargs="*", metavar="UNIT", default=UNITS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="kvasir-compat-") as work:
        return run(suite_folder(pathlib.Path(work)), options)


def run(suite, options):
    """Runs the units and says what came of them; the exit status."""
    if isinstance(suite, str):
        for unit in options.units:
            print(f"SKIPPED {unit}: {suite}")
        print(f"compat: 0 passed, 0 failed, {len(options.units)} skipped")
        return 0
    rows = suites.read_left_out(HERE / "left_out.txt")
    logs = kvserver.BUILD / "compat"
    logs.mkdir(parents=True, exist_ok=True)
    passed = failed = skipped = 0
    for unit in options.units:
        own = {test: reason for (where, test), reason in rows.items() if where == unit}
        if ALL in own and options.units == UNITS:
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
                    counts["bad"] += 1
                    print(f"FAILED passes though left out: {unit} | {name}")
            elif outcome == "skip" or options.try_left_out:
                # One that fails may have others fail that count on it.
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
