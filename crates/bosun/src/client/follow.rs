//! Following a query to its end, across reconnects.
//!
//! The server may restart in between. Each reconnect sends the id of the last event, so no event is missed and none is
//! repeated; only text that was still being streamed may be.

use std::time::Duration;

use serde_json::Value;

use super::{Client, ClientError, Event, EventStream};

/// The maximum number of consecutive failures: with the delays below, almost a minute.
const MAX_FAILURES: u32 = 30;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a follower receives.
#[derive(Debug)]
pub(crate) enum Seen {
    Event(Event),
    /// The connection broke, and will be retried.
    Lost(ClientError),
    /// Reconnected.
    Back,
}

#[derive(Debug)]
pub(crate) struct Following<'a> {
    client: &'a Client,
    name: String,
    stream: Option<EventStream>,
    last_id: Option<String>,
    failures: u32,
}

impl<'a> Following<'a> {
    /// Creates the query that `body` describes, under `name`, and follows it.
    ///
    /// An unreachable server is an error at once. If the connection breaks later, the query is posted again: if the
    /// first post had arrived, the same query is followed from its beginning.
    pub(crate) async fn create(client: &'a Client, name: &str, body: &Value) -> Result<Self, ClientError> {
        let mut following = Self { client, name: name.to_owned(), stream: None, last_id: None, failures: 0 };
        loop {
            match client.create(body).await {
                Ok(stream) => {
                    following.stream = Some(stream);
                    return Ok(following);
                }
                Err(error @ ClientError::Unreachable { .. }) if following.failures == 0 => return Err(error),
                Err(error) => following.failed(error).map(|_| ())?,
            }
            tokio::time::sleep(pause(following.failures)).await;
        }
    }

    /// The server's warnings about the request that created the query.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.stream.as_ref().map(|stream| stream.warnings().collect()).unwrap_or_default()
    }

    /// The next item. To be called until an event says that the query has ended.
    pub(crate) async fn next(&mut self) -> Result<Seen, ClientError> {
        let Some(stream) = &mut self.stream else {
            tokio::time::sleep(pause(self.failures)).await;
            return match self.client.follow(&self.name, self.last_id.as_deref()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    Ok(Seen::Back)
                }
                Err(error) => self.failed(error).map(Seen::Lost),
            };
        };
        let lost = match stream.next().await {
            Ok(Some(event)) => {
                self.failures = 0;
                if let Some(id) = &event.id {
                    self.last_id = Some(id.clone());
                }
                return Ok(Seen::Event(event));
            }
            Ok(None) => {
                let server = self.client.server().to_owned();
                ClientError::Broken { server, reason: "the server ended the stream".into() }
            }
            Err(error) => error,
        };
        self.stream = None;
        self.failed(lost).map(Seen::Lost)
    }

    /// Counts a failure; returns it as an error if it is permanent, or one too many.
    fn failed(&mut self, error: ClientError) -> Result<ClientError, ClientError> {
        self.failures += 1;
        if error.is_passing() && self.failures <= MAX_FAILURES { Ok(error) } else { Err(error) }
    }
}

/// The delay after this many consecutive failures.
pub(crate) fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(earlier) => FIRST_PAUSE.saturating_mul(1 << earlier.min(16)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_a_limit() {
        let pauses: Vec<_> = (0..8).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 2000, 2000]);
        let whole: Duration = (0..=MAX_FAILURES).map(pause).sum();
        assert!((45..60).contains(&whole.as_secs()), "{whole:?}");
    }
}
