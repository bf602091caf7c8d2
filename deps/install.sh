#!/bin/bash
# Installs the Debian packages that Kvasir needs, asks nothing, and says what it installs and why.
# Usage: deps/install.sh [--run | --all | --check]
#   --run    only what building and running the server and the library needs
#   --all    that, and what tests, benchmarks and checks need (the default)
#   --check  install nothing; print what is there, with versions, and what is missing
set -euo pipefail

RUN="build-essential|compiler, linker and make
pkg-config|finds the libraries' flags
ca-certificates|lets package downloads be verified
libevent-dev|event loop of the server's reactors
libxxhash-dev|checksum of values (XXH3)
libssl-dev|TLS, and SHA-256 of the users' passwords (OpenSSL)
python3|generators, the Python package and the test runners
python3-venv|own environments for the Python tests and the engine
python3-dev|Python.h, for what the engine's own compiler builds when it starts
python3-pip|builds and installs the Python wheel"

ALL="git|the checks list the files of the tree with it
libcmocka-dev|unit tests
libhiredis-dev|the C client of Redis, as a test client
liblz4-dev|compression of values (lz4), in preparation
libzstd-dev|compression of values (zstd), in preparation
tcl|runs Redis's own test-suite
dpkg-dev|unpacks the source packages that such suites come in
openssl|makes the certificates of the TLS tests
redis-tools|redis-cli and redis-benchmark, as test clients
redis-server|a peer for the benchmarks; it is not started as a service
libibverbs-dev|the RDMA module and its tests; the Mooncake peer of the benchmarks loads it
qemu-system-x86|boots the emulated machine of the RDMA tests
busybox-static|the programs of that machine
ibverbs-providers|soft-RoCE's driver for libibverbs, in that machine
iproute2|ip and rdma, which set up that machine's devices
kmod|finds the kernel modules that it needs
cpio|packs its files
xz-utils|unpacks its kernel modules
perftest|the reference of the RDMA benchmark
clang|second compiler, sanitizers and libFuzzer
libclang-rt-dev|their run-time libraries
clang-format|form of the C code
clang-tidy|static analysis of the C code
cppcheck|static analysis of the C code
codespell|spelling in code and documentation
shellcheck|static analysis of the shell scripts
gcovr|test coverage report"

say() { echo "deps: $*"; }
die()
{
    echo "deps: error: $*" >&2
    exit 1
}

version_of()
{
    # Prints the version when the package is installed, nothing otherwise.
    dpkg-query -W -f='${Status} ${Version}\n' "$1" 2>/dev/null | sed -n 's/^install ok installed //p'
}

print_state()
{
    local rc=0 name why version
    while IFS='|' read -r name why; do
        version=$(version_of "$name")
        if [ -z "$version" ]; then
            version="MISSING"
            rc=1
        fi
        printf '%-18s %-28s %s\n' "$name" "$version" "$why"
    done <<<"$RUN
$ALL"
    return $rc
}

# Debian starts a service as soon as its package is configured. A policy that answers 101 keeps the
# redis-server we install stopped; a policy that is already there stays in force, and a server that
# is running is not touched.
policy=/usr/sbin/policy-rc.d
policy_made=0
remove_policy()
{
    if [ "$policy_made" -eq 1 ]; then
        $sudo rm -f "$policy"
    fi
}

install_missing()
{
    local missing=("$@")
    trap remove_policy EXIT
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
        $sudo chmod 755 "$policy"
        policy_made=1
    fi
    say "reading package lists"
    $sudo apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null ||
        say "warning: the package lists could not be renewed; trying with those that are here"
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "${missing[@]}" </dev/null ||
        die "apt-get could not install: ${missing[*]}"
}

mode=${1:---all}
case "$mode" in
--run) list=$RUN ;;
--all) list="$RUN
$ALL" ;;
--check) list="" ;;
*) die "unknown option $mode; allowed are --run, --all and --check" ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "this is no Debian-like system (no apt-get); install these by hand: $(
        cut -d'|' -f1 <<<"$RUN" | tr '\n' ' ')"
fi
if [ "$mode" = --check ]; then
    print_state
    exit
fi

missing=()
while IFS='|' read -r name why; do
    if [ -z "$(version_of "$name")" ]; then
        say "will install $name: $why"
        missing+=("$name")
    fi
done <<<"$list"
if [ ${#missing[@]} -eq 0 ]; then
    say "everything is there"
    exit 0
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "run this as root, or install sudo; missing: ${missing[*]}"
    sudo="sudo"
fi
install_missing "${missing[@]}"
say "installed ${#missing[@]} packages"
