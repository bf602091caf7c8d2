"""A short soak: see tests/soak."""

import pathlib
import subprocess
import sys

import kvserver
import pytest

pytestmark = pytest.mark.reactors
SOAK = pathlib.Path(__file__).resolve().parents[1] / "soak" / "soak.py"


def test_soak():
    done = subprocess.run(
        [sys.executable, SOAK, "--seconds", "15", "--connections", "100", "--workers", "2"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=240 * kvserver.SLOW,
    )
    assert done.returncode == 0, done.stdout + done.stderr
