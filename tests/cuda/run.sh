#!/bin/bash
# Runs what needs a CUDA device against a real server, with the programs that nvcc built. Without the
# toolkit or without a device it is skipped, by name. Usage: [KVASIR_BUILD=dir] run.sh
# Ends with "cuda: N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/gcc-release}")
program=$build/tests/cuda/test_device
wait_s=60

if [ ! -x "$program" ]; then
    count=0
    while read -r name; do
        echo "SKIPPED $name: there is no nvcc here, which builds it (deps/README.md)"
        count=$((count + 1))
    done < <(grep -ohE '^static void test_[a-z0-9_]+' tests/cuda/test_*.c | sed 's/.* //')
    echo "cuda: 0 passed, 0 failed, $count skipped"
    exit 0
fi

work=$(mktemp -d)
server=
finish()
{
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    fi
    rm -rf "$work"
}
trap finish EXIT

# Which port is free only the server finds out: it is tried on one after the other.
first=${KVASIR_TEST_PORT:-22700}
for ((port = first; port < first + 40 && wait_s > 0; port += 4)); do
    "$build/kvasir-server" --port "$port" --unixsocket "$work/k.sock" --reactors 1 \
        --maxmemory 512mb >"$work/server.log" 2>&1 &
    server=$!
    while [ ! -S "$work/k.sock" ] && kill -0 "$server" 2>/dev/null && [ "$wait_s" -gt 0 ]; do
        sleep 1
        wait_s=$((wait_s - 1))
    done
    [ -S "$work/k.sock" ] && break
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    server=
done
if [ -z "$server" ]; then
    cat "$work/server.log"
    echo "cuda: 0 passed, 1 failed, 0 skipped"
    exit 1
fi
export KVASIR_TEST_UNIX=unix://$work/k.sock KVASIR_TEST_TCP=tcp://127.0.0.1:$port
KVASIR_SUITE_NAME=cuda KVASIR_UNIT_LIMIT_S=240 utils/run_unit.sh "$program"
