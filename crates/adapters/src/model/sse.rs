//! Server-sent events, read as they arrive.
//!
//! Bytes go in as the network cuts them; whole events come out. A line ends with CR, LF or CRLF, and
//! UTF-8 is checked a line at a time, so a character may be cut anywhere. What is not ended by an
//! empty line is not an event and is never given out. Names, ids and retry times are not kept: a
//! model's answer is one kind of event and is not resumed.

/// The longest line, and the longest data of one event.
pub(crate) const LONGEST: usize = 1024 * 1024;

/// Why a stream is not one of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("a line of the event stream is longer than {LONGEST} bytes")]
    TooLong,
    #[error("the event stream is not UTF-8")]
    NotUtf8,
}

/// Turns bytes into the `data` of events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    data: String,
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A byte order mark may stand before the first line only.
    begun: bool,
}

impl Decoder {
    /// Takes the next bytes and gives the data of every event that they end to `on_event`.
    ///
    /// # Errors
    /// If the stream is no event stream, or if `on_event` fails; the decoder is of no use then.
    pub(crate) fn feed<E: From<SseError>>(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > LONGEST {
                return Err(SseError::TooLong.into());
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if self.end_line()? {
                on_event(&self.data)?;
                self.data.clear();
            }
        }
        Ok(())
    }

    /// Whether everything that arrived belongs to whole events.
    pub(crate) fn is_between_events(&self) -> bool {
        self.line.is_empty() && !self.has_data
    }

    /// Reads the line that has just ended; true if it ends an event that has data.
    fn end_line(&mut self) -> Result<bool, SseError> {
        let mut line = str::from_utf8(&self.line).map_err(|_| SseError::NotUtf8)?;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        let ends_event = line.is_empty() && std::mem::take(&mut self.has_data);
        // A comment has an empty field name.
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            if self.data.len() + value.len() >= LONGEST {
                return Err(SseError::TooLong);
            }
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push('\n');
            }
            self.data.push_str(value);
        }
        self.line.clear();
        Ok(ends_event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(parts: &[&[u8]]) -> Result<(Vec<String>, bool), SseError> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for part in parts {
            decoder.feed(part, |data| {
                events.push(data.to_owned());
                Ok::<_, SseError>(())
            })?;
        }
        Ok((events, decoder.is_between_events()))
    }

    /// The events are the same however the bytes are cut.
    #[track_caller]
    fn check(stream: &str, expect: &[&str], between_events: bool) {
        let expect = Ok((expect.iter().map(ToString::to_string).collect(), between_events));
        let bytes = stream.as_bytes();
        assert_eq!(decode(&[bytes]), expect);
        for cut in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]), expect, "cut at {cut}");
        }
        assert_eq!(decode(&bytes.chunks(1).collect::<Vec<_>>()), expect);
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
    fn comments_and_other_fields_are_passed_over() {
        check(": keep-alive\n\n:\n\nevent: x\nid: 1\nretry: 5\ndata: a\nunknown: y\n\n\n\n", &["a"], true);
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
        assert_eq!(decode(&[&long, b"x"]), Err(SseError::TooLong));
        let mut many = b"data: ".to_vec();
        many.extend_from_slice(&long[..LONGEST / 2]);
        many.push(b'\n');
        assert_eq!(decode(&[&many, &many, &many]), Err(SseError::TooLong));
    }
}
