#!/bin/bash
# GET and SET of 64 bytes with redis-benchmark, 50 connections, without and with pipelining, at one
# server. One JSON line per operation and depth. Usage: small.sh PEER PORT PID [REQUESTS]
# PID is the server's process, whose time per request is told. REQUESTS are those of depth 1; depth 16 sends eight times as many, so that both take about as long.
set -euo pipefail

peer=$1 port=$2 pid=$3 requests=${4:-50000}

# The processor time that the server took so far, in clock ticks.
server_ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }

tick_us=$((1000000 / $(getconf CLK_TCK)))
for depth in 1 16; do
    count=$((depth == 1 ? requests : requests * 8))
    for operation in set get; do
        before=$(server_ticks)
        # Keys vary, so that every shard of a server has work.
        line=$(timeout 120 redis-benchmark -h 127.0.0.1 -p "$port" -t $operation -d 64 -c 50 \
            -n "$count" -r 100000 -P "$depth" --csv 2>/dev/null)
        spent_us=$((($(server_ticks) - before) * tick_us))
        awk -F'","|"' -v peer="$peer" -v depth="$depth" -v spent="$spent_us" -v count="$count" '
            $2 == "SET" || $2 == "GET" {
                printf "{\"peer\":\"%s\",\"path\":\"tcp\",\"op\":\"%s\",\"size\":64,\"depth\":%d,", \
                    peer, tolower($2), depth
                printf "\"ops\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"cpu_us\":%.3f}\n", \
                    $3, $6 * 1000, $8 * 1000, spent / count
                lines++
            }
            END { exit lines == 1 ? 0 : 1 }' <<<"$line"
    done
done
