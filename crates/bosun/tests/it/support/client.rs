//! A client that survives restarts of the server.
//!
//! It always knows which process is the server. A request without an answer is reported as such; the client then waits
//! for the *next* process instead of retrying the dead one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{PATIENCE, server::Server, soon, sse::SseEvent};

/// Sooner than `Retry-After` asks for: a proof is in a hurry, and the server must cope with it.
const BEFORE_ASKING_AGAIN: Duration = Duration::from_millis(20);

/// The n-th process, and where it listens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Address {
    pub(crate) generation: u64,
    pub(crate) base: String,
}

/// An HTTP client for requests that [`Client`] does not make.
pub(crate) fn http() -> reqwest::Client {
    // Another client of this process may have installed it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Announces that `server` is the current one.
pub(crate) fn introduce(announce: &watch::Sender<Address>, server: &Server) {
    announce.send_modify(|address| {
        *address = Address { generation: address.generation + 1, base: server.base.clone() };
    });
}

/// What the server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    generation: u64,
    pub(crate) status: u16,
    /// `Retry-After` is there.
    pub(crate) retry_after: bool,
    /// `Idempotent-Replayed: true`
    pub(crate) replayed: bool,
    pub(crate) body: Value,
}

impl Answer {
    async fn read(generation: u64, response: Response) -> Result<Self, Lost> {
        let status = response.status().as_u16();
        let replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        let retry_after = response.headers().contains_key("retry-after");
        let text = response.bytes().await.map_err(|_| Lost { generation })?;
        let body = serde_json::from_slice(&text).unwrap_or(Value::Null);
        Ok(Self { generation, status, retry_after, replayed, body })
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> &str {
        self.body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the server said that it is temporarily unavailable.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.status == 503
    }

    /// The engine's state of the query.
    pub(crate) fn state(&self) -> &str {
        self.body["state"].as_str().unwrap_or_default()
    }

    pub(crate) fn waiting_calls(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let calls = self.body["toolCalls"].as_array().into_iter().flatten();
        calls.map(|call| (text(&call["id"]), text(&call["name"]))).collect()
    }
}

/// The process died before it answered; it is not known whether it processed the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    generation: u64,
}

/// Why there is no stream.
#[derive(Clone, Debug)]
pub(crate) enum NoStream {
    Lost(Lost),
    /// The server answered with this instead.
    Refused(Answer),
}

/// An answer, and whether it took more than one request to get it.
#[derive(Clone, Debug)]
pub(crate) struct RetriedAnswer {
    pub(crate) answer: Answer,
    pub(crate) repeated: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    address: watch::Receiver<Address>,
    /// Counts all answers, except those that ask for a retry.
    answers: watch::Sender<u64>,
    /// How often the server said that it is temporarily unavailable, by code.
    refusals: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Client {
    pub(crate) fn new(address: watch::Receiver<Address>) -> Self {
        // Another client of this process may have installed it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            // Shorter than the server's own timeout, so that no request uses a connection that is just being closed.
            .pool_idle_timeout(Duration::from_secs(2))
            .timeout(PATIENCE)
            .build()
            .expect("a client");
        Self { http, address, answers: watch::Sender::new(0), refusals: Arc::default() }
    }

    /// A client of one server that is not replaced.
    pub(crate) fn of(base: &str) -> Self {
        Self::new(watch::channel(Address { generation: 1, base: base.to_owned() }).1)
    }

    pub(crate) fn answers(&self) -> watch::Receiver<u64> {
        self.answers.subscribe()
    }

    /// Waits for this many further answers.
    pub(crate) async fn answered(&self, more: u64) {
        let mut answers = self.answers();
        let goal = *answers.borrow() + more;
        soon("answers", answers.wait_for(|count| *count >= goal)).await.expect("clients");
    }

    /// How often the server said that it is temporarily unavailable, by code.
    pub(crate) fn refusals(&self) -> BTreeMap<String, u64> {
        self.refusals.lock().expect("the refusals").clone()
    }

    fn request(&self, method: &Method, path: &str) -> (u64, RequestBuilder) {
        let address = self.address.borrow();
        let url = format!("{}/v1/namespaces/default/queries{path}", address.base);
        (address.generation, self.http.request(method.clone(), url))
    }

    /// Whether `/health` is answered with success.
    pub(crate) async fn is_healthy(&self) -> bool {
        let url = format!("{}/health", self.address.borrow().base);
        self.http.get(url).send().await.is_ok_and(|response| response.status().is_success())
    }

    /// Sends one request.
    pub(crate) async fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, Lost> {
        let (generation, mut request) = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|_| Lost { generation })?;
        let answer = Answer::read(generation, response).await?;
        if !answer.is_unavailable() {
            self.answers.send_modify(|answers| *answers += 1);
        }
        Ok(answer)
    }

    /// Retries until an available server answers.
    pub(crate) async fn retry_until_answered(&self, method: Method, path: &str, body: Option<&Value>) -> RetriedAnswer {
        let mut repeated = false;
        loop {
            match self.ask(&method, path, body).await {
                Ok(answer) if answer.is_unavailable() || answer.code() == "query_changed" => {
                    self.back_off(&answer).await;
                }
                Ok(answer) => return RetriedAnswer { answer, repeated },
                Err(lost) => self.wait_for_next_process(lost).await,
            }
            repeated = true;
        }
    }

    /// Waits until a retry makes sense after `refusal`, and counts it.
    pub(crate) async fn back_off(&self, refusal: &Answer) {
        assert!(refusal.retry_after || refusal.status == 409, "a 503 without `Retry-After`: {}", refusal.body);
        *self.refusals.lock().expect("the refusals").entry(refusal.code().to_owned()).or_default() += 1;
        if refusal.code() == "shutting_down" {
            return self.wait_for_next_process(Lost { generation: refusal.generation }).await;
        }
        tokio::time::sleep(BEFORE_ASKING_AGAIN).await;
    }

    /// Waits until there is another process.
    pub(crate) async fn wait_for_next_process(&self, lost: Lost) {
        let mut address = self.address.clone();
        let next = address.wait_for(|address| address.generation > lost.generation);
        soon("the next start of the server", next).await.expect("the sender of servers");
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.retry_until_answered(Method::GET, path, None).await.answer
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.retry_until_answered(Method::POST, path, Some(body)).await.answer
    }

    /// Opens a stream of the events after `last_id`.
    pub(crate) async fn events(&self, name: &str, last_id: Option<&str>) -> Result<Stream, NoStream> {
        let (generation, mut request) = self.request(&Method::GET, &format!("/{name}/events"));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        Stream::open(generation, request).await
    }

    /// Creates a query and streams it in the same request.
    pub(crate) async fn create_stream(&self, body: &Value) -> Result<Stream, NoStream> {
        let (generation, request) = self.request(&Method::POST, "?stream=true");
        Stream::open(generation, request.json(body)).await
    }

    /// The whole stream of a query, to its end.
    pub(crate) async fn all_events(&self, name: &str) -> Vec<SseEvent> {
        loop {
            let lost = match self.events(name, None).await {
                Ok(mut stream) => match stream.rest().await {
                    Ok(events) => return events,
                    Err(lost) => lost,
                },
                Err(NoStream::Lost(lost)) => lost,
                Err(NoStream::Refused(answer)) if answer.is_unavailable() => {
                    self.back_off(&answer).await;
                    continue;
                }
                Err(NoStream::Refused(answer)) => panic!("the stream of {name} was refused: {}", answer.body),
            };
            self.wait_for_next_process(lost).await;
        }
    }
}

/// One connection that receives events.
#[derive(Debug)]
pub(crate) struct Stream {
    generation: u64,
    response: Response,
    decoder: super::sse::Decoder,
    /// Read from the connection, and not yet decoded.
    bytes: std::collections::VecDeque<u8>,
}

impl Stream {
    pub(crate) async fn open(generation: u64, request: RequestBuilder) -> Result<Self, NoStream> {
        let response = request.send().await.map_err(|_| NoStream::Lost(Lost { generation }))?;
        if !response.status().is_success() {
            let refusal = Answer::read(generation, response).await.map_err(NoStream::Lost)?;
            return Err(NoStream::Refused(refusal));
        }
        Ok(Self { generation, response, decoder: super::sse::Decoder::default(), bytes: Default::default() })
    }

    /// The next event; `None` when the server has ended the stream, or when `budget` bytes have been read.
    pub(crate) async fn next(&mut self, budget: &mut u64) -> Result<Option<SseEvent>, Lost> {
        while *budget > 0 {
            if let Some(byte) = self.bytes.pop_front() {
                *budget -= 1;
                if let Some(event) = self.decoder.feed(byte) {
                    return Ok(Some(event));
                }
                continue;
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.bytes.extend(chunk),
                Ok(None) => return Ok(None),
                Err(_) => return Err(Lost { generation: self.generation }),
            }
        }
        Ok(None)
    }

    async fn rest(&mut self) -> Result<Vec<SseEvent>, Lost> {
        let mut events = Vec::new();
        let mut budget = u64::MAX;
        while let Some(event) = self.next(&mut budget).await? {
            events.push(event);
        }
        Ok(events)
    }
}

/// The prefix of a placeholder for a text that is too large for a journal.
pub(crate) const LARGE: &str = "large ";

/// The text that `content` stands for.
pub(crate) fn spelled_out(content: &str) -> String {
    let times = if content.starts_with(LARGE) { 300 * 1024 / content.len() } else { 1 };
    content.repeat(times)
}

/// The body of one result.
pub(crate) fn result(call: &str, content: &str) -> Value {
    json!({"toolCallId": call, "toolResult": spelled_out(content)})
}
