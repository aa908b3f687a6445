//! The HTTP+JSON binding: the operations as routes below an agent.
//!
//! Routes of 0.3 are the same with `/v1` in front; a version in the header outranks the path. Answers have the media
//! type that the client speaks: `application/a2a+json` if it sends or accepts that, else `application/json`.

use std::future::Future;

use axum::{
    extract::{RawPathParams, Request, State},
    http::{HeaderMap, HeaderValue, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::{
    AgentPath, card,
    error::{A2aError, ErrorKind},
    negotiate::{self, EXTENSIONS, Generation},
    operations::AgentRequest,
    reading, rpc, v03,
};
use crate::{
    AppState,
    auth::gate::{Caller, RequestNamespace},
    http::{extract, trace::Trace},
};

const A2A_JSON: &str = "application/a2a+json";

/// What every operation needs of its request.
struct RestCall {
    asked: AgentRequest,
    headers: HeaderMap,
    uri: Uri,
}

/// The media type of the answer.
fn media_type(headers: &HeaderMap) -> &'static str {
    let names = |name: header::HeaderName| {
        let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.contains(A2A_JSON))
    };
    if names(header::ACCEPT) || names(header::CONTENT_TYPE) { A2A_JSON } else { "application/json" }
}

/// Runs one operation and writes its answer or its error.
async fn run<Done>(
    app: AppState,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    (headers, uri): (HeaderMap, Uri),
    operation: impl FnOnce(RestCall) -> Done,
) -> Response
where
    Done: Future<Output = Result<Response, A2aError>>,
{
    let media_type = media_type(&headers);
    let mapping = app.error_mapping();
    let activated = negotiate::activates_client_tools(&headers);
    let answered = async {
        let by_path = if uri.path().contains("/v1/") { Generation::V03 } else { Generation::V1 };
        let generation = negotiate::generation(&headers, &uri)?.unwrap_or(by_path);
        let agent = path.find(&app, &namespace)?;
        let namespace = bosun_core::Namespace::clone(&namespace);
        let asked = AgentRequest { app: app.clone(), caller, namespace, agent, generation, trace: trace.0 };
        operation(RestCall { asked, headers, uri }).await
    };
    let mut response = answered.await.unwrap_or_else(|error: A2aError| error.into_rest_response(mapping, media_type));
    if activated {
        response.headers_mut().insert(EXTENSIONS, negotiate::activated());
    }
    response
}

fn json_response(headers: &HeaderMap, body: &Value) -> Response {
    let media_type = [(header::CONTENT_TYPE, HeaderValue::from_static(media_type(headers)))];
    (media_type, body.to_string()).into_response()
}

/// The task that a path names, without a `:verb`.
fn task_and_verb(params: &RawPathParams) -> (String, Option<String>) {
    let task = params.iter().find(|(name, _)| *name == "task").map(|(_, value)| value).unwrap_or_default();
    match task.split_once(':') {
        Some((task, verb)) => (task.to_owned(), Some(verb.to_owned())),
        None => (task.to_owned(), None),
    }
}

/// `POST {agent}/message:send`
pub(super) async fn send_message(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    request: Request,
) -> Response {
    let about = (request.headers().clone(), request.uri().clone());
    run(app, caller, namespace, path, trace, about, async |RestCall { asked, headers, .. }| {
        let body = extract::read_json(request, extract::A2A_JSON).await?;
        let shown = asked.send(reading::send(body, asked.generation)?).await?;
        // 0.3 wraps it over HTTP as 1.0 does.
        let body = match asked.generation {
            Generation::V1 => json!({ "task": shown.task }),
            Generation::V03 => json!({ "task": v03::task(&shown.task, shown.aliases) }),
        };
        Ok(json_response(&headers, &body))
    })
    .await
}

/// `POST {agent}/message:stream`
pub(super) async fn stream_message(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    request: Request,
) -> Response {
    let about = (request.headers().clone(), request.uri().clone());
    run(app, caller, namespace, path, trace, about, async |RestCall { asked, .. }| {
        let body = extract::read_json(request, extract::A2A_JSON).await?;
        asked.stream(reading::send(body, asked.generation)?, None).await
    })
    .await
}

/// `GET {agent}/tasks`
pub(super) async fn list_tasks(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    request: Request,
) -> Response {
    let about = (request.headers().clone(), request.uri().clone());
    run(app, caller, namespace, path, trace, about, async |RestCall { asked, headers, uri }| {
        let params = reading::list(reading::of_query(uri.query().unwrap_or_default()))?;
        let page = asked.list(params).await?;
        let mut body = json!(page);
        if asked.generation == Generation::V03 {
            body["tasks"] = page.tasks.iter().map(|task| v03::task(task, false)).collect();
        }
        Ok(json_response(&headers, &body))
    })
    .await
}

/// `GET {agent}/tasks/{task}`, and `GET {agent}/tasks/{task}:subscribe`
pub(super) async fn get_task(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    params: RawPathParams,
    request: Request,
) -> Response {
    let about = (request.headers().clone(), request.uri().clone());
    run(app, caller, namespace, path, trace, about, async |call| match task_and_verb(&params) {
        (id, None) => {
            let read = task_params(&id, &call.uri)?;
            let shown = call.asked.get(read).await?;
            Ok(json_response(&call.headers, &rpc::write(call.asked.generation, &shown)))
        }
        (id, Some(verb)) if verb == "subscribe" => subscribe(call, &id).await,
        (_, Some(_)) => Err(no_such_verb()),
    })
    .await
}

/// `POST {agent}/tasks/{task}:cancel` and `POST {agent}/tasks/{task}:subscribe`
pub(super) async fn act_on_task(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    params: RawPathParams,
    request: Request,
) -> Response {
    let about = (request.headers().clone(), request.uri().clone());
    run(app, caller, namespace, path, trace, about, async |call| {
        let (id, verb) = task_and_verb(&params);
        match verb.as_deref() {
            Some("cancel") => {
                let read = task_params(&id, &call.uri)?;
                let shown = call.asked.cancel(read).await?;
                Ok(json_response(&call.headers, &rpc::write(call.asked.generation, &shown)))
            }
            Some("subscribe") => subscribe(call, &id).await,
            _ => Err(no_such_verb()),
        }
    })
    .await
}

fn no_such_verb() -> A2aError {
    A2aError::new(ErrorKind::MethodNotFound, "a task takes `:cancel` and `:subscribe`")
}

fn task_params(id: &str, uri: &Uri) -> Result<reading::TaskParams, A2aError> {
    let mut params = reading::of_query(uri.query().unwrap_or_default());
    params["id"] = json!(id);
    reading::task(params)
}

async fn subscribe(RestCall { asked, headers, uri }: RestCall, id: &str) -> Result<Response, A2aError> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
    asked.subscribe(task_params(id, &uri)?, last, None).await
}

/// `{agent}/tasks/{task}/pushNotificationConfigs…`
pub(super) async fn push_configs(headers: HeaderMap, State(app): State<AppState>) -> Response {
    reading::push_not_supported().into_rest_response(app.error_mapping(), media_type(&headers))
}

/// `GET {agent}/extendedAgentCard`
pub(super) async fn extended_card(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    request: Request,
) -> Response {
    let about = (request.headers().clone(), request.uri().clone());
    run(app, caller, namespace, path, trace, about, async |RestCall { asked, headers, .. }| {
        let card = card::extended(&asked, &headers)?;
        Ok(json_response(&headers, &card))
    })
    .await
}
