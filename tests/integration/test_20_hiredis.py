"""hiredis, blocking and on libevent: small C programs, compiled here against the installed library."""

import os
import pathlib
import subprocess

import kvserver
import pytest

HERE = pathlib.Path(__file__).parent

pytestmark = [
    pytest.mark.reactors,
    pytest.mark.skipif(
        not pathlib.Path("/usr/include/hiredis/hiredis.h").exists(),
        reason="libhiredis-dev is not installed",
    ),
]


def compile_program(name, *libraries):
    program = kvserver.BUILD / "tests/integration" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CC", "gcc").split()
    flags = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*compiler, *flags, str(HERE / f"{name}.c"), *libraries, "-o", str(program)], check=True
    )
    return program


def run_program(program, *arguments):
    done = subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60 * kvserver.SLOW,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{program.name}: ok" in done.stdout


def test_hiredis_blocking(shared):
    program = compile_program("hiredis_sync", "-lhiredis")
    run_program(program, shared.port, shared.socket)


def test_hiredis_on_libevent(shared):
    program = compile_program("hiredis_async", "-lhiredis", "-levent")
    run_program(program, shared.port)
