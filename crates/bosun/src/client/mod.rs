//! A client of a running server, as `bosun query`, `bosun chat` and `bosun demo` use it.
//!
//! It uses the public HTTP API and nothing else. Every request is idempotent: the client chooses the name of a query
//! itself, and a result that arrives twice is recorded once. So a broken connection is only a reason to retry, never a
//! reason to guess.

mod follow;

use std::{collections::VecDeque, error::Error, time::Duration};

use anyhow::Context;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bosun_reading::sse::{Decoder, SseError};
use reqwest::{
    RequestBuilder, Response, StatusCode, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;

pub(crate) use bosun_reading::sse::Event;
pub(crate) use follow::{Following, Seen, pause};

/// A server that does not answer within this time is considered unreachable. A stream may then be silent, but not for
/// longer than two heartbeats.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(40);
/// The longest line, and the longest data of one event. The server's own limit is below it.
const LONGEST_EVENT: usize = 4 * 1024 * 1024;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing was sent.
    #[error("no server answers at {server} ({reason}); start one with `bosun serve`, or name another with `--server`")]
    Unreachable { server: String, reason: String },
    /// It is not known whether the server has processed the request: retry.
    #[error("the connection to {server} broke ({reason})")]
    Broken { server: String, reason: String },
    /// The server is temporarily unavailable and says that the request is safe to repeat.
    #[error("the server is busy or going down: {0}")]
    Unavailable(Refusal),
    #[error("{0}")]
    Refused(Refusal),
    #[error("the server's answer is not readable: {0}")]
    Unreadable(String),
}

/// A request that the server refused.
#[derive(Debug, thiserror::Error)]
#[error("{message} [{code}]")]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) message: String,
    /// The messages of the single faults, where the server lists them.
    pub(crate) details: Vec<String>,
}

impl ClientError {
    /// Whether the same request may succeed a little later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken { .. } | Self::Unavailable(_))
    }

    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) | Self::Unavailable(refusal) => Some(&refusal.code),
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Unreadable(_) => None,
        }
    }
}

/// The result of posting a tool result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delivered {
    /// The server had already received it.
    pub(crate) replayed: bool,
    /// The query after it.
    pub(crate) query: Value,
}

/// A server and the namespace to work in.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    server: String,
    /// The key's own if absent: the server knows which that is.
    namespace: Option<String>,
}

impl Client {
    /// With `key`, every request is authenticated: the secret of a key, both its halves, or a token.
    pub(crate) fn new(server: &str, namespace: Option<String>, key: Option<&Key>) -> anyhow::Result<Self> {
        let server = server.trim_end_matches('/');
        let url = Url::parse(server).with_context(|| format!("`{server}` is not a URL"))?;
        anyhow::ensure!(matches!(url.scheme(), "http" | "https"), "`{server}` is not an http URL");
        // The process has one crypto provider; an error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert(AUTHORIZATION, authorization(key)?);
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            // The key is sent only to the named server.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE)
            // A query is private: it is sent directly to the named server, never through a proxy.
            .no_proxy()
            .build()
            .context("the HTTP client does not start")?;
        Ok(Self { http, server: server.to_owned(), namespace })
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The address of the queries of the namespace, or of a path below them.
    pub(crate) fn queries_url(&self, below: &str) -> String {
        self.url(&format!("queries{below}"))
    }

    /// An address in the namespace.
    fn url(&self, below: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}/v1/namespaces/{namespace}/{below}", self.server),
            None => format!("{}/v1/{below}", self.server),
        }
    }

    /// Creates a query and follows it in the same answer.
    pub(crate) async fn create(&self, query: &Value) -> Result<EventStream, ClientError> {
        let request = self.http.post(self.queries_url("?stream=true")).json(query);
        self.send(request).await.map(|response| EventStream::new(self.server.clone(), response))
    }

    /// Follows a query from the event after `last_id`.
    pub(crate) async fn follow(&self, name: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let mut request = self.http.get(self.queries_url(&format!("/{name}/events")));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        self.send(request).await.map(|response| EventStream::new(self.server.clone(), response))
    }

    /// Posts the result of an outside call; does not wait for the agent's next turn.
    pub(crate) async fn deliver(&self, name: &str, result: &Value) -> Result<Delivered, ClientError> {
        let url = self.queries_url(&format!("/{name}/tool-result?wait=0"));
        self.delivered(self.send(self.http.post(url).json(result)).await?).await
    }

    /// Uploads the result of an outside call as a text of any size; does not wait for the agent's next turn.
    pub(crate) async fn deliver_text(&self, name: &str, call: &str, text: &str) -> Result<Delivered, ClientError> {
        let url = self.queries_url(&format!("/{name}/tool-calls/{call}/result?wait=0"));
        let request = self.http.put(url).header(CONTENT_TYPE, "text/plain").body(text.to_owned());
        self.delivered(self.send(request).await?).await
    }

    async fn delivered(&self, response: Response) -> Result<Delivered, ClientError> {
        let replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        Ok(Delivered { replayed, query: self.read(response).await? })
    }

    /// The state of a query.
    pub(crate) async fn get(&self, name: &str) -> Result<Value, ClientError> {
        let response = self.send(self.http.get(self.queries_url(&format!("/{name}")))).await?;
        self.read(response).await
    }

    /// Asks for the end of a query.
    pub(crate) async fn cancel(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.http.patch(self.queries_url(&format!("/{name}/cancel")))).await.map(|_| ())
    }

    /// What is at a path of the namespace.
    pub(crate) async fn get_at(&self, path: &str) -> Result<Value, ClientError> {
        self.read(self.send(self.http.get(self.url(path))).await?).await
    }

    /// Posts to a path of the namespace.
    pub(crate) async fn post_to(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.read(self.send(self.http.post(self.url(path)).json(body)).await?).await
    }

    /// The content of the result of a call, as text.
    pub(crate) async fn result(&self, name: &str, call: &str) -> Result<String, ClientError> {
        let url = self.queries_url(&format!("/{name}/tool-calls/{call}/result"));
        let response = self.send(self.http.get(url)).await?;
        response.text().await.map_err(|error| self.failure(&error))
    }

    /// The names of the resources of a kind in the namespace: `agents`, for instance.
    pub(crate) async fn names(&self, kind: &str) -> Result<Vec<String>, ClientError> {
        let list = self.read(self.send(self.http.get(self.url(kind))).await?).await?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(|item| item["name"].as_str()).map(str::to_owned).collect())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failure(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await.unwrap_or_default();
        let refusal = Refusal::read(status, &body);
        Err(match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                ClientError::Unavailable(refusal)
            }
            _ => ClientError::Refused(refusal),
        })
    }

    async fn read(&self, response: Response) -> Result<Value, ClientError> {
        let body = response.bytes().await.map_err(|error| self.failure(&error))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }

    fn failure(&self, error: &reqwest::Error) -> ClientError {
        let (server, reason) = (self.server.clone(), root_cause(error));
        if error.is_connect() {
            ClientError::Unreachable { server, reason }
        } else {
            ClientError::Broken { server, reason }
        }
    }
}

/// The credential for a server. It is never shown, not even by `{:?}`.
#[derive(Clone)]
pub(crate) struct Key(String);

impl std::str::FromStr for Key {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// The `Authorization` header of a key. Both halves of one, with a colon between them, are `Basic`.
fn authorization(Key(key): &Key) -> anyhow::Result<HeaderValue> {
    let is_pair = key.contains(':');
    let text = if is_pair { format!("Basic {}", BASE64_STANDARD.encode(key)) } else { format!("Bearer {key}") };
    let mut value = HeaderValue::from_str(&text).ok().context("the key has characters that no key has")?;
    value.set_sensitive(true);
    Ok(value)
}

impl Refusal {
    fn read(status: StatusCode, body: &str) -> Self {
        let error = serde_json::from_str::<Value>(body).unwrap_or_default();
        let text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let details = error.pointer("/error/details").and_then(Value::as_array).into_iter().flatten();
        Self {
            status,
            details: details.filter_map(|detail| detail["message"].as_str()).map(str::to_owned).collect(),
            code: text("/error/code").unwrap_or_else(|| status.as_u16().to_string()),
            message: text("/error/message").unwrap_or_else(|| {
                format!("the server answered {status}: {}", body.chars().take(200).collect::<String>())
            }),
        }
    }
}

/// One connection that receives events.
#[derive(Debug)]
pub(crate) struct EventStream {
    server: String,
    response: Response,
    decoder: Decoder<LONGEST_EVENT>,
    ready: VecDeque<Event>,
}

impl EventStream {
    fn new(server: String, response: Response) -> Self {
        Self { server, response, decoder: Decoder::default(), ready: VecDeque::new() }
    }

    /// The server's warnings about a request that succeeded.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let texts = self.response.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
        texts.filter_map(|text| Some(text.split_once('"')?.1.strip_suffix('"')?.replace('\\', "")))
    }

    /// The next event; `None` when the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk
                .map_err(|error| ClientError::Broken { server: self.server.clone(), reason: root_cause(&error) })?;
            let Some(chunk) = chunk else { return Ok(None) };
            let take = |event: &Event| {
                self.ready.push_back(event.clone());
                Ok::<_, SseError>(())
            };
            self.decoder.feed(&chunk, take).map_err(|error| ClientError::Unreadable(error.to_string()))?;
        }
    }
}

/// The root cause of an error: `Connection refused`, not `error sending request`.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
