//! Agent cards: how clients find an agent, and what it can do.
//!
//! A card is made from the agent's manifest. The card at `/.well-known/agent-card.json` needs no key, since clients
//! learn from it that they need one; on a server with keys it lists no tools, and the extended card does. Cards have an
//! `ETag` and `Last-Modified`, and may be cached.

use std::sync::Arc;

use axum::{
    extract::{RawPathParams, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use bosun_core::{ContentHash, Namespace, Timestamp};
use bosun_engine::{
    Agent, Registry,
    resource::{ResourceKind, ResourceOrigin},
};
use bosun_reading::a2a_options::{A2aOptions, SKILLS};
use serde_json::{Value, json};

use super::{
    AgentPath,
    error::{A2aError, ErrorKind},
    input,
    negotiate::{self, Generation},
    operations::AgentRequest,
    stream::Binding,
    tools::{self, CLIENT_TOOLS},
    v03,
    wire::{AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Metadata},
};
use crate::{
    AppState,
    auth::{Access, Right, gate::RequestNamespace},
    http::answer::Json,
};

/// How long a client may use a card without asking again.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=60");

/// The binding of gRPC, as cards call it.
const GRPC: &str = "GRPC";

/// The agent at `/a2a`: the annotated one, else the one called `default`, else the first by name that runs here.
pub(super) fn default_agent<'a>(registry: &'a Registry, namespace: &'a Namespace) -> Option<&'a Arc<Agent>> {
    let annotated = |agent: &&Arc<Agent>| A2aOptions::of(&agent.annotations).is_default;
    registry
        .agents(namespace)
        .find(annotated)
        .or_else(|| registry.agent(namespace, "default"))
        .or_else(|| registry.agents(namespace).find(|agent| agent.remote.is_none()))
}

/// `GET /.well-known/agent-card.json`: the default agent of the namespace `default`.
pub(super) async fn root_card(State(app): State<AppState>, headers: HeaderMap, uri: Uri) -> Response {
    let (registry, namespace) = (app.engine.registry(), Namespace::default());
    let Some(agent) = default_agent(&registry, &namespace) else {
        return no_agent().into_rest_response(app.error_mapping(), "application/json");
    };
    let base = format!("{}/a2a", origin(&headers));
    answer(&app, &registry, agent, &base, (&headers, &uri))
}

/// `GET {agent}/.well-known/agent-card.json`
pub(super) async fn agent_card(
    State(app): State<AppState>,
    namespace: RequestNamespace,
    path: AgentPath,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let registry = app.engine.registry();
    match path.find(&app, &namespace) {
        Ok(agent) => {
            let base = format!("{}{}", origin(&headers), path.base(&namespace));
            answer(&app, &registry, &agent, &base, (&headers, &uri))
        }
        Err(error) => error.into_rest_response(app.error_mapping(), "application/json"),
    }
}

/// `GET /a2a/agents`: the agents of a namespace, with their endpoints.
pub(super) async fn list_agents(
    State(app): State<AppState>,
    namespace: RequestNamespace,
    headers: HeaderMap,
) -> Response {
    let (registry, origin) = (app.engine.registry(), origin(&headers));
    let agents: Vec<_> = registry
        .agents(&namespace)
        .map(|agent| {
            let url = format!("{origin}/a2a/agents/{}/{}", agent.namespace, agent.name);
            json!({
                "name": agent.name,
                "namespace": agent.namespace,
                "description": agent.description,
                "url": url,
                "cardUrl": format!("{url}/.well-known/agent-card.json"),
            })
        })
        .collect();
    Json(json!({ "agents": agents })).into_response()
}

/// The complete card, for callers with a key.
pub(super) fn extended(asked: &AgentRequest, headers: &HeaderMap, binding: &Binding) -> Result<Value, A2aError> {
    asked.need(Right::Read)?;
    if asked.app.access.is_open() {
        let kind = match asked.generation {
            Generation::V1 => ErrorKind::UnsupportedOperation,
            Generation::V03 => ErrorKind::ExtendedCardNotConfigured,
        };
        return Err(A2aError::new(
            kind,
            "there is no extended card: this server has no keys, and its card shows everything",
        ));
    }
    let base = format!("{}/a2a/agents/{}/{}", origin(headers), asked.namespace, asked.agent.name);
    let mut card = card(&asked.app, &asked.app.engine.registry(), &asked.agent, &base, true);
    if binding.is_grpc() {
        // The client named the listener of gRPC, so where the others are is not known.
        card.supported_interfaces.retain(|interface| interface.protocol_binding == GRPC);
    }
    Ok(match asked.generation {
        Generation::V1 => json!(card),
        Generation::V03 => v03::hybrid_card(&card),
    })
}

fn no_agent() -> A2aError {
    crate::http::error::ApiError::new(crate::http::error::Code::ResourceNotFound, "there is no agent here").into()
}

/// The scheme and the authority by which the client reached this server. `Host` was checked against the names of the
/// server; a proxy that terminates TLS sets a header.
fn origin(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    format!("{scheme}://{}", text("host").unwrap_or("localhost"))
}

/// The host of a URL, without its port: gRPC has its own.
fn host_of(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or(authority, |(host, _)| host)
}

fn answer(
    app: &AppState,
    registry: &Registry,
    agent: &Agent,
    base: &str,
    (headers, uri): (&HeaderMap, &Uri),
) -> Response {
    let generation = match negotiate::generation(headers, uri) {
        Ok(generation) => generation,
        Err(error) => return error.into_rest_response(app.error_mapping(), "application/json"),
    };
    let card = card(app, registry, agent, base, app.access.is_open());
    // A client that names no version gets what both generations read.
    let body = match generation {
        Some(Generation::V1) => json!(card),
        Some(Generation::V03) | None => v03::hybrid_card(&card),
    };
    let body = body.to_string();
    let tag = format!("\"{}\"", ContentHash::of(body.as_bytes()));
    // Hexadecimal digits and dates are always values.
    let value = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, CACHE_CONTROL),
        (header::ETAG, value(tag.clone())),
        (header::LAST_MODIFIED, value(changed_at(app, registry, agent).to_http_date())),
        (header::VARY, HeaderValue::from_static("a2a-version, host")),
    ];
    if is_known(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, body).into_response()
}

/// Whether the client has the card with this tag: `If-None-Match` is a list, and caches may have weakened its tags.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = values.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// When the card last changed: with the agent, or with the files that it comes from.
fn changed_at(app: &AppState, registry: &Registry, agent: &Agent) -> Timestamp {
    let resource = registry.resource(ResourceKind::Agent, &agent.namespace, &agent.name);
    let stored = resource.and_then(|resource| match resource.origin {
        ResourceOrigin::Stored { updated_at, .. } => Some(updated_at),
        _ => None,
    });
    stored.or_else(|| app.reload.status().reloaded_at).unwrap_or_else(|| app.started_at())
}

fn card(app: &AppState, registry: &Registry, agent: &Agent, base: &str, shows_tools: bool) -> AgentCard {
    let guarded = !app.access.is_open();
    let interface = |url: &str, binding: &str, version: &str| AgentInterface {
        url: url.to_owned(),
        protocol_binding: binding.to_owned(),
        tenant: None,
        protocol_version: version.to_owned(),
    };
    let files = A2aOptions::of(&agent.annotations).input_modes.into_iter().map(|range| range.to_string());
    let description = agent.description.clone().unwrap_or_else(|| format!("The agent {}", agent.name));
    let security_schemes = security_schemes(&app.access);
    let modes = input::OWN_MODES.map(str::to_owned).to_vec();
    let mut interfaces = vec![interface(base, "JSONRPC", "1.0"), interface(base, "HTTP+JSON", "1.0")];
    interfaces.extend(app.grpc_port.get().map(|port| AgentInterface {
        tenant: Some(format!("{}/{}", agent.namespace, agent.name)),
        ..interface(&format!("{}:{port}", host_of(base)), GRPC, "1.0")
    }));
    interfaces.push(interface(base, "JSONRPC", "0.3"));
    AgentCard {
        name: agent.name.clone(),
        supported_interfaces: interfaces,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        capabilities: AgentCapabilities {
            streaming: true,
            push_notifications: app.webhooks.is_some(),
            extensions: vec![AgentExtension {
                uri: CLIENT_TOOLS.to_owned(),
                description: "The client brings tools to a task and runs their calls itself".to_owned(),
                required: false,
                params: tools::card_params(&app.engine),
            }],
            extended_agent_card: guarded,
        },
        // Each of them alone is enough.
        security_requirements: security_schemes
            .keys()
            .map(|name| json!({ "schemes": { name.as_str(): { "list": [] } } }))
            .collect(),
        security_schemes,
        default_input_modes: modes.iter().cloned().chain(files).collect(),
        default_output_modes: modes,
        skills: skills(registry, agent, &description, shows_tools),
        description,
    }
}

/// How callers authenticate, by the credentials that this server accepts.
fn security_schemes(access: &Access) -> Metadata {
    let scheme = |scheme: &str, description: &str| json!({ "scheme": scheme, "description": description });
    let mut schemes = Metadata::new();
    let mut add =
        |name: &str, scheme: Value| schemes.insert(name.to_owned(), json!({ "httpAuthSecurityScheme": scheme }));
    if access.accepts_keys() {
        add("bearer", scheme("Bearer", "The secret of a key"));
        add("basic", scheme("Basic", "Both halves of a key"));
    }
    if access.accepts_tokens() {
        let mut token = scheme("Bearer", "A token of the identity provider");
        token["bearerFormat"] = json!("JWT");
        add("token", token);
    }
    schemes
}

/// What the agent is for, the skills that its manifest names, and each of its tools.
fn skills(registry: &Registry, agent: &Agent, description: &str, shows_tools: bool) -> Vec<AgentSkill> {
    let own = AgentSkill {
        id: agent.name.clone(),
        name: agent.name.clone(),
        description: description.to_owned(),
        tags: vec!["agent".to_owned()],
    };
    // A list that cannot be read was reported when the manifest was read.
    let annotated = agent.annotations.get(SKILLS).filter(|_| shows_tools);
    let annotated: Vec<AgentSkill> = annotated.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    let annotated = annotated.into_iter().map(|mut skill| {
        if skill.tags.is_empty() {
            skill.tags.push("skill".to_owned());
        }
        skill
    });
    let tools = agent.tools.iter().filter(|_| shows_tools).map(|tool| {
        let described = registry.tool(&agent.namespace, tool.tool());
        let description = tool.description.clone().or_else(|| described.map(|tool| tool.description.clone()));
        let category = described.and_then(|tool| tool.category.clone());
        AgentSkill {
            id: format!("{}/{}", agent.name, tool.name),
            name: tool.name.clone(),
            description: description.unwrap_or_default(),
            tags: vec![category.unwrap_or_else(|| "tool".to_owned())],
        }
    });
    std::iter::once(own).chain(annotated).chain(tools).collect()
}

/// The agent that a path names, for routes that have a name.
pub(super) fn named(params: &RawPathParams) -> Option<String> {
    params.iter().find(|(name, _)| *name == "name").map(|(_, value)| value.to_owned())
}
