//! What a stand-in answers, piece by piece, and how it goes wrong.
//!
//! Pure: an answer is data, and a fault is a change of it. The sender waits for the pauses.

use std::time::Duration;

use serde_json::Value;

use bosun_adapters::model::scripted::{WireFailure, WireFaults};

/// What to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub parts: Vec<Part>,
    pub end: End,
}

/// A piece of the body, and how long to wait before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub after: Duration,
    pub bytes: Vec<u8>,
}

/// What comes after the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Clean,
    /// The connection is cut.
    Cut,
    /// Nothing, forever.
    Silence,
}

impl Answer {
    /// An event stream that is sent at once.
    #[must_use]
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::of(200, "text/event-stream", vec![Part { after: Duration::ZERO, bytes: body.into() }])
    }

    /// An event stream in pieces.
    #[must_use]
    pub fn events(parts: Vec<Part>) -> Self {
        Self::of(200, "text/event-stream", parts)
    }

    #[must_use]
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::of(status, "application/json", vec![Part { after: Duration::ZERO, bytes: body.into() }])
    }

    fn of(status: u16, content_type: &str, parts: Vec<Part>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { status, headers, parts, end: End::Clean }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.parts.iter_mut().take(1).for_each(|part| part.after = pause);
        self
    }

    #[must_use]
    pub fn then(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// The whole body.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        self.parts.iter().flat_map(|part| part.bytes.iter().copied()).collect()
    }

    /// Lets the answer go wrong on its way.
    #[must_use]
    pub(super) fn with(mut self, faults: &WireFaults) -> Self {
        let last = self.parts.len().saturating_sub(1);
        if let Some(number) = faults.garbage
            && let Some(part) = self.parts.get_mut(number.min(last))
        {
            let text = String::from_utf8_lossy(&part.bytes);
            // An event keeps its name: a client that goes by names must not overlook it.
            let garbled = match text.split_once("data: ") {
                Some((name, _)) if text.ends_with("\n\n") => format!("{name}data: {{this is not JSON\n\n"),
                _ => "{this is not JSON".to_owned(),
            };
            part.bytes = garbled.into_bytes();
        }
        if let Some(at) = faults.cut_at {
            self = self.truncated(at).then(End::Cut);
        } else if let Some(at) = faults.silent_at {
            self = self.truncated(at).then(End::Silence);
        }
        if let Some(pause) = faults.drip {
            let bytes = self.parts.iter().flat_map(|part| {
                let first = std::iter::once(part.after.max(pause)).chain(std::iter::repeat(pause));
                part.bytes.iter().zip(first).map(|(byte, after)| Part { after, bytes: vec![*byte] })
            });
            self.parts = bytes.collect();
        }
        self
    }

    /// Only the first bytes of the body.
    fn truncated(mut self, mut length: usize) -> Self {
        for part in &mut self.parts {
            part.bytes.truncate(length);
            length -= part.bytes.len();
        }
        self.parts.retain(|part| !part.bytes.is_empty());
        self
    }

    /// An error of an API; `body` is in its own format.
    pub(super) fn failure(failure: &WireFailure, body: &Value) -> Self {
        let answer = Self::json(failure.status, body.to_string());
        match failure.retry_after {
            // Whole seconds in HTTP's own header; a shorter wait in OpenAI's.
            Some(wait) if wait.subsec_millis() == 0 => answer.header("retry-after", wait.as_secs().to_string()),
            Some(wait) => answer.header("retry-after-ms", wait.as_millis().to_string()),
            None => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let part = |text: &str| Part { after: Duration::from_millis(5), bytes: text.into() };
        Answer::events(vec![part("data: 1\n\n"), part("data: 2\n\n")])
    }

    #[test]
    fn a_body_is_cut_or_falls_silent_at_a_byte() {
        for length in 0..=18 {
            let cut = answer().with(&WireFaults { cut_at: Some(length), ..WireFaults::default() });
            assert_eq!((cut.body(), cut.end), (answer().body()[..length].to_vec(), End::Cut));
            let silent = answer().with(&WireFaults { silent_at: Some(length), ..WireFaults::default() });
            assert_eq!((silent.body(), silent.end), (answer().body()[..length].to_vec(), End::Silence));
        }
    }

    #[test]
    fn bytes_drip_and_the_pauses_before_them_are_kept() {
        let drip = answer().with(&WireFaults { drip: Some(Duration::from_millis(1)), ..WireFaults::default() });
        assert_eq!(drip.body(), answer().body());
        let waits: Vec<_> = drip.parts.iter().map(|part| part.after.as_millis()).collect();
        assert_eq!(waits, [5, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn garbage_takes_the_place_of_one_event() {
        let body = answer().with(&WireFaults { garbage: Some(1), ..WireFaults::default() }).body();
        assert_eq!(body, b"data: 1\n\ndata: {this is not JSON\n\n");
        let named =
            Answer::sse("event: ping\ndata: {}\n\n").with(&WireFaults { garbage: Some(0), ..WireFaults::default() });
        assert_eq!(named.body(), b"event: ping\ndata: {this is not JSON\n\n");
        let plain = Answer::json(200, "{}").with(&WireFaults { garbage: Some(7), ..WireFaults::default() });
        assert_eq!(plain.body(), b"{this is not JSON");
    }
}
