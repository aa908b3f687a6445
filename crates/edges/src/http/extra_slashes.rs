//! Requests whose path begins with several slashes: a base URL that ends with a slash makes `//v1` of `/v1`, which is meant.

use axum::{
    Router,
    extract::Request,
    http::{Uri, uri::PathAndQuery},
    response::Response,
};
use tower::ServiceExt as _;

/// Routes `//v1` like `/v1`. Only requests that no route takes are looked at, so others pay nothing.
pub(crate) fn merge(routes: Router) -> Router {
    let known = routes.clone();
    routes.fallback(move |request: Request| with_one_slash(known.clone(), request))
}

async fn with_one_slash(routes: Router, mut request: Request) -> Response {
    if let Some(uri) = meant(request.uri()) {
        *request.uri_mut() = uri;
    }
    match routes.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn meant(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query().map(PathAndQuery::as_str).filter(|path| path.starts_with("//"))?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("/{}", path.trim_start_matches('/')).parse().ok()?);
    Uri::from_parts(parts).ok()
}
