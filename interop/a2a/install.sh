#!/bin/sh
# usage: install.sh [rust]
# Installs the official SDKs of A2A for Python and JavaScript at their pinned versions into a cache outside the source tree,
# once for each set of versions, and prints where they are. With `rust`, builds the client on the SDK for Rust there instead,
# and prints the path of the program: the SDK's rustls brings a C library (aws-lc), and its features would be those of every
# crate of a workspace that has it, so it is no dependency of the tests.
set -eu
root="$(cd "$(dirname "$0")" && pwd)"
here="$root/peers"
cache="${BOSUN_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bosun-tests}"
if [ "${1:-}" = rust ]; then
    pins="$(cat "$root/rust/Cargo.lock" "$root/rust/Cargo.toml" "$root/rust/src/main.rs" | cksum | tr -d ' ')"
    CARGO_TARGET_DIR="$cache/a2a-rust-$pins"
    export CARGO_TARGET_DIR
    "${CARGO:-cargo}" build --quiet --locked --manifest-path "$root/rust/Cargo.toml" >&2
    echo "$CARGO_TARGET_DIR/debug/a2a-interop"
    exit
fi
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
