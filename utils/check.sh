#!/bin/bash
# Checks the form of the tree: format, layers, headers, symbols, sizes, spelling, scripts, Python, generated
# files. Runs every check, then says which failed; one whose tool is missing is skipped, by name.
# Usage: check.sh [CHECK...]   without arguments: all of them
set -u
cd "$(dirname "$0")/.." || exit 2
venv=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/venv-check
passed=0 failed=0 skipped=0
SKIP=77

# A tool from the environment that utils/venv_check.sh makes, else from the path. It must run: a
# stub that only says how to install it does not count.
tool()
{
    local candidate
    for candidate in "$venv/bin/$1" "$1"; do
        if "$candidate" --version >/dev/null 2>&1; then
            echo "$candidate"
            return 0
        fi
    done
    echo "$1 is not installed"
    return $SKIP
}

# Files of the tree that exist, by pattern: tracked ones and new ones, not ignored ones.
files()
{
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "$@" | sort -u
    else
        local pattern
        for pattern in "$@"; do find . -path ./build -prune -o -name "${pattern##*/}" -print; done
    fi | while read -r name; do [ -f "$name" ] && echo "$name"; done
}

check_format()
{
    local format
    format=$(tool clang-format) || { echo "$format"; return $SKIP; }
    local wrong
    wrong=$(files '*.c' '*.h' '*.cu' | grep -v '/corpus/' | xargs -r "$format" --dry-run 2>&1 |
        sed -nE 's/^([^:]+):[0-9]+:.*\[-Wclang-format-violations\]$/\1/p' | sort -u)
    [ -z "$wrong" ] || { echo "make format puts these right:"; echo "$wrong"; return 1; }
}

check_spelling()
{
    local codespell
    codespell=$(tool codespell) || { echo "$codespell"; return $SKIP; }
    files '*.c' '*.h' '*.cu' '*.def' '*.py' '*.sh' '*.md' Makefile .ci/run | grep -v '/corpus/' |
        xargs -r "$codespell" --ignore-words utils/codespell.ignore
}

# SC2317 takes what a trap calls for unreachable.
check_shell()
{
    local shellcheck
    shellcheck=$(tool shellcheck) || { echo "$shellcheck"; return $SKIP; }
    files '*.sh' .ci/run | xargs -r "$shellcheck" -x -S warning -e SC2317
}

check_ruff()
{
    local ruff
    ruff=$(tool ruff) || { echo "$ruff"; return $SKIP; }
    files '*.py' | xargs -r "$ruff" check --quiet --line-length 100 --no-cache
}

# Scripts are checked together; the package has options of its own in python/pyproject.toml.
check_mypy()
{
    local mypy rc=0
    mypy=$(tool mypy) || { echo "$mypy"; return $SKIP; }
    files 'utils/*.py' | xargs -r "$mypy" --no-error-summary --cache-dir=/dev/null \
        --ignore-missing-imports || rc=1
    if [ -d python/kvasir ]; then
        (cd python && "$mypy" --no-error-summary --cache-dir=/dev/null --ignore-missing-imports \
            kvasir) || rc=1
    fi
    return $rc
}

check_generated()
{
    [ -x utils/gen_commands.py ] || { echo "utils/gen_commands.py is not there"; return $SKIP; }
    utils/gen_commands.py --check
}

check_layers() { utils/check_layers.py; }
check_headers() { utils/check_headers.sh; }
check_symbols()
{
    local output rc
    output=$(make --no-print-directory BUILD="${KVASIR_BUILD:-build/gcc-release}" check-symbols 2>&1)
    rc=$?
    printf '%s\n' "$output" | grep -vE '^  (CC|AR|LINK)'
    return $rc
}
check_tidy() { utils/tidy.py; }

checks=("$@")
[ ${#checks[@]} -gt 0 ] || checks=(format layers headers symbols tidy spelling shell ruff mypy generated)
for name in "${checks[@]}"; do
    output=$("check_$name" 2>&1)
    rc=$?
    case $rc in
    0)
        echo "ok $name"
        passed=$((passed + 1))
        ;;
    "$SKIP")
        echo "SKIPPED $name: $output"
        skipped=$((skipped + 1))
        ;;
    *)
        echo "FAILED $name"
        printf '%s\n' "$output" | sed 's/^/    /' | head -n 200
        failed=$((failed + 1))
        ;;
    esac
done
echo "check: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
