//! The operations of an OpenAPI description, 3.0, 3.1 or Swagger 2.0, as tools.
//!
//! Parameters and the body become one self-contained object schema: definitions that it refers to are copied into its
//! `$defs`, so that cycles stay cycles and nothing is expanded. References to files of the same folder are followed,
//! others are rejected. Security
//! schemes become references to secrets; the description holds no values and neither does the result. Responses are not
//! read.

use std::{borrow::Cow, cell::Cell};

use bosun_reading::Syntax;
use serde_json::{Map, Value};

use crate::{
    ConvertOptions,
    document::{Document, Path},
    format::clip,
    found::{Found, Report},
    secrets::leave_out_keys,
};

mod body;
pub(crate) mod bundle;
mod operation;
mod reference;
mod schema;
mod security;
mod style;
mod swagger;

/// The version determines the schema dialect: 3.0 has its own, 3.1 has JSON Schema's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenApiVersion {
    V3_0,
    V3_1,
}

/// Context that all operations of a description share.
struct OpenApiDocument<'a> {
    root: &'a Value,
    version: OpenApiVersion,
    /// For the names of secrets.
    title: &'a str,
    /// The server that the user names.
    server: Option<&'a str>,
    /// The number of values that may still be copied out of the description. Operations with faults spend it, too.
    budget: &'a Cell<usize>,
}

/// Enough for descriptions of thousands of operations, and far too little to exhaust memory.
const BUDGET: usize = 1_000_000;

/// Maximum length of a URL; most servers reject longer ones.
const LONGEST_URL: usize = 8_192;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

pub(crate) fn read(document: &Document<'_>, options: ConvertOptions<'_>, report: &Report) -> Vec<Found> {
    let mut tools = Vec::new();
    for (path, value) in document.parts() {
        read_description(value, options, &path, &mut tools, report);
    }
    tools.iter_mut().for_each(|found| leave_out_keys(found, report));
    tools
}

fn read_description(root: &Value, options: ConvertOptions<'_>, path: &Path, tools: &mut Vec<Found>, report: &Report) {
    let Some(version) = version(root, path, report) else { return };
    let bundled = bundle::bundle(root, options.files);
    let whole = match root.get("swagger") {
        Some(_) => Cow::Owned(swagger::upgrade(&bundled)),
        None => bundled,
    };
    let root = whole.as_ref();
    let title = root.pointer("/info/title").and_then(Value::as_str).unwrap_or("api");
    let budget = Cell::new(BUDGET);
    let api = OpenApiDocument { root, version, title, server: options.server, budget: &budget };
    if root.get("webhooks").is_some_and(|webhooks| webhooks.as_object().is_some_and(|map| !map.is_empty())) {
        report.warn(&path.key("webhooks"), "webhooks_dropped", "webhooks are calls from the API to you, not tools");
    }
    let Some(paths) = root.get("paths") else { return };
    let paths_path = path.key("paths");
    let Value::Object(paths) = paths else {
        report.fault(
            &paths_path,
            "wrong_type",
            format!("`paths` must be an object, not {}", Syntax::Json.kind_of(paths)),
        );
        return;
    };
    for (url, item) in paths {
        if !url.starts_with('/') {
            if !url.starts_with("x-") {
                report.fault(paths_path.key(url), "path_unreadable", "a path begins with `/`");
            }
            continue;
        }
        if url.len() > LONGEST_URL {
            report.fault(&paths_path, "too_large", format!("the path `{}` is too long", clip(url)));
            continue;
        }
        let item_path = paths_path.key(url);
        let Some(item) = reference::follow(root, item, &item_path, report).and_then(Value::as_object) else { continue };
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let path = item_path.key(method);
            let Some(operation) = reference::follow(root, operation, &path, report) else { continue };
            let Value::Object(operation) = operation else {
                report.fault(
                    &path,
                    "wrong_type",
                    format!("an operation must be an object, not {}", Syntax::Json.kind_of(operation)),
                );
                continue;
            };
            let place = operation::ParameterPlace { url, method, item, item_path: &item_path, path: &path };
            tools.extend(operation::read(&api, operation, &place, report));
        }
    }
}

fn version(root: &Value, path: &Path, report: &Report) -> Option<OpenApiVersion> {
    let text = |key: &str| match root.get(key) {
        Some(Value::String(text)) => text.clone(),
        // In YAML, a version without quotes is a number.
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    if root.get("swagger").is_some() {
        let text = text("swagger");
        if text == "2" || text.starts_with("2.0") {
            // Its schemas are those of 3.0.
            return Some(OpenApiVersion::V3_0);
        }
        let message = format!("Swagger `{}` is not read; 2.0 is", clip(&text));
        report.fault_with_hint(path.key("swagger"), "version_unknown", message, "convert it to OpenAPI 3 first");
        return None;
    }
    let text = text("openapi");
    if text.starts_with("3.0") {
        return Some(OpenApiVersion::V3_0);
    }
    if text.starts_with("3.1") {
        return Some(OpenApiVersion::V3_1);
    }
    let message = format!("OpenAPI `{}` is not read; 3.0 and 3.1 are", clip(&text));
    report.fault(path.key("openapi"), "version_unknown", message);
    None
}

/// The base of every URL, with its variables at their defaults; an error if there is none. A server that the user names
/// replaces an absolute one, and completes one that is only a path.
fn server(
    api: &OpenApiDocument<'_>,
    operation: &Map<String, Value>,
    item: &Map<String, Value>,
) -> Result<String, String> {
    let lists = [operation.get("servers"), item.get("servers"), api.root.get("servers")];
    let first = lists.into_iter().flatten().filter_map(Value::as_array).find_map(|list| list.first());
    let url = match (api.server.map(|server| server.trim_end_matches('/')), first) {
        (None, None) => return Err("the description names no server; `--server` names one".to_owned()),
        (None, Some(first)) => server_url(first)?,
        (Some(server), Some(first)) if !has_path(server) => match server_url(first) {
            Ok(own) if is_path(&own) => format!("{server}{own}"),
            Err(reason) if is_path(written_url(first)) => return Err(reason),
            Ok(_) | Err(_) => server.to_owned(),
        },
        (Some(server), _) => server.to_owned(),
    };
    let authority =
        url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if authority.contains('@') {
        return Err("the server's URL holds a user or a password, which belong in a secret".to_owned());
    }
    if url.contains(['?', '#']) {
        return Err("the server's URL has a query or a fragment, behind which a path has no place".to_owned());
    }
    if !is_absolute(&url) || url.len() > LONGEST_URL || url.contains(['{', '}']) || !is_host(authority) {
        let message = format!("the server's URL `{}` is not a whole address; `--server` names one", clip(&url));
        return Err(message);
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Whether all parts of a host have letters: one may be a variable without a default.
fn is_host(authority: &str) -> bool {
    let is_foreign = |letter: char| letter.is_ascii() && !letter.is_ascii_alphanumeric() && !".-_:[]".contains(letter);
    let host = authority.strip_suffix('.').unwrap_or(authority);
    !host.contains(is_foreign) && host.split('.').all(|label| !label.is_empty() && !label.starts_with(':'))
}

fn is_absolute(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn has_path(url: &str) -> bool {
    url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'))
}

/// Whether the host of a server is that of the description itself.
fn is_path(url: &str) -> bool {
    url.starts_with('/') && !url.starts_with("//")
}

fn written_url(server: &Value) -> &str {
    server.get("url").and_then(Value::as_str).unwrap_or_default()
}

/// A URL with its variables at their defaults. The specification requires a default; without one, what stands for the
/// variable is unknown.
fn server_url(server: &Value) -> Result<String, String> {
    let written = written_url(server);
    if written.len() > LONGEST_URL {
        return Err("the server's URL is too long".to_owned());
    }
    let mut url = String::new();
    let mut rest = written;
    while let Some((before, variable, after)) = rest.split_once('{').and_then(|(before, rest)| {
        let (variable, after) = rest.split_once('}')?;
        Some((before, variable, after))
    }) {
        url.push_str(before);
        match server.get("variables").and_then(|variables| variables.get(variable)?.get("default")) {
            Some(Value::String(default)) => url.push_str(default),
            // In YAML, a port without quotes is a number.
            Some(Value::Number(default)) => url.push_str(&default.to_string()),
            _ => {
                let variable = clip(variable);
                return Err(format!(
                    "the server's URL has the variable `{variable}` without a default; `--server` names one"
                ));
            }
        }
        rest = after;
    }
    url.push_str(rest);
    // Without a scheme it is the one by which the description was served.
    Ok(if url.starts_with("//") { format!("https:{url}") } else { url })
}
