#!/bin/sh
# Opens /docs of a server in a real browser (headless Chromium from npm) and compares what it draws with /openapi.json: every
# operation with its parameters and answers, the search, and a request that is sent from the page. Nothing may be fetched
# from anywhere else, and nothing may go wrong on the console.
set -eu
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
cd ../..
. interop/server.sh
node interop/docs-page/check.mjs "$address"
