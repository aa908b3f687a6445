//! The door that every request goes through, whatever it asks for.
//!
//! It is one layer and not four: each layer of a router costs every request copies of all that lies behind
//! it. A request is seen first and forgotten last, so that a refusal has an id and is counted, too.

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
    error::{ApiError, Code, Refused},
    guard::Hosts,
    observe::{self, Observer},
};
use crate::{App, auth::gate::RefusedActor};

#[derive(Debug)]
struct Door {
    app: App,
    hosts: Hosts,
    observer: Observer,
}

/// Puts `router` behind the door, and answers what it has no route for.
pub(crate) fn behind(router: Router, app: App) -> Router {
    let hosts = Hosts::new(&app.hosts, !app.access.is_open());
    let observer = Observer::new(app.engine.settings().exports_spans);
    let door = Door { app, hosts, observer };
    router
        .fallback(crate::ark::refused::no_route)
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "this route does not take this method")
        })
        .layer(middleware::from_fn_with_state(Arc::new(door), pass))
}

async fn pass(State(door): State<Arc<Door>>, mut request: Request, next: Next) -> Response {
    let seen = door.observer.see(&mut request);
    let answer = async {
        let answered = AssertUnwindSafe(door.answer(request, next)).catch_unwind().await;
        let response = answered.unwrap_or_else(observe::panicked);
        observe::log_cause(&response);
        response
    };
    let mut response = answer.instrument(seen.span.clone()).await;
    if let Some(Refused(code)) = response.extensions().get::<Refused>() {
        let actor = response.extensions().get::<RefusedActor>().map(|RefusedActor(actor)| actor);
        let records = door.app.refusals.note(door.app.engine.now(), actor, *code, seen.method_and_route());
        door.app.engine.note_refusals(records);
    }
    seen.end(&door.app.requests, &mut response);
    response
}

impl Door {
    async fn answer(&self, request: Request, next: Next) -> Response {
        if let Err(refusal) = self.hosts.check(request.uri().authority(), request.headers()) {
            return refusal.into_response();
        }
        drain::answer(self.app.engine.draining(), request, next).await
    }
}
