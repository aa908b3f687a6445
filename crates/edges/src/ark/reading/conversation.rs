//! The conversation that a query joins: `memory`, `sessionId`, `conversationId` and `conversationPolicy`.

use bosun_core::Namespace;
use bosun_engine::AskedConversation;
use serde_json::{Value, json};

use super::reference;
use crate::http::{error::clip, report::BodyFields};

/// How long the name of a conversation may be, in bytes.
const LONGEST_ID: usize = bosun_core::ceiling::CONVERSATION_ID_BYTES;

/// The id of a conversation, described.
pub(crate) fn id_schema() -> Value {
    json!({"type": "string", "maxLength": LONGEST_ID})
}

/// What a query says about its conversation, and the session that it groups itself under.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    pub(crate) session_id: Option<String>,
    pub(crate) conversation: AskedConversation,
}

/// Reads `memory`, `sessionId`, `conversationId` and `conversationPolicy`.
pub(crate) fn join(fields: &BodyFields<'_>, namespace: &Namespace) -> Joined {
    let memory = reference::read("memories", fields, "memory", namespace);
    let session = read_id(fields, "sessionId");
    let conversation = read_id(fields, "conversationId");
    let alone = match fields.text("conversationPolicy").as_deref() {
        None | Some("allow") => false,
        Some("reject") => true,
        Some(other) => {
            let message = format!("must be `allow` or `reject`, not `{}`", clip(other));
            fields.reject("conversationPolicy", "unknown_policy", message);
            false
        }
    };
    Joined {
        session_id: session.clone().or_else(|| conversation.clone()),
        conversation: AskedConversation { memory, id: conversation.or(session), alone },
    }
}

fn read_id(fields: &BodyFields<'_>, name: &str) -> Option<String> {
    let id = fields.text(name).filter(|id| !id.is_empty())?;
    if id.len() > LONGEST_ID || id.chars().any(char::is_control) {
        let message = format!("must have at most {LONGEST_ID} bytes and no control characters");
        fields.reject(name, "invalid_id", message);
        return None;
    }
    Some(id)
}
