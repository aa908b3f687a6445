#!/bin/sh
# Compares the n8n converter with the real packages of n8n, over the exports in fixtures/n8n-exports or over those in
# the folders that are given. The node types come from the packages n8n-nodes-base and @n8n/n8n-nodes-langchain, of
# which only the types and the code of one node are unpacked.
set -eu
cd "$(dirname "$0")"
BASE=2.41.2
LANGCHAIN=2.41.1
npm ci --no-audit --no-fund --silent --ignore-scripts
cache=node_modules/.cache/n8n
mkdir -p "$cache"
unpack() { # package, version, what to unpack
  target="$cache/$1"
  [ -f "$target/$2" ] && return
  mkdir -p "$target"
  archive=$(cd "$cache" && npm pack --silent "$1@$2")
  shift_version=$2
  package=$1
  shift 2
  tar -xzf "$cache/$archive" -C "$target" --strip-components=1 "$@"
  rm "$cache/$archive"
  : > "$target/$shift_version"
  echo "unpacked $package@$shift_version"
}
unpack n8n-nodes-base $BASE package/dist/types
unpack @n8n/n8n-nodes-langchain $LANGCHAIN package/dist/types package/dist/nodes/tools/ToolHttpRequest
cd ../..
cargo build --quiet -p bosun-convert --example n8n_tools
node interop/n8n/compare.cjs "${CARGO_TARGET_DIR:-target}/debug/examples/n8n_tools" "${@:-fixtures/n8n-exports}"
