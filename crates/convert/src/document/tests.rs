use serde_json::json;

use super::*;

#[track_caller]
fn fails(text: &str, code: &str, place: &str, part: &str) {
    let error = Document::read(text).unwrap_err();
    assert_eq!((error.code(), error.place().to_string().as_str()), (code, place), "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn json_may_have_comments() {
    let text =
        "// config/tool-config.json\n{ /* one\n two */ \"a\": \"// no comment\", // end\n \"b\": [1, 2.5, null] }";
    let document = Document::read(text).unwrap();
    assert_eq!(document.value(), &json!({"a": "// no comment", "b": [1, 2.5, null]}));
    let places = document.places();
    assert_eq!(places.find("").to_string(), "2:1");
    assert_eq!(places.find("a").to_string(), "3:14");
    assert_eq!(places.find("b[1]").to_string(), "4:11");
    assert_eq!(places.find("b[7].c").to_string(), "4:7", "the nearest value around it");
}

#[test]
fn yaml_is_read_as_yaml_1_2() {
    let text = "on: yes\nversion: \"1\"\nstatus:\n  200: ok\nwhen: 2020-01-01\nn: 0x10\nempty:\n";
    let document = Document::read(text).unwrap();
    assert_eq!(
        document.value(),
        &json!({"on": "yes", "version": "1", "status": {"200": "ok"}, "when": "2020-01-01", "n": 16, "empty": null})
    );
}

#[test]
fn a_stream_is_read_as_a_list() {
    let text =
        "---\nkind: Tool\n---\n# nothing\n---\nkind: Agent\nspec:\n  tools:\n    - name: ä\n      type: custom\n";
    let document = Document::read(text).unwrap();
    let parts: Vec<_> = document.parts().map(|(path, value)| (path.to_string(), value["kind"].clone())).collect();
    assert_eq!(parts, [("[0]".to_owned(), json!("Tool")), ("[1]".to_owned(), json!("Agent"))]);
    let places = document.places();
    assert_eq!(places.find("[0].kind").to_string(), "2:7");
    assert_eq!(places.find("[1].spec.tools[0].type").to_string(), "10:13");
}

#[test]
fn one_yaml_document_is_itself() {
    let document = Document::read("a:\n  - b: &x 1\n  - c: *x\n").unwrap();
    assert_eq!(document.value(), &json!({"a": [{"b": 1}, {"c": 1}]}));
    assert_eq!(document.parts().map(|(path, _)| path.to_string()).collect::<Vec<_>>(), [""]);
    assert_eq!(document.places().find("a[1].c").to_string(), "3:8");
}

#[test]
fn a_duplicate_key_is_an_error() {
    fails("{\n \"a\": 1,\n \"b\": {\"ä\": 1, \"ä\": 2}}", "syntax_error", "3:18", "`ä` appears twice");
    fails("a: 1\nb: 2\na: 3\n", "syntax_error", "3:1", "duplicate");
}

#[test]
fn broken_text_is_reported_where_it_breaks() {
    fails("", "empty_file", "1:1", "it is empty");
    fails(" \n// only a comment", "empty_file", "1:1", "it is empty");
    fails("---\n---\n", "empty_file", "1:1", "it is empty");
    fails("{\"tools\": [\n  {\"name\": \"a\"", "syntax_error", "2:14", "EOF while parsing");
    fails("{\"a\": 1,}", "syntax_error", "1:9", "trailing comma");
    fails("{\"ä\": x}", "syntax_error", "1:7", "expected value");
    fails("a: [1, 2\nb: 3\n", "syntax_error", "2:2", "not valid YAML");
}

#[test]
fn depth_is_bounded() {
    for depth in [200, 10_000, 1_000_000] {
        let error = Document::read(&"[".repeat(depth)).unwrap_err();
        assert!(error.to_string().contains("126 levels"), "{error}");
        let error = Document::read(&format!("a: {}", "[".repeat(depth))).unwrap_err();
        assert_eq!(error.code(), "syntax_error");
    }
    assert!(Document::read(&format!("{}{}", "[".repeat(126), "]".repeat(126))).is_ok());
    let blocks: String = (0..10_000).map(|depth| format!("{}a:\n", " ".repeat(depth % 500))).collect();
    assert!(Document::read(&blocks).is_err());
}

#[test]
fn anchors_cannot_explode() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 9].join(", ")));
    }
    let error = Document::read(&bomb).unwrap_err();
    assert_eq!(error.code(), "syntax_error", "{error}");
}

#[test]
fn bytes_must_be_utf_8_and_not_too_many() {
    assert_eq!(decode(b"\xef\xbb\xbf{}").unwrap(), "{}");
    assert_eq!(decode(b"\xff\xfe{\0").unwrap_err(), ReadError::Utf16);
    let error =
        decode("ä\nö\u{0}".as_bytes().iter().copied().chain([0xc3]).collect::<Vec<_>>().as_slice()).unwrap_err();
    assert_eq!((error.code(), error.place().to_string().as_str()), ("not_utf8", "2:3"));
    assert_eq!(decode(&vec![b' '; MAX_SIZE + 1]).unwrap_err(), ReadError::TooLarge);
}
