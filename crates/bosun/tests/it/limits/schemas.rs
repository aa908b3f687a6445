//! What the tools of a request and their schemas may have, at the ceiling and above it.

use std::sync::Arc;

use bosun_core::{
    Schema,
    ceiling::{
        ENUM_VALUES, PATTERN_BYTES, REQUEST_PATTERN_BYTES, SCHEMA_BYTES, SCHEMA_DEPTH, SCHEMA_PATTERN_BYTES,
        SUBSCHEMAS, TOOL_DESCRIPTION_BYTES, TOOL_NAME_LENGTH, TOOLS,
    },
};
use serde_json::{Map, Value, json};

use super::site::Site;

fn with_parameters(parameters: Value) -> Value {
    json!([{"name": "t", "description": "A tool", "parameters": parameters}])
}

/// The first is accepted, and the second is refused.
async fn check(tools: impl Fn(usize) -> Value, ceiling: usize, fault: &str) {
    let site = Site::open().await;
    site.bring(tools(ceiling)).await.is_taken();
    site.bring(tools(ceiling + 1)).await.has_fault(fault);
}

#[tokio::test]
async fn tools_of_a_request() {
    let tools = |count: usize| (0..count).map(|number| json!({"name": format!("t{number}")})).collect();
    check(tools, TOOLS, "too_big").await;
}

#[tokio::test]
async fn the_name_of_a_tool() {
    check(|length| json!([{"name": "ü".repeat(length)}]), TOOL_NAME_LENGTH, "too_big").await;
}

#[tokio::test]
async fn the_description_of_a_tool() {
    let described = |bytes: usize| json!([{"name": "t", "description": "d".repeat(bytes)}]);
    check(described, TOOL_DESCRIPTION_BYTES, "too_big").await;
}

#[tokio::test]
async fn a_schema() {
    // The JSON around the text counts, too.
    let described = |bytes: usize| with_parameters(json!({"type": "object", "description": "d".repeat(bytes - 35)}));
    check(described, SCHEMA_BYTES, "schema_too_large").await;
}

/// A body may not be as deep as a schema: this one is read from a file.
#[test]
fn the_depth_of_a_schema() {
    let compile = |levels: usize| {
        let schema = (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
        Schema::compile(&Arc::new(schema)).map(|_| ()).map_err(|error| error.fault.code())
    };
    assert_eq!(compile(SCHEMA_DEPTH), Ok(()));
    assert_eq!(compile(SCHEMA_DEPTH + 1), Err("schema_too_deep"));
}

#[tokio::test]
async fn subschemas() {
    // The schema itself is one.
    let with = |count: usize| {
        let properties: Map<_, _> = (1..count).map(|number| (format!("p{number}"), json!({}))).collect();
        with_parameters(json!({"type": "object", "properties": properties}))
    };
    check(with, SUBSCHEMAS, "schema_too_many_subschemas").await;
}

fn with_property(property: Value) -> Value {
    with_parameters(json!({"type": "object", "properties": {"p": property}}))
}

#[tokio::test]
async fn values_of_an_enum() {
    let with = |count: usize| with_property(json!({"enum": (0..count).collect::<Vec<_>>()}));
    check(with, ENUM_VALUES, "enum_too_long").await;
}

#[tokio::test]
async fn a_pattern() {
    check(|bytes| with_property(json!({"pattern": "a".repeat(bytes)})), PATTERN_BYTES, "pattern_too_long").await;
}

/// The largest count of something in an accepted schema.
fn most(schema: impl Fn(usize) -> Value) -> usize {
    let is_taken = |count: &usize| Schema::compile(&Arc::new(schema(*count))).is_ok();
    let mut taken = 1;
    for step in [512, 256, 128, 64, 32, 16, 8, 4, 2, 1] {
        taken = Some(taken + step).filter(is_taken).unwrap_or(taken);
    }
    taken
}

#[tokio::test]
async fn a_compiled_pattern() {
    let property = |repeated: usize| json!({"pattern": format!("[^b]{{{repeated}}}")});
    let most = most(property);
    assert!((100..1_024).contains(&most), "{most}");
    check(|repeated| with_property(property(repeated)), most, "pattern_invalid").await;
}

fn with_patterns(first: usize, count: usize) -> Value {
    let property = |number| (format!("p{number}"), json!({"pattern": format!("z{number}[^b]{{300}}")}));
    json!({"type": "object", "properties": (first..first + count).map(property).collect::<Map<_, _>>()})
}

#[tokio::test]
async fn all_patterns_of_a_schema() {
    let most = most(|count| with_patterns(0, count));
    let bytes = Schema::compile(&Arc::new(with_patterns(0, most))).expect("a schema").pattern_bytes();
    assert!((SCHEMA_PATTERN_BYTES / 2..=SCHEMA_PATTERN_BYTES).contains(&bytes), "{bytes}");
    check(|count| with_parameters(with_patterns(0, count)), most, "patterns_too_large").await;
}

#[tokio::test]
async fn all_patterns_of_a_request() {
    let bytes = Schema::compile(&Arc::new(with_patterns(0, 8))).expect("a schema").pattern_bytes();
    let tools = |count: usize| {
        let tool = |number: usize| json!({"name": format!("t{number}"), "parameters": with_patterns(100 * number, 8)});
        (0..count).map(tool).collect()
    };
    check(tools, REQUEST_PATTERN_BYTES / bytes, "patterns_too_large").await;
    // Half a megabyte of them was worth gigabytes.
    Site::open().await.bring(tools(900)).await.has_fault("patterns_too_large");
}
