//! Hostile files, one test for each kind: the program reports their faults, within a minute and a gigabyte, and never
//! by a panic.
//!
//! The limits are the operating system's: a process that needs more is ended by it, and fails here.

use std::{fmt::Write, fs, path::Path, process::Command};

use serde_json::json;

use crate::program::program;

/// A bound on time for a build without optimisation on a busy machine.
const SECONDS: u32 = 60;
/// Of address space, which is more than what is used.
const KIBIBYTES: u32 = 1024 * 1024;

/// Runs the program in `folder` within the bounds; returns its exit code and its standard error.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let script = format!("ulimit -v {KIBIBYTES}; exec timeout {SECONDS} \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, "sh"])
        .arg(program())
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let output_text = String::from_utf8(output.stderr).unwrap();
    assert!(!output_text.contains("panicked"), "{output_text}");
    (output.status.code().expect("not ended by a signal"), output_text)
}

/// Every command that reads such a file must say this of it.
#[track_caller]
fn refuses(name: &str, bytes: &[u8], expect: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), bytes).unwrap();
    for arguments in [
        &["check", name][..],
        &["convert", name, "--to", "openai"],
        &["convert", name, "--to", "ark-manifest"],
        &["tools", "list", "--catalog", name],
    ] {
        let (code, output_text) = run(folder.path(), arguments);
        assert_eq!(code, 1, "{arguments:?}: {output_text}");
        assert!(output_text.contains(expect), "{arguments:?}: {output_text}");
    }
}

/// A list with one tool that has this schema.
fn with_schema(schema: &serde_json::Value) -> Vec<u8> {
    json!([{"name": "a", "description": "A", "parameters": schema, "executionMode": "external"}]).to_string().into()
}

#[test]
fn a_truncated_file() {
    let whole = br#"{"tools": [{"name": "send_email", "description": "Send", "providerConfigKey": "google-mail"}]}"#;
    for length in [1, 11, 20, 40, 70, whole.len() - 1] {
        refuses("tools.json", &whole[..length], "error[syntax_error]: not valid JSON: EOF while parsing");
    }
    refuses("tools.yaml", b"kind: Tool\nmetadata: {name: a", "error[syntax_error]: not valid YAML");
}

#[test]
fn invalid_utf_8() {
    refuses("tools.json", b"[{\"name\": \"\xc3\x28\"}]", "tools.json:1:12: error[not_utf8]: this is not UTF-8 text");
    refuses("tools.yaml", b"kind: Tool\nname: \xff\xff\n", "tools.yaml:2:7: error[not_utf8]");
}

#[test]
fn a_bomb_of_yaml_anchors() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..40 {
        writeln!(bomb, "a{level}: &a{level} [{}]", vec![format!("*a{}", level - 1); 9].join(", ")).unwrap();
    }
    refuses("tools.yaml", bomb.as_bytes(), "its aliases expand to more than 250000 values");
}

#[test]
fn a_hundred_megabytes_of_json() {
    let tool = br#"{"name":"tool","description":"A tool of a very long list","parameters":{"type":"object"}},"#;
    let mut large = b"[".to_vec();
    while large.len() < 100_000_000 {
        large.extend_from_slice(tool);
    }
    refuses("tools.json", &large, "error[file_too_large]: this is larger than 67108864 bytes");
}

#[test]
fn millions_of_small_values() {
    let mut values = b"[0".to_vec();
    values.extend(b",0".repeat(30_000_000));
    values.push(b']');
    refuses("tools.json", &values, "error[syntax_error]: not valid JSON: more than 10000000 values");
}

#[test]
fn a_depth_of_ten_thousand() {
    refuses("tools.json", "[".repeat(10_000).as_bytes(), "nested more than 126 levels deep");
    refuses("tools.json", "{\"a\":".repeat(10_000).as_bytes(), "nested more than 126 levels deep");
    refuses("tools.yaml", format!("a: {}", "[".repeat(10_000)).as_bytes(), "nested more than 96 levels deep");
    let call = "z.array(".repeat(10_000) + "z.string()" + &")".repeat(10_000);
    let source =
        format!("import {{ z }} from 'zod';\nexport const t = {{ name: 't', description: 'd', schema: {call} }};");
    refuses("tools.ts", source.as_bytes(), "tools.ts:2:");
}

#[test]
fn a_cyclic_reference() {
    refuses(
        "tools.json",
        &with_schema(&json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {
            "x": {"$ref": "#/$defs/y"}, "y": {"anyOf": [{"$ref": "#/$defs/x"}]},
        }})),
        "error[reference_endless]: reference leads back to itself without descending into the value",
    );
    let api = json!({
        "openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://example.com"}],
        "paths": {"/a": {"get": {"operationId": "a", "summary": "A", "parameters": [{"$ref": "#/components/parameters/p"}]}}},
        "components": {"parameters": {"p": {"$ref": "#/components/parameters/q"}, "q": {"$ref": "#/components/parameters/p"}}},
    });
    refuses("api.json", api.to_string().as_bytes(), "api.json:1:");
}

/// A schema that contains itself is not a fault: that of a tree does.
#[test]
fn a_recursive_schema_is_not_a_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
    fs::write(folder.path().join("tools.json"), with_schema(&tree)).unwrap();
    let (code, output_text) = run(folder.path(), &["check", "tools.json"]);
    assert_eq!((code, output_text.as_str()), (0, "1 file, 0 errors, 0 warnings\n"));
}

#[test]
fn a_catastrophic_pattern() {
    let folder = tempfile::tempdir().unwrap();
    let properties = json!({
        // In linear time, and by backtracking within bounds.
        "linear": {"type": "string", "pattern": "^(a+)+$"},
        "bounded": {"type": "string", "pattern": "^(?:a(?=[ab])|aa(?=[ab]))+c$"},
    });
    fs::write(folder.path().join("tools.json"), with_schema(&json!({"type": "object", "properties": properties})))
        .unwrap();
    let text = format!("{}!", "a".repeat(4_000));
    let arguments = json!({"linear": text, "bounded": text}).to_string();
    let (code, output_text) = run(folder.path(), &["tools", "validate", "a", &arguments, "--catalog", "tools.json"]);
    assert_eq!(code, 1);
    assert!(output_text.contains("Parameter linear must match the pattern ^(a+)+$"), "{output_text}");
    assert!(output_text.contains("Parameter bounded is too long or too complex for the pattern"), "{output_text}");

    refuses(
        "tools.json",
        &with_schema(&json!({"type": "object", "properties": {"a": {"pattern": "(a{1000}){1000}"}}})),
        "error[pattern_invalid]: pattern `(a{1000}){1000}` is not a regular expression of an allowed size",
    );
}

#[test]
fn a_directory() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tools")).unwrap();
    let (code, output_text) = run(folder.path(), &["convert", "tools", "--to", "ark"]);
    assert_eq!((code, output_text.as_str()), (2, "error: `tools` is a directory, and a file is needed here\n"));
    // Where folders are taken, an empty one holds nothing wrong.
    let (code, output_text) = run(folder.path(), &["check", "tools"]);
    assert_eq!((code, output_text.as_str()), (0, "0 files, 0 errors, 0 warnings\n"));
}

#[test]
fn a_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["check", "nowhere.json"][..],
        &["convert", "nowhere.json", "--to", "ark"],
        &["tools", "list", "--catalog", "nowhere.json"],
    ] {
        let (code, output_text) = run(folder.path(), arguments);
        assert_eq!(
            (code, output_text.as_str()),
            (2, "error: cannot read `nowhere.json`: No such file or directory (os error 2)\n")
        );
    }
}

#[test]
fn an_unknown_format() {
    refuses("tools.json", br#"{"colour": "red"}"#, "error[unknown_format]: this is an object with `colour`");
    let folder = tempfile::tempdir().unwrap();
    let (code, output_text) = run(folder.path(), &["convert", "tools.json", "--to", "colour"]);
    assert_eq!(code, 2);
    assert!(output_text.contains("invalid value 'colour' for '--to <FORMAT>'"), "{output_text}");
}
