"""The whole table of trouble cases that lies beside the checkout, but what is about clusters, on 1, 2
and 4 reactors, with and without a password."""

import os
import pathlib
import re
import subprocess
import sys

import kvserver
import pytest

CASES = pathlib.Path(os.environ.get("KVASIR_CASES", kvserver.ROOT.parent / "shared/cases"))
AREAS = ("protocol", "resp3", "auth", "values", "expiry", "scan", "net", "clients")

pytestmark = [
    pytest.mark.reactors,
    pytest.mark.skipif(not (CASES / "run_cases.py").exists(), reason=f"no cases in {CASES}"),
]


# What the cases about memory ask for: a store of 32 to 64 MiB, of which most is payload.
SMALL = {
    "maxmemory": "64mb",
    "metadata_memory": "2mb",
    "buffer_memory": "4mb",
    "grants_max": 256,
    "shm": "no",
}
# It needs a server without a password.
SKIPPED = {"AU05"}
REACTORS = [2] if kvserver.SANITIZE else [1, 2, 4]


def run_cases(server, *options):
    slow = "3" if kvserver.SANITIZE else "1"
    done = subprocess.run(
        [sys.executable, str(CASES / "run_cases.py"), "--port", str(server.port)]
        + ["--slow", slow, "-q", *options],
        capture_output=True,
        text=True,
        timeout=170 * kvserver.SLOW,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS=" in done.stdout, done.stdout
    skipped = set(re.findall(r"^SKIP +(\w+)", done.stdout, re.MULTILINE))
    assert skipped <= SKIPPED, done.stdout


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("reactors", REACTORS)
def test_cases(start, reactors, area):
    run_cases(start(reactors=reactors), "--area", area)


@pytest.mark.parametrize("reactors", REACTORS)
def test_cases_of_memory(start, reactors):
    run_cases(start(reactors=reactors, **SMALL), "--area", "memory")


@pytest.mark.parametrize("area", ("auth", "values", "clients"))
def test_cases_with_a_password(start, area):
    run_cases(start(reactors=2, requirepass="pass word"), "--area", area, "--auth", "pass word")
