#!/bin/bash
# Installs stock clients, and the tests that come with redis-py, for the tests of clients: a virtual
# environment of their own, ${XDG_CACHE_HOME:-~/.cache}/kvasir/venv-clients, about 150 MB. Does nothing
# when it is there with the same versions. Several runs at once take turns.
# Usage: venv_clients.sh [--print | --check]
#   --print   only says the path of its folder
#   --check   only says by the exit status whether it is complete
# Exit status: 0 done; 75 it cannot be had here (the reason is printed); 2 wrong usage.
set -u

REDIS="redis==8.1.0"
CLIENTS=("$REDIS" valkey==6.2.0 valkey-glide==2.6.0 valkey-glide-sync==2.6.0)
# What the tests of redis-py import.
TOOLS=("pytest>=8,<9" pytest-asyncio pytest-timeout mock numpy coverage cryptography PyJWT
    requests pybreaker redis-entraid)
PYTHON="${KVASIR_VENV_PYTHON:-python3}"

home="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir"
venv="$home/venv-clients"
pins="${CLIENTS[*]} ${TOOLS[*]}"
log="$home/venv-clients.log"

unavailable()
{
    echo "venv-clients: the clients cannot be installed here: $*" >&2
    exit 75
}

complete()
{
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/kvasir-pins" 2>/dev/null)" = "$pins" ]
}

# Fills the folder $1; its pins come last.
fill()
{
    "$PYTHON" -m venv "$1" &&
        "$1/bin/python" -m pip install --disable-pip-version-check "${CLIENTS[@]}" "${TOOLS[@]}" &&
        "$1/bin/python" -m pip download --disable-pip-version-check --no-deps --no-binary redis \
            --dest "$1/sources" "$REDIS" &&
        tar -xzf "$1"/sources/redis-*.tar.gz -C "$1/sources" --one-top-level=redis-py \
            --strip-components=1 &&
        [ -f "$1/sources/redis-py/tests/conftest.py" ] &&
        echo "$pins" >"$1/kvasir-pins"
}

case "${1:-}" in
--print)
    echo "$venv"
    exit 0
    ;;
--check)
    complete
    exit
    ;;
"") ;;
*)
    echo "usage: venv_clients.sh [--print | --check]" >&2
    exit 2
    ;;
esac

mkdir -p "$home" || unavailable "$home cannot be made"
exec 9>"$home/venv-clients.lock"
flock -w 300 9 || unavailable "another run is not done after five minutes"
if complete; then
    echo "venv-clients: $venv is complete"
    exit 0
fi
command -v "$PYTHON" >/dev/null || unavailable "there is no $PYTHON"
echo "venv-clients: installing ${CLIENTS[*]}; the log is $log"
rm -rf "$venv"
if ! timeout 280 bash -c "$(declare -f fill); $(declare -p PYTHON CLIENTS TOOLS REDIS pins); fill \"\$1\"" \
    fill "$venv" >"$log" 2>&1 9>&-; then
    tail -n 5 "$log" >&2
    rm -rf "$venv"
    unavailable "see $log (no network, or no access to PyPI?)"
fi
echo "venv-clients: done, $(du -sh "$venv" | cut -f 1)"
