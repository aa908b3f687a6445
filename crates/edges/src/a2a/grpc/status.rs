//! The status of an answer over gRPC: a code, a message, and details as `google.rpc.Status` has them.

use std::collections::HashMap;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::frame::CONTENT_TYPE;

/// How an answer has ended.
#[derive(Debug)]
pub(crate) struct GrpcStatus {
    /// The name of the code, as HTTP+JSON writes it.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The reason and the domain of the `ErrorInfo`.
    pub(crate) info: Option<(String, &'static str)>,
    /// Paths of the request and what is wrong there.
    pub(crate) violations: Vec<(String, String)>,
}

impl GrpcStatus {
    pub(super) fn ok() -> Self {
        Self { code: "OK", message: String::new(), info: None, violations: Vec::new() }
    }

    /// Adds it to the headers or the trailers of an answer.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        let mut details = ErrorDetails::new();
        if let Some((reason, domain)) = self.info {
            details.set_error_info(reason, domain, HashMap::new());
        }
        for (field, what) in self.violations {
            details.add_bad_request_violation(field, what);
        }
        let code = code(self.code);
        let status = if code == Code::Ok {
            Status::new(code, self.message)
        } else {
            Status::with_error_details(code, self.message, details)
        };
        // A message of any text can be a header: it is percent-encoded.
        let _ = status.add_header(headers);
    }

    /// An answer that is nothing but this status, with what else a response carries.
    pub(crate) fn write_to(self, mut response: Response) -> Response {
        *response.status_mut() = StatusCode::OK;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
        self.add_to(response.headers_mut());
        response
    }
}

fn code(name: &str) -> Code {
    match name {
        "OK" => Code::Ok,
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "DEADLINE_EXCEEDED" => Code::DeadlineExceeded,
        "NOT_FOUND" => Code::NotFound,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "ABORTED" => Code::Aborted,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "UNAVAILABLE" => Code::Unavailable,
        _ => Code::Internal,
    }
}
