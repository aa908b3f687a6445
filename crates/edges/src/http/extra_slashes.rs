//! Requests whose path has more slashes than its route: a base URL that ends with a slash turns `/v1` into `//v1`, and
//! clients of A2A append one to the URL of a card.

use axum::{
    Router,
    extract::Request,
    http::{Uri, uri::PathAndQuery},
    response::Response,
};
use tower::ServiceExt as _;

use super::middleware::method_not_allowed;
use crate::Edge;

/// Routes `//v1` like `/v1`, and on A2A's paths `/tasks/` like `/tasks`. Only requests that match no route are looked
/// at, so others pay nothing.
pub(crate) fn merge(routes: Router) -> Router {
    let known = routes.clone().method_not_allowed_fallback(method_not_allowed);
    routes.fallback(move |request: Request| without_extra_slashes(known.clone(), request))
}

async fn without_extra_slashes(routes: Router, mut request: Request) -> Response {
    if let Some(uri) = meant(request.uri()) {
        *request.uri_mut() = uri;
    }
    match routes.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn meant(uri: &Uri) -> Option<Uri> {
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let path = match Edge::of(&path) {
        Edge::A2a => path.trim_end_matches('/'),
        Edge::Ark => path.as_str(),
    };
    if path == uri.path() {
        return None;
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}
