#!/bin/busybox sh
# shellcheck shell=dash
# Takes down or up one of the two links of the machine that rdma_vm.sh starts: its first process
# brings them up with it, tests of failures take one down. vm2 is there after vm_rail only.
# Usage: vm_link up|down vm0|vm1|vm2
ip() { /usr/sbin/ip "$@"; }

# What the kernel forgets when a link goes down. Packets between the two addresses cross the links, and
# each link knows its neighbour.
restore()
{
    ip neigh replace 10.9.0.2 dev vm0 lladdr "$(cat /sys/class/net/vm1/address)"
    ip neigh replace 10.9.0.1 dev vm1 lladdr "$(cat /sys/class/net/vm0/address)"
    ip route replace 10.9.0.2/32 dev vm0 src 10.9.0.1 table 100
    ip route replace 10.9.0.1/32 dev vm1 src 10.9.0.2 table 100
}

ip link set "$2" "$1"
if [ "$1" = up ]; then
    restore 2>/dev/null
fi
exit 0
