//! The floor of streaming: axum's own server-sent events over one broadcast channel.
//!
//! No journal, no cursor, no heartbeat, no guard: whatever is posted goes to all readers.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::State,
    response::sse::{Event, Sse},
    routing::{get, post},
};
use futures_util::{Stream, stream};
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};

use crate::listen;

/// More than the rounds of a measurement can have in flight.
const CAPACITY: usize = 64;

type Line = Arc<str>;

pub(crate) async fn serve() -> anyhow::Result<()> {
    let (sender, _) = broadcast::channel::<Line>(CAPACITY);
    let router =
        Router::new().route("/events", get(subscribe)).route("/publish", post(publish)).with_state(Arc::new(sender));
    listen::until_stdin_ends(router).await
}

async fn subscribe(State(sender): State<Arc<Sender<Line>>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(stream::unfold(sender.subscribe(), next))
}

async fn next(mut receiver: Receiver<Line>) -> Option<(Result<Event, Infallible>, Receiver<Line>)> {
    loop {
        match receiver.recv().await {
            Ok(line) => return Some((Ok(Event::default().event("tool_call").data(line).id("0")), receiver)),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Each line of the body is an event.
async fn publish(State(sender): State<Arc<Sender<Line>>>, body: String) -> &'static str {
    for line in body.lines() {
        // There may be no reader.
        let _ = sender.send(line.into());
    }
    "published"
}
