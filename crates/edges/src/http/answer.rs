//! Bodies of answers, as JSON.
//!
//! Written in one piece into a buffer that nearly every answer fits into. axum's own `Json` begins with
//! 128 bytes and grows from there.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::error::internal;

/// Larger than a query that has made a few calls.
const TYPICAL_BYTES: usize = 2 * 1024;

/// An answer whose body is this value.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(TYPICAL_BYTES);
        if let Err(error) = serde_json::to_writer(&mut body, &self.0) {
            tracing::error!(error = %error, "an answer cannot be written as JSON");
            return internal().into_response();
        }
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
    }
}
