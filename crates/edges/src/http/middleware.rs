//! The outermost middleware: every request of every route passes through it.
//!
//! One layer in place of four, since each layer of a router costs every request a copy of all services behind it. The
//! request is observed first and its observation ends last, so that a refusal has a request id and is counted, too.

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use tracing::Instrument;

use super::{
    drain,
    error::{AccessRefused, ApiError, Code},
    guard::Hosts,
    observe::{self, Observer},
    render,
};
use crate::{AppState, auth::gate::RefusedActor};

#[derive(Debug)]
struct Middleware {
    app: AppState,
    hosts: Hosts,
    observer: Observer,
}

/// Wraps `router` in the middleware.
pub(crate) fn wrap(router: Router, app: AppState) -> Router {
    let hosts = Hosts::new(&app.hosts, !app.access.is_open());
    let observer = Observer::new(app.engine.settings().exports_spans);
    let state = Middleware { app, hosts, observer };
    router
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::new(state), handle))
}

pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "this route does not allow this method")
}

async fn handle(State(middleware): State<Arc<Middleware>>, mut request: Request, next: Next) -> Response {
    let observed = middleware.observer.begin(&mut request);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = async {
        let answered = AssertUnwindSafe(middleware.answer(request, next)).catch_unwind().await;
        let response = answered.unwrap_or_else(observe::panicked);
        observe::log_cause(&response);
        render::finish(&method, &path, response)
    };
    let mut response = answer.instrument(observed.span.clone()).await;
    if let Some(AccessRefused(code)) = response.extensions().get::<AccessRefused>() {
        let actor = response.extensions().get::<RefusedActor>().map(|RefusedActor(actor)| actor);
        let records =
            middleware.app.refusals.note(middleware.app.engine.now(), actor, *code, observed.method_and_route());
        middleware.app.engine.note_refusals(records);
    }
    observed.end(&middleware.app.requests, &mut response);
    response
}

impl Middleware {
    async fn answer(&self, request: Request, next: Next) -> Response {
        if let Err(refusal) = self.hosts.check(request.uri().authority(), request.headers()) {
            return refusal.into_response();
        }
        drain::answer(self.app.engine.draining(), request, next).await
    }
}
