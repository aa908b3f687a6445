//! The artifacts of a task: the files that its tools have made, in the order of their calls, and the agent's answer.
//!
//! A tool that answers with content blocks (an image, a recording, an embedded resource, a link to one) has made
//! files, and clients get them as parts of one artifact for each call. What a tool marks as meant for the model alone
//! is not shown, and text is not a file. Nothing is fetched, and nothing is decoded: the blocks have base64, as A2A does.

use std::borrow::Cow;

use bosun_core::{
    Entry, Event, Head, Transcript,
    content::{Blocks, Content, standard_base64},
    transcript::Call,
};
use serde_json::{Value, json};

use super::wire::{Artifact, MessagePart, PartContent};

/// All artifacts of a task.
pub(super) fn artifacts(head: &Head, transcript: &Transcript) -> Vec<Artifact> {
    let calls = transcript.turns.iter().flat_map(|turn| &turn.calls);
    let answered = transcript.response().map(|text| answer(head, transcript, text));
    calls.filter_map(of_call).chain(answered).collect()
}

/// The artifact of the agent's answer, also while it is still being written. Where the agent has an
/// `outputSchema`, the answer is data, and the text that it was read from follows.
pub(super) fn answer(head: &Head, transcript: &Transcript, text: &str) -> Artifact {
    let data = transcript.output().map(MessagePart::data);
    of_answer(head, data.into_iter().chain([MessagePart::text(text)]).collect())
}

/// The artifact of the answer, with these parts of it.
pub(super) fn of_answer(head: &Head, parts: Vec<MessagePart>) -> Artifact {
    Artifact { artifact_id: format!("{}-answer", head.uid), name: Some("answer".to_owned()), parts }
}

/// The files of the call whose result an entry is, once the transcript has the entry.
pub(super) fn of_entry(entry: &Entry, transcript: &Transcript) -> Option<Artifact> {
    let call = match &entry.event {
        Event::CallFinished { call, .. } | Event::CallResolved { call, .. } => *call,
        // A result of the cache is in the entry that asks for it.
        Event::CallAsked(asked) => asked.call,
        _ => return None,
    };
    of_call(transcript.call(call)?)
}

fn of_call(call: &Call) -> Option<Artifact> {
    let outcome = &call.result.as_ref()?.outcome;
    let Content::Blocks(blocks) = outcome.content().filter(|_| outcome.is_success())? else { return None };
    let parts = files(blocks);
    let (artifact_id, name) = (call.asked.call.to_string(), Some(call.asked.tool.to_string()));
    (!parts.is_empty()).then_some(Artifact { artifact_id, name, parts })
}

/// The blocks that are files.
fn files(blocks: &Blocks) -> Vec<MessagePart> {
    blocks.content().iter().filter(|block| !is_for_model_alone(block)).filter_map(file).collect()
}

/// Whether the tool marks a block as not meant for the user.
fn is_for_model_alone(block: &Value) -> bool {
    block["annotations"]["audience"].as_array().is_some_and(|audience| audience[..] == [json!("assistant")])
}

fn file(block: &Value) -> Option<MessagePart> {
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    let of = |content, filename, media_type| Some(MessagePart { content, filename, media_type });
    match block.get("type")?.as_str()? {
        "image" | "audio" => of(PartContent::Raw(base64(block, "data")?), None, text(block, "mimeType")),
        "resource_link" => {
            // Links of other schemes have a meaning for the tool's server only.
            let uri = text(block, "uri").filter(|uri| uri.starts_with("https://") || uri.starts_with("http://"))?;
            let name = text(block, "name").or_else(|| last_segment(&uri));
            of(PartContent::Url(uri), name, text(block, "mimeType"))
        }
        "resource" => {
            let resource = block.get("resource")?;
            let content = match text(resource, "text") {
                Some(text) => PartContent::Text(text),
                None => PartContent::Raw(base64(resource, "blob")?),
            };
            let name = last_segment(&text(resource, "uri")?);
            of(content, name, text(resource, "mimeType"))
        }
        _ => None,
    }
}

fn base64(of: &Value, name: &str) -> Option<String> {
    standard_base64(of.get(name)?.as_str()?).map(Cow::into_owned)
}

/// The name of a file, by the last segment of its URI.
fn last_segment(uri: &str) -> Option<String> {
    let path = uri.split(['?', '#']).next()?;
    let (_, name) = path.rsplit_once('/')?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(block: Value, expect: Value) {
        let blocks = Blocks::new(vec![block], None);
        assert_eq!(json!(files(&blocks)), expect);
    }

    #[test]
    fn every_block_that_is_a_file_is_a_part() {
        check(
            json!({"type": "image", "data": "AAAA\nAAA=", "mimeType": "image/png"}),
            json!([{"raw": "AAAAAAA=", "mediaType": "image/png"}]),
        );
        check(json!({"type": "audio", "data": "AAAA"}), json!([{"raw": "AAAA"}]));
        check(
            json!({"type": "resource_link", "name": "a.txt", "uri": "https://h/x", "mimeType": "text/plain"}),
            json!([{"url": "https://h/x", "filename": "a.txt", "mediaType": "text/plain"}]),
        );
        check(
            json!({"type": "resource", "resource": {"uri": "file:///out/a.pdf?v=1", "mimeType": "application/pdf", "blob": "AAAA"}}),
            json!([{"raw": "AAAA", "filename": "a.pdf", "mediaType": "application/pdf"}]),
        );
        check(
            json!({"type": "resource", "resource": {"uri": "file:///a.csv", "mimeType": "text/csv", "text": "a,b"}}),
            json!([{"text": "a,b", "filename": "a.csv", "mediaType": "text/csv"}]),
        );
    }

    #[test]
    fn blocks_that_are_no_file_for_the_user_are_left_out() {
        for block in [
            json!({"type": "text", "text": "t"}),
            json!({"type": "image", "data": "not base64!"}),
            json!({"type": "image"}),
            json!({"type": "resource_link", "name": "log", "uri": "file:///log"}),
            json!({"type": "resource", "resource": {"uri": "x:1"}}),
            json!({"type": "image", "data": "AAAA", "annotations": {"audience": ["assistant"]}}),
            json!({"type": "hologram", "data": "AAAA"}),
            json!(null),
        ] {
            check(block, json!([]));
        }
        let both = json!({"type": "image", "data": "AAAA", "annotations": {"audience": ["user", "assistant"]}});
        check(both, json!([{"raw": "AAAA"}]));
    }
}
