#!/bin/sh
# usage: install.sh peers|conformance
# Installs the packages of a folder at their pinned versions into a cache outside the source tree, once for each set of
# versions, and prints where they are.
set -eu
here="$(cd "$(dirname "$0")" && pwd)/$1"
cache="${BOSUN_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bosun-tests}"
pins="$(cat "$here/package-lock.json" "$here/requirements.txt" 2>/dev/null | cksum | tr -d ' ')"
place="$cache/mcp-$1-$pins"
mkdir -p "$cache"
# Tests run in many processes at once.
exec 9>"$place.lock"
flock 9
if [ ! -e "$place/complete" ]; then
    rm -rf "$place"
    mkdir "$place"
    cp "$here/package.json" "$here/package-lock.json" "$place"
    (cd "$place" && npm ci --no-audit --no-fund --silent) >&2
    if [ -e "$here/requirements.txt" ]; then
        python3 -m venv "$place/venv" >&2
        "$place/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
    fi
    touch "$place/complete"
fi
echo "$place"
