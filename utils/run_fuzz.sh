#!/bin/bash
# Replays the corpus of every fuzz target with the plain driver; each target is one test.
# Usage: [KVASIR_BUILD=dir] run_fuzz.sh. Ends with "fuzz: N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
build=${KVASIR_BUILD:-build/gcc-release}
limit_s=${KVASIR_FUZZ_LIMIT_S:-120}
passed=0 failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for source in tests/fuzz/fuzz_*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    corpus=tests/fuzz/corpus/${name#fuzz_}
    if [ -z "$(ls "$corpus" 2>/dev/null)" ]; then
        echo "FAILED $name (its corpus $corpus is empty)"
        failed=$((failed + 1))
        continue
    fi
    timeout --kill-after=5 "$limit_s" "$build/tests/fuzz/$name" "$corpus" >"$output" 2>&1 </dev/null
    rc=$?
    if [ "$rc" -eq 0 ]; then
        echo "ok $name ($(tail -n 1 "$output"))"
        passed=$((passed + 1))
    else
        echo "FAILED $name (exit status $rc; the last input named is the one)"
        tail -n 60 "$output" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
done
echo "fuzz: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
