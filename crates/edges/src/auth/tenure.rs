//! How long somebody is answered.
//!
//! What a request may do is decided when it comes; its answer may take a while: a long poll waits, a stream goes on.
//! As soon as its key does not allow it any more, whoever still waits for an answer is told what a new request would
//! be told, and an answer that has begun ends. A key that changes in any other way ends nothing. What the request
//! has done by then stays done: only its answer is withheld.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::{IntoResponse, Response},
};
use bosun_core::{Actor, Namespace};
use hyper::body::{Frame, SizeHint};

use super::{
    Access, Grant, Namespaces,
    access::Proof,
    gate::{self, Needs},
};
use crate::http::error::ApiError;

/// What a request was allowed: enough to ask once more whether it is.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) needs: Needs,
    /// Where it is done, if its address says so. Else a body may have named any namespace that the key reached.
    pub(super) namespace: Option<Namespace>,
    /// Whose it is.
    pub(super) actor: Actor,
}

impl Errand {
    /// Whether `grant` still allows what `granted` did; else what a new request would be told.
    pub(super) fn check(&self, grant: &Grant, granted: &Grant) -> Result<(), ApiError> {
        // The secret may have been given to somebody else.
        if self.actor.key() != grant.actor.key() {
            return Err(gate::unauthorized());
        }
        gate::check_right(self.needs, grant)?;
        match (&self.namespace, &granted.namespaces) {
            (Some(namespace), _) => gate::check_namespace(grant, namespace)?,
            (None, Namespaces::Listed(listed)) => {
                listed.iter().try_for_each(|namespace| gate::check_namespace(grant, namespace))?;
            }
            (None, Namespaces::All) => gate::check_everywhere(grant)?,
        }
        match self.actor.user() {
            Some(user) if self.actor != grant.actor => gate::check_end_user(grant, user),
            _ => Ok(()),
        }
    }
}

/// Resolves when an errand is not allowed any more, with what a new request would be told.
type Withdrawn = Pin<Box<dyn Future<Output = ApiError> + Send>>;

/// Answers a request as long as it may be answered.
pub(super) async fn answer(
    answering: impl Future<Output = Response>,
    access: &Access,
    (proof, grant): (Proof, Arc<Grant>),
    errand: Errand,
) -> Result<Response, ApiError> {
    let mut withdrawn: Withdrawn = Box::pin(access.clone().withdrawn(proof, grant, errand));
    // An answer that is there is given: it was made while it was allowed.
    let response = tokio::select! {
        biased;
        response = answering => response,
        refusal = &mut withdrawn => return Err(refusal),
    };
    // One of known length ends soon by itself.
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    Ok(response.map(|body| Body::new(Revocable { body, withdrawn, over: false })).into_response())
}

/// An answer that ends when it is not allowed any more.
struct Revocable {
    body: Body,
    withdrawn: Withdrawn,
    over: bool,
}

impl HttpBody for Revocable {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.over = self.over || self.withdrawn.as_mut().poll(context).is_ready();
        if self.over {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
