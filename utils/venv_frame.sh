# What the scripts that install a Python environment for tests share; to be sourced. The environment is a
# folder of ${XDG_CACHE_HOME:-~/.cache}/kvasir, so that a fresh clone finds it again. The script that
# sources this sets
#   name      of that folder
#   what      is installed, for people
#   pins      the versions on one line; with another line the environment is made anew
#   limit_s   how long installing may take
#   need_mb   what must be free on the disk
# defines fill(), which fills $venv, and check_machine(), which calls unavailable() where it cannot work,
# and ends with: venv_main "$@"
# shellcheck shell=bash disable=SC2154

PYTHON="${KVASIR_VENV_PYTHON:-python3}"
home="${XDG_CACHE_HOME:-$HOME/.cache}/kvasir"
venv="$home/$name"
log="$home/$name.log"

unavailable()
{
    echo "$name: $what cannot be installed here: $*" >&2
    exit 75
}

complete()
{
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/kvasir-pins" 2>/dev/null)" = "$pins" ]
}

# The path of the environment's packages.
packages_of()
{
    "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

# Says every few seconds that something still goes on, and what the installer said last; ends it with all
# that it started when it takes too long.
watch_pid()
{
    local pid=$1 seconds=0 last
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        [ "$seconds" -ne "$limit_s" ] || kill -KILL -- "-$pid" 2>/dev/null
        if [ $((seconds % 10)) -eq 0 ]; then
            last=$(tail -c 300 "$log" 2>/dev/null | tr '\r' '\n' | tail -n 1 | cut -c 1-80)
            echo "$name:   ${seconds} s, $(du -sh "$venv" 2>/dev/null | cut -f 1)  $last"
        fi
    done
    wait "$pid"
}

install_it()
{
    local installer_pid free_mb
    free_mb=$(df -Pm "$home" | awk 'NR == 2 { print $4 }')
    [ "$free_mb" -ge "$need_mb" ] ||
        unavailable "it takes $need_mb MB while installing, $home has $free_mb MB free"
    echo "$name: installing $what into $venv; the log is $log"
    rm -rf "$venv"
    # In a process group of its own, so that an interrupt ends the installer with all it started.
    set -m
    fill >"$log" 2>&1 9>&- &
    installer_pid=$!
    set +m
    trap 'kill -TERM -- "-$installer_pid" 2>/dev/null; exit 130' INT TERM
    if ! watch_pid "$installer_pid"; then
        tail -n 5 "$log" >&2
        rm -rf "$venv"
        unavailable "see $log (no network, or no access to PyPI?)"
    fi
    trap - INT TERM
    echo "$pins" >"$venv/kvasir-pins"
    echo "$name: done, $(du -sh "$venv" | cut -f 1)"
}

venv_main()
{
    case "${1:-}" in
    --print)
        echo "$venv"
        exit 0
        ;;
    --check)
        complete
        exit
        ;;
    "") ;;
    *)
        echo "usage: $(basename "$0") [--print | --check]" >&2
        exit 2
        ;;
    esac
    if ! complete; then
        command -v "$PYTHON" >/dev/null || unavailable "there is no $PYTHON"
        check_machine
        mkdir -p "$home" || unavailable "$home cannot be made"
        # Another run may be installing right now: wait for it, then look again.
        exec 9>"$home/$name.lock"
        flock -w $((2 * limit_s)) 9 || unavailable "another run that installs it does not end"
        complete || install_it
    fi
    echo "$name: $venv is complete"
}
