"""The binding against the header and the library, without a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kvasir
from kvasir import _native
from kvasir._buffers import Items
from kvasir.client import _read_lengths

TOP = Path(__file__).resolve().parents[2]
HEADERS = TOP / "src" / "include"
COMPILER = shutil.which("cc") or shutil.which("gcc")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")
needs_headers = pytest.mark.skipif(not HEADERS.is_dir(), reason="not in a checkout")


def _fields(name: str, mirror: type) -> str:
    lines = [f'printf("{name} %zu", sizeof(struct {name}));']
    lines += [
        f'printf(" {field[0]}=%zu", offsetof(struct {name}, {field[0]}));'
        for field in mirror._fields_  # type: ignore[attr-defined]
    ]
    return "\n".join([*lines, r'printf("\n");'])


@needs_compiler
@needs_headers
def test_layout_is_what_the_compiler_makes_of_the_header(tmp_path: Path) -> None:
    body = "\n".join(_fields(name, mirror) for name, mirror, _ in _native.LAYOUTS)
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <kvasir/client.h>\n#include <stddef.h>\n#include <stdio.h>\n"
        f"int main(void)\n{{\n{body}\nreturn 0;\n}}\n"
    )
    program = tmp_path / "layout"
    subprocess.run([COMPILER, f"-I{HEADERS}", source, "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    expected = [
        " ".join(
            [name, str(size)]
            + [f"{field[0]}={getattr(mirror, field[0]).offset}" for field in mirror._fields_]
        )
        for name, mirror, size in _native.LAYOUTS
    ]
    assert said.splitlines() == expected


@needs_headers
def test_layout_statuses_are_those_of_the_header() -> None:
    text = (HEADERS / "kvasir" / "types.h").read_text()
    there = {name: int(number) for name, number in re.findall(r"KVASIR_(\w+) = (-?\d+)", text)}
    assert there == {status.name: int(status) for status in kvasir.Status}


@needs_headers
def test_layout_every_public_function_is_bound_or_left_out_on_purpose() -> None:
    text = (HEADERS / "kvasir" / "client.h").read_text()
    there = set(re.findall(r"\b(kvasir_\w+)\(", text))
    # One-key forms of the batches that the binding uses for both, and what Python has itself.
    left_out = {"kvasir_put", "kvasir_get", "kvasir_get_view", "kvasir_path_name"}
    assert set(_native._PROTOTYPES) == there - left_out


@needs_headers
def test_layout_version_is_that_of_the_checkout() -> None:
    assert (TOP / "VERSION").read_text().strip() == kvasir.__version__
    assert kvasir.library_version() == kvasir.__version__


def _import_with(library: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, _native.LIBRARY_VARIABLE: library}
    command = [sys.executable, "-c", "import kvasir"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_layout_absent_library_is_an_import_error_that_says_what_to_do(tmp_path: Path) -> None:
    done = _import_with(str(tmp_path / "none.so"))
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert _native.LIBRARY_VARIABLE in done.stderr


@needs_compiler
def test_layout_library_without_a_function_is_an_import_error_that_names_it(tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text(
        "const char *kvasir_version(void);\nconst char *kvasir_version(void)"
        '\n{\nreturn "0.1.0";\n}\n'
    )
    subprocess.run([COMPILER, "-shared", "-fPIC", source, "-o", tmp_path / "old.so"], check=True)
    done = _import_with(str(tmp_path / "old.so"))
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "kvasir_get_batch" in done.stderr


def _work(count: int) -> Counter[str]:
    """Calls, calls of C, and lines that the binding runs for a batch of that many values."""
    keys = [b"key %d" % index for index in range(count)]
    buffers = [bytearray(4096) for _ in keys]
    counted: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event in ("call", "c_call"):
            counted[event] += 1

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            counted[event] += 1
        return trace

    earlier = (sys.gettrace(), sys.getprofile())
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        items = Items(keys, buffers, True)
        _read_lengths(items)
        items.release()
    finally:
        sys.setprofile(earlier[1])
        sys.settrace(earlier[0])
    return counted


def test_layout_value_of_a_batch_costs_one_call_of_c_and_two_lines() -> None:
    few = _work(64)
    many = _work(128)
    assert many["call"] == few["call"]
    assert many["c_call"] - few["c_call"] <= 64
    assert many["line"] - few["line"] <= 128
