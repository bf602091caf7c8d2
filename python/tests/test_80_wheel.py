"""The wheel: built, installed into a fresh environment and used from there with nothing else."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

BUILDER = Path(__file__).resolve().parents[1] / "build_wheel.sh"

USE = """
import pathlib, sys, tempfile
import kvasir, kvasir.server
home = pathlib.Path(sys.prefix)
assert home in pathlib.Path(kvasir.__file__).parents, kvasir.__file__
assert home in pathlib.Path(kvasir.server.find_server()).parents
with tempfile.TemporaryDirectory(prefix="kvasir-") as folder:
    with kvasir.server.Server(None, folder + "/k.sock", maxmemory="64mb", reactors=1) as server:
        with kvasir.Client(server.address) as client:
            client.put("a", bytes(3_000_000))
            assert client.get("a") == bytes(3_000_000)
            with client.get_view("a") as view:
                assert len(view) == 3_000_000
            print(client.path, kvasir.library_version(), server.stop())
"""


@pytest.fixture(scope="module")
def wheel(binary: str) -> Iterator[Path]:
    build = os.environ.get("KVASIR_BUILD")
    if not build or not BUILDER.exists():
        pytest.skip("KVASIR_BUILD names no build directory")
    flags = Path(build, "flags")
    if flags.exists() and "-fsanitize=" in flags.read_text():
        pytest.skip("wheels are not made of instrumented builds")
    with tempfile.TemporaryDirectory(prefix="kvasir-wheel-") as folder:
        subprocess.run([BUILDER, build, folder], check=True)
        (path,) = Path(folder).glob("*.whl")
        yield path


def test_wheel_holds_what_it_says(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (record_name,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record_name).decode())))
        assert [row[0] for row in rows] == names
        for name, digest, size in rows[:-1]:
            data = archive.read(name)
            assert len(data) == int(size)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            assert digest == "sha256=" + expected.decode()
        assert archive.getinfo("kvasir/_bin/kvasir-server").external_attr >> 16 & 0o111 == 0o111
    assert {"kvasir/_lib/libkvasir.so.0", "kvasir/py.typed", "kvasir/client.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    built = {path.name for path in Path(os.environ["KVASIR_BUILD"], "modules").glob("*.so")}
    modules = {name for name in names if "/modules/" in name}
    assert modules == {f"kvasir/_lib/kvasir/modules/{name}" for name in built}


def test_wheel_is_the_same_when_built_again(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([BUILDER, os.environ["KVASIR_BUILD"], tmp_path], check=True)
    (again,) = tmp_path.glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_wheel_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
    done = subprocess.run(
        [python, "-I", "-c", USE], env={}, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["shm", "0.1.0", "0"]
    version = subprocess.run(
        [home / "bin" / "kvasir-server", "--version"],
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "0.1.0" in version.stdout
