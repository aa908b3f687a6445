//! A streamed answer, decoded into events.
//!
//! The wire format interprets the events; that a stream may end only between two of them holds for every format.

use bosun_engine::model::{Deltas, ModelError};
use bosun_reading::sse::Decoder;

use super::{Failure, RemoteAnswer, ReplyReader};

/// The longest line of a stream, and the longest data of one event.
const LONGEST: usize = 1024 * 1024;

/// Puts an answer together from the data of its events.
pub(crate) trait AssembleReply: Default + Send {
    /// Takes the data of the next event; text goes to `deltas`.
    fn event(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure>;

    /// The answer, if it is complete. To be called only at the end of the body.
    fn end(self) -> Result<RemoteAnswer, Failure>;
}

/// A stream that is still arriving.
#[derive(Debug, Default)]
pub(crate) struct Streamed<A> {
    decoder: Decoder<LONGEST>,
    assembly: A,
}

impl<A: AssembleReply> ReplyReader for Streamed<A> {
    fn feed(&mut self, bytes: &[u8], deltas: &dyn Deltas) -> Result<(), Failure> {
        self.decoder.feed(bytes, |event| self.assembly.event(&event.data, deltas))
    }

    fn end(self: Box<Self>) -> Result<RemoteAnswer, Failure> {
        if !self.decoder.is_between_events() {
            return Err(ModelError::Incomplete("the stream ended in the middle of an event".into()).into());
        }
        self.assembly.end()
    }
}

/// Why a plain answer cannot be read as `what`: it ended early, or it is something else.
pub(crate) fn unreadable(what: &str, error: &serde_json::Error) -> ModelError {
    if error.is_eof() {
        ModelError::Incomplete("the body ended in the middle".into())
    } else {
        malformed(format!("the body is not a {what}: {error}"))
    }
}

pub(crate) fn malformed(message: impl Into<String>) -> ModelError {
    ModelError::Malformed(message.into())
}
