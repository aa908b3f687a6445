//! One result as the body of a request, up to 64 MiB.
//!
//! A small body is read as a post would be. A larger one goes to the engine piece by piece and is never
//! whole in memory. Whether the call still waits is checked before the first byte is read, and again by
//! the machine after the last one. A body that ends early, is too large or is not of its media type
//! leaves nothing behind, and the call still waits.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderMap, header},
};
use bosun_core::{
    CallId, Content, Namespace,
    content::{INLINE_BYTES, LARGEST_BYTES, MediaType},
    json::JsonLimits,
    machine::DeliveryState,
};
use bosun_engine::{Engine, Upload, UploadError};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::delivery::{self, ResultPost};
use crate::{
    ark::params::{ResultOptions, path::CallPath},
    http::{
        error::{ApiError, Code, call_not_found, not_utf8},
        extract,
    },
};

/// The idle timeout between two chunks of a body.
const SILENCE: Duration = Duration::from_secs(30);
/// The timeout of a whole body: 64 MiB at one megabit a second.
const WHOLE_BODY: Duration = Duration::from_secs(600);

/// Reads a request whose body is the result of the call that its path names.
pub(crate) async fn read(
    engine: &Engine,
    path: &CallPath,
    options: &ResultOptions,
    warnings: Vec<String>,
    request: Request,
) -> Result<ResultPost, ApiError> {
    let media_type = read_media_type(request.headers())?;
    let delivery_state = delivery_state(engine, path).await?;
    if let Some(refusal) = delivery::refuse_early(&path.call_id, delivery_state) {
        return Err(refusal);
    }
    let call = path.call_id.parse().map_err(|_| call_not_found(&path.call_id))?;
    let body = request.into_body();
    let content = match media_type {
        Some(media_type) => {
            let to = UploadTarget { namespace: path.query.namespace.clone(), call, delivery_state };
            receive(engine, to, media_type, body, options.is_failure()).await?
        }
        None => receive_nothing(body).await?,
    };
    let outcome = options.outcome(content).ok_or_else(untyped)?;
    let post = ResultPost::of_call(call, options.lease.as_ref(), outcome, options.took, warnings);
    Ok(post.holding(options.hold))
}

async fn delivery_state(engine: &Engine, path: &CallPath) -> Result<DeliveryState, ApiError> {
    let key = path.query.key()?;
    match path.call_id.parse::<CallId>() {
        Ok(call) => Ok(engine.delivery_state(&key, call).await?),
        // Not an id of this server. A missing query is reported first.
        Err(_) => {
            engine.get(&key, None).await?;
            Ok(DeliveryState::Unknown)
        }
    }
}

/// The media type of the body; `None` without the header.
fn read_media_type(headers: &HeaderMap) -> Result<Option<MediaType>, ApiError> {
    let refuse = |message: &str| Err(ApiError::new(Code::UnsupportedMediaType, message));
    extract::require_uncompressed(headers)?;
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(None) };
    let (essence, parameters) = extract::media_type(value);
    let Ok(media_type) = essence.parse::<MediaType>() else {
        return refuse("a result is `application/json` or `text/…`; anything else must be described in text");
    };
    if !extract::is_utf8(parameters) {
        return refuse("a result must be UTF-8; other charsets are not supported");
    }
    Ok(Some(media_type))
}

/// The call that a result is for.
struct UploadTarget {
    namespace: Namespace,
    call: CallId,
    delivery_state: DeliveryState,
}

async fn receive(
    engine: &Engine,
    to: UploadTarget,
    media_type: MediaType,
    body: Body,
    failure: bool,
) -> Result<Option<Content>, ApiError> {
    if body.size_hint().lower() > LARGEST_BYTES {
        return Err(UploadError::TooLarge.into());
    }
    // Content that a post could have delivered as JSON is parsed as JSON, so that both ways yield the same value. A
    // text is kept as its bytes.
    let in_memory = if media_type.is_json() { JsonLimits::BODY.bytes } else { INLINE_BYTES };
    let mut pieces = Chunks::new(body);
    let mut small = BytesMut::new();
    let mut large: Option<Upload> = None;
    while let Some(piece) = pieces.next().await? {
        match &mut large {
            Some(upload) => upload.write(piece).await?,
            None if small.len() + piece.len() <= in_memory => small.extend_from_slice(&piece),
            None => {
                let mut upload = engine.upload(&to.namespace, to.call, to.delivery_state, media_type.clone()).await?;
                upload.write(small.split().freeze()).await?;
                upload.write(piece).await?;
                large = Some(upload);
            }
        }
    }
    match large {
        Some(upload) => Ok(Some(Content::Large(upload.finish().await?))),
        // A failure need not have anything to add.
        None if failure && small.is_empty() => Ok(None),
        None => read_small(&media_type, &small).map(Some),
    }
}

/// A body that is small enough to be in memory, and for text also to be in the journal.
fn read_small(media_type: &MediaType, body: &[u8]) -> Result<Content, ApiError> {
    if media_type.is_json() {
        return extract::parse(body).map(Content::Inline);
    }
    match str::from_utf8(body) {
        Ok(text) => Ok(Content::Inline(Value::from(text))),
        Err(error) => Err(not_utf8(error.valid_up_to() as u64)),
    }
}

/// A body without a media type must be empty.
async fn receive_nothing(body: Body) -> Result<Option<Content>, ApiError> {
    match Chunks::new(body).next().await? {
        None => Ok(None),
        Some(_) => Err(untyped()),
    }
}

fn untyped() -> ApiError {
    ApiError::new(
        Code::UnsupportedMediaType,
        "a result must say what it is: `Content-Type: application/json` or `text/…`",
    )
}

/// A body that is read chunk by chunk, with timeouts.
struct Chunks {
    stream: axum::body::BodyDataStream,
    deadline: Instant,
}

impl Chunks {
    fn new(body: Body) -> Self {
        Self { stream: body.into_data_stream(), deadline: Instant::now() + WHOLE_BODY }
    }

    /// The next chunk; never an empty one.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            let piece = timeout_at(self.deadline, timeout(SILENCE, self.stream.next())).await;
            match piece {
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(Ok(piece)))) if piece.is_empty() => {}
                Ok(Ok(Some(Ok(piece)))) => return Ok(Some(piece)),
                Ok(Ok(Some(Err(_)))) => {
                    return Err(ApiError::new(Code::InvalidToolResult, "the body ended early; the call still waits"));
                }
                Ok(Err(_)) => return Err(too_slow(&format!("nothing more of the body came for {SILENCE:?}"))),
                Err(_) => return Err(too_slow(&format!("the body did not arrive within {WHOLE_BODY:?}"))),
            }
        }
    }
}

fn too_slow(message: &str) -> ApiError {
    ApiError::new(Code::RequestTimeout, message)
}
