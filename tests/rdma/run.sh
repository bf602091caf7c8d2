#!/bin/bash
# Runs what needs an RDMA device in an emulated machine with soft-RoCE, once for each kernel.
# Usage: [KVASIR_BUILD=dir] [KERNELS="6.1 6.12"] [TESTS="verbs"] run.sh
# Every tests/rdma/test_* runs in one start of the machine. Ends with "rdma: N passed, N failed,
# N skipped"; where the machine or libibverbs cannot be had, each program is skipped, by name.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/gcc-release}")
limit_s=${KVASIR_RDMA_LIMIT_S:-600}
module=$build/modules/rdma.so
library=$build/libkvasir.so.0
passed=0 failed=0 skipped=0

# Programs in C lie in the build folder, those in Python here.
programs=()
for source in tests/rdma/test_*.c tests/rdma/test_*.py; do
    name=$(basename "$source" .c)
    plain=${name%.py}
    [[ " ${TESTS:-${plain#test_}} " == *" ${plain#test_} "* ]] && programs+=("$name")
done

# Prints what of a program's needs is not there, nothing when all is.
lacks()
{
    local needs=("$build/tests/rdma/$1") need
    case $1 in
    test_verbs) ;;
    test_transport | test_windows) needs+=("$module") ;;
    test_server | test_library | test_loans | test_kills) needs+=("$module" "$build/kvasir-server" "$library") ;;
    *.py) needs=("$module" "$build/kvasir-server" "$library") ;;
    esac
    for need in "${needs[@]}"; do
        [ -e "$need" ] || echo "there is no $need"
    done | head -n 1
    if [[ $1 == *.py ]] && grep -qsa -e __asan_init -e __tsan_init "$library"; then
        echo "Python cannot load an instrumented library"
    fi
}

skip_all()
{
    local name
    for name in "${programs[@]}"; do
        echo "SKIPPED $name on Linux $1: $2"
        skipped=$((skipped + 1))
    done
}

# The runner of the unit tests counts inside of the machine, too; it needs more than busybox has.
run_in_machine()
{
    local kernel=$1 name arguments=() targets=()
    shift
    for name in bash grep sed timeout; do
        arguments+=(--file "$(command -v "$name"):/usr/bin/$name")
    done
    for name in "$@"; do
        case $name in
        *.py) arguments+=(--python --file "tests/rdma/$name:/tests/$name") ;;
        *) arguments+=(--file "$build/tests/rdma/$name:/tests/$name") ;;
        esac
        targets+=("/tests/$name")
    done
    [ ! -e "$module" ] || arguments+=(--file "$module:/modules/rdma.so")
    [ ! -x "$build/kvasir-server" ] || arguments+=(--file "$build/kvasir-server:/kvasir-server")
    [ ! -e "$library" ] || arguments+=(--file "$library:/python/libkvasir.so.0"
        --file python/kvasir)
    utils/rdma_vm.sh --kernel "$kernel" --timeout "$limit_s" "${arguments[@]}" \
        --file utils/run_unit.sh --env KVASIR_SUITE_NAME=rdma --env KVASIR_UNIT_LIMIT_S="$((limit_s / 2))" \
        --env KVASIR_RDMA_MODULE=/modules/rdma.so --env KVASIR_SERVER=/kvasir-server \
        --env PYTHONPATH=/python --env KVASIR_LIBRARY=/python/libkvasir.so.0 -- \
        bash /utils/run_unit.sh "${targets[@]}"
}

run_kernel()
{
    local kernel=$1 log rc name reason line p f s able=()
    log=$(mktemp)
    utils/rdma_vm.sh --kernel "$kernel" --prepare 2>"$log"
    rc=$?
    if [ "$rc" -eq 77 ]; then
        skip_all "$kernel" "$(tail -n 1 "$log")"
        rm -f "$log"
        return
    fi
    echo "--- Linux $kernel"
    for name in "${programs[@]}"; do
        reason=$(lacks "$name")
        if [ -z "$reason" ]; then
            able+=("$name")
        else
            echo "SKIPPED $name on Linux $kernel: $reason"
            skipped=$((skipped + 1))
        fi
    done
    [ ${#able[@]} -gt 0 ] || return
    run_in_machine "$kernel" "${able[@]}" >"$log" 2>&1
    rc=$?
    grep -av '^rdma: ' "$log"
    line=$(grep -aE '^rdma: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$log")
    rm -f "$log"
    if [ -n "$line" ]; then
        read -r p f s < <(sed -E 's/^[^:]*: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) .*/\1 \2 \3/' <<<"$line")
        passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    fi
    if [ "$rc" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
        echo "FAILED the machine with Linux $kernel (exit status $rc)"
        failed=$((failed + 1))
    fi
}

for kernel in ${KERNELS:-6.1 6.12}; do run_kernel "$kernel"; done
echo "rdma: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
