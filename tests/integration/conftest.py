"""Servers for the tests, and which tests run under which sanitizer."""

import kvserver
import loop
import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "reactors: needs several reactors, so runs under TSan, too")
    config.addinivalue_line("markers", "plain: not under sanitizers (measures or limits memory)")


def pytest_collection_modifyitems(config, items):
    """Under TSan only what has several reactors is worth its time."""
    kept, dropped = [], []
    for item in items:
        plain = item.get_closest_marker("plain") is not None
        several = item.get_closest_marker("reactors") is not None
        out = (plain and kvserver.SANITIZE) or (kvserver.SANITIZE == "thread" and not several)
        (dropped if out else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.fixture
def start():
    """start(reactors=…, option=…) gives a server; all are stopped, and checked, at the end."""
    servers = []

    def start_one(*arguments, **options):
        servers.append(kvserver.Server(*arguments, **options))
        return servers[-1]

    yield start_one
    failures = []
    for server in servers:
        if server.gone:
            continue
        try:
            server.stop()
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.fixture(scope="module")
def shared():
    """One server of two reactors for all tests of a file that share it."""
    server = kvserver.Server(reactors=2)
    yield server
    server.stop()


@pytest.fixture
def control():
    """What the server's device of the RDMA tests shall do wrong."""
    control = loop.Control()
    yield control
    control.close()


@pytest.fixture
def own(monkeypatch):
    """The control of the client's device; that of the server's is another."""
    own = loop.Control()
    monkeypatch.setenv("KVASIR_LOOP_CONTROL", str(own.path))
    yield own
    own.close()
