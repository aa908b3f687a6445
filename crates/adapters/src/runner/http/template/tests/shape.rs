//! The property: for any arguments, a request has the shape of its template.
//!
//! The oracle parses the request as a server would, and knows the template only as it was generated.

use std::collections::BTreeMap;

use bosun_core::tool::{HttpRequest, Method, NamedValue, ValueSource};
use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value, json};
use url::Url;

use super::super::{RequestTemplate, SlotValues};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A part of a generated template: text, or a slot of this argument.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Slot(usize),
}

/// A generated JSON body.
#[derive(Clone, Debug)]
enum Body {
    Literal(Value),
    Whole(usize),
    Text(Vec<Part>),
    List(Vec<Body>),
    Object(Vec<Body>),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    vec(prop_oneof!["[a-z-]{1,4}".prop_map(Part::Text), (0..NAMES.len()).prop_map(Part::Slot)], 1..4)
}

fn bodies() -> impl Strategy<Value = Body> {
    let leaf = prop_oneof![
        prop_oneof![Just(json!(1)), Just(json!("te\"xt")), Just(json!(null))].prop_map(Body::Literal),
        (0..NAMES.len()).prop_map(Body::Whole),
        parts().prop_map(Body::Text),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Body::List), vec(inner, 0..4).prop_map(Body::Object)]
    })
}

/// Values that attack: separators, encodings, dots, slots, quotes and control characters.
fn texts() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        Just("../"),
        Just("%2e%2e"),
        Just("?x=1&"),
        Just("#"),
        Just("://"),
        Just("@evil.example"),
        Just("\\"),
        Just("\r\nHost: evil"),
        Just("\0"),
        Just("\""),
        Just("}}"),
        Just("{{.input.a}}"),
        Just("{a}"),
        Just(","),
        Just("\",\"x\":\""),
        Just("é"),
        Just("\u{202e}"),
        Just("\u{7f}"),
        Just(" "),
        Just(";"),
        Just("."),
        Just("/"),
    ];
    vec(prop_oneof![special.prop_map(str::to_owned), any::<String>()], 0..4).prop_map(|pieces| pieces.concat())
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        texts().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((texts(), inner), 0..3).prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    // Most are texts: an address and a header have no room for structures, and such a call is refused.
    let value = prop_oneof![9 => texts().prop_map(Value::from), 1 => values()];
    vec(proptest::option::weighted(0.9, value), NAMES.len()).prop_map(|values| {
        let present = NAMES.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Value::Object(present.collect())
    })
}

fn written(parts: &[Part], open: &str, close: &str) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Slot(slot) => format!("{open}{}{close}", NAMES[*slot]),
    };
    parts.iter().map(part).collect()
}

fn written_body(body: &Body) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match body {
        Body::Literal(value) => value.to_string(),
        Body::Whole(slot) => format!("{{{{.input.{}}}}}", NAMES[*slot]),
        Body::Text(parts) => format!("\"{}\"", written(parts, "{{.input.", "}}")),
        Body::List(items) => format!("[{}]", list(items.iter().map(written_body).collect())),
        Body::Object(members) => {
            let member = |(index, member): (usize, &Body)| format!("\"m{index}\": {}", written_body(member));
            format!("{{{}}}", list(members.iter().enumerate().map(member).collect()))
        }
    }
}

fn slots(parts: &[Part]) -> Vec<usize> {
    parts.iter().filter_map(|part| if let Part::Slot(slot) = part { Some(*slot) } else { None }).collect()
}

/// Whether a server reads `sent` as `body` with these arguments in it.
fn has_shape(body: &Body, sent: &Value, arguments: &Value) -> bool {
    let value = |slot: usize| arguments.get(NAMES[slot]);
    match (body, sent) {
        (Body::Literal(literal), sent) => literal == sent,
        (Body::Whole(slot), sent) => value(*slot).unwrap_or(&Value::Null) == sent,
        (Body::Text(_), Value::String(_)) => true,
        (Body::Text(parts), Value::Null) => {
            let slots = slots(parts);
            !slots.is_empty() && slots.iter().all(|slot| value(*slot).is_none_or(Value::is_null))
        }
        (Body::List(items), Value::Array(sent)) => {
            items.len() == sent.len() && items.iter().zip(sent).all(|(item, sent)| has_shape(item, sent, arguments))
        }
        (Body::Object(members), Value::Object(sent)) => {
            let names: Vec<_> = (0..members.len()).map(|index| format!("m{index}")).collect();
            let is_right = |(name, member): (&String, &Body)| match (sent.get(name), member) {
                (Some(sent), member) => has_shape(member, sent, arguments),
                (None, Body::Whole(slot)) => value(*slot).is_none(),
                (None, Body::Text(_)) => has_shape(member, &Value::Null, arguments),
                (None, _) => false,
            };
            sent.keys().all(|name| names.contains(name)) && names.iter().zip(members).all(is_right)
        }
        _ => false,
    }
}

fn header(name: &str, value: String) -> NamedValue {
    NamedValue { name: name.into(), value: ValueSource::Literal(value) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]
    #[test]
    fn a_request_has_the_shape_of_its_template(
        segments in vec(parts(), 0..4),
        pairs in vec(parts(), 0..4),
        note in parts(),
        body in bodies(),
        arguments in arguments(),
    ) {
        let path: String = segments.iter().map(|parts| format!("/{}", written(parts, "{", "}"))).collect();
        let query: Vec<_> = (0..).zip(&pairs).map(|(index, parts): (usize, _)| format!("q{index}={}", written(parts, "{", "}"))).collect();
        let url = format!("https://api.example.com:8443{path}?{}", query.join("&"));
        let headers = vec![header("X-Note", written(&note, "{{.input.", "}}"))];
        let request = HttpRequest { url, method: Method::Put, headers, body: Some(written_body(&body)), body_parameters: Vec::new(), follow_redirects: false };
        let template = RequestTemplate::parse(&request, None).unwrap();
        let parameters = BTreeMap::new();
        let Ok(rendered) = template.render(SlotValues { arguments: &arguments, parameters: &parameters }) else { return Ok(()) };

        prop_assert_eq!(rendered.method, Method::Put);
        let sent = Url::parse(&format!("https://api.example.com:8443{}", rendered.path_and_query)).unwrap();
        prop_assert_eq!(sent.origin(), template.origin().origin());
        prop_assert_eq!((sent.username(), sent.fragment()), ("", None));
        prop_assert_eq!(sent.path_segments().unwrap().count(), segments.len().max(1));
        // A server that decodes the path first finds no other one.
        let decoded = sent.path_segments().unwrap().any(|segment| matches!(segment, "." | ".."));
        prop_assert!(!decoded && !sent.path().contains("//"));
        for (name, _) in sent.query_pairs() {
            let index: usize = name.strip_prefix('q').unwrap().parse().unwrap();
            prop_assert!(index < pairs.len());
        }
        let names: Vec<_> = rendered.headers.iter().map(|(name, _)| name.as_str()).collect();
        prop_assert!(names == ["x-note", "content-type"] || names == ["x-note"] || names == ["content-type"] || names.is_empty());
        for (_, value) in &rendered.headers {
            prop_assert!(!value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
        match rendered.body {
            Some(text) => {
                let sent: Value = serde_json::from_str(&text).unwrap();
                prop_assert!(has_shape(&body, &sent, &arguments), "{text}");
            }
            None => prop_assert!(has_shape(&body, &Value::Null, &arguments)),
        }
    }
}
