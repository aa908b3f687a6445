//! Journals of queries as Kubernetes events.
//!
//! Every entry of a journal is an event; nothing else is, so nothing is ever lost or repeated. Without a
//! query, the events of the latest queries are shown. To follow a query as it runs, clients have its
//! stream.

use std::collections::BTreeMap;

use axum::{extract::State, response::Response};
use bosun_core::{Entry, Event, Head, Namespace, Outcome, QueryName, event::CallRoute};
use bosun_engine::store::{QueryPage, Stored};
use schemars::JsonSchema;
use serde::Serialize;

use super::namespaces;
use crate::{
    AppState,
    ark::{
        params::{EventFilter, PageLimit, Params, QueryFilter, path::ResourcePath},
        wire,
    },
    auth::gate::{Caller, RequestNamespace},
    http::{
        answer::Json,
        error::{ApiError, Code, clip},
        warning::with_warnings,
    },
};

/// How many of the latest queries are listed when none is named.
const LATEST: usize = 20;
const QUERY: &str = "Query";
const COMPONENT: &str = "bosun";

/// One event: as Kubernetes has it, and with the flat fields that clients of ARK's API read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryEvent {
    /// The query's name and the number of the entry.
    name: String,
    namespace: String,
    /// The query's own and the number of the entry, which a stream has as the `id` of an event.
    uid: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    kind: &'static str,
    reason: &'static str,
    message: String,
    involved_object: Involved,
    source: BTreeMap<&'static str, &'static str>,
    first_timestamp: String,
    last_timestamp: String,
    creation_timestamp: String,
    count: u32,
    #[serde(flatten)]
    flat: FlatEvent,
}

/// The same in the format of ARK's API.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct FlatEvent {
    source_component: &'static str,
    /// There is no cluster with hosts.
    source_host: Option<String>,
    involved_object_kind: &'static str,
    involved_object_name: String,
    involved_object_namespace: String,
    involved_object_uid: String,
    first_timestamp: String,
    last_timestamp: String,
    creation_timestamp: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Involved {
    kind: &'static str,
    name: String,
    namespace: String,
    uid: String,
}

pub(crate) type EventParams = (QueryFilter, EventFilter, PageLimit);

/// `GET …/events`
pub(crate) async fn list_events(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (QueryFilter { query }, filter, limit), warnings }: Params<EventParams>,
) -> Result<Response, ApiError> {
    namespaces::require(&app, &caller, &namespace).await?;
    let EventFilter { kind, reason, object, name, .. } = &filter;
    let wanted =
        |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(is));
    let mut names = match &query {
        Some(name) => vec![name.clone()],
        // There are events of queries only.
        None if !wanted(object, QUERY) => Vec::new(),
        None => latest(&app, &namespace, name.as_deref()).await?,
    };
    if let Some(part) = name {
        names.retain(|name| contains(name, part));
    }
    let mut events = Vec::new();
    for name in names {
        events.extend(of_query(&app, &namespace, &name).await?);
    }
    events.retain(|event| wanted(kind, event.kind) && wanted(reason, event.reason));
    // Events of one query are in the order of its journal; of several, the latest comes first.
    if query.is_none() {
        events.sort_by(|left, right| right.last_timestamp.cmp(&left.last_timestamp));
    }
    let total = events.len() as u64;
    let earlier = filter.earlier(limit.get());
    let items: Vec<_> = events.into_iter().skip(earlier).take(limit.get()).collect();
    let remaining_item_count = Some(total.saturating_sub(earlier.saturating_add(items.len()) as u64));
    let list = wire::List { count: items.len(), total, items, continue_token: None, remaining_item_count };
    Ok(with_warnings(Json(list), &warnings))
}

/// `GET …/events/{name}`
pub(crate) async fn get_event(
    State(app): State<AppState>,
    Params { warnings, .. }: Params,
    ResourcePath { namespace, name }: ResourcePath,
) -> Result<Response, ApiError> {
    let query = name.rsplit_once('.').and_then(|(query, _)| query.parse::<QueryName>().ok());
    let events = match query {
        Some(query) => of_query(&app, &namespace, &query).await?,
        None => Vec::new(),
    };
    let found = events.into_iter().find(|event| event.name == name);
    let event = found.ok_or_else(|| {
        let message = format!("Event '{}' not found in namespace {namespace}", clip(&name));
        ApiError::new(Code::ResourceNotFound, message)
    })?;
    Ok(with_warnings(Json(event), &warnings))
}

/// The queries that were created last, and the one that is called `named`, however old it is.
async fn latest(app: &AppState, namespace: &Namespace, named: Option<&str>) -> Result<Vec<QueryName>, ApiError> {
    let mut names = Vec::new();
    let mut page = QueryPage { limit: LATEST, ..QueryPage::default() };
    while page.limit > 0 {
        let listed = app.engine.list(namespace, &page).await?;
        names.extend(listed.queries.into_iter().map(|(head, _)| head.name));
        page.limit = if listed.next.is_some() { LATEST - names.len() } else { 0 };
        page.before = listed.next;
    }
    if let Some(named) = named.and_then(|named| named.parse().ok()).filter(|named| !names.contains(named)) {
        names.push(named);
    }
    Ok(names)
}

/// Whether the name contains `part`: ARK searches for names in this way.
fn contains(name: &QueryName, part: &str) -> bool {
    name.as_str().contains(&part.to_ascii_lowercase())
}

/// The events of a query; none if there is no such query.
async fn of_query(app: &AppState, namespace: &Namespace, name: &QueryName) -> Result<Vec<QueryEvent>, ApiError> {
    let stored = app.engine.store().load(namespace, name).await.map_err(bosun_engine::EngineError::from)?;
    let Some(Stored { head, entries, .. }) = stored else { return Ok(Vec::new()) };
    Ok(entries.iter().map(|entry| show(&head, entry)).collect())
}

fn show(head: &Head, entry: &Entry) -> QueryEvent {
    let (is_warning, reason, message) = describe(&entry.event);
    let at = entry.at.to_rfc3339();
    let (name, namespace, uid) = (head.name.to_string(), head.namespace.to_string(), head.uid.to_string());
    QueryEvent {
        name: format!("{name}.{}", entry.seq),
        namespace: namespace.clone(),
        uid: format!("{uid}.{}", entry.seq),
        kind: if is_warning { "Warning" } else { "Normal" },
        reason,
        message,
        involved_object: Involved { kind: QUERY, name: name.clone(), namespace: namespace.clone(), uid: uid.clone() },
        source: BTreeMap::from([("component", COMPONENT)]),
        first_timestamp: at.clone(),
        last_timestamp: at.clone(),
        creation_timestamp: at.clone(),
        count: 1,
        flat: FlatEvent {
            source_component: COMPONENT,
            source_host: None,
            involved_object_kind: QUERY,
            involved_object_name: name,
            involved_object_namespace: namespace,
            involved_object_uid: uid,
            first_timestamp: at.clone(),
            last_timestamp: at.clone(),
            creation_timestamp: at,
        },
    }
}

/// Whether it is a warning, the reason, and a message. Inputs, arguments and results are left out:
/// events are read by more people than queries are.
fn describe(event: &Event) -> (bool, &'static str, String) {
    match event {
        Event::Created { spec, .. } => (false, "QueryCreated", format!("Asked `{}`", spec.target)),
        Event::TurnStarted { turn, attempt, .. } => {
            (*attempt > 1, "ModelAsked", format!("Turn {turn}, attempt {attempt}"))
        }
        Event::TurnEnded { turn, calls, .. } => {
            (false, "ModelAnswered", format!("Turn {turn} ended and asked for {calls} tool calls"))
        }
        Event::CallAsked(asked) => match &asked.route {
            CallRoute::Inside { .. } => {
                (false, "ToolCalled", format!("Tool `{}` will be run by the server", asked.tool))
            }
            CallRoute::Outside { .. } => {
                (false, "ToolCallRequired", format!("Tool `{}` must be run by the client", asked.tool))
            }
            CallRoute::Approval { .. } => {
                (false, "ApprovalRequired", format!("Tool `{}` waits for a person's approval", asked.tool))
            }
            CallRoute::Parameters { .. } => {
                (false, "ParametersRequired", "The user is asked for the values of parameters".to_owned())
            }
            CallRoute::Cached { .. } => (false, "ToolCached", format!("The result of tool `{}` is cached", asked.tool)),
            CallRoute::Refused { code, .. } => (true, "ToolRefused", format!("Tool `{}`: {code}", asked.tool)),
        },
        Event::CallStarted { call, attempt, .. } => {
            (*attempt > 1, "ToolStarted", format!("Call `{call}`, attempt {attempt}"))
        }
        Event::CallPending { call, poll_at, .. } => {
            (false, "ToolPending", format!("Call `{call}` is still running; it is polled at {}", poll_at.to_rfc3339()))
        }
        Event::CallQuestioned { call, .. } => {
            (false, "ParametersRequired", format!("Call `{call}` has a question for a person"))
        }
        Event::CallAnswered { call, by, .. } => {
            (false, "AnswerReceived", format!("Call `{call}` was answered by `{}`", clip(&by.name())))
        }
        Event::CallDue { call } => (false, "ToolPolled", format!("Call `{call}`")),
        Event::CallDelegated { call, child } => {
            (false, "ToolDelegated", format!("Call `{call}` is answered by query `{child}`"))
        }
        Event::ChildEnded { call, .. } => (false, "ChildEnded", format!("The query of call `{call}` has ended")),
        Event::Settled => (false, "QuerySettled", "The other queries of its tree were notified of the end".to_owned()),
        Event::CallFinished { call, outcome, .. } => describe_outcome("ToolFinished", call, outcome),
        Event::CallResolved { call, outcome, .. } => describe_outcome("ToolResultReceived", call, outcome),
        Event::CallApproved { call, by, .. } => {
            (false, "ApprovalGiven", format!("Call `{call}` was approved by `{}`", clip(&by.name())))
        }
        Event::CallRejected { call, by, .. } => {
            (true, "ApprovalRejected", format!("Call `{call}` was rejected by `{}`", clip(&by.name())))
        }
        Event::CallClaimed { call, until, .. } => {
            (false, "ToolCallClaimed", format!("A worker runs call `{call}` until {}", until.to_rfc3339()))
        }
        Event::CallExtended { call, until } => {
            (false, "ToolCallExtended", format!("A worker runs call `{call}` until {}", until.to_rfc3339()))
        }
        Event::CallReleased { call } => (true, "ToolCallReleased", format!("The worker of call `{call}` was lost")),
        Event::CallExpired { call, .. } => {
            (true, "ToolCallExpired", format!("No result of call `{call}` was delivered in time"))
        }
        Event::LoopNoticed { call, .. } => (true, "ToolLoop", format!("Call `{call}` repeats earlier ones")),
        Event::Held { until, .. } => (false, "QueryHeld", format!("Until {}", until.to_rfc3339())),
        Event::Continued { .. } => (false, "QueryContinued", "The client continued it".to_owned()),
        Event::Changed(changed) => {
            (false, "QueryChanged", format!("Changed: {}", changed.names().collect::<Vec<_>>().join(", ")))
        }
        Event::ClockStepped { by_ms } => (true, "ClockStepped", format!("The server's clock stepped by {by_ms} ms")),
        Event::Interrupted => (false, "QueryInterrupted", "The server shut down gracefully".to_owned()),
        Event::Recovered { .. } => {
            (true, "QueryRecovered", "An earlier process stopped before the query had ended".to_owned())
        }
        Event::Completed => (false, "QueryCompleted", "Answered".to_owned()),
        Event::Failed { code, .. } => (true, "QueryFailed", format!("`{code}`")),
        Event::Cancelled { .. } => (true, "QueryCancelled", "Cancelled".to_owned()),
    }
}

fn describe_outcome(
    reason: &'static str,
    call: &bosun_core::CallId,
    outcome: &Outcome,
) -> (bool, &'static str, String) {
    match outcome {
        Outcome::Success { .. } => (false, reason, format!("Call `{call}` succeeded")),
        Outcome::Failure { code, .. } => (true, reason, format!("Call `{call}` failed: {}", clip(code))),
    }
}
