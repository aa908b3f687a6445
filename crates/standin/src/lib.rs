//! A stand-in for the APIs of paid models: OpenAI's chat completions and Anthropic's messages, over real
//! HTTP, in their exact wire format, with no key and no cost.
//!
//! It answers from a [`Script`], or with answers that a test wrote down byte by byte. It reads requests as strictly
//! as the real APIs do, so a conversation that they would refuse is refused here, and it can misbehave
//! in every way that they do. What it says follows from the request alone, but for faults that happen a
//! number of `times`: for these it counts how often it got the same request.
//!
//! The tests, the benchmark and, in a build with the feature `standin`, `bosun models serve` use it; a
//! server does not link this crate. [`ledger`] is here for the same reason: tools that only tests want; and so is
//! [`mcp`] and [`a2a`]: servers that misbehave, and [`nango`]: a stand-in for Nango.

pub mod a2a;
mod answer;
mod chat_completions;
pub mod ledger;
pub mod mcp;
mod messages;
pub mod nango;

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use bosun_adapters::model::scripted::{Script, ScriptError, ScriptLine, WireFailure, WireFaults};
use bosun_core::ContentHash;
use bosun_reading::Faults;
use futures_util::{StreamExt, stream};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};

pub use answer::{Answer, End, Part};

/// The largest request that is read.
const LARGEST_REQUEST: usize = 64 * 1024 * 1024;

/// What a stand-in answers.
#[derive(Clone, Debug)]
pub enum StandInAnswers {
    /// A script, in whichever wire format it is asked.
    Script(Arc<Script>),
    /// These, one after the other.
    Answers(Vec<Answer>),
}

impl StandInAnswers {
    /// Reads a script; `file` is where it came from, for the messages.
    ///
    /// # Errors
    /// With every fault of the script, each with its place.
    pub fn parse(file: impl AsRef<Path>, text: &str) -> Result<Self, Faults> {
        Script::parse(file.as_ref(), text).map(Arc::new).map(Self::Script)
    }
}

/// The wire formats of model APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    ChatCompletions,
    Messages,
}

impl Api {
    /// The API behind a path. Azure has the name of the deployment before it.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else {
            None
        }
    }

    fn failure(self, failure: &WireFailure) -> Answer {
        match self {
            Self::ChatCompletions => chat_completions::failure(failure),
            Self::Messages => messages::failure(failure),
        }
    }

    fn refuse(self, status: u16, message: String) -> Answer {
        self.failure(&WireFailure { status, message, retry_after: None })
    }
}

/// One request, as far as a script looks at it.
struct Turn {
    model: String,
    messages: Vec<ReadMessage>,
    stream: bool,
    /// Whether a stream ends with the count of tokens.
    with_usage: bool,
}

enum ReadMessage {
    User(String),
    Assistant {
        /// Whether it begins with a thought, where the API wants thoughts back.
        thinks: Option<bool>,
    },
    Result {
        alias: String,
        content: String,
    },
}

impl Turn {
    fn lines(&self) -> Vec<ScriptLine<'_>> {
        let lines = self.messages.iter().map(|message| match message {
            ReadMessage::User(text) => ScriptLine::User(text),
            ReadMessage::Assistant { .. } => ScriptLine::Assistant,
            ReadMessage::Result { alias, content } => ScriptLine::Result { alias, content },
        });
        lines.collect()
    }

    /// Whether a thought of these turns is missing, where the API wants them back.
    fn lacks(&self, thoughts: &[bool]) -> bool {
        let answers = self.messages.iter().rev().take_while(|message| !matches!(message, ReadMessage::User(_)));
        let answers = answers
            .filter_map(|message| if let ReadMessage::Assistant { thinks } = message { Some(*thinks) } else { None });
        answers.zip(thoughts.iter().rev()).any(|(thinks, thought)| thinks == Some(false) && *thought)
    }

    /// Which answer of the conversation is asked for, counted from 1.
    fn number(&self) -> usize {
        self.messages.iter().filter(|message| matches!(message, ReadMessage::Assistant { .. })).count() + 1
    }
}

/// What a script answers to the body of a request. `earlier` says how often the same was asked before; it is
/// asked for only where that matters.
#[must_use]
pub fn play(script: &Script, api: Api, body: &[u8], earlier: impl FnOnce() -> u32) -> Answer {
    let turn = match api {
        Api::ChatCompletions => chat_completions::read(body),
        Api::Messages => messages::read(body),
    };
    let turn = match turn {
        Ok(turn) => turn,
        Err(message) => return api.refuse(400, message),
    };
    let mut played = match script.play(&turn.lines(), str::to_owned) {
        Ok(played) => played,
        Err(ScriptError::Failed { status, message }) => return api.refuse(status, message),
        Err(error) => return api.refuse(400, error.to_string()),
    };
    if turn.lacks(&played.thoughts_before) {
        let message = "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a \
                       final `assistant` message must start with a thinking block";
        return api.refuse(400, message.to_owned());
    }
    played.faults = played.faults.filter(|faults| faults.times.is_none_or(|times| earlier() < times));
    if let Some(WireFaults { fail: Some(failure), .. }) = played.faults {
        return api.failure(failure).after(played.delay);
    }
    let answer = match (api, turn.stream) {
        (Api::ChatCompletions, true) => chat_completions::stream(&turn, &played),
        (Api::ChatCompletions, false) => chat_completions::plain(&turn, &played),
        (Api::Messages, true) => messages::stream(&turn, &played),
        (Api::Messages, false) => messages::plain(&turn, &played),
    };
    match played.faults {
        Some(faults) => answer.with(faults),
        None => answer,
    }
}

/// The stand-in as a service, for tests with a server of their own. It records no requests.
pub fn router(answers: StandInAnswers) -> Router {
    Router::new().fallback(answer).with_state(Arc::new(Shared::new(answers, false)))
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Recorded {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A stand-in that listens. It ends when it is dropped.
#[derive(Debug)]
pub struct StandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: JoinSet<io::Result<()>>,
}

#[derive(Debug)]
struct Shared {
    answer_queue: Mutex<AnswerQueue>,
    /// `None` if requests are not recorded.
    recorded: Option<Mutex<Vec<Recorded>>>,
    arrived: Notify,
}

#[derive(Debug)]
enum AnswerQueue {
    Script { script: Arc<Script>, asked: HashMap<ContentHash, u32> },
    Answers(VecDeque<Answer>),
}

impl StandIn {
    /// Listens on a free port and records requests, for tests.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn recording(answers: StandInAnswers) -> io::Result<Self> {
        Self::open(TcpListener::bind("127.0.0.1:0").await?, answers, true)
    }

    /// Serves on a port, and records nothing.
    ///
    /// # Errors
    /// If the port is not usable.
    pub fn serving(listener: TcpListener, answers: StandInAnswers) -> io::Result<Self> {
        Self::open(listener, answers, false)
    }

    fn open(listener: TcpListener, answers: StandInAnswers, records: bool) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(answers, records));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, shared, tasks })
    }

    /// Where it listens: `http://127.0.0.1:…`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.recorded.as_ref().map(|recorded| lock(recorded).clone()).unwrap_or_default()
    }

    /// Waits for the next request.
    pub async fn asked(&self) {
        self.shared.arrived.notified().await;
    }

    /// Runs until it breaks.
    ///
    /// # Errors
    /// With why it broke.
    pub async fn join(mut self) -> io::Result<()> {
        match self.tasks.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn new(answers: StandInAnswers, records: bool) -> Self {
        let answer_queue = Mutex::new(match answers {
            StandInAnswers::Script(script) => AnswerQueue::Script { script, asked: HashMap::new() },
            StandInAnswers::Answers(answers) => AnswerQueue::Answers(answers.into()),
        });
        Self { answer_queue, recorded: records.then(Mutex::default), arrived: Notify::new() }
    }

    fn next(&self, path: &str, method: &str, body: &[u8]) -> Answer {
        let script = match &mut *lock(&self.answer_queue) {
            AnswerQueue::Script { script, .. } => Arc::clone(script),
            AnswerQueue::Answers(answers) => {
                let none = || Answer::json(500, r#"{"error":{"message":"one request too many"}}"#);
                return answers.pop_front().unwrap_or_else(|| none().header("x-should-retry", "false"));
            }
        };
        match Api::at(path) {
            // Programs test a credential by reading this list.
            None if method == "GET" && path.ends_with("/v1/models") => chat_completions::models(),
            None => {
                let message = "this stand-in serves `/v1/chat/completions`, `/v1/messages` and the list `/v1/models`";
                Api::ChatCompletions.refuse(404, message.to_owned())
            }
            Some(api) if method != "POST" => api.refuse(405, format!("{method} is not POST")),
            Some(api) => play(&script, api, body, || self.count(body)),
        }
    }

    /// How often this was asked before.
    fn count(&self, body: &[u8]) -> u32 {
        match &mut *lock(&self.answer_queue) {
            AnswerQueue::Script { asked, .. } => {
                let times = asked.entry(ContentHash::of_parts(&[body])).or_default();
                *times += 1;
                *times - 1
            }
            AnswerQueue::Answers(_) => 0,
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, LARGEST_REQUEST).await else {
        return respond(Answer::json(400, r#"{"error":{"message":"the request broke off"}}"#));
    };
    if let Some(recorded) = &shared.recorded {
        lock(recorded).push(Recorded {
            method: head.method.to_string(),
            path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        });
    }
    shared.arrived.notify_one();
    respond(shared.next(head.uri.path(), head.method.as_str(), &body))
}

fn respond(answer: Answer) -> Response {
    let parts = stream::iter(together(answer.parts)).then(|part| async move {
        if !part.after.is_zero() {
            tokio::time::sleep(part.after).await;
        }
        Ok::<_, io::Error>(Bytes::from(part.bytes))
    });
    let body = match answer.end {
        End::Clean => Body::from_stream(parts),
        End::Cut => Body::from_stream(parts.chain(stream::once(async {
            // The bytes before the cut are flushed first.
            tokio::time::sleep(Duration::from_millis(1)).await;
            Err(io::Error::other("cut"))
        }))),
        End::Silence => Body::from_stream(parts.chain(stream::pending())),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (axum::http::HeaderName::try_from(name), value.try_into()) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// Merges parts without a pause before them into the part before.
fn together(parts: Vec<Part>) -> Vec<Part> {
    let mut sent: Vec<Part> = Vec::new();
    for part in parts {
        match sent.last_mut() {
            Some(last) if part.after.is_zero() => last.bytes.extend(part.bytes),
            _ => sent.push(part),
        }
    }
    sent
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
