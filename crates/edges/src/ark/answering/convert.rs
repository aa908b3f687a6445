//! A query as its clients read it.
//!
//! The engine has one state; ARK and the RFC each have their own word for it and their own shape around it. Both
//! are made here from the same snapshot, and nothing is decided here.

use bosun_core::{
    CallId, Head, Outcome, Status, Transcript,
    content::Large,
    event::CallRoute,
    message,
    query::{Spec, Usage},
    transcript::{Call, Ending, RecordedOutcome},
};
use bosun_engine::{Snapshot, store::ListedQueries};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{messages, tree};
use crate::{
    ark::{duration, params::ArkView, wire},
    asking::{
        list::beginning_and_end,
        person::{Approval, approvals, parameter_requests},
    },
    auth::{Right, Rights},
    http::warning::Warnings,
};

/// A query in either shape.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum QueryAnswer {
    Rfc(Box<wire::RfcQuery>),
    Ark(Box<wire::ArkQuery>),
    BriefRfc(Box<wire::BriefRfcQuery>),
    BriefArk(Box<wire::BriefArkQuery>),
}

/// How much of a query its reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Everything,
    /// Its state, and the calls that the caller may answer or decide: without `read`, an answer reports only the
    /// outcome of the request.
    StateAndCalls {
        may_approve: bool,
    },
}

impl Visibility {
    pub(crate) fn of(rights: Rights) -> Self {
        if rights.has(Right::Read) {
            Self::Everything
        } else {
            Self::StateAndCalls { may_approve: rights.has(Right::Approve) }
        }
    }
}

/// The query as far as the reader may see it, in the requested view or else in its own.
pub(crate) fn query(
    snapshot: &Snapshot,
    view: Option<ArkView>,
    visibility: Visibility,
    results: Option<Vec<wire::PostedResult>>,
    warnings: &[String],
) -> QueryAnswer {
    let (head, transcript) = (&*snapshot.head, &*snapshot.transcript);
    let view = view.unwrap_or_else(|| ArkView::of(&head.edge_note));
    if let Visibility::StateAndCalls { may_approve } = visibility {
        let approvals = if may_approve { tree::approvals(snapshot) } else { Vec::new() };
        // The creator's warnings quote the request, so they are left out.
        return brief(snapshot, view, approvals, results, warnings.to_vec());
    }
    let mut all = Warnings::from(transcript.spec.warnings.clone());
    warnings.iter().for_each(|warning| all.add(warning.as_str()));
    let all = all.into();
    match view {
        ArkView::Rfc => QueryAnswer::Rfc(Box::new(rfc(snapshot, results, all))),
        ArkView::Ark => QueryAnswer::Ark(Box::new(ark(snapshot, results, all))),
    }
}

fn brief(
    snapshot: &Snapshot,
    view: ArkView,
    approvals: Vec<Approval>,
    results: Option<Vec<wire::PostedResult>>,
    warnings: Vec<String>,
) -> QueryAnswer {
    let parameter_requests = tree::parameter_requests(snapshot);
    let (identity, tool_calls) = (identity_of(snapshot), tree::open_calls(snapshot));
    match view {
        ArkView::Rfc => QueryAnswer::BriefRfc(Box::new(wire::BriefRfcQuery {
            identity,
            status: rfc_status(snapshot.status()),
            tool_call: tool_calls.first().cloned(),
            tool_calls,
            approvals,
            parameter_requests,
            results,
            warnings,
        })),
        ArkView::Ark => {
            let phase = ark_phase(snapshot.status());
            let status = wire::BriefArkStatus { phase, tool_calls, approvals, parameter_requests };
            QueryAnswer::BriefArk(Box::new(wire::BriefArkQuery { identity, status, results, warnings }))
        }
    }
}

fn rfc(snapshot: &Snapshot, results: Option<Vec<wire::PostedResult>>, warnings: Vec<String>) -> wire::RfcQuery {
    let (head, transcript) = (&*snapshot.head, &*snapshot.transcript);
    let tool_calls = tree::open_calls(snapshot);
    wire::RfcQuery {
        identity: identity_of(snapshot),
        status: rfc_status(snapshot.status()),
        tool_call: tool_calls.first().cloned(),
        approvals: tree::approvals(snapshot),
        parameter_requests: tree::parameter_requests(snapshot),
        response: transcript.response().map(str::to_owned),
        output: transcript.output(),
        error: failure(transcript),
        tool_execution_history: transcript.calls().filter_map(execution).collect(),
        usage: usage(head.usage),
        tree_usage: tree::usage(snapshot),
        duration: whole_duration(head, transcript),
        metadata: wire::RfcMetadata {
            query_name: head.name.to_string(),
            waiting_for_tool: !tool_calls.is_empty(),
            labels: metadata(head, &transcript.spec),
        },
        session: Some(session(&transcript.spec)).filter(|session| session.conversation_id.is_some()),
        creation_timestamp: head.created_at.to_rfc3339(),
        tool_calls,
        results,
        warnings,
    }
}

fn ark(snapshot: &Snapshot, results: Option<Vec<wire::PostedResult>>, warnings: Vec<String>) -> wire::ArkQuery {
    let (head, transcript) = (&*snapshot.head, &*snapshot.transcript);
    wire::ArkQuery {
        identity: identity_of(snapshot),
        spec: query_spec(head, &transcript.spec),
        metadata: metadata(head, &transcript.spec),
        creation_timestamp: head.created_at.to_rfc3339(),
        status: wire::ArkStatus {
            phase: ark_phase(snapshot.status()),
            tool_calls: tree::open_calls(snapshot),
            approvals: tree::approvals(snapshot),
            parameter_requests: tree::parameter_requests(snapshot),
            token_usage: tree::usage(snapshot).unwrap_or_else(|| usage(head.usage)),
            ..ark_status(head, transcript)
        },
        results,
        warnings,
    }
}

/// What a query was asked with, as its custom resource has it.
pub(crate) fn query_spec(head: &Head, spec: &Spec) -> wire::QuerySpec {
    wire::QuerySpec {
        kind: kind(spec),
        input: input(spec),
        parameters: Some(&spec.parameters).filter(|parameters| !parameters.is_empty()).map(|parameters| {
            let parameters = parameters.iter();
            parameters.map(|(name, value)| wire::Parameter { name: name.clone(), value: value.clone() }).collect()
        }),
        target: target(spec),
        targets: vec![target(spec)],
        selector: spec.selector.as_deref().cloned(),
        model_ref: Some(&spec.model)
            .filter(|model| !model.is_empty())
            .map(|model| wire::ModelRef { name: model.clone() }),
        memory: memory(spec),
        session: session(spec),
        timeout: duration::format(head.limits.query_timeout),
        ttl: duration::format(head.limits.ttl),
        cancel: head.status() == Status::Cancelled,
        service_account: wire::Never(()),
        overrides: wire::Never(()),
    }
}

/// The whole status of a query as ARK has it, from the whole transcript.
pub(crate) fn ark_status(head: &Head, transcript: &Transcript) -> wire::ArkStatus {
    let mut status = listed_status(head, transcript);
    if let Some(response) = &mut status.response {
        response.raw = messages::raw(transcript);
    }
    status
}

/// The same without the messages in between: the end of the transcript is enough.
pub(crate) fn listed_status(head: &Head, transcript: &Transcript) -> wire::ArkStatus {
    let phase = ark_phase(head.status());
    let target = target(&transcript.spec);
    let response = ark_content(transcript).map(|content| wire::ArkResponse { target, content, raw: None, phase });
    wire::ArkStatus {
        phase,
        responses: response.clone().map(|response| vec![response]),
        response,
        output: transcript.output(),
        error: failure(transcript),
        tool_calls: open_calls(head, transcript),
        approvals: approvals(head, transcript),
        parameter_requests: parameter_requests(head, transcript),
        // Open children are not looked for in a list.
        token_usage: tree::total(head.usage, head.below),
        conversation_id: session(&transcript.spec).conversation_id,
        conditions: vec![condition(head, transcript)],
        duration: whole_duration(head, transcript),
    }
}

/// One page of a list.
pub(crate) fn list(listed: &ListedQueries) -> wire::List<wire::ListedQuery> {
    let continue_token = listed.next.map(|uid| uid.to_string());
    let items: Vec<_> = listed
        .queries
        .iter()
        .filter_map(|(head, entries)| Some(listed_query(head, &beginning_and_end(entries)?)))
        .collect();
    wire::List { count: items.len(), items, total: listed.total, continue_token, remaining_item_count: None }
}

fn listed_query(head: &Head, transcript: &Transcript) -> wire::ListedQuery {
    let spec = &transcript.spec;
    wire::ListedQuery {
        identity: identity(head),
        kind: kind(spec),
        session: session(spec),
        memory: memory(spec),
        metadata: metadata(head, spec),
        input: input(spec),
        target: target(spec),
        targets: vec![target(spec)],
        creation_timestamp: head.created_at.to_rfc3339(),
        status: listed_status(head, transcript),
    }
}

pub(crate) fn rfc_status(status: Status) -> &'static str {
    match status {
        Status::Queued => "pending",
        Status::Running => "running",
        Status::Waiting => "tool_call_required",
        Status::AwaitingApproval => "approval_required",
        Status::AwaitingParameters => "parameters_required",
        Status::Held => "paused",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

pub(crate) fn ark_phase(status: Status) -> &'static str {
    match status {
        Status::Queued => "pending",
        Status::Running => "running",
        // ARK has one word for everything that waits for a client.
        Status::Waiting | Status::AwaitingApproval | Status::AwaitingParameters | Status::Held => "input-required",
        Status::Completed => "done",
        Status::Failed => "error",
        Status::Cancelled => "canceled",
    }
}

/// The same, with the state that the query has with those below it.
fn identity_of(snapshot: &Snapshot) -> wire::Identity {
    wire::Identity { state: snapshot.status().as_str(), ..identity(&snapshot.head) }
}

pub(super) fn identity(head: &Head) -> wire::Identity {
    wire::Identity {
        name: head.name.to_string(),
        namespace: head.namespace.to_string(),
        uid: head.uid.to_string(),
        state: head.status().as_str(),
    }
}

fn session(spec: &Spec) -> wire::Session {
    let conversation = spec.conversation.as_ref().map(|conversation| conversation.key.id.clone());
    wire::Session { session_id: spec.session_id.clone(), conversation_id: conversation.or(spec.session_id.clone()) }
}

fn memory(spec: &Spec) -> Option<wire::MemoryRef> {
    spec.conversation.as_ref().map(|conversation| wire::MemoryRef { name: conversation.key.memory.clone() })
}

fn kind(spec: &Spec) -> &'static str {
    if spec.messages.is_empty() { "user" } else { "messages" }
}

/// The text as the client wrote it, with its placeholders unfilled.
fn written(spec: &Spec) -> &str {
    spec.template.as_deref().unwrap_or(&spec.input)
}

fn input(spec: &Spec) -> Value {
    if spec.messages.is_empty() {
        Value::from(written(spec))
    } else {
        spec.messages.iter().map(message::write).collect()
    }
}

/// ARK's one condition of a query: true when it has ended, however it did.
fn condition(head: &Head, transcript: &Transcript) -> wire::QueryCondition {
    let (status, reason, message) = match transcript.end.as_ref().map(|end| &end.how) {
        None => ("False", "QueryRunning".to_owned(), format!("the query is {}", head.status().as_str())),
        Some(Ending::Completed) => ("True", "QuerySucceeded".to_owned(), "the query completed".to_owned()),
        Some(Ending::Failed { code, message }) => ("True", camel_case(code), message.clone()),
        Some(Ending::Cancelled { .. }) => ("True", "QueryCanceled".to_owned(), "the query was cancelled".to_owned()),
    };
    let since = transcript.end.as_ref().map_or(head.updated_at, |end| end.at);
    wire::QueryCondition { kind: "Completed", status, reason, message, last_transition_time: since.to_rfc3339() }
}

/// A code in the spelling that conditions have: `query_timeout` is `QueryTimeout`.
fn camel_case(code: &str) -> String {
    let words = code.split('_').map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}

fn metadata(head: &Head, spec: &Spec) -> wire::Metadata {
    wire::Metadata { labels: head.labels(spec).clone(), annotations: head.annotations(spec).clone() }
}

pub(super) fn target(spec: &Spec) -> wire::Target {
    wire::Target { kind: spec.target_kind.as_str(), name: spec.target.clone() }
}

pub(crate) fn usage(usage: Usage) -> wire::TokenUsage {
    wire::TokenUsage {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        total_tokens: usage.total(),
        cached_tokens: Some(usage.cached_tokens).filter(|tokens| *tokens > 0),
        cache_write_tokens: Some(usage.cache_write_tokens).filter(|tokens| *tokens > 0),
    }
}

/// The calls that the client must run, in the order in which the model asked.
pub(super) fn open_calls(head: &Head, transcript: &Transcript) -> Vec<wire::ToolCall> {
    head.outside_calls()
        .filter_map(|(call, deadline)| {
            let asked = &transcript.call(call.id)?.asked;
            Some(wire::ToolCall {
                id: call.id.to_string(),
                name: asked.tool.clone(),
                arguments: asked.arguments.clone(),
                deadline: deadline.to_rfc3339(),
                agent_path: Vec::new(),
                workers: call.claim.is_some(),
                traceparent: transcript.spec.trace.as_ref().map(ToString::to_string),
                tracestate: transcript.spec.trace.as_ref().and_then(|trace| trace.state()).map(str::to_owned),
            })
        })
        .collect()
}

/// One page of the calls of a namespace that wait for approval.
pub(crate) fn open_approvals(listed: &ListedQueries) -> wire::List<wire::OpenApproval> {
    let continue_token = listed.next.map(|uid| uid.to_string());
    let mut items = Vec::new();
    for (head, entries) in &listed.queries {
        let Some(transcript) = beginning_and_end(entries) else { continue };
        items.extend(approvals(head, &transcript).into_iter().map(|approval| wire::OpenApproval {
            query: head.name.to_string(),
            namespace: head.namespace.to_string(),
            target: target(&transcript.spec),
            asked_by: transcript.by.to_string(),
            creation_timestamp: head.created_at.to_rfc3339(),
            approval,
        }));
    }
    wire::List { count: items.len(), items, total: listed.total, continue_token, remaining_item_count: None }
}

fn execution(call: &Call) -> Option<wire::Execution> {
    let RecordedOutcome { outcome, at, took } = call.result.as_ref()?;
    // The client measures the tool alone; our measure includes the round trip to the client.
    let took = took.unwrap_or_else(|| at.since(call.started_at.unwrap_or(call.asked_at)));
    Some(wire::Execution {
        tool_call_id: call.asked.call.to_string(),
        tool_name: call.asked.tool.clone(),
        execution_mode: match call.asked.route {
            CallRoute::Outside { .. } | CallRoute::Parameters { .. } | CallRoute::Cached { outside: true, .. } => {
                Some("external")
            }
            CallRoute::Inside { .. } | CallRoute::Approval { .. } | CallRoute::Cached { outside: false, .. } => {
                Some("internal")
            }
            CallRoute::Refused { .. } => None,
        },
        success: outcome.is_success(),
        duration: duration::format(took),
        error: outcome_error(outcome),
        large_result: outcome.large().map(|large| large_result(call.asked.call, large)),
        cached: matches!(call.asked.route, CallRoute::Cached { .. }),
        dropped_arguments: call.asked.dropped.clone(),
        deprecated: call.asked.deprecated.clone(),
    })
}

pub(crate) fn large_result(call: CallId, large: &Large) -> wire::LargeResult {
    wire::LargeResult {
        handle: call.to_string(),
        size: large.size,
        media_type: large.media_type.to_string(),
        sha256: large.hash.to_string(),
    }
}

pub(crate) fn outcome_error(outcome: &Outcome) -> Option<wire::Error> {
    match outcome {
        Outcome::Success { .. } => None,
        Outcome::Failure { code, message, .. } => Some(wire::Error { code: code.clone(), message: message.clone() }),
    }
}

pub(crate) fn failure(transcript: &Transcript) -> Option<wire::Error> {
    match &transcript.end.as_ref()?.how {
        Ending::Failed { code, message } => Some(wire::Error { code: code.clone(), message: message.clone() }),
        Ending::Completed | Ending::Cancelled { .. } => None,
    }
}

/// ARK's clients look for the text in one place, whether it is an answer or the reason why there is none.
fn ark_content(transcript: &Transcript) -> Option<String> {
    match &transcript.end.as_ref()?.how {
        Ending::Completed => transcript.response().map(str::to_owned),
        Ending::Failed { message, .. } => Some(message.clone()),
        Ending::Cancelled { reason } => Some(reason.clone().unwrap_or_else(|| "the query was cancelled".into())),
    }
}

/// From creation to the end, as a person would measure it: waiting for tools included, and steps of the server's clock not.
pub(crate) fn whole_duration(head: &Head, transcript: &Transcript) -> Option<String> {
    let created_at = transcript.created_at.shifted(head.clock.stepped_ms);
    transcript.end.as_ref().map(|end| duration::format(end.at.since(created_at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/api.md");

    #[test]
    fn the_page_lists_every_state_with_its_word_in_both_views() {
        let table = PAGE.lines().skip_while(|line| !line.starts_with("| `state` |")).skip(2);
        let listed: Vec<Vec<_>> = table
            .map_while(|row| row.strip_prefix("| "))
            .map(|row| row.split(" | ").take(3).map(|word| word.trim_matches('`')).collect())
            .collect();
        let states = Status::ALL.map(|state| vec![state.as_str(), rfc_status(state), ark_phase(state)]);
        assert_eq!(listed, states);
    }

    #[track_caller]
    fn check(cached_tokens: u64, cache_write_tokens: u64, expect: &str) {
        let counted = Usage { prompt_tokens: 90, completion_tokens: 9, cached_tokens, cache_write_tokens };
        assert_eq!(serde_json::to_string(&usage(counted)).unwrap(), expect);
    }

    #[test]
    fn cache_tokens_appear_only_where_an_api_reports_them() {
        check(0, 0, r#"{"promptTokens":90,"completionTokens":9,"totalTokens":99}"#);
        check(40, 0, r#"{"promptTokens":90,"completionTokens":9,"totalTokens":99,"cachedTokens":40}"#);
        check(0, 50, r#"{"promptTokens":90,"completionTokens":9,"totalTokens":99,"cacheWriteTokens":50}"#);
    }
}
