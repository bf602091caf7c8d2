"""The servers of the integration tests, for clients that live in environments of their own."""

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
