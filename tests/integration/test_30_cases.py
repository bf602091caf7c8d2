"""The table of trouble cases that lies beside the checkout, on 1, 2 and 4 reactors, with and without
a password."""

import os
import pathlib
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


def run_cases(server, area, *options):
    slow = "3" if kvserver.SANITIZE else "1"
    done = subprocess.run(
        [sys.executable, str(CASES / "run_cases.py"), "--port", str(server.port)]
        + ["--area", area, "--slow", slow, "-q", *options],
        capture_output=True,
        text=True,
        timeout=170 * kvserver.SLOW,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS=" in done.stdout, done.stdout


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("reactors", [2] if kvserver.SANITIZE else [1, 2, 4])
def test_cases(start, reactors, area):
    run_cases(start(reactors=reactors), area)


@pytest.mark.parametrize("area", ("auth", "values", "clients"))
def test_cases_with_a_password(start, area):
    run_cases(start(reactors=2, requirepass="pass word"), area, "--auth", "pass word")
