//! Bodies of requests, as strict JSON.
//!
//! A body is read whole, within a size and a time, before anybody looks at it. It must say that it
//! is JSON: that is what keeps web pages from sending one without the browser asking us first.
//! `curl -d` says nothing of JSON by itself, so its default type is taken as JSON too, but only from
//! a client that is certainly no browser: browsers send `Origin` with every POST that a page makes
//! to another site, and `Sec-Fetch-Site` with every request, and no page can leave them out.

use std::time::Duration;

use axum::{
    body::{Bytes, HttpBody, to_bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderName, header},
};
use bosun_core::json::{self, JsonError, Limits};
use serde_json::{Value, json};

use super::error::{ApiError, Code};

/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Browsers send it, and pages cannot forge or suppress it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A body that must be there.
#[derive(Debug)]
pub(crate) struct JsonBody(pub(crate) Value);

/// A body that may be missing.
#[derive(Debug)]
pub(crate) struct OptionalJson(pub(crate) Option<Value>);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        require_json(request.headers())?;
        parse(&read(request).await?).map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for OptionalJson {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let typed = require_json(request.headers());
        let body = read(request).await?;
        if body.is_empty() {
            return Ok(Self(None));
        }
        typed?;
        parse(&body).map(Some).map(Self)
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |message: &str| Err(ApiError::new(Code::UnsupportedMediaType, message));
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return refuse("a compressed body is not taken; send it without `Content-Encoding`");
    }
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, parameters) = media_type.split_once(';').unwrap_or((media_type, ""));
    let essence = essence.trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return match parameters.trim().split_once('=') {
            Some((name, charset))
                if name.trim().eq_ignore_ascii_case("charset")
                    && !charset.trim().trim_matches('"').eq_ignore_ascii_case("utf-8") =>
            {
                refuse("JSON is UTF-8; other charsets are not taken")
            }
            _ => Ok(()),
        };
    }
    let browser = headers.contains_key(header::ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    if essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") && !browser {
        return Ok(());
    }
    refuse("a body must have `Content-Type: application/json`")
}

async fn read(request: Request) -> Result<Bytes, ApiError> {
    let limit = Limits::BODY.bytes;
    let too_large = || ApiError::new(Code::PayloadTooLarge, format!("a body may have at most {limit} bytes"));
    let body = request.into_body();
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(Code::InvalidJson, "the body broke off")),
        Err(_) => Err(ApiError::new(Code::RequestTimeout, format!("the body did not arrive within {BODY_TIMEOUT:?}"))),
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

fn parse(body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Err(ApiError::new(Code::InvalidJson, "the body is empty; it must be a JSON object"));
    }
    let text = str::from_utf8(body).map_err(|_| ApiError::new(Code::InvalidJson, "the body is not UTF-8"))?;
    json::parse(text, Limits::BODY).map_err(|error| {
        let code = match &error {
            JsonError::TooLarge { .. } => Code::PayloadTooLarge,
            JsonError::TooDeep { .. } => Code::JsonTooDeep,
            JsonError::DuplicateKey { .. } => Code::DuplicateKey,
            JsonError::Syntax { .. } => Code::InvalidJson,
        };
        let place = error.position().map(|(line, column)| json!({ "line": line, "column": column }));
        ApiError::new(code, format!("the body is not taken as JSON: {error}")).with_details(place.into_iter().collect())
    })
}
