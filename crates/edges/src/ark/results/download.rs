//! The content of one result, streamed back.
//!
//! It is sent as it is stored, with its own media type, whole or one range of it. A result never changes, so
//! its hash is its `ETag`. It is untrusted content: no browser may render it as a page of this
//! server.

use std::ops::Range;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bosun_core::CallId;
use bosun_engine::{Engine, EngineError, ResultContent};
use futures_util::stream;

use crate::{
    ark::params::{ByteRange, path::CallPath},
    http::error::{ApiError, Code, call_not_found},
};

/// The size of the chunks that are read, of which each reader holds one.
const STEP_BYTES: u64 = 64 * 1024;

/// Headers that keep a browser from executing the content.
const SANDBOX: [(HeaderName, &str); 2] =
    [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")];

/// Answers with the result of the call that the path names.
pub(crate) async fn open(engine: &Engine, path: &CallPath, range: &ByteRange) -> Result<Response, ApiError> {
    let key = path.query.key()?;
    let content = match path.call_id.parse::<CallId>() {
        Ok(call) => engine.result(&key, call).await?,
        Err(_) => {
            engine.get(&key, None).await?;
            return Err(call_not_found(&path.call_id));
        }
    };
    // Content that cannot be read is an error response, and not a response that ends early.
    content.read(0..content.size.min(1)).await.map_err(EngineError::from)?;
    Ok(respond(content, range))
}

fn respond(content: ResultContent, asked: &ByteRange) -> Response {
    let size = content.size;
    let tag = format!("\"{}\"", content.hash);
    // A part is of use only to a client that has the rest of the same result.
    let same = asked.if_range.as_ref().is_none_or(|condition| condition == tag.as_str());
    let (status, range) = match asked.range.as_ref().filter(|_| same).and_then(|range| read_range(range, size)) {
        None => (StatusCode::OK, 0..size),
        Some(Some(range)) => (StatusCode::PARTIAL_CONTENT, range),
        Some(None) => {
            let mut refused = ApiError::new(Code::RangeNotSatisfiable, format!("the result has {size} bytes"));
            refused = refused.with_details(vec![serde_json::json!({ "size": size })]);
            let mut response = refused.into_response();
            insert(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"));
            return response;
        }
    };
    let media_type = format!("{}; charset=utf-8", content.media_type);
    let mut response = (status, stream_of(content, range.clone())).into_response();
    insert(&mut response, header::CONTENT_TYPE, &media_type);
    insert(&mut response, header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    insert(&mut response, header::ACCEPT_RANGES, "bytes");
    insert(&mut response, header::ETAG, &tag);
    if status == StatusCode::PARTIAL_CONTENT {
        let last = range.end - 1;
        insert(&mut response, header::CONTENT_RANGE, &format!("bytes {}-{last}/{size}", range.start));
    }
    for (name, value) in SANDBOX {
        insert(&mut response, name, value);
    }
    response
}

/// All values here are numbers, hashes and media types, which are always legal.
fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// One range of bytes (RFC 9110, section 14). `None`: not one that is served, so the whole is the
/// answer; `Some(None)`: there are no such bytes.
fn read_range(value: &HeaderValue, size: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = value.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let number =
        |text: &str| if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse::<u64>().ok() } else { None };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Some(first), None) if last.is_empty() => first..size,
        (None, Some(length)) if first.is_empty() => size.saturating_sub(length)..size,
        _ => return None,
    };
    Some(Some(range).filter(|range| range.start < range.end))
}

/// The bytes of `range`, in chunks. If one cannot be read, the connection breaks before its promised
/// end, which every client notices.
fn stream_of(content: ResultContent, range: Range<u64>) -> Body {
    let steps = stream::try_unfold(range.start, move |start| {
        let content = content.clone();
        let step = start..range.end.min(start.saturating_add(STEP_BYTES));
        async move {
            if step.is_empty() {
                return Ok(None);
            }
            let bytes = content.read(step.clone()).await;
            if let Err(error) = &bytes {
                tracing::error!(error = %error, "result cannot be read, closing the connection");
            }
            bytes.map(|bytes| Some((bytes, step.end)))
        }
    });
    Body::from_stream(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &'static str, expect: Option<Option<Range<u64>>>) {
        assert_eq!(read_range(&HeaderValue::from_static(value), 100), expect, "{value}");
    }

    #[test]
    fn one_range_of_bytes_is_served() {
        check("bytes=0-0", Some(Some(0..1)));
        check("bytes=10-19", Some(Some(10..20)));
        check("bytes=90-", Some(Some(90..100)));
        check("bytes=90-999", Some(Some(90..100)));
        check("bytes=-10", Some(Some(90..100)));
        check("bytes=-999", Some(Some(0..100)));
    }

    #[test]
    fn bytes_that_are_not_there_cannot_be() {
        check("bytes=100-", Some(None));
        check("bytes=100-200", Some(None));
        check("bytes=-0", Some(None));
    }

    #[test]
    fn other_ranges_are_answered_with_the_whole() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=2-1",
            "bytes=a-b",
            "bytes=0-1,5-6",
            "lines=0-1",
            "bytes=+1-2",
            "bytes= 1-2",
        ] {
            check(value, None);
        }
    }
}
