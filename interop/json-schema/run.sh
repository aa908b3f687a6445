#!/bin/sh
# Runs the official test suite of JSON Schema against the check of arguments, for draft 7 and draft 2020-12.
# What differs must be listed in differences.json with its reason. The suite is kept next to the build.
set -eu
cd "$(dirname "$0")/../.."
build="${CARGO_TARGET_DIR:-$PWD/target}"
suite="$build/json-schema-suite"
if ! cmp -s interop/json-schema/requirements.txt "$suite/requirements.txt"; then
    rm -rf "$suite"
    mkdir -p "$suite"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary jsonschema --require-hashes \
        --requirement interop/json-schema/requirements.txt --dest "$suite"
    tar -xzf "$suite"/jsonschema-*.tar.gz -C "$suite" --strip-components 1
    cp interop/json-schema/requirements.txt "$suite/requirements.txt"
fi
${CARGO:-cargo} build --quiet -p bosun-core --example json_schema_suite
"$build/debug/examples/json_schema_suite" "$suite/json/tests" interop/json-schema/differences.json
