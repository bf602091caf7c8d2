#!/bin/bash
# Installs stock clients, and the tests that come with redis-py, for the tests of clients: a virtual
# environment of their own, ${XDG_CACHE_HOME:-~/.cache}/kvasir/venv-clients, about 150 MB. Does nothing
# when it is there with the same versions. Several runs at once take turns.
# Usage: venv_clients.sh [--print | --check]
#   --print   only says the path of its folder
#   --check   only says by the exit status whether it is complete
# Exit status: 0 done; 75 it cannot be had here (the reason is printed); 2 wrong usage.
# shellcheck disable=SC2034,SC2154  # what venv_frame.sh takes and gives
set -u

REDIS="redis==8.1.0"
CLIENTS=("$REDIS" valkey==6.2.0 valkey-glide==2.6.0 valkey-glide-sync==2.6.0)
# What the tests of redis-py import.
TOOLS=("pytest>=8,<9" pytest-asyncio pytest-timeout mock numpy coverage cryptography PyJWT
    requests pybreaker redis-entraid)

name=venv-clients
what="${CLIENTS[*]}"
pins="${CLIENTS[*]} ${TOOLS[*]}"
limit_s=280
need_mb=500
. "$(dirname "$0")/venv_frame.sh"

check_machine()
{
    :
}

fill()
{
    "$PYTHON" -m venv "$venv" &&
        "$venv/bin/python" -m pip install --disable-pip-version-check "${CLIENTS[@]}" "${TOOLS[@]}" &&
        "$venv/bin/python" -m pip download --disable-pip-version-check --no-deps --no-binary redis \
            --dest "$venv/sources" "$REDIS" &&
        tar -xzf "$venv"/sources/redis-*.tar.gz -C "$venv/sources" --one-top-level=redis-py \
            --strip-components=1 &&
        [ -f "$venv/sources/redis-py/tests/conftest.py" ]
}

venv_main "$@"
