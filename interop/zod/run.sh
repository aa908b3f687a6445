#!/bin/sh
# Compares the Zod converter with the real packages: they must still give what
# fixtures/zod/recorded.json says, so must the converter, and both must agree on random schemas and on the tools of
# the TypeScript files of a folder: ours, or the one that is given.
#   run.sh [FOLDER [3|4 [PATTERN]]]   what `zod` means without a package.json, and which texts the files have
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
node record.mjs --check
cd ../..
cargo test --quiet -p bosun-convert --lib zod::tests::corpus
cargo build --quiet -p bosun-convert --example zod_to_json
node interop/zod/random.mjs "${CARGO_TARGET_DIR:-target}/debug/examples/zod_to_json" 4000 1
cargo build --quiet -p bosun-convert --example zod_tools
node interop/zod/folder.mjs "${CARGO_TARGET_DIR:-target}/debug/examples/zod_tools" "${1:-fixtures/zod/tools}" "${2:-3}" "${3:-}"
