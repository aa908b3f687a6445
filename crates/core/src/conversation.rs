//! Conversations: the history that several queries share.
//!
//! A query that completes appends its messages to its conversation; a later query of the same conversation gets the
//! last of them. A [`History`] is frozen by value when a query is accepted: messages that are added or deleted later do
//! not reach it. It is cut between queries and never within one, so no call loses its result.

use serde::{Deserialize, Serialize};

use crate::{ContentHash, message, transcript::Message};

/// The key of a conversation: a memory holds many.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConversationKey {
    /// The name of the memory.
    pub memory: String,
    /// The id that clients chose for the conversation.
    pub id: String,
}

/// The conversation of one query, as it was frozen at submit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    #[serde(flatten)]
    pub key: ConversationKey,
    /// The document with the history; absent at the beginning of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<ContentHash>,
}

/// The messages before a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    #[serde(with = "message::openai")]
    pub messages: Vec<Message>,
}

impl History {
    /// The stored form. Its hash is that of the text.
    ///
    /// # Errors
    /// Only if a message holds what JSON cannot, which none does.
    pub fn to_document(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads what [`History::to_document`] wrote.
    ///
    /// # Errors
    /// If the text is damaged.
    pub fn from_document(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// An estimate of a message's tokens. There is no tokenizer here: four bytes of text count as one token, rounded up,
/// plus four tokens for the frame of each message. For English text this is a little too much, for other scripts too
/// little.
#[must_use]
pub fn estimate_tokens(message: &Message) -> u64 {
    const FRAME: u64 = 4;
    let bytes = match message {
        Message::System(text) | Message::User(text) => text.len(),
        Message::Assistant { text, calls, .. } => {
            let calls: usize = calls.iter().map(|call| call.alias.len() + call.arguments.len()).sum();
            calls + text.as_ref().map_or(0, String::len)
        }
        Message::Tool { content, .. } => content.len(),
    };
    FRAME + (bytes as u64).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::MessageCall;

    #[track_caller]
    fn check(message: &Message, tokens: u64) {
        assert_eq!(estimate_tokens(message), tokens);
    }

    #[test]
    fn four_bytes_are_a_token_and_every_message_has_a_frame() {
        check(&Message::User(String::new()), 4);
        check(&Message::User("abcde".into()), 6);
        check(&Message::System("ü".repeat(4)), 6);
        check(
            &Message::Tool {
                provider_id: "1".into(),
                alias: "t".into(),
                content: "12345678".into(),
                images: Default::default(),
                is_error: false,
            },
            6,
        );
        let call = MessageCall { provider_id: "1".into(), alias: "look".into(), arguments: "{}".into() };
        check(&Message::Assistant { text: Some("ab".into()), calls: vec![call], provider: None }, 6);
    }

    #[test]
    fn a_history_comes_back_as_it_was() {
        let history = History {
            messages: vec![
                Message::User("Where is it?".into()),
                Message::Assistant {
                    text: None,
                    calls: vec![MessageCall { provider_id: "c".into(), alias: "look".into(), arguments: "{ }".into() }],
                    provider: Some(std::sync::Arc::new(serde_json::json!({"anthropic": {"content": [1]}}))),
                },
                Message::Tool {
                    provider_id: "c".into(),
                    alias: "look".into(),
                    content: "here".into(),
                    images: Default::default(),
                    is_error: true,
                },
                Message::Assistant { text: Some("There.".into()), calls: Vec::new(), provider: None },
            ],
        };
        let text = history.to_document().unwrap();
        assert_eq!(History::from_document(&text).unwrap(), history);
    }
}
