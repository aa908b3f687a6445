//! Requests to Nango: the server's key, limits of size, and retries where they are safe.
//!
//! The key is the secret `nango`, key `key`, of the namespace of the call, bound to its hosts like every secret. A read is
//! retried with backoff; a write only if it was certainly not sent, or was refused by the rate limit.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Namespace,
    ceiling::HTTP_RESPONSE_BYTES,
    json::{self as strict, JsonLimits},
    tool::SecretRef,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use serde_json::Value;
use url::Url;

use super::error::NangoError;
use crate::{
    outbound::{
        OutboundError, Pool, cause,
        retry::{self, Backoff},
    },
    secret::{
        Secret, SecretSource, Secrets,
        binding::{Destination, HostPart, SecretReach},
        redaction::Redaction,
    },
};

/// The secret of Nango's key.
pub const SECRET_NAME: &str = "nango";
pub const SECRET_KEY: &str = "key";

/// Memory of the values of one answer.
const LARGEST_MEMORY: usize = 8 * HTTP_RESPONSE_BYTES;
const OWN_AGENT: &str = concat!("bosun/", env!("CARGO_PKG_VERSION"));
const CONNECTION_ID: HeaderName = HeaderName::from_static("connection-id");
const PROVIDER_CONFIG_KEY: HeaderName = HeaderName::from_static("provider-config-key");

/// Where Nango is, and the connections of queries without an end user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NangoSettings {
    pub url: Url,
    /// Connection ids by `providerConfigKey`.
    pub connections: BTreeMap<String, String>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct NangoRequest {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    headers: HeaderMap,
    body: Option<Value>,
    /// Whether repeating it does no harm.
    is_safe: bool,
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct NangoAnswer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl NangoRequest {
    pub(super) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path, None, true)
    }

    pub(super) fn post(path: &[&str], body: Value) -> Self {
        Self::new(Method::POST, path, Some(body), false)
    }

    fn new(method: Method, path: &[&str], body: Option<Value>, is_safe: bool) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        Self { method, path, query: Vec::new(), headers: HeaderMap::new(), body, is_safe }
    }

    /// Declares that repeating it does no harm.
    pub(super) fn repeatable(mut self, is_safe: bool) -> Self {
        self.is_safe |= is_safe;
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, NangoError> {
        let value = HeaderValue::from_str(value)
            .map_err(|_| NangoError::Misconfigured(format!("the value of `{name}` is not valid in a header")))?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Adds the headers that name a connection of an integration.
    pub(super) fn on(self, provider: &str, connection: &str) -> Result<Self, NangoError> {
        self.header(PROVIDER_CONFIG_KEY, provider)?.header(CONNECTION_ID, connection)
    }
}

/// Sends requests to one Nango.
#[derive(Debug)]
pub(super) struct NangoClient {
    pub(super) settings: NangoSettings,
    secrets: Arc<Secrets>,
    pool: Arc<Pool>,
    backoff: Backoff,
}

impl NangoClient {
    pub(super) fn new(settings: NangoSettings, secrets: Arc<Secrets>, pool: Arc<Pool>) -> Self {
        Self { settings, secrets, pool, backoff: Backoff::default() }
    }

    /// Sends a request, and retries it as far as that is safe and `time_left` allows.
    pub(super) async fn send(
        &self,
        namespace: &Namespace,
        request: &NangoRequest,
        time_left: impl Fn() -> Duration,
    ) -> Result<NangoAnswer, NangoError> {
        let key = self.key(namespace).await?;
        let mut redaction = Redaction::default();
        redaction.add(&key);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.attempt(request, &key, &redaction).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let was_not_run = matches!(error, NangoError::Unreachable(_) | NangoError::RateLimited { .. });
            let Some(asked) = error.is_passing().filter(|_| request.is_safe || was_not_run) else { return Err(error) };
            let spread = retry::spread(&[request.path.concat().as_bytes(), &u32::to_be_bytes(attempts)]);
            let wait = self.backoff.wait(attempts, asked, spread).filter(|wait| *wait < time_left());
            let Some(wait) = wait else { return Err(error) };
            tracing::warn!(attempts, wait_ms = wait.as_millis(), "a request to Nango has no result, retrying");
            tokio::time::sleep(wait).await;
        }
    }

    async fn key(&self, namespace: &Namespace) -> Result<Secret, NangoError> {
        let reference = SecretRef { name: SECRET_NAME.to_owned(), key: SECRET_KEY.to_owned(), optional: false };
        let (source, to) = (SecretSource::Reference(reference), Destination { url: &self.settings.url, kept_in: None });
        let key = self.secrets.resolve_for(namespace, &source, HostPart::Key, to, &SecretReach::File).await;
        let missing = |message: String| NangoError::Misconfigured(message);
        key.map_err(|error| missing(error.to_string()))?.ok_or_else(|| missing("Nango's key is absent".to_owned()))
    }

    fn prepare(&self, request: &NangoRequest, key: &Secret) -> Result<Request<Full<Bytes>>, NangoError> {
        let unusable = |what: &str| NangoError::Misconfigured(format!("`nango.url` {what}"));
        let mut url = self.settings.url.clone();
        url.path_segments_mut().map_err(|()| unusable("has no path"))?.pop_if_empty().extend(&request.path);
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        let mut headers = request.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(OWN_AGENT));
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()))
            .map_err(|_| NangoError::Misconfigured("Nango's key is not valid in a header".to_owned()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        let body = match &request.body {
            Some(body) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Bytes::from(strict::compact(body))
            }
            None => Bytes::new(),
        };
        let mut prepared = Request::new(Full::new(body));
        *prepared.method_mut() = request.method.clone();
        *prepared.uri_mut() = url.as_str().parse().map_err(|_| unusable("is not an address that can be called"))?;
        *prepared.headers_mut() = headers;
        Ok(prepared)
    }

    async fn attempt(
        &self,
        request: &NangoRequest,
        key: &Secret,
        redaction: &Redaction,
    ) -> Result<NangoAnswer, NangoError> {
        let prepared = self.prepare(request, key)?;
        // The operator's own setting may name any address.
        let client = self.pool.client(&self.settings.url, &SecretReach::File)?;
        let response = client.send(prepared).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, HTTP_RESPONSE_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                NangoError::TooLarge(format!("Nango answered with more than {HTTP_RESPONSE_BYTES} bytes; ask for less"))
            } else {
                NangoError::Unavailable(format!("Nango's answer broke off: {}", cause(&*error)))
            }
        })?;
        let text = redaction.redact(String::from_utf8_lossy(&body.to_bytes()).into_owned());
        let limits = JsonLimits { bytes: HTTP_RESPONSE_BYTES, memory: LARGEST_MEMORY, ..JsonLimits::BODY };
        let parsed = if text.trim().is_empty() { Ok(Value::Null) } else { strict::parse(&text, limits) };
        if parts.status.is_success() {
            let invalid = |error| NangoError::Unavailable(format!("Nango's answer is not valid JSON: {error}"));
            return Ok(NangoAnswer { status: parts.status, body: parsed.map_err(invalid)? });
        }
        Err(NangoError::of_answer(parts.status, &parts.headers, &parsed.unwrap_or_default()))
    }
}

impl From<OutboundError> for NangoError {
    fn from(error: OutboundError) -> Self {
        match error {
            OutboundError::Connect(error) => Self::Unreachable(format!("Nango cannot be reached: {}", cause(&error))),
            OutboundError::Broken(error) => {
                Self::Unavailable(format!("the request to Nango broke off: {}", cause(&error)))
            }
            OutboundError::Tls(error) => {
                Self::Misconfigured(format!("this machine cannot open secure connections: {}", cause(&error)))
            }
            OutboundError::NotPublic(refused) => Self::Misconfigured(refused.to_string()),
        }
    }
}
