//! The tables of ARK's documents and of the `spec` of each kind: what their readers take, and what the API describes.
//!
//! [`tool`](crate::tool) reads a tool by them, and the adapters' manifests read the others. Fields that ARK knows and
//! this version refuses are in no table.

use bosun_core::tool::{BindingKind, CacheScope, Confirm};
use serde_json::{Value, json};

use crate::table::{
    Field, FieldTable, duration_schema, flag_schema, list_schema, name_schema, namespace_schema, object_schema,
    text_schema, texts_schema,
};

/// A document of any kind. A config map has `data` where the other kinds have a `spec`.
pub const DOCUMENT: FieldTable =
    &[API_VERSION, KIND, METADATA_FIELD, SPEC, Field::new("data", texts_schema), Field::new("immutable", flag_schema)];
pub const METADATA: FieldTable = &[NAME, NAMESPACE, LABELS, ANNOTATIONS];
/// What the body of a request has around the fields of a `spec`, which may also be next to these: both forms of ARK's
/// API, flat and as a document.
pub const BODY: FieldTable = &[API_VERSION, KIND, METADATA_FIELD, SPEC, NAME, NAMESPACE, LABELS, ANNOTATIONS];
/// The body that creates a namespace.
pub const NEW_NAMESPACE: FieldTable = &[OWN_NAME, Field::new("metadata", || object_schema(&[OWN_NAME], &["name"]))];
const API_VERSION: Field = Field::new("apiVersion", text_schema);
const KIND: Field = Field::new("kind", text_schema);
const METADATA_FIELD: Field = Field::new("metadata", || object_schema(METADATA, &[]));
const SPEC: Field = Field::new("spec", || json!({"type": "object"}));
const NAME: Field = Field::new("name", name_schema);
const NAMESPACE: Field = Field::new("namespace", namespace_schema);
const LABELS: Field = Field::new("labels", texts_schema);
const ANNOTATIONS: Field = Field::new("annotations", texts_schema);
const OWN_NAME: Field = Field::new("name", namespace_schema);

/// `{name}`.
pub const NAMED: FieldTable = &[Field::new("name", text_schema)];
/// `{name, namespace}`; the namespace must be that of the resource itself.
pub const MODEL_REF: FieldTable = &[Field::new("name", text_schema), Field::new("namespace", text_schema)];

/// `{value}` or `{valueFrom}`.
pub const VALUE_SOURCE: FieldTable = &[VALUE, Field::new("valueFrom", || object_schema(VALUE_FROM, &[]))];
pub const VALUE_FROM: FieldTable = &[
    SECRET_KEY_REF,
    Field::new("configMapKeyRef", key_ref_schema),
    Field::new("queryParameterRef", || object_schema(NAMED, &["name"])),
];
/// The same for values that only the server reads: written out, or a secret.
pub const SECRET_VALUE: FieldTable =
    &[VALUE, Field::new("valueFrom", || object_schema(SECRET_FROM, &["secretKeyRef"]))];
pub const SECRET_FROM: FieldTable = &[SECRET_KEY_REF];
/// An entry of a config map or of a secret.
pub const KEY_REF: FieldTable =
    &[Field::new("name", text_schema), Field::new("key", text_schema), Field::new("optional", flag_schema)];
/// A header or a parameter whose source is next to its name.
pub const NAMED_SOURCE: FieldTable =
    &[Field::new("name", text_schema), VALUE, Field::new("valueFrom", || object_schema(VALUE_FROM, &[]))];
/// A header or a parameter whose source is in `value`.
pub const NAMED_VALUE: FieldTable = &[Field::new("name", text_schema), Field::new("value", value_source_schema)];
const VALUE: Field = Field::new("value", text_schema);
const SECRET_KEY_REF: Field = Field::new("secretKeyRef", key_ref_schema);

fn key_ref_schema() -> Value {
    object_schema(KEY_REF, &["name", "key"])
}

fn value_source_schema() -> Value {
    object_schema(VALUE_SOURCE, &[])
}

fn secret_value_schema() -> Value {
    object_schema(SECRET_VALUE, &[])
}

fn json_schema_schema() -> Value {
    json!({"type": "object", "description": "JSON Schema of an object"})
}

/// ARK's other spelling of `builtin`, for an agent's tools.
const BUILT_IN: &str = "built-in";
/// The type of an agent's tool that has a manifest, whatever type the manifest has.
const CUSTOM: &str = "custom";

/// The types of an agent's tools: those of manifests, and two that only agents have.
pub fn agent_tool_types() -> impl Iterator<Item = &'static str> {
    BindingKind::of_manifests().map(BindingKind::as_str).chain([BUILT_IN, CUSTOM])
}

/// Whether an agent's tool of this type may be a builtin one without a manifest.
#[must_use]
pub fn is_builtin_type(name: &str) -> bool {
    name == BUILT_IN || name == BindingKind::Builtin.as_str()
}

/// ARK's engine of agents behind A2A servers. Other engines are not served.
const EXECUTION_ENGINES: &[&str] = &["a2a"];
pub const AGENT: FieldTable = &[
    Field::new("description", text_schema),
    Field::new("prompt", text_schema),
    Field::new("modelRef", || object_schema(MODEL_REF, &["name"])),
    Field::new("tools", || list_schema(object_schema(AGENT_TOOL, &["type"]))),
    Field::new("parameters", || list_schema(object_schema(PARAMETER, &["name"]))),
    Field::new("outputSchema", json_schema_schema),
    Field::new("executionEngine", || {
        let mut engine = object_schema(MODEL_REF, &["name"]);
        engine["properties"]["name"] = json!({"enum": EXECUTION_ENGINES});
        engine
    }),
];
pub const AGENT_TOOL: FieldTable = &[
    Field::new("type", || {
        let types: Vec<_> = agent_tool_types().collect();
        json!({"enum": types})
    }),
    Field::new("name", text_schema),
    Field::new("description", text_schema),
    Field::new("partial", || object_schema(PARTIAL, &["name"])),
    Field::new("approval", approval_schema),
    Field::new("functions", || list_schema(object_schema(FUNCTION, &["name", "value"]))),
    Field::new("labelSelector", || object_schema(LABEL_SELECTOR, &[])),
    Field::new("externalTools", || list_schema(text_schema())),
];
/// A filter that is applied to the results of a tool.
pub const FUNCTION: FieldTable = &[Field::new("name", || json!({"const": "jq"})), VALUE];
/// Labels of tools.
pub const LABEL_SELECTOR: FieldTable = &[
    Field::new("matchLabels", || json!({"type": "object", "additionalProperties": text_schema()})),
    Field::new("matchExpressions", || list_schema(object_schema(LABEL_EXPRESSION, &["key", "operator"]))),
];
pub const LABEL_EXPRESSION: FieldTable = &[
    Field::new("key", text_schema),
    Field::new("operator", || json!({"enum": LABEL_OPERATORS})),
    Field::new("values", || list_schema(text_schema())),
];
pub const LABEL_OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
/// Whether a person has to approve the calls of a tool.
pub const APPROVAL: FieldTable = &[
    Field::new("required", flag_schema),
    Field::new("timeout", duration_schema),
    Field::new("onTimeout", || json!({"const": "reject"})),
];

fn approval_schema() -> Value {
    object_schema(APPROVAL, &["required"])
}

/// A tool, and the parameters of it that the agent sets.
pub const PARTIAL: FieldTable = &[
    Field::new("name", text_schema),
    Field::new("parameters", || list_schema(object_schema(NAMED_SOURCE, &["name"]))),
];
pub const PARAMETER: FieldTable = &[
    Field::new("name", || json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})),
    VALUE,
    Field::new("valueFrom", || object_schema(VALUE_FROM, &[])),
];

pub const MODEL: FieldTable = &[
    Field::new("provider", || json!({"type": "string", "examples": ["openai"]})),
    Field::new("type", || json!({"type": "string", "examples": ["completions"]})),
    Field::new("model", secret_value_schema),
    Field::new("config", || object_schema(MODEL_CONFIG, &[])),
    Field::new("fallback", || json!({"type": "array", "items": {"type": "string"}, "description": "Names of models"})),
    Field::new("pollInterval", duration_schema),
];
/// The settings of each provider.
pub const MODEL_CONFIG: FieldTable = &[
    Field::new("openai", || object_schema(OPENAI, &["baseUrl"])),
    Field::new("azure", || object_schema(AZURE, &["baseUrl"])),
    Field::new("anthropic", || object_schema(ANTHROPIC, &[])),
    Field::new("scripted", || json!({"type": "object", "description": "Only a manifest in a file may name a script"})),
];
pub const OPENAI: FieldTable = &[BASE_URL, API_KEY, HEADERS, PROPERTIES, Field::new("echo", flag_schema)];
pub const AZURE: FieldTable = &[
    BASE_URL,
    API_KEY,
    HEADERS,
    PROPERTIES,
    Field::new("echo", flag_schema),
    Field::new("apiVersion", secret_value_schema),
];
pub const ANTHROPIC: FieldTable = &[
    BASE_URL,
    API_KEY,
    HEADERS,
    PROPERTIES,
    Field::new("cache", flag_schema),
    Field::new("version", secret_value_schema),
];
pub const SCRIPTED: FieldTable = &[Field::new("file", text_schema)];
/// A header of the requests to a model.
pub const MODEL_HEADER: FieldTable = &[Field::new("name", text_schema), Field::new("value", secret_value_schema)];
const BASE_URL: Field = Field::new("baseUrl", secret_value_schema);
const API_KEY: Field = Field::new("apiKey", secret_value_schema);
const HEADERS: Field = Field::new("headers", || list_schema(object_schema(MODEL_HEADER, &["name", "value"])));
const PROPERTIES: Field =
    Field::new("properties", || json!({"type": "object", "additionalProperties": secret_value_schema()}));

/// The languages of scripts.
pub const LANGUAGES: &[&str] = &["bash", "python", "node", "ts"];

pub const TOOL: FieldTable = &[
    Field::new("type", || {
        let types: Vec<_> = BindingKind::of_manifests().map(BindingKind::as_str).collect();
        json!({"enum": types})
    }),
    Field::new("description", text_schema),
    Field::new("inputSchema", json_schema_schema),
    Field::new("annotations", || object_schema(TOOL_ANNOTATIONS, &[])),
    Field::new("cache", cache_schema),
    Field::new("http", || object_schema(HTTP, &["url"])),
    Field::new("mcp", || object_schema(MCP, &["mcpServerRef", "toolName"])),
    Field::new("agent", name_or_named_schema),
    Field::new("team", name_or_named_schema),
    Field::new("builtin", name_or_named_schema),
    Field::new("inline", || object_schema(INLINE, &["language", "source"])),
    Field::new("external", || object_schema(EXTERNAL, &[])),
    Field::new("nango", || object_schema(NANGO, &["source", "provider"])),
    Field::new("approval", approval_schema),
];
/// How an integration of Nango runs a tool.
pub const NANGO: FieldTable = &[
    Field::new("source", || json!({"enum": NANGO_SOURCES})),
    Field::new("provider", text_schema),
    Field::new("action", text_schema),
    Field::new("model", text_schema),
    Field::new("entityAliases", texts_schema),
    Field::new("timeout", duration_schema),
];
/// A tool as an entry of `tool-config.json` has it, which is another form of a body.
pub const TOOL_CONFIG: FieldTable = &[
    Field::new("description", text_schema),
    Field::new("category", text_schema),
    Field::new("display_name", text_schema),
    Field::new("lc_name", text_schema),
    Field::new("version", text_schema),
    Field::new("deprecated", deprecation_schema),
    Field::new("parameters", json_schema_schema),
    Field::new("providerConfigKey", text_schema),
    Field::new("source", || json!({"enum": NANGO_SOURCES})),
    Field::new("action", text_schema),
    Field::new("cache_model", text_schema),
    Field::new("entity_aliases", texts_schema),
    Field::new("timeout", duration_schema),
    Field::new("cache", cache_schema),
    Field::new("confirm", confirm_schema),
    Field::new("approval_timeout", duration_schema),
    Field::new("read_only", flag_schema),
    Field::new("destructive", flag_schema),
    Field::new("idempotent", flag_schema),
    Field::new("open_world", flag_schema),
];
fn deprecation_schema() -> Value {
    let mut object = object_schema(DEPRECATION, &[]);
    object["additionalProperties"] = false.into();
    json!({"anyOf": [flag_schema(), object]})
}
/// Why and since when a tool should not be used, and by which one it is replaced.
pub const DEPRECATION: FieldTable =
    &[Field::new("since", text_schema), Field::new("message", text_schema), Field::new("replacedBy", text_schema)];

/// What an integration of Nango does for a tool.
pub const NANGO_SOURCES: &[&str] = &["cache", "action"];
pub const TOOL_ANNOTATIONS: FieldTable = &[
    Field::new("title", text_schema),
    Field::new("readOnlyHint", flag_schema),
    Field::new("destructiveHint", flag_schema),
    Field::new("idempotentHint", flag_schema),
    Field::new("openWorldHint", flag_schema),
];
/// How long results are cached, and who shares them.
pub const TOOL_CACHE: FieldTable = &[
    Field::new("ttl", duration_schema),
    Field::new("scope", || {
        let scopes = CacheScope::ALL.map(CacheScope::as_str);
        json!({"enum": scopes})
    }),
];

/// The time alone, or with the scope.
#[must_use]
pub fn cache_schema() -> Value {
    json!({"anyOf": [duration_schema(), object_schema(TOOL_CACHE, &["ttl"])]})
}

pub const HTTP: FieldTable = &[
    Field::new("url", || json!({"type": "string", "pattern": "^https?://"})),
    Field::new("method", || json!({"type": "string", "examples": ["GET", "POST", "PUT", "PATCH", "DELETE"]})),
    Field::new("timeout", duration_schema),
    Field::new("body", text_schema),
    Field::new("headers", named_values_schema),
    Field::new("bodyParameters", named_values_schema),
];
pub const MCP: FieldTable = &[
    Field::new("toolName", text_schema),
    Field::new("mcpServerRef", || object_schema(NAMED, &["name"])),
    Field::new("timeout", duration_schema),
];
pub const INLINE: FieldTable =
    &[Field::new("language", || json!({"enum": LANGUAGES})), Field::new("source", text_schema)];
pub const EXTERNAL: FieldTable =
    &[Field::new("timeout", duration_schema), Field::new("onExpired", || json!({"enum": ["tell", "fail"]}))];

/// The name itself is an older form.
fn name_or_named_schema() -> Value {
    json!({"anyOf": [text_schema(), object_schema(NAMED, &["name"])]})
}

fn named_values_schema() -> Value {
    let forms = [NAMED_SOURCE, NAMED_VALUE].map(|form| object_schema(form, &["name"]));
    list_schema(json!({"anyOf": forms}))
}

/// The largest window of a memory: more than any model reads.
pub const LARGEST_WINDOW: u64 = 1_000_000;

pub const MEMORY: FieldTable = &[
    Field::new("type", || json!({"const": "buffer"})),
    Field::new("maxMessages", window_schema),
    Field::new("maxTokens", window_schema),
    Field::new("description", text_schema),
];

fn window_schema() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": LARGEST_WINDOW})
}

/// How a team chooses its next speaker.
pub const STRATEGIES: &[&str] = &["sequential", "round-robin", "selector", "graph"];

pub const TEAM: FieldTable = &[
    Field::new("description", text_schema),
    Field::new("prompt", text_schema),
    Field::new("members", || list_schema(object_schema(TEAM_MEMBER, &["name"]))),
    Field::new("strategy", || json!({"enum": STRATEGIES})),
    Field::new("leader", text_schema),
    Field::new("loops", flag_schema),
    Field::new("maxTurns", || json!({"type": "integer", "minimum": 1})),
    Field::new("graph", || object_schema(GRAPH, &[])),
    Field::new("selector", || object_schema(SELECTOR, &[])),
];
pub const TEAM_MEMBER: FieldTable =
    &[Field::new("name", text_schema), Field::new("type", || json!({"enum": ["agent", "team"]}))];
pub const GRAPH: FieldTable = &[Field::new("edges", || list_schema(object_schema(EDGE, &["from", "to"])))];
pub const EDGE: FieldTable = &[Field::new("from", text_schema), Field::new("to", text_schema)];
pub const SELECTOR: FieldTable = &[Field::new("agent", text_schema), Field::new("selectorPrompt", text_schema)];

pub const EVALUATOR: FieldTable = &[
    Field::new("description", text_schema),
    Field::new("address", value_source_schema),
    Field::new("parameters", || list_schema(object_schema(EVALUATOR_PARAMETER, &["name", "value"]))),
];
pub const EVALUATOR_PARAMETER: FieldTable = &[Field::new("name", text_schema), Field::new("value", text_schema)];

/// The transports of MCP servers.
pub const TRANSPORTS: &[&str] = &["http", "stdio", "sse"];
/// What is done about a tool whose definition has changed.
pub const PIN_POLICIES: &[&str] = &["strict", "warn", "off"];

fn confirm_schema() -> Value {
    json!({"enum": Confirm::ALL.map(Confirm::as_str)})
}

/// Which callers share a session with an MCP server.
pub const SESSION_SHARINGS: &[&str] = &["shared", "per-actor"];

/// What is answered when an MCP server asks for a user's input.
pub const ELICITATION_POLICIES: &[&str] = &["refuse", "defaults"];

pub const MCP_SERVER: FieldTable = &[
    Field::new("address", value_source_schema),
    Field::new("transport", || json!({"enum": TRANSPORTS})),
    Field::new("description", text_schema),
    Field::new("timeout", duration_schema),
    Field::new("pollInterval", duration_schema),
    Field::new("headers", named_values_schema),
    Field::new("authorization", || object_schema(MCP_AUTHORIZATION, &[])),
    Field::new("stdio", || json!({"type": "object", "description": "Only a manifest in a file may name a program"})),
    Field::new("pin", || json!({"enum": PIN_POLICIES})),
    Field::new("trustHints", flag_schema),
    Field::new("confirm", confirm_schema),
    Field::new("sessions", || json!({"enum": SESSION_SHARINGS})),
    Field::new("elicitation", || json!({"enum": ELICITATION_POLICIES})),
];
pub const A2A_SERVER: FieldTable = &[
    Field::new("address", value_source_schema),
    Field::new("headers", named_values_schema),
    Field::new("description", text_schema),
    Field::new("timeout", duration_schema),
    Field::new("pollInterval", duration_schema),
    Field::new("idempotent", flag_schema),
    Field::new("confirm", confirm_schema),
];
pub const MCP_AUTHORIZATION: FieldTable = &[
    Field::new("bearer", secret_value_schema),
    Field::new("clientCredentials", || object_schema(CLIENT_CREDENTIALS, &["tokenUrl", "clientId", "clientSecret"])),
];
pub const CLIENT_CREDENTIALS: FieldTable = &[
    Field::new("tokenUrl", || json!({"type": "string", "pattern": "^https?://"})),
    Field::new("clientId", secret_value_schema),
    Field::new("clientSecret", secret_value_schema),
    Field::new("scopes", || list_schema(text_schema())),
];
/// The program of an MCP server.
pub const STDIO: FieldTable = &[
    Field::new("command", text_schema),
    Field::new("args", || list_schema(text_schema())),
    Field::new("env", named_values_schema),
    Field::new("cwd", text_schema),
];
