"""LMCache's remote back ends over a server of the build under test. Importing LMCache takes a while, so all
tests share one process; what LMCache keeps open is left to the end of the process."""

import pathlib
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
