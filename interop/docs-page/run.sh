#!/bin/sh
# Opens /docs of a server in a real browser (headless Chromium from npm) and holds what it draws against /openapi.json: every
# operation with its parameters and answers, the search, and a request that is sent from the page. Nothing may be fetched
# from anywhere else, and nothing may go wrong on the console.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
cd ../..
cargo build --quiet --locked -p bosun
work="$(mktemp -d)"
"${CARGO_TARGET_DIR:-target}/debug/bosun" serve --listen 127.0.0.1:0 --data "$work/data" --manifests examples/agents \
    >"$work/out" 2>"$work/log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -q '^listening on' "$work/out"; do
    kill -0 "$server" || { cat "$work/log"; exit 1; }
    sleep 0.1
done
node interop/docs-page/check.mjs "$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$work/out")"
