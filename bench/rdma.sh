#!/bin/bash
# Measures transfers over RDMA in an emulated machine (soft-RoCE), where speed means nothing but as a
# ratio: to perftest's ib_read_bw and ib_write_bw of the same message size over the same two devices, in
# turn with them, driven by the server and by the client. Besides, what each value cost the server: round
# trips, work requests, completions, windows, bytes that a CPU copied, and CPU time for each GB.
#
#   bench/rdma.sh [--quick] [--turns N] [--kernel 6.1|6.12]
#     --quick   one turn with one size; every byte is verified, no ratio is judged
#     --turns   turns of every measurement (5); the median ratio is judged
#   KVASIR_BUILD  build directory (as make bench-rdma gives it)
# Exit status: 0, also where a target is missed, which the table says, and where there is no machine to
# measure in, which it says instead.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
build=${KVASIR_BUILD:-build/gcc-release}
sizes=65536,1048576,4194304,16777216 turns=5 bytes=$((128 << 20)) limit_s=3000 kernel=6.12 judge=yes

while [ $# -gt 0 ]; do
    case $1 in
    --quick) sizes=1048576 turns=1 bytes=$((8 << 20)) limit_s=240 judge=no ;;
    --turns) turns=${2:?--turns takes a number} && shift ;;
    --kernel) kernel=${2:?--kernel takes 6.1 or 6.12} && shift ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "bench/rdma.sh: error: unknown option $1; see --help" >&2 && exit 1 ;;
    esac
    shift
done

lines=$build/bench/rdma.jsonl
mkdir -p "$build/bench"
for file in kvasir-server libkvasir.so.0 modules/rdma.so; do
    if [ ! -e "$build/$file" ]; then
        echo "bench/rdma.sh: SKIPPED, there is no $build/$file"
        exit 0
    fi
done
for program in ib_read_bw ib_write_bw; do
    if ! command -v "$program" >/dev/null; then
        echo "bench/rdma.sh: SKIPPED, $program is not there (deps/install.sh brings it)"
        exit 0
    fi
done
utils/rdma_vm.sh --kernel "$kernel" --python --timeout "$limit_s" --memory 2048 \
    --file "$(command -v ib_read_bw):/usr/bin/ib_read_bw" \
    --file "$(command -v ib_write_bw):/usr/bin/ib_write_bw" \
    --file "$build/modules/rdma.so:/modules/rdma.so" --file "$build/kvasir-server:/kvasir-server" \
    --file "$build/libkvasir.so.0:/python/libkvasir.so.0" --file python/kvasir \
    --file bench/rdma_machine.py:/bench/rdma_machine.py \
    --env KVASIR_SERVER=/kvasir-server --env KVASIR_RDMA_MODULE=/modules/rdma.so \
    --env PYTHONPATH=/python --env KVASIR_LIBRARY=/python/libkvasir.so.0 -- \
    python3 /bench/rdma_machine.py "$sizes" "$turns" "$bytes" >"$lines" || {
    rc=$?
    [ $rc -ne 77 ] || { echo "bench/rdma.sh: SKIPPED, no machine can be had" && exit 0; }
    cat "$lines" >&2
    exit $rc
}
python3 bench/rdma_report.py "$lines" --judge "$judge"
