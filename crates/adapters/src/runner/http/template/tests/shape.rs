//! The property: for any arguments, a request has the shape of its template.
//!
//! The oracle parses the request as a server would, and knows the template only as it was generated.

use std::collections::BTreeMap;

use bosun_core::tool::{HttpRequest, Method, NamedValue, ValueSource};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

use super::super::{RenderedRequest, RequestTemplate, SlotValues};

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
        Just("q1"),
        Just("]["),
        Just("&q1="),
        Just("\"; filename=\"x"),
        Just("\r\n--bosun-"),
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

/// The place of generated pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Query,
    Form,
    Multipart,
}

/// The value of a generated pair.
#[derive(Clone, Debug)]
enum PairValue {
    Text(Vec<Part>),
    /// A slot with a style, which is all of the value.
    Styled(usize, &'static str),
}

const STYLES: [&str; 11] =
    ["multi", "csv", "ssv", "tsv", "pipes", "deepObject", "explode", "label", "matrix", "json", "file"];

fn pair_values() -> impl Strategy<Value = PairValue> {
    prop_oneof![
        1 => parts().prop_map(PairValue::Text),
        3 => (0..NAMES.len(), select(&STYLES[..])).prop_map(|(slot, style)| PairValue::Styled(slot, style)),
    ]
}

fn structures() -> impl Strategy<Value = Value> {
    vec(proptest::option::weighted(0.9, prop_oneof![1 => texts().prop_map(Value::from), 3 => values()]), NAMES.len())
        .prop_map(|values| {
            let present = NAMES.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(present.collect())
        })
}

impl Place {
    fn written(self, pairs: &[PairValue]) -> String {
        let (open, close) = if self == Self::Query { ("{", "}") } else { ("{{.input.", "}}") };
        let pair = |(index, value): (usize, &PairValue)| match value {
            PairValue::Text(parts) => format!("q{index}={}", written(parts, open, close)),
            PairValue::Styled(slot, style) => {
                // Only a part of a multipart body can be a file.
                let style = if *style == "file" && self != Self::Multipart { "multi" } else { style };
                format!("q{index}={open}{}:{style}{close}", NAMES[*slot])
            }
        };
        pairs.iter().enumerate().map(pair).collect::<Vec<_>>().join("&")
    }

    fn request(self, pairs: &str) -> HttpRequest {
        let content_type = match self {
            Self::Query => None,
            Self::Form => Some("application/x-www-form-urlencoded"),
            Self::Multipart => Some("multipart/form-data"),
        };
        let query = if self == Self::Query { format!("?{pairs}") } else { String::new() };
        HttpRequest {
            url: format!("https://api.example.com/{query}"),
            method: Method::Put,
            headers: content_type.map(|text| header("Content-Type", text.to_owned())).into_iter().collect(),
            body: (self != Self::Query).then(|| pairs.to_owned()),
            body_parameters: Vec::new(),
            follow_redirects: false,
        }
    }

    /// The pairs of a request as a server reads them; `None` if it cannot.
    fn read(self, request: &RenderedRequest) -> Option<Vec<(String, String)>> {
        let owned = |pairs: form_urlencoded::Parse<'_>| pairs.into_owned().collect();
        let Some(body) = &request.body else {
            let sent = Url::parse(&format!("https://api.example.com{}", request.path_and_query)).ok()?;
            return (sent.path() == "/" && sent.fragment().is_none()).then(|| owned(sent.query_pairs()));
        };
        let [(name, content_type)] = &request.headers[..] else { return None };
        let content_type = content_type.to_str().ok().filter(|_| name == "content-type")?;
        match self {
            Self::Query => None,
            Self::Form => Some(owned(form_urlencoded::parse(body.as_bytes()))),
            Self::Multipart => multipart(body, content_type.strip_prefix("multipart/form-data; boundary=")?),
        }
    }
}

/// The parts of a multipart body, with their names as they are escaped; `None` if it is not one.
fn multipart(body: &str, boundary: &str) -> Option<Vec<(String, String)>> {
    let inside = body.strip_prefix(&format!("--{boundary}\r\n"))?.strip_suffix(&format!("\r\n--{boundary}--\r\n"))?;
    let part = |part: &str| {
        let (head, value) = part.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let (name, more) = lines.next()?.strip_prefix("Content-Disposition: form-data; name=\"")?.split_once('"')?;
        let is_known = more.is_empty() || more == format!("; filename=\"{name}\"");
        let types = ["Content-Type: application/json", "Content-Type: application/octet-stream"];
        (is_known && lines.all(|line| types.contains(&line))).then(|| (name.to_owned(), value.to_owned()))
    };
    inside.split(&format!("\r\n--{boundary}\r\n")).map(part).collect()
}

/// A pair that is expected, with its value where a style makes pairs of its own.
type Expected = (String, Option<String>);

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn repeated(name: &str, value: &Value) -> Vec<Expected> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().map(|item| (name.to_owned(), Some(scalar(item)))).collect()
}

fn exploded(members: &Map<String, Value>) -> Vec<Expected> {
    members.iter().filter(|(_, member)| !member.is_null()).flat_map(|(name, member)| repeated(name, member)).collect()
}

fn bracketed(name: String, value: &Value) -> Vec<Expected> {
    match value {
        Value::Array(items) => {
            let item = |(index, item): (usize, &Value)| bracketed(format!("{name}[{index}]"), item);
            items.iter().enumerate().flat_map(item).collect()
        }
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members.flat_map(|(key, member)| bracketed(format!("{name}[{key}]"), member)).collect()
        }
        value => vec![(name, Some(scalar(value)))],
    }
}

/// What a pair becomes with these arguments, if they have a place in it.
fn expected(place: Place, name: String, value: &PairValue, arguments: &Value) -> Vec<Expected> {
    let argument = |slot: usize| arguments.get(NAMES[slot]).filter(|value| !value.is_null());
    match value {
        PairValue::Text(parts) => {
            let slots = slots(parts);
            match (&parts[..], slots.first().and_then(|slot| argument(*slot))) {
                ([Part::Slot(_)], Some(list @ Value::Array(_))) if place == Place::Query => repeated(&name, list),
                _ if !slots.is_empty() && slots.iter().all(|slot| argument(*slot).is_none()) => Vec::new(),
                _ => vec![(name, None)],
            }
        }
        PairValue::Styled(slot, style) => match (*style, argument(*slot)) {
            (_, None) => Vec::new(),
            ("json", Some(_)) => vec![(name, None)],
            (_, Some(Value::Array(items))) if items.is_empty() => Vec::new(),
            (_, Some(Value::Object(members))) if members.is_empty() => Vec::new(),
            ("deepObject", Some(value)) => bracketed(name, value),
            ("explode", Some(Value::Object(members))) => exploded(members),
            ("multi" | "explode" | "file", Some(value)) => repeated(&name, value),
            _ => vec![(name, None)],
        },
    }
}

/// Whether a server finds the expected pairs, in their order, and no others.
fn are_pairs(place: Place, expected: &[Expected], sent: &[(String, String)]) -> bool {
    let called = |name: &str| match place {
        Place::Multipart => name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A"),
        Place::Query | Place::Form => name.to_owned(),
    };
    let is_same = |((name, value), (sent_name, sent)): (&Expected, &(String, String))| {
        called(name) == *sent_name && value.as_ref().is_none_or(|value| value == sent)
    };
    expected.len() == sent.len() && expected.iter().zip(sent).all(is_same)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8_192, ..ProptestConfig::default() })]
    #[test]
    fn a_query_and_a_form_have_the_pairs_of_their_template(
        place in select(&[Place::Query, Place::Form, Place::Multipart][..]),
        pairs in vec(pair_values(), 1..4),
        arguments in structures(),
    ) {
        let template = RequestTemplate::parse(&place.request(&place.written(&pairs)), None).unwrap();
        let parameters = BTreeMap::new();
        let Ok(rendered) = template.render(SlotValues { arguments: &arguments, parameters: &parameters }) else { return Ok(()) };
        let names: Vec<String> = (0..pairs.len()).map(|index| format!("q{index}")).collect();
        let mut all = Vec::new();
        for (name, value) in names.iter().zip(&pairs) {
            let own = expected(place, name.clone(), value, &arguments);
            // No member of an argument is a second value of another parameter.
            prop_assert!(own.iter().all(|(made, _)| made == name || !names.contains(made)), "{own:?}");
            all.extend(own);
        }
        let sent = place.read(&rendered);
        prop_assert!(sent.as_ref().is_some_and(|sent| are_pairs(place, &all, sent)), "{all:?}\n{sent:?}\n{rendered:?}");
    }

    #[test]
    fn a_form_that_is_one_argument_has_its_members_as_fields(
        place in select(&[Place::Form, Place::Multipart][..]),
        is_deep in any::<bool>(),
        members in vec((texts(), values()), 0..4),
    ) {
        let members: Map<String, Value> = members.into_iter().collect();
        let template = if is_deep { "{{.input.a:deepObject}}" } else { "{{.input.a}}" };
        let template = RequestTemplate::parse(&place.request(template), None).unwrap();
        let (arguments, parameters) = (json!({"a": members}), BTreeMap::new());
        let Ok(rendered) = template.render(SlotValues { arguments: &arguments, parameters: &parameters }) else { return Ok(()) };
        let present = members.iter().filter(|(_, member)| !member.is_null());
        let all = if is_deep { present.flat_map(|(name, member)| bracketed(name.clone(), member)).collect() } else { exploded(&members) };
        let sent = place.read(&rendered);
        prop_assert!(sent.as_ref().is_some_and(|sent| are_pairs(place, &all, sent)), "{all:?}\n{sent:?}\n{rendered:?}");
    }
}
