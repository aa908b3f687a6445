#!/bin/sh
# Fuzzes the given targets, or all of them, one after the other, and reports the findings of each.
#   FUZZ_SECONDS=600 fuzz/run.sh [TARGET…]
# The first corpus is made of fixtures/; what the fuzzer adds to it, and what it finds, is stored next to
# the build, in target/fuzz or wherever FUZZ_DATA points. Needs cargo-fuzz and a C++ compiler; the
# sanitizer works on the stable toolchain. Fails if a target crashed, hung or took too much memory.
set -eu
seconds=${FUZZ_SECONDS:-600}
cd "$(dirname "$0")"
build=${CARGO_TARGET_DIR:-$PWD/../target}
data=${FUZZ_DATA:-$build/fuzz}
fixtures=../fixtures
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$build"

# One file of the corpus for each file given, under a name that shows its origin.
seed() {
    target=$1
    shift
    for file in "$@"; do
        [ -f "$file" ] && cp "$file" "$data/$target/corpus/seed-$(printf '%s' "$file" | tr -c 'A-Za-z0-9.\n' '-')"
    done
}

# A dictionary of the formats' keywords: the fuzzer inserts them where chance would take years.
words() {
    cat "$@" | grep -aoE '[$@]?[A-Za-z_][A-Za-z0-9_./-]{2,30}' | sort | uniq -c | sort -rn | head -800 \
        | awk '{ print "\"" $2 "\"" }'
}

for target in $(cargo fuzz list); do
    mkdir -p "$data/$target/corpus" "$data/$target/artifacts"
done
seed definition_check $fixtures/convert/external-tools/*.json $fixtures/convert/ark/*.json $fixtures/convert/openai/*.json
words $fixtures/convert/*/*.json >"$data/definition_check/words"
for tool in calculator http_request create_order; do
    for case in valid invalid; do
        { jq -cj ".$tool" $fixtures/validation/tools.json; printf '\0'; jq -rj ".$tool.$case" $fixtures/validation/args.json; } \
            >"$data/argument_check/corpus/seed-$tool-$case"
    done
done
seed argument_check seeds/argument_check/*
{ words $fixtures/validation/*.json seeds/argument_check/*; sed -n 's/^    \("[$A-Za-z]*"\),$/\1/p' ../crates/core/src/schema/keyword.rs; } \
    >"$data/argument_check/words"
seed zod_source $fixtures/zod/tools/*.ts $fixtures/zod/tools/*.js
jq -r '.[] | [.id, .source] | @tsv' $fixtures/zod/corpus.json | while IFS="$(printf '\t')" read -r id source; do
    printf '%b' "$source" >"$data/zod_source/corpus/seed-$id"
done
words $fixtures/zod/tools/*.ts $fixtures/zod/tools/*.js $fixtures/zod/corpus.json >"$data/zod_source/words"
seed n8n_export $fixtures/convert/n8n/*.in.json
words $fixtures/convert/n8n/*.in.json >"$data/n8n_export/words"
seed openapi $fixtures/convert/openapi/*.in.*
words $fixtures/convert/openapi/*.in.* >"$data/openapi/words"
seed tool_lists $fixtures/convert/mcp/*.in.* $fixtures/convert/openai*/*.in.* $fixtures/convert/anthropic/*.in.* $fixtures/convert/gemini/*.in.* \
    $fixtures/convert/langchain/*.in.* $fixtures/convert/ark/*.in.* $fixtures/convert/external-tools/*.in.*
words $fixtures/convert/mcp/*.in.* $fixtures/convert/openai*/*.in.* $fixtures/convert/gemini/*.in.* >"$data/tool_lists/words"
seed any_format $fixtures/convert/*/*.in.* $fixtures/zod/tools/*.ts
words $fixtures/convert/*/*.in.* >"$data/any_format/words"

[ $# -gt 0 ] || set -- $(cargo fuzz list)
# More codegen units than cargo-fuzz would use: the build dominates the waiting time.
cargo fuzz build --codegen-units 16
failed=0
for target in "$@"; do
    log="$data/$target/log"
    rm -f "$data/$target/artifacts"/*
    "$build/x86_64-unknown-linux-gnu/release/$target" "$data/$target/corpus" -artifact_prefix="$data/$target/artifacts/" \
        -dict="$data/$target/words" -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=1 >"$log" 2>&1 || true
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
    coverage=$(grep -aoE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)
    found=$(find "$data/$target/artifacts" -type f ! -name 'slow-unit-*' | wc -l)
    slow=$(find "$data/$target/artifacts" -type f -name 'slow-unit-*' | wc -l)
    echo "$target: ${runs:-0} runs, ${coverage:-no coverage}, peak ${memory:-?} MB, $slow slow, $found crashes"
    if [ "$found" -gt 0 ] || [ -z "$runs" ]; then
        failed=1
        tail -n 40 "$log"
        echo "see $log and $data/$target/artifacts"
    fi
done
exit $failed
