//! Strict assembly of a streamed answer.
//!
//! An answer is complete only after `finish_reason`, the end mark `[DONE]` and the end of the body, in this order;
//! otherwise everything that had arrived is discarded. A call is the concatenation of the fragments with its `index`:
//! the first one must have id and name, and no later one may change them. Gemini's endpoint sends no `index` and each
//! call as a whole, which is accepted as such and must be complete. Inconsistent input is refused, never repaired: a
//! guessed argument would be executed.

use std::sync::Arc;

use bosun_core::query::Usage;
use bosun_engine::model::{Deltas, ModelCall, ModelError, ModelReply, ReplySize};
use bosun_wire::chat::{self, CallFragment, Choice, Chunk, Delta};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::WIRE;
use crate::model::{
    provider_fields,
    remote::{AssembleReply, Failure, RemoteAnswer, error_message, malformed, unreadable},
};

/// Fields of an answer that OpenAI defines and does not accept back in a conversation.
const ONLY_IN_ANSWERS: &[&str] = &["annotations", "audio"];

/// The mark after the last event of a complete answer.
const END_MARK: &str = "[DONE]";

fn tokens(usage: chat::Usage) -> Usage {
    Usage {
        prompt_tokens: usage.prompt_tokens.unwrap_or_default(),
        completion_tokens: usage.completion_tokens.unwrap_or_default(),
        cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or_default(),
        cache_write_tokens: 0,
    }
}

/// Reads a non-streamed answer, which is one chunk with a `message` as its delta.
///
/// # Errors
/// If it is not complete, or not an answer.
pub(super) fn plain(body: &[u8], deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
    let chunk = serde_json::from_slice(body).map_err(|error| unreadable("completion", &error))?;
    let message = |choice: Choice| {
        let mut message = choice.message?;
        for (position, call) in message.tool_calls.iter_mut().flatten().enumerate() {
            call.index = u32::try_from(position).ok();
        }
        Some(message)
    };
    let mut assembly = ChatAssembly { end_mark_seen: true, ..ChatAssembly::default() };
    assembly.chunk(chunk, message, deltas)?;
    assembly.reply()
}

/// An answer in progress.
#[derive(Debug, Default)]
pub(super) struct ChatAssembly {
    text: String,
    refusal: String,
    calls: Vec<PartialCall>,
    usage: Usage,
    /// Provider-specific fields.
    own: Map<String, Value>,
    size: ReplySize,
    finish: Option<Finish>,
    end_mark_seen: bool,
}

#[derive(Debug)]
struct PartialCall {
    id: String,
    name: String,
    /// `None` until a fragment has arguments, even empty ones.
    arguments: Option<String>,
    /// It came without an `index`, so no further fragment may follow.
    is_whole: bool,
    own: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
}

impl AssembleReply for ChatAssembly {
    fn event(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure> {
        if self.end_mark_seen {
            return Err(malformed("something follows the end mark of the stream").into());
        }
        if data == END_MARK {
            self.end_mark_seen = true;
            return Ok(());
        }
        let chunk =
            serde_json::from_str(data).map_err(|error| malformed(format!("an event is not a chunk: {error}")))?;
        Ok(self.chunk(chunk, |choice| choice.delta, deltas)?)
    }

    fn end(self) -> Result<RemoteAnswer, Failure> {
        Ok(RemoteAnswer::Whole(self.reply()?))
    }
}

impl ChatAssembly {
    fn chunk(
        &mut self,
        chunk: Chunk,
        part: impl Fn(Choice) -> Option<Delta>,
        deltas: &dyn Deltas,
    ) -> Result<(), ModelError> {
        if let Some(error) = &chunk.error {
            let message = error_message(error).unwrap_or("no reason given");
            return Err(ModelError::Incomplete(format!("the model API reported an error in its answer: {message}")));
        }
        if let Some(usage) = chunk.usage {
            self.usage = tokens(usage);
        }
        let Some(choices) = chunk.choices else { return Err(malformed("a chunk has no `choices`")) };
        if choices.len() > 1 {
            return Err(malformed("a chunk has several choices, and one was asked for"));
        }
        // The chunk with the usage has no choices.
        let Some(mut choice) = choices.into_iter().next() else { return Ok(()) };
        if choice.index != 0 {
            return Err(malformed(format!("choice {} was not asked for", choice.index)));
        }
        let finish = choice.finish_reason.take().map(|reason| Finish::read(&reason)).transpose()?;
        match part(choice) {
            Some(delta) => self.delta(delta, deltas)?,
            None if finish.is_some() => {}
            None => return Err(malformed("a choice has no content")),
        }
        match (self.finish, finish) {
            (Some(earlier), Some(later)) if earlier != later => {
                Err(malformed("`finish_reason` changes within the answer"))
            }
            (None, Some(_)) => {
                self.finish = finish;
                Ok(())
            }
            (_, None) | (Some(_), Some(_)) => Ok(()),
        }
    }

    fn delta(&mut self, delta: Delta, deltas: &dyn Deltas) -> Result<(), ModelError> {
        let Delta { role, content, refusal, tool_calls, function_call, own } = delta;
        if let Some(role) = role.filter(|role| !role.is_empty() && role != "assistant") {
            return Err(malformed(format!("the answer comes from `{role}`, not from the assistant")));
        }
        if function_call.is_some() {
            return Err(malformed("the answer uses `function_call`, which has no call ids; use `tool_calls`"));
        }
        let content = content.filter(|content| !content.is_empty());
        let refusal = refusal.filter(|refusal| !refusal.is_empty());
        let tool_calls = tool_calls.unwrap_or_default();
        if self.finish.is_some() && (content.is_some() || refusal.is_some() || !tool_calls.is_empty()) {
            return Err(malformed("content follows `finish_reason`"));
        }
        if let Some(content) = content {
            self.size.add_text(&content)?;
            deltas.push(&content);
            self.text.push_str(&content);
        }
        let refusal = refusal.unwrap_or_default();
        self.size.add(refusal.len() + provider_fields::size(&own))?;
        self.refusal.push_str(&refusal);
        provider_fields::merge_members(&mut self.own, own);
        tool_calls.into_iter().try_for_each(|fragment| self.fragment(fragment))
    }

    fn fragment(&mut self, fragment: CallFragment) -> Result<(), ModelError> {
        let index = match fragment.index {
            Some(index) => index,
            None if is_whole(&fragment) => u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
            None => return Err(malformed("a fragment of a tool call has no `index`")),
        };
        let came_whole = fragment.index.is_none();
        if let Some(kind) = fragment.kind.filter(|kind| !kind.is_empty() && kind != "function") {
            return Err(malformed(format!("tool call {index} is of type `{kind}`, not `function`")));
        }
        let (name, arguments) = fragment.function.map_or((None, None), |function| (function.name, function.arguments));
        // Some servers repeat an empty id and name in every later fragment.
        let id = fragment.id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        self.size.add(arguments.as_ref().map_or(0, String::len) + provider_fields::size(&fragment.own))?;
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        if position > self.calls.len() {
            return Err(malformed(format!("tool call {index} begins before tool call {}", self.calls.len())));
        }
        if position == self.calls.len() {
            let Some(id) = id else { return Err(malformed(format!("tool call {index} begins without an `id`"))) };
            let Some(name) = name else { return Err(malformed(format!("tool call {index} begins without a name"))) };
            self.size.add_call(&id, &name)?;
            if self.calls.iter().any(|call| call.id == id) {
                return Err(malformed(format!("two tool calls have the id `{id}`")));
            }
            let mut call = PartialCall { id, name, arguments, is_whole: came_whole, own: Map::new() };
            provider_fields::merge_members(&mut call.own, fragment.own);
            self.calls.push(call);
            return Ok(());
        }
        let call = &mut self.calls[position];
        if call.is_whole {
            return Err(malformed(format!("tool call {index} was sent whole, and a fragment of it follows")));
        }
        if id.is_some_and(|id| id != call.id) {
            return Err(malformed(format!("tool call {index} changes its id")));
        }
        if name.is_some_and(|name| name != call.name) {
            return Err(malformed(format!("tool call {index} changes its name")));
        }
        if let Some(arguments) = arguments {
            call.arguments.get_or_insert_default().push_str(&arguments);
        }
        provider_fields::merge_members(&mut call.own, fragment.own);
        Ok(())
    }

    /// The answer, if it is complete. To be called only at the end of the body.
    fn reply(mut self) -> Result<ModelReply, ModelError> {
        let Some(finish) = self.finish else {
            return Err(ModelError::Incomplete("the stream ended without a `finish_reason`".into()));
        };
        if !self.end_mark_seen {
            return Err(ModelError::Incomplete(format!("the stream ended without its end mark `{END_MARK}`")));
        }
        match finish {
            Finish::Length => {
                let message = "it reached the limit of its length before its end; raise `max_tokens`, or ask for less";
                return Err(ModelError::TooLong(message.into()));
            }
            Finish::ContentFilter => return Err(withheld("the content filter of the model API withheld the answer")),
            Finish::ToolCalls if self.calls.is_empty() => {
                return Err(malformed("`finish_reason` announces tool calls, and there are none"));
            }
            Finish::Stop | Finish::ToolCalls => {}
        }
        if !self.refusal.is_empty() {
            return Err(withheld(format!("the model refused: {}", self.refusal)));
        }
        let provider = own_fields(self.own, &mut self.calls);
        let calls = self.calls.into_iter().map(|call| match call.arguments {
            Some(arguments) => Ok(ModelCall { provider_id: call.id, alias: call.name, arguments }),
            None => Err(malformed(format!("tool call `{}` has no arguments", call.name))),
        });
        let text = Some(self.text).filter(|text| !text.is_empty());
        Ok(ModelReply { text, calls: calls.collect::<Result<_, _>>()?, usage: self.usage, provider, answered_by: None })
    }
}

/// Whether a fragment is a complete call: an id, a name, and arguments that are valid JSON.
fn is_whole(fragment: &CallFragment) -> bool {
    let is_present = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let is_json = |text: &String| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let function = fragment.function.as_ref();
    is_present(&fragment.id)
        && function
            .is_some_and(|function| is_present(&function.name) && function.arguments.as_ref().is_some_and(is_json))
}

impl Finish {
    fn read(reason: &str) -> Result<Self, ModelError> {
        match reason {
            // Some servers, and OpenAI with a forced tool, say `stop` after tool calls.
            "stop" => Ok(Self::Stop),
            "tool_calls" => Ok(Self::ToolCalls),
            "length" => Ok(Self::Length),
            "content_filter" => Ok(Self::ContentFilter),
            other => Err(malformed(format!("`finish_reason` is `{other}`"))),
        }
    }
}

/// The fields that are sent back with the next turn; `None` if there are none.
fn own_fields(mut message: Map<String, Value>, calls: &mut [PartialCall]) -> Option<Arc<Value>> {
    message.retain(|name, _| !ONLY_IN_ANSWERS.contains(&name.as_str()));
    let calls: Vec<_> = calls.iter_mut().map(|call| std::mem::take(&mut call.own)).collect();
    let has_own_fields = !message.is_empty() || calls.iter().any(|call| !call.is_empty());
    has_own_fields.then(|| provider_fields::wrap(WIRE, json!({"message": message, "calls": calls})))
}

/// The API accepted the request and deliberately gave no answer.
fn withheld(message: impl Into<String>) -> ModelError {
    ModelError::Refused { status: 200, message: message.into() }
}
