//! The error type of the engine.
//!
//! One enum for the whole layer: a caller can tell its variants apart, and an edge gives each a status and
//! a code. Nothing here knows HTTP.

use bosun_core::{
    CallId, Namespace, QueryName,
    ceiling::{PARAMETERS_BYTES, RENDERED_BYTES},
    schema::{SchemaError, Violation},
    template::{BadTemplate, MissingValues},
};

use crate::{StoreError, registry::PromptError, resource::ResourceError, tool_server::ApproveError};

/// Why the engine refused or failed an operation.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("query `{1}` not found in namespace {0}")]
    QueryNotFound(Namespace, QueryName),
    #[error("agent `{1}` not found in namespace {0}")]
    AgentNotFound(Namespace, String),
    #[error("team `{1}` not found in namespace {0}")]
    TeamNotFound(Namespace, String),
    #[error("team `{team}` cannot be asked: {missing}")]
    TeamIncomplete { team: String, missing: String },
    #[error("agent `{agent}` refers to model `{model}`, which does not exist in namespace {namespace}")]
    ModelNotFound { namespace: Namespace, agent: String, model: String },
    #[error("model `{1}` not found in namespace {0}")]
    NoSuchModel(Namespace, String),
    #[error("memory `{1}` not found in namespace {0}")]
    MemoryNotFound(Namespace, String),
    #[error("the input does not match the parameters of tool `{tool}`: {}", sentences(violations))]
    InvalidArguments { tool: String, violations: Vec<Violation> },
    #[error("the input is not a valid template: {0}")]
    InputTemplate(#[source] BadTemplate),
    #[error("the input needs values for parameters: {0}")]
    MissingParameters(#[source] MissingValues),
    #[error("the input, with its parameters substituted, is too large: {0} bytes are more than {RENDERED_BYTES}")]
    InputTooLarge(usize),
    #[error("the values of all parameters together are too large: more than {PARAMETERS_BYTES} bytes")]
    ParametersTooLarge,
    #[error("parameters have no value in namespace {namespace}: {}", listed(unresolved, "; "))]
    UnresolvedParameters { namespace: Namespace, unresolved: Vec<String> },
    #[error("`outputSchema` is invalid: {0}")]
    InvalidOutputSchema(#[source] SchemaError),
    #[error("tool `{tool}` cannot be called: {source}")]
    ToolUnusable { tool: String, source: SchemaError },
    #[error("these tools do not exist in namespace {namespace}: {}", listed(names, ", "))]
    ToolsNotFound { namespace: Namespace, names: Vec<String> },
    #[error("query `{1}` already exists in namespace {0}")]
    NameTaken(Namespace, QueryName),
    #[error("call `{0}` is not a call of this query")]
    CallNotFound(CallId),
    #[error("call `{0}` has no result")]
    NoResult(CallId),
    #[error("the lease of call `{0}` has lapsed, or another worker has claimed the call")]
    LeaseLost(CallId),
    #[error("the idempotency key was used for another request")]
    RequestReused,
    #[error("query `{0}`, which answered this request, has been deleted")]
    QueryDeleted(QueryName),
    /// The caller may extend the retention of a query but not shorten it.
    #[error("shortening the `ttl` of query `{0}` requires the right `manage`")]
    MayNotShorten(QueryName),
    /// Too many uploads are under way: for this call, or for its namespace.
    #[error("{0}; try again when one of them has ended")]
    TooManyUploads(&'static str),
    #[error("query `{0}` is not held; there is nothing to resume")]
    NotHeld(QueryName),
    #[error("query `{0}` was held for too long and can no longer be resumed")]
    HoldExpired(QueryName),
    #[error("no call of query `{0}` waits for approval")]
    NothingToApprove(QueryName),
    #[error("several calls of query `{0}` wait for approval; say which one is meant")]
    SeveralToApprove(QueryName),
    #[error("the changed arguments do not match the parameters of tool `{tool}`: {}", sentences(violations))]
    InvalidEdit { tool: String, violations: Vec<Violation> },
    #[error("the values do not match the parameters that were asked for: {}", sentences(violations))]
    InvalidValues { violations: Vec<Violation> },
    #[error("{0} queries are queued already; no more are accepted right now")]
    Overloaded(usize),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Approve(#[from] ApproveError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the operating system has no randomness for a new id")]
    NoRandomness(#[source] getrandom::Error),
}

/// The first of these texts, each truncated, and how many more there are: the caller controls their number and length.
fn listed(texts: &[String], between: &str) -> String {
    const SHOWN: usize = 20;
    const LONGEST: usize = 200;
    let shown = texts.iter().take(SHOWN).map(|text| match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.clone(),
    });
    let mut shown: Vec<_> = shown.collect();
    if let Some(more) = texts.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        shown.push(format!("and {more} more"));
    }
    shown.join(between)
}

fn sentences(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.message.as_str()).collect::<Vec<_>>().join("; ")
}
