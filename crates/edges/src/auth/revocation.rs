//! Revocation: ends responses whose credential was revoked or narrowed meanwhile.
//!
//! What a request may do is decided when it arrives; its response may take a while: a long poll waits, a stream
//! continues. As soon as the credential does not permit the request any more, a response that has not begun becomes the
//! refusal that a new request would get, and one that has begun ends. A key that changes in any other way ends nothing.
//! What the request has done by then stays done: only its response is withheld.

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
    access::CredentialProof,
    gate::{self, Needs},
};
use crate::http::error::ApiError;

/// What a request was permitted to do: enough to check the permission again.
#[derive(Debug)]
pub(super) struct Permitted {
    pub(super) needs: Needs,
    /// The namespace of its URL, if it has one. Else the body may have named any namespace that the key reached.
    pub(super) namespace: Option<Namespace>,
    /// Whose request it is.
    pub(super) actor: Actor,
}

impl Permitted {
    /// Whether `grant` still permits what `granted` did; else the refusal that a new request would get.
    pub(super) fn check(&self, grant: &Grant, granted: &Grant) -> Result<(), ApiError> {
        // The same secret may belong to another key now.
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

/// Resolves when the request is not permitted any more, with the refusal that a new request would get.
type Revocation = Pin<Box<dyn Future<Output = ApiError> + Send>>;

/// Runs a handler for as long as its caller is permitted to see the response.
pub(super) async fn answer(
    answering: impl Future<Output = Response>,
    access: &Access,
    (proof, grant): (CredentialProof, Arc<Grant>),
    permitted: Permitted,
) -> Result<Response, ApiError> {
    let mut revoked: Revocation = Box::pin(access.clone().revoked(proof, grant, permitted));
    // A response that is ready is sent: it was made while the request was permitted.
    let response = tokio::select! {
        biased;
        response = answering => response,
        refusal = &mut revoked => return Err(refusal),
    };
    // A body of known length ends soon by itself.
    if response.body().size_hint().exact().is_some() {
        return Ok(response);
    }
    Ok(response.map(|body| Body::new(Revocable { body, revoked, over: false })).into_response())
}

/// A response body that ends when its credential is revoked.
struct Revocable {
    body: Body,
    revoked: Revocation,
    over: bool,
}

impl HttpBody for Revocable {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.over = self.over || self.revoked.as_mut().poll(context).is_ready();
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
