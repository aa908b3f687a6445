#!/bin/sh
# Compares the Zod converter with the real packages: they must still give what
# fixtures/zod/recorded.json says, so must the converter, and both must agree on random schemas.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
node record.mjs --check
cd ../..
cargo test --quiet -p bosun-convert --lib zod::tests::corpus
cargo build --quiet -p bosun-convert --example zod_to_json
node interop/zod/random.mjs "${CARGO_TARGET_DIR:-target}/debug/examples/zod_to_json" 4000 1
