//! Refusals: why a request was refused or failed, without the shape of any protocol.
//!
//! [`Code`] is the whole vocabulary: a code has one status, and `docs/errors.md` a heading for it.
//! Errors of the engine get their code in one exhaustive match, so that a new one does not compile
//! until it has a code. Clients read what they can act on; the cause goes to the log, in one place. Each edge writes
//! the body in its own shape.

use std::sync::Arc;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::{
    Fault,
    audit::hide_in_urls,
    content::BadContent,
    journal::JournalFault,
    json::JsonError,
    machine::{failure_code, outcome_code, refusal_code, request_code},
    schema::Violation,
    text,
};
use bosun_engine::{
    EngineError, StoreError, UploadError,
    registry::PromptError,
    resource::{ResourceError, ResourceKey, ResourceKind},
    tool_server::ApproveError,
};
use serde_json::{Value, json};

use super::error_echo::{Echo, HIDDEN};

/// After how many seconds a client may try again when the server cannot work right now.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("2");

macro_rules! codes {
    ($($(#[$meta:meta])* $variant:ident = $status:ident $text:expr,)*) => {
        /// Why a request was refused or failed. Each has one HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Code {
            $($(#[$meta])* $variant,)*
        }

        impl Code {
            /// All codes, in the order of `docs/errors.md`.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word that clients see.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self {
                    $(Self::$variant => StatusCode::$status,)*
                }
            }
        }
    };
}

codes! {
    // The request cannot be read.
    InvalidJson = BAD_REQUEST request_code::INVALID_JSON,
    DuplicateKey = BAD_REQUEST request_code::DUPLICATE_KEY,
    JsonTooDeep = UNPROCESSABLE_ENTITY request_code::JSON_TOO_DEEP,
    InvalidParameter = BAD_REQUEST request_code::INVALID_PARAMETER,
    InvalidEventId = BAD_REQUEST request_code::INVALID_EVENT_ID,
    RequestTimeout = REQUEST_TIMEOUT request_code::REQUEST_TIMEOUT,
    PayloadTooLarge = PAYLOAD_TOO_LARGE request_code::PAYLOAD_TOO_LARGE,
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE request_code::UNSUPPORTED_MEDIA_TYPE,
    // The caller may not make the request.
    Unauthorized = UNAUTHORIZED request_code::UNAUTHORIZED,
    RightMissing = FORBIDDEN request_code::RIGHT_MISSING,
    NamespaceForbidden = FORBIDDEN request_code::NAMESPACE_FORBIDDEN,
    EndUserForbidden = FORBIDDEN request_code::END_USER_FORBIDDEN,
    HostNotAllowed = FORBIDDEN request_code::HOST_NOT_ALLOWED,
    OriginNotAllowed = FORBIDDEN request_code::ORIGIN_NOT_ALLOWED,
    RouteNotFound = NOT_FOUND request_code::ROUTE_NOT_FOUND,
    MethodNotAllowed = METHOD_NOT_ALLOWED request_code::METHOD_NOT_ALLOWED,
    NotImplemented = NOT_IMPLEMENTED request_code::NOT_IMPLEMENTED,
    // The request was read and is not valid here.
    InvalidRequest = UNPROCESSABLE_ENTITY request_code::INVALID_REQUEST,
    UnsupportedField = UNPROCESSABLE_ENTITY request_code::UNSUPPORTED_FIELD,
    FrozenField = UNPROCESSABLE_ENTITY request_code::FROZEN_FIELD,
    UnsupportedTarget = NOT_IMPLEMENTED request_code::UNSUPPORTED_TARGET,
    InvalidToolDefinitions = UNPROCESSABLE_ENTITY request_code::INVALID_TOOL_DEFINITIONS,
    InvalidToolResult = UNPROCESSABLE_ENTITY request_code::INVALID_TOOL_RESULT,
    TooManyResults = UNPROCESSABLE_ENTITY request_code::TOO_MANY_RESULTS,
    InvalidToolArguments = UNPROCESSABLE_ENTITY request_code::INVALID_TOOL_ARGUMENTS,
    InvalidDecision = UNPROCESSABLE_ENTITY request_code::INVALID_DECISION,
    InvalidOutputSchema = UNPROCESSABLE_ENTITY request_code::INVALID_OUTPUT_SCHEMA,
    InvalidTemplate = UNPROCESSABLE_ENTITY request_code::INVALID_TEMPLATE,
    MissingParameters = UNPROCESSABLE_ENTITY outcome_code::MISSING_PARAMETERS,
    InputTooLarge = UNPROCESSABLE_ENTITY request_code::INPUT_TOO_LARGE,
    EntryTooLarge = UNPROCESSABLE_ENTITY failure_code::ENTRY_TOO_LARGE,
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY request_code::IDEMPOTENCY_KEY_REUSED,
    AgentNotFound = UNPROCESSABLE_ENTITY request_code::AGENT_NOT_FOUND,
    TeamNotFound = UNPROCESSABLE_ENTITY request_code::TEAM_NOT_FOUND,
    ModelNotFound = UNPROCESSABLE_ENTITY request_code::MODEL_NOT_FOUND,
    ToolsNotFound = UNPROCESSABLE_ENTITY request_code::TOOLS_NOT_FOUND,
    InvalidResource = UNPROCESSABLE_ENTITY request_code::INVALID_RESOURCE,
    SecretNotAllowed = UNPROCESSABLE_ENTITY failure_code::SECRET_NOT_ALLOWED,
    AddressNotAllowed = UNPROCESSABLE_ENTITY failure_code::ADDRESS_NOT_ALLOWED,
    InvalidConfiguration = UNPROCESSABLE_ENTITY request_code::INVALID_CONFIGURATION,
    // What the request names does not exist, or its state does not permit the request.
    NamespaceNotFound = NOT_FOUND request_code::NAMESPACE_NOT_FOUND,
    QueryNotFound = NOT_FOUND request_code::QUERY_NOT_FOUND,
    MemoryNotFound = NOT_FOUND request_code::MEMORY_NOT_FOUND,
    ConversationNotFound = NOT_FOUND request_code::CONVERSATION_NOT_FOUND,
    ResourceNotFound = NOT_FOUND request_code::RESOURCE_NOT_FOUND,
    CallNotFound = NOT_FOUND refusal_code::CALL_NOT_FOUND,
    ResultNotFound = NOT_FOUND request_code::RESULT_NOT_FOUND,
    RangeNotSatisfiable = RANGE_NOT_SATISFIABLE request_code::RANGE_NOT_SATISFIABLE,
    QueryExists = CONFLICT request_code::QUERY_EXISTS,
    ResourceExists = CONFLICT request_code::RESOURCE_EXISTS,
    ManagedByFile = CONFLICT request_code::MANAGED_BY_FILE,
    ManagedByServer = CONFLICT request_code::MANAGED_BY_SERVER,
    NotWithheld = CONFLICT request_code::NOT_WITHHELD,
    QueryChanged = CONFLICT request_code::QUERY_CHANGED,
    QueryNotHeld = CONFLICT request_code::QUERY_NOT_HELD,
    QueryNotCompleted = CONFLICT request_code::QUERY_NOT_COMPLETED,
    ConversationBusy = CONFLICT request_code::CONVERSATION_BUSY,
    JournalFull = CONFLICT failure_code::JOURNAL_FULL,
    AlreadyResolved = CONFLICT refusal_code::ALREADY_RESOLVED,
    AmbiguousCall = CONFLICT refusal_code::AMBIGUOUS_CALL,
    CallNotWaiting = CONFLICT refusal_code::CALL_NOT_WAITING,
    ApprovalNotOpen = CONFLICT refusal_code::APPROVAL_NOT_OPEN,
    AlreadyDecided = CONFLICT refusal_code::ALREADY_DECIDED,
    ArgumentsChanged = CONFLICT refusal_code::ARGUMENTS_CHANGED,
    LeaseLost = CONFLICT refusal_code::LEASE_LOST,
    QueryDeleted = GONE request_code::QUERY_DELETED,
    CallExpired = GONE refusal_code::CALL_EXPIRED,
    CallCancelled = GONE refusal_code::CALL_CANCELLED,
    ApprovalExpired = GONE refusal_code::APPROVAL_EXPIRED,
    HoldExpired = GONE failure_code::HOLD_EXPIRED,
    TooManyUploads = TOO_MANY_REQUESTS request_code::TOO_MANY_UPLOADS,
    // The server cannot do it.
    ModelFailed = BAD_GATEWAY request_code::MODEL_FAILED,
    QueryUnreadable = INTERNAL_SERVER_ERROR request_code::QUERY_UNREADABLE,
    ResultLost = INTERNAL_SERVER_ERROR request_code::RESULT_LOST,
    InternalError = INTERNAL_SERVER_ERROR failure_code::INTERNAL_ERROR,
    StoreUnavailable = SERVICE_UNAVAILABLE request_code::STORE_UNAVAILABLE,
    Overloaded = SERVICE_UNAVAILABLE request_code::OVERLOADED,
    ShuttingDown = SERVICE_UNAVAILABLE request_code::SHUTTING_DOWN,
}

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) details: Vec<Value>,
    /// Faults that are not in the details.
    pub(crate) omitted: usize,
    pub(crate) detail: ErrorDetail,
    cause: Option<Arc<EngineError>>,
}

/// What an edge may add to the message.
#[derive(Debug)]
pub(crate) enum ErrorDetail {
    Nothing,
    /// The body could be read and is not what the route takes: the details are its faults, and the body is echoed where
    /// there is one.
    Faults(Option<Box<Echo>>),
    /// What the protocol of this route prescribes for this error.
    Prescribed(Box<Value>),
}

/// The error of the engine; carried in the response's extensions to the layer that logs it.
#[derive(Clone, Debug)]
pub(crate) struct Cause(pub(crate) Arc<EngineError>);

/// A refusal whose body is not written yet.
#[derive(Clone, Debug)]
pub(crate) struct Refusal(pub(crate) Arc<ApiError>);

/// That a request was refused for lack of a key or a right; carried in the response's extensions to the audit log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessRefused(pub(crate) Code);

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let lists_faults = matches!(code, Code::InvalidRequest | Code::JsonTooDeep);
        let detail = if lists_faults { ErrorDetail::Faults(None) } else { ErrorDetail::Nothing };
        Self { code, message: message.into(), details: Vec::new(), omitted: 0, detail, cause: None }
    }

    /// The faults of the fields of a body, each an entry with `path`, `code` and `message`.
    pub(crate) fn of_fields(code: Code, message: impl Into<String>, faults: Vec<Value>) -> Self {
        let lists_faults = code.status() == StatusCode::UNPROCESSABLE_ENTITY;
        let detail = if lists_faults { ErrorDetail::Faults(None) } else { ErrorDetail::Nothing };
        Self { code, message: message.into(), details: faults, omitted: 0, detail, cause: None }
    }

    /// Adds the echo of the body to its faults. The body is parsed a second time, since the reader has consumed the
    /// first.
    pub(crate) fn about(mut self, sent: &[u8]) -> Self {
        if let ErrorDetail::Faults(echo) = &mut self.detail {
            *echo = serde_json::from_slice(sent).ok().map(|sent| Box::new(Echo::new(&sent)));
        }
        self
    }

    /// Adds the detail that the protocol of the route prescribes.
    pub(crate) fn with_prescribed(mut self, detail: impl Into<Value>) -> Self {
        self.detail = ErrorDetail::Prescribed(Box::new(detail.into()));
        self
    }

    /// Adds the number of faults that the details do not list.
    pub(crate) fn omitting(mut self, omitted: usize) -> Self {
        self.omitted = omitted;
        self
    }

    /// What exactly is wrong, one entry for each fault.
    pub(crate) fn with_details(mut self, details: Vec<Value>) -> Self {
        self.details = details;
        self
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        // ARK's own sentences where ARK has one: its clients show them to people.
        let (code, message) = match &error {
            EngineError::QueryNotFound(namespace, name) => return query_not_found(namespace.as_str(), name.as_str()),
            // Querying a missing agent is 422, like ARK's admission webhook; `GET`ting one is 404.
            EngineError::AgentNotFound(namespace, name) => {
                (Code::AgentNotFound, format!("Agent '{}' not found in namespace {namespace}", clip(name)))
            }
            EngineError::TeamNotFound(namespace, name) => {
                (Code::TeamNotFound, format!("Team '{}' not found in namespace {namespace}", clip(name)))
            }
            EngineError::TeamIncomplete { .. } => (Code::TeamNotFound, error.to_string()),
            EngineError::NameTaken(namespace, name) => {
                (Code::QueryExists, format!("Query '{name}' already exists in namespace {namespace}"))
            }
            EngineError::Store(StoreError::NameTaken(name)) => {
                (Code::QueryExists, format!("Query '{name}' already exists"))
            }
            EngineError::RequestReused | EngineError::Store(StoreError::RequestTaken) => (
                Code::IdempotencyKeyReused,
                "the Idempotency-Key belongs to another request; a new request needs a new key".into(),
            ),
            EngineError::QueryDeleted(_) => (Code::QueryDeleted, error.to_string()),
            EngineError::ModelNotFound { .. } => (Code::ModelNotFound, error.to_string()),
            EngineError::NoSuchModel(namespace, name) => {
                (Code::ModelNotFound, format!("Model '{}' not found in namespace {namespace}", clip(name)))
            }
            EngineError::MemoryNotFound(namespace, name) => return memory_not_found(namespace.as_str(), name),
            EngineError::Store(StoreError::ConversationBusy(id)) => (
                Code::ConversationBusy,
                format!("another query of conversation '{}' is still open; wait for its end", clip(id)),
            ),
            EngineError::InvalidArguments { tool, violations } => {
                let message = format!("the input does not fit tool `{}`", clip(tool));
                return Self::new(Code::InvalidToolArguments, message).with_details(listed_violations(violations));
            }
            EngineError::InvalidEdit { tool, violations } => {
                let message = format!("the changed arguments do not fit tool `{}`; the call still waits", clip(tool));
                return Self::new(Code::InvalidToolArguments, message).with_details(listed_violations(violations));
            }
            EngineError::InvalidValues { violations } => {
                let message = "the values do not fit the parameters that were asked for; the call still waits";
                return Self::new(Code::InvalidToolResult, message).with_details(listed_violations(violations));
            }
            EngineError::InputTemplate(_) => (Code::InvalidTemplate, error.to_string()),
            EngineError::MissingParameters(_) | EngineError::UnresolvedParameters { .. } => {
                (Code::MissingParameters, error.to_string())
            }
            EngineError::InputTooLarge(_)
            | EngineError::ParametersTooLarge
            | EngineError::Prompt(PromptError::TooLarge { .. }) => (Code::InputTooLarge, error.to_string()),
            EngineError::InvalidOutputSchema(_) => (Code::InvalidOutputSchema, error.to_string()),
            EngineError::ToolUnusable { .. } => (Code::InvalidToolDefinitions, error.to_string()),
            EngineError::ToolsNotFound { .. } => (Code::ToolsNotFound, error.to_string()),
            EngineError::Prompt(PromptError::MissingParameters { .. }) => (Code::MissingParameters, error.to_string()),
            EngineError::Prompt(PromptError::NotATemplate { .. }) => (Code::InvalidResource, error.to_string()),
            EngineError::Resource(error) => return of_resource(error),
            EngineError::Approve(ApproveError::NotFound(_)) => (Code::ResourceNotFound, error.to_string()),
            EngineError::Approve(ApproveError::NotWithheld { .. }) => (Code::NotWithheld, error.to_string()),
            EngineError::Approve(ApproveError::NotSaved(_)) => (Code::StoreUnavailable, error.to_string()),
            EngineError::CallNotFound(_) => (Code::CallNotFound, error.to_string()),
            EngineError::LeaseLost(_) => (Code::LeaseLost, error.to_string()),
            EngineError::NoResult(call) => (
                Code::ResultNotFound,
                format!("call `{call}` has no content: it is still open, or it failed without any"),
            ),
            EngineError::MayNotShorten(_) => (Code::RightMissing, error.to_string()),
            EngineError::TooManyUploads(_) => (Code::TooManyUploads, error.to_string()),
            EngineError::NothingToApprove(_) => (Code::ApprovalNotOpen, error.to_string()),
            EngineError::SeveralToApprove(_) => (Code::AmbiguousCall, error.to_string()),
            EngineError::NotHeld(_) => (Code::QueryNotHeld, error.to_string()),
            EngineError::HoldExpired(_) => (Code::HoldExpired, error.to_string()),
            EngineError::Overloaded(_) => (Code::Overloaded, error.to_string()),
            EngineError::ShuttingDown => (Code::ShuttingDown, error.to_string()),
            EngineError::Store(StoreError::Conflict(_)) => (Code::QueryChanged, error.to_string()),
            EngineError::Store(StoreError::Fenced | StoreError::Unavailable(_)) => {
                (Code::StoreUnavailable, "the store is unavailable; the request is safe to repeat".into())
            }
            EngineError::Store(StoreError::Unreadable { .. } | StoreError::Inconsistent(_)) => (
                Code::QueryUnreadable,
                "the journal of this query is not readable; other queries are not affected".into(),
            ),
            EngineError::Store(StoreError::Journal(fault)) => {
                let code = match fault {
                    JournalFault::EntryTooLarge(_) => Code::EntryTooLarge,
                    JournalFault::Full => Code::JournalFull,
                };
                (code, error.to_string())
            }
            EngineError::Store(StoreError::MissingBlob(_)) => {
                (Code::ResultLost, "the content of this result is not in the store any more".into())
            }
            EngineError::Store(StoreError::DamagedBlob(_)) => {
                (Code::ResultLost, "the content of this result is damaged".into())
            }
            EngineError::NoRandomness(_) => (Code::InternalError, INTERNAL.into()),
        };
        Self {
            code,
            message,
            details: Vec::new(),
            omitted: 0,
            detail: ErrorDetail::Nothing,
            cause: Some(Arc::new(error)),
        }
    }
}

/// Violations as the details of an error.
fn listed_violations(violations: &[Violation]) -> Vec<Value> {
    let detail = |violation: &Violation| json!({"path": violation.path, "code": violation.keyword, "message": violation.message});
    violations.iter().map(detail).collect()
}

/// ARK's sentences about resources.
fn of_resource(error: &ResourceError) -> ApiError {
    match error {
        ResourceError::NotFound(ResourceKey { kind, namespace, name }) => {
            let (kind, name) = (kind.as_str(), clip(name));
            ApiError::new(Code::ResourceNotFound, format!("{kind} '{name}' not found in namespace {namespace}"))
        }
        ResourceError::Exists(ResourceKey { kind: ResourceKind::Namespace, name, .. }) => {
            ApiError::new(Code::ResourceExists, format!("Namespace '{name}' already exists"))
        }
        ResourceError::Exists(ResourceKey { kind, namespace, name }) => {
            let (kind, name) = (kind.as_str(), clip(name));
            ApiError::new(Code::ResourceExists, format!("{kind} '{name}' already exists in namespace {namespace}"))
        }
        ResourceError::ManagedByFile { key, file } => {
            // The path of the file is not for clients.
            let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (kind, name) = (key.kind.as_str(), clip(&key.name));
            let message = format!("{kind} '{name}' is described by the file `{file}`: change it there");
            ApiError::new(Code::ManagedByFile, message)
        }
        ResourceError::ManagedByUrl { key, url } => {
            let (kind, name) = (key.kind.as_str(), clip(&key.name));
            let url = hide_in_urls(url, HIDDEN);
            ApiError::new(Code::ManagedByFile, format!("{kind} '{name}' is described at {url}: change it there"))
        }
        ResourceError::ManagedByServer(key) => {
            let (kind, name) = (key.kind.as_str(), clip(&key.name));
            let message = format!("{kind} '{name}' ships with the server: create one of another name");
            ApiError::new(Code::ManagedByServer, message)
        }
        ResourceError::Announced { key, by, server } => {
            let (kind, name) = (key.kind.as_str(), clip(&key.name));
            let message = format!("{kind} '{name}' is announced by {} '{}'", by.as_str(), clip(server));
            ApiError::new(Code::ManagedByServer, message)
        }
        ResourceError::Invalid { faults, .. } => {
            // If all faults have the same code, that is the code of the error.
            let all_are = |code: &Code| faults.listed().iter().all(|fault| fault.code == code.as_str());
            let own = [Code::UnsupportedField, Code::SecretNotAllowed, Code::AddressNotAllowed];
            let code = own.into_iter().find(all_are).unwrap_or(Code::InvalidResource);
            let sentences: Vec<_> = faults.listed().iter().map(|fault| fault.message.as_str()).collect();
            let detail = |fault: &Fault| json!({"code": fault.code, "message": fault.message, "hint": fault.hint});
            ApiError::new(code, sentences.join("; "))
                .with_details(faults.listed().iter().map(detail).collect())
                .omitting(faults.omitted())
        }
    }
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::TooLarge => Self::new(Code::PayloadTooLarge, error.to_string()),
            UploadError::Bad(BadContent::NotJson(error)) => error.into(),
            UploadError::Bad(BadContent::NotUtf8 { at }) => not_utf8(at),
            UploadError::Refused(error) => error.into(),
            UploadError::Store(error) => EngineError::Store(error).into(),
        }
    }
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        let code = match &error {
            JsonError::TooLarge { .. } | JsonError::TooManyValues { .. } => Code::PayloadTooLarge,
            JsonError::TooDeep { .. } => Code::JsonTooDeep,
            JsonError::DuplicateKey { .. } => Code::DuplicateKey,
            JsonError::Syntax { .. } => Code::InvalidJson,
        };
        let place = error.position().map(|(line, column)| json!({ "line": line, "column": column }));
        Self::new(code, format!("the body cannot be read as JSON: {error}")).with_details(place.into_iter().collect())
    }
}

/// The whole message of an internal error.
const INTERNAL: &str = "Internal server error";

/// An unexpected error of the server itself.
pub(crate) fn internal() -> ApiError {
    ApiError::new(Code::InternalError, INTERNAL)
}

/// One error for a query that never existed and for one of another namespace.
pub(crate) fn query_not_found(namespace: &str, name: &str) -> ApiError {
    ApiError::new(Code::QueryNotFound, format!("Query '{}' not found in namespace {namespace}", clip(name)))
}

pub(crate) fn memory_not_found(namespace: &str, name: &str) -> ApiError {
    ApiError::new(Code::MemoryNotFound, format!("Memory '{}' not found in namespace {namespace}", clip(name)))
}

/// One error for a call that never existed and for one of another query.
pub(crate) fn call_not_found(id: &str) -> ApiError {
    ApiError::new(Code::CallNotFound, format!("call `{}` is not a call of this query", clip(id)))
}

/// A text that is not UTF-8.
pub(crate) fn not_utf8(at: u64) -> ApiError {
    ApiError::new(Code::InvalidToolResult, format!("the text is not UTF-8 from byte {at} on; the call still waits"))
}

/// Clips what an error repeats of a request: no megabytes, and no control characters that a terminal would obey.
pub(crate) fn clip(text: &str) -> String {
    text::clip(text, 80)
}

impl ApiError {
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn details(&self) -> &[Value] {
        &self.details
    }

    /// The response without a body: the status, the headers, and what the middleware logs and records.
    pub(crate) fn to_unrendered_response(&self) -> Response {
        let code = self.code;
        let mut response = code.status().into_response();
        if matches!(code.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if code == Code::Unauthorized {
            // Not `Basic`, although it is accepted: a browser would ask for a password, and send it with every later
            // request.
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(cause) = &self.cause {
            response.extensions_mut().insert(Cause(Arc::clone(cause)));
        }
        if matches!(code.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            response.extensions_mut().insert(AccessRefused(code));
        }
        response
    }
}

/// A refusal has no shape of its own: it is carried in the response's extensions, and the middleware
/// [renders](super::render) it in the shape of the edge that the request is for.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.to_unrendered_response();
        response.extensions_mut().insert(Refusal(Arc::new(self)));
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../../../docs/errors.md");

    /// The codes that are headings in one section of the page.
    fn headings(section: &str) -> Vec<&'static str> {
        let after = PAGE.split_once(&format!("\n## {section}\n")).map(|(_, after)| after).expect("section");
        let section = after.split("\n## ").next().unwrap_or(after);
        section.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect()
    }

    #[test]
    fn the_page_of_errors_has_a_heading_for_every_code_and_no_other() {
        let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(headings("Answers"), codes);
    }

    #[test]
    fn the_page_has_a_heading_for_every_code_of_failed_queries_and_calls_and_no_other() {
        assert_eq!(headings("Failed queries"), failure_code::ALL);
        assert_eq!(headings("Failed calls"), outcome_code::ALL);
    }

    #[test]
    fn every_code_of_refusals_and_of_requests_is_a_code_of_answers() {
        for refused in refusal_code::ALL.iter().chain(request_code::ALL) {
            assert!(Code::ALL.iter().any(|code| code.as_str() == *refused), "{refused}");
        }
    }

    #[test]
    fn every_code_is_unique() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), Code::ALL.len());
    }

    #[test]
    fn the_page_names_the_status_of_every_code() {
        for code in Code::ALL {
            let heading = format!("### `{}`\n\n{} ", code.as_str(), code.status().as_u16());
            assert!(PAGE.contains(&heading), "{heading:?}");
        }
    }
}
