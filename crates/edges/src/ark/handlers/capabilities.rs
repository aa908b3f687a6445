//! Handlers of what the server is: the caller's context, its version, and its capabilities.

use std::collections::{BTreeMap, BTreeSet};

use axum::{extract::State, response::Response};
use bosun_core::{QueryLimits, query::TargetKind};
use bosun_engine::resource::ResourceKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::namespaces;
use crate::{
    AppState,
    ark::{duration, params::Params, routes::RESOURCES},
    auth::{
        Rights,
        gate::{Caller, RequestNamespace},
    },
    http::{answer::Json, error::ApiError, routes::RouteEntry, warning::with_warnings},
};

/// The context of a caller: its default namespace and what it may do.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Context {
    namespace: String,
    cluster: Option<String>,
    /// Whether the caller can change nothing here.
    read_only_mode: bool,
    permissions: Permissions,
}

/// What the caller may do, in the terms of Kubernetes.
#[derive(Debug, Serialize, JsonSchema)]
struct Permissions {
    /// Whether the permissions are known, which they always are.
    status: &'static str,
    /// The verbs that are allowed, by what they are done to.
    rules: BTreeMap<String, BTreeSet<&'static str>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SystemInfo {
    /// There is no cluster.
    kubernetes_version: Option<String>,
    system_version: &'static str,
}

/// What this server can do, for clients that also use other servers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Capabilities {
    service: &'static str,
    version: &'static str,
    /// The generation of the registry in effect.
    generation: u64,
    /// Whether a query may bring tools that its client runs.
    external_tools: bool,
    features: &'static [&'static str],
    tool_sources: &'static [&'static str],
    views: &'static [&'static str],
    /// Kinds that are served.
    kinds: Vec<&'static str>,
    /// Kinds that are accepted and checked, and have no effect.
    checked_kinds: Vec<&'static str>,
    /// What a query can be asked of.
    targets: Vec<&'static str>,
    /// The limits of a query that asks for none, and those of the server.
    limits: LimitsShown,
    /// What a query may ask for.
    ceilings: QueryLimitsShown,
}

/// The limits of a query.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct QueryLimitsShown {
    timeout: String,
    tool_timeout: String,
    external_timeout: String,
    approval_timeout: String,
    ttl: String,
    max_tool_calls: u32,
    max_tokens: Option<u64>,
}

impl From<QueryLimits> for QueryLimitsShown {
    fn from(limits: QueryLimits) -> Self {
        Self {
            timeout: duration::format(limits.query_timeout),
            tool_timeout: duration::format(limits.tool_timeout),
            external_timeout: duration::format(limits.external_timeout),
            approval_timeout: duration::format(limits.approval_timeout),
            ttl: duration::format(limits.ttl),
            max_tool_calls: limits.max_tool_calls,
            max_tokens: limits.max_tokens,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LimitsShown {
    #[serde(flatten)]
    of_query: QueryLimitsShown,
    max_running: usize,
    max_queued: usize,
    body_bytes: usize,
    result_bytes: u64,
}

const FEATURES: &[&str] = &[
    "externalTools",
    "toolResults.batch",
    "toolResults.large",
    "approvals",
    "parameterRequests",
    "events.resume",
    "idempotencyKey",
    "wait",
    "resources.stored",
    "resources.raw",
    "promptParameters",
    "toolCache",
    "workers",
];

/// `GET …/context`
pub(crate) async fn get_context(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { warnings, .. }: Params,
) -> Result<Response, ApiError> {
    namespaces::require_for_context(&app, &caller, &namespace).await?;
    let rules = allowed(caller.grant().rights);
    let context = Context {
        namespace: namespace.to_string(),
        cluster: None,
        read_only_mode: !rules.values().any(|verbs| verbs.contains("create")),
        permissions: Permissions { status: "ok", rules },
    };
    Ok(with_warnings(Json(context), &warnings))
}

/// The verbs of every kind that can be created, as far as the table of routes permits them with these rights.
fn allowed(rights: Rights) -> BTreeMap<String, BTreeSet<&'static str>> {
    let is_created =
        |name: &str| RESOURCES.iter().any(|route| route.method == "post" && route.path.strip_prefix('/') == Some(name));
    let mut rules: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for RouteEntry { path, method, needs } in RESOURCES {
        let path = path.strip_prefix('/').unwrap_or(path);
        let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let verb = match (*method, rest) {
            ("get", None) => "list",
            ("post", None) => "create",
            ("get", Some("{name}")) => "get",
            ("put", Some("{name}")) => "update",
            ("delete", Some("{name}")) => "delete",
            _ => continue,
        };
        if is_created(name) && needs.right().is_none_or(|right| rights.has(right)) {
            // Kubernetes writes these names in one word.
            rules.entry(name.replace('-', "")).or_default().insert(verb);
        }
    }
    rules
}

/// `GET …/system-info`
pub(crate) async fn get_system_info(Params { warnings, .. }: Params) -> Response {
    let info = SystemInfo { kubernetes_version: None, system_version: env!("CARGO_PKG_VERSION") };
    with_warnings(Json(info), &warnings)
}

/// `GET …/capabilities`
pub(crate) async fn get_capabilities(State(app): State<AppState>, Params { warnings, .. }: Params) -> Response {
    let settings = app.engine.settings();
    let registry = app.engine.registry();
    let is_idle = |kind: &&ResourceKind| match kind {
        ResourceKind::McpServer => registry.tool_servers().is_none(),
        ResourceKind::A2aServer => registry.agent_servers().is_none(),
        _ => false,
    };
    let names =
        |idle: bool| ResourceKind::ALL.iter().filter(|kind| is_idle(kind) == idle).map(|kind| kind.as_str()).collect();
    let capabilities = Capabilities {
        service: "bosun",
        version: env!("CARGO_PKG_VERSION"),
        generation: registry.generation(),
        external_tools: true,
        features: FEATURES,
        tool_sources: &["ark", "n8n", "hybrid"],
        views: &["rfc", "ark"],
        kinds: names(false),
        checked_kinds: names(true),
        targets: [TargetKind::Agent, TargetKind::Model, TargetKind::Tool, TargetKind::Team]
            .map(TargetKind::as_str)
            .into(),
        ceilings: QueryLimitsShown::from(settings.ceilings),
        limits: LimitsShown {
            of_query: QueryLimitsShown::from(settings.limits),
            max_running: settings.max_running,
            max_queued: settings.max_queued,
            body_bytes: crate::http::extract::MAX_BODY,
            result_bytes: bosun_core::content::LARGEST_BYTES,
        },
    };
    with_warnings(Json(capabilities), &warnings)
}
