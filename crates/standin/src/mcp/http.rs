//! A stand-in over streamable HTTP, with sessions, on a port of its own.

use std::{
    collections::HashSet,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{McpProcess, Step};

/// The ways to behave over HTTP.
pub const BEHAVIOURS: &[(&str, &str)] = &[
    ("json", "answers everything, as JSON"),
    ("sse", "answers everything, as an event stream"),
    ("stateless", "has no sessions"),
    ("stale-404", "forgets its sessions once, and says so as the specification wants it"),
    ("stale-400", "forgets its sessions once, and answers with 400"),
    ("stale-error", "forgets its sessions once, and answers with an error of JSON-RPC"),
    ("bearer", "wants a token"),
    ("client-credentials", "wants a token of its authorization server, and revokes the first"),
    ("wants-oauth", "sends a browser to an authorization server"),
    ("html", "answers with a page"),
    ("older-transport", "takes no messages by `POST`, as servers of HTTP+SSE"),
    ("redirect", "sends every request elsewhere"),
    ("fails", "answers a call with 500"),
    ("busy", "answers a call with 429"),
    ("silent", "never answers a call"),
    ("cut", "breaks off in the middle of an event"),
    ("endless-event", "sends an event that never ends"),
    ("huge", "answers a call with 20 MiB of JSON"),
];

/// A stand-in that listens. It ends when it is dropped.
#[derive(Debug)]
pub struct McpStandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<io::Result<()>>,
}

/// A call, and on whose behalf it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedCall {
    pub session: Option<String>,
    /// The header `x-user`.
    pub user: Option<String>,
}

#[derive(Debug)]
struct Shared {
    behaviour: String,
    sessions: Mutex<HashSet<String>>,
    opened: AtomicU32,
    calls: AtomicU32,
    received: Mutex<Vec<ReceivedCall>>,
    closed: Mutex<Vec<String>>,
    tokens: AtomicU32,
    /// Requests that came from a redirect.
    followed: AtomicU32,
}

impl McpStandIn {
    /// Listens on a free port.
    ///
    /// # Errors
    /// If there is none.
    pub async fn open(behaviour: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            behaviour: behaviour.to_owned(),
            sessions: Mutex::default(),
            opened: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            received: Mutex::default(),
            closed: Mutex::default(),
            tokens: AtomicU32::new(0),
            followed: AtomicU32::new(0),
        });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared, _tasks: tasks })
    }

    /// Its address: `http://127.0.0.1:…/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How many sessions were opened.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.shared.opened.load(Ordering::Relaxed)
    }

    /// The calls that have arrived.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedCall> {
        self.shared.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The sessions that were closed by the client.
    #[must_use]
    pub fn closed(&self) -> Vec<String> {
        self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many calls have arrived.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// How many requests came from a redirect.
    #[must_use]
    pub fn followed(&self) -> u32 {
        self.shared.followed.load(Ordering::Relaxed)
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match uri.path() {
        "/token" => return shared.token(&headers),
        "/elsewhere" => {
            shared.followed.fetch_add(1, Ordering::Relaxed);
            return StatusCode::NOT_FOUND.into_response();
        }
        _ => {}
    }
    if let Some(refused) = shared.refuse(&headers) {
        return refused;
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let session = header("mcp-session-id");
    if method == Method::DELETE
        && let Some(session) = &session
    {
        shared.closed.lock().unwrap_or_else(PoisonError::into_inner).push(session.clone());
        return StatusCode::NO_CONTENT.into_response();
    }
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let Ok(message) = serde_json::from_slice::<Value>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    if message["method"] == "tools/call" {
        let call = ReceivedCall { session: session.clone(), user: header("x-user") };
        shared.received.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
    shared.answer(&message, session.as_deref())
}

fn with(status: StatusCode, name: &'static str, value: &str) -> Response {
    let mut response = status.into_response();
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
    response
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    (status, [("content-type", "application/json")], value.to_string()).into_response()
}

impl Shared {
    fn is(&self, behaviour: &str) -> bool {
        self.behaviour == behaviour
    }

    fn token(&self, headers: &HeaderMap) -> Response {
        // `id` and `s3cr3t-of-client`.
        let expected = "Basic aWQ6czNjcjN0LW9mLWNsaWVudA==";
        if headers.get("authorization").is_none_or(|value| value != expected) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let number = self.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        json_response(StatusCode::OK, &json!({"access_token": format!("token-{number}"), "expires_in": 3600}))
    }

    fn refuse(&self, headers: &HeaderMap) -> Option<Response> {
        let given = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let wanted = match self.behaviour.as_str() {
            "html" => return Some(with(StatusCode::OK, "content-type", "text/html")),
            "older-transport" => return Some(StatusCode::METHOD_NOT_ALLOWED.into_response()),
            "redirect" => return Some(with(StatusCode::TEMPORARY_REDIRECT, "location", "/elsewhere")),
            "wants-oauth" => "nothing will do".to_owned(),
            "bearer" => "Bearer s3cr3t-of-bearer".to_owned(),
            // The first token is revoked at the first call.
            "client-credentials" if self.calls.load(Ordering::Relaxed) > 0 => "Bearer token-2".to_owned(),
            "client-credentials" => "Bearer token-1".to_owned(),
            _ => return None,
        };
        let challenge = r#"Bearer resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource""#;
        (given != wanted).then(|| with(StatusCode::UNAUTHORIZED, "www-authenticate", challenge))
    }

    fn answer(&self, message: &Value, session: Option<&str>) -> Response {
        let method = message["method"].as_str().unwrap_or_default();
        let id = &message["id"];
        if method == "initialize" && !self.is("stateless") {
            let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
            let session = format!("session-{number}");
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session.clone());
            let mut response = self.send(message);
            if let Ok(value) = session.parse() {
                response.headers_mut().insert("mcp-session-id", value);
            }
            return response;
        }
        if method == "tools/call" {
            let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            if self.behaviour.starts_with("stale-") && number == 1 {
                self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            match self.behaviour.as_str() {
                "fails" => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                "busy" => return with(StatusCode::TOO_MANY_REQUESTS, "retry-after", "7"),
                "silent" => return event_stream(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())),
                "cut" => {
                    let parts = [Ok(Bytes::from_static(b"data: {\"jsonrpc\"")), Err(io::Error::other("cut"))];
                    return event_stream(Body::from_stream(stream::iter(parts)));
                }
                "endless-event" => {
                    let part = Bytes::from(format!("data: {}\n", "x".repeat(1024 * 1024)));
                    let parts = stream::repeat_with(move || Ok::<_, Infallible>(part.clone()));
                    return event_stream(Body::from_stream(parts));
                }
                "huge" => {
                    let content = json!([{"type": "text", "text": "x".repeat(20 * 1024 * 1024)}]);
                    let whole = json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}});
                    return json_response(StatusCode::OK, &whole);
                }
                _ => {}
            }
        }
        let is_known = |session: &str| self.sessions.lock().unwrap_or_else(PoisonError::into_inner).contains(session);
        if let Some(session) = session
            && !is_known(session)
        {
            let error = json!({"code": -32_000, "message": "Session not found"});
            let refused = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return match self.behaviour.as_str() {
                "stale-400" => (StatusCode::BAD_REQUEST, "Bad Request: No valid session ID provided").into_response(),
                "stale-error" => json_response(StatusCode::OK, &refused),
                _ => json_response(StatusCode::NOT_FOUND, &refused),
            };
        }
        self.send(message)
    }

    fn send(&self, message: &Value) -> Response {
        let mut play = McpProcess::new("good", false);
        let steps = play.react(message);
        let Some(Step::Send(answer)) = steps.first() else { return StatusCode::ACCEPTED.into_response() };
        if self.is("sse") {
            return event_stream(Body::from(format!("event: message\ndata: {answer}\n\n")));
        }
        json_response(StatusCode::OK, answer)
    }
}

fn event_stream(body: Body) -> Response {
    ([("content-type", "text/event-stream")], body).into_response()
}
