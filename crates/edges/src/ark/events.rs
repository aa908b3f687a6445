//! What happened to queries, as Kubernetes would tell it.
//!
//! Every entry of a journal is an event; nothing else is, so nothing is ever lost or repeated. Without a
//! query, the events of the latest queries are shown. Whoever wants to follow a query as it runs has its
//! stream for that.

use std::collections::BTreeMap;

use axum::{extract::State, response::Response};
use bosun_core::{Entry, Event, Head, Namespace, Outcome, QueryName, event::Route};
use bosun_engine::store::{Page, Stored};
use schemars::JsonSchema;
use serde::Serialize;

use super::{options::Options, routes::with_warnings, wire};
use crate::{
    App,
    http::{
        answer::Json,
        error::{ApiError, Code, clip},
    },
};

/// How many queries are looked at when none is named.
const LATEST: usize = 20;

/// One event.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueryEvent {
    /// The query's name and the number of the entry.
    name: String,
    namespace: String,
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
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Involved {
    kind: &'static str,
    name: String,
    namespace: String,
    uid: String,
}

/// `GET …/events`
pub(super) async fn list_events(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let namespace = options.namespace();
    let names = match options.lookup.query() {
        Some(name) => vec![name.clone()],
        None => latest(&app, &namespace).await?,
    };
    let mut events = Vec::new();
    for name in names {
        events.extend(of_query(&app, &namespace, &name).await?);
    }
    let wanted =
        |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(is));
    events.retain(|event| wanted(&options.events.kind, event.kind) && wanted(&options.events.reason, event.reason));
    // One query is told from its beginning; of several, the latest comes first.
    if options.lookup.query().is_none() {
        events.sort_by(|left, right| right.last_timestamp.cmp(&left.last_timestamp));
    }
    let total = events.len() as u64;
    events.truncate(options.limit);
    let list = wire::List { count: events.len(), total, items: events, continue_token: None };
    Ok(with_warnings(Json(list), &options.warnings))
}

/// `GET …/events/{name}`
pub(super) async fn get_event(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let namespace = options.namespace();
    let query = options.name.rsplit_once('.').and_then(|(query, _)| query.parse::<QueryName>().ok());
    let events = match query {
        Some(query) => of_query(&app, &namespace, &query).await?,
        None => Vec::new(),
    };
    let found = events.into_iter().find(|event| event.name == options.name);
    let event = found.ok_or_else(|| {
        let message = format!("Event '{}' not found in namespace {namespace}", clip(&options.name));
        ApiError::new(Code::ResourceNotFound, message)
    })?;
    Ok(with_warnings(Json(event), &options.warnings))
}

async fn latest(app: &App, namespace: &Namespace) -> Result<Vec<QueryName>, ApiError> {
    let page = Page { limit: LATEST, before: None, status: None };
    let listed = app.engine.list(namespace, &page).await?;
    Ok(listed.queries.into_iter().map(|(head, _)| head.name).collect())
}

/// The events of a query; none if there is no such query.
async fn of_query(app: &App, namespace: &Namespace, name: &QueryName) -> Result<Vec<QueryEvent>, ApiError> {
    let stored = app.engine.store().load(namespace, name).await.map_err(bosun_engine::EngineError::from)?;
    let Some(Stored { head, entries }) = stored else { return Ok(Vec::new()) };
    Ok(entries.iter().map(|entry| show(&head, entry)).collect())
}

fn show(head: &Head, entry: &Entry) -> QueryEvent {
    let (is_warning, reason, message) = tell(&entry.event);
    let at = entry.at.to_rfc3339();
    QueryEvent {
        name: format!("{}.{}", head.name, entry.seq),
        namespace: head.namespace.to_string(),
        kind: if is_warning { "Warning" } else { "Normal" },
        reason,
        message,
        involved_object: Involved {
            kind: "Query",
            name: head.name.to_string(),
            namespace: head.namespace.to_string(),
            uid: head.uid.to_string(),
        },
        source: BTreeMap::from([("component", "bosun")]),
        first_timestamp: at.clone(),
        last_timestamp: at.clone(),
        creation_timestamp: at,
        count: 1,
    }
}

/// Whether somebody should worry, one word, and a sentence. Inputs, arguments and results are not told:
/// events are read by more people than queries are.
fn tell(event: &Event) -> (bool, &'static str, String) {
    match event {
        Event::Created { spec, .. } => (false, "QueryCreated", format!("Asked of `{}`", spec.agent)),
        Event::TurnStarted { turn, attempt, .. } => {
            (*attempt > 1, "ModelAsked", format!("Turn {turn}, attempt {attempt}"))
        }
        Event::TurnEnded { turn, calls, .. } => {
            (false, "ModelAnswered", format!("Turn {turn} ended and asked for {calls} tool calls"))
        }
        Event::CallAsked(asked) => match &asked.route {
            Route::Inside { .. } => (false, "ToolCalled", format!("Tool `{}` is to be run", asked.tool)),
            Route::Outside { .. } => {
                (false, "ToolCallRequired", format!("Tool `{}` is the client's to run", asked.tool))
            }
            Route::Refused { code, .. } => (true, "ToolRefused", format!("Tool `{}`: {code}", asked.tool)),
        },
        Event::CallStarted { call, attempt, .. } => {
            (*attempt > 1, "ToolStarted", format!("Call `{call}`, attempt {attempt}"))
        }
        Event::CallFinished { call, outcome, .. } => told_outcome("ToolFinished", call, outcome),
        Event::CallResolved { call, outcome, .. } => told_outcome("ToolResultReceived", call, outcome),
        Event::CallExpired { call, .. } => {
            (true, "ToolCallExpired", format!("Nobody brought the result of call `{call}`"))
        }
        Event::LoopNoticed { call, .. } => (true, "ToolLoop", format!("Call `{call}` repeats earlier ones")),
        Event::Held { until, .. } => (false, "QueryHeld", format!("Until {}", until.to_rfc3339())),
        Event::Continued { .. } => (false, "QueryContinued", "The client lets it go on".to_owned()),
        Event::Recovered => (true, "QueryRecovered", "An earlier process left it in the middle".to_owned()),
        Event::Completed => (false, "QueryCompleted", "Answered".to_owned()),
        Event::Failed { code, .. } => (true, "QueryFailed", format!("`{code}`")),
        Event::Cancelled { .. } => (true, "QueryCancelled", "Cancelled".to_owned()),
    }
}

fn told_outcome(reason: &'static str, call: &bosun_core::CallId, outcome: &Outcome) -> (bool, &'static str, String) {
    match outcome {
        Outcome::Success { .. } => (false, reason, format!("Call `{call}` succeeded")),
        Outcome::Failure { code, .. } => (true, reason, format!("Call `{call}` failed: {}", clip(code))),
    }
}
