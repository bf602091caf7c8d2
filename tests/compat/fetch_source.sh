#!/bin/bash
# Fetches and unpacks a Debian source package into the cache, and prints the folder.
# Usage: fetch_source.sh PACKAGE
# Uses the mirrors and keys this machine is configured with, but its own package lists: the sources
# are mostly not among those the machine keeps. Needs no root. Exit status 3: out of reach.
set -euo pipefail
package=$1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvasir/sources
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9

unpacked=$cache/$package
if [ -e "$unpacked/.complete" ]; then
    echo "$unpacked"
    exit 0
fi
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/parts" "$work/lists/partial" "$work/archives/partial"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    case $list in
    *.list) [ ! -f "$list" ] || sed -nE 's/^deb(-src)?[[:space:]]/deb-src /p' "$list" |
        sort -u >"$work/parts/$(basename "$list")" ;;
    *.sources) sed -E 's/^Types:.*/Types: deb-src/' "$list" >"$work/parts/$(basename "$list")" ;;
    esac
done
apt_options=(-q -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$work/parts"
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache::archives=$work/archives"
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o "APT::Sandbox::User=$(id -un)"
    -o "Acquire::Retries=2")
cd "$work"
{
    timeout 180 apt-get "${apt_options[@]}" update &&
        timeout 300 apt-get "${apt_options[@]}" source --only-source --download-only "$package" &&
        dpkg-source --no-check -x ./*.dsc "$work/unpacked"
} >"$work/log" 2>&1 || {
    echo "fetch_source.sh: $package cannot be fetched:" >&2
    tail -n 5 "$work/log" >&2
    exit 3
}
rm -rf "$unpacked"
mv "$work/unpacked" "$unpacked"
touch "$unpacked/.complete"
echo "$unpacked"
