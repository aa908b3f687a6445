//! Following a query to its end, across reconnects.
//!
//! The server may restart in between. Each reconnect sends the id of the last event, so no event is missed and none is
//! repeated; only text that was still being streamed may be.

use serde_json::Value;

use crate::{
    Client, ClientError, Event, EventStream,
    retry::{MAX_FAILURES, pause},
};

/// What a follower receives.
#[derive(Debug)]
pub enum Seen {
    Event(Event),
    /// The connection broke, and will be retried.
    Lost(ClientError),
    /// Reconnected.
    Back,
}

/// The events of one query, over as many connections as it takes.
#[derive(Debug)]
pub struct Following<'a> {
    client: &'a Client,
    name: String,
    stream: Option<EventStream>,
    is_replayed: bool,
    last_id: Option<String>,
    /// Consecutive failures without a new durable event in between: a server that sends one byte before it breaks off
    /// is not followed forever.
    failures: u32,
    pause: std::time::Duration,
}

impl<'a> Following<'a> {
    /// Creates the query that `body` describes, under `name`, and follows it.
    ///
    /// An unreachable server is an error at once. If the connection breaks later, the query is posted again: if the
    /// first post had arrived, the same query is followed from its beginning.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the query.
    pub async fn create(client: &'a Client, name: &str, body: &Value) -> Result<Self, ClientError> {
        let mut following = Self::resume(client, name);
        following.is_replayed = false;
        loop {
            match client.create(body).await {
                Ok(stream) => {
                    following.is_replayed = stream.is_replayed();
                    following.stream = Some(stream);
                    following.failures = 0;
                    return Ok(following);
                }
                Err(error @ ClientError::Unreachable { .. }) if following.failures == 0 => return Err(error),
                Err(error) => following.failed(error).map(|_| ())?,
            }
            tokio::time::sleep(following.pause).await;
        }
    }

    /// Follows a query that exists, from its beginning.
    #[must_use]
    pub fn resume(client: &'a Client, name: &str) -> Self {
        Self {
            client,
            name: name.to_owned(),
            stream: None,
            is_replayed: true,
            last_id: None,
            failures: 0,
            pause: std::time::Duration::ZERO,
        }
    }

    /// The name of the query.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the query existed before: then its stream begins with events that another client has seen.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.is_replayed
    }

    /// The server's warnings about the request that created the query.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.stream.as_ref().map(|stream| stream.warnings().collect()).unwrap_or_default()
    }

    /// The next item. To be called until an event says that the query has ended.
    ///
    /// # Errors
    /// If the server refuses the stream, or has failed too often.
    pub async fn next(&mut self) -> Result<Seen, ClientError> {
        let Some(stream) = &mut self.stream else {
            tokio::time::sleep(self.pause).await;
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
                if event.id.is_some() && event.id != self.last_id {
                    self.failures = 0;
                    self.last_id.clone_from(&event.id);
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
        self.pause = pause(self.failures, Some(&error));
        if error.is_passing() && self.failures <= MAX_FAILURES { Ok(error) } else { Err(error) }
    }
}
