#!/bin/sh
# usage: client.sh PROGRAM URL
# The client under test: a real server of ours with one MCPServer manifest, whose tools are all called once, by queries.
set -eu
program="$1"
url="$2"
work="$(mktemp -d)"
mkdir "$work/agents"
# Credentials that the suite hands out are a secret, and the token endpoint is what an operator would look up.
authorization=""
client_id="$(printf %s "${MCP_CONFORMANCE_CONTEXT:-{\}}" | jq -r '.client_id // empty')"
if [ -n "$client_id" ]; then
    BOSUN_SECRET_PEER_SECRET="$(printf %s "$MCP_CONFORMANCE_CONTEXT" | jq -r '.client_secret // empty')"
    export BOSUN_SECRET_PEER_SECRET
    origin="$(printf %s "$url" | cut -d/ -f1-3)"
    issuer="$(curl -s "$origin/.well-known/oauth-protected-resource/mcp" | jq -r '.authorization_servers[0]')"
    token_url="$(curl -s "$issuer/.well-known/oauth-authorization-server" | jq -r .token_endpoint)"
    authorization=", authorization: {clientCredentials: {tokenUrl: '$token_url', clientId: {value: '$client_id'},
  clientSecret: {valueFrom: {secretKeyRef: {name: peer, key: secret}}}}}"
fi
cat >"$work/agents/peer.yaml" <<MANIFEST
apiVersion: ark.mckinsey.com/v1alpha1
kind: MCPServer
metadata: {name: peer}
spec: {address: {value: "$url"}, timeout: 20s, trustHints: true, elicitation: defaults$authorization}
MANIFEST
touch "$work/out"
"$program" serve --listen 127.0.0.1:0 --data "$work/data" --manifests "$work/agents" >"$work/out" 2>"$work/log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; cat "$work/log" >&2; rm -rf "$work"' EXIT
until grep -q '^listening on' "$work/out"; do
    kill -0 "$server"
    sleep 0.05
done
base="$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$work/out")"

phase=discovering
for _ in $(seq 600); do
    curl -s "$base/v1/mcp-servers/peer" >"$work/state"
    phase="$(jq -r .discovery.phase "$work/state")"
    [ "$phase" = discovering ] || break
    sleep 0.05
done
[ "$phase" = ready ] || { jq -r .status_message "$work/state" >&2; exit 1; }

# The calls that the suite wants; otherwise every tool, with a value for each parameter.
if [ -n "${MCP_CONFORMANCE_CONTEXT:-}" ] && printf %s "$MCP_CONFORMANCE_CONTEXT" | jq -e .toolCalls >/dev/null; then
    printf %s "$MCP_CONFORMANCE_CONTEXT" | jq -c '.toolCalls[] | {original: .name, arguments}' >"$work/calls"
elif [ "${MCP_CONFORMANCE_SCENARIO:-}" = json-schema-2020-12-preservation ]; then
    # One tool is sent the schema of the other, as this client has it.
    curl -s "$base/v1/tools/peer-json-schema-2020-12-tool" |
        jq -c '{original: "json_schema_echo", arguments: {schema: .spec.inputSchema}}' >"$work/calls"
else
    for tool in $(jq -r '.discovery.tools[].name' "$work/state"); do
        curl -s "$base/v1/tools/$tool" | jq -c '{name, arguments: (.spec.inputSchema.properties // {} | map_values(
            if .type == "number" or .type == "integer" then 5 elif .type == "boolean" then true else "x" end))}'
    done >"$work/calls"
fi
failed=0
while read -r call; do
    name="$(printf %s "$call" | jq -r --slurpfile state "$work/state" '
        .original as $original | .name // ($state[0].discovery.tools[] | select(.original == $original) | .name)')"
    printf %s "$call" | jq -c --arg name "$name" '{input: (.arguments | tojson), target: {type: "tool", name: $name}}' |
        curl -s -XPOST "$base/v1/queries?wait=25" -H 'content-type: application/json' -d @- >"$work/answer"
    jq -c '[.status.phase, .status.response.content, .error.message]' "$work/answer" >&2
    [ "$(jq -r .status.phase "$work/answer")" = done ] || failed=1
done <"$work/calls"
exit "$failed"
