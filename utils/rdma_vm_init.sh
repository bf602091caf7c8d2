#!/bin/busybox sh
# shellcheck shell=dash
# First process of the machine that rdma_vm.sh starts: loads the drivers, joins two soft-RoCE devices
# by a pair of virtual links, runs /vm/command, and says its exit status. ttyS0 is the console, ttyS1
# what the command prints, ttyS2 carries the status.
export PATH=/usr/sbin:/usr/bin HOME=/root TERM=dumb

# Busybox's shell would take its own, which cannot do what is needed here.
ip() { /usr/sbin/ip "$@"; }

finish()
{
    [ -z "${2:-}" ] || echo "vm: $2"
    stty raw -echo -F /dev/ttyS2
    echo "status $1" >/dev/ttyS2
    sync
    reboot -f
    sleep 60
}

mount_all()
{
    mount -t proc proc /proc
    mount -t sysfs sys /sys
    mount -t devtmpfs dev /dev
    mkdir -p /dev/shm /dev/pts
    mount -t tmpfs shm /dev/shm
    mount -t devpts pts /dev/pts
    ln -sf /proc/self/fd /dev/fd
    ln -sf /proc/self/fd/0 /dev/stdin
    ln -sf /proc/self/fd/1 /dev/stdout
    ln -sf /proc/self/fd/2 /dev/stderr
}

load_modules()
{
    while read -r module; do
        insmod "/vm/modules/$module.ko" || finish 125 "cannot load the module $module"
    done </vm/order
    [ -s /vm/more ] || return 0
    # What is wanted may need others; one that is loaded already is no error.
    while read -r module; do
        insmod "/vm/modules/$module.ko" 2>/dev/null
    done </vm/optional
}

# Packets between the two addresses cross the pair and not the loopback device, though both are
# this machine's: a table of its own is asked before that of local addresses, for packets that go
# out, not for those that come in.
join_links()
{
    ip link set lo up
    # Room for 4096 bytes of payload and the headers.
    ip link add vm0 mtu 9000 type veth peer name vm1 mtu 9000
    for name in all default vm0 vm1; do
        echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
    done
    ip addr add 10.9.0.1/24 dev vm0
    ip addr add 10.9.0.2/24 dev vm1
    vm_link up vm0
    vm_link up vm1
    ip rule add pref 1 iif vm0 lookup local
    ip rule add pref 1 iif vm1 lookup local
    ip rule add pref 2 from 10.9.0.1 to 10.9.0.2 lookup 100
    ip rule add pref 2 from 10.9.0.2 to 10.9.0.1 lookup 100
    ip rule add pref 3 lookup local
    ip rule del pref 0
}

# Makes a device and prints the index of its IPv4 address's GID once the port is up.
make_device()
{
    rdma link add "$1" type rxe netdev "$2" || return 1
    port=/sys/class/infiniband/$1/ports/1
    for _ in $(seq 100); do
        if grep -q ACTIVE "$port/state"; then
            for index in 0 1 2 3 4 5 6 7; do
                case $(cat "$port/gids/$index" 2>/dev/null) in
                0000:0000:0000:0000:0000:ffff:*)
                    echo $index
                    return 0
                    ;;
                esac
            done
        fi
        sleep 0.1
    done
    return 1
}

mount_all
ulimit -l unlimited
ulimit -c 0
load_modules
join_links
VM_GID_INDEX=$(make_device rxe0 vm0) || finish 125 "rxe0 did not come up"
VM_GID_INDEX2=$(make_device rxe1 vm1) || finish 125 "rxe1 did not come up"
export VM_DEVICE=rxe0 VM_ADDRESS=10.9.0.1 VM_GID_INDEX
export VM_DEVICE2=rxe1 VM_ADDRESS2=10.9.0.2 VM_GID_INDEX2
stty raw -echo -F /dev/ttyS1
sh /vm/command </dev/null >/dev/ttyS1 2>&1
finish $?
