#!/bin/sh
# The official SDKs of OpenAI and Anthropic read what `bosun models serve` answers, plain and streamed, with tool calls,
# thoughts and errors: so the stand-in that our own clients are tested with speaks as the real APIs do.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
cd ../..
cargo build --quiet --locked -p bosun --features standin
work="$(mktemp -d)"
"${CARGO_TARGET_DIR:-target}/debug/bosun" models serve --listen 127.0.0.1:0 --script examples/stand-in.yaml >"$work/out" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -qs '^listening on' "$work/out"; do
    kill -0 "$server"
    sleep 0.1
done
node interop/models/check.mjs "$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$work/out")"
