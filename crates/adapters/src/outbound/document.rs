//! A document of another server, fetched again only if it has changed.
//!
//! For addresses in the operator's own settings. Redirects are not followed: the operator names the final address.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT},
};
use url::Url;

use super::{OutboundError, Pool, cause};
use crate::secret::binding::SecretReach;

/// The timeout of a fetch, body included.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A document, and the tag of its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteDocument {
    pub content: Bytes,
    pub etag: Option<HeaderValue>,
}

/// Why a document could not be fetched. No message repeats the URL, which may contain a key.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot be fetched: {0}")]
    NoResponse(String),
    #[error("cannot be fetched: it did not answer within {} s", TIMEOUT.as_secs())]
    TimedOut,
    #[error("cannot be fetched: it answers with {0}")]
    Status(StatusCode),
    #[error("has more than the {0} bytes that are read")]
    TooLarge(usize),
}

impl From<OutboundError> for FetchError {
    fn from(error: OutboundError) -> Self {
        Self::NoResponse(cause(&error))
    }
}

/// Fetches the document at `url`; `None` if it still has the tag of `known`.
///
/// # Errors
/// If there is no complete answer in time, if it is not a document, or if that has more than `limit` bytes.
pub async fn fetch(
    pool: &Pool,
    url: &Url,
    known: Option<&RemoteDocument>,
    limit: usize,
) -> Result<Option<RemoteDocument>, FetchError> {
    let fetched = tokio::time::timeout(TIMEOUT, fetch_unlimited_in_time(pool, url, known, limit));
    fetched.await.unwrap_or(Err(FetchError::TimedOut))
}

async fn fetch_unlimited_in_time(
    pool: &Pool,
    url: &Url,
    known: Option<&RemoteDocument>,
    limit: usize,
) -> Result<Option<RemoteDocument>, FetchError> {
    let mut request = Request::get(url.as_str())
        .header(ACCEPT, "application/json, application/yaml, */*")
        .header(USER_AGENT, concat!("bosun/", env!("CARGO_PKG_VERSION")));
    if let Some(etag) = known.and_then(|known| known.etag.as_ref()) {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let request =
        request.body(Full::default()).map_err(|_| FetchError::NoResponse("it is not a usable address".to_owned()))?;
    let response = pool.client(url, &SecretReach::File)?.send(request).await?;
    match response.status() {
        StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
        StatusCode::OK => {}
        other => return Err(FetchError::Status(other)),
    }
    let etag = response.headers().get(ETAG).cloned();
    let body = Limited::new(response.into_body(), limit).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            FetchError::TooLarge(limit)
        } else {
            FetchError::NoResponse(cause(&*error))
        }
    })?;
    Ok(Some(RemoteDocument { content: body.to_bytes(), etag }))
}
