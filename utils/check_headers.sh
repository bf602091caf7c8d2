#!/bin/bash
# Compiles every header by itself, as C; the public ones (src/include) as C++ too: a header must
# bring what it needs. Usage: check_headers.sh [HEADER]
set -u
cd "$(dirname "$0")/.." || exit 2
cuda_include=${CUDA_HOME:-/usr/local/cuda}/include

check_one()
{
    local header=$1 rc=0 test_flags=()
    # Tests are built with fault points and slow checks only.
    [[ $header == tests/* ]] && test_flags=(-DKVASIR_FAULT -DKVASIR_DEBUG)
    # What wants a toolkit compiles where there is one.
    if [[ $header == *cuda* ]]; then
        [ -f "$cuda_include/cuda.h" ] || { echo "skipped $header: no CUDA toolkit"; return 0; }
        test_flags+=(-isystem "$cuda_include")
    fi
    echo "#include \"$header\"" | "${CC:-gcc}" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror \
        "${test_flags[@]}" -I. -Isrc -Isrc/include -fsyntax-only -x c - || rc=1
    case "$header" in
    src/include/*)
        echo "#include \"$header\"" | "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror \
            -I. -Isrc/include -fsyntax-only -x c++ - || rc=1
        ;;
    esac
    [ "$rc" -eq 0 ] || echo "$header does not compile alone"
    return $rc
}
# With an argument: that header only; the script calls itself so to use all cores.
if [ $# -eq 1 ]; then
    check_one "$1"
    exit
fi
find src modules tests bench -name '*.h' -print0 2>/dev/null |
    xargs -0 -r -n 1 -P "$(nproc)" utils/check_headers.sh
