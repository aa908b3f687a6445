//! Server-sent events, decoded as they arrive.
//!
//! Bytes go in as the network cuts them; whole events come out. A line ends with CR, LF or CRLF, and
//! UTF-8 is checked a line at a time, so a character may be cut anywhere. What is not followed by an
//! empty line is not an event: a client that reads by ids resumes after the last one that it has
//! seen. `retry` is ignored, since readers have their own back-off.

use std::fmt;

/// One event as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Where to resume; an event without one cannot be resumed at.
    pub id: Option<String>,
    pub name: String,
    pub data: String,
}

/// Why a stream is not one of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseError {
    /// A line, or the data of one event, has more bytes than this.
    TooLong(usize),
    NotUtf8,
}

impl fmt::Display for SseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(longest) => write!(formatter, "a line of the event stream is longer than {longest} bytes"),
            Self::NotUtf8 => formatter.write_str("the event stream is not UTF-8"),
        }
    }
}

impl std::error::Error for SseError {}

/// Decodes events whose lines and data have at most `LONGEST` bytes.
#[derive(Debug, Default)]
pub struct Decoder<const LONGEST: usize> {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A byte order mark is allowed before the first line only.
    begun: bool,
}

impl<const LONGEST: usize> Decoder<LONGEST> {
    /// Takes the next bytes and passes every event that they complete to `on_event`.
    ///
    /// # Errors
    /// If the stream is not an event stream, or if `on_event` fails; the decoder cannot be used after that.
    pub fn feed<E: From<SseError>>(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > LONGEST {
                return Err(SseError::TooLong(LONGEST).into());
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    on_event(&self.event)?;
                }
                // The buffers are kept for the next event.
                self.event.id = None;
                self.event.name.clear();
                self.event.data.clear();
            } else {
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// Whether everything that arrived belongs to whole events.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.line.is_empty() && !self.has_data
    }

    fn end_line(&mut self) -> Result<(), SseError> {
        let mut line = str::from_utf8(&self.line).map_err(|_| SseError::NotUtf8)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        // A comment has an empty field name.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if self.event.data.len() + value.len() >= LONGEST {
                    return Err(SseError::TooLong(LONGEST));
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: usize = 1024;

    fn decode(parts: &[&[u8]]) -> Result<(Vec<Event>, bool), SseError> {
        let mut decoder = Decoder::<LONGEST>::default();
        let mut events = Vec::new();
        for part in parts {
            decoder.feed(part, |event| {
                events.push(event.clone());
                Ok::<_, SseError>(())
            })?;
        }
        Ok((events, decoder.is_between_events()))
    }

    /// The events, each with its id, name and data, are the same however the bytes are cut.
    #[track_caller]
    fn check_events(stream: &str, expect: &[(Option<&str>, &str, &str)], between_events: bool) {
        let event = |(id, name, data): &(Option<&str>, &str, &str)| Event {
            id: id.map(str::to_owned),
            name: (*name).to_owned(),
            data: (*data).to_owned(),
        };
        let expect = Ok((expect.iter().map(event).collect(), between_events));
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]), expect, "cut at {cut}");
        }
        for size in 1..=bytes.len() {
            assert_eq!(decode(&bytes.chunks(size).collect::<Vec<_>>()), expect, "in pieces of {size}");
        }
    }

    #[track_caller]
    fn check(stream: &str, expect: &[&str], between_events: bool) {
        let events: Vec<_> = expect.iter().map(|data| (None, "", *data)).collect();
        check_events(stream, &events, between_events);
    }

    #[test]
    fn an_event_has_its_name_and_id() {
        check_events("id: q.1\nevent: complete\ndata: {}\n\n", &[(Some("q.1"), "complete", "{}")], true);
        check_events("event: a\ndata: 1\n\ndata: 2\n\n", &[(None, "a", "1"), (None, "", "2")], true);
        check_events("data: 1\n\nid: 2\nevent: complete\ndata: 2\n", &[(None, "", "1")], false);
        check_events("id: 1\nevent: x\n\ndata: a\n\n", &[(None, "", "a")], true);
    }

    #[test]
    fn an_event_ends_with_an_empty_line() {
        check("data: a\n\ndata: b\n\n", &["a", "b"], true);
        check("data: a\n\ndata: b\n", &["a"], false);
        check("data: a\n\ndata: b", &["a"], false);
        check("data: a\n\nda", &["a"], false);
        check("", &[], true);
    }

    #[test]
    fn every_line_ending_works() {
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"], true);
        check("data: a\r\rdata: b\r\r", &["a", "b"], true);
        check("data: a\n\r\ndata: b\r\n\n", &["a", "b"], true);
    }

    #[test]
    fn data_of_several_lines_is_one_event() {
        check("data: a\ndata: b\ndata:\ndata:  c\n\n", &["a\nb\n\n c"], true);
        check("data\n\n", &[""], true);
    }

    #[test]
    fn comments_and_other_fields_are_ignored() {
        check(": keep-alive\n\n:\n\nretry: 5\ndata: a\nunknown: y\n\n\n\n", &["a"], true);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"], true);
        check("event: x\n\ndata: a\n\n", &["a"], true);
    }

    #[test]
    fn characters_may_be_cut_anywhere() {
        check("data: grün 🌊 日本\n\n", &["grün 🌊 日本"], true);
    }

    #[test]
    fn what_is_not_text_or_too_long_is_refused() {
        assert_eq!(decode(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
        let long = vec![b'x'; LONGEST];
        assert_eq!(decode(&[&long, b"x"]), Err(SseError::TooLong(LONGEST)));
        let mut many = b"data: ".to_vec();
        many.extend_from_slice(&long[..LONGEST / 2]);
        many.push(b'\n');
        assert_eq!(decode(&[&many, &many, &many]), Err(SseError::TooLong(LONGEST)));
    }
}
