#!/bin/sh
# Runs every fuzz target for some seconds, from the fixtures as a first corpus.
#   fuzz/run.sh SECONDS [TARGET…]
# Needs cargo-fuzz (cargo install cargo-fuzz --locked) and a C++ compiler; the sanitizer works on the stable toolchain.
set -eu
seconds=${1:?how many seconds for each target?}
shift
cd "$(dirname "$0")"
export RUSTC_BOOTSTRAP=1
fixtures=../fixtures

seed() {
    target=$1
    mkdir -p "corpus/$target"
    shift
    for file in "$@"; do
        [ -f "$file" ] && cp "$file" "corpus/$target/seed-$(printf '%s' "$file" | tr -c 'A-Za-z0-9.\n' '-')"
    done
}
seed definition_check $fixtures/convert/external-tools/*.json $fixtures/convert/ark/*.json $fixtures/convert/openai/*.json
seed argument_check seeds/argument_check/*
seed n8n_export $fixtures/convert/n8n/*.in.json
seed openapi $fixtures/convert/openapi/*.in.*
seed any_format $fixtures/convert/*/*.in.*

[ $# -gt 0 ] || set -- $(cargo fuzz list)
for target in "$@"; do
    echo "== $target"
    cargo fuzz run "$target" -- -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1
done
