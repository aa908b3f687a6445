#!/bin/sh
# Compares the Zod converter with the real packages, in three steps: the packages are installed, they
# must still give what fixtures/zod/recorded.json says, and so must the converter.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
node record.mjs --check
cd ../..
cargo test --quiet -p bosun-convert --lib zod::tests::corpus
