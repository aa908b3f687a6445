#!/bin/sh
# MCP's own conformance suite against Bosun as a client: all scenarios of both revisions that are scored, except those of
# OAuth's browser flow (the other `auth/*`), and two extensions: `json-schema-2020-12-preservation`, and client credentials
# with a secret. A failure of one fails this script.
set -eu
cd "$(dirname "$0")/../../.."
packages="$(interop/mcp/install.sh conformance)"
node="$(ls "$packages"/node_modules/node-linux-*/bin/node)"
${CARGO:-cargo} build --quiet --locked -p bosun --features standin
program="$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/debug/bosun"
client="$PWD/interop/mcp/conformance/client.sh $program"

passed=0
failed=""
run() {
    # An extension belongs to no revision.
    revision="--spec-version $1"
    [ "$1" != extension ] || revision=""
    # shellcheck disable=SC2086
    if "$node" "$packages/node_modules/.bin/conformance" client --command "$client" --scenario "$2" $revision \
        --timeout 60000 >"${TMPDIR:-/tmp}/mcp-conformance.out" 2>&1; then
        echo "ok      $1 $2"
        passed=$((passed + 1))
    else
        echo "FAILED  $1 $2"
        tail -n 40 "${TMPDIR:-/tmp}/mcp-conformance.out"
        failed="$failed $1/$2"
    fi
}
for scenario in initialize tools_call elicitation-sep1034-client-defaults sse-retry json-schema-2020-12-preservation; do
    run 2025-11-25 "$scenario"
done
for scenario in tools_call request-metadata sep-2322-client-request-state http-standard-headers http-custom-headers http-invalid-tool-headers \
    json-schema-ref-no-deref json-schema-2020-12-preservation; do
    run 2026-07-28 "$scenario"
done
run extension auth/client-credentials-basic
echo "$passed passed;${failed:- none} failed"
[ -z "$failed" ]
