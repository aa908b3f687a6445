#!/bin/sh
# Nango's official client reads what `bosun nango serve` answers: so the stand-in that the runner of Nango tools is tested with
# speaks as the real API does.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
cd ../..
cargo build --quiet --locked -p bosun --features standin
work="$(mktemp -d)"
"${CARGO_TARGET_DIR:-target}/debug/bosun" nango serve --listen 127.0.0.1:0 --state examples/nango/state.json >"$work/out" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -qs '^listening on' "$work/out"; do
    kill -0 "$server"
    sleep 0.1
done
node interop/nango/check.mjs "$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$work/out")"
