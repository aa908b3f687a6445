#!/bin/sh
# usage: run.sh <checkout of a2aproject/a2a-tck, branch 1.0-dev or 0.3.x> [arguments of run_tck.py]
# Runs a compatibility kit against a server with agents of its own; over gRPC too, if GRPC=1 and the program has it.
# A2A_ERRORS is the edition of 1.0 that maps errors: 1.0.0, which the kit expects, or 1.0.1. The kit is not part of the
# project.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
kit="$(cd "${1:?the checkout of a2aproject/a2a-tck}" && pwd)"
shift
root="$here/../../.."
program="${BOSUN_PROGRAM:-${CARGO_TARGET_DIR:-$root/target}/debug/bosun}"
place="$(mktemp -d)"
started=""
trap 'kill $started 2>/dev/null; rm -rf "$place"' EXIT
[ -x "$kit/venv/bin/python" ] || { python3 -m venv "$kit/venv" && "$kit/venv/bin/pip" install --quiet "$kit"; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
model="$(free_port)"
port="$(free_port)"
grpc="${GRPC:+$(free_port)}"
grpc_proxy="${GRPC:+$(free_port)}"
if grep -q -e --sut-url "$kit/run_tck.py"; then
  version=0.3 where="--sut-url http://127.0.0.1:$port/a2a"
  [ "$#" -gt 0 ] || set -- --category mandatory --transports jsonrpc,rest
else
  version=1.0 where="--sut-host http://127.0.0.1:$port"
  [ "$#" -gt 0 ] || set -- --transport "jsonrpc,http_json${GRPC:+,grpc}"
fi
python3 "$here/model.py" "$model" "$version" &
started="$!"
mkdir "$place/agents"
sed "s|MODEL_PORT|$model|; s|FOLDER|$here|" "$here/agents/agent.yaml" > "$place/agents/agent.yaml"
# The kit receives push notifications on this machine.
"$program" serve --listen 127.0.0.1:0 ${grpc:+--grpc-listen "127.0.0.1:$grpc"} --data "$place/data" \
  --manifests "$place/agents" --a2a-errors "${A2A_ERRORS:-1.0.0}" --allow-private 127.0.0.1 --allow-private localhost \
  > "$place/out" &
started="$started $!"
until server="$(sed -n 's/^listening on \(http[^ ]*\).*/\1/p' "$place/out")" && [ -n "$server" ]; do sleep 0.1; done
python3 "$here/proxy.py" "$port" "$server" "$version" $grpc_proxy &
started="$started $!"
if [ -n "$grpc" ]; then
  "$kit/venv/bin/python" "$here/grpc_proxy.py" "$grpc_proxy" "127.0.0.1:$grpc" "$kit" &
  started="$started $!"
fi
cd "$kit"
# shellcheck disable=SC2086 # two words
./venv/bin/python run_tck.py $where "$@"
