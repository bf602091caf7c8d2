"""Modules: one that fits is loaded and shown; whatever does not is refused, and the server works."""

import os

import kvserver
import pytest

MODULES = kvserver.BUILD / "test-modules"
GOOD = MODULES / "rle.so"
SHOWN = "module:name=rle,ver=10203,api=1,filters=0,usedby=[],using=[],options=[]\r\n"


def works(connection):
    assert connection("SET", "key", "x" * 100000) == "OK"
    assert connection("GET", "key") == b"x" * 100000


def refusal_of_codec(connection, name):
    return connection.error("KV.SET", "key", "value", "CODEC", name)


def test_good_module_is_loaded_and_shown(start):
    server = start(reactors=2, loadmodule=GOOD)
    assert f"module rle 1.2.3 loaded from {GOOD}: run lengths of bytes" in server.log()
    with server.connect() as connection:
        works(connection)
        fields = [b"name", b"rle", b"ver", 10203, b"path", str(GOOD).encode(), b"args", []]
        assert connection("MODULE", "LIST") == [fields]
        assert connection("INFO", "modules").decode() == f"# Modules\r\n{SHOWN}"
        assert "codecs are loaded (rle), but the server does not use them yet" in refusal_of_codec(
            connection, "rle"
        )
        assert connection("KV.SET", "key", "value", "CODEC", "none") == "OK"


def test_without_modules_nothing_is_shown(start):
    server = start()
    assert "module" not in server.log()
    with server.connect() as connection:
        assert connection("MODULE", "LIST") == []
        assert connection("INFO", "modules") == b"# Modules\r\n"
        assert "no codec module is loaded" in refusal_of_codec(connection, "rle")


@pytest.mark.parametrize(
    "name, reason",
    [
        ("not_there", "No such file or directory"),
        ("no_symbol", "it is no Kvasir module, it exports no kvasir_module"),
        ("other_abi", "it was built for module ABI 8, this server has 1"),
        ("unresolved", "undefined symbol: nobody_has_this"),
        ("setup_fails", "the setup of setup-fails failed: not supported"),
    ],
)
def test_bad_module_is_refused_and_the_server_works(start, name, reason):
    server = start(loadmodule=MODULES / f"{name}.so")
    lines = [line for line in server.log().splitlines() if " refused: " in line]
    assert len(lines) == 1, server.log()
    assert f"{name}.so refused: " in lines[0]
    assert reason in lines[0]
    assert lines[0].endswith("; the server goes on without it")
    with server.connect() as connection:
        works(connection)
        assert connection("MODULE", "LIST") == []


def test_good_modules_are_loaded_beside_bad_ones(start):
    folder = os.path.relpath(MODULES)
    server = start(loadmodule=f"{folder}/no_setup.so,{folder}/rle.so {GOOD}")
    assert "no-setup has no setup" in server.log()
    assert f"a module rle is loaded already, from {GOOD}" in server.log()
    with server.connect() as connection:
        works(connection)
        assert connection("INFO", "modules").decode() == f"# Modules\r\n{SHOWN}"
