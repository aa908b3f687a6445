#!/bin/sh
# Sends generated requests, good and bad, to every route that docs/openapi.json describes (schemathesis from PyPI). No
# answer may be a 5xx, have a status or a type that is not described, or a body of another shape.
set -eu
cd "$(dirname "$0")/../.."

tools="${XDG_CACHE_HOME:-$HOME/.cache}/bosun/schemathesis"
[ -x "$tools/bin/schemathesis" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet 'schemathesis==4.32.5'
}

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
address="$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$work/out")"

"$tools/bin/schemathesis" run "$address/openapi.json" --no-color --seed "${BOSUN_SEED:-20261115}" \
    --max-examples "${BOSUN_EXAMPLES:-300}" --workers 1 --suppress-health-check all --continue-on-failure \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method,use_after_free \
    "$@"
if grep -q panicked "$work/log"; then
    grep panicked "$work/log"
    exit 1
fi
