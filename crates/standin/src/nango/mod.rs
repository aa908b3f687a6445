//! A stand-in for Nango: its HTTP API over a state that is a file, with no account.
//!
//! It behaves as Nango 0.71 was observed to: records come oldest first, a model that does not exist is an empty list,
//! an action that is still running is a 404, a failure of an action is a 500, and input is neither validated nor
//! unwrapped. It has no OAuth, no webhooks, no proxy and no MCP endpoint.

mod answer;
mod records;
mod state;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use bosun_core::Timestamp;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use self::{
    answer::{connection_headers, error, invalid, ok, with_status},
    state::Environment,
};

pub use self::state::{
    NangoAction, NangoChange, NangoConnection, NangoFailure, NangoFaults, NangoIntegration, NangoRecord, NangoRecords,
    NangoRun, NangoState, NangoSync,
};

const LARGEST_REQUEST: usize = 2 * 1024 * 1024;

/// A stand-in that listens. It ends when it is dropped.
#[derive(Debug)]
pub struct NangoStandIn {
    address: SocketAddr,
    environment: Arc<Mutex<Environment>>,
    tasks: JoinSet<io::Result<()>>,
}

impl NangoStandIn {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start(state: NangoState) -> io::Result<Self> {
        Self::serving(TcpListener::bind("127.0.0.1:0").await?, state)
    }

    /// Serves on a port.
    ///
    /// # Errors
    /// If the port is not usable.
    pub fn serving(listener: TcpListener, state: NangoState) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let environment = Arc::new(Mutex::new(Environment::new(state)));
        let router = Router::new().fallback(handle).with_state(Arc::clone(&environment));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, environment, tasks })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every run of an action, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<NangoRun> {
        lock(&self.environment).runs.clone()
    }

    /// Every request, as `METHOD path?query`.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.environment).requests.clone()
    }

    /// Changes the state while it is served.
    pub fn change(&self, change: impl FnOnce(&mut NangoState)) {
        change(&mut lock(&self.environment).state);
    }

    /// Runs until it breaks.
    ///
    /// # Errors
    /// With why it broke.
    pub async fn join(mut self) -> io::Result<()> {
        match self.tasks.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }
}

fn lock(environment: &Mutex<Environment>) -> MutexGuard<'_, Environment> {
    environment.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request without its body.
struct NangoRequestHead {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
}

impl NangoRequestHead {
    fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// An answer, and how long it takes.
type Timed = (Duration, Response);

async fn handle(State(environment): State<Arc<Mutex<Environment>>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let text = head.uri.query().unwrap_or_default();
    let head = NangoRequestHead {
        method: head.method,
        path: head.uri.path().trim_end_matches('/').to_owned(),
        query: pairs(text),
        headers: head.headers,
    };
    let Ok(body) = axum::body::to_bytes(body, LARGEST_REQUEST).await else {
        return error(StatusCode::BAD_REQUEST, "invalid_body", None);
    };
    let (latency, (delay, mut response), limit) = {
        let mut environment = lock(&environment);
        let shown = if text.is_empty() { String::new() } else { format!("?{text}") };
        environment.requests.push(format!("{} {}{shown}", head.method, head.path));
        let latency = Duration::from_millis(environment.state.faults.latency_ms);
        (latency, respond(&mut environment, &head, &body), environment.state.faults.rate_limit.unwrap_or(1_000))
    };
    tokio::time::sleep(latency + delay).await;
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from(200));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(limit));
    headers.insert("x-ratelimit-reset", HeaderValue::from(now().0 / 1_000 + 60));
    response
}

fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn respond(environment: &mut Environment, head: &NangoRequestHead, body: &Bytes) -> Timed {
    let at_once = |response| (Duration::ZERO, response);
    if head.path == "/health" {
        return at_once(ok(&json!({"result": "ok"})));
    }
    if let Some(refused) = refuse(environment, head) {
        return at_once(refused);
    }
    let body: Value = match head.method {
        Method::POST => match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(_) => return at_once(error(StatusCode::BAD_REQUEST, "invalid_body", Some("Invalid JSON"))),
        },
        _ => Value::Null,
    };
    let segments: Vec<&str> = head.path.trim_start_matches('/').split('/').collect();
    at_once(match (head.method.as_str(), segments.as_slice()) {
        ("GET", ["records"]) => records::list(environment, &head.headers, &head.query, now()),
        ("POST", ["action", "trigger"]) => return trigger(environment, head, &body),
        ("GET", ["action", id]) => result(environment, id),
        ("GET", ["connections" | "connection"]) => connections(environment, head),
        ("GET", ["connections" | "connection", id]) => connection(environment, head, id),
        ("GET", ["integrations"]) => integrations(environment),
        ("GET", ["integrations", key, "functions"]) => functions(environment, key),
        ("GET", ["scripts", "config"]) => scripts(environment),
        ("GET", ["sync", "status"]) => records::sync_status(environment, &head.query),
        ("POST", ["sync", "trigger"]) => ok(&json!({"success": true})),
        ("POST", ["connect", "sessions"] | ["connect", "sessions", "reconnect"]) => connect_session(),
        _ => error(StatusCode::NOT_FOUND, "not_found", Some("Endpoint not found")),
    })
}

/// What comes before every route: the key, the type of the body, the rate limit and the faults.
fn refuse(environment: &mut Environment, head: &NangoRequestHead) -> Option<Response> {
    let faults = &mut environment.state.faults;
    if faults.fail_next > 0 {
        faults.fail_next -= 1;
        let status = faults.fail_status.and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.unwrap_or(StatusCode::BAD_GATEWAY);
        return Some(if status == StatusCode::TOO_MANY_REQUESTS {
            limited(head)
        } else {
            error(status, "server_error", None)
        });
    }
    if let Some(left) = &mut faults.rate_limit {
        if *left == 0 {
            return Some(limited(head));
        }
        *left -= 1;
    }
    let unauthorized = |code: &str, message: &str| Some(error(StatusCode::UNAUTHORIZED, code, Some(message)));
    let header = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let Some(key) = header.and_then(|value| value.strip_prefix("Bearer ")) else {
        return unauthorized(
            "missing_auth_header",
            "Authentication failed. The request is missing the Authorization header.",
        );
    };
    if !is_uuid(key) {
        return unauthorized(
            "invalid_secret_key_format",
            "Authentication failed. The provided secret key is not a UUID v4.",
        );
    }
    if key != environment.state.key {
        return unauthorized(
            "unknown_account",
            "Authentication failed. The provided secret key does not match any account.",
        );
    }
    let is_json = head.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    (head.method == Method::POST && !is_json)
        .then(|| error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_content_type", None))
}

fn limited(head: &NangoRequestHead) -> Response {
    let body = json!({"error": {"code": "too_many_request", "method": head.method.as_str(), "path": head.path}});
    let mut response = with_status(StatusCode::TOO_MANY_REQUESTS, &body);
    response.headers_mut().insert("retry-after", HeaderValue::from(0));
    response
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

fn trigger(environment: &mut Environment, head: &NangoRequestHead, body: &Value) -> Timed {
    let refused = |response| (Duration::ZERO, response);
    if !head.query.is_empty() {
        return refused(invalid("invalid_query_params", "Unrecognized key", "query"));
    }
    let (provider, connection) = match connection_headers(&head.headers) {
        Ok(named) => named,
        Err(response) => return refused(response),
    };
    let Some(name) = body.get("action_name").and_then(Value::as_str) else {
        return refused(invalid("invalid_body", "Required", "action_name"));
    };
    let Some(integration) = environment.integration(&provider) else {
        return refused(error(StatusCode::BAD_REQUEST, "unknown_provider", Some("Unknown provider")));
    };
    let found = integration.actions.iter().find(|action| action.name == name).cloned();
    if environment.connection(&provider, &connection).is_none() {
        return refused(error(StatusCode::BAD_REQUEST, "unknown_connection", Some("Connection not found")));
    }
    let Some(action) = found else {
        return refused(error(StatusCode::NOT_FOUND, "not_found", Some("Action not found")));
    };
    if action.is_disabled {
        return refused(error(StatusCode::NOT_FOUND, "disabled_resource", Some("The action is disabled")));
    }
    // Input is passed on as it is; only the falsy values of JavaScript become null.
    let input = match body.get("input").cloned().unwrap_or_default() {
        Value::Bool(false) => Value::Null,
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) => Value::Null,
        input => input,
    };
    let (delay, result) =
        environment.run(NangoRun { provider, connection, action: action.name.clone(), input }, &action);
    let is_async = head.headers.get("x-async").is_some_and(|value| value == "true");
    if !is_async {
        return (delay, finished(&result));
    }
    let id = environment.schedule(delay, result);
    let mut response = with_status(StatusCode::ACCEPTED, &json!({"id": id, "statusUrl": format!("/action/{id}")}));
    if let Ok(location) = HeaderValue::try_from(format!("/action/{id}")) {
        response.headers_mut().insert("location", location);
    }
    refused(response)
}

fn finished(result: &Result<Value, NangoFailure>) -> Response {
    match result {
        Ok(output) => ok(output),
        Err(NangoFailure { status, error }) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            with_status(status, &json!({"error": error}))
        }
    }
}

/// An action that is still running cannot be distinguished from one that never existed.
fn result(environment: &Environment, id: &str) -> Response {
    if !is_uuid(id) {
        return invalid("invalid_uri_params", "Invalid uuid", "id");
    }
    match environment.result(id) {
        Some(result) => finished(result),
        None => error(StatusCode::NOT_FOUND, "not_found", Some("Action not found")),
    }
}

fn shown_connection((number, connection): (usize, &NangoConnection), environment: &Environment) -> Value {
    let provider =
        environment.integration(&connection.provider_config_key).map(|integration| integration.provider.as_str());
    let errors: Vec<_> = connection.errors.iter().map(|kind| json!({"type": kind, "log_id": "log"})).collect();
    let end_user = connection.tags.get("end_user_id").map(|id| json!({"id": id, "tags": {}}));
    json!({
        "id": number + 1, "connection_id": connection.connection_id, "provider_config_key": connection.provider_config_key,
        "provider": provider, "errors": errors, "end_user": end_user, "tags": connection.tags, "metadata": null,
        "created": connection.created.as_deref().unwrap_or("2026-01-01T00:00:00.000Z"),
    })
}

fn connections(environment: &Environment, head: &NangoRequestHead) -> Response {
    const KNOWN: &[&str] =
        &["connectionId", "search", "endUserId", "endUserOrganizationId", "integrationId", "limit", "page"];
    let is_known = |name: &str| KNOWN.contains(&name) || (name.starts_with("tags[") && name.ends_with(']'));
    if let Some((unknown, _)) = head.query.iter().find(|(name, _)| !is_known(name)) {
        return invalid("invalid_query_params", &format!("Unrecognized key: \"{unknown}\""), unknown);
    }
    let is_wanted = |connection: &NangoConnection| {
        let has_tags = head.query.iter().all(|(name, value)| {
            let tag = name.strip_prefix("tags[").and_then(|name| name.strip_suffix(']'));
            tag.is_none_or(|tag| connection.tags.get(tag) == Some(value))
        });
        let of_integration = head
            .get("integrationId")
            .is_none_or(|keys| keys.split(',').any(|key| key == connection.provider_config_key));
        let of_id = head.get("connectionId").is_none_or(|id| id == connection.connection_id);
        let of_user = head
            .get("endUserId")
            .is_none_or(|user| connection.tags.get("end_user_id").is_some_and(|known| known == user));
        environment.state.faults.ignore_filters || (has_tags && of_integration && of_id && of_user)
    };
    let listed = environment.state.connections.iter().enumerate().filter(|(_, connection)| is_wanted(connection));
    let limit = head.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(10_000);
    let page: usize = head.get("page").and_then(|page| page.parse().ok()).unwrap_or(0);
    let shown: Vec<_> = listed.skip(page * limit).take(limit).map(|one| shown_connection(one, environment)).collect();
    ok(&json!({"connections": shown}))
}

fn connection(environment: &Environment, head: &NangoRequestHead, id: &str) -> Response {
    let provider = head.get("provider_config_key").unwrap_or_default();
    let mut all = environment.state.connections.iter().enumerate();
    match all.find(|(_, one)| one.connection_id == id && one.provider_config_key == provider) {
        Some(found) => ok(&shown_connection(found, environment)),
        None => error(StatusCode::NOT_FOUND, "not_found", Some("Connection not found")),
    }
}

fn integrations(environment: &Environment) -> Response {
    let shown = environment.state.integrations.iter().map(|integration| {
        json!({
            "unique_key": integration.unique_key, "provider": integration.provider, "display_name": integration.provider,
            "logo": "", "forward_webhooks": true, "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
        })
    });
    ok(&json!({"data": shown.collect::<Vec<_>>()}))
}

fn functions(environment: &Environment, key: &str) -> Response {
    let Some(integration) = environment.integration(key) else {
        return error(StatusCode::NOT_FOUND, "not_found", Some("Integration not found"));
    };
    let actions = integration.actions.iter().map(|action| json!({"name": action.name, "type": "action", "description": action.description, "returns": [], "enabled": !action.is_disabled}));
    let syncs = integration.syncs.iter().map(
        |sync| json!({"name": sync.name, "type": "sync", "description": "", "returns": sync.models, "enabled": true}),
    );
    ok(&json!({"data": actions.chain(syncs).collect::<Vec<_>>()}))
}

fn scripts(environment: &Environment) -> Response {
    let shown = environment.state.integrations.iter().map(|integration| {
        let action = |action: &NangoAction| {
            let mut shown = json!({
                "name": action.name, "type": "action", "description": action.description, "returns": [],
                "enabled": !action.is_disabled, "input": null,
            });
            if let Some(schema) = &action.input_schema {
                let model = format!("ActionInput_{}", action.name.replace('-', ""));
                shown["json_schema"] = json!({"definitions": {&model: schema}});
                shown["input"] = model.into();
            }
            shown
        };
        let sync = |sync: &NangoSync| {
            let schema = json!({"definitions": sync.schemas});
            json!({"name": sync.name, "type": "sync", "returns": sync.models, "enabled": true, "json_schema": schema})
        };
        json!({
            "providerConfigKey": integration.unique_key, "provider": integration.provider,
            "actions": integration.actions.iter().map(action).collect::<Vec<_>>(),
            "syncs": integration.syncs.iter().map(sync).collect::<Vec<_>>(),
        })
    });
    ok(&Value::Array(shown.collect()))
}

fn connect_session() -> Response {
    let token = format!("nango_connect_session_{}", "0".repeat(64));
    let expires_at = now().after(Duration::from_secs(30 * 60)).to_rfc3339();
    let link = format!("https://connect.nango.dev/?session_token={token}");
    with_status(StatusCode::CREATED, &json!({"data": {"token": token, "connect_link": link, "expires_at": expires_at}}))
}
