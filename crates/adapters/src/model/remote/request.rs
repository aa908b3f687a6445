//! Builds the request of one turn: secrets are resolved here, at call time, and go nowhere else.

use std::{borrow::Cow, fmt};

use bosun_core::{Namespace, audit::is_secret_name};
use bosun_engine::model::{ModelError, ModelRequest};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Uri,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use url::Url;

use super::{Failure, RemoteConfig, RemoteTurn, Wire};
use crate::{
    outbound::trace_headers,
    secret::{
        Secret, SecretError, SecretSource, Secrets,
        binding::{Destination, HostPart},
        redaction::Redaction,
    },
};

/// Everything that is sent, and what must not come back in an error.
pub(super) struct PreparedRequest<'a> {
    address: Cow<'a, RequestAddress>,
    headers: HeaderMap,
    body: Bytes,
    pub(super) redaction: Redaction,
}

impl PreparedRequest<'_> {
    pub(super) fn url(&self) -> &Url {
        &self.address.url
    }

    pub(super) fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.address.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Redaction {
    pub(super) fn clean_failure(&self, failure: Failure) -> Failure {
        let clean = |message: String| self.clean(&message);
        match failure {
            Failure::Passing { message, asked_wait, is_outage } => {
                Failure::Passing { message: clean(message), asked_wait, is_outage }
            }
            Failure::Final(error) => Failure::Final(match error {
                ModelError::Refused { status, message } => ModelError::Refused { status, message: clean(message) },
                ModelError::Unavailable { attempts, message, retry_after } => {
                    ModelError::Unavailable { attempts, message: clean(message), retry_after }
                }
                ModelError::Incomplete(message) => ModelError::Incomplete(clean(message)),
                ModelError::TooLong(message) => ModelError::TooLong(clean(message)),
                ModelError::Malformed(message) => ModelError::Malformed(clean(message)),
                ModelError::Misconfigured(message) => ModelError::Misconfigured(clean(message)),
                ModelError::SecretNotAllowed(message) => ModelError::SecretNotAllowed(clean(message)),
                ModelError::AddressNotAllowed(message) => ModelError::AddressNotAllowed(clean(message)),
                open @ ModelError::CircuitOpen { .. } => open,
            }),
        }
    }
}

/// The address of requests, in the two types that are needed.
#[derive(Clone)]
struct RequestAddress {
    url: Url,
    uri: Uri,
}

impl RequestAddress {
    fn of(url: Url) -> Result<Self, &'static str> {
        let uri = Uri::try_from(url.as_str()).map_err(|_| "is not an address that can be called")?;
        Ok(Self { url, uri })
    }
}

/// The destination that a manifest itself names, parsed once. It may contain a secret, so it is never shown.
pub(super) struct WrittenRequest {
    base: Option<Url>,
    /// If nothing of it is looked up at each call.
    address: Option<RequestAddress>,
}

impl WrittenRequest {
    pub(super) fn of(config: &RemoteConfig, wire: &dyn Wire) -> Self {
        let literal = |source: &SecretSource| match source {
            SecretSource::Literal(text) => Some(text.expose().to_owned()),
            SecretSource::Reference(_) => None,
        };
        let base = config.literal_url();
        // A faulty address is reported when it is called.
        let address = |base: Url| {
            let model = literal(&config.model)?;
            let version = config.version.as_ref().map(|version| literal(version).ok_or(())).transpose().ok()?;
            RequestAddress::of(wire.address(base, &model, version.as_deref()).ok()?).ok()
        };
        Self { address: base.clone().and_then(address), base }
    }
}

impl fmt::Debug for WrittenRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Written(..)")
    }
}

/// Where one turn's settings come from.
pub(super) struct RequestSettings<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) secrets: &'a Secrets,
    pub(super) config: &'a RemoteConfig,
    pub(super) written: &'a WrittenRequest,
    pub(super) wire: &'a dyn Wire,
}

impl<'a> RequestSettings<'a> {
    pub(super) async fn prepare(&self, request: &ModelRequest) -> Result<PreparedRequest<'a>, ModelError> {
        let config = self.config;
        let mut redaction = Redaction::default();
        let base = self.secrets.resolve(self.namespace, &config.base_url).await;
        let base = base.map_err(|error| unresolved("baseUrl", &error))?.ok_or_else(|| absent("baseUrl"))?;
        // The destination is known now; every other secret is checked against it.
        let written = match &self.written.base {
            Some(url) => Cow::Borrowed(url),
            None => Cow::Owned(self::base(base.expose()).map_err(bad_base)?),
        };
        let to = Destination { url: &written, kept_in: config.base_url.secret() };
        let model =
            self.maybe("model", Some(&config.model), HostPart::Body, to).await?.ok_or_else(|| absent("model"))?;
        let key = self.maybe("apiKey", config.api_key.as_ref(), HostPart::Key, to).await?;
        let version = self.maybe("version", config.version.as_ref(), HostPart::Body, to).await?;
        let version = version.as_ref().map(Secret::expose);
        let address = match &self.written.address {
            Some(address) => Cow::Borrowed(address),
            None => {
                let url = self.wire.address(written.clone().into_owned(), model.expose(), version);
                Cow::Owned(url.and_then(RequestAddress::of).map_err(bad_base)?)
            }
        };
        // Of the address as it was written: what the wire format adds to it is not a secret.
        if let Some((_, query)) = base.expose().split_once('?') {
            redaction.add(&Secret::new(query.to_owned()));
            written.query_pairs().for_each(|(_, value)| redaction.add(&Secret::new(value.into_owned())));
        }
        let mut headers = HeaderMap::new();
        // First, so that a manifest can override it.
        headers.extend(request.trace.iter().flat_map(|trace| trace_headers(trace)));
        for (name, value) in self.wire.headers(key.as_ref().map(Secret::expose), version) {
            headers.insert(name, sensitive(name, &value)?);
        }
        key.iter().for_each(|key| redaction.add(key));
        for (name, source) in &config.headers {
            if let Some(value) = self.maybe(name, Some(source), HostPart::Header, to).await? {
                let spelled = HeaderName::try_from(name.as_str())
                    .map_err(|_| ModelError::Misconfigured(format!("`{name}` is not the name of a header")))?;
                headers.insert(spelled, sensitive(name, value.expose())?);
                redaction.add(&value);
            }
        }
        let mut properties = Vec::with_capacity(config.properties.len());
        for (name, source) in &config.properties {
            if let Some(value) = self.maybe(name, Some(source), HostPart::Body, to).await? {
                properties.push((name.as_str(), property(value.expose())));
                // A literal in the manifest is a setting that an error may mention, unless its name marks it as a
                // secret, which is not shown in resources either.
                if matches!(source, SecretSource::Reference(_)) || is_secret_name(name) {
                    redaction.add(&value);
                }
            }
        }
        let turn = RemoteTurn { model: model.expose(), request, stream: config.stream, properties: &properties };
        let body = (self.wire.body(&turn))
            .map_err(|error| ModelError::Misconfigured(format!("request cannot be written as JSON: {error}")))?;
        // Last: nothing overrides them. `Host` is set by the connection, since HTTP/2 has another name for it.
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(PreparedRequest { address, headers, body: body.into(), redaction })
    }

    async fn maybe(
        &self,
        what: &str,
        source: Option<&SecretSource>,
        part: HostPart,
        to: Destination<'_>,
    ) -> Result<Option<Secret>, ModelError> {
        let Some(source) = source else { return Ok(None) };
        let resolved = self.secrets.resolve_for(self.namespace, source, part, to, &self.config.reach).await;
        resolved.map_err(|error| unresolved(what, &error))
    }
}

fn unresolved(what: &str, error: &SecretError) -> ModelError {
    if error.is_refusal() {
        return ModelError::SecretNotAllowed(format!("`{what}`: {error}"));
    }
    ModelError::Misconfigured(format!("`{what}` cannot be resolved: {error}"))
}

fn bad_base(problem: &'static str) -> ModelError {
    ModelError::Misconfigured(format!("`baseUrl` {problem}"))
}

fn absent(what: &str) -> ModelError {
    ModelError::Misconfigured(format!("`{what}` is an optional secret, and it is absent"))
}

/// The base address of an API, to which a wire format adds its path.
///
/// # Errors
/// With what is wrong with `base`; never with `base` itself, which may contain a secret.
pub(crate) fn base(base: &str) -> Result<Url, &'static str> {
    let mut url = Url::parse(base).map_err(|_| "is not a URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user or a password; use `apiKey` or `headers`");
    }
    url.set_fragment(None);
    // Without a slash at its end, so that segments can be added.
    url.path_segments_mut().map_err(|()| "has no path")?.pop_if_empty();
    Ok(url)
}

fn sensitive(name: &str, value: &str) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| ModelError::Misconfigured(format!("the value of `{name}` is not valid in a header")))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A property is text in a manifest. What reads as JSON is sent as that; all other text is a string.
fn property(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
