#!/bin/bash
# Runs what stock clients bring to test themselves, and our tests with clients that the integration
# tests do not have: redis-py's and hiredis' own tests, then tests/clients with valkey-py and valkey-glide.
# What cannot be had is skipped by name.
# Usage: [KVASIR_BUILD=dir] run_clients.sh [PYTEST ARGUMENT...]   with arguments: only tests/clients
# Ends with "clients: N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/gcc-release}")
export KVASIR_BUILD="$build"
export PYTHONDONTWRITEBYTECODE=1
limit_s=300
# A choice by arguments may leave none (pytest's 5).
fine_rc=5
passed=0 failed=0 skipped=0
. tests/runner.sh

finish()
{
    echo "clients: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

# A suite of tests/compat, which ends with a line "NAME: N passed, N failed, N skipped".
run_suite()
{
    local name=$1 program=$2 log line p f s
    log=$(mktemp)
    "$program" 2>&1 | tee "$log"
    local rc=${PIPESTATUS[0]}
    line=$(grep -E "^$name: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$" "$log" | tail -n 1)
    rm -f "$log"
    read -r p f s < <(sed -E 's/^[^:]*: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/' <<<"${line:-x: 0 passed, 1 failed, 0 skipped}")
    [ "$rc" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

if [ ! -x "$build/kvasir-server" ]; then
    echo "clients: SKIPPED, $build/kvasir-server is not there"
    skipped=1
    finish
fi
if [ $# -eq 0 ]; then
    run_suite hiredis tests/compat/hiredis_suite.py
    run_suite redis-py tests/compat/redis_py_suite.py
fi
if utils/venv_clients.sh; then
    run_counted "$(utils/venv_clients.sh --print)/bin/python" "$limit_s" -rfEs --tb=short \
        --durations=5 tests/clients/test_valkey*.py "$@"
else
    skip_by_name "the clients cannot be installed here" tests/clients/test_valkey*.py
fi
finish
