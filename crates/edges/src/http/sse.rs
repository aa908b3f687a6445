//! Server-sent events: the answer of a request that stays open.
//!
//! The stream is pulled, never pushed: an event is made when the connection has room for it, so a
//! slow reader costs no memory. A comment goes out when nothing else does, so that proxies and
//! clients can tell silence from death.

use std::{convert::Infallible, time::Duration};

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::Stream;

/// How long a stream may be silent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// When a client should come back after a stream that ended before its query did.
const RETRY: Duration = Duration::from_secs(1);
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

/// The line that asks a client to come back.
pub(crate) fn come_back() -> Event {
    Event::default().retry(RETRY)
}

impl From<Message> for Event {
    fn from(message: Message) -> Self {
        // `Value` prints itself on one line, which is all that the format asks of data.
        let event = Self::default().event(message.event).data(message.data.to_string());
        match message.id {
            Some(id) => event.id(id),
            None => event,
        }
    }
}

/// The answer that sends `events` until they end.
pub(crate) fn respond(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = futures_util::StreamExt::map(events, Ok::<_, Infallible>);
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("heartbeat");
    let mut response = Sse::new(events).keep_alive(heartbeat).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}
