#!/bin/bash
# Builds the wheel with server and library inside, offline, from what `make` has built.
# Usage: build_wheel.sh [BUILD_DIR] [WHEEL_DIR]
#   BUILD_DIR defaults to $KVASIR_BUILD, WHEEL_DIR to $KVASIR_WHEEL_DIR or dist/ at the top.
#
# Server and library are linked once more, with the static archives of the few libraries that not
# every machine has, so that the wheel needs the C library and nothing else; that this is so is
# checked at the end, and the oldest C library that will do is read from the result.
set -euo pipefail
build=$(realpath -m "${1:-${KVASIR_BUILD:?build_wheel.sh: name the build directory}}")
top=$(realpath "$(dirname "$0")/..")
out=$(realpath -m "${2:-${KVASIR_WHEEL_DIR:-$top/dist}}")
stage="$build/wheel"
SONAME=libkvasir.so.0
STATIC="-Wl,-Bstatic -levent_core -levent_pthreads -lxxhash -lssl -lcrypto -Wl,-Bdynamic"
SYSTEM_LIBRARIES='^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|ld-linux.*)$'

# What modules are for.
MODULE_LIBRARIES='^libibverbs\.so\.1$'

die()
{
    echo "build_wheel.sh: $*" >&2
    exit 1
}

for input in flags server.a shared.a obj/src/server/main.o "$SONAME"; do
    [ -e "$build/$input" ] || die "$build/$input is not there; run make first"
done
# The line that make compiles and links with, quoted for the shell.
eval "compile=($(head -n 1 "$build/flags"))"

rm -rf "$stage"
mkdir -p "$stage/_bin" "$stage/_lib" "$out"
# shellcheck disable=SC2154,SC2086  # compile is set by the eval above; STATIC is a list of words
"${compile[@]}" "$build/obj/src/server/main.o" "$build/server.a" $STATIC -pthread -ldl -lm \
    -Wl,--as-needed -o "$stage/_bin/kvasir-server"

mapfile -t client_objects < <(find "$build/pic/src/client" -name '*.o' | LC_ALL=C sort)
map="$top/src/client/libkvasir.map"
versions=()
[ ! -f "$map" ] || versions=("-Wl,--version-script=$map")
"${compile[@]}" -shared "-Wl,-soname,$SONAME" "${versions[@]}" -Wl,--exclude-libs,libxxhash.a \
    -Wl,-u,kvasir_status_name "${client_objects[@]}" "$build/shared.a" \
    -Wl,-Bstatic -lxxhash -Wl,-Bdynamic -pthread -o "$stage/_lib/$SONAME"
strip --strip-unneeded "$stage/_bin/kvasir-server" "$stage/_lib/$SONAME"

# Modules lie where the library looks for them. One whose own library the machine lacks is not loaded.
modules=()
for module in "$build"/modules/*.so; do
    [ -e "$module" ] || continue
    install -D -m 755 "$module" "$stage/_lib/kvasir/modules/${module##*/}"
    strip --strip-unneeded "$stage/_lib/kvasir/modules/${module##*/}"
    modules+=("$stage/_lib/kvasir/modules/${module##*/}")
done

glibc=2.17
for file in "$stage/_bin/kvasir-server" "$stage/_lib/$SONAME" "${modules[@]}"; do
    needed=$(objdump -p "$file" | awk '$1 == "NEEDED" {print $2}')
    allowed=$SYSTEM_LIBRARIES
    [[ $file != */modules/* ]] || allowed="$SYSTEM_LIBRARIES|$MODULE_LIBRARIES"
    foreign=$(grep -Ev "$allowed" <<<"$needed" || true)
    [ -z "$foreign" ] || die "$file would need $foreign on the user's machine"
    newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | cut -d_ -f2 | sort -uV | tail -n 1)
    glibc=$(printf '%s\n' "$glibc" "$newest" | sort -V | tail -n 1)
done

python3 "$top/python/wheel_backend.py" --version-file "$top/VERSION" --stage "$stage" \
    --platform "manylinux_${glibc/./_}_$(uname -m)" --out "$out"
