#!/bin/bash
# How much of a store's memory holds values when their sizes are mixed and change, beside the peers:
# starts one server after the other on loopback, ends each by process id, and prints one table.
#
#   bench/fragment.sh [--quick] [--memory SIZE] [--turnover N] [--only PEER]
#     --quick     a slice for CI: values up to 8 MiB, few of them, without the peers, and one reactor, so that
#                 nothing depends on when threads run
#     --memory    what each server may take (1g)
#     --turnover  each phase writes so many times the memory (4)
#     --only      kvasir, store, own (both), redis, memcached or mooncake
#   KVASIR_BUILD  build directory (as make bench gives it)
#   BENCH_PORT    first of the TCP ports to use, of four (21440)
#
# The store by itself takes a million puts (fragment_store.c). Absent peers are named and skipped. Values
# are up to 64 MiB; memcached is told to allow them (-I), Redis takes them as they are.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${KVASIR_BUILD:-}
[ -n "$build" ] || build=$(find "$here/../build" -maxdepth 1 -name '*-release' 2>/dev/null | head -n 1)
port=${BENCH_PORT:-21440}
venv=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-bench
memory=1g turnover=4 only=all puts=1000000 value_max=64m reactors="1 2"

die()
{
    echo "fragment: error: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --quick) memory=256m turnover=1 puts=100000 value_max=8m only=own reactors="1" ;;
    --memory) memory=${2:?--memory takes a size} && shift ;;
    --turnover) turnover=${2:?--turnover takes a number} && shift ;;
    --only) only=${2:?--only takes a peer} && shift ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
[ -x "$build/bench/fragment" ] || die "no bench/fragment in '$build'; run make first"
bytes=$(numfmt --from=iec "${memory^^}")

work=$(mktemp -d /tmp/kvasir-fragment.XXXXXX)
lines=$build/bench/fragment.jsonl
: >"$lines"
pid='' owner_pid='' failures=0

end_server()
{
    local each
    for each in $owner_pid $pid; do
        kill "$each" 2>/dev/null || true
        timeout 15 tail --pid="$each" -f /dev/null 2>/dev/null || kill -KILL "$each" 2>/dev/null || true
    done
    pid='' owner_pid=''
}
trap 'end_server; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

wanted()
{
    case $only in
    all) true ;;
    own) [ "$1" = store ] || [ "$1" = kvasir ] ;;
    *) [ "$only" = "$1" ] ;;
    esac
}

skip() { echo "fragment: skipped: $1: $2" >&2; }

# await SECONDS COMMAND...: until the command succeeds or the server is gone.
await()
{
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ] || ! kill -0 "$pid" 2>/dev/null; then
            tail -n 5 "$work/log" >&2
            return 1
        fi
        sleep 0.1
    done
}

start()
{
    "$@" >"$work/log" 2>&1 &
    pid=$!
}

ping_port() { [ "$(timeout 2 redis-cli -p "$port" ping)" = PONG ]; }
memcached_answers() { exec 3<>"/dev/tcp/127.0.0.1/$port"; }

# measure NAME COMMAND...: its JSON lines join the results.
measure()
{
    local name=$1
    shift
    echo "fragment: $name" >&2
    timeout 3000 "$@" >>"$lines" || {
        failures=$((failures + 1))
        echo "fragment: failed: $*" >&2
    }
}

field() { redis-cli -p "$port" info memory | tr -d '\r' | sed -n "s/^$1://p"; }

load=(--port "$port" --memory "$bytes" --turnover "$turnover" --value-max "$value_max")

if wanted store; then
    measure "the store by itself" "$build/bench/fragment_store" --puts "$puts" --memory "$memory"
fi
if wanted kvasir; then
    for count in $reactors; do
        start "$build/kvasir-server" --port "$port" --reactor-ports no --reactors "$count" \
            --maxmemory "$bytes"
        await 60 ping_port || die "kvasir-server does not start"
        measure "kvasir, reactors $count" "$build/bench/fragment" "${load[@]}" --pid "$pid" \
            --peer "kvasir x$count" --payload "$(field payload_region_bytes)"
        end_server
    done
fi
if wanted redis; then
    if command -v redis-server >/dev/null; then
        start redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no \
            --maxmemory "$bytes" --maxmemory-policy allkeys-lru --dir "$work"
        await 10 ping_port || die "redis-server does not start"
        measure redis "$build/bench/fragment" "${load[@]}" --pid "$pid" --peer redis
        end_server
    else
        skip redis "not installed (apt install redis-server)"
    fi
fi
if wanted memcached; then
    if command -v memcached >/dev/null; then
        start memcached -u root -l 127.0.0.1 -p "$port" -m $((bytes >> 20)) -I 128m -t 2
        await 10 memcached_answers || die "memcached does not start"
        measure memcached "$build/bench/fragment" "${load[@]}" --pid "$pid" --peer memcached \
            --protocol memcached
        end_server
    else
        skip memcached "not installed (apt install memcached)"
    fi
fi
if wanted mooncake; then
    if "$venv/bin/python" -c 'import mooncake.store' 2>/dev/null; then
        start "$venv/bin/mooncake_master" --rpc_address=127.0.0.1 --rpc_port=$((port + 1)) \
            --metrics_port=$((port + 2))
        await 10 grep -q 'started on port' "$work/log" || die "mooncake_master does not start"
        "$venv/bin/python" "$here/mooncake_owner.py" $((port + 3)) $((bytes >> 20)) \
            127.0.0.1:$((port + 1)) >"$work/owner" 2>&1 &
        owner_pid=$!
        await 30 grep -q ready "$work/owner" || die "Mooncake's owner does not start"
        measure mooncake "$venv/bin/python" "$here/mooncake_fragment.py" --port "$port" \
            --master 127.0.0.1:$((port + 1)) --memory "$bytes" --turnover "$turnover" \
            --value-max "$(numfmt --from=iec "${value_max^^}")" --pid "$owner_pid"
        end_server
    else
        skip "Mooncake Store" "not installed (bench/peers_venv.sh)"
    fi
fi

python3 "$here/fragment_table.py" "$lines" || failures=$((failures + 1))
[ $failures -eq 0 ] || die "$failures parts failed"
