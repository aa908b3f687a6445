//! The handler of the description of the API.

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::ContentHash;

use crate::ark::describe;

/// `GET /openapi.json`: this API, described. It is the same for as long as the server runs, so it is written once.
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    static DOCUMENT: LazyLock<(Bytes, HeaderValue)> = LazyLock::new(|| {
        let text = describe::document().to_string();
        let tag = format!("\"{}\"", ContentHash::of(text.as_bytes()));
        // Hexadecimal digits in quotes are always a value.
        (text.into(), HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")))
    });
    let (document, tag) = &*DOCUMENT;
    let fields = [(header::ETAG, tag.clone()), (header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    if headers.get_all(header::IF_NONE_MATCH).iter().any(|known| known == tag) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, document.clone()).into_response()
}
