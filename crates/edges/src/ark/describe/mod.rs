//! The API described as data: OpenAPI 3.1.
//!
//! Paths and methods come from the table that the router is built of; parameters, from the groups that a handler
//! takes; bodies, from the tables of fields that their readers have; what is answered, from the types that are
//! written; the statuses, from the codes that an operation may answer with. `docs/openapi.json` is this document, and
//! a test holds it to that.

mod asked;
mod resources;

use std::collections::BTreeMap;

use bosun_reading::table::{name_schema, namespace_schema, object_schema};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    answering::{audit, convert, usage},
    handlers,
    params::{ByteRange, LastEventId, ParamGroups, ViewChoice},
    reading::request::CreateParams,
    results::delivery,
    routes::{GLOBAL, RESOURCES},
    wire,
};
use crate::{
    auth::{Right, gate::Needs, whoami::Whoami},
    http::{error::Code, routes::RouteEntry},
    server::{self, routes::SERVER},
};

mod evaluations;
mod queries;
mod workers;

/// One operation of the API.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    /// The parameters outside its path.
    pub(crate) parameters: fn() -> Vec<Value>,
    pub(crate) body: DescribedBody,
    pub(crate) answer: DescribedAnswer,
    pub(crate) errors: &'static [Code],
}

pub(crate) enum DescribedBody {
    None,
    /// A body that may be absent.
    Optional(fn() -> Value),
    Required(fn() -> Value),
    /// A result as it is: JSON, or text.
    Content,
}

#[derive(Clone, Copy)]
pub(crate) enum DescribedAnswer {
    Json(fn(&mut SchemaGenerator) -> schemars::Schema),
    /// JSON, or YAML if the client asks for it.
    Manifest(fn(&mut SchemaGenerator) -> schemars::Schema),
    Stream,
    /// JSON, or a stream if the client asks for one.
    Either(fn(&mut SchemaGenerator) -> schemars::Schema),
    Nothing,
    /// A result as it is, whole or in part.
    Content,
}

/// The codes that any operation may answer with.
const ANY: &[Code] = &[
    Code::InvalidParameter,
    Code::HostNotAllowed,
    Code::OriginNotAllowed,
    Code::InternalError,
    Code::StoreUnavailable,
    Code::ShuttingDown,
];
/// The further codes of any operation of a server with authentication.
const GUARDED: &[Code] = &[Code::Unauthorized, Code::RightMissing, Code::NamespaceForbidden, Code::EndUserForbidden];
/// The further codes of any operation with a body.
const WITH_BODY: &[Code] = &[
    Code::InvalidJson,
    Code::DuplicateKey,
    Code::JsonTooDeep,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::UnsupportedMediaType,
    Code::InvalidRequest,
];

const OPERATIONS: &[Operation] = &[
    audit::OPERATION,
    usage::OPERATION,
    Operation {
        method: "get",
        path: "/queries",
        id: "listQueries",
        summary: "Queries, newest first, in pages",
        parameters: declared::<handlers::queries::QueryListParams>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<wire::List<wire::ListedQuery>>),
        errors: &[Code::NamespaceNotFound],
    },
    Operation {
        method: "post",
        path: "/queries",
        id: "createQuery",
        summary: "Ask an agent",
        parameters: declared::<CreateParams>,
        body: DescribedBody::Required(asked::query),
        answer: DescribedAnswer::Either(schema::<convert::QueryAnswer>),
        errors: &[
            Code::UnsupportedField,
            Code::UnsupportedTarget,
            Code::InvalidToolDefinitions,
            Code::InvalidToolArguments,
            Code::InvalidOutputSchema,
            Code::InvalidTemplate,
            Code::MissingParameters,
            Code::IdempotencyKeyReused,
            Code::ModelNotFound,
            Code::ToolsNotFound,
            Code::AgentNotFound,
            Code::TeamNotFound,
            Code::MemoryNotFound,
            Code::ConversationBusy,
            Code::QueryExists,
            Code::QueryDeleted,
            Code::QueryUnreadable,
            Code::Overloaded,
        ],
    },
    Operation {
        method: "get",
        path: "/queries/{name}",
        id: "getQuery",
        summary: "The state of a query",
        parameters: declared::<handlers::queries::WaitParams>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
        errors: &[Code::QueryNotFound, Code::QueryUnreadable],
    },
    Operation {
        method: "delete",
        path: "/queries/{name}",
        id: "deleteQuery",
        summary: "Delete a query and its journal",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Nothing,
        errors: &[Code::QueryNotFound, Code::QueryUnreadable],
    },
    cancel("patch", "cancelQuery"),
    cancel("post", "cancelQueryByPost"),
    Operation {
        method: "post",
        path: "/queries/{name}/continue",
        id: "continueQuery",
        summary: "Resume a held query",
        parameters: declared::<handlers::queries::WaitParams>,
        body: DescribedBody::Optional(|| object_schema(handlers::queries::CONTINUE, &[])),
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
        errors: &[
            Code::QueryNotFound,
            Code::QueryUnreadable,
            Code::QueryNotHeld,
            Code::QueryChanged,
            Code::HoldExpired,
        ],
    },
    Operation {
        method: "post",
        path: "/queries/{name}/tool-result",
        id: "deliverResults",
        summary: "Deliver the results of tools that the client runs",
        parameters: declared::<handlers::queries::WaitParams>,
        body: DescribedBody::Required(delivery::schema),
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
        errors: &[
            Code::InvalidToolResult,
            Code::TooManyResults,
            Code::QueryNotFound,
            Code::QueryUnreadable,
            Code::QueryChanged,
            Code::CallNotFound,
            Code::AlreadyResolved,
            Code::AmbiguousCall,
            Code::CallNotWaiting,
            Code::CallExpired,
            Code::CallCancelled,
        ],
    },
    Operation {
        method: "get",
        path: "/queries/{name}/tool-calls/{id}/result",
        id: "getResult",
        summary: "The content of one result",
        parameters: declared::<ByteRange>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Content,
        errors: &[
            Code::QueryNotFound,
            Code::QueryUnreadable,
            Code::CallNotFound,
            Code::ResultNotFound,
            Code::RangeNotSatisfiable,
            Code::ResultLost,
        ],
    },
    Operation {
        method: "put",
        path: "/queries/{name}/tool-calls/{id}/result",
        id: "putResult",
        summary: "Deliver one result as the body, up to 64 MiB",
        parameters: declared::<handlers::queries::UploadParams>,
        body: DescribedBody::Content,
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
        errors: &[
            Code::InvalidToolResult,
            Code::QueryNotFound,
            Code::QueryUnreadable,
            Code::QueryChanged,
            Code::CallNotFound,
            Code::AlreadyResolved,
            Code::LeaseLost,
            Code::CallExpired,
            Code::CallCancelled,
            Code::TooManyUploads,
        ],
    },
    Operation {
        method: "get",
        path: "/queries/{name}/events",
        id: "watchQuery",
        summary: "Follow a query as server-sent events",
        parameters: declared::<LastEventId>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Stream,
        errors: &[Code::InvalidEventId, Code::QueryNotFound, Code::QueryUnreadable],
    },
];

/// ARK cancels with `PATCH`; clients without that method, with `POST`.
const fn cancel(method: &'static str, id: &'static str) -> Operation {
    Operation {
        method,
        path: "/queries/{name}/cancel",
        id,
        summary: "End a query",
        parameters: declared::<ViewChoice>,
        body: DescribedBody::Optional(|| object_schema(handlers::queries::CANCEL, &[])),
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
        errors: &[Code::QueryNotFound, Code::QueryUnreadable, Code::QueryChanged],
    }
}

/// The operations that exist under both forms of path.
fn operations() -> impl Iterator<Item = &'static Operation> {
    let conversations = queries::CONVERSATIONS.iter().chain(queries::SESSIONS);
    OPERATIONS
        .iter()
        .chain(queries::OPERATIONS)
        .chain(evaluations::OPERATIONS)
        .chain(workers::OPERATIONS)
        .chain(conversations)
        .chain(resources::OPERATIONS)
}

/// The whole document.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = SchemaGenerator::new(settings);
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for operation in operations() {
        let by_path = format!("/v1/namespaces/{{namespace}}{}", operation.path);
        let by_query = format!("/v1{}", operation.path);
        for (path, is_in_path) in [(by_query, false), (by_path, true)] {
            let described = describe(operation, is_in_path, &mut generator);
            paths.entry(path).or_default().insert(operation.method.to_owned(), described);
        }
    }
    for route in SERVER.iter().chain(GLOBAL) {
        if let Some(described) = describe_of_server(route, &mut generator) {
            paths.entry(route.path.into()).or_default().insert(route.method.to_owned(), described);
        }
    }
    paths.entry("/metrics".into()).or_default().insert("get".into(), metrics_operation());
    for operation in resources::OF_THE_SERVER {
        let mut described = describe(operation, false, &mut generator);
        if let Some(parameters) = described["parameters"].as_array_mut() {
            parameters.clear();
        }
        paths.entry(format!("/v1{}", operation.path)).or_default().insert(operation.method.to_owned(), described);
    }
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    schemas.insert("Refusal".into(), refusal_schema());
    schemas.extend(resources::specs().chain(asked::specs()));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bosun",
            "description": "Runs agents and their tools, inside the server or in the client that owns them. \
                Everything that is answered is durable.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": security_schemes()},
    })
}

/// A route that is in no namespace; `None` for the document itself.
fn describe_of_server(route: &RouteEntry, generator: &mut SchemaGenerator) -> Option<Value> {
    let (summary, schema) = match route.path {
        "/" => (
            "Which server this is, and where to go from here; as a page with `Accept: text/html`",
            schema::<server::Root>(generator),
        ),
        "/health" => ("Whether the process answers", schema::<server::Service>(generator)),
        "/ready" => ("Whether it accepts work", schema::<server::Service>(generator)),
        "/v1/whoami" => ("What a key permits", schema::<Whoami>(generator)),
        _ => return None,
    };
    let mut answer = json!({"content": json_content(&schema.to_value())});
    if route.path == "/" {
        answer["content"]["text/html"] = json!({"schema": {"type": "string"}});
    }
    let mut responses = Map::new();
    responses.insert("200".into(), with_description(answer.clone(), summary));
    if route.path == "/ready" {
        responses.insert("503".into(), with_description(answer, "It does not accept work"));
    }
    let mut refused = vec![Code::HostNotAllowed, Code::OriginNotAllowed];
    let id = route.path.rsplit('/').next().filter(|id| !id.is_empty()).unwrap_or("root");
    let mut described = json!({"operationId": id, "summary": summary});
    if route.needs != Needs::Nothing {
        described["security"] = security();
        responses.insert("401".into(), error_answer(&[Code::Unauthorized]));
        refused.push(Code::EndUserForbidden);
    }
    responses.insert("403".into(), error_answer(&refused));
    described["responses"] = Value::Object(responses);
    Some(described)
}

/// What the table of routes says that an operation needs.
fn needed_right(operation: &Operation) -> Option<Right> {
    let is_it = |route: &&RouteEntry| route.path == operation.path && route.method == operation.method;
    let of_server = |route: &&RouteEntry| {
        route.path.strip_prefix("/v1") == Some(operation.path) && route.method == operation.method
    };
    let route = RESOURCES.iter().find(is_it).or_else(|| GLOBAL.iter().find(of_server));
    route.map(|route| route.needs).and_then(Needs::right)
}

/// Any one of these is enough; a server without authentication requires none.
fn security() -> Value {
    json!([{"bearer": []}, {"basic": []}, {}])
}

fn security_schemes() -> Value {
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "The secret of a key (`sk-ark-…`), or a token of an identity provider",
        },
        "basic": {"type": "http", "scheme": "basic", "description": "Both halves of a key: `pk-ark-…:sk-ark-…`"},
    })
}

fn metrics_operation() -> Value {
    let answer = json!({"content": {"text/plain": {"schema": {"type": "string"}}}});
    let codes = [Code::HostNotAllowed, Code::StoreUnavailable];
    let mut responses: Map<String, Value> =
        codes.iter().map(|code| (code.status().as_str().to_owned(), error_answer(&[*code]))).collect();
    responses.insert("200".into(), with_description(answer, "Figures in the text format of Prometheus"));
    responses.insert("401".into(), error_answer(&[Code::Unauthorized]));
    let security = security();
    json!({"operationId": "metrics", "summary": "Figures for Prometheus", "security": security, "responses": responses})
}

pub(crate) fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

fn describe(operation: &Operation, is_in_path: bool, generator: &mut SchemaGenerator) -> Value {
    let Operation { id, summary, parameters, body, answer, errors, .. } = operation;
    let namespace = if is_in_path {
        path_parameter("namespace")
    } else {
        json!({"name": "namespace", "in": "query", "schema": namespace_schema(), "description": "`default` without it"})
    };
    let in_path = operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<_> =
        std::iter::once(namespace).chain(in_path.map(path_parameter)).chain(parameters()).collect();
    let suffix = if is_in_path { "InNamespace" } else { "" };
    let tag = operation.path.split('/').nth(1).unwrap_or_default();
    let mut described = json!({
        "operationId": format!("{id}{suffix}"),
        "summary": summary,
        "tags": [tag],
        "parameters": parameters,
    });
    let right = needed_right(operation);
    if let Some(right) = right {
        described["security"] = security();
        described["x-bosun-right"] = json!(right.as_str());
    }
    let (required, content) = match body {
        DescribedBody::None => (false, None),
        DescribedBody::Optional(schema) => (false, Some(json_content(&schema()))),
        DescribedBody::Required(schema) => (true, Some(json_content(&schema()))),
        // A failure need not have any.
        DescribedBody::Content => (false, Some(any_content())),
    };
    let guarded = if right.is_some() { GUARDED } else { &[] };
    let mut codes: Vec<Code> = guarded.iter().chain(ANY).chain(*errors).copied().collect();
    if let Some(content) = content {
        codes.extend(WITH_BODY);
        described["requestBody"] = json!({"required": required, "content": content});
    }
    described["responses"] = responses(*answer, &codes, generator);
    if *id == "createQuery" {
        described["requestBody"]["content"]["application/json"]["example"] = query_example();
        described["responses"]["200"]["links"] = links(suffix);
    }
    described
}

/// Links to the operations on the created query.
fn links(suffix: &str) -> Value {
    let on_queries = operations().filter(|operation| operation.path.starts_with("/queries/{name}"));
    let link = |operation: &Operation| {
        let mut parameters = json!({"name": "$response.body#/name"});
        if operation.path.contains("{id}") {
            parameters["id"] = json!("$response.body#/toolCall/id");
        }
        if !suffix.is_empty() {
            parameters["namespace"] = json!("$response.body#/namespace");
        }
        (operation.id.to_owned(), json!({"operationId": format!("{}{suffix}", operation.id), "parameters": parameters}))
    };
    Value::Object(on_queries.map(link).collect())
}

/// The first example of the RFC.
fn query_example() -> Value {
    json!({
        "input": "What is 25% of 8,432?",
        "target": {"type": "agent", "name": "math-assistant"},
        "externalTools": [{
            "name": "calculator",
            "description": "Evaluates an arithmetic expression",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string"}},
                "required": ["expression"],
            },
        }],
    })
}

fn responses(answer: DescribedAnswer, codes: &[Code], generator: &mut SchemaGenerator) -> Value {
    // docs/streaming.md describes the events; a schema cannot.
    let stream = json!({"schema": {}});
    let done = match answer {
        DescribedAnswer::Nothing => json!({}),
        DescribedAnswer::Content => json!({"content": any_content()}),
        DescribedAnswer::Json(schema) => json!({"content": json_content(&schema(generator).to_value())}),
        DescribedAnswer::Manifest(schema) => {
            let mut content = json_content(&schema(generator).to_value());
            content["application/yaml"] = json!({"schema": {}});
            json!({"content": content})
        }
        DescribedAnswer::Stream => json!({"content": {"text/event-stream": stream}}),
        DescribedAnswer::Either(schema) => {
            let mut content = json_content(&schema(generator).to_value());
            content["text/event-stream"] = stream;
            json!({"content": content})
        }
    };
    let status = if matches!(answer, DescribedAnswer::Nothing) { "204" } else { "200" };
    let mut by_status: BTreeMap<String, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().as_str().to_owned()).or_default().push(*code);
    }
    let mut responses: Map<String, Value> =
        by_status.iter().map(|(status, codes)| (status.clone(), error_answer(codes))).collect();
    if matches!(answer, DescribedAnswer::Content) {
        responses.insert("206".into(), with_description(done.clone(), "The part that was asked for"));
    }
    responses.insert(status.into(), with_description(done, "Done, and durable"));
    Value::Object(responses)
}

/// JSON, or text of any sort.
fn any_content() -> Value {
    json!({"application/json": {"schema": {}}, "text/plain": {"schema": {"type": "string"}}})
}

fn json_content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn with_description(mut response: Value, description: &str) -> Value {
    response["description"] = json!(description);
    response
}

fn error_answer(codes: &[Code]) -> Value {
    let words: Vec<_> = codes.iter().map(|code| format!("`{}`", code.as_str())).collect();
    let content = json_content(&json!({"$ref": "#/components/schemas/Refusal"}));
    json!({"description": words.join(", "), "content": content})
}

/// ARK's `detail`, and next to it the code and the details that it lacks.
fn refusal_schema() -> Value {
    json!({
        "type": "object",
        "required": ["detail", "error"],
        "properties": {
            "detail": {"anyOf": [
                {"type": "string"},
                {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}},
                {"type": "array", "items": {
                    "type": "object",
                    "required": ["type", "loc", "msg", "input"],
                    "properties": {
                        "type": {"type": "string"},
                        "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                        "msg": {"type": "string"},
                        "input": {"description": "The value at the path, or else the one that encloses it, without secrets"},
                    },
                }},
            ]},
            "body": {"description": "What was sent, without keys, where `detail` lists what is wrong with it"},
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "details": {"type": "array", "items": {"type": "object"}},
                    "omitted": {"type": "integer", "description": "How many faults are not listed, and entries not read"},
                },
            },
        },
    })
}

/// A variable part of a path.
fn path_parameter(name: &str) -> Value {
    let schema = match name {
        "namespace" => namespace_schema(),
        "version" => json!({"enum": ["v1", "v1alpha1"]}),
        "group" => json!({"enum": ["ark.mckinsey.com"]}),
        "kind" => json!({"type": "string", "pattern": "^[A-Za-z]{1,30}$", "examples": ["agents"]}),
        "id" => json!({"type": "string", "minLength": 1}),
        _ => name_schema(),
    };
    json!({"name": name, "in": "path", "required": true, "schema": schema})
}

/// The parameters that the groups of a handler declare.
pub(crate) fn declared<G: ParamGroups>() -> Vec<Value> {
    G::describe()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let described: BTreeSet<_> = operations().map(|it| (it.path, it.method)).collect();
        let served: BTreeSet<_> = RESOURCES.iter().map(|it| (it.path, it.method)).collect();
        assert_eq!(described, served);
    }

    #[test]
    fn the_page_in_docs_is_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let current = format!("{:#}\n", document());
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        if std::env::var_os("BOSUN_UPDATE_DOCS").is_some() {
            std::fs::write(path, &current).unwrap();
        } else {
            assert!(stored == current, "docs/openapi.json is out of date: run this test with BOSUN_UPDATE_DOCS=1");
        }
    }
}
