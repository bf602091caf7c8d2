#!/bin/busybox sh
# shellcheck shell=dash
# In the machine that rdma_vm.sh starts: one more soft-RoCE device, with links of its own, so that it can be
# lost alone. It reaches itself and nothing else, at 10.9.1.1.
# Usage: vm_rail add|del NAME; its link is vm2, which vm_link takes.
set -e
PATH=/usr/sbin:/usr/bin

case $1 in
add)
    /usr/sbin/ip link add vm2 mtu 9000 type veth peer name vm3 mtu 9000
    /usr/sbin/ip addr add 10.9.1.1/24 dev vm2
    /usr/sbin/ip link set vm3 up
    /usr/sbin/ip link set vm2 up
    rdma link add "$2" type rxe netdev vm2
    for _ in $(seq 100); do
        if grep -q ACTIVE "/sys/class/infiniband/$2/ports/1/state"; then
            exit 0
        fi
        sleep 0.1
    done
    echo "vm_rail: $2 did not come up" >&2
    exit 1
    ;;
del)
    rdma link del "$2"
    /usr/sbin/ip link del vm2
    ;;
*)
    echo "Usage: vm_rail add|del NAME" >&2
    exit 2
    ;;
esac
