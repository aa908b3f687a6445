//! Following a query: a subscription, pulled as fast as the client reads, in the format of one edge.

use axum::body::Bytes;
use bosun_engine::{Watch, Watched, metrics::OpenStream};
use futures_util::{Stream, StreamExt as _, stream};

use crate::http::sse;

/// Translates what happens to a query into the events of one edge.
pub(crate) trait Narrate: Send + 'static {
    /// The SSE text of one item; empty if it has no event. With other subscribers, which get the same text, it is
    /// cached.
    fn narrate(&mut self, watched: &Watched, has_other_subscribers: bool) -> Bytes;

    /// Whether the stream ends here.
    fn is_over(&self) -> bool;
}

/// The events of a query until the narrator has seen its end. A server that shuts down asks its clients to reconnect.
pub(crate) fn follow(
    watch: Watch,
    narrator: impl Narrate,
    counted: OpenStream,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let texts = stream::unfold(Some((watch, narrator, counted)), async |reading| {
        let (mut watch, mut narrator, counted) = reading?;
        if narrator.is_over() {
            return None;
        }
        match watch.next().await {
            Ok(Some(watched)) => {
                let text = narrator.narrate(&watched, watch.has_other_subscribers());
                Some((text, Some((watch, narrator, counted))))
            }
            // The server shuts down; the query does not end with it.
            Ok(None) => Some((sse::RECONNECT, None)),
            Err(error) => {
                tracing::warn!(error = %error, "journal cannot be read, ending the stream");
                Some((sse::RECONNECT, None))
            }
        }
    });
    // Many entries have no event.
    texts.filter(|text| std::future::ready(!text.is_empty()))
}
