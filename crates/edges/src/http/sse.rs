//! Server-sent events: the answer of a request that stays open.
//!
//! The stream is pulled, never pushed: an event is made when the connection has room for it, so a
//! slow reader costs no memory. A comment goes out when nothing else does, so that proxies and
//! clients can tell silence from death. An event is written once and its bytes are shared by all
//! who read it.

use std::{
    convert::Infallible,
    io::Write as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep};

/// How long a stream may be silent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What is sent instead of silence: a comment.
const BEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");
/// Asks a client to come back in a second, after a stream that ended before its query did.
pub(crate) const COME_BACK: Bytes = Bytes::from_static(b"retry: 1000\n\n");
/// nginx would hold events back until its buffer is full.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// One event as it goes out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    /// The cursor to resume after it; events that are not durable have none.
    pub(crate) id: Option<String>,
    pub(crate) event: &'static str,
    pub(crate) data: serde_json::Value,
}

/// The lines of `messages`. JSON prints itself on one line, which is all that the format asks of data.
pub(crate) fn write(messages: &[Message]) -> Bytes {
    let mut text = Vec::with_capacity(256);
    for Message { id, event, data } in messages {
        // Nothing can fail: a vector takes all, and data has only keys of text.
        let _ = write!(text, "event: {event}\ndata: {data}\n");
        if let Some(id) = id {
            let _ = writeln!(text, "id: {id}");
        }
        text.push(b'\n');
    }
    Bytes::from(text)
}

/// The answer that sends `events` until they end.
pub(crate) fn respond(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let beating = Beating { events: Box::pin(events), silence: Box::pin(sleep(HEARTBEAT)) };
    let mut response = Body::from_stream(beating).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Events, and a beat whenever there was none for a while.
struct Beating<S> {
    events: Pin<Box<S>>,
    silence: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Bytes>> Stream for Beating<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match self.events.as_mut().poll_next(context) {
            Poll::Ready(next) => next,
            Poll::Pending => {
                std::task::ready!(self.silence.as_mut().poll(context));
                Some(BEAT)
            }
        };
        self.silence.as_mut().reset(Instant::now() + HEARTBEAT);
        Poll::Ready(next.map(Ok))
    }
}
