//! Server-sent events with their names and ids, read as they arrive.
//!
//! Bytes go in as the network cuts them; whole events come out. What is not ended by an empty line
//! is not an event: a connection that breaks in the middle of one loses nothing, since the reader
//! comes back with the last id that it has seen. `retry` is passed over: the reader has its own pace.

/// The longest line, and the longest data of one event. The server's own limit is below it.
const LONGEST: usize = 4 * 1024 * 1024;

/// One event as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Where to resume; text that is still being written has none.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Why a stream is not one of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("an event is longer than {LONGEST} bytes")]
    TooLong,
    #[error("the stream of events is not UTF-8")]
    NotUtf8,
}

/// Turns bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
}

impl Decoder {
    /// Takes the next bytes and gives back the events that they end.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' if std::mem::take(&mut self.after_cr) => {}
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    events.extend(self.end_line()?);
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                    if self.line.len() > LONGEST {
                        return Err(SseError::TooLong);
                    }
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<Event>, SseError> {
        let line = std::mem::take(&mut self.line);
        let line = str::from_utf8(&line).map_err(|_| SseError::NotUtf8)?;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        // A comment has an empty field name.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                if self.event.data.len() > LONGEST {
                    return Err(SseError::TooLong);
                }
            }
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, SseError> {
        let mut decoder = Decoder::default();
        parts.into_iter().try_fold(Vec::new(), |mut events, part| {
            events.extend(decoder.feed(part)?);
            Ok(events)
        })
    }

    /// The events are the same however the bytes are cut.
    #[track_caller]
    fn check(stream: &str, expect: &[(Option<&str>, &str, &str)]) {
        let event = |(id, name, data): &(Option<&str>, &str, &str)| Event {
            id: id.map(str::to_owned),
            name: (*name).to_owned(),
            data: (*data).to_owned(),
        };
        let expect: Vec<_> = expect.iter().map(event).collect();
        for size in 1..=stream.len() {
            assert_eq!(decode(stream.as_bytes().chunks(size)).as_deref(), Ok(&*expect), "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_has_its_name_and_id() {
        check("id: q.1\nevent: complete\ndata: {}\n\n", &[(Some("q.1"), "complete", "{}")]);
        check("event: a\ndata: 1\n\ndata: 2\n\n", &[(None, "a", "1"), (None, "", "2")]);
    }

    #[test]
    fn every_line_ending_works() {
        check(
            "event: a\r\ndata: 1\r\n\r\ndata: 2\r\rdata: 3\n\n",
            &[(None, "a", "1"), (None, "", "2"), (None, "", "3")],
        );
    }

    #[test]
    fn comments_and_unknown_fields_are_passed_over() {
        check(": heartbeat\n\nretry: 1000\n\nx: y\ndata:1\n\n", &[(None, "", "1")]);
    }

    #[test]
    fn data_of_several_lines_is_one_event() {
        check("data: grün\ndata: 🌊\n\n", &[(None, "", "grün\n🌊")]);
    }

    #[test]
    fn what_has_not_ended_is_not_an_event() {
        check("data: 1\n\nid: 2\nevent: complete\ndata: 2\n", &[(None, "", "1")]);
    }

    #[test]
    fn what_is_not_text_or_endless_is_refused() {
        assert_eq!(decode([b"data: \xff\n".as_slice()]), Err(SseError::NotUtf8));
        let endless = vec![b'x'; LONGEST + 1];
        assert_eq!(decode([endless.as_slice()]), Err(SseError::TooLong));
    }
}
