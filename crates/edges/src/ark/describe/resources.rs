//! The operations on resources, described.
//!
//! Six kinds have the same five operations, so they are a table with one line for each kind.

use bosun_core::tool::BindingKind;
use serde_json::{Value, json};

use super::{DescribedAnswer, DescribedBody, Operation, declared, schema};
use crate::{
    ark::{
        handlers::{capabilities, events, namespaces},
        params::{EventFilter, name_schema},
        reading::fields::{duration_schema, texts_schema},
        resource::{
            self, raw,
            wire::{
                Agent, Deleted, ListedAgent, ListedMemory, ListedModel, ListedTeam, ListedTool, McpServer,
                McpServerDetail, Memory, Model, Raw, RawList, Team, Tool,
            },
        },
        wire::List,
    },
    http::error::Code,
};

const CHANGING: &[Code] = &[
    Code::UnsupportedField,
    Code::InvalidResource,
    Code::ResourceNotFound,
    Code::ManagedByFile,
    Code::ManagedByServer,
];
const CREATING: &[Code] = &[Code::UnsupportedField, Code::InvalidResource, Code::ResourceExists];
const DELETING: &[Code] = &[Code::ResourceNotFound, Code::ManagedByFile, Code::ManagedByServer];
const READING: &[Code] = &[Code::ResourceNotFound];

/// A table of kinds, followed by operations as they are.
macro_rules! operations {
    (
        $($plural:literal $ids:literal $id:literal $words:literal $item:ty, $detail:ty, $create:path, $update:path, $deleted:expr;)*
        { $($more:expr,)* }
    ) => {
        pub(super) const OPERATIONS: &[Operation] = &[
            $(
                Operation {
                    method: "get",
                    path: concat!("/", $plural),
                    id: concat!("list", $ids),
                    summary: concat!("The ", $words, "s of a namespace"),
                    parameters: declared::<resource::ResourceListParams>,
                    body: DescribedBody::None,
                    answer: DescribedAnswer::Json(schema::<List<$item>>),
                    errors: &[Code::NamespaceNotFound],
                },
                Operation {
                    method: "post",
                    path: concat!("/", $plural),
                    id: concat!("create", $id),
                    summary: concat!("Store a new ", $words),
                    parameters: declared::<()>,
                    body: DescribedBody::Required($create),
                    answer: DescribedAnswer::Json(schema::<$detail>),
                    errors: CREATING,
                },
                Operation {
                    method: "get",
                    path: concat!("/", $plural, "/{name}"),
                    id: concat!("get", $id),
                    summary: concat!("One ", $words, ", and whether what it refers to exists"),
                    parameters: declared::<()>,
                    body: DescribedBody::None,
                    answer: DescribedAnswer::Json(schema::<$detail>),
                    errors: READING,
                },
                Operation {
                    method: "put",
                    path: concat!("/", $plural, "/{name}"),
                    id: concat!("update", $id),
                    summary: concat!("Change what the body names of a stored ", $words),
                    parameters: declared::<()>,
                    body: DescribedBody::Required($update),
                    answer: DescribedAnswer::Json(schema::<$detail>),
                    errors: CHANGING,
                },
                Operation {
                    method: "delete",
                    path: concat!("/", $plural, "/{name}"),
                    id: concat!("delete", $id),
                    summary: concat!("Remove a stored ", $words),
                    parameters: declared::<()>,
                    body: DescribedBody::None,
                    answer: $deleted,
                    errors: DELETING,
                },
            )*
            $($more,)*
        ];
    };
}

operations! {
    "agents" "Agents" "Agent" "agent" ListedAgent, Agent, new_agent, agent, DescribedAnswer::Nothing;
    "models" "Models" "Model" "model" ListedModel, Model, new_model, model, DescribedAnswer::Nothing;
    "tools" "Tools" "Tool" "tool" ListedTool, Tool, new_tool, tool, DescribedAnswer::Nothing;
    "memories" "Memories" "Memory" "memory" ListedMemory, Memory, new_memory, memory, DescribedAnswer::Json(schema::<Deleted>);
    "teams" "Teams" "Team" "team" ListedTeam, Team, new_team, team, DescribedAnswer::Nothing;
    "mcp-servers" "McpServers" "McpServer" "MCP server" McpServer, McpServerDetail, new_server, server, DescribedAnswer::Nothing;
    {
        raw_operation("get", "/resources/api/{version}/{kind}", "listCoreResources", declared::<raw::RawListParams>),
        raw_operation("post", "/resources/api/{version}/{kind}", "createCoreResource", declared::<()>),
        raw_operation("get", "/resources/api/{version}/{kind}/{name}", "getCoreResource", declared::<()>),
        raw_operation("put", "/resources/api/{version}/{kind}/{name}", "replaceCoreResource", declared::<()>),
        raw_operation("delete", "/resources/api/{version}/{kind}/{name}", "deleteCoreResource", declared::<()>),
        raw_operation("get", "/resources/apis/{group}/{version}/{kind}", "listResources", declared::<raw::RawListParams>),
        raw_operation("post", "/resources/apis/{group}/{version}/{kind}", "createResource", declared::<()>),
        raw_operation("get", "/resources/apis/{group}/{version}/{kind}/{name}", "getResource", declared::<()>),
        raw_operation("put", "/resources/apis/{group}/{version}/{kind}/{name}", "replaceResource", declared::<()>),
        raw_operation("delete", "/resources/apis/{group}/{version}/{kind}/{name}", "deleteResource", declared::<()>),
        Operation {
            method: "get",
            path: "/events",
            id: "listEvents",
            summary: "What happened to a query, or to the latest ones",
            parameters: declared::<EventFilter>,
            body: DescribedBody::None,
            answer: DescribedAnswer::Json(schema::<List<events::QueryEvent>>),
            errors: &[Code::NamespaceNotFound, Code::QueryUnreadable],
        },
        Operation {
            method: "get",
            path: "/events/{name}",
            id: "getEvent",
            summary: "One thing that happened to a query",
            parameters: declared::<()>,
            body: DescribedBody::None,
            answer: DescribedAnswer::Json(schema::<events::QueryEvent>),
            errors: &[Code::ResourceNotFound, Code::QueryUnreadable],
        },
        Operation {
            errors: &[Code::NamespaceNotFound],
            ..of_server("/context", "getContext", "The namespace that is meant where none is named", DescribedAnswer::Json(schema::<capabilities::Context>))
        },
        of_server("/system-info", "getSystemInfo", "The version of the server", DescribedAnswer::Json(schema::<capabilities::SystemInfo>)),
        of_server("/capabilities", "getCapabilities", "What this server can do", DescribedAnswer::Json(schema::<capabilities::Capabilities>)),
    }
}

/// Paths that are in no namespace.
pub(super) const ON_NAMESPACES: &[Operation] = &[
    Operation {
        method: "get",
        path: "/namespaces",
        id: "listNamespaces",
        summary: "All namespaces",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<List<namespaces::ListedNamespace>>),
        errors: &[],
    },
    Operation {
        method: "post",
        path: "/namespaces",
        id: "createNamespace",
        summary: "Make a namespace",
        parameters: declared::<()>,
        body: DescribedBody::Required(new_namespace),
        answer: DescribedAnswer::Json(schema::<namespaces::ListedNamespace>),
        errors: &[Code::ResourceExists],
    },
];

/// What a request for whole objects may be answered with, beside what others are: queries are only read.
const RAW_READING: &[Code] = &[Code::ResourceNotFound, Code::QueryNotFound, Code::QueryUnreadable];
const RAW_LISTING: &[Code] = &[Code::NamespaceNotFound, Code::ResourceNotFound];
const RAW_CREATING: &[Code] =
    &[Code::UnsupportedField, Code::InvalidResource, Code::ResourceExists, Code::ResourceNotFound];
const RAW_CHANGING: &[Code] = &[
    Code::UnsupportedField,
    Code::InvalidResource,
    Code::ResourceNotFound,
    Code::ManagedByFile,
    Code::ManagedByServer,
];
const RAW_DELETING: &[Code] =
    &[Code::ResourceNotFound, Code::ManagedByFile, Code::ManagedByServer, Code::InvalidResource];

const fn raw_operation(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    parameters: fn() -> Vec<Value>,
) -> Operation {
    // Only what is in a path of one resource is the name of one.
    let is_list = path.as_bytes()[path.len() - 2] == b'd';
    let one = DescribedAnswer::Manifest(schema::<Raw>);
    let (summary, body, answer, errors) = match method.as_bytes() {
        b"post" => ("Store a resource as Kubernetes has it", DescribedBody::Required(any_manifest), one, RAW_CREATING),
        b"put" => ("Replace a stored resource as a whole", DescribedBody::Required(any_manifest), one, RAW_CHANGING),
        b"delete" => ("Remove a stored resource", DescribedBody::None, DescribedAnswer::Nothing, RAW_DELETING),
        _ if is_list => (
            "Resources as Kubernetes has them",
            DescribedBody::None,
            DescribedAnswer::Manifest(schema::<RawList>),
            RAW_LISTING,
        ),
        _ => ("A resource as Kubernetes has it", DescribedBody::None, one, RAW_READING),
    };
    Operation { method, path, id, summary, parameters, body, answer, errors }
}

const fn of_server(path: &'static str, id: &'static str, summary: &'static str, answer: DescribedAnswer) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        summary,
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer,
        errors: &[],
    }
}

fn reference() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}})
}

/// A text, or where to find it.
fn value_source() -> Value {
    let key = json!({"type": "object", "required": ["name", "key"],
        "properties": {"name": {"type": "string"}, "key": {"type": "string"}, "optional": {"type": "boolean"}}});
    json!({"type": "object", "properties": {
        "value": {"type": "string"},
        "valueFrom": {"type": "object", "properties": {
            "secretKeyRef": key, "configMapKeyRef": key, "queryParameterRef": reference(),
        }},
    }})
}

/// A body: flat, or with `spec` and `metadata`.
fn either_form(spec: Value, is_new: bool) -> Value {
    let mut properties = spec.clone();
    properties["name"] = name_schema();
    properties["labels"] = texts_schema();
    properties["annotations"] = texts_schema();
    properties["spec"] = json!({"type": "object", "properties": spec});
    let metadata = json!({"name": name_schema(), "labels": texts_schema(), "annotations": texts_schema()});
    properties["metadata"] = json!({"type": "object", "properties": metadata});
    let mut body = json!({"type": "object", "properties": properties});
    if is_new {
        let in_metadata = json!({"type": "object", "required": ["name"]});
        body["anyOf"] = json!([
            {"required": ["name"]},
            {"required": ["metadata"], "properties": {"metadata": in_metadata}},
        ]);
    }
    body
}

macro_rules! bodies {
    ($($new:ident $change:ident $spec:ident;)*) => {$(
        fn $new() -> Value {
            either_form($spec(), true)
        }

        fn $change() -> Value {
            either_form($spec(), false)
        }
    )*};
}

bodies! {
    new_agent agent agent_spec;
    new_model model model_spec;
    new_tool tool tool_spec;
    new_memory memory memory_spec;
    new_team team team_spec;
    new_server server server_spec;
}

fn agent_spec() -> Value {
    let tool = json!({"type": "object", "required": ["type", "name"], "properties": {
        "type": {"enum": ["builtin", "built-in", "custom", "http", "mcp", "agent", "team", "inline", "external"]},
        "name": {"type": "string"},
        "description": {"type": "string"},
    }});
    let mut parameter = value_source();
    parameter["required"] = json!(["name"]);
    parameter["properties"]["name"] = json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"});
    json!({
        "description": {"type": "string"},
        "prompt": {"type": "string"},
        "modelRef": reference(),
        "tools": {"type": "array", "items": tool},
        "parameters": {"type": "array", "items": parameter},
    })
}

fn model_spec() -> Value {
    json!({
        "provider": {"type": "string", "examples": ["openai"]},
        "model": {"anyOf": [{"type": "string"}, value_source()]},
        "config": {"type": "object", "additionalProperties": {"type": "object"}},
    })
}

fn tool_spec() -> Value {
    let types: Vec<_> = BindingKind::of_manifests().map(BindingKind::as_str).collect();
    json!({
        "type": {"enum": types},
        "description": {"type": "string"},
        "inputSchema": {"type": "object", "description": "JSON Schema of an object"},
        "http": {"type": "object"},
        "mcp": {"type": "object"},
        "agent": reference(),
        "team": reference(),
        "builtin": reference(),
        "inline": {"type": "object"},
        "external": {"type": "object"},
    })
}

fn memory_spec() -> Value {
    json!({
        "type": {"const": "buffer"},
        "maxMessages": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "maxTokens": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
        "description": {"type": "string"},
    })
}

fn team_spec() -> Value {
    let member = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "type": {"enum": ["agent", "team"]}}});
    json!({
        "description": {"type": "string"},
        "members": {"type": "array", "items": member},
        "strategy": {"enum": ["sequential", "round-robin", "selector", "graph"]},
        "maxTurns": {"type": "integer", "minimum": 1},
        "graph": {"type": "object"},
        "selector": {"type": "object"},
    })
}

fn server_spec() -> Value {
    json!({
        "address": {"anyOf": [{"type": "string"}, value_source()]},
        "transport": {"enum": ["http", "sse"]},
        "description": {"type": "string"},
        "timeout": duration_schema(),
        "headers": {"type": "array", "items": {"type": "object"}},
    })
}

fn any_manifest() -> Value {
    json!({
        "type": "object",
        "required": ["metadata"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "required": ["name"],
                "properties": {"name": name_schema(), "labels": texts_schema(), "annotations": texts_schema()}},
            "spec": {"type": "object"},
            "data": texts_schema(),
        },
    })
}

fn new_namespace() -> Value {
    let name = json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63});
    json!({"type": "object", "required": ["name"], "properties": {"name": name}})
}
