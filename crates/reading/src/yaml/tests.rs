use std::path::Path;

use serde_json::json;

use super::parse;
use crate::{Data, Fault, Node, Report, SourcePlace, Syntax};

fn document(text: &str) -> Node {
    let mut documents = parse(Path::new("test.yaml"), text).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

#[track_caller]
fn fault_of(file: &str, text: &str) -> Fault {
    parse(Path::new(file), text).unwrap_err().into_iter().next().unwrap()
}

#[track_caller]
fn check_json(text: &str, expect: &serde_json::Value) {
    assert_eq!(document(text).to_json(), *expect);
}

#[track_caller]
fn check_syntax(text: &str, line: usize, column: usize, message: &str) {
    let fault = fault_of("test.yaml", text);
    assert_eq!(fault.code, "yaml_syntax");
    assert_eq!(fault.place, Some(SourcePlace { line, column }), "{fault}");
    assert!(fault.message.contains(message), "{fault}");
    assert!(!fault.message.contains("at line"), "{fault}");
}

#[test]
fn scalars_follow_the_core_schema_of_yaml_1_2() {
    check_json(
        "[x, yes, no, on, true, null, ~, 1.5, -3, 1e3, '5', \"6\", 2024-01-01, '']",
        &json!(["x", "yes", "no", "on", true, null, null, 1.5, -3, 1000.0, "5", "6", "2024-01-01", ""]),
    );
    check_json("a: |\n  one\n  two\nb: >\n  one\n  two\n", &json!({"a": "one\ntwo\n", "b": "one two\n"}));
    check_json("a: 18446744073709551615", &json!({"a": 18_446_744_073_709_551_615_u64}));
}

#[test]
fn every_value_knows_its_place() {
    let Data::Map(members) = document("first: 1\nsecond:\n  - a\n  - third: x\n").data else { panic!() };
    assert_eq!(members[1].place, SourcePlace { line: 2, column: 1 });
    let Data::List(items) = &members[1].value.data else { panic!() };
    assert_eq!(items[0].place, SourcePlace { line: 3, column: 5 });
    assert_eq!(items[1].place, SourcePlace { line: 4, column: 5 });
}

#[test]
fn several_documents_are_read_and_empty_ones_left_out() {
    let documents = parse(Path::new("test.yaml"), "---\na: 1\n---\n# nothing\n---\nb: 2\n...\n").unwrap();
    assert_eq!(documents.iter().map(Node::to_json).collect::<Vec<_>>(), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(parse(Path::new("test.yaml"), "# nothing\n"), Ok(Vec::new()));
}

#[test]
fn broken_yaml_names_the_place() {
    check_syntax("a: 1\nb: [1\n", 2, 4, "unclosed bracket");
    check_syntax("a: b: c\n", 1, 5, "mapping values are not allowed");
    check_syntax("a: 1\na: 2\n", 2, 1, "`a` appears twice");
    check_syntax("a: *nobody\n", 1, 4, "");
    check_syntax("a: .inf\n", 1, 4, "");
}

#[test]
fn keys_that_are_the_same_text_are_the_same_key() {
    assert!(parse(Path::new("test.yaml"), "1: a\n\"1\": b\n").is_err());
}

#[test]
fn a_small_file_does_not_become_a_large_tree() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(",");
        text += &format!("a{level}: &a{level} [{items}]\n");
    }
    let fault = fault_of("bomb.yaml", &text);
    assert!(fault.message.contains("more than a manifest may hold"), "{fault}");
    let deep = "[".repeat(100) + &"]".repeat(100);
    assert!(parse(Path::new("deep.yaml"), &deep).is_err());
    let long = format!("a: {}", "x".repeat(super::LARGEST_FILE));
    assert_eq!(fault_of("long.yaml", &long).code, "file_too_large");
}

#[test]
fn a_file_with_the_tools_of_a_large_api_is_read() {
    let tool = format!("kind: Tool\nspec: {{description: '{}'}}\n", "x".repeat(1_024));
    let text = vec![tool.as_str(); 1_500].join("---\n");
    assert_eq!(parse(Path::new("api.yaml"), &text).unwrap().len(), 1_500);
}

#[test]
fn every_fault_is_reported_and_reading_continues() {
    let node = document("name: 5\nspec:\n  size: big\n  colour: red\nextra: 1\n");
    let report = Report::of_file(Path::new("test.yaml"), Syntax::Yaml);
    let fields = report.fields(&node, "Thing").unwrap();
    assert!(fields.text("name").is_none());
    let spec = fields.required_fields("spec", "").unwrap();
    assert_eq!(spec.whole_number("size"), None);
    assert!(spec.required_text("shape", "for instance `round`").is_none());
    spec.unserved(&["colour"], "everything is grey");
    spec.finish();
    fields.finish();
    let faults: Vec<_> = report.into_faults().iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "test.yaml:1:7: `name` of Thing must be text, not a number [wrong_type]\n  put it in quotes",
            "test.yaml:3:9: `spec.size` of Thing must be a whole number, not text [wrong_type]",
            "test.yaml:3:3: `spec.shape` of Thing is missing [missing_field]\n  for instance `round`",
            "test.yaml:4:3: `spec.colour` of Thing is not served by this version [unsupported_field]\n  everything is grey",
            "test.yaml:5:1: Thing has no field `extra` [unknown_field]\n  fields here: name, spec",
        ]
    );
}
