//! An A2A server with one agent, `peer`, that behaves in one chosen way: well, in each binding and generation, or badly.
//!
//! Tasks are kept in memory. It recognizes no message ids, as most servers do not, so a message that is sent twice
//! begins two tasks: [`A2aPeer::messages`] counts them.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

const LARGEST_REQUEST: usize = 2 * 1024 * 1024;
/// More than a client reads.
const HUGE: usize = 9 * 1024 * 1024;
const ETAG: &str = "\"card-1\"";

/// How the agent behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerBehaviour {
    /// It completes its tasks at the second poll.
    Works,
    /// The same over HTTP+JSON.
    WorksOverRest,
    /// The same in 0.3.
    WorksInOlderVersion,
    /// The same, with a card of 0.2 at its older place.
    WorksWithLegacyCard,
    /// It answers with a message and no task.
    AnswersAtOnce,
    /// It asks a question, and completes its task with the answer.
    Asks,
    /// It needs an authorization, and continues by itself at the third poll.
    NeedsAuthorization,
    /// It sends a file, data and a text.
    SendsFiles,
    /// It accepts the answer to a question only at the second attempt.
    RefusesFirstAnswer,
    /// It refuses contexts that it did not name.
    RefusesContexts,
    Fails,
    Rejects,
    /// It never answers a message.
    HangsOnMessage,
    /// It never answers a poll.
    HangsOnPoll,
    /// It answers a message with something that is not JSON.
    GarbageForMessage,
    GarbageForPoll,
    /// Its answers have the id of another request.
    WrongRequestId,
    /// It answers polls with another task.
    WrongTask,
    /// It answers polls with more than anyone reads.
    Huge,
    /// It names a next page for every page of tasks.
    EndlessPages,
    /// It never ends.
    NeverEnds,
    /// It reports a state that no version has.
    UnknownState,
    /// It forgets its tasks.
    ForgetsTasks,
    /// Its card is somewhere on the network of the client.
    RedirectsCard,
    RedirectsMessage,
    RefusesVersion,
    RefusesKey,
    /// Its card names an interface on this machine, and not where it is.
    NamesAnotherHost,
    /// Its card is not one.
    GarbageCard,
    /// It never answers.
    HangsOnCard,
}

use PeerBehaviour as As;

/// A server that listens. It ends when it is dropped.
#[derive(Debug)]
pub struct A2aPeer {
    address: SocketAddr,
    state: Arc<Mutex<PeerState>>,
    _tasks: JoinSet<io::Result<()>>,
}

#[derive(Debug)]
struct PeerState {
    behaviour: PeerBehaviour,
    base: String,
    requests: Vec<String>,
    messages: Vec<Value>,
    headers: Vec<HeaderMap>,
    tasks: Vec<PeerTask>,
}

#[derive(Clone, Debug)]
struct PeerTask {
    id: String,
    context: String,
    /// The messages that it was sent.
    history: Vec<Value>,
    polls: u32,
    is_cancelled: bool,
}

impl A2aPeer {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start(behaviour: PeerBehaviour) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(PeerState {
            behaviour,
            base: format!("http://{address}"),
            requests: Vec::new(),
            messages: Vec::new(),
            headers: Vec::new(),
            tasks: Vec::new(),
        }));
        let router = Router::new().fallback(handle).with_state(Arc::clone(&state));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, state, _tasks: tasks })
    }

    /// The address of the agent.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/agent", self.address)
    }

    /// Every request, as `METHOD path` or as the method of JSON-RPC.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state).requests.clone()
    }

    /// Every message, in the form of its generation.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        lock(&self.state).messages.clone()
    }

    /// The headers of every request.
    #[must_use]
    pub fn headers(&self) -> Vec<HeaderMap> {
        lock(&self.state).headers.clone()
    }

    /// The ids of the tasks that were cancelled.
    #[must_use]
    pub fn cancelled(&self) -> Vec<String> {
        let state = lock(&self.state);
        state.tasks.iter().filter(|task| task.is_cancelled).map(|task| task.id.clone()).collect()
    }

    /// Changes how it behaves from now on.
    pub fn behave(&self, behaviour: PeerBehaviour) {
        lock(&self.state).behaviour = behaviour;
    }
}

fn lock(state: &Mutex<PeerState>) -> MutexGuard<'_, PeerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn handle(State(state): State<Arc<Mutex<PeerState>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, LARGEST_REQUEST).await.unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let answer = {
        let mut state = lock(&state);
        state.headers.push(parts.headers.clone());
        if path.contains("/.well-known/") {
            state.requests.push(format!("{} {path}", parts.method));
            state.card(&path, &parts.headers)
        } else {
            state.perform(&parts.method, &path, &body)
        }
    };
    match answer {
        Some(answer) => answer,
        // The connection stays open until the client gives up.
        None => std::future::pending().await,
    }
}

/// What a request is about, in either binding.
enum PeerOperation {
    Send(Value),
    Get(String),
    List,
    Cancel(String),
}

impl PeerState {
    fn is_older(&self) -> bool {
        matches!(self.behaviour, As::WorksInOlderVersion | As::WorksWithLegacyCard)
    }

    /// The answer to a request for the card; `None` for one that never comes.
    fn card(&self, path: &str, headers: &HeaderMap) -> Option<Response> {
        let url = format!("{}/agent", self.base);
        let interface =
            |url: &str, binding: &str| json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"});
        let interfaces = match self.behaviour {
            As::HangsOnCard => return None,
            As::GarbageCard => return Some(text(StatusCode::OK, "<html>Welcome</html>")),
            As::RedirectsCard => return Some(redirect("http://127.0.0.1:1/.well-known/agent-card.json")),
            As::WorksOverRest => json!([interface(&url, "HTTP+JSON")]),
            As::NamesAnotherHost => json!([interface("http://127.0.0.1:1/agent", "JSONRPC")]),
            _ => json!([interface(&url, "GRPC"), interface(&url, "JSONRPC")]),
        };
        let is_legacy = self.behaviour == As::WorksWithLegacyCard;
        if is_legacy != path.ends_with("/agent.json") {
            return Some(text(StatusCode::NOT_FOUND, "not here"));
        }
        if headers.get(header::IF_NONE_MATCH).is_some_and(|etag| etag == ETAG) {
            return Some(StatusCode::NOT_MODIFIED.into_response());
        }
        let skills =
            json!([{"id": "echo", "name": "Echo", "description": "Repeats what it is told", "tags": ["test"]}]);
        let mut card = json!({
            "name": "peer", "description": "Does as it is told", "version": "1.2.3", "skills": skills,
            "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        });
        if self.is_older() {
            card["url"] = json!(url);
            if !is_legacy {
                card["protocolVersion"] = json!("0.3.0");
            }
        } else {
            card["supportedInterfaces"] = interfaces;
        }
        let mut response = json_response(StatusCode::OK, &card);
        response.headers_mut().insert(header::ETAG, header::HeaderValue::from_static(ETAG));
        Some(response)
    }

    fn perform(&mut self, method: &Method, path: &str, body: &Bytes) -> Option<Response> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_rest = self.behaviour == As::WorksOverRest;
        let (name, operation) = if is_rest { rest(method, path, &body) } else { rpc(&body) };
        self.requests.push(name);
        match (self.behaviour, &operation) {
            (As::RefusesKey, _) => return Some(text(StatusCode::UNAUTHORIZED, "no")),
            (As::HangsOnMessage, Some(PeerOperation::Send(_))) | (As::HangsOnPoll, Some(PeerOperation::Get(_))) => {
                // It has the message, and does not say so.
                if let Some(PeerOperation::Send(message)) = operation {
                    self.messages.push(message);
                }
                return None;
            }
            (As::RedirectsMessage, _) => return Some(redirect("http://127.0.0.1:1/agent")),
            (As::GarbageForMessage, Some(PeerOperation::Send(message))) => {
                self.messages.push(message.clone());
                return Some(text(StatusCode::OK, "certainly!"));
            }
            (As::GarbageForPoll, Some(PeerOperation::Get(_))) => return Some(text(StatusCode::OK, "certainly!")),
            (As::Huge, Some(PeerOperation::Get(_))) => {
                return Some(Response::new(Body::from(vec![b' '; HUGE])));
            }
            _ => {}
        }
        let result = operation.map_or_else(|| Err((-32_601, "no such method")), |operation| self.answer(operation));
        let id = if self.behaviour == As::WrongRequestId { json!("another") } else { body["id"].clone() };
        Some(match (result, is_rest) {
            (Ok(result), true) => json_response(StatusCode::OK, &result),
            (Err((_, message)), true) => {
                json_response(StatusCode::BAD_REQUEST, &json!({"error": {"code": 400, "message": message}}))
            }
            (Ok(result), false) => {
                json_response(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            (Err((code, message)), false) => json_response(
                StatusCode::OK,
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
            ),
        })
    }

    fn answer(&mut self, operation: PeerOperation) -> Result<Value, (i64, &'static str)> {
        match operation {
            PeerOperation::Send(message) => self.send(message),
            PeerOperation::Get(id) => {
                let behaviour = self.behaviour;
                let found = self.tasks.iter_mut().find(|task| task.id == id);
                let task = found.filter(|_| behaviour != As::ForgetsTasks).ok_or((-32_001, "Task not found"))?;
                task.polls += 1;
                let mut shown = self.show(&id);
                if behaviour == As::WrongTask {
                    shown["id"] = json!("another");
                }
                Ok(shown)
            }
            PeerOperation::Cancel(id) => {
                let task = self.tasks.iter_mut().find(|task| task.id == id).ok_or((-32_001, "Task not found"))?;
                task.is_cancelled = true;
                Ok(self.show(&id))
            }
            PeerOperation::List => {
                let endless = self.behaviour == As::EndlessPages;
                let tasks: Vec<_> =
                    if endless { Vec::new() } else { self.tasks.iter().map(|task| self.show(&task.id)).collect() };
                let next = if endless { "more" } else { "" };
                Ok(json!({"tasks": tasks, "nextPageToken": next, "pageSize": 50, "totalSize": tasks.len()}))
            }
        }
    }

    fn send(&mut self, message: Value) -> Result<Value, (i64, &'static str)> {
        let text = |name: &str| message[name].as_str().map(str::to_owned);
        match self.behaviour {
            As::RefusesVersion => return Err((-32_009, "version 1.0 is not supported")),
            As::RefusesContexts if text("contextId").is_some() => return Err((-32_602, "unknown contextId")),
            _ => {}
        }
        self.messages.push(message.clone());
        if self.behaviour == As::RefusesFirstAnswer && self.messages.len() == 2 {
            return Err((-32_004, "say it in Latin"));
        }
        if self.behaviour == As::AnswersAtOnce {
            let message = json!({"messageId": "a", "role": "ROLE_AGENT", "parts": [{"text": "at once"}]});
            return Ok(json!({"message": message}));
        }
        let id = match text("taskId") {
            Some(id) => {
                let task = self.tasks.iter_mut().find(|task| task.id == id).ok_or((-32_001, "Task not found"))?;
                task.history.push(message);
                id
            }
            None => {
                let id = format!("task-{}", self.tasks.len() + 1);
                let context = text("contextId").unwrap_or_else(|| format!("own-{}", self.tasks.len() + 1));
                let history = vec![message];
                self.tasks.push(PeerTask { id: id.clone(), context, history, polls: 0, is_cancelled: false });
                id
            }
        };
        let task = self.show(&id);
        Ok(if self.is_older() { task } else { json!({"task": task}) })
    }

    /// A task, in the form of its generation.
    fn show(&self, id: &str) -> Value {
        let Some(task) = self.tasks.iter().find(|task| task.id == id) else { return Value::Null };
        let older = self.is_older();
        let message = |text: &str| {
            let part = if older { json!({"kind": "text", "text": text}) } else { json!({"text": text}) };
            let role = if older { "agent" } else { "ROLE_AGENT" };
            json!({"kind": "message", "messageId": "q", "role": role, "parts": [part]})
        };
        let input = task.history.last().map(|message| message["parts"][0]["text"].clone()).unwrap_or_default();
        let echoed = format!("you said: {}", input.as_str().unwrap_or_default());
        let working = ("WORKING", None);
        let (state, message) = match self.behaviour {
            _ if task.is_cancelled => ("CANCELED", None),
            As::Asks | As::RefusesFirstAnswer if task.history.len() == 1 => {
                ("INPUT_REQUIRED", Some(message("Which city?")))
            }
            As::NeedsAuthorization if task.polls < 3 => {
                ("AUTH_REQUIRED", Some(message("Log in at https://login.example")))
            }
            As::NeverEnds => working,
            As::UnknownState => ("DREAMING", None),
            As::Fails => ("FAILED", Some(message("out of paper"))),
            As::Rejects => ("REJECTED", None),
            _ if task.polls < 2 => working,
            _ => ("COMPLETED", None),
        };
        let state_word = if older { state.to_lowercase().replace('_', "-") } else { format!("TASK_STATE_{state}") };
        let mut shown = json!({
            "id": task.id, "contextId": task.context, "history": task.history,
            "status": {"state": state_word},
        });
        if let Some(message) = message {
            shown["status"]["message"] = message;
        }
        if state == "COMPLETED" {
            let parts = match self.behaviour {
                As::SendsFiles => json!([
                    {"text": "see"}, {"data": {"n": 1}}, {"raw": "QUI=", "filename": "f.bin", "mediaType": "application/pdf"},
                    {"url": "https://files.example/f", "filename": "f", "mediaType": "text/plain"},
                ]),
                _ if older => json!([{"kind": "text", "text": echoed}]),
                _ => json!([{"text": echoed}]),
            };
            shown["artifacts"] = json!([{"artifactId": "a", "parts": parts}]);
        }
        shown
    }
}

fn rpc(body: &Value) -> (String, Option<PeerOperation>) {
    let method = body["method"].as_str().unwrap_or_default().to_owned();
    let params = &body["params"];
    let id = || params["id"].as_str().unwrap_or_default().to_owned();
    let operation = match method.as_str() {
        "SendMessage" | "message/send" => Some(PeerOperation::Send(params["message"].clone())),
        "GetTask" | "tasks/get" => Some(PeerOperation::Get(id())),
        "CancelTask" | "tasks/cancel" => Some(PeerOperation::Cancel(id())),
        "ListTasks" => Some(PeerOperation::List),
        _ => None,
    };
    (method, operation)
}

fn rest(method: &Method, path: &str, body: &Value) -> (String, Option<PeerOperation>) {
    let below = path.strip_prefix("/agent/").unwrap_or_default();
    let task = below.strip_prefix("tasks/").map(str::to_owned);
    let operation = match (method.as_str(), below, task) {
        ("POST", "message:send", _) => Some(PeerOperation::Send(body["message"].clone())),
        ("GET", "tasks", _) => Some(PeerOperation::List),
        ("GET", _, Some(id)) => Some(PeerOperation::Get(id)),
        ("POST", _, Some(id)) => id.strip_suffix(":cancel").map(|id| PeerOperation::Cancel(id.to_owned())),
        _ => None,
    };
    (format!("{method} {path}"), operation)
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn text(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

fn redirect(location: &'static str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}
