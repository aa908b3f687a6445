//! The JSON-RPC binding: one endpoint per agent, all operations.
//!
//! The method's name belongs to a generation; the header names the generation of the client. Errors of an operation are
//! answers with status 200, as JSON-RPC specifies; refusals of the caller keep their status.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use bosun_core::ceiling::RPC_ID_BYTES;
use serde_json::{Value, json};

use super::{
    AgentPath, card,
    error::{A2aError, ErrorKind},
    negotiate::{self, EXTENSIONS, Generation},
    operations::{AgentRequest, Reply, ShownTask},
    push, reading,
    stream::Binding,
    v03,
};
use crate::{
    AppState,
    auth::gate::{Caller, RequestNamespace},
    http::{answer::Json, error::clip, extract, sse, trace::Trace},
};

const EVENT_STREAM: &str = "text/event-stream";

/// An operation of the protocol, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    CreatePush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
    /// Seed 003's.
    Resume,
}

/// The names of both generations. 0.3 has no list over JSON-RPC; the seed's method is of either.
const METHODS: &[(&str, Option<Generation>, Method)] = &[
    ("SendMessage", Some(Generation::V1), Method::Send),
    ("SendStreamingMessage", Some(Generation::V1), Method::Stream),
    ("GetTask", Some(Generation::V1), Method::Get),
    ("ListTasks", Some(Generation::V1), Method::List),
    ("CancelTask", Some(Generation::V1), Method::Cancel),
    ("SubscribeToTask", Some(Generation::V1), Method::Subscribe),
    ("CreateTaskPushNotificationConfig", Some(Generation::V1), Method::CreatePush),
    ("GetTaskPushNotificationConfig", Some(Generation::V1), Method::GetPush),
    ("ListTaskPushNotificationConfigs", Some(Generation::V1), Method::ListPush),
    ("DeleteTaskPushNotificationConfig", Some(Generation::V1), Method::DeletePush),
    ("GetExtendedAgentCard", Some(Generation::V1), Method::ExtendedCard),
    ("message/send", Some(Generation::V03), Method::Send),
    ("message/stream", Some(Generation::V03), Method::Stream),
    ("tasks/get", Some(Generation::V03), Method::Get),
    ("tasks/cancel", Some(Generation::V03), Method::Cancel),
    ("tasks/resubscribe", Some(Generation::V03), Method::Subscribe),
    ("tasks/pushNotificationConfig/set", Some(Generation::V03), Method::CreatePush),
    ("tasks/pushNotificationConfig/get", Some(Generation::V03), Method::GetPush),
    ("tasks/pushNotificationConfig/list", Some(Generation::V03), Method::ListPush),
    ("tasks/pushNotificationConfig/delete", Some(Generation::V03), Method::DeletePush),
    ("agent/getAuthenticatedExtendedCard", Some(Generation::V03), Method::ExtendedCard),
    ("tasks/resume", None, Method::Resume),
];

/// The operation of 1.0 with this name.
#[cfg(feature = "grpc")]
pub(super) fn method_of_1_0(name: &str) -> Option<Method> {
    let found = METHODS.iter().find(|(known, of, _)| *known == name && *of == Some(Generation::V1));
    found.map(|(_, _, method)| *method)
}

/// The names of all methods, each with the version that a request for it sends.
#[cfg(test)]
pub(crate) fn methods() -> Vec<(&'static str, &'static str)> {
    let version = |generation: &Generation| if *generation == Generation::V1 { "1.0" } else { "0.3" };
    METHODS.iter().map(|(name, generation, _)| (*name, generation.as_ref().map_or("0.3", version))).collect()
}

/// A JSON-RPC request.
struct RpcCall {
    id: Option<Value>,
    method: String,
    params: Value,
}

/// `POST {agent}`
pub(super) async fn rpc(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    path: AgentPath,
    Trace(trace): Trace,
    request: Request,
) -> Response {
    let (headers, uri) = (request.headers().clone(), request.uri().clone());
    let call = match read_call(request).await {
        Ok(call) => call,
        Err((id, error)) => return error.into_rpc_response(&id),
    };
    let (id, call_name) = (call.id.clone().unwrap_or_default(), call.method.clone());
    let answered = async {
        let (generation, method) = resolve(&call.method, &headers, &uri)?;
        // Clients of 0.3 leave it out; their answer has `null`.
        if call.id.is_none() && generation == Generation::V1 {
            return Err(invalid("`id` is missing: every request of A2A has an answer"));
        }
        let agent = path.find(&app, &namespace)?;
        let namespace = bosun_core::Namespace::clone(&namespace);
        let asked = AgentRequest { app: app.clone(), caller, namespace, agent, generation, trace };
        answer(asked, method, call, &headers).await
    };
    let in_stream = reads_only_streams(&call_name, &headers);
    let mut response = answered.await.unwrap_or_else(|error| match in_stream {
        true => into_error_event(error, &id),
        false => error.into_rpc_response(&id),
    });
    if negotiate::activates_client_tools(&headers) {
        response.headers_mut().insert(EXTENSIONS, negotiate::activated());
    }
    response
}

/// Whether the client reads nothing but a stream. Clients of 0.3 expect an error as its only event then; in 1.0 an error
/// before the first event is a plain answer.
fn reads_only_streams(method: &str, headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    matches!(method, "message/stream" | "tasks/resubscribe")
        && accepted.is_some_and(|value| value.trim() == EVENT_STREAM)
}

/// An error as the only event of a stream. A refusal of the caller keeps its status, and is a plain answer.
fn into_error_event(error: A2aError, id: &Value) -> Response {
    let event = sse::write_data(None, &json!({ "jsonrpc": "2.0", "id": id, "error": error.to_rpc() }));
    let mut response = error.into_rpc_response(id);
    if response.status() == StatusCode::OK {
        *response.body_mut() = event.into();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    }
    response
}

fn resolve(method: &str, headers: &HeaderMap, uri: &Uri) -> Result<(Generation, Method), A2aError> {
    // A request that names no version is of 0.3: clients of 0.3 send none.
    let generation = negotiate::generation(headers, uri)?.unwrap_or(Generation::V03);
    let is_meant = |of: Option<Generation>| of.is_none_or(|of| of == generation);
    let found = METHODS.iter().find(|(name, of, _)| *name == method && is_meant(*of));
    found.map(|(_, _, method)| (generation, *method)).ok_or_else(|| {
        let known = METHODS.iter().any(|(name, ..)| *name == method);
        let hint = if known { ": it is a method of the other version; see the header `A2A-Version`" } else { "" };
        A2aError::new(ErrorKind::MethodNotFound, format!("there is no method `{}`{hint}", clip(method)))
    })
}

/// Reads a request. A refusal carries the id of the request, if it could be read.
async fn read_call(request: Request) -> Result<RpcCall, (Value, A2aError)> {
    let body = extract::read_json(request, extract::A2A_JSON).await.map_err(|error| (Value::Null, error.into()))?;
    let Value::Object(mut members) = body else {
        let message = "a request must be one JSON object; batches are not part of A2A";
        return Err((Value::Null, A2aError::new(ErrorKind::InvalidRequest, message)));
    };
    let is_id = |id: &Value| id.is_string() || id.is_i64() || id.is_u64() || id.is_null();
    let id = match members.shift_remove("id") {
        Some(id) if is_id(&id) && id.to_string().len() > RPC_ID_BYTES => {
            return Err((Value::Null, invalid(&format!("`id` has more than {RPC_ID_BYTES} bytes"))));
        }
        Some(id) if is_id(&id) => Some(id),
        Some(_) => return Err((Value::Null, invalid("`id` must be a string, a whole number or null"))),
        None => None,
    };
    let id_or_null = id.clone().unwrap_or_default();
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err((id_or_null, invalid("`jsonrpc` must be \"2.0\"")));
    }
    let Some(Value::String(method)) = members.shift_remove("method") else {
        return Err((id_or_null, invalid("`method` must be a string")));
    };
    let params = members.shift_remove("params").unwrap_or_default();
    Ok(RpcCall { id, method, params })
}

fn invalid(message: &str) -> A2aError {
    A2aError::new(ErrorKind::InvalidRequest, message)
}

async fn answer(asked: AgentRequest, method: Method, call: RpcCall, headers: &HeaderMap) -> Result<Response, A2aError> {
    let RpcCall { id, params, .. } = call;
    let id = id.unwrap_or_default();
    let mut response = match execute(asked, method, params, headers, Binding::JsonRpc(id.clone())).await? {
        Answer::Stream(response) => return Ok(response),
        Answer::Result(result) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// What an operation answers: one value, or a stream in the form of its binding.
pub(super) enum Answer {
    Result(Value),
    Stream(Response),
}

/// Reads the parameters of an operation, and runs it.
pub(super) async fn execute(
    asked: AgentRequest,
    method: Method,
    params: Value,
    headers: &HeaderMap,
    binding: Binding,
) -> Result<Answer, A2aError> {
    let generation = asked.generation;
    let result = match method {
        Method::Send => {
            let (name, reply) = write_reply(generation, &asked.send(reading::send(params, generation)?).await?);
            match generation {
                Generation::V1 => json!({ name: reply }),
                // 0.3 distinguishes them by `kind`.
                Generation::V03 => reply,
            }
        }
        Method::Stream => {
            return asked.stream(reading::send(params, generation)?, binding).await.map(Answer::Stream);
        }
        Method::Get => write(generation, &asked.get(reading::task(params)?).await?),
        Method::Cancel => write(generation, &asked.cancel(reading::task(params)?).await?),
        Method::Resume => {
            let shown = asked.resume(reading::resume(params)?).await?;
            write(generation, &shown)
        }
        Method::List => json!(asked.list(reading::list(params)?).await?),
        Method::Subscribe => {
            let last = headers.get("last-event-id").map(HeaderValue::to_str);
            let last =
                last.transpose().map_err(|_| A2aError::new(ErrorKind::InvalidParams, "`Last-Event-ID` is not text"))?;
            let last = last.filter(|id| !id.is_empty());
            return asked.subscribe(reading::task(params)?, last, binding).await.map(Answer::Stream);
        }
        Method::CreatePush => {
            asked.check_supported()?;
            let (task, config) = push::read_new(params, generation, None)?;
            asked.create_push(&task, config).await?
        }
        Method::GetPush => {
            asked.check_supported()?;
            asked.get_push(push::read_named(params, generation, true)?).await?
        }
        Method::ListPush => {
            asked.check_supported()?;
            let configs = asked.list_push(push::read_named(params, generation, false)?).await?;
            push::page(generation, configs)
        }
        Method::DeletePush => {
            asked.check_supported()?;
            asked.delete_push(push::read_named(params, generation, true)?).await?;
            match generation {
                Generation::V1 => json!({}),
                Generation::V03 => Value::Null,
            }
        }
        Method::ExtendedCard => card::extended(&asked, headers, &binding)?,
    };
    Ok(Answer::Result(result))
}

/// The answer to a message, and the name of its field in an object that has one of the two.
pub(super) fn write_reply(generation: Generation, reply: &Reply) -> (&'static str, Value) {
    match reply {
        Reply::Task(shown) => ("task", write(generation, shown)),
        Reply::Message(message) => {
            let written = match generation {
                Generation::V1 => json!(message),
                Generation::V03 => v03::message(message),
            };
            ("message", written)
        }
    }
}

pub(super) fn write(generation: Generation, shown: &ShownTask) -> Value {
    match generation {
        Generation::V1 => json!(shown.task),
        Generation::V03 => v03::task(&shown.task, shown.aliases),
    }
}
