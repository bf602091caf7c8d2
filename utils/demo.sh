#!/bin/bash
# Shows the main job: an inference engine stores its KV blocks in Kvasir, a second engine process
# finds and loads them, answers faster and says the same. Asks nothing; stops all it started.
# Usage: demo.sh          environment:
#   KVASIR_DEMO=trace     replay a request trace instead of running an engine
#   KVASIR_BUILD=DIR      where the build is, or is to be made (default build/demo)
#   KVASIR_DEMO_KEEP=1    keep the temporary directory with its logs
# shellcheck disable=SC2317  # cleanup and what it calls are reached by the trap
set -u
cd "$(dirname "$0")/.." || exit 2
build=$(realpath -m "${KVASIR_BUILD:-build/demo}")
work=$(mktemp -d "${TMPDIR:-/tmp}/kvasir-demo.XXXXXX")
socket="$work/kvasir.sock"
server_pid=""
child_pid=""

say() { echo "demo: $*"; }

# Ends one process that this script started, by its id: politely, then not.
end()
{
    local pid=$1 i
    [ -n "$pid" ] || return 0
    kill -TERM "$pid" 2>/dev/null || return 0
    for i in $(seq 50); do
        kill -0 "$pid" 2>/dev/null || break
        [ "$i" -lt 50 ] || kill -KILL "$pid" 2>/dev/null
        sleep 0.1
    done
    wait "$pid" 2>/dev/null
}

cleanup()
{
    trap '' INT TERM
    end "$child_pid"
    end "$server_pid"
    if [ -n "${KVASIR_DEMO_KEEP:-}" ]; then
        say "logs are in $work"
    else
        rm -rf "$work"
    fi
}
trap cleanup EXIT
trap 'say "interrupted"; exit 130' INT
trap 'exit 143' TERM

die()
{
    say "error: $*"
    exit 1
}

# Runs a command so that a signal ends both at once.
run()
{
    "$@" &
    child_pid=$!
    wait "$child_pid"
    local rc=$?
    child_pid=""
    return $rc
}

build_all()
{
    say "1. system packages that building and running need"
    run deps/install.sh --run || say "they could not be installed; going on with what is there"
    say "2. building into $build"
    run "${MAKE:-make}" -s -j "$(nproc)" BUILD="$build" all >"$work/build.log" 2>&1 ||
        { tail -n 20 "$work/build.log"; die "the build failed"; }
    [ -x "$build/kvasir-server" ] || die "the build made no $build/kvasir-server"
}

start_server()
{
    say "3. starting kvasir-server on a Unix socket, 1 GB of memory"
    "$build/kvasir-server" --port 0 --unixsocket "$socket" --maxmemory 1gb \
        >"$work/server.log" 2>&1 &
    server_pid=$!
    for _ in $(seq 300); do
        kill -0 "$server_pid" 2>/dev/null || break
        answers && return
        sleep 0.1
    done
    tail -n 20 "$work/server.log"
    die "the server does not answer"
}

answers()
{
    python3 - "$socket" 2>/dev/null <<'PY'
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(1)
    s.connect(sys.argv[1])
    s.sendall(b"PING\r\n")
    sys.exit(not s.recv(16).startswith(b"+PONG"))
PY
}

engine_pass()
{
    run "$python" utils/demo_vllm.py pass "$1" --model "$model" --address "unix://$socket" \
        --out "$work/$1.json" --log "$work/$1.log" && return
    grep -aE 'Error|error|Traceback' "$work/$1.log" | tail -n 10
    tail -n 10 "$work/$1.log"
    die "the $1 engine failed"
}

demo_engine()
{
    python=$(utils/venv_vllm.sh --print)/bin/python
    model="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/demo-model"
    export PYTHONPATH="$PWD/python" KVASIR_LIBRARY="$build/libkvasir.so.0"
    say "4. making a model with random weights (12 layers, no download)"
    run "$python" utils/make_tiny_model.py "$model" --layers 12 --hidden 768 --heads 12 \
        --kv-heads 6 --head-dim 64 --inner 2048 --max-length 4096 ||
        die "the model could not be made"
    say "5. cold: an engine computes a long text and stores its blocks (a minute or two)"
    engine_pass cold
    say "6. warm: a second engine process, same text, blocks from Kvasir"
    engine_pass warm
    echo
    "$python" utils/demo_vllm.py table "$work/cold.json" "$work/warm.json"
}

demo_trace()
{
    say "4. replaying 500 requests of a chat service's trace, blocks of 256 KiB"
    run "$build/bench/trace" --address "unix://$socket" --block-bytes 256k --pin 1000 \
        bench/data/conversation_500.jsonl
}

build_all
start_server
if [ "${KVASIR_DEMO:-}" = trace ]; then
    say "KVASIR_DEMO=trace: no engine"
    demo_trace
elif run utils/venv_vllm.sh; then
    demo_engine
else
    say "there is no engine here, so a recorded request trace stands in for it"
    demo_trace
fi
rc=$?
if [ "$rc" -eq 0 ]; then
    say "done"
else
    say "FAILED"
fi
exit "$rc"
