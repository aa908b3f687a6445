//! The client-tools extension: tools that a client adds to a task and runs itself.
//!
//! Definitions are in `metadata[URI].tools`, of the request or of its message. Calls are in a data part of the
//! input-required status message, next to a text part for people; results come back in data parts of a message with the
//! task's id. `docs/a2a-client-tools.md` is the specification. The forms of the client tool provider are aliases on the same path.

use std::sync::Arc;

use bosun_core::{
    Content, Outcome, Tool, Transcript, ceiling::RESULTS_DELIVERED, event::CallRoute, tool::definition::Rules,
    transcript::Call,
};
use bosun_engine::Engine;
use serde_json::{Value, json};

use super::{
    error::A2aError,
    reading::{SendParams, part_path},
    wire::{MessagePart, Metadata, PartContent},
};
use crate::{
    asking::{
        compile,
        results::{CallRef, CheckedResult, GivenResult, read_result, verdict_sentence, verdict_word},
    },
    http::{
        error::{Code, clip},
        report::RequestReport,
    },
};

pub(super) use bosun_wire::a2a::client_tools::URI as CLIENT_TOOLS;

/// What the model reads as the outcome of calls that a plain message supersedes.
pub(super) const SUPERSEDED: &str = "Cancelled: user provided new input";

/// The tools of a request, and whether they came in the form of the client tool provider.
#[derive(Debug, Default)]
pub(super) struct A2aTools {
    pub(super) tools: Vec<Tool>,
    pub(super) is_seeds: bool,
}

/// In a longer list, even small schemas are compiled off the runtime's workers.
const LONG_LIST: usize = 16;

/// Reads and checks the tools that a request brings.
pub(super) async fn read_tools(engine: &Engine, params: &SendParams) -> Result<A2aTools, A2aError> {
    let (definitions, path, is_seeds) = match (&params.tools, extension_of(params)) {
        (Some(_), Some((_, path))) => {
            let message = format!("must not be beside `{path}`: a request has its tools in one of both forms");
            return Err(A2aError::invalid(format!("`tools` {message}"), vec![("tools".to_owned(), message)]));
        }
        (Some(definitions), None) => (definitions, "tools".to_owned(), true),
        (None, None) => return Ok(A2aTools::default()),
        (None, Some((extension, path))) => match extension.get("tools") {
            Some(definitions) => (definitions, format!("{path}.tools"), false),
            None => {
                let message = "the client-tools extension has no `tools`";
                return Err(A2aError::invalid(message, vec![(format!("{path}.tools"), "is missing".to_owned())]));
            }
        },
    };
    let listed = definitions.as_array().map(Vec::as_slice).unwrap_or_default();
    let expensive = compile::expensive(engine, listed.iter(), listed.len() > LONG_LIST);
    if !expensive.is_empty() {
        engine.compile_ahead(expensive).await;
    }
    Ok(A2aTools { tools: check(engine, definitions, &path)?, is_seeds })
}

/// What a request says about the extension, and where.
fn extension_of(params: &SendParams) -> Option<(&Value, String)> {
    let in_request = params.metadata.get(CLIENT_TOOLS).map(|value| (value, format!("metadata[\"{CLIENT_TOOLS}\"]")));
    let in_message = || {
        let value = params.message.metadata.get(CLIENT_TOOLS)?;
        Some((value, format!("message.metadata[\"{CLIENT_TOOLS}\"]")))
    };
    in_request.or_else(in_message)
}

/// Whether a request brings tools, valid or not.
pub(super) fn brings_tools(params: &SendParams) -> bool {
    let in_extension = extension_of(params).is_some_and(|(extension, _)| extension.get("tools").is_some());
    params.tools.is_some() || in_extension
}

/// The strict rules, with all faults at once.
fn check(engine: &Engine, definitions: &Value, path: &str) -> Result<Vec<Tool>, A2aError> {
    engine.definitions(Rules::Strict).check(definitions).map_err(|faults| {
        let violations =
            faults.faults.listed().iter().map(|fault| (format!("{path}{}", fault.path), fault.message.clone()));
        A2aError::invalid(faults.to_string(), violations.collect())
    })
}

/// The results in a message; `None` if it has none.
pub(super) fn results_of(parts: &[MessagePart]) -> Result<Option<Vec<GivenResult>>, A2aError> {
    let lists = lists_of(parts, "toolResults", "tool results")?;
    if lists.is_empty() {
        return Ok(None);
    }
    let count = lists.iter().filter_map(|(_, list)| list.as_array()).map(Vec::len).sum();
    check_count(count, "message.parts")?;
    let mut results = Vec::new();
    for (index, list) in lists {
        results.extend(read_results(list, part_path(index).as_str())?);
    }
    Ok(Some(results))
}

/// The lists that the data parts of a message have under `member`, each with the number of its part. A message with
/// such lists has nothing else: a text next to them would reach no model.
pub(super) fn lists_of<'m>(
    parts: &'m [MessagePart],
    member: &str,
    meaning: &str,
) -> Result<Vec<(usize, &'m Value)>, A2aError> {
    let lists: Vec<_> = parts
        .iter()
        .enumerate()
        .filter_map(|(index, part)| match &part.content {
            PartContent::Data(data) => Some((index, data.get(member)?)),
            _ => None,
        })
        .collect();
    if !lists.is_empty() && lists.len() < parts.len() {
        let message = format!("a message with {meaning} must not have other parts: the model would not read them");
        return Err(A2aError::invalid(message.clone(), vec![("message.parts".to_owned(), message)]));
    }
    Ok(lists)
}

fn check_count(results: usize, path: &str) -> Result<(), A2aError> {
    if results <= RESULTS_DELIVERED {
        return Ok(());
    }
    let message = format!("has {results} results; one delivery has at most {RESULTS_DELIVERED}");
    Err(A2aError::invalid(message.clone(), vec![(path.to_owned(), message)]))
}

/// Reads `toolResults`, a list of `{toolCallId, toolName, success, result, error}`.
pub(super) fn read_results(list: &Value, path: &str) -> Result<Vec<GivenResult>, A2aError> {
    let report = RequestReport::new(Code::InvalidToolResult, Vec::new());
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let fields = report.body(json!({ "toolResults": list }))?;
    let items = fields.list("toolResults");
    if items.is_empty() {
        let message = "must be a list with at least one result";
        return Err(A2aError::invalid(message, vec![(format!("{prefix}toolResults"), message.to_owned())]));
    }
    check_count(items.len(), &format!("{prefix}toolResults"))?;
    let mut results = Vec::with_capacity(items.len());
    fields.each_of("toolResults", items, |item_path, mut item| {
        // A function that returns nothing has no `result` in JavaScript's JSON.
        let is_silent = is_silent(&item);
        if let Some(members) = item.as_object_mut().filter(|_| is_silent) {
            members.insert("result".to_owned(), Value::Null);
        }
        let says_nothing = is_silent && item["success"].is_null();
        let Some(item) = fields.at(format!("{prefix}{item_path}").into(), item) else { return };
        if !item.has("toolCallId") {
            item.reject("toolCallId", "missing", "is missing: which call is it for?");
        }
        if says_nothing {
            item.reject(
                "result",
                "missing",
                "is missing: what did the tool return? Say `success` if it returned nothing",
            );
        }
        results.extend(read_result(&item));
    });
    drop(fields);
    report.conclude()?;
    Ok(results)
}

/// Whether a result has no content and no reason of a failure.
fn is_silent(result: &Value) -> bool {
    let has_content = ["result", "toolResult"].iter().any(|name| result.get(name).is_some());
    !has_content && (result["error"].is_null() || result["error"] == "")
}

/// The call that a result is for, in one of the transcripts.
fn call_of<'t>(result: &GivenResult, transcripts: &'t [Arc<Transcript>]) -> Option<&'t Call> {
    match &result.which {
        CallRef::Call(id) => transcripts.iter().find_map(|transcript| transcript.call(*id)),
        CallRef::Foreign(_) | CallRef::Tool(_) | CallRef::Claimed(..) => None,
    }
}

/// Whether a result is for a call that none of the transcripts has.
pub(super) fn has_unknown_calls(results: &[GivenResult], transcripts: &[Arc<Transcript>]) -> bool {
    results.iter().any(|result| matches!(result.which, CallRef::Call(_)) && call_of(result, transcripts).is_none())
}

/// Refuses results for calls that the task does not have, or that are of another tool: nothing is recorded then.
pub(super) fn check_results(results: &[GivenResult], transcripts: &[Arc<Transcript>]) -> Result<(), A2aError> {
    let mut violations = Vec::new();
    for (index, result) in results.iter().enumerate() {
        let call = call_of(result, transcripts);
        // A call inside may have asked a person; whether it still does is decided with the result.
        let outside = call.filter(|call| {
            matches!(call.asked.route, CallRoute::Outside { .. } | CallRoute::Parameters { .. })
                || call.pending.is_some()
        });
        let outside = outside.map(|call| &call.asked);
        match (outside, &result.tool_name) {
            (None, _) => violations.push((
                format!("toolResults[{index}].toolCallId"),
                format!("{} is not a call of this task that a client may answer", result.which.named()),
            )),
            (Some(asked), Some(name)) if **name != *asked.tool => violations.push((
                format!("toolResults[{index}].toolName"),
                format!("is `{}`, and the call is one of `{}`", clip(name), asked.tool),
            )),
            (Some(_), _) => {}
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    let sentences: Vec<_> = violations.iter().map(|(path, what)| format!("{path}: {what}")).collect();
    Err(A2aError::invalid(sentences.join("; "), violations))
}

/// What a task's metadata says about the results of a delivery that were not used: the reason for which each would be
/// refused alone. `None` if all were used.
pub(super) fn unused_results(judged: &[CheckedResult]) -> Option<Metadata> {
    let unused = judged.iter().filter_map(|(result, verdict)| {
        let CallRef::Call(id) = &result.which else { return None };
        let reason = verdict_word(*verdict).1?.as_str().to_uppercase();
        let message = verdict_sentence(&result.which.named(), *verdict);
        Some(json!({ "toolCallId": id, "reason": reason, "message": message }))
    });
    let unused: Vec<_> = unused.collect();
    (!unused.is_empty()).then(|| metadata(json!({ "unusedResults": unused })))
}

/// The outcomes of all open calls when the user sends something else: the model reads the new input with the first.
pub(super) fn supersede(open: &[bosun_core::CallId], text: &str) -> Vec<GivenResult> {
    let outcome = |index: usize| Outcome::Failure {
        code: bosun_core::machine::outcome_code::TOOL_FAILED.into(),
        message: SUPERSEDED.into(),
        content: (index == 0).then(|| Content::Inline(Value::from(text))),
    };
    let result = |(index, call): (usize, &bosun_core::CallId)| GivenResult {
        which: CallRef::Call(*call),
        tool_name: None,
        outcome: outcome(index),
        took: None,
    };
    open.iter().enumerate().map(result).collect()
}

/// A text as the answer to the question of a call.
pub(super) fn answer(call: bosun_core::CallId, text: &str) -> GivenResult {
    GivenResult { which: CallRef::Call(call), tool_name: None, outcome: Outcome::success(text), took: None }
}

/// What the card says about the extension.
pub(super) fn card_params(engine: &Engine) -> Value {
    let limits = engine.settings().limits;
    json!({
        "maxTools": bosun_core::ceiling::TOOLS,
        "schemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "parallelCalls": true,
        "defaultTimeoutMs": u64::try_from(limits.external_timeout.as_millis()).unwrap_or(u64::MAX),
    })
}

/// The metadata of a message or a task of the extension.
pub(super) fn metadata(content: Value) -> Metadata {
    Metadata::from_iter([(CLIENT_TOOLS.to_owned(), content)])
}
