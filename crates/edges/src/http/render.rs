//! Renders refusals: the body of an error response, in the shape of the edge that its path belongs to.
//!
//! Handlers, the gate and the middleware refuse in the same way, whatever the protocol; only here does a refusal get a
//! shape. So a 401 on A2A's paths is A2A's.

use axum::{
    body::Body,
    http::{HeaderValue, Method, header},
    response::Response,
};

use super::error::Refusal;
use crate::{Edge, a2a, ark};

/// Writes the body of a refusal, if the response is one that has none yet.
pub(crate) fn finish(method: &Method, path: &str, mut response: Response) -> Response {
    let Some(Refusal(refusal)) = response.extensions_mut().remove::<Refusal>() else { return response };
    #[cfg(feature = "grpc")]
    if a2a::grpc::owns(path) {
        return a2a::error::render_grpc(refusal, response);
    }
    let (media_type, body) = match Edge::of(path) {
        Edge::Ark => ark::refusal::render(refusal),
        Edge::A2a => a2a::error::render(path, refusal),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    if *method != Method::HEAD {
        *response.body_mut() = Body::from(body);
    }
    response
}
