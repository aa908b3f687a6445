//! Server-sent events of a response, each of limited size.

use std::io;

use bosun_adapters::outbound::Body;
use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use http_body_util::BodyStream;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

/// Measures events in the bytes of a stream: they end with an empty line.
#[derive(Debug, Default)]
struct EventSize {
    bytes: usize,
    line: usize,
}

impl EventSize {
    /// The size of the largest event so far that these bytes belong to.
    fn count(&mut self, bytes: &[u8]) -> usize {
        let mut largest = self.bytes;
        for byte in bytes {
            self.bytes += 1;
            match byte {
                b'\n' if self.line == 0 => self.bytes = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            largest = largest.max(self.bytes);
        }
        largest
    }
}

/// The events of a body. One that is larger than `largest` ends the stream, before it is held in memory.
pub(super) fn bounded(body: Body, largest: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let frames = BodyStream::new(body).filter_map(async |frame| match frame {
        Ok(frame) => frame.into_data().ok().map(Ok),
        Err(error) => Some(Err(io::Error::other(error))),
    });
    let sizes = (Box::pin(frames), EventSize::default(), false);
    let limited = stream::unfold(sizes, move |(mut frames, mut size, failed)| async move {
        if failed {
            return None;
        }
        let next: Result<Bytes, io::Error> = match frames.next().await? {
            Ok(bytes) if size.count(&bytes) > largest => {
                Err(io::Error::other(format!("an event has more than {largest} bytes")))
            }
            next => next,
        };
        let failed = next.is_err();
        Some((next, (frames, size, failed)))
    });
    SseStream::from_bytes_stream(limited).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_an_empty_line_in_any_spelling() {
        let mut size = EventSize::default();
        assert_eq!(size.count(b"data: abc\n\ndata: a\n"), 10);
        assert_eq!(size.count(b"\n"), 8);
        assert_eq!(size.count(b"data: abcdef\r\n\r\n"), 15);
        assert_eq!(size.count(b"data: abcdefghijklmnop"), 22);
    }
}
