//! Templates: what they are read as, what they refuse, and that no argument changes their shape.

mod shape;

use std::collections::BTreeMap;

use bosun_core::tool::{HttpRequest, Method, NamedValue, ValueSource};
use serde_json::{Value, json};

use super::{RenderedRequest, RequestTemplate, SlotValues};

fn request(method: Method, url: &str) -> HttpRequest {
    let (headers, body_parameters) = (Vec::new(), Vec::new());
    HttpRequest { url: url.into(), method, headers, body: None, body_parameters, follow_redirects: false }
}

fn with_body(body: &str, content_type: Option<&str>) -> HttpRequest {
    let mut request = request(Method::Post, "https://api.example.com/");
    request.body = Some(body.into());
    request.headers.extend(content_type.map(|value| header("Content-Type", value)));
    request
}

fn header(name: &str, value: &str) -> NamedValue {
    NamedValue { name: name.into(), value: ValueSource::Literal(value.into()) }
}

fn render(request: &HttpRequest, arguments: &Value) -> Result<RenderedRequest, String> {
    let template = RequestTemplate::parse(request, None).map_err(|faults| format!("{faults:?}"))?;
    let parameters = BTreeMap::from([("plan", "gold \"1\""), ("limit", "10"), ("list", "[1]")]);
    let parameters = parameters.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    template.render(SlotValues { arguments, parameters: &parameters }).map_err(|error| error.to_string())
}

#[track_caller]
fn check_url(url: &str, arguments: Value, expect: Result<&str, &str>) {
    let rendered = render(&request(Method::Get, url), &arguments).map(|rendered| rendered.path_and_query);
    assert_eq!(rendered.as_deref().map_err(String::as_str), expect, "{url} with {arguments}");
}

#[track_caller]
fn check_body(body: &str, content_type: Option<&str>, arguments: Value, expect: Result<Option<&str>, &str>) {
    let mut request = with_body(body, content_type);
    request.body_parameters = ["plan", "limit", "list"].map(|name| header(name, "")).into();
    let rendered = render(&request, &arguments).map(|rendered| rendered.body);
    assert_eq!(rendered.as_ref().map(Option::as_deref).map_err(String::as_str), expect, "{body} with {arguments}");
}

#[track_caller]
fn check_fault(request: &HttpRequest, parameters: Value, expect: &str) {
    let faults = RequestTemplate::parse(request, Some(&parameters)).unwrap_err();
    let messages: Vec<_> = faults.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(messages, [expect]);
}

#[test]
fn values_are_encoded_within_their_segment_or_pair() {
    let url = "https://api.example.com/items/{id}/now?units={units}&lang=en-{region}&fixed=a%20b&flag";
    let all = json!({"id": "a/b ?#%&.é", "units": "°C & more=1", "region": "GB"});
    let expect = "/items/a%2Fb%20%3F%23%25%26.%C3%A9/now?units=%C2%B0C%20%26%20more%3D1&lang=en-GB&fixed=a%20b&flag";
    check_url(url, all, Ok(expect));
    check_url(url, json!({"id": 7, "units": true}), Ok("/items/7/now?units=true&fixed=a%20b&flag"));
    check_url(url, json!({"id": "x", "units": null, "region": ""}), Ok("/items/x/now?lang=en-&fixed=a%20b&flag"));
    check_url("https://api.example.com", json!({}), Ok("/"));
    check_url("https://api.example.com?q={q}#top", json!({"q": "a"}), Ok("/?q=a"));
    check_url("https://api.example.com/ü/~a:b@c;d=e,f", json!({}), Ok("/%C3%BC/~a:b@c;d=e,f"));
    check_url("https://a.example/{from}-{to}", json!({"from": "a", "to": "b"}), Ok("/a-b"));
    check_url("https://a.example/{filter[name]}", json!({"filter[name]": "a"}), Ok("/a"));
}

#[test]
fn a_list_repeats_its_pair() {
    check_url("https://a.example/?t={t}&u=1", json!({"t": ["a b", 2]}), Ok("/?t=a%20b&t=2&u=1"));
    check_url("https://a.example/?t={t}&u=1", json!({"t": []}), Ok("/?u=1"));
    let refused = "argument `t` must be a text, a number or a boolean: it becomes part of the address or of a header";
    check_url("https://a.example/?t={t}", json!({"t": [["a"]]}), Err(refused));
    check_url("https://a.example/?t={t}", json!({"t": {"a": 1}}), Err(refused));
    check_url("https://a.example/?t=x{t}", json!({"t": ["a"]}), Err(refused));
    check_url("https://a.example/{t}", json!({"t": ["a"]}), Err(refused));
}

#[test]
fn no_value_leads_to_another_path() {
    let empty = "argument `x` must not be empty: it is a part of the path";
    let dots = "argument `x` must not have `.` or `..` between slashes: it would lead to another path";
    for (url, value, expect) in [
        ("https://a.example/v1/{x}", json!(""), empty),
        ("https://a.example/v1/{x}", json!("."), dots),
        ("https://a.example/v1/{x}", json!(".."), dots),
        ("https://a.example/v1/.{x}", json!("."), dots),
        ("https://a.example/v1/%2e{x}", json!("."), dots),
        ("https://a.example/v1/{x}/a", json!("../admin"), dots),
        ("https://a.example/v1/{x}/a", json!("a/..\\b"), dots),
        ("https://a.example/v1/{x}/a", json!("a\\.\\b"), dots),
        ("https://a.example/v1/{x}../a", json!("a/"), dots),
    ] {
        check_url(url, json!({"x": value}), Err(expect));
    }
    let parts = json!({"x": "a/", "y": ".."});
    check_url("https://a.example/v1/{x}{y}", parts, Err(dots));
    check_url("https://a.example/v1/{x}", json!({"x": "2.5"}), Ok("/v1/2.5"));
    let missing = "argument `x` is missing, and the request needs it";
    check_url("https://a.example/v1/{x}", json!({}), Err(missing));
    check_url("https://a.example/?a={y}-{x}", json!({"y": 1}), Err(missing));
    let long = "with these arguments, the address would be longer than 32768 bytes";
    check_url("https://a.example/{x}", json!({"x": "é".repeat(6_000)}), Err(long));
    check_url("https://a.example/?x={x}", json!({"x": vec!["a"; 20_000]}), Err(long));
}

#[test]
fn a_bad_address_is_a_fault() {
    for (url, expect) in [
        ("https://{host}/", "has a slot in its host or port, which are fixed; slots belong in the path or the query"),
        (
            "https://a.{x}.example/",
            "has a slot in its host or port, which are fixed; slots belong in the path or the query",
        ),
        (
            "https://a.example:{port}/",
            "has a slot in its host or port, which are fixed; slots belong in the path or the query",
        ),
        (
            "https://{user}@a.example/",
            "has a slot in its host or port, which are fixed; slots belong in the path or the query",
        ),
        ("{scheme}://a.example/", "must begin with http:// or https://"),
        ("https://u:p@a.example/", "must not contain a user or a password; use `headers`"),
        ("https://a.example/#{x}", "has a slot after `#`, which is never sent"),
        ("https://a.example/?{x}=1", "has a slot in the name of a query parameter, `{x}`; slots are values"),
        ("https://a.example/../b", "has the segment `..`; write the path that is meant"),
        ("https://a.example/%2E%2e/b", "has the segment `%2E%2e`; write the path that is meant"),
        ("https://a.example\\@evil.example/", "has the character '\\\\'; percent-encode it"),
        ("https://a.exa\tmple/", "has the character '\\t'; percent-encode it"),
        ("https://a.example/a b", "has the character ' '; percent-encode it"),
        (
            "https://a.example/{}",
            "has `{` without a name and `}`; a slot is `{name}`, and another brace is `%7B` or `%7D`",
        ),
        (
            "https://a.example/{x",
            "has `{` without a name and `}`; a slot is `{name}`, and another brace is `%7B` or `%7D`",
        ),
        ("https://a.example/x}", "has `}` without `{`; a slot is `{name}`, and another brace is `%7B` or `%7D`"),
        ("https:///x", "is not a URL: empty host"),
        ("https://a.example:99999/", "is not a URL: invalid port number"),
    ] {
        let expect = format!("the address {expect}");
        check_fault(&request(Method::Get, url), json!({"properties": {"x": {}}}), &expect);
    }
}

#[test]
fn a_json_body_is_built_of_values() {
    let body = r#"{"text": "<{{.input.text}}>", "urgent": {{.input.urgent}}, "plan": "{{.plan}}", "list": [1, {{ .input.item }}]}"#;
    let all = json!({"text": "a \"quote\" {{.plan}}\n", "urgent": true, "item": {"a": [1]}});
    let expect = r#"{"text":"<a \"quote\" {{.plan}}\n>","urgent":true,"plan":"gold \"1\"","list":[1,{"a":[1]}]}"#;
    check_body(body, None, all, Ok(Some(expect)));
    // What is absent is left out; an item of a list has its place.
    check_body(body, None, json!({}), Ok(Some(r#"{"plan":"gold \"1\"","list":[1,null]}"#)));
    check_body(
        r#"{"a": "{{.input.a}}-{{.input.b}}"}"#,
        None,
        json!({"a": 1}),
        Err("argument `b` is missing, and the request needs it"),
    );
    check_body(r#"{"a": {{.input.a.b}}}"#, None, json!({"a": {"b": "x"}}), Ok(Some(r#"{"a":"x"}"#)));
    check_body(r#"{"a": {{.input.a}}}"#, None, json!({"a": null}), Ok(Some(r#"{"a":null}"#)));
    check_body("{{.input}}", None, json!({"a": 1}), Ok(Some(r#"{"a":1}"#)));
    check_body("{{.input.body}}", Some("application/vnd.x+json"), json!({"body": "x"}), Ok(Some("\"x\"")));
    check_body("{{.input.body}}", None, json!({}), Ok(None));
    // A parameter is a text, a number or a boolean, and never a structure.
    check_body(
        r#"[{{.limit}}, "{{.limit}}", {{.plan}}, {{.list}}]"#,
        None,
        json!({}),
        Ok(Some(r#"[10,"10","gold \"1\"","[1]"]"#)),
    );
    check_body(r#"{"a\\": "\"{{.input.a}}\""}"#, None, json!({"a": 1}), Ok(Some(r#"{"a\\":"\"1\""}"#)));
    check_body(r#"{"a": "{{.input.a}}{{.input.b}}"}"#, None, json!({"a": [1], "b": "z"}), Ok(Some(r#"{"a":"[1]z"}"#)));
}

#[test]
fn other_bodies_are_encoded_by_their_type() {
    let form = Some("application/x-www-form-urlencoded");
    check_body(
        "a={{.input.a}}&b=x%26y&c=={{.plan}}&d={{.input.d}}",
        form,
        json!({"a": "1&b=2 é"}),
        Ok(Some("a=1%26b%3D2+%C3%A9&b=x%26y&c=%3Dgold+%221%22")),
    );
    check_body("Hello {{.input.a}}", Some("text/plain; charset=utf-8"), json!({"a": "<x>"}), Ok(Some("Hello <x>")));
    check_body("{{.input.a}}", Some("application/xml"), json!({"a": "<x/>"}), Ok(Some("<x/>")));
    check_body("<x>1</x>", Some("application/xml"), json!({}), Ok(Some("<x>1</x>")));
}

#[test]
fn a_bad_body_is_a_fault() {
    for (body, content_type, expect) in [
        ("{\"a\": {{.input.a}", None, "is not a template: `{{` has no `}}` in line 1, column 7 of it"),
        (
            "{\"a\":\n {{if .x}}}",
            None,
            "is not a template: `{{if .x}}` is not of the form `{{.name}}` in line 2, column 2 of it",
        ),
        ("{\"{{.input.a}}\": 1}", None, "has a slot in the name of a member; slots are values"),
        ("{\"a\": {{.input.a}} x}", None, "is not JSON: expected `,` or `}` at line 1 column 20"),
        ("Hello {{.input.a}}", None, "is not JSON: expected value at line 1 column 1"),
        ("{\"a\": \"\\u007F\"}", None, "has the character U+007F, which no template may have"),
        (
            "{{.input.a}}=1",
            Some("application/x-www-form-urlencoded"),
            "has a slot in the name of a field; slots are values",
        ),
        (
            "<x>{{.input.a}}</x>",
            Some("Text/XML"),
            "has slots in a text of type `text/xml`, where an argument could change its structure; \
             use JSON, a form or text/plain, or make one argument the whole body",
        ),
    ] {
        check_fault(&with_body(body, content_type), json!({"properties": {"a": {}}}), &format!("the body {expect}"));
    }
    let mut get = with_body("{}", None);
    get.method = Method::Get;
    check_fault(&get, json!({}), "the body would never be sent: a request with GET has none");
}

#[test]
fn a_slot_that_nothing_fills_is_a_fault() {
    let url = request(Method::Get, "https://a.example/{x}");
    check_fault(&url, json!({"type": "object"}), "`inputSchema` has no property `x`, which a slot needs");
    let body = with_body("{{.input.x}}", None);
    check_fault(
        &body,
        json!({"properties": {"y": {}}, "additionalProperties": false}),
        "`inputSchema` has no property `x`, which a slot needs",
    );
    check_fault(&with_body("\"{{.who}}\"", None), json!({}), "`{{.who}}` is not in `bodyParameters`");
    // ARK's tools may have no schema, and a schema may have properties elsewhere.
    assert!(RequestTemplate::parse(&url, None).is_ok());
    for schema in [json!({"allOf": []}), json!({"$ref": "#/x"}), json!({"additionalProperties": true})] {
        assert!(RequestTemplate::parse(&url, Some(&schema)).is_ok(), "{schema}");
    }
}

#[test]
fn headers_take_values_and_no_line_breaks() {
    let mut request = request(Method::Get, "https://a.example/");
    request.headers = vec![header("X-Note", "for {{.input.a}}"), header("Accept", "text/plain")];
    let headers = |arguments: Value| {
        let rendered = render(&request, &arguments)?;
        let shown = rendered
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
        Ok::<_, String>(shown.collect::<Vec<_>>())
    };
    assert_eq!(headers(json!({"a": "bücher"})).unwrap(), ["x-note: for bücher", "accept: text/plain"]);
    assert_eq!(headers(json!({})).unwrap(), ["accept: text/plain"]);
    for bad in ["a\r\nHost: evil", "a\nb", "a\0b", "a\rb", "\u{7f}", "\u{85}"] {
        let expect = "argument `a` has a line break or another control character, which a header cannot carry";
        assert_eq!(headers(json!({"a": bad})).unwrap_err(), expect, "{bad:?}");
    }
}

#[test]
fn a_bad_header_is_a_fault() {
    for (name, value, expect) in [
        ("Host", "evil.example", "header `Host` is set by the server itself; leave it out"),
        ("content-LENGTH", "3", "header `content-LENGTH` is set by the server itself; leave it out"),
        ("Transfer-Encoding", "chunked", "header `Transfer-Encoding` is set by the server itself; leave it out"),
        (
            "Authorization",
            "Bearer {{.input.a}}",
            "header `Authorization` has a slot, and it must not depend on arguments; use `valueFrom`",
        ),
        ("a b", "x", "`a b` is not the name of a header"),
        ("X-A", "x\r\ny", "the value of header `X-A` has a control character"),
        ("X-A", "{{.input.a", "header `X-A`: `{{` has no `}}` in line 1, column 1 of its value"),
    ] {
        let mut request = request(Method::Get, "https://a.example/");
        request.headers = vec![header(name, value)];
        check_fault(&request, json!({"properties": {"a": {}}}), expect);
    }
}

#[test]
fn many_slots_and_one_large_argument_make_no_large_request() {
    let large = json!({"a": "x".repeat(200_000)});
    let expect = Err("with these arguments, the request would be larger than 1048576 bytes");
    check_body(&format!("[{}]", vec!["{{.input.a}}"; 10_000].join(",")), None, large.clone(), expect);
    check_body(&format!("\"{}\"", "{{.input.a}}".repeat(10_000)), None, large.clone(), expect);
    let form = Some("application/x-www-form-urlencoded");
    check_body(&vec!["a={{.input.a}}"; 10_000].join("&"), form, large.clone(), expect);
    check_body(&"{{.input.a}}".repeat(10_000), Some("text/plain"), large, expect);
}

#[test]
fn a_style_says_how_a_list_or_an_object_is_written() {
    let list = json!({"t": ["a b", 2, "c,d"]});
    for (style, expect) in [
        ("multi", "/?t=a%20b&t=2&t=c%2Cd"),
        ("csv", "/?t=a%20b,2,c%2Cd"),
        ("ssv", "/?t=a%20b%202%20c%2Cd"),
        ("tsv", "/?t=a%20b%092%09c%2Cd"),
        ("pipes", "/?t=a%20b%7C2%7Cc%2Cd"),
        ("deepObject", "/?t%5B0%5D=a%20b&t%5B1%5D=2&t%5B2%5D=c%2Cd"),
        ("explode", "/?t=a%20b&t=2&t=c%2Cd"),
    ] {
        check_url(&format!("https://a.example/?t={{t:{style}}}"), list.clone(), Ok(expect));
        check_url(&format!("https://a.example/?t={{t:{style}}}&u=1"), json!({"t": []}), Ok("/?u=1"));
        check_url(&format!("https://a.example/?t={{t:{style}}}&u=1"), json!({}), Ok("/?u=1"));
    }
    let object = json!({"o": {"r": 1, "g": "x&y", "no": null}});
    for (style, expect) in
        [("csv", "/?o=r,1,g,x%26y"), ("deepObject", "/?o%5Br%5D=1&o%5Bg%5D=x%26y"), ("explode", "/?r=1&g=x%26y")]
    {
        check_url(&format!("https://a.example/?o={{o:{style}}}"), object.clone(), Ok(expect));
    }
    for (path, expect) in [
        ("{t:csv}", "/a%20b,2,c%2Cd"),
        (".{t:csv}", "/.a%20b,2,c%2Cd"),
        ("{t:label}", "/.a%20b.2.c%2Cd"),
        (";t={t:csv}", "/;t=a%20b,2,c%2Cd"),
        ("{t:matrix}", "/;t=a%20b;t=2;t=c%2Cd"),
    ] {
        check_url(&format!("https://a.example/{path}"), list.clone(), Ok(expect));
    }
    check_url("https://a.example/{o:explode}", object.clone(), Ok("/r=1,g=x%26y"));
    check_url("https://a.example/{o:matrix}", object, Ok("/;r=1;g=x%26y"));
    check_url("https://a.example/?a={b:c}", json!({"b:c": 1}), Ok("/?a=1"));
}

#[test]
fn a_style_cannot_add_what_the_template_has_not() {
    let nested = "argument `t` must be a text, a number or a boolean: it becomes part of the address or of a header";
    check_url("https://a.example/?t={t:csv}", json!({"t": [[1]]}), Err(nested));
    check_url("https://a.example/?t={t:explode}", json!({"t": {"a": {"b": 1}}}), Err(nested));
    check_url(
        "https://a.example/?key=1&t={t:explode}",
        json!({"t": {"key": "2"}}),
        Err("argument `t` must not have a member `key`: the request has a parameter of that name"),
    );
    check_url("https://a.example/?key=1&t={t:deepObject}", json!({"t": {"key": 2}}), Ok("/?key=1&t%5Bkey%5D=2"));
    let dots = "argument `t` must not have `.` or `..` between slashes: it would lead to another path";
    check_url("https://a.example/v1/{t:csv}", json!({"t": ["."]}), Err(dots));
    check_url("https://a.example/v1/{t:csv}/a", json!({"t": ["a", "b/../c"]}), Err(dots));
    let properties = json!({"properties": {"t": {}}});
    check_fault(
        &request(Method::Get, "https://a.example/{t:deepObject}"),
        properties.clone(),
        "the address gives argument `t` a style that a path does not have",
    );
    check_fault(
        &request(Method::Get, "https://a.example/?a=x{t:multi}"),
        properties.clone(),
        "the address gives argument `t` a style that must be all of a value",
    );
    check_fault(
        &with_body(r#"{"a": {{.input.t:csv}}}"#, None),
        properties,
        "the body gives argument `t` a style, and JSON has lists and objects of its own",
    );
}

#[test]
fn a_form_takes_lists_and_objects() {
    let form = Some("application/x-www-form-urlencoded");
    let body = json!({"body": {"name": "A & B", "tags": ["x", "y"], "meta": {"a": {"b": 1}}, "none": null}});
    check_body(
        "{{.input.body:deepObject}}",
        form,
        body.clone(),
        Ok(Some("name=A+%26+B&tags%5B0%5D=x&tags%5B1%5D=y&meta%5Ba%5D%5Bb%5D=1")),
    );
    check_body(
        "{{.input.body}}",
        form,
        json!({"body": {"name": "A", "tags": ["x", "y"]}}),
        Ok(Some("name=A&tags=x&tags=y")),
    );
    check_body("{{.input.body}}", form, json!({}), Ok(None));
    check_body(
        "{{.input.body}}",
        form,
        json!({"body": "x"}),
        Err("argument `body` must be an object: its members are the fields of the request"),
    );
    check_body(
        "name={{.input.body.name}}&tags={{.input.body.tags:csv}}&m={{.input.body.meta:deepObject}}&p={{.plan}}",
        form,
        body,
        Ok(Some("name=A+%26+B&tags=x%2Cy&m%5Ba%5D%5Bb%5D=1&p=gold+%221%22")),
    );
}

#[test]
fn an_empty_list_is_json_and_nothing_in_other_styles() {
    let url = "https://a.example/?where={where:json}&ids={ids:csv}&built={built:deepObject}";
    check_url(url, json!({"where": {}, "ids": [], "built": {}}), Ok("/?where=%7B%7D"));
    check_url(url, json!({"where": null}), Ok("/"));
}

#[test]
fn json_has_several_names() {
    for json in ["application/json", "application/scim+json", "text/json; charset=utf-8"] {
        check_body("{{.input.body}}", Some(json), json!({"body": "a"}), Ok(Some("\"a\"")));
    }
    check_body("{{.input.body}}", Some("text/plain"), json!({"body": "a"}), Ok(Some("a")));
}

#[test]
fn a_multipart_body_has_a_part_for_each_field() {
    let multipart = Some("multipart/form-data");
    let check = |body: &str, arguments: Value, parts: &[&str]| {
        let mut request = with_body(body, multipart);
        request.body_parameters = vec![header("plan", "")];
        let rendered = render(&request, &arguments).unwrap();
        let [(name, content_type)] = rendered.headers.as_slice() else { panic!("{:?}", rendered.headers) };
        assert_eq!(name, "content-type");
        let boundary = content_type.to_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
        let mut expect: String =
            parts.iter().map(|part| format!("--{boundary}\r\nContent-Disposition: form-data; {part}\r\n")).collect();
        expect.push_str(&format!("--{boundary}--\r\n"));
        assert_eq!(rendered.body.unwrap(), expect);
        boundary.to_owned()
    };
    let boundary = check(
        "{{.input.body}}",
        json!({"body": {"title": "A & \"B\"", "tags": ["x", 2], "a\"\r\nb": true, "none": null}}),
        &[
            "name=\"title\"\r\n\r\nA & \"B\"",
            "name=\"tags\"\r\n\r\nx",
            "name=\"tags\"\r\n\r\n2",
            "name=\"a%22%0D%0Ab\"\r\n\r\ntrue",
        ],
    );
    // A value with the boundary of another body ends no part of its own.
    let forged = format!("x\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"admin\"\r\n\r\n1");
    let other = check(
        "file={{.input.file:file}}&meta={{.input.meta:json}}&plan={{.plan}}&gone={{.input.gone}}",
        json!({"file": forged, "meta": {"a": [1]}}),
        &[
            &format!("name=\"file\"; filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n{forged}"),
            "name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"a\":[1]}",
            "name=\"plan\"\r\n\r\ngold \"1\"",
        ],
    );
    assert_ne!(boundary, other);
    check_body("{{.input.body}}", multipart, json!({}), Ok(None));
    // A form without a field is no body, and has no type.
    for form in [multipart, Some("application/x-www-form-urlencoded")] {
        let rendered = render(&with_body("a={{.input.body.a}}&b={{.input.body.b:csv}}", form), &json!({})).unwrap();
        assert_eq!((rendered.body, rendered.headers), (None, Vec::new()), "{form:?}");
    }
    check_body("--x--", Some("multipart/form-data; boundary=x"), json!({}), Ok(Some("--x--")));
    let file = json!({"properties": {"f": {}}});
    let expect = "gives argument `f` the style `file`, which only multipart/form-data has";
    let form = with_body("f={{.input.f:file}}", Some("application/x-www-form-urlencoded"));
    check_fault(&form, file.clone(), &format!("the body {expect}"));
    check_fault(&request(Method::Get, "https://a.example/?f={f:file}"), file, &format!("the address {expect}"));
}

#[test]
fn a_parameter_of_the_manifest_may_be_part_of_the_address() {
    let mut keyed = request(Method::Get, "https://a.example/bot{{.plan}}/x?key={{.limit}}&q={q}");
    keyed.body_parameters = ["plan", "limit"].map(|name| header(name, "")).into();
    let rendered = render(&keyed, &json!({"q": "{{.limit}}"})).unwrap();
    assert_eq!(rendered.path_and_query, "/botgold%20%221%22/x?key=10&q=%7B%7B.limit%7D%7D");
    check_fault(
        &request(Method::Get, "https://a.example/?key={{.absent}}"),
        json!({}),
        "`{{.absent}}` is not in `bodyParameters`",
    );
    check_fault(
        &request(Method::Get, "https://a.example/?key={{.input.x}}"),
        json!({"properties": {"x": {}}}),
        "the address has `{{.input.x}}`; a parameter of `bodyParameters` is `{{.name}}`, and an argument is `{name}`",
    );
}
