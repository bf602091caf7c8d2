#!/bin/bash
# GET and SET of 64 bytes with redis-benchmark, 50 connections, without and with pipelining, at one
# server. One JSON line per operation and depth. Usage: small.sh PEER PORT [REQUESTS]
# REQUESTS are those of depth 1; depth 16 sends eight times as many, so that both take about as long.
set -euo pipefail

peer=$1 port=$2 requests=${3:-50000}

for depth in 1 16; do
    count=$((depth == 1 ? requests : requests * 8))
    # Keys vary, so that every shard of a server has work.
    timeout 120 redis-benchmark -h 127.0.0.1 -p "$port" -t set,get -d 64 -c 50 -n "$count" \
        -r 100000 -P "$depth" --csv 2>/dev/null |
        awk -F'","|"' -v peer="$peer" -v depth="$depth" '
            $2 == "SET" || $2 == "GET" {
                printf "{\"peer\":\"%s\",\"path\":\"tcp\",\"op\":\"%s\",\"size\":64,\"depth\":%d,", \
                    peer, tolower($2), depth
                printf "\"ops\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f}\n", $3, $6 * 1000, $8 * 1000
                lines++
            }
            END { exit lines == 2 ? 0 : 1 }'
done
