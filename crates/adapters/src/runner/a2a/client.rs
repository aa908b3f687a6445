//! The operations of A2A that a caller needs: send, get, cancel, and find a task by the message that began it.
//!
//! The two bindings and the two generations differ in URLs, names and shapes only, which are resolved here. A message is
//! sent so that the answer comes at once: the task continues without a connection.

use bosun_engine::runner::RunContext;
use bosun_wire::a2a::{
    SendMessageConfiguration, SendMessageRequest, SendMessageResponse, Task, TaskMessage, TaskPage, VERSION_HEADER,
};
use hyper::header::HeaderValue;
use serde_json::{Value, json};
use url::Url;

use super::{
    card::{Generation, Interface, Transport},
    error::A2aError,
    link::{A2aAnswer, A2aRequest, Link},
    v03,
};

/// How many pages of tasks are read to find one.
const PAGES: usize = 5;
const PAGE_SIZE: u32 = 50;

/// Asks one agent, for one call.
pub(super) struct AgentClient<'a> {
    pub(super) link: &'a Link,
    pub(super) interface: &'a Interface,
    /// That of the query that makes the call; a cancellation has none.
    pub(super) context: Option<&'a RunContext>,
}

/// An operation, as each binding and generation names it.
enum Operation<'a> {
    Send(&'a TaskMessage),
    Get(&'a str),
    Cancel(&'a str),
    List { context: &'a str, page: &'a str },
}

impl AgentClient<'_> {
    /// Sends a message, and returns without waiting for the end of its task.
    pub(super) async fn send(&self, message: &TaskMessage) -> Result<SendMessageResponse, A2aError> {
        let answer = self.perform(&Operation::Send(message)).await?;
        let malformed = || A2aError::Malformed("the agent answered with neither a task nor a message".to_owned());
        match self.interface.generation {
            Generation::V1 => serde_json::from_value(answer).map_err(|_| malformed()),
            Generation::V03 => {
                let task = v03::task(&answer).map(|task| SendMessageResponse::Task(Box::new(task)));
                let message = || v03::message(&answer).map(|message| SendMessageResponse::Message(Box::new(message)));
                task.or_else(message).ok_or_else(malformed)
            }
        }
    }

    pub(super) async fn get(&self, task: &str) -> Result<Task, A2aError> {
        let answer = self.perform(&Operation::Get(task)).await?;
        let found = match self.interface.generation {
            Generation::V1 => serde_json::from_value::<Task>(answer).ok(),
            Generation::V03 => v03::task(&answer),
        };
        let found = found.ok_or_else(|| A2aError::Malformed("the agent answered with no task".to_owned()))?;
        if found.id == task {
            return Ok(found);
        }
        Err(A2aError::Malformed("the agent answered with another task than it was asked for".to_owned()))
    }

    pub(super) async fn cancel(&self, task: &str) -> Result<(), A2aError> {
        self.perform(&Operation::Cancel(task)).await.map(drop)
    }

    /// The task of a context that began with this message, as far as the server lists it. 0.3 has no lists over JSON-RPC.
    pub(super) async fn find(&self, context: &str, message_id: &str) -> Result<Option<Task>, A2aError> {
        if self.interface.generation == Generation::V03 {
            return Ok(None);
        }
        let mut token = String::new();
        for _ in 0..PAGES {
            let answer = self.perform(&Operation::List { context, page: &token }).await?;
            let page: TaskPage = serde_json::from_value(answer)
                .map_err(|_| A2aError::Malformed("the agent answered with no list of tasks".to_owned()))?;
            let began_with = |task: &Task| {
                task.history.iter().flatten().any(|message| message.message_id == message_id)
                    && task.context_id == context
            };
            if let Some(task) = page.tasks.into_iter().find(began_with) {
                return Ok(Some(task));
            }
            if page.next_page_token.is_empty() {
                return Ok(None);
            }
            token = page.next_page_token;
        }
        Ok(None)
    }

    async fn perform(&self, operation: &Operation<'_>) -> Result<Value, A2aError> {
        let version = HeaderValue::from_static(self.interface.generation.as_str());
        match self.interface.transport {
            Transport::JsonRpc => {
                let request = self.rpc(operation).with(VERSION_HEADER, version);
                rpc_result(&self.link.send(&request, self.context).await?)
            }
            Transport::HttpJson => {
                let request = self.rest(operation)?.with(VERSION_HEADER, version);
                self.link.send(&request, self.context).await?.success()
            }
        }
    }

    fn rpc(&self, operation: &Operation<'_>) -> A2aRequest {
        let (v1, v03, mut params) = match operation {
            Operation::Send(message) => ("SendMessage", "message/send", self.send_params(message)),
            Operation::Get(task) => ("GetTask", "tasks/get", json!({"id": task, "historyLength": 0})),
            Operation::Cancel(task) => ("CancelTask", "tasks/cancel", json!({"id": task})),
            Operation::List { context, page } => {
                ("ListTasks", "", json!({"contextId": context, "pageSize": PAGE_SIZE, "pageToken": page}))
            }
        };
        let method = match self.interface.generation {
            Generation::V1 => {
                if let Some(tenant) = &self.interface.tenant {
                    params["tenant"] = json!(tenant);
                }
                v1
            }
            Generation::V03 => v03,
        };
        let body = json!({"jsonrpc": "2.0", "id": RPC_ID, "method": method, "params": params});
        A2aRequest::post(self.interface.url.clone(), body)
    }

    fn send_params(&self, message: &TaskMessage) -> Value {
        match self.interface.generation {
            Generation::V03 => v03::send_params(message),
            Generation::V1 => {
                let configuration = SendMessageConfiguration { return_immediately: true, ..Default::default() };
                let request = SendMessageRequest {
                    tenant: None,
                    message: message.clone(),
                    configuration: Some(configuration),
                    metadata: serde_json::Map::new(),
                };
                json!(request)
            }
        }
    }

    fn rest(&self, operation: &Operation<'_>) -> Result<A2aRequest, A2aError> {
        Ok(match operation {
            Operation::Send(message) => A2aRequest::post(self.url(&["message:send"])?, self.send_params(message)),
            Operation::Get(task) => {
                let mut url = self.url(&["tasks", task])?;
                url.query_pairs_mut().append_pair("historyLength", "0");
                A2aRequest::get(url)
            }
            Operation::Cancel(task) => A2aRequest::post(self.url(&["tasks", &format!("{task}:cancel")])?, json!({})),
            Operation::List { context, page } => {
                let mut url = self.url(&["tasks"])?;
                url.query_pairs_mut().append_pair("contextId", context).append_pair("pageSize", &PAGE_SIZE.to_string());
                if !page.is_empty() {
                    url.query_pairs_mut().append_pair("pageToken", page);
                }
                A2aRequest::get(url)
            }
        })
    }

    fn url(&self, segments: &[&str]) -> Result<Url, A2aError> {
        let mut url = self.interface.url.clone();
        let bad = || A2aError::Misconfigured("the URL of the agent cannot be called".to_owned());
        url.path_segments_mut()
            .map_err(|()| bad())?
            .pop_if_empty()
            .extend(self.interface.tenant.as_deref())
            .extend(segments);
        Ok(url)
    }
}

/// Every connection carries one request at a time, so any id will do.
const RPC_ID: &str = "1";

/// The result of a call of JSON-RPC.
fn rpc_result(answer: &A2aAnswer) -> Result<Value, A2aError> {
    // Some servers send errors with a status of failure.
    let mut body = match (answer.json(), answer.status.is_success()) {
        (Ok(body), true) => body,
        (Ok(body), false) if body.get("jsonrpc").is_some() && body.get("error").is_some() => body,
        (Err(error), true) => return Err(error),
        (_, false) => return answer.success(),
    };
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        let is_refusal = matches!(answer.status.as_u16(), 401 | 403 | 429);
        return if is_refusal { answer.success() } else { Err(A2aError::of_rpc(error)) };
    }
    let malformed = |what: &str| Err(A2aError::Malformed(format!("the agent's answer has {what}")));
    if body.get("id").and_then(Value::as_str) != Some(RPC_ID) {
        return malformed("not the id of the request");
    }
    match body.get_mut("result").map(Value::take) {
        Some(result) => Ok(result),
        None => malformed("neither a result nor an error"),
    }
}
