//! One connection that receives the events of a query.

use std::collections::VecDeque;

use bosun_reading::sse::{Decoder, Event, SseError};
use reqwest::Response;

use crate::{ClientError, connection::root_cause};

/// The longest line, and the longest data of one event. The server's own limit is below it.
const LONGEST_EVENT: usize = 4 * 1024 * 1024;

/// The events of one connection. [`Following`](crate::Following) reconnects.
#[derive(Debug)]
pub struct EventStream {
    server: String,
    response: Response,
    decoder: Decoder<LONGEST_EVENT>,
    ready: VecDeque<Event>,
}

impl EventStream {
    pub(crate) fn new(server: String, response: Response) -> Self {
        Self { server, response, decoder: Decoder::default(), ready: VecDeque::new() }
    }

    /// Whether the query existed before the request that opened this stream.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.response.headers().get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// The server's warnings about a request that succeeded.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let texts = self.response.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
        texts.filter_map(|text| Some(text.split_once('"')?.1.strip_suffix('"')?.replace('\\', "")))
    }

    /// The next event; `None` when the server has ended the stream.
    ///
    /// # Errors
    /// If the connection breaks, or the server does not send events.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk
                .map_err(|error| ClientError::Broken { server: self.server.clone(), reason: root_cause(&error) })?;
            let Some(chunk) = chunk else { return Ok(None) };
            let take = |event: &Event| {
                self.ready.push_back(event.clone());
                Ok::<_, SseError>(())
            };
            self.decoder.feed(&chunk, take).map_err(|error| ClientError::Unreadable(error.to_string()))?;
        }
    }
}
