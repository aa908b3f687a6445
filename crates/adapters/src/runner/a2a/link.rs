//! Requests to one A2A server: its headers, the hosts that they may be sent to, and limits of size and time.
//!
//! An address in a manifest is the operator's, and a URL in a card is the server's. So a request to another origin than
//! that of the address reaches public addresses only, and is not made at all if the manifest has headers: they may be
//! keys. Redirects are not followed.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    ceiling::HTTP_RESPONSE_BYTES,
    json::{self as strict, JsonLimits},
};
use bosun_engine::runner::RunContext;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use serde_json::Value;
use url::Url;

use super::error::A2aError;
use crate::{
    manifests::{A2aServerManifest, EndpointHeader},
    outbound::{Pool, cause, trace_headers},
    secret::{
        Secret, SecretSource, Secrets,
        binding::{Destination, HostPart, SecretReach},
        redaction::Redaction,
    },
};

/// Memory of the values of one answer.
const LARGEST_MEMORY: usize = 8 * HTTP_RESPONSE_BYTES;
const OWN_AGENT: &str = concat!("bosun/", env!("CARGO_PKG_VERSION"));
/// A request that takes longer has failed, whatever the call may still take.
const LONGEST_REQUEST: Duration = Duration::from_secs(15);

/// Why an interface is not used.
const ELSEWHERE: &str = "its card names an interface at a private address that is not the origin of `address`; set \
                         `address` to the agent's own origin, or correct the card";

/// The way to one server.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) manifest: Arc<A2aServerManifest>,
    secrets: Arc<Secrets>,
    pool: Arc<Pool>,
}

/// The address of a server, and the secret that holds it, if one does.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) url: Url,
    pub(super) kept_in: Option<String>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct A2aRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Option<Value>,
}

impl A2aRequest {
    pub(super) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: Vec::new(), body: None }
    }

    pub(super) fn post(url: Url, body: Value) -> Self {
        Self { method: Method::POST, url, headers: Vec::new(), body: Some(body) }
    }

    pub(super) fn with(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.push((HeaderName::from_static(name), value));
        self
    }
}

/// An answer of any status; its text is redacted.
#[derive(Debug)]
pub(super) struct A2aAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    text: String,
}

impl A2aAnswer {
    /// The JSON of the answer.
    pub(super) fn json(&self) -> Result<Value, A2aError> {
        let limits = JsonLimits { bytes: HTTP_RESPONSE_BYTES, memory: LARGEST_MEMORY, ..JsonLimits::BODY };
        strict::parse(&self.text, limits)
            .map_err(|error| A2aError::Malformed(format!("the answer of the A2A server is not valid JSON: {error}")))
    }

    /// The JSON of a success, or the error that the status means.
    pub(super) fn success(&self) -> Result<Value, A2aError> {
        if self.status.is_success() {
            return self.json();
        }
        Err(A2aError::of_status(self.status, &self.headers, &self.json().unwrap_or_default()))
    }
}

impl Link {
    pub(super) fn new(manifest: Arc<A2aServerManifest>, secrets: Arc<Secrets>, pool: Arc<Pool>) -> Self {
        Self { manifest, secrets, pool }
    }

    pub(super) async fn address(&self) -> Result<Address, A2aError> {
        let source = &self.manifest.address;
        let bad = || A2aError::Misconfigured("the `address` of the A2AServer is not a URL".to_owned());
        let text = self.secrets.resolve(&self.manifest.namespace, source).await?.ok_or_else(bad)?;
        let url = Url::parse(text.expose()).map_err(|_| bad())?;
        Ok(Address { url, kept_in: source.secret().map(str::to_owned) })
    }

    /// Sends a request once. `context` is that of the query that makes it, if one does.
    pub(super) async fn send(&self, request: &A2aRequest, context: Option<&RunContext>) -> Result<A2aAnswer, A2aError> {
        let limit = match context {
            // Before the engine drops the call: it would not know what became of it.
            Some(context) => LONGEST_REQUEST.min(context.time_left().mul_f64(0.9)),
            None => LONGEST_REQUEST,
        };
        tokio::time::timeout(limit, self.send_in_time(request, context)).await.unwrap_or_else(|_| {
            let message = format!("the A2A server did not answer within {:.0} s", limit.as_secs_f64());
            Err(A2aError::Unavailable(message))
        })
    }

    async fn send_in_time(&self, request: &A2aRequest, context: Option<&RunContext>) -> Result<A2aAnswer, A2aError> {
        let address = self.address().await?;
        let mut redaction = Redaction::default();
        if address.kept_in.is_some() {
            redaction.add(&Secret::new(address.url.to_string()));
        }
        let (prepared, reach) = self.prepare(request, &address, context, &mut redaction).await?;
        let response = self.pool.client(&request.url, &reach)?.send(prepared).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, HTTP_RESPONSE_BYTES).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!("the A2A server answered with more than {HTTP_RESPONSE_BYTES} bytes");
                A2aError::TooLarge(message)
            } else {
                A2aError::Unavailable(format!("the answer of the A2A server broke off: {}", cause(&*error)))
            }
        })?;
        let text = redaction.redact(String::from_utf8_lossy(&body.to_bytes()).into_owned());
        Ok(A2aAnswer { status: parts.status, headers: parts.headers, text })
    }

    async fn prepare(
        &self,
        request: &A2aRequest,
        address: &Address,
        context: Option<&RunContext>,
        redaction: &mut Redaction,
    ) -> Result<(Request<Full<Bytes>>, SecretReach), A2aError> {
        let reach = self.reach(address, &request.url)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, application/a2a+json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(OWN_AGENT));
        headers.extend(request.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        headers.extend(context.and_then(|context| context.trace.as_deref()).into_iter().flat_map(trace_headers));
        let to = Destination { url: &request.url, kept_in: address.kept_in.as_deref() };
        for (name, value) in &self.manifest.headers {
            let Some(secret) = self.header(value, to, context, &reach).await? else { continue };
            let bad = || A2aError::Misconfigured(format!("the value of the header `{name}` is not valid in one"));
            let header = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            let mut sent = HeaderValue::try_from(secret.expose()).map_err(|_| bad())?;
            sent.set_sensitive(true);
            headers.insert(header, sent);
            if matches!(value, EndpointHeader::Fixed(SecretSource::Reference(_))) {
                redaction.add(&secret);
            }
        }
        let body = match &request.body {
            Some(body) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Bytes::from(strict::compact(body))
            }
            None => Bytes::new(),
        };
        let mut prepared = Request::new(Full::new(body));
        *prepared.method_mut() = request.method.clone();
        let bad = || A2aError::Misconfigured("the URL of the agent cannot be called".to_owned());
        *prepared.uri_mut() = request.url.as_str().parse().map_err(|_| bad())?;
        *prepared.headers_mut() = headers;
        Ok((prepared, reach))
    }

    async fn header(
        &self,
        value: &EndpointHeader,
        to: Destination<'_>,
        context: Option<&RunContext>,
        reach: &SecretReach,
    ) -> Result<Option<Secret>, A2aError> {
        match value {
            EndpointHeader::Fixed(source) => {
                let namespace = &self.manifest.namespace;
                Ok(self.secrets.resolve_for(namespace, source, HostPart::Header, to, reach).await?)
            }
            EndpointHeader::QueryParameter(name) => {
                let value = context.and_then(|context| context.parameters().get(name));
                Ok(value.map(|value| Secret::new(value.clone())))
            }
        }
    }

    /// Whether a request to `url` may be made, as far as that is known before it.
    pub(super) fn check(&self, address: &Address, url: &Url) -> Result<(), A2aError> {
        let reach = self.reach(address, url)?;
        let refused = self.pool.check_of(url, &reach).err();
        refused.map_or(Ok(()), |refused| {
            Err(A2aError::AddressNotAllowed(if url.origin() == address.url.origin() {
                refused.to_string()
            } else {
                ELSEWHERE.to_owned()
            }))
        })
    }

    /// What a request to `url` may reach.
    fn reach(&self, address: &Address, url: &Url) -> Result<SecretReach, A2aError> {
        if url.origin() == address.url.origin() {
            return Ok(self.manifest.reach.clone());
        }
        if !self.manifest.headers.is_empty() {
            let message = "the card names an interface of another origin than `address`, and the headers of the \
                           A2AServer are not sent there; set `address` to the agent's own origin";
            return Err(A2aError::AddressNotAllowed(message.to_owned()));
        }
        // The operator did not name it, so it is checked like an address that a client has stored.
        Ok(SecretReach::Stored { grants: Arc::default(), own: None })
    }
}
