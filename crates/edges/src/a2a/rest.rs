//! The HTTP+JSON binding: the operations as routes below an agent.
//!
//! Routes of 0.3 are the same with `/v1` in front; a version in the header outranks the path. Answers have the media
//! type that the client speaks: `application/a2a+json` if it sends or accepts that, else `application/json`.

use std::future::Future;

use axum::{
    extract::{FromRequest, FromRequestParts as _, MatchedPath, RawPathParams, Request},
    http::{HeaderMap, HeaderValue, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::{
    AgentPath, card,
    error::{A2aError, ErrorKind},
    negotiate::{self, EXTENSIONS, Generation},
    operations::AgentRequest,
    push::{self, PushParams},
    reading::{self, TaskParams},
    rpc,
    stream::Binding,
    v03,
};
use crate::{
    AppState,
    auth::gate::{Caller, RequestNamespace},
    http::{
        error::{ApiError, Code},
        extract,
        trace::Trace,
    },
};

const A2A_JSON: &str = "application/a2a+json";

/// A request to an agent, before its version and its agent are known to exist.
pub(super) struct RestRequest {
    app: AppState,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    trace: Trace,
    params: RawPathParams,
    request: Request,
}

impl FromRequest<AppState> for RestRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        let namespace = RequestNamespace::from_request_parts(&mut parts, app).await?;
        let path = AgentPath::from_request_parts(&mut parts, app).await?;
        let Ok(trace) = Trace::from_request_parts(&mut parts, app).await;
        let params = RawPathParams::from_request_parts(&mut parts, app)
            .await
            .map_err(|_| ApiError::new(Code::InvalidParameter, "the path is not UTF-8"))?;
        let request = Request::from_parts(parts, body);
        Ok(Self { app: app.clone(), caller, namespace, path, trace, params, request })
    }
}

/// An operation that is asked for, and the rest of its request.
struct RestCall {
    asked: AgentRequest,
    headers: HeaderMap,
    uri: Uri,
    params: RawPathParams,
    request: Request,
}

impl RestCall {
    async fn body(&mut self) -> Result<Value, A2aError> {
        let request = std::mem::take(&mut self.request);
        Ok(extract::read_json(request, extract::A2A_JSON).await?)
    }

    /// The parameters in the query string, with the id of the task.
    fn task_params(&self, id: &str) -> Result<TaskParams, A2aError> {
        let mut params = reading::of_query(self.uri.query().unwrap_or_default());
        params["id"] = json!(id);
        reading::task(params)
    }

    /// A part of the path; empty if the route has none of this name.
    fn param(&self, name: &str) -> String {
        let found = self.params.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    }

    /// The task that the path names, and the verb behind its `:`.
    fn task_and_verb(&self) -> (String, Option<String>) {
        let task = self.param("task");
        match task.split_once(':') {
            Some((task, verb)) => (task.to_owned(), Some(verb.to_owned())),
            None => (task, None),
        }
    }

    async fn subscribe(self, id: &str) -> Result<Response, A2aError> {
        let last = self.headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
        self.asked.subscribe(self.task_params(id)?, last, Binding::HttpJson).await
    }

    fn answer(&self, body: &Value) -> Response {
        json_response(&self.headers, body)
    }
}

/// The media type of the answer.
fn media_type(headers: &HeaderMap) -> &'static str {
    let names = |name: header::HeaderName| {
        let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.contains(A2A_JSON))
    };
    if names(header::ACCEPT) || names(header::CONTENT_TYPE) { A2A_JSON } else { "application/json" }
}

impl RestRequest {
    /// Runs one operation and writes its answer or its error.
    async fn run<Done>(self, operation: impl FnOnce(RestCall) -> Done) -> Response
    where
        Done: Future<Output = Result<Response, A2aError>>,
    {
        let Self { app, caller, namespace, path, trace, params, request } = self;
        let (headers, uri) = (request.headers().clone(), request.uri().clone());
        let media_type = media_type(&headers);
        let mapping = app.error_mapping();
        let activated = negotiate::activates_client_tools(&headers);
        let answered = async {
            // The route, and not the path: a namespace or an agent may be called `v1`.
            let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
            let by_path = if route.contains("/v1/") { Generation::V03 } else { Generation::V1 };
            let generation = negotiate::generation(&headers, &uri)?.unwrap_or(by_path);
            let agent = path.find(&app, &namespace)?;
            let namespace = bosun_core::Namespace::clone(&namespace);
            let asked = AgentRequest { app, caller, namespace, agent, generation, trace: trace.0 };
            operation(RestCall { asked, headers, uri, params, request }).await
        };
        let mut response =
            answered.await.unwrap_or_else(|error: A2aError| error.into_rest_response(mapping, media_type));
        if activated {
            response.headers_mut().insert(EXTENSIONS, negotiate::activated());
        }
        response
    }
}

fn json_response(headers: &HeaderMap, body: &Value) -> Response {
    let media_type = [(header::CONTENT_TYPE, HeaderValue::from_static(media_type(headers)))];
    (media_type, body.to_string()).into_response()
}

/// `POST {agent}/message:send`
pub(super) async fn send_message(request: RestRequest) -> Response {
    let send = async |mut call: RestCall| {
        let generation = call.asked.generation;
        let params = reading::send(call.body().await?, generation)?;
        let (name, reply) = rpc::write_reply(generation, &call.asked.send(params).await?);
        // 0.3 wraps it over HTTP as 1.0 does.
        Ok(call.answer(&json!({ name: reply })))
    };
    request.run(send).await
}

/// `POST {agent}/message:stream`
pub(super) async fn stream_message(request: RestRequest) -> Response {
    let stream = async |mut call: RestCall| {
        let params = reading::send(call.body().await?, call.asked.generation)?;
        call.asked.stream(params, Binding::HttpJson).await
    };
    request.run(stream).await
}

/// `GET {agent}/tasks`
pub(super) async fn list_tasks(request: RestRequest) -> Response {
    let list = async |call: RestCall| {
        let params = reading::list(reading::of_query(call.uri.query().unwrap_or_default()))?;
        let page = call.asked.list(params).await?;
        let mut body = json!(page);
        if call.asked.generation == Generation::V03 {
            body["tasks"] = page.tasks.iter().map(|task| v03::task(task, false)).collect();
        }
        Ok(call.answer(&body))
    };
    request.run(list).await
}

/// `GET {agent}/tasks/{task}`, and `GET {agent}/tasks/{task}:subscribe`
pub(super) async fn get_task(request: RestRequest) -> Response {
    let get = async |call: RestCall| match call.task_and_verb() {
        (id, None) => {
            let shown = call.asked.get(call.task_params(&id)?).await?;
            Ok(call.answer(&rpc::write(call.asked.generation, &shown)))
        }
        (id, Some(verb)) if verb == "subscribe" => call.subscribe(&id).await,
        (_, Some(_)) => Err(no_such_verb()),
    };
    request.run(get).await
}

/// `POST {agent}/tasks/{task}:cancel` and `POST {agent}/tasks/{task}:subscribe`
pub(super) async fn act_on_task(request: RestRequest) -> Response {
    let act = async |call: RestCall| {
        let (id, verb) = call.task_and_verb();
        match verb.as_deref() {
            Some("cancel") => {
                let shown = call.asked.cancel(call.task_params(&id)?).await?;
                Ok(call.answer(&rpc::write(call.asked.generation, &shown)))
            }
            Some("subscribe") => call.subscribe(&id).await,
            _ => Err(no_such_verb()),
        }
    };
    request.run(act).await
}

fn no_such_verb() -> A2aError {
    A2aError::new(ErrorKind::MethodNotFound, "a task takes `:cancel` and `:subscribe`")
}

/// `POST {agent}/tasks/{task}/pushNotificationConfigs`
pub(super) async fn create_push(request: RestRequest) -> Response {
    let create = async |mut call: RestCall| {
        call.asked.check_supported()?;
        let task = call.param("task");
        let (task, config) = push::read_new(call.body().await?, call.asked.generation, Some(task))?;
        let shown = call.asked.create_push(&task, config).await?;
        Ok(call.answer(&shown))
    };
    request.run(create).await
}

/// `GET {agent}/tasks/{task}/pushNotificationConfigs`
pub(super) async fn list_push(request: RestRequest) -> Response {
    let list = async |call: RestCall| {
        call.asked.check_supported()?;
        let configs = call.asked.list_push(PushParams { task_id: call.param("task"), id: None }).await?;
        // Over HTTP, 0.3 has an object as 1.0 does.
        Ok(call.answer(&push::page(Generation::V1, configs)))
    };
    request.run(list).await
}

/// `GET {agent}/tasks/{task}/pushNotificationConfigs/{config}`
pub(super) async fn get_push(request: RestRequest) -> Response {
    let get = async |call: RestCall| {
        call.asked.check_supported()?;
        let params = PushParams { task_id: call.param("task"), id: Some(call.param("config")) };
        let shown = call.asked.get_push(params).await?;
        Ok(call.answer(&shown))
    };
    request.run(get).await
}

/// `DELETE {agent}/tasks/{task}/pushNotificationConfigs/{config}`
pub(super) async fn delete_push(request: RestRequest) -> Response {
    let delete = async |call: RestCall| {
        call.asked.check_supported()?;
        let params = PushParams { task_id: call.param("task"), id: Some(call.param("config")) };
        call.asked.delete_push(params).await?;
        Ok(call.answer(&json!({})))
    };
    request.run(delete).await
}

/// `GET {agent}/extendedAgentCard`
pub(super) async fn extended_card(request: RestRequest) -> Response {
    let show = async |call: RestCall| {
        let card = card::extended(&call.asked, &call.headers, &Binding::HttpJson)?;
        Ok(call.answer(&card))
    };
    request.run(show).await
}
