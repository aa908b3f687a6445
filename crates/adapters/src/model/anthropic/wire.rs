//! The wire format of the messages API.
//!
//! Unknown types of events and blocks are not errors: the API announces that there will be new ones. Fields that are
//! listed here must have the types that they have here. The names are Anthropic's.

use bosun_core::query::Usage as Tokens;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One event of a stream.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: usize,
        content_block: Map<String, Value>,
    },
    ContentBlockDelta {
        index: usize,
        delta: Map<String, Value>,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: End,
        usage: Option<Usage>,
    },
    MessageStop,
    Ping,
    Error {
        error: ErrorBody,
    },
    #[serde(other)]
    Unknown,
}

/// The data at the start of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Start {
    pub(super) role: Option<String>,
    pub(super) usage: Option<Usage>,
}

/// The data at its end.
#[derive(Debug, Deserialize)]
pub(super) struct End {
    pub(super) stop_reason: Option<String>,
}

/// A non-streamed answer.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) role: Option<String>,
    pub(super) content: Option<Vec<Map<String, Value>>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<ErrorBody>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) message: String,
}

/// Each count is cumulative; a missing one has not changed.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Usage {
    pub(super) fn update(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let (cached, written) = (usage.cache_read_input_tokens, usage.cache_creation_input_tokens);
        let (cached, written) = (cached.unwrap_or_default(), written.unwrap_or_default());
        Self {
            // `input_tokens` excludes tokens that were read from or written to the cache.
            prompt_tokens: usage.input_tokens.unwrap_or_default().saturating_add(cached).saturating_add(written),
            completion_tokens: usage.output_tokens.unwrap_or_default(),
            cached_tokens: cached,
            cache_write_tokens: written,
        }
    }
}
