#!/bin/bash
# Builds with sanitizers and runs tests under them: unit tests, fuzz corpora and the integration
# tests that fit under ASan+UBSan; what runs on more than one thread under TSan.
# Usage: [CC=gcc] run_sanitize.sh BUILD-PREFIX
# The integration runner sees KVASIR_SANITIZE=address or thread and chooses by it.
set -u
cd "$(dirname "$0")/.." || exit 2
prefix=$1
export CC=${CC:-gcc}
rc=0

suites=(test-unit test-fuzz)
[ -x tests/run_integration.sh ] && suites+=(test-integration)

echo "== ASan and UBSan"
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
for suite in "${suites[@]}"; do
    KVASIR_SANITIZE=address make --no-print-directory CC="$CC" SANITIZE=address,undefined \
        BUILD="$prefix-asan" "$suite" || rc=1
done

# A unit test that starts threads is one for TSan.
threaded=$(grep -lE 'pthread_create|thrd_create' tests/unit/test_*.c 2>/dev/null |
    sed -E 's|.*/test_(.*)\.c|\1|' | tr '\n' ' ')
# This generation of TSan cannot live with the address randomisation of newer kernels.
fixed_addresses=()
setarch "$(uname -m)" -R true 2>/dev/null && fixed_addresses=(setarch "$(uname -m)" -R)

echo "== TSan"
export TSAN_OPTIONS=halt_on_error=0:second_deadlock_stack=1
KVASIR_SANITIZE=thread "${fixed_addresses[@]}" make --no-print-directory CC="$CC" \
    SANITIZE=thread BUILD="$prefix-tsan" TESTS="$threaded" test-unit || rc=1
if [ -x tests/run_integration.sh ]; then
    KVASIR_SANITIZE=thread "${fixed_addresses[@]}" make --no-print-directory CC="$CC" \
        SANITIZE=thread BUILD="$prefix-tsan" test-integration || rc=1
fi
exit $rc
