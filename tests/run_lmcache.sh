#!/bin/bash
# Runs LMCache's remote back ends against the server, when its environment is there (make venv-lmcache);
# else each test is skipped by name.
# Usage: [KVASIR_BUILD=dir] run_lmcache.sh [PYTEST ARGUMENT...]
# Ends with "lmcache: N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/gcc-release}")
export KVASIR_BUILD="$build"
export PYTHONDONTWRITEBYTECODE=1
limit_s=400
passed=0 failed=0 skipped=0
. tests/runner.sh

if [ ! -x "$build/kvasir-server" ]; then
    skip_by_name "$build has no server" tests/lmcache/test_*.py
elif ! utils/venv_lmcache.sh --check; then
    skip_by_name "LMCache is not installed, see make venv-lmcache" tests/lmcache/test_*.py
else
    run_counted "$(utils/venv_lmcache.sh --print)/bin/python" "$limit_s" -rfEs --tb=short \
        --disable-warnings --durations=5 tests/lmcache "$@"
fi
echo "lmcache: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
