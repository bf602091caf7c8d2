#!/bin/bash
# Runs the tests of the vLLM connector: units always when there is a pytest, those with a real
# engine when its environment is there (make venv-vllm); what cannot run is skipped by name.
# Usage: run_vllm.sh [--units] [PYTEST ARGUMENT...]   needs $KVASIR_BUILD with server and library
# --units: only those that need no engine. Ends with "vllm: N passed, N failed, N skipped", with
# --units "connector: …".
set -u
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:?run_vllm.sh: name the build directory in KVASIR_BUILD}")
cache="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir"
limit_s=1500
suite=vllm
if [ "${1-}" = --units ]; then
    suite=connector
    shift
fi

passed=0 failed=0 skipped=0
. tests/runner.sh
files=()
all=(tests/vllm/test_*.py)
[ "$suite" = vllm ] || all=(tests/vllm/test_unit_*.py)
if [ ! -f "$build/libkvasir.so.0" ] || [ ! -x "$build/kvasir-server" ]; then
    skip_by_name "$build has no server and library" "${all[@]}"
elif grep -qs -- '-fsanitize=' "$build/flags"; then
    skip_by_name "an instrumented library cannot be loaded by a plain python3" "${all[@]}"
elif utils/venv_vllm.sh --check; then
    python=$(utils/venv_vllm.sh --print)/bin/python
    files=("${all[@]}")
else
    [ "$suite" = connector ] ||
        skip_by_name "the engine is not installed, see make venv-vllm" tests/vllm/test_engine*.py
    for python in "$cache/venv-test/bin/python" python3; do
        "$python" -c 'import pytest' 2>/dev/null && files=(tests/vllm/test_unit_*.py) && break
    done
    [ "${#files[@]}" -gt 0 ] || skip_by_name "there is no pytest" tests/vllm/test_unit_*.py
fi
if [ "${#files[@]}" -eq 0 ]; then
    echo "$suite: 0 passed, 0 failed, $skipped skipped"
    exit 0
fi

export KVASIR_BUILD="$build"
export KVASIR_LIBRARY="$build/libkvasir.so.0"
export KVASIR_SERVER="$build/kvasir-server"
export PYTHONPATH="$PWD/python"
export VLLM_NO_USAGE_STATS=1
run_counted "$python" "$limit_s" -rs --durations=5 "${files[@]}" "$@"
rc=$?
echo "$suite: $passed passed, $failed failed, $skipped skipped"
exit $rc
