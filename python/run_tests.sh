#!/bin/bash
# Runs the tests of the Python package against a built server and library.
# Usage: run_tests.sh [BUILD_DIR] [PYTEST ARGUMENT...]   BUILD_DIR defaults to $KVASIR_BUILD
#
# pytest and numpy live in an environment of their own under ${XDG_CACHE_HOME:-~/.cache}/kvasir,
# made once (needs a package index) and used again. Ends with "python: N passed, N failed,
# N skipped"; without an environment, a library or a server the tests are skipped by name.
set -u
build=$(realpath -m "${1:-${KVASIR_BUILD:?run_tests.sh: name the build directory}}")
shift $(($# > 0 ? 1 : 0))
cd "$(dirname "$0")" || exit 2
venv="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-test"

skip()
{
    echo "python: SKIPPED, $*"
    echo "python: 0 passed, 0 failed, 1 skipped"
    exit 0
}

make_venv()
{
    # Made beside its place and moved there when complete: two runs may start at the same time.
    local fresh="$venv.$$"
    echo "python: making $venv (pytest, numpy)"
    rm -rf "$fresh"
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$fresh" &&
        timeout 300 "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check \
            'pytest>=8,<9' 'numpy>=1.26,<3' || return 1
    mv -T "$fresh" "$venv" 2>/dev/null || rm -rf "$fresh"
    "$venv/bin/python" -c 'import pytest, numpy'
}

[ -f "$build/libkvasir.so.0" ] || skip "$build/libkvasir.so.0 is not there"
[ -x "$build/kvasir-server" ] || skip "$build/kvasir-server is not there"
! grep -qs -- '-fsanitize=' "$build/flags" ||
    skip "an instrumented library cannot be loaded by a plain python3"
"$venv/bin/python" -c 'import pytest, numpy' 2>/dev/null || make_venv ||
    skip "no environment with pytest and numpy (is a package index within reach?)"

export KVASIR_BUILD="$build"
export KVASIR_LIBRARY="$build/libkvasir.so.0"
export KVASIR_SERVER="$build/kvasir-server"
export PYTHONPATH="$PWD"
report=$(mktemp)
trap 'rm -f "$report"' EXIT
timeout 600 "$venv/bin/python" -X dev -m pytest -p no:cacheprovider -rs --junitxml="$report" "$@"
rc=$?
"$venv/bin/python" - "$report" <<'PY' || exit 1
import sys
import xml.etree.ElementTree as tree

try:
    suites = list(tree.parse(sys.argv[1]).getroot().iter("testsuite"))
except (OSError, tree.ParseError):
    sys.exit("python: pytest left no report")
total, failed, skipped = (
    sum(int(suite.get(name, 0)) for suite in suites for name in names)
    for names in (("tests",), ("failures", "errors"), ("skipped",))
)
print(f"python: {total - failed - skipped} passed, {failed} failed, {skipped} skipped")
PY
exit $rc
