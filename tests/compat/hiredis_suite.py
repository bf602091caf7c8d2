#!/usr/bin/env python3
"""Runs hiredis's own test program (Debian's source package `hiredis`, fetched when first needed and never
part of this project), compiled from its sources, against a server of this build: over TCP, a Unix socket
and an inherited descriptor, with its throughput tests.

    tests/compat/hiredis_suite.py

What the program may fail stands in LEFT_OUT, with the reason; one of those that passes is a failure: it
need not be there any more.

Environment: KVASIR_BUILD and KVASIR_TEST_PORT as for the integration tests. Ends with a line
"hiredis: N passed, N failed, N skipped"; skipped are the tests left out, or the whole program where it
cannot be had.
"""

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
import suites

LEFT_OUT = {
    "Can parse multi bulk replies": "lists: there are only strings",
    "Can handle nested multi bulk replies": "lists: there are only strings",
}
SOURCES = ("test.c", "hiredis.c", "net.c", "read.c", "sds.c", "async.c", "dict.c", "alloc.c")
# What is changed in the copy of the program, and why: old, new, reason.
FITTINGS = (
    (
        'i < 500; i++)\n        freeReplyObject(redisCommand(c,"LPUSH mylist foo"))',
        'i < 500; i++)\n        freeReplyObject(redisCommand(c,"SET mykey:%d foo",i))',
        "throughput asks for the 500 elements of a list",
    ),
    ("LRANGE mylist 0 499", "KEYS mykey:*", "likewise the 500 elements"),
)
LIMIT_S = 120
OUTCOME = re.compile(r"^#\d+ (.*?):?\s*(?:\x1b\[[0-9;]*m)(PASSED|FAILED)", re.MULTILINE)
# Three of throughput say no outcome but end the program when a reply is wrong.
THROUGHPUT = re.compile(r"^\t\(\d+x (.*): [0-9.]+s\)$", re.MULTILINE)
THROUGHPUT_COUNT = 12


def build(work):
    """The program, compiled in the folder work; a string that says why there is none."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("cc")
    if compiler is None:
        return "there is no C compiler"
    done = subprocess.run(
        [HERE / "fetch_source.sh", "hiredis"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        return "the source package hiredis is out of reach"
    shutil.copytree(done.stdout.decode().strip(), work / "hiredis")
    for old, new, _ in FITTINGS:
        suites.fit(work / "hiredis/test.c", old, new)
    command = [compiler, "-O1", "-w", "-o", "hiredis-test", *SOURCES]
    subprocess.run(command, cwd=work / "hiredis", check=True, timeout=LIMIT_S)
    return work / "hiredis/hiredis-test"


def run(program, log_path):
    """What the program said, and how it ended."""
    server = kvserver.Server(reactors=2)
    command = [program, "-h", "127.0.0.1", "-p", str(server.port), "-s", str(server.socket)]
    with open(log_path, "wb") as log:
        try:
            status = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False,
                timeout=LIMIT_S * kvserver.SLOW,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = "stopped: it took too long"
    server.stop()
    return log_path.read_text(errors="replace"), status


def report(text, status):
    """Says what became of each test; (passed, failed, skipped)."""
    passed = failed = skipped = 0
    seen = set()
    for name, outcome in OUTCOME.findall(text):
        seen.add(name)
        if (outcome == "PASSED") != (name in LEFT_OUT):
            passed += outcome == "PASSED"
            skipped += outcome == "FAILED"
        else:
            failed += 1
            print(f"FAILED hiredis | {name}" + " passes though left out" * (name in LEFT_OUT))
    passed += len(THROUGHPUT.findall(text))
    if len(THROUGHPUT.findall(text)) != THROUGHPUT_COUNT:
        failed += 1
        print(f"FAILED hiredis: throughput tests did not come to their end ({status})\n{text[-500:]}")
    for name in LEFT_OUT.keys() - seen:
        failed += 1
        print(f"FAILED hiredis_suite.py names a test that hiredis does not have: {name}")
    # It ends with 1 when tests failed, as those that are left out do.
    if status not in (0, 1):
        failed += 1
        print(f"FAILED hiredis: its test program ended with {status}")
    return passed, failed, skipped


def main():
    logs = kvserver.BUILD / "clients"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvasir-hiredis-") as work:
        program = build(pathlib.Path(work))
        if isinstance(program, str):
            print(f"SKIPPED hiredis's test program: {program}")
            print("hiredis: 0 passed, 0 failed, 1 skipped")
            return 0
        text, status = run(program, logs / "hiredis.log")
    passed, failed, skipped = report(text, status)
    print(f"hiredis: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
