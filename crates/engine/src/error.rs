//! Why the engine says no.
//!
//! One enum for the whole layer: a caller can tell its variants apart, and an edge gives each a status and
//! a code. Nothing here knows HTTP.

use bosun_core::{
    CallId, Namespace, QueryName,
    ceiling::{PARAMETERS_BYTES, RENDERED_BYTES},
    schema::{SchemaError, Violation},
    template::{BadTemplate, MissingValues},
};

use crate::{StoreError, registry::PromptError, resource::ResourceError};

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("query `{1}` not found in namespace {0}")]
    QueryNotFound(Namespace, QueryName),
    #[error("agent `{1}` not found in namespace {0}")]
    AgentNotFound(Namespace, String),
    #[error("agent `{agent}` refers to model `{model}`, which does not exist in namespace {namespace}")]
    ModelNotFound { namespace: Namespace, agent: String, model: String },
    #[error("model `{1}` not found in namespace {0}")]
    NoSuchModel(Namespace, String),
    #[error("memory `{1}` not found in namespace {0}")]
    MemoryNotFound(Namespace, String),
    #[error("the input does not fit tool `{tool}`: {}", said(violations))]
    InvalidArguments { tool: String, violations: Vec<Violation> },
    #[error("the input is not a template: {0}")]
    InputTemplate(#[source] BadTemplate),
    #[error("the input needs parameters: {0}")]
    MissingParameters(#[source] MissingValues),
    #[error("the input, with its parameters filled in, is too large: {0} bytes are more than {RENDERED_BYTES}")]
    InputTooLarge(usize),
    #[error("the values of all parameters together are too large: more than {PARAMETERS_BYTES} bytes")]
    ParametersTooLarge,
    #[error("parameters have no value in namespace {namespace}: {}", listed(unresolved, "; "))]
    UnresolvedParameters { namespace: Namespace, unresolved: Vec<String> },
    #[error("`outputSchema` is not taken: {0}")]
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
    #[error("another request was made under the same key")]
    RequestReused,
    #[error("query `{0}`, which answered this request, has been deleted")]
    QueryDeleted(QueryName),
    /// The caller may prolong the life of a query and not shorten it.
    #[error("to shorten the `ttl` of query `{0}` needs the right `manage`")]
    MayNotShorten(QueryName),
    /// Too many results are on their way in: for this call, or for its namespace.
    #[error("{0}; try again when one of them has ended")]
    TooManyUploads(&'static str),
    #[error("query `{0}` is not held; there is nothing to continue")]
    NotHeld(QueryName),
    #[error("query `{0}` was held for too long; it cannot be continued any more")]
    HoldExpired(QueryName),
    #[error("{0} queries wait their turn already; no more are taken on right now")]
    Overloaded(usize),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the operating system has no randomness for a new id")]
    NoRandomness(#[source] getrandom::Error),
}

/// The first of these texts, each cut to a length, and how many more there are: how many there are is the caller's to
/// choose.
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

fn said(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.message.as_str()).collect::<Vec<_>>().join("; ")
}
