//! Errors as A2A writes them: JSON-RPC errors, and `google.rpc.Status` over HTTP+JSON.
//!
//! [`ErrorKind`] is the protocol's vocabulary. A refusal of the engine or of the gate gets its kind in one exhaustive
//! match over [`Code`], so that a new code does not compile until it has one. Every error identifies itself to programs
//! in an `ErrorInfo`: in the protocol's domain if the protocol defines it, in ours otherwise.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bosun_engine::EngineError;
use serde_json::{Value, json};

use crate::http::error::{ApiError, Code};

/// What went wrong, in the protocol's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorKind {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    TaskNotFound,
    TaskNotCancelable,
    PushNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    ExtendedCardNotConfigured,
    VersionNotSupported,
    /// The state of the caller or the server does not permit it, independent of the protocol: the status is that of the
    /// code.
    Refused(Code),
}

/// Which edition of 1.0 decides the HTTP status of an error: they differ for three kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorMapping {
    /// 409 for tasks that cannot be cancelled, 415 for media types.
    V1_0_0,
    #[default]
    V1_0_1,
}

impl ErrorKind {
    fn rpc_code(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::TaskNotFound => -32001,
            Self::TaskNotCancelable => -32002,
            Self::PushNotSupported => -32003,
            Self::UnsupportedOperation => -32004,
            Self::ContentTypeNotSupported => -32005,
            Self::ExtendedCardNotConfigured => -32007,
            Self::VersionNotSupported => -32009,
            // The one code of JSON-RPC's range for servers that A2A does not use.
            Self::Refused(_) => -32000,
        }
    }

    /// The reason of the `ErrorInfo`, where the protocol has one.
    fn reason(self) -> Option<&'static str> {
        match self {
            Self::TaskNotFound => Some("TASK_NOT_FOUND"),
            Self::TaskNotCancelable => Some("TASK_NOT_CANCELABLE"),
            Self::PushNotSupported => Some("PUSH_NOTIFICATION_NOT_SUPPORTED"),
            Self::UnsupportedOperation => Some("UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => Some("CONTENT_TYPE_NOT_SUPPORTED"),
            Self::ExtendedCardNotConfigured => Some("EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
            Self::VersionNotSupported => Some("VERSION_NOT_SUPPORTED"),
            Self::Parse
            | Self::InvalidRequest
            | Self::MethodNotFound
            | Self::InvalidParams
            | Self::Internal
            | Self::Refused(_) => None,
        }
    }

    /// The HTTP status over HTTP+JSON, and the name of the gRPC status that goes with it.
    fn status(self, mapping: ErrorMapping) -> (StatusCode, &'static str) {
        match (self, mapping) {
            (Self::Parse | Self::InvalidRequest | Self::InvalidParams, _) => {
                (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT")
            }
            (Self::MethodNotFound, _) => (StatusCode::NOT_FOUND, "UNIMPLEMENTED"),
            (Self::Internal, _) => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
            (Self::TaskNotFound, _) => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            (Self::TaskNotCancelable, ErrorMapping::V1_0_0) => (StatusCode::CONFLICT, "FAILED_PRECONDITION"),
            (Self::ContentTypeNotSupported, ErrorMapping::V1_0_0) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "INVALID_ARGUMENT")
            }
            (Self::ContentTypeNotSupported, ErrorMapping::V1_0_1) => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
            (
                Self::PushNotSupported
                | Self::UnsupportedOperation
                | Self::ExtendedCardNotConfigured
                | Self::VersionNotSupported,
                ErrorMapping::V1_0_0,
            ) => (StatusCode::BAD_REQUEST, "UNIMPLEMENTED"),
            (
                Self::TaskNotCancelable
                | Self::PushNotSupported
                | Self::UnsupportedOperation
                | Self::ExtendedCardNotConfigured
                | Self::VersionNotSupported,
                ErrorMapping::V1_0_1,
            ) => (StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
            (Self::Refused(code), _) => (code.status(), grpc_status(code.status())),
        }
    }
}

fn grpc_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        405 | 501 => "UNIMPLEMENTED",
        408 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        413 | 422 => "INVALID_ARGUMENT",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

/// The kind of a refusal.
fn kind_of(code: Code) -> ErrorKind {
    match code {
        Code::InvalidJson | Code::DuplicateKey | Code::JsonTooDeep => ErrorKind::Parse,
        Code::UnsupportedMediaType => ErrorKind::ContentTypeNotSupported,
        Code::QueryNotFound | Code::QueryDeleted => ErrorKind::TaskNotFound,
        Code::ConversationBusy => ErrorKind::UnsupportedOperation,
        Code::RouteNotFound | Code::NotImplemented => ErrorKind::MethodNotFound,
        Code::InvalidParameter
        | Code::InvalidEventId
        | Code::InvalidRequest
        | Code::UnsupportedField
        | Code::FrozenField
        | Code::UnsupportedTarget
        | Code::InvalidToolDefinitions
        | Code::InvalidToolResult
        | Code::TooManyResults
        | Code::InvalidToolArguments
        | Code::InvalidOutputSchema
        | Code::InvalidTemplate
        | Code::MissingParameters
        | Code::InputTooLarge
        | Code::EntryTooLarge
        | Code::IdempotencyKeyReused
        | Code::ToolsNotFound
        | Code::MemoryNotFound
        | Code::CallNotFound
        | Code::AlreadyResolved
        | Code::AmbiguousCall
        | Code::CallNotWaiting
        | Code::CallExpired
        | Code::CallCancelled
        | Code::InvalidDecision
        | Code::ApprovalNotOpen
        | Code::AlreadyDecided
        | Code::ArgumentsChanged
        | Code::ApprovalExpired
        | Code::LeaseLost => ErrorKind::InvalidParams,
        Code::QueryUnreadable | Code::ResultLost | Code::InternalError => ErrorKind::Internal,
        Code::RequestTimeout
        | Code::PayloadTooLarge
        | Code::Unauthorized
        | Code::RightMissing
        | Code::NamespaceForbidden
        | Code::EndUserForbidden
        | Code::HostNotAllowed
        | Code::OriginNotAllowed
        | Code::MethodNotAllowed
        | Code::AgentNotFound
        | Code::TeamNotFound
        | Code::ModelNotFound
        | Code::InvalidResource
        | Code::SecretNotAllowed
        | Code::AddressNotAllowed
        | Code::InvalidConfiguration
        | Code::NamespaceNotFound
        | Code::ConversationNotFound
        | Code::ResourceNotFound
        | Code::ResultNotFound
        | Code::RangeNotSatisfiable
        | Code::QueryExists
        | Code::ResourceExists
        | Code::ManagedByFile
        | Code::ManagedByServer
        | Code::NotWithheld
        | Code::QueryChanged
        | Code::QueryNotHeld
        | Code::QueryNotCompleted
        | Code::JournalFull
        | Code::HoldExpired
        | Code::TooManyUploads
        | Code::ModelFailed
        | Code::StoreUnavailable
        | Code::Overloaded
        | Code::ShuttingDown => ErrorKind::Refused(code),
    }
}

/// A request that failed or was refused.
#[derive(Debug)]
pub(super) struct A2aError {
    kind: ErrorKind,
    message: String,
    /// Paths of the request and what is wrong there.
    violations: Vec<(String, String)>,
    /// The refusal that it was made from, with the headers and the cause.
    refusal: Option<Box<ApiError>>,
}

impl A2aError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), violations: Vec::new(), refusal: None }
    }

    /// Faults of the parameters, each with its path.
    pub(super) fn invalid(message: impl Into<String>, violations: Vec<(String, String)>) -> Self {
        Self { kind: ErrorKind::InvalidParams, message: message.into(), violations, refusal: None }
    }

    #[cfg(test)]
    pub(super) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The reason and the domain of its `ErrorInfo`.
    fn info(&self) -> Option<(String, &'static str)> {
        let own = self.refusal.as_ref().map(|refusal| refusal.code.as_str().to_uppercase());
        match (self.kind.reason(), own) {
            (Some(reason), _) => Some((reason.to_owned(), "a2a-protocol.org")),
            (None, Some(code)) => Some((code, "bosun.dev")),
            (None, None) => None,
        }
    }

    fn details(&self) -> Vec<Value> {
        let info = self.info().map(|(reason, domain)| {
            json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain, "metadata": {}})
        });
        let violations = (!self.violations.is_empty()).then(|| {
            let listed: Vec<_> =
                self.violations.iter().map(|(field, what)| json!({"field": field, "description": what})).collect();
            json!({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": listed})
        });
        info.into_iter().chain(violations).collect()
    }

    /// The error object of a JSON-RPC answer.
    pub(super) fn to_rpc(&self) -> Value {
        let mut error = json!({"code": self.kind.rpc_code(), "message": self.message});
        let details = self.details();
        if !details.is_empty() {
            error["data"] = Value::Array(details);
        }
        error
    }

    /// A JSON-RPC answer. Errors of the application are answers like any other; refusals keep their status.
    pub(super) fn into_rpc_response(self, id: &Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": id, "error": self.to_rpc()});
        let status = match self.kind {
            ErrorKind::Refused(code) => code.status(),
            _ => StatusCode::OK,
        };
        self.finish(status, "application/json", &body)
    }

    /// The answer over HTTP+JSON.
    pub(super) fn into_rest_response(self, mapping: ErrorMapping, media_type: &'static str) -> Response {
        let (status, name) = self.kind.status(mapping);
        let body = json!({"error": {
            "code": status.as_u16(), "status": name, "message": self.message, "details": self.details(),
        }});
        self.finish(status, media_type, &body)
    }

    /// The status over gRPC, with the same details.
    #[cfg(feature = "grpc")]
    pub(super) fn to_grpc(&self, mapping: ErrorMapping) -> super::grpc::GrpcStatus {
        let violations = self.violations.clone();
        super::grpc::GrpcStatus {
            code: self.kind.status(mapping).1,
            message: self.message.clone(),
            info: self.info(),
            violations,
        }
    }

    /// The answer over gRPC.
    #[cfg(feature = "grpc")]
    pub(super) fn into_grpc_response(self, mapping: ErrorMapping) -> Response {
        let response = match &self.refusal {
            Some(refusal) => refusal.to_unrendered_response(),
            None => StatusCode::OK.into_response(),
        };
        self.to_grpc(mapping).write_to(response)
    }

    /// Keeps the headers and the cause of a refusal, which the middleware logs and records.
    fn finish(self, status: StatusCode, media_type: &'static str, body: &Value) -> Response {
        let mut response = match &self.refusal {
            Some(refusal) => refusal.to_unrendered_response(),
            None => StatusCode::OK.into_response(),
        };
        *response.status_mut() = status;
        *response.body_mut() = Body::from(body.to_string());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        response
    }
}

impl From<ApiError> for A2aError {
    fn from(refusal: ApiError) -> Self {
        let violation = |detail: &Value| {
            let text = |name: &str| detail[name].as_str().map(str::to_owned);
            Some((text("path")?, text("message")?))
        };
        Self {
            kind: kind_of(refusal.code),
            message: refusal.message().to_owned(),
            violations: refusal.details().iter().filter_map(violation).collect(),
            refusal: Some(Box::new(refusal)),
        }
    }
}

impl From<EngineError> for A2aError {
    fn from(error: EngineError) -> Self {
        // The message of the shared table is worded for ARK; clients of this edge know tasks.
        match &error {
            EngineError::QueryNotFound(_, name) => {
                let name = name.to_string();
                task_not_found(&name, Some(error))
            }
            EngineError::RequestReused => Self::new(
                ErrorKind::InvalidParams,
                "the messageId belongs to another message; a new message needs a new id",
            ),
            _ => ApiError::from(error).into(),
        }
    }
}

/// The same error for a task that never existed, one of another agent and one of another namespace.
pub(super) fn task_not_found(id: &str, cause: Option<EngineError>) -> A2aError {
    let refusal = cause.map(|cause| Box::new(ApiError::from(cause)));
    let message = format!("task '{}' was not found", crate::http::error::clip(id));
    A2aError { kind: ErrorKind::TaskNotFound, message, violations: Vec::new(), refusal }
}

fn of_refusal(refusal: Arc<ApiError>) -> A2aError {
    match Arc::into_inner(refusal) {
        Some(refusal) => A2aError::from(refusal),
        None => A2aError::new(ErrorKind::Internal, "Internal server error"),
    }
}

/// The same over gRPC, where the status is in the headers.
#[cfg(feature = "grpc")]
pub(crate) fn render_grpc(refusal: Arc<ApiError>, response: Response) -> Response {
    of_refusal(refusal).to_grpc(ErrorMapping::default()).write_to(response)
}

/// Renders a refusal of the gate or the middleware, which have not read the request: its JSON-RPC id is not known.
pub(crate) fn render(path: &str, refusal: Arc<ApiError>) -> (HeaderValue, Vec<u8>) {
    let error = of_refusal(refusal);
    let body = if super::is_rpc(path) {
        json!({"jsonrpc": "2.0", "id": null, "error": error.to_rpc()})
    } else {
        let (status, name) = error.kind.status(ErrorMapping::default());
        json!({"error": {"code": status.as_u16(), "status": name, "message": error.message, "details": error.details()}})
    };
    (HeaderValue::from_static("application/json"), body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ErrorKind, rpc: i32, in_1_0_0: u16, in_1_0_1: u16) {
        assert_eq!(kind.rpc_code(), rpc, "{kind:?}");
        assert_eq!(kind.status(ErrorMapping::V1_0_0).0.as_u16(), in_1_0_0, "{kind:?}");
        assert_eq!(kind.status(ErrorMapping::V1_0_1).0.as_u16(), in_1_0_1, "{kind:?}");
    }

    #[test]
    fn every_kind_has_its_code_and_a_status_in_both_editions() {
        check(ErrorKind::TaskNotFound, -32001, 404, 404);
        check(ErrorKind::TaskNotCancelable, -32002, 409, 400);
        check(ErrorKind::PushNotSupported, -32003, 400, 400);
        check(ErrorKind::UnsupportedOperation, -32004, 400, 400);
        check(ErrorKind::ContentTypeNotSupported, -32005, 415, 400);
        check(ErrorKind::VersionNotSupported, -32009, 400, 400);
        check(ErrorKind::InvalidParams, -32602, 400, 400);
        check(ErrorKind::Internal, -32603, 500, 500);
        check(ErrorKind::Refused(Code::Unauthorized), -32000, 401, 401);
        check(ErrorKind::Refused(Code::Overloaded), -32000, 503, 503);
    }

    #[test]
    fn an_error_of_the_protocol_names_its_reason_and_a_refusal_its_code() {
        let missing = A2aError::new(ErrorKind::TaskNotFound, "no").to_rpc();
        assert_eq!(missing["data"][0]["reason"], "TASK_NOT_FOUND");
        assert_eq!(missing["data"][0]["domain"], "a2a-protocol.org");
        let late = A2aError::from(ApiError::new(Code::CallExpired, "late")).to_rpc();
        assert_eq!((&late["code"], &late["data"][0]["reason"]), (&json!(-32602), &json!("CALL_EXPIRED")));
        assert_eq!(late["data"][0]["domain"], "bosun.dev");
        let invalid = A2aError::invalid("bad", vec![("message.parts".into(), "is empty".into())]).to_rpc();
        assert_eq!(
            invalid["data"][0]["fieldViolations"],
            json!([{"field": "message.parts", "description": "is empty"}])
        );
    }
}
