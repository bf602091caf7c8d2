#!/bin/bash
# Runs test suites one after another and adds up what their runners count.
# Usage: run_tests.sh BUILD SUITE...   suites: unit fuzz install integration python connector
#        compat clients rdma cuda vllm lmcache
# A suite's runner ends with a line "<suite>: N passed, N failed, N skipped" and exits non-zero
# when something failed. A suite whose runner is not there is reported as skipped, by name.
set -u
build=$(realpath -m "$1")
shift
cd "$(dirname "$0")/.." || exit 2
export KVASIR_BUILD="$build"
totals="$build/totals"
mkdir -p "$totals"
rc=0
passed=0 failed=0 skipped=0

runner_of()
{
    case "$1" in
    unit) echo utils/run_unit.sh ;;
    fuzz) echo utils/run_fuzz.sh ;;
    install) echo utils/run_install.sh ;;
    integration) echo tests/run_integration.sh ;;
    python) echo python/run_tests.sh ;;
    compat) echo tests/compat/redis_suite.py ;;
    clients) echo tests/run_clients.sh ;;
    connector) echo tests/run_vllm.sh --units ;;
    rdma) echo tests/rdma/run.sh ;;
    cuda) echo tests/cuda/run.sh ;;
    vllm) echo tests/run_vllm.sh ;;
    lmcache) echo tests/run_lmcache.sh ;;
    *) echo "" ;;
    esac
}

for suite in "$@"; do
    read -ra runner < <(runner_of "$suite")
    if [ "${#runner[@]}" -eq 0 ]; then
        echo "run_tests.sh: unknown suite $suite" >&2
        exit 2
    fi
    if [ ! -x "${runner[0]}" ]; then
        echo "$suite: SKIPPED, ${runner[0]} is not there"
        skipped=$((skipped + 1))
        continue
    fi
    log="$totals/$suite.log"
    : >"$log"
    # Followed and not piped: a process that a test left behind must not hold up the run.
    "${runner[@]}" </dev/null >>"$log" 2>&1 &
    pid=$!
    tail -n +1 -s 0.2 -f --pid="$pid" "$log"
    wait "$pid"
    suite_rc=$?
    line=$(grep -aE "^$suite: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$" "$log" | tail -n 1)
    if [ -z "$line" ]; then
        echo "$suite: FAILED, the runner said no totals (exit status $suite_rc)"
        failed=$((failed + 1))
        rc=1
        continue
    fi
    read -r p f s < <(sed -E 's/^[^:]*: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/' <<<"$line")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$suite_rc" -ne 0 ] || [ "$f" -ne 0 ]; then
        echo "$suite: FAILED (exit status $suite_rc)"
        rc=1
    fi
done
echo "total: $passed passed, $failed failed, $skipped skipped"
exit $rc
