#!/bin/sh
# usage: run.sh
# The official clients of A2A (Python, JavaScript, Rust) converse with a server, with client tools, over JSON-RPC and
# HTTP+JSON, blocking and as a stream. Each prints the agent's answer once for each way.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../.."
program="${BOSUN_PROGRAM:-${CARGO_TARGET_DIR:-$root/target}/debug/bosun}"
sdks="$("$here/install.sh")"
place="$(mktemp -d)"
server_pid=""
trap 'kill $server_pid 2>/dev/null; rm -rf "$place"' EXIT
"$program" serve --listen 127.0.0.1:0 --data "$place/data" --manifests "$root/examples/agents" > "$place/out" &
server_pid="$!"
until server="$(sed -n 's/^listening on \([^ ]*\).*/\1/p' "$place/out")" && [ -n "$server" ]; do sleep 0.1; done
check() {
  name="$1" answers="$2"
  shift 2
  "$@" "$server" > "$place/answers"
  [ "$(grep -cx '25% of 8,432 is 2,108' "$place/answers")" = "$answers" ] || { cat "$place/answers"; exit 1; }
  echo "$name: $answers of $answers"
}
check "Python a2a-sdk" 4 "$sdks/venv/bin/python" "$here/peers/client.py"
# Modules are looked up from where the script is.
cp "$here/peers/client.mjs" "$sdks/client.mjs"
check "JavaScript @a2a-js/sdk" 4 node "$sdks/client.mjs"
check "Rust a2a-client-lf" 4 "$("$here/install.sh" rust)"
