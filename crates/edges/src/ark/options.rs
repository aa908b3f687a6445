//! What a request asks for beside its body: its path, its query string and two headers.

use std::time::Duration;

use axum::{
    extract::{FromRequestParts, Query, RawPathParams},
    http::{HeaderMap, HeaderName, header, request::Parts},
};
use bosun_core::{
    Actor, Content, Namespace, Outcome, QueryName, QueryUid, Status, ceiling, query::View, tool::duration_from_json,
};
use bosun_engine::{QueryKey, store::conversations::Wanted};
use serde_json::Value;

use super::{
    convert::Sight,
    delivery::{DEFAULT_FAILURE, NO_REASON},
    duration,
    lookup::Lookup,
};
use crate::auth::gate::{Caller, Place};
use crate::http::{
    error::{ApiError, Code, clip, query_not_found},
    json::Findings,
};

/// How long `wait=true` waits: less than the 30 s after which many clients give up by themselves.
pub(super) const DEFAULT_WAIT: Duration = Duration::from_secs(25);
/// Nobody waits longer in one request.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(ceiling::WAIT_SECONDS as u64);
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = ceiling::PAGE_ENTRIES;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const MAX_IDEMPOTENCY_KEY: usize = ceiling::IDEMPOTENCY_KEY_BYTES;
const TOKEN: &str = "the `continue_token` of an earlier page";

/// What stands in the URL of a request whose body is a result.
#[derive(Debug, Default)]
pub(super) struct ResultOptions {
    success: Option<bool>,
    error: Option<String>,
    code: Option<String>,
    /// The query stays where it is.
    pub(super) hold: bool,
}

impl ResultOptions {
    fn set_flag(&mut self, name: &str, value: bool) {
        match name {
            "success" => self.success = Some(value),
            _ => self.hold = !value,
        }
    }

    /// Whether the tool failed.
    pub(super) fn is_failure(&self) -> bool {
        self.success == Some(false) || self.error.is_some() || self.code.is_some()
    }

    /// The outcome with this content, which a failure need not have.
    pub(super) fn outcome(&self, content: Option<Content>) -> Option<Outcome> {
        if !self.is_failure() {
            return content.map(|content| Outcome::Success { content });
        }
        let said = |text: &Option<String>, otherwise: &str| text.clone().unwrap_or_else(|| otherwise.to_owned());
        Some(Outcome::Failure {
            code: said(&self.code, DEFAULT_FAILURE),
            message: said(&self.error, NO_REASON),
            content: content.filter(|content| *content != Content::Inline(Value::Null)),
        })
    }
}

/// Which events are wanted.
#[derive(Debug, Default)]
pub(super) struct EventFilter {
    /// Only a list of events knows what is said by words that mean nothing elsewhere.
    is_asked: bool,
    pub(super) kind: Option<String>,
    pub(super) reason: Option<String>,
    /// The kind of what they happened to.
    pub(super) object: Option<String>,
    /// A part of its name.
    pub(super) name: Option<String>,
    /// Which page; the first is 1.
    pub(super) page: Option<usize>,
}

impl EventFilter {
    fn of_path(path: &str) -> Self {
        let below = path.strip_suffix("/events");
        let is_namespace = |rest: &str| rest.strip_prefix("/v1/namespaces/").is_some_and(|name| !name.contains('/'));
        Self { is_asked: below.is_some_and(|rest| rest == "/v1" || is_namespace(rest)), ..Self::default() }
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let text = Some(value.to_owned()).filter(|text| !text.is_empty());
        match key {
            "kind" => self.object = text,
            "name" => self.name = text,
            _ => self.page = Some(value.parse().ok().filter(|page| *page > 0)?),
        }
        Some(())
    }
}

#[derive(Debug)]
pub(super) struct Options {
    /// Who asks.
    pub(super) caller: Caller,
    pub(super) place: Place,
    /// The `{name}` of the path, unchecked.
    pub(super) name: String,
    /// The `{id}` of the path, unchecked.
    pub(super) call: String,
    /// What a body that is a result is beside its content.
    pub(super) result: ResultOptions,
    /// `Some(0)`: the client wants no waiting.
    pub(super) wait: Option<Duration>,
    pub(super) stream: Option<bool>,
    pub(super) view: Option<View>,
    /// How many entries the client wants at once, if it says so.
    pub(super) asked_limit: Option<usize>,
    /// Where the page before has ended: what a list calls its last entry.
    pub(super) continue_token: Option<String>,
    pub(super) state: Option<Status>,
    /// Which conversations: `memory`, `conversation`, `query`.
    pub(super) conversations: Wanted,
    pub(super) events: EventFilter,
    pub(super) last_event_id: Option<String>,
    /// How the client will call this request if it has to repeat it.
    pub(super) idempotency_key: Option<String>,
    /// What is looked for in the audit log or the counts.
    pub(super) lookup: Lookup,
    pub(super) warnings: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Options {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::new(Code::InvalidParameter, "the path is not UTF-8"))?;
        let Query(query) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::new(Code::InvalidParameter, "the query string is not readable"))?;
        let caller = Caller::from_request_parts(parts, state).await?;
        let place = Place::from_request_parts(parts, state).await?;
        let events = EventFilter::of_path(parts.uri.path());
        read(caller, place, path.iter(), &query, &parts.headers, events)
    }
}

fn read<'a>(
    caller: Caller,
    place: Place,
    path: impl Iterator<Item = (&'a str, &'a str)>,
    query: &[(String, String)],
    headers: &HeaderMap,
    events: EventFilter,
) -> Result<Options, ApiError> {
    let mut findings = Findings::new(Code::InvalidParameter, Vec::new());
    if let Some(warning) = caller.warning {
        findings.warn(warning);
    }
    let mut options = Options {
        caller,
        place,
        name: String::new(),
        call: String::new(),
        result: ResultOptions::default(),
        wait: None,
        stream: accepted_stream(headers),
        view: None,
        asked_limit: None,
        continue_token: None,
        state: None,
        conversations: Wanted::default(),
        events,
        last_event_id: None,
        idempotency_key: None,
        lookup: Lookup::default(),
        warnings: Vec::new(),
    };
    for (key, value) in path {
        match key {
            // The gate has read it.
            "namespace" => {}
            "id" => value.clone_into(&mut options.call),
            "name" => value.clone_into(&mut options.name),
            // The handler reads it.
            _ => {}
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in query {
        if seen.contains(&key.as_str()) {
            refuse(&mut findings, key, "stands twice");
        }
        seen.push(key);
        options.set(key, value, &mut findings);
    }
    if let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // One that is not even text is no id of ours, and will be found to be none.
        options.last_event_id = Some(String::from_utf8_lossy(id.as_bytes()).into_owned());
    }
    if options.result.success == Some(true) && options.result.is_failure() {
        refuse(&mut findings, "success", "is true, and there is an `error`");
    }
    if let Some(key) = headers.get(IDEMPOTENCY_KEY) {
        match key.to_str() {
            Ok(key) if (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) => {
                options.idempotency_key = Some(key.to_owned());
            }
            _ => refuse(
                &mut findings,
                "Idempotency-Key",
                format!("must have 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters"),
            ),
        }
    }
    options.warnings = findings.conclude()?;
    Ok(options)
}

fn refuse(findings: &mut Findings, parameter: &str, message: impl Into<String>) {
    findings.fault(clip(parameter), "invalid", message);
}

impl Options {
    fn set(&mut self, key: &str, value: &str, findings: &mut Findings) {
        let fault = |findings: &mut Findings, expected: &str| {
            refuse(findings, key, format!("`{}` is not {expected}", clip(value)));
        };
        match key {
            "namespace" => {}
            "wait" => match read_wait(&Value::from(value)) {
                Some(wait) => self.wait = Some(clamp_wait(wait, findings)),
                None => fault(findings, "true, false or a duration such as `20s`"),
            },
            "stream" => match value {
                "true" | "1" => self.stream = Some(true),
                "false" | "0" => self.stream = Some(false),
                _ => fault(findings, "true or false"),
            },
            "view" => match value {
                "rfc" => self.view = Some(View::Rfc),
                "ark" => self.view = Some(View::Ark),
                _ => fault(findings, "`rfc` or `ark`"),
            },
            "limit" => match value.parse() {
                Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => self.asked_limit = Some(limit),
                _ => fault(findings, &format!("a number from 1 to {MAX_LIMIT}")),
            },
            "continue_token" | "continueToken" | "continue" => match value {
                "" => fault(findings, TOKEN),
                token => self.continue_token = Some(token.to_owned()),
            },
            "state" => match STATES.iter().find(|state| state.as_str() == value) {
                Some(state) => self.state = Some(*state),
                None => fault(findings, "a state of a query"),
            },
            "success" | "continueExecution" => match value {
                "true" | "1" => self.result.set_flag(key, true),
                "false" | "0" => self.result.set_flag(key, false),
                _ => fault(findings, "true or false"),
            },
            "error" => self.result.error = Some(value.to_owned()).filter(|message| !message.is_empty()),
            "errorCode" => self.result.code = Some(value.to_owned()).filter(|code| !code.is_empty()),
            "memory" => self.conversations.memory = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "conversation" => self.conversations.id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            "type" => self.events.kind = Some(value.to_owned()),
            "reason" => self.events.reason = Some(value.to_owned()),
            "kind" | "name" | "page" if self.events.is_asked => {
                if self.events.set(key, value).is_none() {
                    fault(findings, "the number of a page; the first is 1");
                }
            }
            "lastEventId" => self.last_event_id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            "actor" | "tool" | "query" | "action" | "from" | "to" | "since" | "cursor" | "top" => {
                if key == "query" {
                    self.conversations.query = Some(value.to_owned()).filter(|query| !query.is_empty());
                }
                if let Err(expected) = self.lookup.set(key, value) {
                    fault(findings, expected);
                }
            }
            unknown => findings.warn(format!("unknown parameter `{}` was ignored", clip(unknown))),
        }
    }

    /// How long a page is.
    pub(super) fn limit(&self) -> usize {
        self.asked_limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// The last query of the page before, where pages are of queries.
    pub(super) fn before(&self) -> Result<Option<QueryUid>, ApiError> {
        let Some(token) = &self.continue_token else { return Ok(None) };
        token.parse().map(Some).map_err(|_| {
            let message = format!("continue_token: `{}` is not {TOKEN}", clip(token));
            ApiError::new(Code::InvalidParameter, message)
        })
    }

    pub(super) fn namespace(&self) -> Namespace {
        Namespace::clone(&self.place.namespace)
    }

    pub(super) fn actor(&self) -> &Actor {
        &self.caller.actor
    }

    /// How much of a query the caller may see.
    pub(super) fn sight(&self) -> Sight {
        Sight::of(self.caller.grant().rights)
    }

    /// The query that the path names. A name that no query can have is a query that does not exist.
    pub(super) fn key(&self) -> Result<QueryKey, ApiError> {
        let namespace = self.namespace();
        match self.name.parse::<QueryName>() {
            Ok(name) => Ok((namespace, name)),
            Err(_) => Err(query_not_found(namespace.as_str(), &self.name)),
        }
    }

    /// How long the engine should wait, where waiting is what the client wants unless it says otherwise.
    pub(super) fn wait_or(&self, default: Option<Duration>) -> Option<Duration> {
        self.wait.or(default).filter(|wait| !wait.is_zero())
    }
}

const STATES: [Status; 7] = [
    Status::Queued,
    Status::Running,
    Status::Waiting,
    Status::Held,
    Status::Completed,
    Status::Failed,
    Status::Cancelled,
];

/// Reads `true`, `20`, `"20s"`; zero means not at all.
pub(super) fn read_wait(value: &Value) -> Option<Duration> {
    match value {
        Value::Bool(true) => Some(DEFAULT_WAIT),
        Value::Bool(false) => Some(Duration::ZERO),
        Value::Number(number) if number.as_u64() == Some(0) => Some(Duration::ZERO),
        Value::String(text) => match text.as_str() {
            "true" => Some(DEFAULT_WAIT),
            "false" | "0" | "0s" => Some(Duration::ZERO),
            _ => duration_from_json(value),
        },
        _ => duration_from_json(value),
    }
}

pub(super) fn clamp_wait(wait: Duration, findings: &mut Findings) -> Duration {
    if wait > MAX_WAIT {
        findings.warn(format!(
            "`wait` of {} was shortened to {}, the longest that is served",
            duration::format(wait),
            duration::format(MAX_WAIT)
        ));
    }
    wait.min(MAX_WAIT)
}

/// Whether `Accept` asks for a stream. A client that takes JSON as well gets JSON.
fn accepted_stream(headers: &HeaderMap) -> Option<bool> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<&str> = accept
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .collect();
    let takes = |wanted: &str| ranges.iter().any(|range| range.eq_ignore_ascii_case(wanted));
    (takes("text/event-stream") && !takes("application/json")).then_some(true)
}
