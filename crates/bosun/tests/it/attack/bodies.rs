//! The worst bodies of every route: generated from the description of the API and from tables.
//!
//! Every route that accepts a body gets bodies that are bad JSON or a lot of it, bodies in which one of its fields is
//! filled up, and, where it does something costly with a field, bodies made for that. All are as large as a body may
//! be. Each is generated when it is sent.

use serde_json::{Map, Value, json};

use super::{a2a_bodies, schemas};
use crate::support::rng::Rng;

/// The limit of a body, minus what the rest of the JSON needs.
pub(super) const SIZE: usize = (1 << 20) - (8 << 10);

/// One request that is as bad as it can be.
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) kind: &'static str,
    make: Box<dyn Fn() -> Vec<u8>>,
}

impl Shape {
    pub(super) fn body(&self) -> Vec<u8> {
        (self.make)()
    }

    fn new(route: &Route, name: impl Into<String>, make: impl Fn() -> Vec<u8> + 'static) -> Self {
        let name = format!("{} {}: {}", route.method, route.template, name.into());
        Self::raw(name, &route.method, route.path(), make)
    }

    pub(super) fn raw(name: String, method: &str, path: String, make: impl Fn() -> Vec<u8> + 'static) -> Self {
        Self { name, method: method.to_owned(), path, kind: "application/json", make: Box::new(make) }
    }

    /// The bodies that are unrelated to the route, for a path outside the description.
    pub(super) fn of_any_route(method: &str, path: &str, base: &'static str) -> Vec<Self> {
        of_any_route(&Route { method: method.to_owned(), template: path.to_owned(), fields: Vec::new() }, base)
    }
}

/// A route that takes a body.
#[derive(Clone, Debug)]
struct Route {
    method: String,
    template: String,
    /// Fields of its body that are described.
    fields: Vec<String>,
}

impl Route {
    /// An existing path, as far as possible.
    fn path(&self) -> String {
        let query = self.template.contains("/queries/");
        let name = if query { "victim-query" } else { "victim" };
        self.template
            .replace("{namespace}", "default")
            .replace("{name}", name)
            .replace("{group}", "ark.mckinsey.com")
            .replace("/api/{version}/{kind}", "/api/v1/configmaps")
            .replace("{version}/{kind}", "v1alpha1/agents")
            .replace("{id}", "none")
    }

    /// Whether this is the route with this method and this end of its path.
    fn is(&self, method: &str, end: &str) -> bool {
        self.method == method
            && self
                .template
                .strip_prefix("/v1")
                .is_some_and(|path| path.trim_start_matches("/namespaces/{namespace}") == end)
    }

    /// A valid body of the route, without its closing brace.
    fn base(&self) -> &'static str {
        const BASES: &[(&str, &str)] = &[
            ("/queries", r#"{"input":"text","target":{"type":"agent","name":"prover"}"#),
            ("/agents", r#"{"name":"a","prompt":"p","modelRef":{"name":"scripted"}"#),
            (
                "/models",
                r#"{"name":"m","provider":"openai","model":"m","config":{"openai":{"baseUrl":{"value":"https://models.example/v1"}}}"#,
            ),
            ("/tools", r#"{"name":"t","type":"external","description":"d""#),
            ("/memories", r#"{"name":"mem""#),
            ("/teams", r#"{"name":"team","strategy":"sequential","members":[]"#),
            ("/mcp-servers", r#"{"name":"mcp","transport":"http","address":{"value":"https://mcp.example"}"#),
            (
                "/v1alpha1",
                r#"{"apiVersion":"ark.mckinsey.com/v1alpha1","kind":"Agent","metadata":{"name":"raw"},"spec":{"prompt":"p"}"#,
            ),
            ("/api/v1", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"raw"},"data":{}"#),
            ("/tool-result", r#"{"toolName":"lookup""#),
        ];
        let path = self.path();
        let ends = |end: &&(&str, &'static str)| path.ends_with(end.0) || path.contains(&format!("{}/", end.0));
        // The last part of a path names the kind.
        BASES.iter().rev().find(ends).map_or("{\"wait\":0", |(_, base)| base)
    }
}

/// Every route of the description that takes a body.
fn routes(description: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (template, methods) in description["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let Some(body) = operation.get("requestBody") else { continue };
            let schema = resolve(description, &body["content"]["application/json"]["schema"]);
            let fields = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
            routes.push(Route { method: method.to_uppercase(), template: template.clone(), fields });
        }
    }
    routes
}

/// The schema behind references.
fn resolve<'a>(description: &'a Value, mut schema: &'a Value) -> &'a Value {
    while let Some(reference) = schema["$ref"].as_str() {
        schema = description.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
    }
    schema
}

/// At most `count` shapes, the same ones every time: those that have found faults before, at least one for each route,
/// and then the others in a random order.
pub(super) fn shapes(description: &Value, count: usize, seed: u64) -> Vec<Shape> {
    let routes = routes(description);
    assert!(routes.len() >= 40, "{} routes take a body", routes.len());
    let mut rng = Rng::new(seed);
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for (number, route) in routes.iter().enumerate() {
        let mut general = of_any_route(route, route.base());
        // Another one for each route.
        let of_route = general.remove(number % general.len());
        if !route.template.contains("{namespace}") {
            first.push(of_route);
            others.extend(of_fields(route));
        }
        others.extend(general);
        let (known, more) = of_one_route(route);
        first.splice(0..0, known);
        others.extend(more);
    }
    let (known, more) = a2a_bodies::shapes();
    first.splice(0..0, known);
    others.extend(more);
    rng.shuffle(&mut others);
    first.extend(others);
    first.truncate(count);
    first
}

/// `base` with one more field.
fn with(base: &str, field: &str, raw: &str) -> Vec<u8> {
    format!("{base},\"{field}\":{raw}}}").into_bytes()
}

/// A list of as many items as are read: with blanks between them, since a dense list takes more memory than a body may
/// and is refused for that.
pub(super) fn list(item: &str) -> String {
    let width = if item.contains('{') { 40 } else { 5 };
    dense(&format!("{item:width$}"))
}

/// A list of as many items as fit.
pub(super) fn dense(item: &str) -> String {
    let mut text = String::with_capacity(SIZE + 2);
    text.push('[');
    while text.len() + item.len() < SIZE {
        text.push_str(item);
        text.push(',');
    }
    text.pop();
    text.push(']');
    text
}

/// An object of as many members as fit, all with different names.
pub(super) fn object(value: &str) -> String {
    let mut text = String::from("{");
    let mut number = 0;
    while text.len() + value.len() + 12 < SIZE {
        text.push_str(&format!("\"k{number}\":{value},"));
        number += 1;
    }
    text.pop();
    text.push('}');
    text
}

pub(super) fn text(character: &str) -> String {
    format!("\"{}\"", character.repeat(SIZE / character.len()))
}

pub(super) fn deep(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

/// What a value is called, and what makes it.
pub(super) type Filling = (&'static str, fn() -> String);

/// Values that are tried in any field.
pub(super) const FILLINGS: &[Filling] = &[
    ("zeros", || list("0")),
    ("dense zeros", || dense("0")),
    ("empty objects", || dense("{}")),
    ("empty lists", || list("[]")),
    ("texts", || list("\"ab\"")),
    ("nulls", || list("null")),
    ("objects with one member", || list("{\"name\":\"x\"}")),
    ("members", || object("0")),
    ("members that are texts", || object("\"v\"")),
    ("members that are objects", || object("{}")),
    ("a long text", || text("x")),
    ("a text of invisible characters", || text("\u{200b}")),
    ("a text of escapes", || text("\\u0001")),
    ("a text of braces", || text("{{")),
    ("digits", || "9".repeat(SIZE)),
    ("digits behind a point", || format!("0.{}", "3".repeat(SIZE))),
    ("a large exponent", || "1e400000".to_owned()),
    ("lists in lists", || deep("[", "", "]", 60)),
    ("objects in objects", || deep("{\"a\":", "0", "}", 60)),
    ("deeper than any limit", || deep("[", "", "]", SIZE / 2)),
];

/// Bodies that are unrelated to the route.
fn of_any_route(route: &Route, base: &'static str) -> Vec<Shape> {
    let raw = |name: &str, make: fn() -> String| Shape::new(route, name, move || make().into_bytes());
    let mut shapes = vec![
        raw("a list of zeros", || dense("0")),
        raw("an object of unknown fields", || object("0")),
        raw("nested lists", || deep("[", "", "]", SIZE / 2)),
        raw("nested objects", || deep("{\"a\":", "0", "}", SIZE / 6)),
        raw("blanks", || " ".repeat(SIZE)),
        raw("a text that does not end", || format!("{{\"a\":\"{}", "x".repeat(SIZE))),
        raw("one key many times", || dense("\"k\":0").replacen('[', "{", 1).replace(']', "}")),
        raw("one key in many spellings", || dense("\"\\u006b\":0").replacen('[', "{", 1).replace(']', "}")),
        raw("a long key", || format!("{{{}:0}}", text("k"))),
        raw("long keys", || object(&format!("\"{}\"", "v".repeat(500)))),
        raw("lone surrogates", || text("\\ud800")),
        raw("a number", || "1".repeat(SIZE)),
        raw("commas", || ",".repeat(SIZE)),
        Shape::new(route, "no UTF-8", || vec![0xff; SIZE]),
    ];
    shapes.push(Shape::new(route, "unknown fields", move || {
        let mut body = object("0");
        body.replace_range(0..1, &format!("{base},"));
        body.into_bytes()
    }));
    for (place, field) in [("metadata", "labels"), ("metadata", "annotations"), ("spec", "unknown")] {
        shapes.push(Shape::new(route, format!("{place}.{field}"), move || {
            with(base, place, &format!("{{\"{field}\":{}}}", object("\"v\"")))
        }));
        shapes.push(Shape::new(route, format!("{place}.{field} of zeros"), move || {
            with(base, place, &format!("{{\"{field}\":{}}}", object("0")))
        }));
    }
    shapes
}

/// Every field of the route, filled up in every way.
fn of_fields(route: &Route) -> Vec<Shape> {
    let base = route.base();
    let mut shapes = Vec::new();
    for field in &route.fields {
        for &(name, fill) in FILLINGS {
            let at = field.clone();
            shapes.push(Shape::new(route, format!("`{field}`: {name}"), move || with(base, &at, &fill())));
        }
    }
    shapes
}

/// Bodies for what the route does: the most important ones first, then the others.
fn of_one_route(route: &Route) -> (Vec<Shape>, Vec<Shape>) {
    let base = route.base();
    let shape = |name: &str, field: &'static str, fill: fn() -> String| {
        Shape::new(route, name, move || with(base, field, &fill()))
    };
    let (mut known, mut more) = (Vec::new(), Vec::new());
    if route.is("POST", "/queries") && !route.template.contains("{namespace}") {
        for (number, &(name, tools)) in schemas::ALL.iter().enumerate() {
            let shape =
                Shape::new(route, format!("tools: {name}"), move || with(base, "externalTools", &tools().to_string()));
            if number % 4 == 0 { known.push(shape) } else { more.push(shape) }
        }
        known.extend([
            Shape::new(route, "a template that expands", || expanding().to_string().into_bytes()),
            Shape::new(route, "a template of many parameters", || parameters(9_000).to_string().into_bytes()),
            shape("messages that are zeros", "type", || format!("\"messages\",\"input\":{}", list("0"))),
            shape("unknown targets", "targets", || list("{\"type\":\"agent\",\"name\":\"x\"}")),
        ]);
        more.extend([
            shape("many messages", "type", || {
                format!("\"messages\",\"input\":{}", list("{\"role\":\"user\",\"content\":\"m\"}"))
            }),
            shape("messages of parts", "type", || {
                format!(
                    "\"messages\",\"input\":[{{\"role\":\"user\",\"content\":{}}}]",
                    list("{\"type\":\"text\",\"text\":\"x\"}")
                )
            }),
            shape("messages with calls", "type", || {
                format!(
                    "\"messages\",\"input\":[{{\"role\":\"assistant\",\"tool_calls\":{}}}]",
                    list("{\"id\":\"c\",\"type\":\"function\"}")
                )
            }),
            shape("a long time to live", "ttl", || format!("\"{}h\"", "9".repeat(SIZE))),
            shape("labels to select by", "selector", || format!("{{\"matchLabels\":{}}}", object("\"v\""))),
            shape("a costly answer", "outputSchema", || {
                schemas::pattern_bomb(400, "[^b]{500}")[0]["parameters"].to_string()
            }),
            shape("parameters from nowhere", "parameters", || list("{\"name\":\"p\",\"valueFrom\":{}}")),
        ]);
    }
    if route.is("POST", "/queries/{name}/tool-result") && !route.template.contains("{namespace}") {
        known.extend([
            shape("results that are zeros", "toolResults", || list("0")),
            shape("results of calls", "toolResults", || list("{\"toolCallId\":\"c\"}")),
        ]);
        more.extend([
            shape("results of tools", "toolResults", || list("{\"toolName\":\"lookup\",\"toolResult\":1}")),
            shape("a result that is deep", "toolResult", || deep("[", "", "]", 60)),
            shape("a result of digits", "toolResult", || "7".repeat(SIZE)),
        ]);
    }
    if route.is("POST", "/agents") {
        known.push(Shape::new(route, "a prompt that expands", move || {
            let Value::Object(bomb) = expanding() else { return Vec::new() };
            with(base, "prompt", &format!("{},\"parameters\":{}", bomb["input"], bomb["parameters"]))
        }));
        more.push(shape("tools of an agent", "tools", || list("{\"type\":\"custom\",\"name\":\"x\"}")));
    }
    if route.is("POST", "/tools") {
        for &(name, tools) in schemas::ALL.iter().step_by(5) {
            more.push(Shape::new(route, format!("input schema: {name}"), move || {
                with(base, "inputSchema", &tools()[0]["parameters"].to_string())
            }));
        }
        known.push(shape("annotations of a tool", "metadata", || format!("{{\"annotations\":{}}}", object("\"v\""))));
        known.push(shape("headers of a tool", "http", || {
            format!(
                "{{\"url\":\"https://x.example\",\"headers\":{}}}",
                list("{\"name\":\"a\",\"value\":{\"value\":\"b\"}}")
            )
        }));
    }
    if route.is("POST", "/models") {
        known.push(shape("properties of a model", "config", || {
            format!("{{\"openai\":{{\"properties\":{}}}}}", object("{\"value\":\"v\"}"))
        }));
    }
    if route.is("POST", "/teams") {
        known.push(shape("members of a team", "members", || list("{\"type\":\"agent\",\"name\":\"x\"}")));
    }
    (known, more)
}

/// A template that expands to 20 GB: half of the body refers to the other half.
fn expanding() -> Value {
    let half = SIZE / 2;
    json!({
        "input": "{{.a}}".repeat(half / 6), "parameters": [{"name": "a", "value": "x".repeat(half - 1024)}],
        "target": {"type": "agent", "name": "prover"},
    })
}

fn parameters(count: usize) -> Value {
    let parameters: Vec<Value> =
        (0..count).map(|index| json!({"name": format!("p{index}"), "value": "x".repeat(40)})).collect();
    let input: String = (0..count).map(|index| format!("{{{{.p{index}}}}}")).collect();
    let target: Map<String, Value> = [("type", "agent"), ("name", "prover")]
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .into_iter()
        .collect();
    json!({"input": input, "parameters": parameters, "target": target})
}
