# What the runners of Python tests share; to be sourced. They count in $passed, $failed and $skipped.
# shellcheck shell=bash

# skip_by_name WHY FILE...: every test of the files, as it stands there, counts as skipped.
skip_by_name()
{
    local why=$1 name
    shift
    while read -r name; do
        echo "SKIPPED $name: $why"
        skipped=$((skipped + 1))
    done < <(grep -ohE '^(async )?def test_[a-z0-9_]+' "$@" | sed 's/.*def //')
}

# run_counted PYTHON LIMIT_S ARGUMENT...: pytest with these arguments, whose tests are counted. Returns its
# exit status; one that is not 0 nor $fine_rc is a failure.
run_counted()
{
    local python=$1 limit_s=$2 report counts rc p f s
    shift 2
    report=$(mktemp)
    timeout --kill-after=10 "$limit_s" "$python" -m pytest -p no:cacheprovider -q \
        --junitxml="$report" "$@"
    rc=$?
    counts=$(python3 - "$report" <<'PY'
import sys
import xml.etree.ElementTree as tree

try:
    suites = list(tree.parse(sys.argv[1]).getroot().iter("testsuite"))
except (OSError, tree.ParseError):
    sys.exit("pytest left no report")
total, failed, skipped = (
    sum(int(suite.get(name, 0)) for suite in suites for name in names)
    for names in (("tests",), ("failures", "errors"), ("skipped",))
)
print(total - failed - skipped, failed, skipped)
PY
    ) || counts="0 1 0"
    rm -f "$report"
    read -r p f s <<<"$counts"
    # A run that was stopped has failed, whatever it reported before.
    [ "$rc" -ne 0 ] && [ "$rc" -ne "${fine_rc:-0}" ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    return "$rc"
}
