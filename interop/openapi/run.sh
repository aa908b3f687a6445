#!/bin/sh
# Sends generated requests, good and bad, to every route that docs/openapi.json describes (schemathesis from PyPI). No
# answer may be a 5xx, have a status or a type that is not described, or a body of another shape. A request may wait for a
# minute for what is to happen. Requests follow the description alone: schemathesis would also learn from the messages of
# refusals, and takes a missing object for a missing text, which no value can be at the same time.
set -eu
cd "$(dirname "$0")/../.."

tools="${XDG_CACHE_HOME:-$HOME/.cache}/bosun/schemathesis"
[ -x "$tools/bin/schemathesis" ] || {
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet 'schemathesis==4.32.5'
}

. interop/server.sh

printf '[phases.fuzzing.error-feedback]\nenabled = false\n' >"$work/schemathesis.toml"
"$tools/bin/schemathesis" --config-file "$work/schemathesis.toml" run "$address/openapi.json" --no-color --seed "${BOSUN_SEED:-20261115}" \
    --max-examples "${BOSUN_EXAMPLES:-300}" --workers 1 --request-timeout 70 --suppress-health-check all --continue-on-failure \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method,use_after_free \
    "$@"
if grep -q panicked "$work/log"; then
    grep panicked "$work/log"
    exit 1
fi
