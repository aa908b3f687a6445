//! OpenAI's chat completions, and every server that speaks them.
//!
//! One turn is one request. It is sent again only while nothing of an answer has arrived: after a
//! refusal for load, a failed connection or a silence. Once an answer has begun, what breaks off is
//! an error, and whether to begin the turn again is the engine's decision. Redirects and proxies of
//! the environment are not followed: a key goes to the host that the manifest names and nowhere
//! else.

mod assembly;
mod request;
mod wire;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bosun_core::Namespace;
use bosun_engine::{
    Model,
    model::{Deltas, ModelError, ModelReply, ModelRequest},
};
use futures_util::{Stream, StreamExt};
use reqwest::{Client, Response, StatusCode, header::CONTENT_TYPE, redirect::Policy};
use serde_json::Value;

use self::{
    assembly::Streamed,
    request::{Prepared, Settings},
};
use super::{
    retry::{self, Backoff},
    sse::SseError,
};
use crate::secret::{Secrets, Source};

pub(crate) use request::endpoint;

/// The largest answer: a token of a stream takes some 200 bytes on the wire.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
/// How much of an error's body is read.
const LARGEST_ERROR: usize = 64 * 1024;

/// Parameters of a request that belong to this module; a manifest cannot set them.
pub const OWN_PROPERTIES: &[&str] =
    &["model", "messages", "tools", "tool_choice", "stream_options", "n", "functions", "function_call"];

/// Headers that belong to the connection; a manifest cannot set them.
pub const OWN_HEADERS: &[&str] = &[
    "host",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "accept",
];

/// A model as its manifest describes it. Values are resolved at each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The model's name at the API.
    pub model: Source,
    /// `/chat/completions` is added to it.
    pub base_url: Source,
    pub api_key: Option<Source>,
    pub headers: Vec<(String, Source)>,
    /// Further parameters of the request, in this order.
    pub properties: Vec<(String, Source)>,
    pub stream: bool,
}

/// HTTP connections, shared by all models of a server.
///
/// Two clients, each made when it is first needed: reading the machine's certificates takes longer
/// than starting the server, and a machine without any can still use a model next door.
#[derive(Debug, Default)]
pub struct Connections {
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
}

impl Connections {
    fn client(&self, scheme: &str) -> Result<&Client, ModelError> {
        let is_secure = scheme == "https";
        let slot = if is_secure { &self.secure } else { &self.plain };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        // Fails if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(Duration::from_secs(10));
        let builder = if is_secure { builder } else { builder.tls_certs_only([]) };
        let client = builder.build().map_err(|error| {
            ModelError::Misconfigured(format!("this machine cannot open secure connections: {}", cause(error)))
        })?;
        Ok(slot.get_or_init(|| client))
    }
}

/// How long an answer may keep us waiting. The query's own time limit stands above all of these.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Until the first byte of a streamed answer.
    begin: Duration,
    /// Between two parts of an answer, or until a plain one.
    silence: Duration,
    backoff: Backoff,
}

impl Default for Patience {
    fn default() -> Self {
        Self { begin: Duration::from_secs(120), silence: Duration::from_secs(300), backoff: Backoff::default() }
    }
}

/// A model behind chat completions.
#[derive(Debug)]
pub struct OpenAi {
    namespace: Namespace,
    config: Config,
    secrets: Arc<Secrets>,
    connections: Arc<Connections>,
    patience: Patience,
}

impl OpenAi {
    /// A model of `namespace`, whose secrets alone it can use.
    #[must_use]
    pub fn new(namespace: Namespace, config: Config, secrets: Arc<Secrets>, connections: Arc<Connections>) -> Self {
        Self { namespace, config, secrets, connections, patience: Patience::default() }
    }

    async fn attempt(&self, prepared: &Prepared, deltas: &dyn Deltas) -> Result<ModelReply, Failure> {
        let client = self.connections.client(prepared.url.scheme())?;
        let request = client
            .post(prepared.url.clone())
            .headers(prepared.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(prepared.body.clone());
        let limit = if prepared.stream { self.patience.begin } else { self.patience.silence };
        let response = match tokio::time::timeout(limit, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() || error.is_timeout() => {
                return Err(Failure::passing(format!("no connection to its `baseUrl`: {}", cause(error))));
            }
            Ok(Err(error)) => return Err(Failure::passing(format!("the request broke off: {}", cause(error)))),
            Err(_) => return Err(Failure::passing(format!("no answer began within {} s", limit.as_secs()))),
        };
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response).await);
        }
        Ok(self.answer(response, prepared.stream, deltas).await?)
    }

    /// Reads an answer that has begun.
    async fn answer(
        &self,
        response: Response,
        asked_for_stream: bool,
        deltas: &dyn Deltas,
    ) -> Result<ModelReply, ModelError> {
        let content_type =
            response.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default().to_owned());
        // Some servers do not know streaming and answer plainly.
        let is =
            |kind: &str, wanted: &str| kind.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted));
        let is_stream = match content_type.as_deref() {
            None => asked_for_stream,
            Some(kind) if is(kind, "text/event-stream") => true,
            Some(kind) if is(kind, "application/json") => false,
            Some(kind) => return Err(ModelError::Malformed(format!("the answer is of type `{kind}`"))),
        };
        let mut parts = Box::pin(parts(response, self.patience.silence));
        if is_stream {
            let mut streamed = Streamed::default();
            while let Some(part) = parts.next().await {
                streamed.feed(&part?, deltas)?;
            }
            streamed.end()
        } else {
            let mut body = Vec::new();
            while let Some(part) = parts.next().await {
                body.extend_from_slice(&part?);
            }
            assembly::plain(&body, deltas)
        }
    }

    /// Reads why there is no answer.
    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let asked_wait = retry::asked_wait(response.headers(), SystemTime::now());
        let may_retry = response.headers().get("x-should-retry").is_none_or(|value| value != "false");
        let mut body = Vec::new();
        let mut parts = Box::pin(parts(response, self.patience.silence));
        // What can be read of the body is enough: it is only a message.
        while let Some(Ok(part)) = parts.next().await {
            body.extend_from_slice(&part[..part.len().min(LARGEST_ERROR - body.len())]);
            if body.len() == LARGEST_ERROR {
                break;
            }
        }
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = match wire::error_message(&body) {
            Some(message) => message.to_owned(),
            None if status.is_redirection() => "redirects are not followed; set `baseUrl` to the final address".into(),
            None => status.canonical_reason().unwrap_or("no reason given").to_owned(),
        };
        let is_passing =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) || status.is_server_error();
        // A spent quota comes as 429, and no wait brings it back.
        if is_passing && may_retry && wire::error_code(&body) != Some("insufficient_quota") {
            Failure::Passing { message: format!("{}: {message}", status.as_u16()), asked_wait }
        } else {
            Failure::Final(ModelError::Refused { status: status.as_u16(), message })
        }
    }
}

#[async_trait]
impl Model for OpenAi {
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
        let settings = Settings { namespace: &self.namespace, secrets: &self.secrets, config: &self.config };
        let prepared = settings.prepare(request).await?;
        let clean = |message: String| prepared.redaction.clean(&message);
        let mut attempts = 1;
        loop {
            let (message, retry_after) = match self.attempt(&prepared, deltas).await {
                Ok(reply) => return Ok(reply),
                Err(Failure::Final(error)) => return Err(map_text(error, clean)),
                Err(Failure::Passing { message, asked_wait }) => (clean(message), asked_wait),
            };
            let spread = retry::spread(request.query, request.turn, attempts);
            let Some(wait) = self.patience.backoff.wait(attempts, retry_after, spread) else {
                return Err(ModelError::Unavailable { attempts, message, retry_after });
            };
            tracing::warn!(
                attempts,
                reason = message,
                wait_ms = wait.as_millis(),
                "model API did not answer, asking again"
            );
            tokio::time::sleep(wait).await;
            attempts += 1;
        }
    }
}

/// Why an attempt brought no answer.
#[derive(Debug)]
enum Failure {
    /// It may be different next time; nothing of an answer has arrived.
    Passing {
        message: String,
        asked_wait: Option<Duration>,
    },
    Final(ModelError),
}

impl Failure {
    fn passing(message: String) -> Self {
        Self::Passing { message, asked_wait: None }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Final(error)
    }
}

impl From<SseError> for ModelError {
    fn from(error: SseError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// The body as it arrives, within the limits of time and size.
fn parts(response: Response, silence: Duration) -> impl Stream<Item = Result<bytes::Bytes, ModelError>> {
    let limit = Duration::as_secs(&silence);
    let body = response.bytes_stream();
    futures_util::stream::unfold((Box::pin(body), 0_usize), move |(mut body, read)| async move {
        let part = match tokio::time::timeout(silence, body.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(part))) if read + part.len() > LARGEST_ANSWER => {
                Err(ModelError::Malformed(format!("the answer is larger than {LARGEST_ANSWER} bytes")))
            }
            Ok(Some(Ok(part))) => Ok(part),
            Ok(Some(Err(error))) => Err(ModelError::Incomplete(format!("the connection was lost: {}", cause(error)))),
            Err(_) => Err(ModelError::Incomplete(format!("nothing came for {limit} s"))),
        };
        let read = read + part.as_ref().map_or(0, bytes::Bytes::len);
        Some((part, (body, read)))
    })
}

/// The innermost cause, which says what happened; the outer ones say where, and the URL is not told.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn map_text(error: ModelError, clean: impl Fn(String) -> String) -> ModelError {
    match error {
        ModelError::Refused { status, message } => ModelError::Refused { status, message: clean(message) },
        ModelError::Unavailable { attempts, message, retry_after } => {
            ModelError::Unavailable { attempts, message: clean(message), retry_after }
        }
        ModelError::Incomplete(message) => ModelError::Incomplete(clean(message)),
        ModelError::Malformed(message) => ModelError::Malformed(clean(message)),
        ModelError::Misconfigured(message) => ModelError::Misconfigured(clean(message)),
    }
}

#[cfg(test)]
mod tests;
