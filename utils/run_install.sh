#!/bin/bash
# Installs into an empty folder and builds a stranger's program against it, shared and static, in C
# and C++, by pkg-config alone. Usage: [KVASIR_BUILD=dir] run_install.sh
# Ends with "install: N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
build=${KVASIR_BUILD:-build/gcc-release}
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -e "$build/libkvasir.so" ]; then
    echo "SKIPPED install: the library is not built"
    echo "install: 0 passed, 0 failed, 1 skipped"
    exit 0
fi

expect()
{
    local name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "FAILED $name: $*"
        sed 's/^/    /' "$work/output" | tail -n 40
        failed=$((failed + 1))
    fi
}

cat >"$work/program.c" <<'END'
#include <kvasir/client.h>
#include <stdio.h>
int main(void)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    return printf("%s %s\n", kvasir_version(), kvasir_status_name(KVASIR_OK)) > 0 ? 0 : 1;
}
END
cp "$work/program.c" "$work/program.cc"

expect install_writes_the_files make --no-print-directory BUILD="$build" install \
    DESTDIR="$work/root" PREFIX=/usr
lib=$work/root/usr/lib
# Modules that were built are installed, and only these.
installs_modules()
{
    diff <(cd "$build/modules" 2>/dev/null && ls) <(cd "$lib/kvasir/modules" && ls)
}
expect install_brings_the_modules installs_modules
export PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_LIBDIR=$lib/pkgconfig
# The flags are words.
# shellcheck disable=SC2046
{
    expect install_links_c_shared gcc "$work/program.c" -o "$work/shared" \
        $(pkg-config --cflags --libs kvasir)
    expect install_links_cxx_shared g++ "$work/program.cc" -o "$work/cxx" \
        $(pkg-config --cflags --libs kvasir)
    expect install_links_c_static gcc "$work/program.c" -o "$work/static" \
        $(pkg-config --cflags kvasir) "$lib/libkvasir.a" -lxxhash -pthread
}
version=$(cat VERSION)
says_version() { [ "$(LD_LIBRARY_PATH="$lib" "$1")" = "$version ok" ]; }
for program in shared cxx static; do
    expect "install_runs_$program" says_version "$work/$program"
done
says_soname() { readelf -d "$work/shared" | grep -q 'NEEDED.*\[libkvasir\.so\.0\]'; }
expect install_needs_the_versioned_name says_soname
# Public names only may leave the static library: no clash with a stranger's own.
leaks_nothing()
{
    nm -g --defined-only "$lib/libkvasir.a" | grep ' [A-Z] ' >"$work/names" || return 1
    ! grep -v ' kvasir_' "$work/names"
}
expect install_static_library_leaks_nothing leaks_nothing

echo "install: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
