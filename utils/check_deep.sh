#!/bin/bash
# The slow static analysers: clang-tidy (.clang-tidy) and cppcheck, over server, library, modules
# and benchmarks. A missing one is skipped, by name. Usage: check_deep.sh COMPILER-FLAG...
set -u
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0 skipped=0
mapfile -t sources < <(find src modules bench -name '*.c' | sort)

report()
{
    local name=$1 rc=$2
    if [ "$rc" -eq 0 ]; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
}

if command -v clang-tidy >/dev/null; then
    printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -I{} \
        clang-tidy --quiet {} -- "$@" 2> >(grep -v 'warnings generated' >&2)
    report clang-tidy $?
else
    echo "SKIPPED clang-tidy: not installed"
    skipped=$((skipped + 1))
fi

if command -v cppcheck >/dev/null; then
    cppcheck -j "$(nproc)" --std=c11 --enable=warning,style,performance,portability \
        --inline-suppr --error-exitcode=2 --suppress=missingIncludeSystem \
        --suppress=unusedStructMember --suppress=unmatchedSuppression -q \
        -Isrc -Isrc/include -D__GNUC__ -D__x86_64__ "${sources[@]}"
    report cppcheck $?
else
    echo "SKIPPED cppcheck: not installed"
    skipped=$((skipped + 1))
fi
echo "check-deep: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
