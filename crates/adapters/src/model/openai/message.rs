//! The messages of a conversation in the wire format.

use std::borrow::Cow;

use bosun_core::{message, transcript};
use bosun_wire::chat::Message;

use super::WIRE;
use crate::model::provider_fields;

/// With `echo`, the API gets its provider-specific fields back.
pub(super) fn of(message: &transcript::Message, echo: bool) -> Message<'_> {
    let mut sent = message::to_chat(message);
    match (message, &mut sent) {
        (transcript::Message::Assistant { provider, .. }, Message::Assistant { tool_calls, own, .. }) if echo => {
            let fields = provider_fields::of_wire(WIRE, provider.as_ref());
            *own = fields.and_then(|fields| fields.get("message")?.as_object()).map(Cow::Borrowed);
            for (index, call) in tool_calls.iter_mut().enumerate() {
                call.own = fields.and_then(|fields| fields.get("calls")?.get(index)?.as_object()).map(Cow::Borrowed);
            }
        }
        // The call has the name already, and not every server accepts it here.
        (_, Message::Tool { name, .. }) => *name = None,
        _ => {}
    }
    sent
}
