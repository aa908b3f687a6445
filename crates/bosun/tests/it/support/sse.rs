//! Server-sent events, read byte by byte, so that a stream can be cut anywhere.

/// One event as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl SseEvent {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("data of {self:?} is not JSON: {error}"))
    }
}

/// Turns bytes into events; what is not ended by an empty line is none.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    event: SseEvent,
}

impl Decoder {
    pub(crate) fn feed(&mut self, byte: u8) -> Option<SseEvent> {
        if byte != b'\n' {
            self.line.push(byte);
            return None;
        }
        let line = String::from_utf8(std::mem::take(&mut self.line)).expect("events are UTF-8");
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, which have no name, and `retry`.
            _ => {}
        }
        None
    }
}
