#!/bin/bash
# libkvasir and its examples against a real server, over TCP, Unix socket and shared memory, and with
# the server stopped and killed. The programs see the public headers and the library only.
# Usage: [KVASIR_BUILD=dir] test_20_client.sh; prints cmocka's lines, exits 77 without a server.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${KVASIR_BUILD:-build/gcc-release}
server="$build/kvasir-server"
if [ ! -x "$server" ] || [ ! -e "$build/libkvasir.so" ]; then
    echo "no server or library in $build"
    exit 77
fi
scratch=$(mktemp -d) || exit 2
server_pid=
# shellcheck disable=SC2317 # called by the trap
finish()
{
    [ -n "$server_pid" ] && kill "$server_pid" && wait "$server_pid"
    rm -rf "$scratch"
}
trap finish EXIT

# An instrumented library needs its runtime in the program.
sanitize=()
if grep -aq __asan_init "$build/libkvasir.so"; then
    sanitize=(-fsanitize=address -fsanitize=undefined)
elif grep -aq __tsan_init "$build/libkvasir.so"; then
    sanitize=(-fsanitize=thread)
fi
"${CC:-gcc}" "${sanitize[@]}" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -g -O1 -Isrc/include \
    tests/integration/client_live.c -L"$build" -Wl,-rpath,"$(realpath "$build")" -lkvasir -lcmocka \
    -o "$scratch/client_live" || exit 1
CMOCKA_MESSAGE_OUTPUT=stdout timeout --kill-after=5 120 "$scratch/client_live" \
    "$(realpath "$server")" "$scratch"
rc=$?

# The examples, by the Unix socket alone.
"$server" --port 0 --unixsocket "$scratch/k.sock" --maxmemory 256mb --reactors 2 --populate no \
    >"$scratch/examples.log" 2>&1 &
server_pid=$!
for _ in $(seq 100); do
    [ -S "$scratch/k.sock" ] && break
    read -r -t 0.1 <> <(:)
done
for example in hello batch view submit events; do
    name="test_client_example_$example"
    if timeout 20 "$build/tests/examples/$example" "unix://$scratch/k.sock"; then
        echo "[       OK ] $name"
    else
        echo "[  FAILED  ] $name"
        rc=1
    fi
done
exit "$rc"
