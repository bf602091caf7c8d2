#!/bin/bash
# Makes the environment with the Python tools of `make check` (ruff, mypy), once.
# It lies in ${XDG_CACHE_HOME:-~/.cache}/kvasir, so that a fresh clone finds it again.
set -eu
cd "$(dirname "$0")/.."
venv=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-check
if cmp -s utils/requirements.txt "$venv/requirements.txt"; then
    echo "venv-check: there already"
    exit 0
fi
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r utils/requirements.txt
cp utils/requirements.txt "$venv/requirements.txt"
