#!/bin/bash
# Runs what stock clients bring to test themselves, and our tests with clients that the integration
# tests do not have: redis-py's and hiredis' own tests, then tests/clients with valkey-py, valkey-glide
# and LMCache. What cannot be had is skipped by name.
# Usage: [KVASIR_BUILD=dir] run_clients.sh [PYTEST ARGUMENT...]   with arguments: only tests/clients
# Ends with "clients: N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/gcc-release}")
export KVASIR_BUILD="$build"
export PYTHONDONTWRITEBYTECODE=1
limit_s=300
passed=0 failed=0 skipped=0

finish()
{
    echo "clients: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

# The names of the tests in the given files, as they stand there.
skip_by_name()
{
    local why=$1 name
    shift
    while read -r name; do
        echo "SKIPPED $name: $why"
        skipped=$((skipped + 1))
    done < <(grep -ohE '^(async )?def test_[a-z0-9_]+' "$@" | sed 's/.*def //')
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

# run_pytest PYTHON FILE... -- ARGUMENT...
run_pytest()
{
    local python=$1 report counts rc p f s
    local -a files=()
    shift
    while [ "$1" != -- ]; do
        files+=("$1")
        shift
    done
    shift
    report=$(mktemp)
    timeout --kill-after=10 "$limit_s" "$python" -m pytest -p no:cacheprovider -q -rfEs --tb=short \
        --durations=5 --junitxml="$report" "${files[@]}" "$@"
    rc=$?
    counts=$("$python" - "$report" <<'PY'
import sys
import xml.etree.ElementTree as tree

try:
    suites = list(tree.parse(sys.argv[1]).getroot().iter("testsuite"))
except (OSError, tree.ParseError):
    sys.exit("pytest left no report")
total, failed, skipped = (
    sum(int(suite.get(name, 0)) for suite in suites for name in names)
    for names in (("tests",), ("failures", "errors"), ("skipped",))
)
print(total - failed - skipped, failed, skipped)
PY
    ) || counts="0 1 0"
    rm -f "$report"
    read -r p f s <<<"$counts"
    # A run that was stopped has failed, whatever it reported before; 5: no test was chosen.
    [ "$rc" -ne 0 ] && [ "$rc" -ne 5 ] && [ "$f" -eq 0 ] && f=1
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
    run_pytest "$(utils/venv_clients.sh --print)/bin/python" tests/clients/test_valkey*.py -- "$@"
else
    skip_by_name "the clients cannot be installed here" tests/clients/test_valkey*.py
fi
finish
