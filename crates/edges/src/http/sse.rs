//! Server-sent events: the answer of a request that stays open.
//!
//! The stream is pulled, never pushed: an event is made when the connection has room for it, so a
//! slow reader costs no memory. A comment goes out when nothing else does, so that proxies and
//! clients can distinguish an idle stream from a dead one. An event is serialized once and its bytes are shared by all
//! subscribers.

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

/// How long a stream may be idle.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The heartbeat of an idle stream: a comment.
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");
/// Asks a client to reconnect in a second, after a stream that ended before its query did.
pub(crate) const RECONNECT: Bytes = Bytes::from_static(b"retry: 1000\n\n");
/// nginx would hold events back until its buffer is full.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// One event as it goes out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SseMessage {
    /// The cursor to resume after it; events that are not durable have none.
    pub(crate) id: Option<String>,
    pub(crate) event: &'static str,
    pub(crate) data: serde_json::Value,
}

/// The lines of `messages`. JSON is written on one line, which is all that the format requires of data.
pub(crate) fn write(messages: &[SseMessage]) -> Bytes {
    let mut text = Vec::with_capacity(256);
    for SseMessage { id, event, data } in messages {
        // Writing to a vector cannot fail, and the keys of the data are texts.
        let _ = write!(text, "event: {event}\ndata: {data}\n");
        if let Some(id) = id {
            let _ = writeln!(text, "id: {id}");
        }
        text.push(b'\n');
    }
    Bytes::from(text)
}

/// An event without a name, which is all that some protocols have.
pub(crate) fn write_data(id: Option<&str>, data: &serde_json::Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}data: {data}\n\n"))
}

/// The response that sends `events` until they end.
pub(crate) fn respond(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let with_heartbeat = WithHeartbeat { events: Box::pin(events), silence: Box::pin(sleep(HEARTBEAT_INTERVAL)) };
    let mut response = Body::from_stream(with_heartbeat).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Events, and a heartbeat whenever there was none for a while.
struct WithHeartbeat<S> {
    events: Pin<Box<S>>,
    silence: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Bytes>> Stream for WithHeartbeat<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match self.events.as_mut().poll_next(context) {
            Poll::Ready(next) => next,
            Poll::Pending => {
                std::task::ready!(self.silence.as_mut().poll(context));
                Some(HEARTBEAT)
            }
        };
        self.silence.as_mut().reset(Instant::now() + HEARTBEAT_INTERVAL);
        Poll::Ready(next.map(Ok))
    }
}
