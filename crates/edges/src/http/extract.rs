//! Bodies of requests, as strict JSON.
//!
//! A body is read whole, within a size and a time, before it is parsed. Its `Content-Type` must be JSON, which a web
//! page cannot send without a CORS preflight. `curl -d` does not declare JSON by itself, so its default type is
//! accepted as JSON too, but only from a client that is certainly not a browser: browsers send `Origin` with every POST
//! that a page makes to another site, and `Sec-Fetch-Site` with every request, and no page can leave them out.

use std::time::Duration;

use axum::{
    body::{Bytes, HttpBody, to_bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderName, HeaderValue, header},
};
use bosun_core::json::{self, JsonLimits};
use serde_json::Value;

use super::error::{ApiError, Code};

/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Browsers send it, and pages cannot forge or suppress it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The largest body that is read as JSON.
pub(crate) const MAX_BODY: usize = JsonLimits::BODY.bytes;

/// A body that must be there.
#[derive(Debug)]
pub(crate) struct JsonBody {
    value: Value,
    /// The bytes that it was parsed from, for errors that show them. Shared, so that it costs nothing.
    sent: Bytes,
}

/// A body that may be missing.
#[derive(Debug)]
pub(crate) struct OptionalJson(Option<JsonBody>);

impl JsonBody {
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// How many bytes were sent.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// What `read` makes of the body. An error that lists its faults echoes the body.
    pub(crate) fn read<T>(self, read: impl FnOnce(Value) -> Result<T, ApiError>) -> Result<T, ApiError> {
        self.read_and_keep(read).map(|(value, _)| value)
    }

    /// The same, with the bytes that it was parsed from, for faults that are found later.
    pub(crate) fn read_and_keep<T>(
        self,
        read: impl FnOnce(Value) -> Result<T, ApiError>,
    ) -> Result<(T, Bytes), ApiError> {
        let Self { value, sent } = self;
        match read(value) {
            Ok(value) => Ok((value, sent)),
            Err(error) => Err(error.about(&sent)),
        }
    }
}

impl OptionalJson {
    /// What `read` makes of the body, if there is one.
    pub(crate) fn read<T>(self, read: impl FnOnce(Option<Value>) -> Result<T, ApiError>) -> Result<T, ApiError> {
        match self.0 {
            Some(body) => body.read(|value| read(Some(value))),
            None => read(None),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        require_json(request.headers(), JSON)?;
        let sent = read(request).await?;
        Ok(Self { value: parse(&sent)?, sent })
    }
}

impl<S: Send + Sync> FromRequest<S> for OptionalJson {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let typed = require_json(request.headers(), JSON);
        let body = read(request).await?;
        if body.is_empty() {
            return Ok(Self(None));
        }
        typed?;
        Ok(Self(Some(JsonBody { value: parse(&body)?, sent: body })))
    }
}

/// The media types of A2A over HTTP: JSON, under its own name too.
pub(crate) const A2A_JSON: &[&str] = &["application/json", "application/a2a+json"];
const JSON: &[&str] = &["application/json"];

/// Reads the body of a request that must have one of these media types.
pub(crate) async fn read_json(request: Request, media_types: &[&str]) -> Result<Value, ApiError> {
    require_json(request.headers(), media_types)?;
    parse(&read(request).await?)
}

fn require_json(headers: &HeaderMap, media_types: &[&str]) -> Result<(), ApiError> {
    let refuse = |message: &str| Err(ApiError::new(Code::UnsupportedMediaType, message));
    require_uncompressed(headers)?;
    let (essence, parameters) = headers.get(header::CONTENT_TYPE).map(media_type).unwrap_or_default();
    if media_types.iter().any(|known| essence.eq_ignore_ascii_case(known)) {
        return if is_utf8(parameters) {
            Ok(())
        } else {
            refuse("JSON must be UTF-8; other charsets are not supported")
        };
    }
    let browser = headers.contains_key(header::ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") && !browser {
        return Ok(());
    }
    refuse("a body must have `Content-Type: application/json`")
}

pub(crate) fn require_uncompressed(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "compressed bodies are not supported; send it without `Content-Encoding`";
        return Err(ApiError::new(Code::UnsupportedMediaType, message));
    }
    Ok(())
}

/// A media type and its parameters.
pub(crate) fn media_type(value: &HeaderValue) -> (&str, &str) {
    let text = value.to_str().unwrap_or_default();
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    (essence.trim(), parameters)
}

/// Whether the parameters of a media type are none, or only the charset UTF-8.
pub(crate) fn is_utf8(parameters: &str) -> bool {
    let charsets = parameters.split(';').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    charsets.into_iter().all(|charset| charset.eq_ignore_ascii_case("utf-8"))
}

/// The body of a request, within a size and a time.
pub(crate) async fn read(request: Request) -> Result<Bytes, ApiError> {
    let limit = JsonLimits::BODY.bytes;
    let too_large = || ApiError::new(Code::PayloadTooLarge, format!("a body may have at most {limit} bytes"));
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(Code::InvalidJson, "the body ended early")),
        Err(_) => Err(ApiError::new(Code::RequestTimeout, format!("the body did not arrive within {BODY_TIMEOUT:?}"))),
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// Reads a whole body.
pub(crate) fn parse(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Err(ApiError::new(Code::InvalidJson, "the body is empty; it must be a JSON object"));
    }
    let text = str::from_utf8(body).map_err(|_| ApiError::new(Code::InvalidJson, "the body is not UTF-8"))?;
    Ok(json::parse(text, JsonLimits::BODY)?)
}
