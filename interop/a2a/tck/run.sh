#!/bin/sh
# usage: run.sh <checkout of a2aproject/a2a-tck, branch 1.0-dev> [arguments of run_tck.py]
# Runs the compatibility kit against a server with an agent of its own. The kit is not part of the project.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
kit="${1:?the checkout of a2aproject/a2a-tck}"
shift
root="$here/../../.."
program="${BOSUN_PROGRAM:-${CARGO_TARGET_DIR:-$root/target}/debug/bosun}"
place="$(mktemp -d)"
started=""
trap 'kill $started 2>/dev/null; rm -rf "$place"' EXIT
[ -x "$kit/venv/bin/python" ] || { python3 -m venv "$kit/venv" && "$kit/venv/bin/pip" install --quiet "$kit"; }
"$program" serve --listen 127.0.0.1:0 --data "$place/data" --manifests "$here/agents" --a2a-errors 1.0.0 > "$place/out" &
started="$!"
until server="$(sed -n 's/^listening on \([^ ]*\).*/\1/p' "$place/out")" && [ -n "$server" ]; do sleep 0.1; done
port="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
python3 "$here/proxy.py" "$port" "$server" &
started="$started $!"
cd "$kit"
./venv/bin/python run_tck.py --sut-host "http://127.0.0.1:$port" "$@"
