"""Writes the wheel, and lets ``pip install ./python`` do so (PEP 517), with the standard library
alone.

``build_wheel.sh`` calls this file with the binaries that it has linked. As a build backend it runs
``make wheel``, which comes back here.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent
NAME = "kvasir"
# One date for every file: the same sources give the same wheel, byte for byte.
_DATE = (2020, 1, 1, 0, 0, 0)

_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Client and server of Kvasir, a KV-cache store for LLM inference
License: Apache-2.0
Requires-Python: >=3.10
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

{description}"""

_WHEEL = """\
Wheel-Version: 1.0
Generator: kvasir wheel_backend
Root-Is-Purelib: false
Tag: {tag}
"""

_ENTRY_POINTS = """\
[console_scripts]
kvasir-server = kvasir.server:main
"""


class _Archive:
    """A zip file that remembers what RECORD has to say."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record: list[str] = []

    def add(self, name: str, data: bytes, mode: int = 0o644) -> None:
        info = zipfile.ZipInfo(name, _DATE)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record_name: str) -> None:
        lines = [*self._record, f"{record_name},,", ""]
        self._zip.writestr(zipfile.ZipInfo(record_name, _DATE), "\n".join(lines))
        self._zip.close()


def _package_version() -> str:
    scope: dict[str, str] = {}
    exec((HERE / NAME / "_version.py").read_text(), scope)
    return scope["__version__"]


def write_wheel(stage: Path, platform: str, version: str, out: Path) -> Path:
    """Packs the package, and _bin and _lib from stage, for the platform."""
    tag = f"py3-none-{platform}"
    path = out / f"{NAME}-{version}-{tag}.whl"
    info = f"{NAME}-{version}.dist-info"
    # Written beside its place: a wheel is there whole or not at all.
    partial = path.with_suffix(f".{os.getpid()}.part")
    archive = _Archive(partial)
    for source in sorted((HERE / NAME).rglob("*")):
        if source.suffix == ".py" or source.name == "py.typed":
            archive.add(source.relative_to(HERE).as_posix(), source.read_bytes())
    for source in sorted(stage.rglob("*")):
        if source.is_file():
            inside = f"{NAME}/{source.relative_to(stage).as_posix()}"
            archive.add(inside, source.read_bytes(), 0o755)
    description = (HERE / "README.md").read_text(encoding="utf-8")
    metadata = _METADATA.format(name=NAME, version=version, description=description)
    archive.add(f"{info}/METADATA", metadata.encode())
    archive.add(f"{info}/WHEEL", _WHEEL.format(tag=tag).encode())
    archive.add(f"{info}/entry_points.txt", _ENTRY_POINTS.encode())
    archive.add(f"{info}/licenses/LICENSE", (TOP / "LICENSE").read_bytes())
    for source in sorted((HERE / "licenses").iterdir()):
        archive.add(f"{info}/licenses/{source.name}", source.read_bytes())
    archive.close(f"{info}/RECORD")
    partial.replace(path)
    return path


def build_wheel(
    wheel_directory: str,
    config_settings: object = None,
    metadata_directory: str | None = None,
) -> str:
    """PEP 517: builds server and library with make, then the wheel; returns its file name."""
    out = Path(wheel_directory).resolve()
    before = set(out.glob("*.whl"))
    environment = {**os.environ, "KVASIR_WHEEL_DIR": str(out)}
    subprocess.run(["make", "-C", str(TOP), "wheel"], check=True, env=environment)
    (made,) = set(out.glob("*.whl")) - before
    return made.name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """PEP 517 wants it: the sources of the C parts lie outside this folder, so there is none."""
    raise NotImplementedError("there is no source distribution; build the wheel from a checkout")


def main() -> int:
    """Called by build_wheel.sh."""
    parser = argparse.ArgumentParser(description="write the wheel from linked binaries")
    parser.add_argument("--stage", type=Path, required=True, help="folder with _bin and _lib")
    parser.add_argument("--platform", required=True, help="platform tag")
    parser.add_argument("--version-file", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    version = arguments.version_file.read_text().strip()
    if version != _package_version():
        print(
            f"wheel: {arguments.version_file} says {version}, "
            f"kvasir/_version.py says {_package_version()}",
            file=sys.stderr,
        )
        return 1
    print(write_wheel(arguments.stage, arguments.platform, version, arguments.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
