"""LMCache's remote back ends over a server of the build under test. Importing LMCache takes a while, so all
tests share one process; what LMCache keeps open is left to the end of the process."""

import pathlib
import select
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import kvserver
import pytest


@pytest.fixture(params=[1, 2], ids=["one reactor", "two reactors"])
def server(request):
    server = kvserver.Server(reactors=request.param)
    yield server
    if not server.gone:  # a test may have stopped it
        server.stop()


@pytest.fixture(params=["redis", "resp", "valkey"])
def scheme(request):
    return request.param


@pytest.fixture(scope="session")
def other_process():
    """other_process(scheme, port, count) has a second process load what this one stored, and gives the words
    of its answer."""
    program = pathlib.Path(__file__).parent / "other_process.py"
    deadline_s = 120 * kvserver.SLOW  # it imports LMCache first
    process = subprocess.Popen(
        [sys.executable, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(*words):
        print(*words, file=process.stdin, flush=True)
        answered, _, _ = select.select([process.stdout], [], [], deadline_s)
        assert answered, f"the other process does not answer within {deadline_s:g} s"
        return process.stdout.readline().split()

    yield ask
    process.stdin.close()
    try:
        process.wait(deadline_s)
    finally:
        process.kill()
        process.wait()
