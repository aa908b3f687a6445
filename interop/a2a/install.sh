#!/bin/sh
# usage: install.sh
# Installs the official SDKs of A2A at their pinned versions into a cache outside the source tree, once for each set of
# versions, and prints where they are.
set -eu
here="$(cd "$(dirname "$0")" && pwd)/peers"
cache="${BOSUN_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bosun-tests}"
pins="$(cat "$here/package.json" "$here/requirements.txt" | cksum | tr -d ' ')"
place="$cache/a2a-peers-$pins"
mkdir -p "$cache"
# Tests run in many processes at once.
exec 9>"$place.lock"
flock 9
if [ ! -e "$place/complete" ]; then
    rm -rf "$place"
    mkdir "$place"
    cp "$here/package.json" "$place"
    (cd "$place" && npm install --no-audit --no-fund --silent --no-package-lock) >&2
    python3 -m venv "$place/venv" >&2
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
    touch "$place/complete"
fi
echo "$place"
