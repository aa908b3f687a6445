#!/bin/sh
# Runs the scenarios against the real n8n: run.sh PROGRAM, where PROGRAM is a bosun with the feature `standin`. ARK_NODES may
# be the folder of a built `n8n-nodes-ark`, whose nodes are then run, too.
set -eu
BOSUN="$(realpath "$1")"
cd "$(dirname "$0")/.."
npm run --silent build
(cd e2e/browser && { [ -e node_modules/.package-lock.json ] || npm ci --no-audit --no-fund --silent; })
installed="$(e2e/install.sh)"
eval "$installed"
export BOSUN NODE N8N N8N_VERSION="${N8N_VERSION:-2.41.1}"
# One after the other: the files share the machine with two servers each. After a failed start, servers still run: their tests are ended.
exec node --test --test-force-exit --test-concurrency=1 --test-reporter=spec e2e/*.test.mjs
