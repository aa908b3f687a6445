#!/bin/sh
# Sends the request of every http tool that OpenAPI descriptions become, with arguments made from its schema, and has a
# second reader of the descriptions, openapi-core or bravado-core, say what it received. Over our own descriptions, or over the files and
# folders that are given.
set -eu
cd "$(dirname "$0")/../.."
build="${CARGO_TARGET_DIR:-$PWD/target}"
venv="$build/openapi-docs-venv"
if ! cmp -s interop/openapi-docs/requirements.txt "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement interop/openapi-docs/requirements.txt
    cp interop/openapi-docs/requirements.txt "$venv/requirements.txt"
fi
${CARGO:-cargo} build --quiet -p bosun
"$venv/bin/python" interop/openapi-docs/compare.py "$build/debug/bosun" "${@:-fixtures/convert/openapi}"
