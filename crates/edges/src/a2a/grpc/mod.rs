//! The gRPC binding: `lf.a2a.v1.A2AService`, behind the feature `grpc`.
//!
//! Messages are read and written by [`message`], frames of gRPC by [`frame`], errors by [`status`]. Everything between is
//! that of JSON-RPC: the messages of the protocol have a JSON form that is normative, so a request is its parameters in
//! 1.0, and its result is the answer. The agent is in the field `tenant`, as the card says: `namespace/name`, or nothing
//! for the default one. A request passes through the same gate, limits and middleware as any other. 0.3 has another
//! service and is absent.

mod frame;
mod message;
mod status;

use axum::{
    Router,
    extract::{Request, State},
    http::HeaderMap,
    response::Response,
};
use bosun_core::Namespace;
use serde_json::Value;

use super::{
    AgentPath,
    error::{A2aError, ErrorKind},
    negotiate::{self, EXTENSIONS, Generation},
    operations::AgentRequest,
    rpc::{self, Answer},
    stream::Binding,
};
use crate::{
    AppState,
    auth::gate::{Caller, Needs::Reach, RequestNamespace},
    http::{error::clip, extract, routes::routes, trace::Trace},
};

pub(super) use frame::respond;
pub(super) use message::write_event;
pub(super) use status::GrpcStatus;

const SERVICE: &str = "/lf.a2a.v1.A2AService/";

/// Whether a path is one of the service.
pub(crate) fn owns(path: &str) -> bool {
    path.starts_with(SERVICE)
}

routes! {
    /// The methods of the service.
    GRPC service {
        "/lf.a2a.v1.A2AService/{method}" => post call Reach;
    }
}

/// The service alone: its listener serves nothing else.
pub(crate) fn router(app: &AppState) -> Router<AppState> {
    debug_assert!(GRPC.iter().all(|route| owns(route.path)), "refusals are rendered by the path");
    service(Router::new(), app, "")
}

/// `POST /lf.a2a.v1.A2AService/{method}`
async fn call(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Trace(trace): Trace,
    request: Request,
) -> Response {
    let (headers, path) = (request.headers().clone(), request.uri().path().to_owned());
    let mapping = app.error_mapping();
    let name = path.strip_prefix(SERVICE).unwrap_or_default();
    let answered = async {
        check_version(&headers)?;
        let no_method = || A2aError::new(ErrorKind::MethodNotFound, format!("there is no method `{}`", clip(name)));
        let method = rpc::method_of_1_0(name).ok_or_else(no_method)?;
        let codec = message::codec(name).ok_or_else(no_method)?;
        let body = extract::read(request).await?;
        let params = (codec.read)(frame::read(&headers, &body)?)?;
        let (path, namespace) = agent_of(&params, &caller, namespace)?;
        let agent = path.find(&app, &namespace)?;
        let asked = AgentRequest { app, caller, namespace, agent, generation: Generation::V1, trace };
        match rpc::execute(asked, method, params, &headers, Binding::Grpc).await? {
            Answer::Stream(response) => Ok(response),
            Answer::Result(result) => (codec.write)(result).map(frame::respond_once),
        }
    };
    let mut response = answered.await.unwrap_or_else(|error: A2aError| error.into_grpc_response(mapping));
    if negotiate::activates_client_tools(&headers) {
        response.headers_mut().insert(EXTENSIONS, negotiate::activated());
    }
    response
}

/// The service is of 1.0; a client that names no version means it, since 0.3 has a service of another name.
fn check_version(headers: &HeaderMap) -> Result<(), A2aError> {
    match negotiate::generation(headers, &axum::http::Uri::default())? {
        Some(Generation::V1) | None => Ok(()),
        Some(Generation::V03) => {
            let message = "A2A version `0.3` is not supported over gRPC; this service is of 1.0";
            Err(A2aError::new(ErrorKind::VersionNotSupported, message))
        }
    }
}

/// The agent that a request is for, in a namespace that the caller reaches.
fn agent_of(params: &Value, caller: &Caller, own: RequestNamespace) -> Result<(AgentPath, Namespace), A2aError> {
    let tenant = params["tenant"].as_str().unwrap_or_default();
    if tenant.is_empty() {
        return Ok((AgentPath(None), Namespace::clone(&own)));
    }
    let named = tenant.split_once('/').and_then(|(namespace, name)| Some((namespace.parse().ok()?, name)));
    let Some((namespace, name)) = named else {
        let message = "must be `namespace/name`, as in the card of the agent, or empty for the default agent";
        return Err(A2aError::invalid(format!("`tenant` {message}"), vec![("tenant".to_owned(), message.to_owned())]));
    };
    let namespace = caller.reach(namespace)?;
    Ok((AgentPath(Some(name.to_owned())), Namespace::clone(&namespace)))
}
