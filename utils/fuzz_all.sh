#!/bin/bash
# Fuzzes every target for a while, as many at a time as there are cores, and says what each did.
# Usage: fuzz_all.sh BUILD SECONDS TARGET...   TARGET is what stands behind fuzz_ in tests/fuzz
# An input that fails is left in BUILD/fuzz and printed as base64; the exit status is then 1.
set -u
build=$1 seconds=$2
shift 2
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
jobs=$(nproc)

fuzz_one()
{
    local target=$1
    local own="$build/fuzz/corpus/$target" known="tests/fuzz/corpus/$target"
    mkdir -p "$own"
    # What goes on for 30 s is a hang, and no more time than was asked for and a minute is given.
    timeout --kill-after=10 $((seconds + 60)) "$build/fuzz/fuzz_$target" \
        -max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 \
        -artifact_prefix="$build/fuzz/$target-" "$own" "$known" >"$logs/$target.log" 2>&1
    echo $? >"$logs/$target.rc"
}

for target in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
    done
    fuzz_one "$target" &
done
wait

passed=0 failed=0
for target in "$@"; do
    if [ "$(cat "$logs/$target.rc")" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok fuzz_$target: $(grep -a '^Done' "$logs/$target.log" | tail -n 1)"
    else
        failed=$((failed + 1))
        echo "FAILED fuzz_$target"
        tail -n 40 "$logs/$target.log"
    fi
done
echo "fuzz: $passed passed, $failed failed, 0 skipped"
echo "total: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
