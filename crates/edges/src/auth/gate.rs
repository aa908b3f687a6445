//! The gate in front of every route: authentication, authorization, and the namespace of the request.
//!
//! A route says what it [`Needs`] in its table, and the gate is built from that, so no handler can
//! forget to ask. The namespace of a request is read here and nowhere else: a handler gets it as
//! [`Authorized`], which only this module makes. [`revocation`] decides for how long it is answered.

use std::{borrow::Cow, ops::Deref, sync::Arc};

use axum::{
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{HeaderMap, HeaderName, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use bosun_core::{Actor, Namespace};

use super::{
    Grant, Namespaces, Right,
    access::CredentialProof,
    revocation::{self, Permitted},
};
use crate::{
    AppState,
    http::{
        error::{AccessRefused, ApiError, Code, clip, internal},
        report::RequestReport,
    },
};

/// ARK's name for the end user that a program acts for.
pub(crate) const END_USER: HeaderName = HeaderName::from_static("x-forwarded-user");

/// What a route requires of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: probes, and the description of the API.
    Nothing,
    /// Any authenticated caller.
    AnyCaller,
    /// A caller that reaches the namespace of the request. The operation, which is in the body, determines the right
    /// that it needs.
    Reach,
    /// The right in the namespace of the request.
    Here(Right),
    /// The right in all namespaces: the route concerns all of them.
    Everywhere(Right),
}

impl Needs {
    pub(crate) fn right(self) -> Option<Right> {
        match self {
            Self::Nothing | Self::AnyCaller | Self::Reach => None,
            Self::Here(right) | Self::Everywhere(right) => Some(right),
        }
    }
}

/// A value that the caller is authorized to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorized<T>(T);

impl<T> Deref for Authorized<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The authenticated caller.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    /// A warning about how the request was understood.
    pub(crate) warning: Option<&'static str>,
    grant: Arc<Grant>,
}

impl Caller {
    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// A namespace other than that of the request, if the caller may do there what this route does.
    pub(crate) fn reach(&self, namespace: Namespace) -> Result<Authorized<Namespace>, ApiError> {
        reach(&self.grant, namespace)
    }
}

/// A handler without the gate in front of it has no caller, and is not served.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(ungated)
    }
}

/// A bug: the route is in no table.
fn ungated() -> ApiError {
    tracing::error!("a route has no gate, and is not served");
    internal()
}

/// The namespace of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestNamespace {
    namespace: Authorized<Namespace>,
    /// The request names it; else it is the caller's own namespace.
    pub(crate) is_named: bool,
}

impl Deref for RequestNamespace {
    type Target = Namespace;
    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestNamespace {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(ungated)
    }
}

/// The actor that was refused; carried in the response's extensions to the audit log.
#[derive(Clone, Debug)]
pub(crate) struct RefusedActor(pub(crate) Actor);

/// Lets a request through to its handler, or answers it.
pub(crate) async fn check(
    State((app, needs)): State<(AppState, Needs)>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if needs == Needs::Nothing {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let Some((proof, grant)) = app.access.authenticate(&parts.headers).await else { return Err(unauthorized()) };
    let actor = grant.actor.clone();
    let mut response = match pass(&app, needs, (proof, grant), Request::from_parts(parts, body), next).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    if response.extensions().get::<AccessRefused>().is_some() {
        response.extensions_mut().insert(RefusedActor(actor));
    }
    Ok(response)
}

/// The same for an authenticated caller.
async fn pass(
    app: &AppState,
    needs: Needs,
    (proof, grant): (CredentialProof, Arc<Grant>),
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    check_right(needs, &grant)?;
    let mut named = None;
    if let Needs::Here(_) | Needs::Reach = needs {
        named = requested_namespace(&mut parts).await?;
        let namespace = reach(&grant, named.clone().unwrap_or_else(|| grant.namespaces.own()))?;
        parts.extensions.insert(RequestNamespace { namespace, is_named: named.is_some() });
    }
    let (actor, warning) = acting_as(&grant, &parts.headers)?;
    let permitted = Permitted { needs, namespace: named, actor: actor.clone() };
    parts.extensions.insert(Caller { actor, warning, grant: Arc::clone(&grant) });
    let answering = next.run(Request::from_parts(parts, body));
    // Without a credential there is nothing to revoke.
    if proof == CredentialProof::Open {
        return Ok(answering.await);
    }
    revocation::answer(answering, &app.access, (proof, grant), permitted).await
}

/// One refusal for a missing header and for a key that is unknown, expired or revoked.
pub(super) fn unauthorized() -> ApiError {
    ApiError::new(Code::Unauthorized, "Missing or invalid authorization header")
}

/// Checks that the grant has the right that a route needs, in all namespaces if it needs that.
pub(crate) fn check_right(needs: Needs, grant: &Grant) -> Result<(), ApiError> {
    if let Some(right) = needs.right().filter(|right| !grant.rights.has(*right)) {
        let message = format!("this needs the right `{}`, which the key does not have", right.as_str());
        return Err(ApiError::new(Code::RightMissing, message));
    }
    if matches!(needs, Needs::Everywhere(_)) { check_everywhere(grant) } else { Ok(()) }
}

pub(super) fn check_everywhere(grant: &Grant) -> Result<(), ApiError> {
    if grant.namespaces == Namespaces::All {
        return Ok(());
    }
    let message = "this concerns all namespaces, and the key reaches only some";
    Err(ApiError::new(Code::NamespaceForbidden, message))
}

pub(super) fn check_namespace(grant: &Grant, namespace: &Namespace) -> Result<(), ApiError> {
    if grant.namespaces.include(namespace) {
        return Ok(());
    }
    // The same for one that exists and one that does not: nothing is looked up.
    Err(ApiError::new(Code::NamespaceForbidden, format!("the key does not reach namespace {namespace}")))
}

fn reach(grant: &Grant, namespace: Namespace) -> Result<Authorized<Namespace>, ApiError> {
    check_namespace(grant, &namespace)?;
    Ok(Authorized(namespace))
}

/// The namespace in the path or in `?namespace=`, if there is one; all of them must be the same.
async fn requested_namespace(parts: &mut Parts) -> Result<Option<Namespace>, ApiError> {
    let path = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|_| ApiError::new(Code::InvalidParameter, "the path is not UTF-8"))?;
    let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let of_path = path.iter().filter(|(name, _)| *name == "namespace").map(|(_, value)| Cow::Borrowed(value));
    let of_query = query.filter(|(name, _)| name == "namespace").map(|(_, value)| value);
    let report = RequestReport::new(Code::InvalidParameter, Vec::new());
    let mut named: Option<Namespace> = None;
    for text in of_path.chain(of_query) {
        match text.parse() {
            Ok(namespace) if named.as_ref().is_some_and(|known| *known != namespace) => {
                report.fault("namespace", "invalid", "is not the namespace of the path");
            }
            Ok(namespace) => named = Some(namespace),
            Err(error) => report.fault("namespace", "invalid", error.to_string()),
        }
    }
    report.conclude()?;
    Ok(named)
}

/// The actor of a request: the key, or the end user that it names and may speak for.
fn acting_as(grant: &Grant, headers: &HeaderMap) -> Result<(Actor, Option<&'static str>), ApiError> {
    let mut named = headers.get_all(END_USER).iter();
    let Some(user) = named.next() else { return Ok((grant.actor.clone(), None)) };
    if grant.may_act_for.is_empty() {
        let warning = "`X-Forwarded-User` was ignored: this caller may not act for others";
        return Ok((grant.actor.clone(), Some(warning)));
    }
    let user = match (str::from_utf8(user.as_bytes()), named.next()) {
        (Ok(user), None) => user,
        _ => return Err(end_user_forbidden("`X-Forwarded-User` must name one end user, in UTF-8")),
    };
    check_end_user(grant, user)?;
    let actor = grant.actor.acting_for(user).map_err(|error| end_user_forbidden(error.to_string()))?;
    Ok((actor, None))
}

pub(super) fn check_end_user(grant: &Grant, user: &str) -> Result<(), ApiError> {
    if grant.may_act_for.include(user) {
        return Ok(());
    }
    Err(end_user_forbidden(format!("the key may not act for `{}`", clip(user))))
}

fn end_user_forbidden(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::EndUserForbidden, message)
}
