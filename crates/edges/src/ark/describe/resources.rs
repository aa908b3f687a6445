//! The operations on resources, described.
//!
//! All kinds have the same five operations, so they are a table with one line for each kind.

use bosun_engine::resource::ResourceKind;
use bosun_reading::{
    FieldTable, spec,
    table::{object_schema, tool_name_schema},
};
use serde_json::{Value, json};

use super::{DescribedAnswer, DescribedBody, Operation, declared, schema};
use crate::{
    ark::{
        handlers::{capabilities, events, mcp_servers, namespaces, reload, tool_cache},
        params::ToolFilter,
        resource::{
            ResourceListParams, ToolListParams, body, raw,
            wire::{
                A2aServer, A2aServerDetail, Agent, Deleted, Evaluator, ListedAgent, ListedEvaluator, ListedMemory,
                ListedModel, ListedTeam, ListedTool, McpServer, McpServerDetail, Memory, Model, Raw, RawList, Team,
                Tool,
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
        $($plural:literal $ids:literal $id:literal $words:literal $list:ty, $item:ty, $detail:ty, $create:path, $update:path, $deleted:expr;)*
        { $($more:expr,)* }
    ) => {
        pub(super) const OPERATIONS: &[Operation] = &[
            $(
                Operation {
                    method: "get",
                    path: concat!("/", $plural),
                    id: concat!("list", $ids),
                    summary: concat!("The ", $words, "s of a namespace"),
                    parameters: declared::<$list>,
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
    "agents" "Agents" "Agent" "agent" ResourceListParams, ListedAgent, Agent, new_agent, agent, DescribedAnswer::Nothing;
    "models" "Models" "Model" "model" ResourceListParams, ListedModel, Model, new_model, model, DescribedAnswer::Nothing;
    "tools" "Tools" "Tool" "tool" ToolListParams, ListedTool, Tool, new_tool, tool, DescribedAnswer::Nothing;
    "memories" "Memories" "Memory" "memory" ResourceListParams, ListedMemory, Memory, new_memory, memory, DescribedAnswer::Json(schema::<Deleted>);
    "teams" "Teams" "Team" "team" ResourceListParams, ListedTeam, Team, new_team, team, DescribedAnswer::Nothing;
    "evaluators" "Evaluators" "Evaluator" "evaluator" ResourceListParams, ListedEvaluator, Evaluator, new_evaluator, evaluator, DescribedAnswer::Json(schema::<Deleted>);
    "mcp-servers" "McpServers" "McpServer" "MCP server" ResourceListParams, McpServer, McpServerDetail, new_server, server, DescribedAnswer::Nothing;
    "a2a-servers" "A2aServers" "A2aServer" "A2A server" ResourceListParams, A2aServer, A2aServerDetail, new_agent_server, agent_server, DescribedAnswer::Nothing;
    {
        Operation {
            method: "post",
            path: "/mcp-servers/{name}/approve",
            id: "approveMcpServer",
            summary: "Approve the changed definitions of an MCP server's tools",
            parameters: declared::<()>,
            body: DescribedBody::Optional(|| object_schema(mcp_servers::APPROVE, &[])),
            answer: DescribedAnswer::Json(schema::<mcp_servers::Approved>),
            errors: &[Code::ResourceNotFound, Code::NotWithheld],
        },
        Operation {
            method: "delete",
            path: "/tool-cache",
            id: "clearToolCache",
            summary: "Drop the cached results of tools",
            parameters: declared::<ToolFilter>,
            body: DescribedBody::None,
            answer: DescribedAnswer::Json(schema::<tool_cache::Cleared>),
            errors: &[],
        },
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
            parameters: declared::<events::EventParams>,
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
            ..of_server("/context", "getContext", "The caller's default namespace, and what it may do there", DescribedAnswer::Json(schema::<capabilities::Context>))
        },
        of_server("/system-info", "getSystemInfo", "The version of the server", DescribedAnswer::Json(schema::<capabilities::SystemInfo>)),
        of_server("/capabilities", "getCapabilities", "What this server can do", DescribedAnswer::Json(schema::<capabilities::Capabilities>)),
    }
}

/// Paths that are in no namespace.
pub(super) const OF_THE_SERVER: &[Operation] = &[
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
        summary: "Create a namespace",
        parameters: declared::<()>,
        body: DescribedBody::Required(new_namespace),
        answer: DescribedAnswer::Json(schema::<namespaces::ListedNamespace>),
        errors: &[Code::ResourceExists],
    },
    Operation {
        method: "get",
        path: "/reload",
        id: "getReload",
        summary: "How the last reload of the configuration went",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<reload::Reload>),
        errors: &[],
    },
    Operation {
        method: "post",
        path: "/reload",
        id: "reload",
        summary: "Read the files and URLs of the configuration again, at once",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<reload::Reload>),
        errors: &[Code::InvalidConfiguration],
    },
];

/// Further codes of requests for whole Kubernetes objects; queries are read-only there.
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
    // The path of a list ends in `{kind}`; that of one resource, in `{name}`.
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

/// The kinds whose bodies are read by a table.
const TABLES: &[(ResourceKind, FieldTable)] = &[
    (ResourceKind::Agent, spec::AGENT),
    (ResourceKind::Model, spec::MODEL),
    (ResourceKind::Tool, spec::TOOL),
    (ResourceKind::Memory, spec::MEMORY),
    (ResourceKind::Team, spec::TEAM),
    (ResourceKind::Evaluator, spec::EVALUATOR),
    (ResourceKind::McpServer, spec::MCP_SERVER),
    (ResourceKind::A2aServer, spec::A2A_SERVER),
];

/// The `spec` of each kind, which the bodies refer to.
pub(super) fn specs() -> impl Iterator<Item = (String, Value)> {
    TABLES.iter().map(|(kind, table)| {
        let mut spec = object_schema(table, &[]);
        body::describe_short_forms(*kind, &mut spec);
        (format!("{}SpecBody", kind.as_str()), spec)
    })
}

fn reference_to_spec(kind: ResourceKind) -> String {
    format!("#/components/schemas/{}SpecBody", kind.as_str())
}

/// A body: flat, or with `spec` and `metadata`.
fn either_form(kind: ResourceKind, is_new: bool) -> Value {
    let reference = reference_to_spec(kind);
    let table = TABLES.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, table)| table);
    let flat = table
        .iter()
        .map(|field| (field.name.to_owned(), json!({"$ref": format!("{reference}/properties/{}", field.name)})));
    let mut body = json!({"type": "object", "properties": Value::Object(flat.collect())});
    for field in spec::BODY {
        body["properties"][field.name] = (field.schema)();
    }
    body["properties"]["spec"] = json!({"$ref": reference});
    if kind == ResourceKind::Tool {
        add_tool_config(&mut body);
    }
    if is_new { named(body) } else { body }
}

/// An entry of `tool-config.json` is a body of a tool, too, with names that models know.
fn add_tool_config(body: &mut Value) {
    let Some(properties) = body["properties"].as_object_mut() else { return };
    for field in spec::TOOL_CONFIG {
        properties.entry(field.name).or_insert_with(field.schema);
    }
    properties.insert("name".to_owned(), tool_name_schema());
}

/// A body that must have a name: its own, or in `metadata`.
fn named(mut body: Value) -> Value {
    let in_metadata = json!({"type": "object", "required": ["name"]});
    body["anyOf"] = json!([
        {"required": ["name"]},
        {"required": ["metadata"], "properties": {"metadata": in_metadata}},
    ]);
    body
}

macro_rules! bodies {
    ($($new:ident $change:ident $kind:ident;)*) => {$(
        fn $new() -> Value {
            either_form(ResourceKind::$kind, true)
        }

        fn $change() -> Value {
            either_form(ResourceKind::$kind, false)
        }
    )*};
}

bodies! {
    new_agent agent Agent;
    new_model model Model;
    new_tool tool Tool;
    new_memory memory Memory;
    new_team team Team;
    new_evaluator evaluator Evaluator;
    new_server server McpServer;
    new_agent_server agent_server A2aServer;
}

/// A whole document, whose `spec` is that of its kind.
fn any_manifest() -> Value {
    let mut document = object_schema(spec::DOCUMENT, &["metadata"]);
    document["properties"]["metadata"]["required"] = json!(["name"]);
    let specs: Vec<Value> = TABLES.iter().map(|(kind, _)| json!({"$ref": reference_to_spec(*kind)})).collect();
    document["properties"]["spec"] = json!({"anyOf": specs});
    document
}

fn new_namespace() -> Value {
    named(object_schema(spec::NEW_NAMESPACE, &[]))
}
