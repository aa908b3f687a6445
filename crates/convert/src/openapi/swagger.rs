//! Swagger 2.0 as OpenAPI 3.0.
//!
//! The two differ in how a request is described: bodies and forms are parameters, parameters have their schema next to
//! their name, and the server has three parts. The schemas are those of 3.0, and references keep their targets, so only
//! the requests are rewritten. What is behind a reference in the place of a path, an operation or a parameter is copied
//! to that place, since its form depends on what is around it there. Positions stay those of the description: its paths keep their names.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::reference;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Keywords of a parameter that are its schema.
const SCHEMA: [&str; 17] = [
    "type",
    "format",
    "items",
    "default",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "multipleOf",
    "x-nullable",
];

/// Maximum number of values that are copied from behind references.
pub(super) const MOST_COPIED: usize = 1_000_000;

/// In place of a reference that is not copied since it would be too much: a fault where it is followed.
pub(super) const TOO_LARGE: &str = "#/x-bosun-too-large";

/// Maximum length of a chain of references; a longer one is a cycle.
const LONGEST_CHAIN: usize = 32;

/// The description in the shape of OpenAPI 3.0, with its other members as they are.
pub(super) fn upgrade(root: &Value) -> Value {
    let Value::Object(members) = root else { return root.clone() };
    let mut upgraded = members.clone();
    upgraded.insert("openapi".to_owned(), "3.0.3".into());
    upgraded.insert("servers".to_owned(), servers(root));
    let schemes = members.get("securityDefinitions").and_then(Value::as_object);
    let schemes: Map<String, Value> =
        schemes.into_iter().flatten().map(|(name, scheme)| (name.clone(), security_scheme(scheme))).collect();
    upgraded.insert("components".to_owned(), json!({"securitySchemes": schemes}));
    let requests = Requests { root, consumes: members.get("consumes"), copied: Cell::new(0) };
    let paths = members.get("paths").and_then(Value::as_object);
    let paths: Map<String, Value> =
        paths.into_iter().flatten().map(|(url, item)| (url.clone(), requests.path_item(item))).collect();
    upgraded.insert("paths".to_owned(), paths.into());
    upgraded.into()
}

fn servers(root: &Value) -> Value {
    let text = |key: &str| root.get(key).and_then(Value::as_str).unwrap_or_default();
    let base = text("basePath").trim_end_matches('/');
    let schemes: Vec<&str> =
        root.get("schemes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    match (text("host"), schemes.as_slice()) {
        ("", _) if base.is_empty() => json!([]),
        ("", _) => json!([{"url": base}]),
        // Without a scheme it is the one by which the description was served.
        (host, []) => json!([{"url": format!("https://{host}{base}")}]),
        (host, schemes) => {
            let scheme = schemes.iter().find(|scheme| **scheme == "https").unwrap_or(&schemes[0]);
            json!([{"url": format!("{scheme}://{host}{base}")}])
        }
    }
}

fn security_scheme(scheme: &Value) -> Value {
    if scheme.get("type") == Some(&json!("basic")) {
        json!({"type": "http", "scheme": "basic"})
    } else {
        scheme.clone()
    }
}

/// The requests of a description.
struct Requests<'a> {
    root: &'a Value,
    consumes: Option<&'a Value>,
    /// The number of values that were copied from behind references.
    copied: Cell<usize>,
}

impl<'a> Requests<'a> {
    /// What a chain of references names, to be copied; the value itself if it leads nowhere, which is a fault where it
    /// is read. The error stands for what is too large.
    fn copied(&self, value: &'a Value) -> Result<&'a Value, Value> {
        let target = self.followed(value);
        if !std::ptr::eq(target, value) {
            let mut waiting = vec![target];
            while let Some(value) = waiting.pop() {
                self.copied.set(self.copied.get() + 1);
                if self.copied.get() > MOST_COPIED {
                    return Err(json!({"$ref": TOO_LARGE}));
                }
                match value {
                    Value::Array(items) => waiting.extend(items),
                    Value::Object(members) => waiting.extend(members.values()),
                    _ => {}
                }
            }
        }
        Ok(target)
    }

    fn followed(&self, value: &'a Value) -> &'a Value {
        let mut current = value;
        for _ in 0..LONGEST_CHAIN {
            match reference::of(current).map(|target| reference::resolve(self.root, target)) {
                None => return current,
                Some(Ok(target)) => current = target,
                Some(Err(_)) => return value,
            }
        }
        value
    }

    fn path_item(&self, item: &'a Value) -> Value {
        let members = match self.copied(item) {
            Ok(Value::Object(members)) => members,
            Ok(other) => return other.clone(),
            Err(too_large) => return too_large,
        };
        let mut upgraded = members.clone();
        // Parameters of the path may be bodies of its operations, so each operation gets them all.
        upgraded.remove("parameters");
        let shared = members.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for method in METHODS {
            if let Some(operation) = members.get(method) {
                upgraded.insert(method.to_owned(), self.operation(operation, shared));
            }
        }
        upgraded.into()
    }

    fn operation(&self, operation: &'a Value, shared: &'a [Value]) -> Value {
        let members = match self.copied(operation) {
            Ok(Value::Object(members)) => members,
            Ok(other) => return other.clone(),
            Err(too_large) => return too_large,
        };
        let mut upgraded = members.clone();
        let own = members.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let consumes = members.get("consumes").or(self.consumes).and_then(Value::as_array);
        let consumes: Vec<&str> = consumes.into_iter().flatten().filter_map(Value::as_str).collect();
        let identity = |parameter: &'a Value| {
            let target = self.followed(parameter);
            (target.get("name"), target.get("in"))
        };
        let overridden: Vec<_> = own.iter().map(identity).collect();
        let inherited = shared.iter().filter(|parameter| !overridden.contains(&identity(parameter)));
        let mut parameters = Vec::new();
        let mut fields = Vec::new();
        for parameter in inherited.chain(own) {
            let target = match self.copied(parameter) {
                Ok(target) => target,
                Err(too_large) => {
                    parameters.push(too_large);
                    continue;
                }
            };
            match target.get("in").and_then(Value::as_str) {
                Some("body") => {
                    let media = consumes.iter().find(|media| media.contains("json")).or(consumes.first());
                    let schema = target.get("schema").cloned().unwrap_or_else(|| json!({}));
                    let mut body = json!({"content": {*media.unwrap_or(&"application/json"): {"schema": schema}}});
                    for key in ["required", "description"] {
                        if let Some(value) = target.get(key) {
                            body[key] = value.clone();
                        }
                    }
                    upgraded.insert("requestBody".to_owned(), body);
                }
                Some("formData") => fields.push(target),
                _ => parameters.push(upgrade_parameter(target)),
            }
        }
        if !fields.is_empty() {
            upgraded.insert("requestBody".to_owned(), form(&fields, &consumes));
        }
        upgraded.insert("parameters".to_owned(), parameters.into());
        upgraded.into()
    }
}

fn upgrade_parameter(parameter: &Value) -> Value {
    let Value::Object(members) = parameter else { return parameter.clone() };
    if members.contains_key("schema") || members.contains_key("$ref") {
        return parameter.clone();
    }
    let mut upgraded: Map<String, Value> = members
        .iter()
        .filter(|(key, _)| !SCHEMA.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    upgraded.insert("schema".to_owned(), schema_of(members));
    if members.get("type") == Some(&json!("array")) {
        let (style, explode) = collection(members);
        let is_query = members.get("in") == Some(&json!("query"));
        upgraded.insert("style".to_owned(), if is_query { style } else { "simple" }.into());
        upgraded.insert("explode".to_owned(), (is_query && explode).into());
    }
    upgraded.into()
}

/// `collectionFormat` as `style` and `explode`.
fn collection(parameter: &Map<String, Value>) -> (&'static str, bool) {
    match parameter.get("collectionFormat").and_then(Value::as_str) {
        Some("multi") => ("form", true),
        Some("ssv") => ("spaceDelimited", false),
        Some("tsv") => ("tabDelimited", false),
        Some("pipes") => ("pipeDelimited", false),
        _ => ("form", false),
    }
}

fn schema_of(parameter: &Map<String, Value>) -> Value {
    let schema = parameter.iter().filter(|(key, _)| SCHEMA.contains(&key.as_str()));
    let mut schema: Map<String, Value> = schema.map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(nullable) = schema.remove("x-nullable") {
        schema.insert("nullable".to_owned(), nullable);
    }
    if schema.get("type") == Some(&json!("file")) {
        schema.insert("type".to_owned(), "string".into());
        schema.insert("format".to_owned(), "binary".into());
    }
    schema.into()
}

fn form(fields: &[&Value], consumes: &[&str]) -> Value {
    let has_file = fields.iter().any(|field| field.get("type") == Some(&json!("file")));
    let multipart = "multipart/form-data";
    let urlencoded = "application/x-www-form-urlencoded";
    let media = if has_file || (consumes.contains(&multipart) && !consumes.contains(&urlencoded)) {
        multipart
    } else {
        urlencoded
    };
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut encoding = Map::new();
    for field in fields.iter().filter_map(|field| field.as_object()) {
        let Some(name) = field.get("name").and_then(Value::as_str) else { continue };
        let mut schema = schema_of(field);
        if let (Some(description), Value::Object(schema)) = (field.get("description"), &mut schema) {
            schema.insert("description".to_owned(), description.clone());
        }
        properties.insert(name.to_owned(), schema);
        if field.get("required") == Some(&Value::Bool(true)) {
            required.push(name.to_owned());
        }
        if field.get("type") == Some(&json!("array")) {
            let (style, explode) = collection(field);
            encoding.insert(name.to_owned(), json!({"style": style, "explode": explode}));
        }
    }
    let is_required = !required.is_empty();
    let mut schema = json!({"type": "object", "properties": properties});
    if is_required {
        schema["required"] = required.into();
    }
    json!({"required": is_required, "content": {media: {"schema": schema, "encoding": encoding}}})
}
