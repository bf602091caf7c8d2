#!/bin/bash
# Runs a real server against real clients: every test of tests/integration, in the order of their
# numbers, with servers on ports of their own that are stopped by their pids.
# Usage: [KVASIR_BUILD=dir] [KVASIR_SANITIZE=address|thread] run_integration.sh [PYTEST ARGUMENT...]
#
# pytest and redis-py live in an environment of their own under ${XDG_CACHE_HOME:-~/.cache}/kvasir,
# made once (needs a package index) and used again. Ends with "integration: N passed, N failed,
# N skipped"; what cannot run is skipped by name. Under TSan only what needs several reactors runs.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/gcc-release}")
export KVASIR_BUILD="$build"
export PYTHONDONTWRITEBYTECODE=1
venv="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-integration"
limit_s=${KVASIR_INTEGRATION_LIMIT_S:-1500}
passed=0 failed=0 skipped=0
. tests/runner.sh

finish()
{
    echo "integration: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

make_venv()
{
    # Made beside its place and moved there when complete: two runs may start at the same time.
    local fresh="$venv.$$"
    echo "integration: making $venv (pytest, redis)"
    rm -rf "$fresh"
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$fresh" &&
        timeout 300 "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check \
            'pytest>=8,<9' 'redis>=8,<9' || return 1
    mv -T "$fresh" "$venv" 2>/dev/null || rm -rf "$fresh"
    "$venv/bin/python" -c 'import pytest, redis'
}

# Programs that print cmocka's lines, counted by the runner of the unit tests.
run_programs()
{
    local output line p f s
    output=$(mktemp)
    KVASIR_SUITE_NAME=programs KVASIR_UNIT_LIMIT_S=180 utils/run_unit.sh "$@" >"$output" 2>&1
    grep -v '^programs: ' "$output"
    line=$(grep '^programs: ' "$output")
    rm -f "$output"
    read -r p f s < <(sed -E 's/^[^:]*: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) .*/\1 \2 \3/' <<<"$line")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

if [ ! -x "$build/kvasir-server" ]; then
    echo "integration: SKIPPED, $build/kvasir-server is not there"
    skipped=1
    finish
fi
if "$venv/bin/python" -c 'import pytest, redis' 2>/dev/null || make_venv; then
    run_counted "$venv/bin/python" "$limit_s" -rfEs --tb=short --durations=10 \
        tests/integration "$@"
else
    echo "integration: SKIPPED the Python tests, no environment with pytest and redis"
    skipped=$((skipped + 1))
fi
if [ $# -eq 0 ] && [ "${KVASIR_SANITIZE:-}" != thread ]; then
    run_programs tests/integration/test_20_client.sh
fi
finish
