#!/bin/bash
# Runs a command in an emulated machine with two RDMA devices (soft-RoCE), on hosts that have none.
# Usage: rdma_vm.sh [OPTION...] -- COMMAND [ARGUMENT...]
#   --kernel 6.1|6.12   kernel series of the machine (default 6.1)
#   --file SRC[:DST]    put a file or folder into the machine; relative ones land under "/", absolute
#                       ones at their own place; the shared libraries of programs come along
#   --python            put the host's Python and its standard library in
#   --env NAME=VALUE    set a variable for COMMAND
#   --module NAME       load one more of the kernel's modules that are put in (sch_netem, sch_tbf)
#   --timeout SECONDS   give up then, start included (default 120)
#   --memory MIB        memory of the machine (default: what is put in, and 1 GiB)
#   --console FILE      keep what the machine's kernel says
#   --prepare           only fetch and unpack the kernel, which needs Debian's package source once
#
# A stock kernel of Debian starts under QEMU from a file system in memory that holds busybox, kernel
# modules, and what the caller puts in: no disk, no network, no privileges, no state between runs.
# COMMAND runs as root in "/"; its output, both kinds together, comes out on stdout; stdin is empty.
# It finds rxe0 at 10.9.0.1 and rxe1 at 10.9.0.2, joined by a pair of virtual links (vm0, vm1;
# "vm_link down vm1" takes one down; "vm_rail add rxe2" brings one more device, with a link vm2), and
#   VM_DEVICE=rxe0 VM_ADDRESS=10.9.0.1 VM_GID_INDEX=N, and the same with 2 at the end of the name.
#
# Exit status: COMMAND's; 77 no such machine can be had here (the reason is printed); 124 time was
# up; 125 wrong use; 126 the machine died before COMMAND ended.
# Environment: XDG_CACHE_HOME (kernels and Python are kept in its folder kvasir/rdma-vm);
# KVASIR_VM_ACCEL tcg (plain emulation, the default: it is the same everywhere) or kvm, for hosts
# known to carry it: that /dev/kvm can be opened does not mean that a guest starts.
set -euo pipefail
export LC_ALL=C

here=$(dirname "$(realpath "$0")")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/rdma-vm
library_folder=/usr/lib/x86_64-linux-gnu
# Loaded in this order at every start, each behind what it needs.
modules=(crc32_generic veth rdma_rxe rdma_ucm)
# Put in, and loaded on demand.
modules_optional=(sch_netem sch_tbf)

kernel=6.1 limit_s=120 memory_mib=0 console='' python=0 prepare=0
files=() variables=() modules_more=() command=()

say() { echo "rdma_vm: $*" >&2; }
die()
{
    say "error: $2"
    exit "$1"
}
usage_error() { die 125 "$1; see the head of $0"; }
impossible() { die 77 "no machine: $1"; }

# ---- arguments ---------------------------------------------------------------------------------

parse_arguments()
{
    while [ $# -gt 0 ]; do
        case "$1" in
        --prepare) prepare=1 ;;
        --python) python=1 ;;
        --)
            shift
            command=("$@")
            break
            ;;
        --kernel | --file | --env | --module | --timeout | --memory | --console)
            [ $# -gt 1 ] || usage_error "$1 takes an argument"
            take_option "$1" "$2"
            shift
            ;;
        *) usage_error "unknown option $1" ;;
        esac
        shift
    done
    [[ $kernel =~ ^[0-9]+\.[0-9]+$ ]] || usage_error "--kernel takes a series as 6.1, not '$kernel'"
    [[ $limit_s$memory_mib =~ ^[0-9]+$ ]] || usage_error "--timeout and --memory take numbers"
    [ "$prepare" -eq 1 ] || [ ${#command[@]} -gt 0 ] || usage_error "no command"
}

take_option()
{
    case "$1" in
    --kernel) kernel=$2 ;;
    --file) files+=("$2") ;;
    --env) variables+=("$2") ;;
    --module) modules_more+=("$2") ;;
    --timeout) limit_s=$2 ;;
    --memory) memory_mib=$2 ;;
    --console) console=$2 ;;
    esac
}

require_programs()
{
    local name
    [ "$(uname -m)" = x86_64 ] || impossible "only for x86_64, this is $(uname -m)"
    for name in qemu-system-x86_64 cpio modprobe depmod xz rdma ip flock; do
        command -v "$name" >/dev/null || impossible "$name is not there (deps/install.sh brings it)"
    done
    busybox=$(command -v busybox) || impossible "busybox is not there (deps/install.sh brings it)"
    ! ldd "$busybox" >/dev/null 2>&1 || impossible "$busybox is not static (package busybox-static)"
    provider=$(compgen -G "$library_folder/libibverbs/librxe-rdmav*.so" | head -n 1) ||
        impossible "libibverbs has no driver rxe (deps/install.sh brings it)"
}

# ---- kernel ------------------------------------------------------------------------------------

# apt with lists of its own: needs no privileges and leaves the host's alone.
apt()
{
    timeout 240 "$1" -qq -o "Dir::State::Lists=$cache/apt/lists" -o "Dir::Cache=$cache/apt/cache" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Languages=none \
        -o Acquire::Retries=3 "${@:2}"
}

# The newest stock kernel of the series; the variants (cloud, rt) have no soft-RoCE or other timing.
newest_kernel()
{
    apt apt-cache pkgnames "linux-image-$kernel." |
        grep -E "^linux-image-${kernel//./\\.}\.[0-9]+(-[0-9]+|\+deb[0-9]+)-amd64$" | sort -V | tail -n 1
}

# Makes $cache/kernel-SERIES: vmlinux, modules/NAME.ko and the orders to load them in.
fetch_kernel()
{
    local package
    mkdir -p "$cache"/apt/{lists/partial,cache/archives/partial} "$work/deb"
    command -v apt-get >/dev/null || impossible "this is no Debian-like system (no apt-get)"
    say "reading package lists"
    apt apt-get update >"$work/apt.log" 2>&1 ||
        say "warning: the package lists could not be renewed: $(tail -n 1 "$work/apt.log")"
    package=$(newest_kernel) || true
    [ -n "$package" ] || impossible "the package source has no kernel $kernel"
    say "fetching $package"
    (cd "$work/deb" && apt apt-get download "$package") >"$work/apt.log" 2>&1 ||
        impossible "cannot fetch $package: $(tail -n 1 "$work/apt.log")"
    dpkg-deb -x "$work/deb/$package"_*.deb "$work/kernel"
    rm -rf "$work/deb" "$cache/apt"
    unpack_kernel "${package#linux-image-}"
}

unpack_kernel()
{
    local release=$1 fresh=$cache/kernel-$kernel.$$
    rm -rf "$fresh"
    mkdir -p "$fresh/modules"
    # Where /usr is merged, modules lie under usr/lib.
    [ ! -d "$work/kernel/usr/lib/modules" ] || ln -sfn usr/lib "$work/kernel/lib"
    depmod -b "$work/kernel" "$release"
    unpack_image "$work/kernel/boot/vmlinuz-$release" "$fresh/vmlinux"
    unpack_modules "$release" "$fresh" "${modules[@]}" >"$fresh/order"
    unpack_modules "$release" "$fresh" "${modules_optional[@]}" >"$fresh/optional"
    echo "$release" >"$fresh/release"
    rm -rf "$work/kernel" "$cache/kernel-$kernel"
    mv -T "$fresh" "$cache/kernel-$kernel"
}

# The kernel proper out of its self-unpacking image: QEMU starts it directly, which saves half of the
# time to start, for emulated unpacking is slow. The image's header says where the payload lies
# (setup_sects, payload_offset, payload_length of Linux's boot protocol); its last four bytes are
# the unpacked length, which the unpackers do not know.
unpack_image()
{
    local image=$1 offset length unpack
    offset=$((($(number_at "$image" 497 1) + 1) * 512 + $(number_at "$image" 584 4)))
    length=$(($(number_at "$image" 588 4) - 4))
    case $(od -An -t x1 -j "$offset" -N 4 "$image" | tr -d ' ') in
    fd377a58) unpack="xz -dc --single-stream" ;;
    28b52ffd) unpack="zstd -dcq" ;;
    *) unpack="gzip -dc" ;;
    esac
    # shellcheck disable=SC2086  # a command is words
    (tail -c "+$((offset + 1))" "$image" || true) | head -c "$length" | $unpack >"$2" ||
        impossible "cannot unpack the kernel in $(basename "$image")"
}

number_at() { od -An -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }

# Copies modules and what they need, and prints their names in the order in which they load.
unpack_modules()
{
    local release=$1 to=$2 module action path name
    shift 2
    for module in "$@"; do
        modprobe -d "$work/kernel" -S "$release" --show-depends "$module" >"$work/depends" ||
            impossible "the kernel $release has no module $module"
        while read -r action path _; do
            [ "$action" = insmod ] || continue
            name=$(basename "$path")
            name=${name%%.ko*}
            case "$path" in
            *.xz) xz -dc "$path" >"$to/modules/$name.ko" ;;
            *) cp "$path" "$to/modules/$name.ko" ;;
            esac
            echo "$name"
        done <"$work/depends"
    done | awk '!seen[$0]++'
}

# ---- file system of the machine ----------------------------------------------------------------

is_program() { [ -f "$1" ] && [ "$(head -c 4 "$1" | od -An -c | tr -d ' ')" = '177ELF' ]; }

# Copies the shared libraries of programs to where the machine's loader looks first.
add_libraries()
{
    local root=$1 name arrow path
    shift
    while read -r name arrow path _; do
        [ "$path" != not ] || die 125 "shared library $name is not found"
        if [ "$arrow" = '=>' ]; then
            name=$library_folder/$(basename "$name")
        elif [[ $name == /* ]]; then
            path=$name
            name=/usr/lib64/$(basename "$name")
        else
            continue
        fi
        [ -e "$root$name" ] || install -D "$path" "$root$name"
    done < <(ldd "$@" 2>/dev/null)
}

add()
{
    local root=$1 source=$2 target=$3 programs=() file
    # The folders of the root are links into /usr.
    [[ ! $target =~ ^/(s?bin|lib|lib64)/ ]] || target=/usr$target
    [ -e "$source" ] || die 125 "there is no $source"
    mkdir -p "$root$(dirname "$target")"
    if [ -d "$source" ]; then
        mkdir -p "$root$target"
        cp -RL --preserve=mode,timestamps "$source/." "$root$target/"
    else
        cp -L --preserve=mode,timestamps "$source" "$root$target"
    fi
    while IFS= read -r -d '' file; do
        ! is_program "$file" || programs+=("$file")
    done < <(find -L "$source" -type f \( -perm -u+x -o -name '*.so*' \) -print0)
    [ ${#programs[@]} -eq 0 ] || add_libraries "$root" "${programs[@]}"
}

pack() { (cd "$1" && find . -mindepth 1 -print0 | cpio -0 -o -H newc -R 0:0 --quiet); }

make_base()
{
    local root=$1 folder
    mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{dev,proc,sys,run,root,tmp,vm} \
        "$root"/etc/libibverbs.d
    chmod 1777 "$root/tmp"
    for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
    cp "$busybox" "$root/usr/bin/busybox"
    for folder in $("$busybox" --list); do
        [ -e "$root/usr/bin/$folder" ] || ln -s busybox "$root/usr/bin/$folder"
    done
    add "$root" "$(command -v rdma)" /usr/sbin/rdma
    rm "$root/usr/bin/ip" "$root/usr/bin/tc"
    add "$root" "$(command -v ip)" /usr/sbin/ip
    add "$root" "$(command -v tc)" /usr/sbin/tc
    add "$root" "$provider" "$library_folder/libibverbs/$(basename "$provider")"
    # The C library opens this one by itself, when a thread ends.
    add "$root" "$library_folder/libgcc_s.so.1" "$library_folder/libgcc_s.so.1"
    cp -r "$cache/kernel-$kernel/modules" "$cache/kernel-$kernel/order" \
        "$cache/kernel-$kernel/optional" "$root/vm/"
    echo 'driver rxe' >"$root/etc/libibverbs.d/rxe.driver"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
    printf '%s\n' 'root:x:0:0::/root:/bin/sh' 'nobody:x:65534:65534::/:/bin/sh' >"$root/etc/passwd"
    printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$root/etc/group"
    printf '%s\n' 'passwd: files' 'group: files' 'hosts: files' >"$root/etc/nsswitch.conf"
    install -m 755 "$here/rdma_vm_init.sh" "$root/init"
    install -m 755 "$here/rdma_vm_link.sh" "$root/usr/sbin/vm_link"
    install -m 755 "$here/rdma_vm_rail.sh" "$root/usr/sbin/vm_rail"
}

# Python's standard library, less what no test imports, and compiled: the machine would take long.
make_python()
{
    local root=$1 program=$2 library=$3 extension
    add "$root" "$program" "$program"
    [ -e "$root/usr/bin/python3" ] || ln -s "$program" "$root/usr/bin/python3"
    mkdir -p "$root$library"
    tar -c -C "$library" --dereference --exclude=__pycache__ --exclude='*.a' --exclude='./config-*' \
        --exclude=./test --exclude=./idlelib --exclude=./tkinter --exclude=./ensurepip \
        --exclude=./site-packages --exclude=./dist-packages --exclude=./turtledemo \
        --exclude=./lib2to3 --exclude=./pydoc_data --exclude='_test*.so' . |
        tar -x -C "$root$library"
    for extension in "$library"/lib-dynload/*.so; do add_libraries "$root" "$extension"; done
    "$program" -m compileall -q -s "$root" "$root$library" >/dev/null 2>&1 || true
}

# Prints the file of the packed Python; it is made once.
python_part()
{
    local facts packed
    # Debian's own where it is there: it lies where its library is looked for.
    mapfile -t facts < <("$(PATH=/usr/bin:$PATH command -v python3)" -c '
import os, sys, sysconfig
print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sys.version.split()[0], sep="\n")')
    [ ${#facts[@]} -eq 3 ] || impossible "python3 does not run"
    packed=$cache/python-${facts[2]}-$(key "${facts[@]}").cpio
    if [ ! -s "$packed" ]; then
        say "packing ${facts[0]}"
        rm -f "$cache"/python-*.cpio
        make_python "$work/python" "${facts[0]}" "${facts[1]}"
        pack "$work/python" >"$packed.$$"
        mv "$packed.$$" "$packed"
    fi
    echo "$packed"
}

# Prints the file of what is the same in every machine of one kernel; it is made once.
base_part()
{
    local packed
    packed=$cache/base-$kernel-$(key "$(<"$cache/kernel-$kernel/release")").cpio
    if [ ! -s "$packed" ]; then
        rm -f "$cache/base-$kernel"-*.cpio
        make_base "$work/base"
        pack "$work/base" >"$packed.$$"
        mv "$packed.$$" "$packed"
    fi
    echo "$packed"
}

# Changes when these scripts or the arguments change.
key()
{
    { cat "$here"/rdma_vm*.sh && printf '%s\n' "$@"; } | sha256sum | head -c 12
}

make_own_part()
{
    local root=$1 file source target variable
    mkdir -p "$root/vm"
    for file in ${files[@]+"${files[@]}"}; do
        source=$file target=''
        [[ -e $file || $file != *:/* ]] || { source=${file%:/*} && target=/${file##*:/}; }
        [ -n "$target" ] || target=/${source#/}
        [[ $target != *../* ]] || die 125 "--file $file: say where to put it, as SRC:DST"
        add "$root" "$source" "${target/#\/.\//\/}"
    done
    {
        for variable in ${variables[@]+"${variables[@]}"}; do
            printf 'export %s=%q\n' "${variable%%=*}" "${variable#*=}"
        done
        printf 'exec'
        printf ' %q' "${command[@]}"
        printf '\n'
    } >"$root/vm/command"
    printf '%s\n' ${modules_more[@]+"${modules_more[@]}"} >"$root/vm/more"
}

make_disk()
{
    local parts=()
    parts+=("$(base_part)")
    [ "$python" -eq 0 ] || parts+=("$(python_part)")
    make_own_part "$work/own"
    pack "$work/own" >"$work/own.cpio"
    cat "${parts[@]}" "$work/own.cpio" >"$work/disk"
    rm -rf "$work/own" "$work/own.cpio" "$work/base" "$work/python"
}

# ---- the run -----------------------------------------------------------------------------------

start_machine()
{
    local cpu disk_mib
    # The kernel copies byte by byte where the processor claims fast string moves, and emulation is
    # slow at those.
    case ${KVASIR_VM_ACCEL:-tcg} in
    tcg) cpu=(-accel "tcg,thread=multi" -cpu "max,-erms,-fsrm") ;;
    kvm) cpu=(-accel kvm -cpu host) ;;
    *) usage_error "KVASIR_VM_ACCEL is tcg or kvm" ;;
    esac
    disk_mib=$(($(stat -c %s "$work/disk") >> 20))
    [ "$memory_mib" -gt 0 ] || memory_mib=$((1024 + 2 * disk_mib))
    : >"$work/console"
    : >"$work/status"
    timeout --kill-after=5 "$limit_s" qemu-system-x86_64 -nodefaults -no-user-config -display none \
        -no-reboot -machine q35 "${cpu[@]}" -smp 2 -m "$memory_mib" \
        -kernel "$cache/kernel-$kernel/vmlinux" -initrd "$work/disk" -append \
        "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off no_timer_check nowatchdog" \
        -chardev "file,id=console,path=$work/console" -serial chardev:console \
        -chardev stdio,id=out,signal=off -serial chardev:out \
        -chardev "file,id=status,path=$work/status" -serial chardev:status \
        </dev/null 2>"$work/qemu.log" &
    pid=$!
    rc=0
    wait "$pid" || rc=$?
    pid=''
}

# Ends this script as COMMAND ended, or says why there is no such status.
finish()
{
    local status
    tr -d '\r' <"$work/console" >"$work/console.txt"
    [ -z "$console" ] || cp "$work/console.txt" "$console"
    if grep -m 5 -E 'WARNING:|BUG:|Oops' "$work/console.txt" >"$work/complaints"; then
        say "the machine's kernel complained:"
        cat "$work/complaints" >&2
    fi
    status=$(sed -n 's/^status \([0-9]*\).*/\1/p' "$work/status")
    # The machine says 125 when it could not be set up, and why on its console.
    [ "$status" != 125 ] || grep '^vm: ' "$work/console.txt" >&2 || true
    [ -z "$status" ] || exit "$status"
    cat "$work/qemu.log" >&2
    tail -n 40 "$work/console.txt" >&2
    case $rc in
    124 | 137) die 124 "no result within $limit_s s" ;;
    *) die 126 "the machine died (exit status of qemu: $rc)" ;;
    esac
}

cleanup()
{
    # timeout passes it on to what it runs.
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    rm -rf "$work"
}

parse_arguments "$@"
require_programs
mkdir -p "$cache"
work=$(mktemp -d)
pid=''
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
exec 9>"$cache/lock"
flock 9
[ -d "$cache/kernel-$kernel" ] || fetch_kernel
if [ "$prepare" -eq 0 ]; then
    make_disk
    exec 9>&-
    start_machine
    finish
fi
