//! Models that are reached over HTTP: everything that does not depend on the wire format.
//!
//! One turn is one request. It is retried only while nothing of an answer has been shown: after a refusal due to load, a
//! failed connection or a timeout, and within the retry budget of its address. Once text has been shown, an interruption
//! is an error, and whether to begin the turn again is the engine's decision. Redirects and proxies of the environment
//! are not followed: a key goes to the host that the manifest names and nowhere else.

mod answer;
mod body;
mod connections;
mod request;
mod streamed;

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{Namespace, transcript::Message};
use bosun_engine::{
    Model,
    model::{Deltas, ModelError, ModelReply, ModelRequest},
};
use bosun_reading::sse::SseError;
use hyper::StatusCode;
use serde_json::Value;
use url::Url;

use self::request::{PreparedRequest, RequestSettings, WrittenRequest};
use super::{delta_tracker::DeltaTracker, health::BreakerVerdict, provider_fields};
use crate::{
    outbound::{
        Client,
        retry::{self, Backoff},
    },
    secret::{
        SecretSource, Secrets,
        binding::{HostPart, SecretReach},
    },
};

pub(crate) use answer::error_message;
pub(crate) use body::RequestBody;
pub use connections::Connections;
pub(crate) use request::base;
pub(crate) use streamed::{AssembleReply, Streamed, malformed, unreadable};

/// How often a model that pauses its turn is asked to continue.
const LONGEST_PAUSE: usize = 8;

/// A model as its manifest describes it. Values are resolved at each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The model's name at the API.
    pub model: SecretSource,
    /// The address under which the wire format has its own paths.
    pub base_url: SecretSource,
    pub api_key: Option<SecretSource>,
    /// The version of the API, where it has one.
    pub version: Option<SecretSource>,
    pub headers: Vec<(String, SecretSource)>,
    /// Further parameters of the request, in this order.
    pub properties: Vec<(String, SecretSource)>,
    pub stream: bool,
    pub timeouts: Timeouts,
    /// Where its secrets may be sent.
    pub reach: SecretReach,
}

impl RemoteConfig {
    /// The address, if it is written in the manifest.
    pub(crate) fn literal_url(&self) -> Option<Url> {
        match &self.base_url {
            SecretSource::Literal(text) => base(text.expose()).ok(),
            SecretSource::Reference(_) => None,
        }
    }

    /// Everything that may be a secret and is sent to the address, with its field.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (&str, HostPart, &SecretSource)> {
        let headers = self.headers.iter().map(|(name, source)| (name.as_str(), HostPart::Header, source));
        let properties = self.properties.iter().map(|(name, source)| (name.as_str(), HostPart::Body, source));
        let key = self.api_key.iter().map(|source| ("apiKey", HostPart::Key, source));
        let version = self.version.iter().map(|source| ("version", HostPart::Body, source));
        [("model", HostPart::Body, &self.model)].into_iter().chain(key).chain(version).chain(headers).chain(properties)
    }
}

/// The timeouts of an answer. The query's own time limit applies in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the first byte of a streamed answer.
    pub first_byte: Duration,
    /// Between two parts of an answer, or until a plain one.
    pub idle: Duration,
    /// From the request to the end of its answer.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(300),
            total: Duration::from_secs(20 * 60),
        }
    }
}

/// One wire format: where a turn is sent, how it is written, and how its answer is read.
pub(crate) trait Wire: fmt::Debug + Send + Sync + 'static {
    /// The provider of the API, as OpenTelemetry's conventions name it.
    fn provider(&self) -> &'static str;

    /// The address of requests. The text of an error never contains `base`, which may be a secret.
    fn address(&self, base: Url, model: &str, version: Option<&str>) -> Result<Url, &'static str>;

    /// The headers that carry the key and the version of the API.
    fn headers(&self, key: Option<&str>, version: Option<&str>) -> Vec<(&'static str, String)>;

    /// The body. The same conversation must begin with the same bytes each time.
    fn body(&self, turn: &RemoteTurn<'_>) -> Result<String, serde_json::Error>;

    /// Reads a streamed answer.
    fn reader(&self) -> Box<dyn ReplyReader>;

    /// Reads a plain answer; `deltas` gets its text as well.
    fn plain(&self, body: &[u8], deltas: &dyn Deltas) -> Result<RemoteAnswer, Failure>;
}

/// The content of one request.
pub(crate) struct RemoteTurn<'a> {
    pub(crate) model: &'a str,
    pub(crate) request: &'a ModelRequest,
    pub(crate) stream: bool,
    pub(crate) properties: &'a [(&'a str, Value)],
}

/// A streamed answer, read from its bytes.
pub(crate) trait ReplyReader: Send {
    /// Takes the next bytes of the body; text goes to `deltas`. There is no answer after a failure.
    fn feed(&mut self, bytes: &[u8], deltas: &dyn Deltas) -> Result<(), Failure>;

    /// The answer, if the body that has ended was whole.
    fn end(self: Box<Self>) -> Result<RemoteAnswer, Failure>;
}

/// The result of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum RemoteAnswer {
    Whole(ModelReply),
    /// The API wants the request repeated with this as the last message of the model. It has no calls, and its
    /// provider-specific fields cover its whole text.
    Paused(ModelReply),
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A retry may succeed.
    Passing {
        message: String,
        asked_wait: Option<Duration>,
        /// Whether the API itself fails, as opposed to a rate limit of this key.
        is_outage: bool,
    },
    Final(ModelError),
}

impl Failure {
    pub(crate) fn outage(message: String) -> Self {
        Self::Passing { message, asked_wait: None, is_outage: true }
    }

    fn verdict(&self) -> BreakerVerdict {
        match self {
            Self::Passing { is_outage: true, .. } | Self::Final(ModelError::Incomplete(_)) => BreakerVerdict::Failing,
            Self::Passing { is_outage: false, .. }
            | Self::Final(ModelError::Refused { .. } | ModelError::TooLong(_)) => BreakerVerdict::Alive,
            Self::Final(_) => BreakerVerdict::Unknown,
        }
    }

    /// The error if no further attempt is made.
    fn into_error(self, attempts: u32) -> ModelError {
        match self {
            Self::Passing { message, asked_wait, .. } => {
                ModelError::Unavailable { attempts, message, retry_after: asked_wait }
            }
            Self::Final(error) => error,
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Final(error)
    }
}

impl From<SseError> for Failure {
    fn from(error: SseError) -> Self {
        Self::Final(ModelError::Malformed(error.to_string()))
    }
}

/// A model behind HTTP.
#[derive(Debug)]
pub(crate) struct Remote<W> {
    pub(crate) namespace: Namespace,
    pub(crate) config: RemoteConfig,
    /// The parts that are parsed once, and not looked up at each call.
    written: WrittenRequest,
    pub(crate) wire: W,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) backoff: Backoff,
}

impl<W: Wire> Remote<W> {
    /// A model of `namespace`, which can use only the secrets of that namespace.
    pub(crate) fn new(
        namespace: Namespace,
        config: RemoteConfig,
        wire: W,
        secrets: Arc<Secrets>,
        connections: Arc<Connections>,
    ) -> Self {
        let written = WrittenRequest::of(&config, &wire);
        Self { namespace, config, written, wire, secrets, connections, backoff: Backoff::default() }
    }

    async fn ask(&self, request: &ModelRequest, deltas: &DeltaTracker<'_>) -> Result<RemoteAnswer, ModelError> {
        let settings = RequestSettings {
            namespace: &self.namespace,
            secrets: &self.secrets,
            config: &self.config,
            written: &self.written,
            wire: &self.wire,
        };
        let prepared = settings.prepare(request).await?;
        let client = self.connections.pool.client(prepared.url(), &self.config.reach);
        let client = client.map_err(|error| Failure::from(error).into_error(0))?;
        let endpoint = self.connections.endpoints.of(self.wire.provider(), prepared.url());
        endpoint.note_request();
        let mut attempts = 0;
        let mut last = None;
        loop {
            let permit = match endpoint.admit() {
                Ok(permit) => permit,
                Err(open) => {
                    let retry_after = open.remaining;
                    return Err(match last {
                        None => ModelError::CircuitOpen { failures: open.failures, retry_after },
                        Some(message) => ModelError::Unavailable { attempts, message, retry_after: Some(retry_after) },
                    });
                }
            };
            attempts += 1;
            let answer = self.attempt(client, &prepared, deltas).await;
            permit.end(answer.as_ref().map_or_else(Failure::verdict, |_| BreakerVerdict::Alive));
            let (message, asked_wait) = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => match prepared.redaction.clean_failure(failure) {
                    Failure::Final(error) => return Err(error),
                    Failure::Passing { message, .. } if deltas.any() => return Err(ModelError::Incomplete(message)),
                    Failure::Passing { message, asked_wait, .. } => (message, asked_wait),
                },
            };
            let spread =
                retry::spread(&[request.query.as_bytes(), &request.turn.to_be_bytes(), &attempts.to_be_bytes()]);
            let Some(wait) = self.backoff.wait(attempts, asked_wait, spread) else {
                return Err(ModelError::Unavailable { attempts, message, retry_after: asked_wait });
            };
            if !endpoint.may_retry() {
                let message = format!("{message}; too many requests to it were retried recently to retry this one");
                return Err(ModelError::Unavailable { attempts, message, retry_after: asked_wait });
            }
            let wait_ms = wait.as_millis();
            tracing::warn!(attempts, reason = message, wait_ms, "model API did not answer, retrying");
            tokio::time::sleep(wait).await;
            last = Some(message);
        }
    }

    async fn attempt(
        &self,
        client: &Client,
        prepared: &PreparedRequest<'_>,
        deltas: &dyn Deltas,
    ) -> Result<RemoteAnswer, Failure> {
        let limit = self.config.timeouts.total;
        match tokio::time::timeout(limit, self.exchange(client, prepared, deltas)).await {
            Ok(answer) => answer,
            Err(_) => Err(ModelError::Incomplete(format!("it was not complete within {} s", limit.as_secs())).into()),
        }
    }

    async fn exchange(
        &self,
        client: &Client,
        prepared: &PreparedRequest<'_>,
        deltas: &dyn Deltas,
    ) -> Result<RemoteAnswer, Failure> {
        let Timeouts { first_byte, idle, .. } = self.config.timeouts;
        let limit = if self.config.stream { first_byte } else { idle };
        let response = match tokio::time::timeout(limit, client.send(prepared.request())).await {
            Ok(sent) => sent?,
            Err(_) => return Err(Failure::outage(format!("no answer began within {} s", limit.as_secs()))),
        };
        if response.status() == StatusCode::OK {
            answer::read(&self.wire, response, self.config.stream, idle, deltas).await
        } else {
            Err(answer::refusal(response, idle).await)
        }
    }
}

#[async_trait]
impl<W: Wire> Model for Remote<W> {
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
        let deltas = DeltaTracker::new(deltas);
        let mut request = Cow::Borrowed(request);
        let mut earlier: Option<ModelReply> = None;
        for _ in 0..LONGEST_PAUSE {
            let answer = self.ask(&request, &deltas).await?;
            let (reply, is_whole) = match answer {
                RemoteAnswer::Whole(reply) => (reply, true),
                RemoteAnswer::Paused(reply) => (reply, false),
            };
            if !is_whole {
                let (text, provider) = (reply.text.clone(), reply.provider.clone());
                request.to_mut().messages.push(Message::Assistant { text, calls: Vec::new(), provider });
            }
            let reply = match earlier {
                Some(earlier) => join(earlier, reply),
                None => reply,
            };
            if is_whole {
                return Ok(reply);
            }
            earlier = Some(reply);
        }
        Err(ModelError::Incomplete(format!("the model paused its turn {LONGEST_PAUSE} times")))
    }

    fn provider(&self) -> &'static str {
        self.wire.provider()
    }
}

/// Joins the paused part of a reply and the part that followed it.
fn join(paused: ModelReply, rest: ModelReply) -> ModelReply {
    let mut usage = paused.usage;
    usage += rest.usage;
    let text = [paused.text, rest.text].into_iter().flatten().reduce(|text, more| text + &more);
    let provider = match (paused.provider, rest.provider) {
        (Some(kept), Some(more)) => {
            let mut kept = Arc::unwrap_or_clone(kept);
            provider_fields::merge(&mut kept, Arc::unwrap_or_clone(more));
            Some(Arc::new(kept))
        }
        (kept, more) => kept.or(more),
    };
    ModelReply { text, calls: rest.calls, usage, provider, answered_by: None }
}

#[cfg(test)]
mod tests;
