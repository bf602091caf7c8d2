#!/bin/bash
# Runs unit programs (cmocka), each with a time limit, and sums the single tests they report.
# Usage: [TESTS="spsc heap"] [KVASIR_BUILD=dir] run_unit.sh [PROGRAM...]
# Without arguments it runs every test of tests/unit (or those in TESTS) from KVASIR_BUILD.
# A program that exits 77 is skipped as a whole and named. Ends with "unit: N passed, ...".
set -u
cd "$(dirname "$0")/.." || exit 2
build=${KVASIR_BUILD:-build/gcc-release}
limit_s=${KVASIR_UNIT_LIMIT_S:-120}
suite=${KVASIR_SUITE_NAME:-unit}
passed=0 failed=0 skipped=0

programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
    if [ -n "${TESTS:-}" ]; then
        for name in $TESTS; do programs+=("$build/tests/unit/test_$name"); done
    else
        for source in tests/unit/test_*.c; do
            [ -e "$source" ] && programs+=("$build/${source%.c}")
        done
    fi
fi

output=$(mktemp)
trap 'rm -f "$output"' EXIT
for program in "${programs[@]}"; do
    name=$(basename "$program")
    CMOCKA_MESSAGE_OUTPUT=stdout timeout --kill-after=5 "$limit_s" "$program" >"$output" 2>&1 </dev/null
    rc=$?
    p=$(grep -ac '^\[       OK \]' "$output")
    f=$(sed -nE 's/^\[  FAILED  \] ([0-9]+) test\(s\), listed.*/\1/p' "$output" | head -n 1)
    s=$(sed -nE 's/^\[  SKIPPED \] ([0-9]+) test\(s\), listed.*/\1/p' "$output" | head -n 1)
    f=${f:-0} s=${s:-0}
    if [ "$rc" -eq 77 ]; then
        echo "SKIPPED $name: $(tail -n 1 "$output")"
        skipped=$((skipped + 1))
        continue
    fi
    passed=$((passed + p)) skipped=$((skipped + s))
    [ "$s" -gt 0 ] && grep -a '^\[  SKIPPED \] [a-z]' "$output" | sort -u
    if [ "$rc" -ne 0 ]; then
        [ "$f" -gt 0 ] || f=1
        case "$rc" in
        124 | 137) why="stopped after $limit_s s" ;;
        *) why="exit status $rc" ;;
        esac
        echo "FAILED $name ($why)"
        tail -n 200 "$output" | sed 's/^/    /'
        failed=$((failed + f))
    elif [ "$p" -eq 0 ] && [ "$s" -eq 0 ]; then
        echo "FAILED $name (reported no test)"
        failed=$((failed + 1))
    else
        echo "ok $name ($p)"
    fi
done
echo "$suite: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
