//! An agent behind A2A 1.0: its card, and the operations that a question needs.
//!
//! Both HTTP bindings are spoken; the card says which the agent has. Tools of the client need the client-tools extension
//! in the card. Absent are gRPC, 0.3 and push notifications.

mod following;
mod reader;

use bosun_wire::a2a::{
    AgentCard, AgentInterface, CARD_PATH, EXTENSIONS_HEADER, MessagePart, MessageRole, Metadata,
    SendMessageConfiguration, SendMessageRequest, SendMessageResponse, StreamEvent, Task, TaskMessage, VERSION,
    VERSION_HEADER,
    client_tools::{self, ToolDefinitions, ToolResult, ToolResults},
};
use reqwest::{Method, RequestBuilder, Response, Url, header::ACCEPT};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    ClientError, ClientTools, Decision, EventStream, Key, OpenCall, Question, Refusal,
    connection::{Connection, is_event_stream},
    retry::retrying,
    transport::{Asked, Transport, written_decision},
};
pub(crate) use following::TaskEvents;

/// An agent of A2A 1.0. Cheap to clone.
///
/// [`A2aAgent::ask`] runs the same loop as [`Client::ask`](crate::Client::ask); a question's
/// [name](Question::named) is the id of its message, and the query of its answer is the task.
#[derive(Clone, Debug)]
pub struct A2aAgent {
    connection: Connection,
    name: String,
    endpoint: Url,
    binding: Binding,
    tenant: Option<String>,
    is_streaming: bool,
    has_client_tools: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    HttpJson,
}

/// An operation of the protocol, with its parameters.
enum Operation<'a> {
    Send(&'a SendMessageRequest),
    Stream(&'a SendMessageRequest),
    Get(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
}

impl A2aAgent {
    /// Reads the card of the agent at this URL: the base URL of a server, the endpoint of an agent, or a card.
    ///
    /// # Errors
    /// If there is no card, if it has no interface of version 1.0 over HTTP, or if it directs a key to another server.
    pub async fn open(url: &str, key: Option<&Key>) -> Result<Self, ClientError> {
        let mut connection = Connection::new(url)?;
        if let Some(key) = key {
            connection = connection.with_key(key)?;
        }
        let card = read_card(&connection).await?;
        Self::of_card(connection, &card)
    }

    fn of_card(connection: Connection, card: &AgentCard) -> Result<Self, ClientError> {
        let url = || connection.server().to_owned();
        let not_an_agent = |reason: String| ClientError::NotAnAgent { url: url(), reason };
        let Some((binding, interface)) = choose(&card.supported_interfaces) else {
            return Err(not_an_agent("its card has no interface JSONRPC or HTTP+JSON of version 1.0".to_owned()));
        };
        let endpoint = Url::parse(&interface.url)
            .ok()
            .filter(|endpoint| matches!(endpoint.scheme(), "http" | "https") && endpoint.has_host())
            .ok_or_else(|| not_an_agent(format!("`{}` in its card is not a URL", interface.url)))?;
        if connection.has_key() && endpoint.origin() != connection.url().origin() {
            return Err(ClientError::ForeignEndpoint { url: url(), endpoint: endpoint.to_string() });
        }
        Ok(Self {
            name: card.name.clone(),
            endpoint,
            binding,
            tenant: interface.tenant.clone().filter(|tenant| !tenant.is_empty()),
            is_streaming: card.capabilities.streaming,
            has_client_tools: card.capabilities.extensions.iter().any(|known| known.uri == client_tools::URI),
            connection,
        })
    }

    /// The name in the agent's card.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL that the agent is asked at.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_str()
    }

    /// A question to the agent. Nothing is sent before the question is awaited.
    pub fn ask(&self, input: impl Into<String>) -> Question<'_> {
        Question::new(Transport::A2a(self), input.into())
    }

    /// A message to a task that waits. If it waits for calls of client tools, they are cancelled, and the model reads this
    /// instead; if it has [asked for input](ClientError::InputRequired), this is the answer.
    pub fn reply(&self, task: impl Into<String>, input: impl Into<String>) -> Question<'_> {
        Question::new(Transport::A2a(self), input.into()).about_task(task.into())
    }

    /// Continues a task that exists, by its id: another process has asked, or this one before it was restarted.
    pub fn resume(&self, task: impl Into<String>) -> Question<'_> {
        Question::existing(Transport::A2a(self), task.into())
    }

    /// Cancels a task. One that has ended already stays as it is.
    ///
    /// # Errors
    /// If the agent stays unreachable, or does not let this client cancel the task.
    pub async fn cancel(&self, task: &str) -> Result<(), ClientError> {
        match retrying(|| self.call::<Task>(Operation::Cancel(task))).await {
            Err(error) if error.code() == Some("task_not_cancelable") => Ok(()),
            cancelled => cancelled.map(drop),
        }
    }

    async fn get(&self, task: &str) -> Result<Task, ClientError> {
        self.call(Operation::Get(task)).await
    }

    async fn send(&self, request: &SendMessageRequest) -> Result<SendMessageResponse, ClientError> {
        self.call(Operation::Send(request)).await
    }

    async fn stream(&self, request: &SendMessageRequest) -> Result<EventStream, ClientError> {
        self.open_stream(self.request(&Operation::Stream(request))).await
    }

    async fn subscribe(&self, task: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let mut request = self.request(&Operation::Subscribe(task));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        self.open_stream(request).await
    }

    /// Sends the outcome of a call, and does not wait for the agent's next turn.
    pub(crate) async fn deliver(
        &self,
        task: &str,
        call: &OpenCall,
        outcome: &Result<Value, String>,
    ) -> Result<(), ClientError> {
        let result = ToolResult {
            tool_call_id: call.id.clone(),
            tool_name: Some(call.name.clone()),
            success: outcome.is_ok(),
            result: outcome.as_ref().ok().cloned().unwrap_or_default(),
            error: outcome.as_ref().err().cloned(),
        };
        // A retry is the same message. A failure that replaces a result that was refused is another one.
        let suffix = if outcome.is_ok() { "result" } else { "failure" };
        let data = json!(ToolResults { tool_results: vec![result] });
        self.tell(task, format!("{}-{suffix}", call.id), data).await
    }

    pub(crate) async fn decide(
        &self,
        task: &str,
        call: &str,
        hash: &Value,
        decision: &Decision,
    ) -> Result<(), ClientError> {
        let data = json!({ "decisions": [written_decision(call, hash, decision)] });
        self.tell(task, format!("{call}-decision"), data).await
    }

    /// Sends data to a task that waits for it.
    async fn tell(&self, task: &str, message_id: String, data: Value) -> Result<(), ClientError> {
        let mut request = self.message(message_id, MessagePart::data(data));
        task.clone_into(&mut request.message.task_id);
        self.send(&request).await.map(drop)
    }

    /// The request that creates the task of a question, or continues one.
    fn creation(
        &self,
        message_id: &str,
        asked: Asked,
        tools: Option<&ClientTools>,
    ) -> Result<SendMessageRequest, ClientError> {
        if let Some(field) = asked.fields.keys().next() {
            return Err(ClientError::NotInProtocol(field.clone()));
        }
        let mut request = self.message(message_id.to_owned(), MessagePart::text(asked.input));
        request.message.context_id = asked.conversation.unwrap_or_default();
        request.message.task_id = asked.task.unwrap_or_default();
        let definitions = tools.map(ClientTools::definitions).unwrap_or_default();
        // The tools of a task are those of the request that creates it.
        if !definitions.is_empty() && request.message.task_id.is_empty() {
            if !self.has_client_tools {
                return Err(ClientError::NoClientTools(self.name.clone()));
            }
            let tools = json!(ToolDefinitions { tools: definitions.to_vec() });
            request.metadata.insert(client_tools::URI.to_owned(), tools);
        }
        Ok(request)
    }

    fn message(&self, message_id: String, part: MessagePart) -> SendMessageRequest {
        let extensions = if self.has_client_tools { vec![client_tools::URI.to_owned()] } else { Vec::new() };
        SendMessageRequest {
            tenant: self.tenant.clone(),
            message: TaskMessage {
                message_id,
                context_id: String::new(),
                task_id: String::new(),
                role: MessageRole::User,
                parts: vec![part],
                metadata: Metadata::new(),
                extensions,
            },
            configuration: Some(SendMessageConfiguration {
                history_length: Some(0),
                return_immediately: true,
                ..SendMessageConfiguration::default()
            }),
            metadata: Metadata::new(),
        }
    }

    async fn call<T: DeserializeOwned>(&self, operation: Operation<'_>) -> Result<T, ClientError> {
        let response = self.connection.send(self.request(&operation)).await?;
        read_as(self.read(response).await?)
    }

    async fn open_stream(&self, request: RequestBuilder) -> Result<EventStream, ClientError> {
        let response = self.connection.send(request.header(ACCEPT, "text/event-stream")).await?;
        if is_event_stream(&response) {
            return Ok(self.connection.stream(response));
        }
        // An error before the first event is a plain answer.
        self.read(response).await?;
        Err(ClientError::Unreadable("it is not an event stream".to_owned()))
    }

    /// The result in an answer.
    async fn read(&self, response: Response) -> Result<Value, ClientError> {
        self.result(self.connection.read(response).await?)
    }

    /// The event in the data of a message of a stream.
    fn event(&self, data: &str) -> Result<StreamEvent, ClientError> {
        let data = serde_json::from_str(data)
            .map_err(|error| ClientError::Unreadable(format!("an event is not JSON: {error}")))?;
        read_as(self.result(data)?)
    }

    fn result(&self, mut answer: Value) -> Result<Value, ClientError> {
        match self.binding {
            Binding::HttpJson => Ok(answer),
            Binding::JsonRpc if answer.get("result").is_some() => Ok(answer["result"].take()),
            Binding::JsonRpc if answer["error"].is_object() => {
                Err(ClientError::of_answer(Refusal::of_rpc(&answer["error"]), None))
            }
            Binding::JsonRpc => Err(ClientError::Unreadable("it has neither `result` nor `error`".to_owned())),
        }
    }

    fn request(&self, operation: &Operation<'_>) -> RequestBuilder {
        let request = match self.binding {
            Binding::JsonRpc => self.rpc_request(operation),
            Binding::HttpJson => self.http_request(operation),
        };
        let request = request.header(VERSION_HEADER, VERSION);
        if self.has_client_tools { request.header(EXTENSIONS_HEADER, client_tools::URI) } else { request }
    }

    fn rpc_request(&self, operation: &Operation<'_>) -> RequestBuilder {
        let of_task = |id: &str| {
            let mut params = json!({ "id": id });
            if let Some(tenant) = &self.tenant {
                params["tenant"] = json!(tenant);
            }
            params
        };
        let (method, params) = match operation {
            Operation::Send(request) => ("SendMessage", json!(request)),
            Operation::Stream(request) => ("SendStreamingMessage", json!(request)),
            Operation::Get(id) => {
                let mut params = of_task(id);
                params["historyLength"] = json!(0);
                ("GetTask", params)
            }
            Operation::Cancel(id) => ("CancelTask", of_task(id)),
            Operation::Subscribe(id) => ("SubscribeToTask", of_task(id)),
        };
        // One answer per request, so their ids need not differ.
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.connection.request(Method::POST, self.endpoint.clone()).json(&body)
    }

    fn http_request(&self, operation: &Operation<'_>) -> RequestBuilder {
        let mut url = self.endpoint.clone();
        let (method, segments, body) = match operation {
            Operation::Send(request) => (Method::POST, vec!["message:send".to_owned()], Some(json!(request))),
            Operation::Stream(request) => (Method::POST, vec!["message:stream".to_owned()], Some(json!(request))),
            Operation::Get(id) => {
                url.query_pairs_mut().append_pair("historyLength", "0");
                (Method::GET, vec!["tasks".to_owned(), (*id).to_owned()], None)
            }
            Operation::Cancel(id) => (Method::POST, vec!["tasks".to_owned(), format!("{id}:cancel")], Some(json!({}))),
            Operation::Subscribe(id) => {
                (Method::POST, vec!["tasks".to_owned(), format!("{id}:subscribe")], Some(json!({})))
            }
        };
        // Only URLs that cannot be a base have no path, and those have no host either.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(self.tenant.as_ref()).extend(&segments);
        }
        let request = self.connection.request(method, url);
        match body {
            Some(body) => request.json(&body),
            None => request,
        }
    }
}

fn read_as<T: DeserializeOwned>(value: Value) -> Result<T, ClientError> {
    serde_json::from_value(value).map_err(|error| ClientError::Unreadable(format!("it is not of A2A 1.0: {error}")))
}

/// The first interface of version 1.0 with a binding that is spoken here: the agent lists them by preference.
fn choose(interfaces: &[AgentInterface]) -> Option<(Binding, &AgentInterface)> {
    let spoken = interfaces.iter().filter(|interface| interface.protocol_version.split('.').next() == Some("1"));
    spoken
        .filter_map(|interface| match interface.protocol_binding.as_str() {
            "JSONRPC" => Some((Binding::JsonRpc, interface)),
            "HTTP+JSON" => Some((Binding::HttpJson, interface)),
            _ => None,
        })
        .next()
}

/// The card below a URL, or at it. An endpoint without a card of its own may be in that of its server.
async fn read_card(connection: &Connection) -> Result<AgentCard, ClientError> {
    let url = connection.url();
    if url.path().ends_with(".json") {
        return get_card(connection, url.clone()).await;
    }
    match get_card(connection, below(url)).await {
        Err(error @ ClientError::NotAnAgent { .. }) if url.path() != "/" => {
            let card = get_card(connection, below(&url.join("/").unwrap_or_else(|_| url.clone()))).await?;
            let is_here = |interface: &AgentInterface| interface.url.trim_end_matches('/') == connection.server();
            if card.supported_interfaces.iter().any(is_here) { Ok(card) } else { Err(error) }
        }
        card => card,
    }
}

fn below(url: &Url) -> Url {
    let mut url = url.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(CARD_PATH.split('/'));
    }
    url
}

async fn get_card(connection: &Connection, url: Url) -> Result<AgentCard, ClientError> {
    let not_an_agent = |reason: String| ClientError::NotAnAgent { url: connection.server().to_owned(), reason };
    let missing = format!("there is no card at {url}");
    let request = connection.request(Method::GET, url).header(VERSION_HEADER, VERSION);
    let response = match connection.send(request).await {
        Err(ClientError::Refused(refusal)) if refusal.status.as_u16() == 404 => return Err(not_an_agent(missing)),
        response => response?,
    };
    let card = connection.read(response).await.and_then(read_as);
    card.map_err(|error| match error {
        ClientError::Unreadable(why) => not_an_agent(format!("its card cannot be read: {why}")),
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(interfaces: &[(&str, &str, &str)]) -> AgentCard {
        let interfaces: Vec<_> = interfaces
            .iter()
            .map(|(url, binding, version)| json!({"url": url, "protocolBinding": binding, "protocolVersion": version}))
            .collect();
        serde_json::from_value(json!({"name": "n", "supportedInterfaces": interfaces})).unwrap()
    }

    fn open(interfaces: &[(&str, &str, &str)], key: bool) -> Result<A2aAgent, ClientError> {
        let mut connection = Connection::new("https://agents.example/base").unwrap();
        if key {
            connection = connection.with_key(&"sk-1".parse().unwrap()).unwrap();
        }
        A2aAgent::of_card(connection, &card(interfaces))
    }

    #[test]
    fn the_first_interface_of_this_version_over_http_is_used() {
        let agent = open(
            &[
                ("https://agents.example/old", "JSONRPC", "0.3"),
                ("agents.example:50051", "GRPC", "1.0"),
                ("https://agents.example/rest", "HTTP+JSON", "1.0"),
                ("https://agents.example/rpc", "JSONRPC", "1.0"),
            ],
            true,
        )
        .unwrap();
        assert_eq!((agent.endpoint(), agent.binding), ("https://agents.example/rest", Binding::HttpJson));
        let request = agent.request(&Operation::Subscribe("a/b")).build().unwrap();
        assert_eq!(request.url().as_str(), "https://agents.example/rest/tasks/a%2Fb:subscribe");
        assert_eq!(request.headers()[VERSION_HEADER], "1.0");
    }

    #[test]
    fn a_card_cannot_take_a_key_elsewhere() {
        let elsewhere = [("https://other.example/rpc", "JSONRPC", "1.0")];
        assert!(matches!(open(&elsewhere, true), Err(ClientError::ForeignEndpoint { .. })));
        assert!(open(&elsewhere, false).is_ok());
        for useless in [("https://agents.example", "JSONRPC", "0.3"), ("ftp://agents.example", "JSONRPC", "1.0")] {
            assert!(matches!(open(&[useless], false), Err(ClientError::NotAnAgent { .. })), "{useless:?}");
        }
    }

    #[test]
    fn a_question_that_the_protocol_or_the_agent_cannot_take_is_not_sent() {
        let agent = open(&[("https://agents.example/rpc", "JSONRPC", "1.0")], false).unwrap();
        let asked = |field: Option<&str>| Asked {
            input: "hello".into(),
            conversation: None,
            task: None,
            fields: field.map(|field| (field.to_owned(), json!(1))).into_iter().collect(),
        };
        let tools = ClientTools::new().with("t", "d", json!({}), async |_| Ok::<_, String>(1));
        let refused = agent.creation("m", asked(Some("timeout")), None).unwrap_err();
        assert_eq!(refused.to_string(), "A2A has no field for `timeout`");
        assert!(matches!(agent.creation("m", asked(None), Some(&tools)), Err(ClientError::NoClientTools(_))));
        assert!(agent.creation("m", asked(None), Some(&ClientTools::new())).unwrap().metadata.is_empty());
    }
}
