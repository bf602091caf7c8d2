#!/bin/bash
# Installs LMCache for `make test-lmcache`, in a virtual environment of its own:
# ${XDG_CACHE_HOME:-~/.cache}/kvasir/venv-lmcache, about 500 MB. It would change a dozen packages of the
# engine's environment, so it lies over it: what is not in its own folder, as torch, comes from venv-vllm,
# which is installed first. Does nothing when it is there with the same versions. Several runs at once take
# turns.
# Usage: venv_lmcache.sh [--print | --check]
#   --print   only says the path of its folder
#   --check   only says by the exit status whether it is complete
# Exit status: 0 done; 75 it cannot be had here (the reason is printed); 2 wrong usage.
# shellcheck disable=SC2034,SC2154  # what venv_frame.sh takes and gives
set -u

LMCACHE="lmcache==0.5.6"
EXTRA=(redis==8.1.0 valkey-glide-sync==2.6.0 "pytest>=8,<9")
# The engine has these, or they are for hardware and services that the tests do not touch.
WITHOUT=(torch transformers cupy-cuda13x cuda-python cufile-python google-cloud-bigtable)

name=venv-lmcache
what=$LMCACHE
pins="$LMCACHE ${EXTRA[*]} over $("$(dirname "$0")/venv_vllm.sh" --print)"
limit_s=300
need_mb=1500
. "$(dirname "$0")/venv_frame.sh"
engine="$home/venv-vllm"

check_machine()
{
    "$(dirname "$0")/venv_vllm.sh" || unavailable "it borrows torch from the engine's environment"
}

fill()
{
    "$engine/bin/python" -m venv "$venv" &&
        "$venv/bin/python" -m pip install --disable-pip-version-check uv &&
        printf '%s; sys_platform == "never"\n' "${WITHOUT[@]}" >"$venv/overrides.txt" &&
        "$venv/bin/uv" pip install --python "$venv/bin/python" "$LMCACHE" "${EXTRA[@]}" \
            --override "$venv/overrides.txt" &&
        packages_of "$engine" >"$(packages_of "$venv")/engine.pth" &&
        "$venv/bin/python" -c 'import torch, glide_sync, redis, lmcache.lmcache_redis'
}

venv_main "$@"
