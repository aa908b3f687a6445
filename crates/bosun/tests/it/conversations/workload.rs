//! Clients that add to the same conversations without a pause, and record their answers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::CONVERSATIONS;
use crate::support::{
    client::{Answer, Client},
    rng::Rng,
    soon,
};

/// What a client does with one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConversationBehaviour {
    /// Is answered at once.
    Answered,
    /// The model calls a tool of the server.
    Inside,
    /// The model calls a tool of the client.
    Outside,
    /// The same, and the client cancels instead of answering.
    Cancelled,
    /// The model's API refuses.
    Refused,
}

impl ConversationBehaviour {
    /// Whatever kills there are in between.
    fn end(self) -> &'static str {
        match self {
            Self::Answered | Self::Inside | Self::Outside => "completed",
            Self::Cancelled => "cancelled",
            Self::Refused => "failed",
        }
    }
}

const BEHAVIOURS: &[ConversationBehaviour] = &[
    ConversationBehaviour::Answered,
    ConversationBehaviour::Answered,
    ConversationBehaviour::Inside,
    ConversationBehaviour::Outside,
    ConversationBehaviour::Cancelled,
    ConversationBehaviour::Refused,
];

/// What one client observed of one query.
#[derive(Clone, Debug)]
pub(super) struct ClientRecord {
    pub(super) name: String,
    /// Which of the [`CONVERSATIONS`].
    pub(super) shared: usize,
    /// The queries of that conversation that a client knew to be completed before this one was created.
    pub(super) known: Vec<String>,
    /// How it is to end.
    pub(super) meant: &'static str,
    /// State and answer, as the client saw them at the end.
    pub(super) ended: Option<(String, Option<String>)>,
    /// What the client itself found wrong.
    pub(super) violations: Vec<String>,
}

/// The clients, and what they share.
#[derive(Debug)]
pub(super) struct ConversationWorkload {
    client: Client,
    rng: Rng,
    next: AtomicU64,
    /// No new queries are created.
    closing: AtomicBool,
    /// For each conversation, the queries that a client knows to be completed.
    completed: Mutex<Vec<Vec<String>>>,
    records: Mutex<Vec<ClientRecord>>,
}

impl ConversationWorkload {
    pub(super) fn new(client: Client, rng: Rng) -> Arc<Self> {
        Arc::new(Self {
            client,
            rng,
            next: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            completed: Mutex::new(vec![Vec::new(); CONVERSATIONS.len()]),
            records: Mutex::default(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Starts with this many queries in flight.
    pub(super) fn begin(self: &Arc<Self>, clients: u64) -> Clients {
        let mut working = JoinSet::new();
        for client in 0..clients {
            working.spawn(Arc::clone(self).work(client));
        }
        Clients { workload: Arc::clone(self), working }
    }

    async fn work(self: Arc<Self>, client: u64) {
        let shared = usize::try_from(client).expect("a small number") % CONVERSATIONS.len();
        while !self.closing.load(Ordering::Relaxed) {
            self.ask(shared).await;
        }
    }

    async fn ask(&self, shared: usize) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut rng = self.rng.branch(number);
        let behaviour = *rng.pick(BEHAVIOURS);
        let name = format!("t{number}");
        let known = self.completed.lock().expect("the completed ones")[shared].clone();
        let meant = behaviour.end();
        let record = ClientRecord { name, shared, known, meant, ended: None, violations: Vec::new() };
        let mut asking = ConversationClient { client: &self.client, behaviour, rng, record };
        asking.run().await;
        let record = asking.record;
        if matches!(&record.ended, Some((state, _)) if state == "completed") {
            self.completed.lock().expect("the completed ones")[shared].push(record.name.clone());
        }
        self.records.lock().expect("the records").push(record);
    }
}

/// The clients at work.
#[derive(Debug)]
pub(super) struct Clients {
    workload: Arc<ConversationWorkload>,
    working: JoinSet<()>,
}

impl Clients {
    /// Lets every query that was created end, creates one more in each conversation, and returns the clients' records.
    pub(super) async fn end(mut self) -> Vec<ClientRecord> {
        self.workload.closing.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("the end of every query", self.working.join_next()).await {
            ended.expect("a client");
        }
        for shared in 0..CONVERSATIONS.len() {
            soon("one more answer", self.workload.ask(shared)).await;
        }
        std::mem::take(&mut *self.workload.records.lock().expect("the records"))
    }
}

/// A client that creates one query.
struct ConversationClient<'a> {
    client: &'a Client,
    behaviour: ConversationBehaviour,
    rng: Rng,
    record: ClientRecord,
}

impl ConversationClient<'_> {
    async fn run(&mut self) {
        let body = self.body();
        let mut query = self.create(&body).await;
        // A query has one call, so it cannot pause more often than a few kills make it.
        for _ in 0..40 {
            match query.state() {
                "queued" | "running" => query = self.read().await,
                "waiting" if self.behaviour == ConversationBehaviour::Cancelled => query = self.cancel().await,
                "waiting" => query = self.deliver(&query).await,
                state @ ("completed" | "failed" | "cancelled") => {
                    let response = query.body["response"].as_str().map(str::to_owned);
                    self.record.ended = Some((state.to_owned(), response));
                    return;
                }
                other => return self.fault(format!("{} with state `{other}`: {}", query.status, query.body)),
            }
        }
        self.fault(format!("makes no progress: {}", query.body));
    }

    fn fault(&mut self, what: impl Into<String>) {
        self.record.violations.push(what.into());
    }

    /// The input names the query, so that a request to the model can be attributed, and has a random length, so that
    /// windows in tokens end anywhere.
    fn body(&mut self) -> Value {
        let shared = CONVERSATIONS[self.record.shared];
        let scenario = match self.behaviour {
            ConversationBehaviour::Answered => "said",
            ConversationBehaviour::Inside => "inside",
            ConversationBehaviour::Outside | ConversationBehaviour::Cancelled => "outside",
            ConversationBehaviour::Refused => "refused",
        };
        let length = usize::try_from(self.rng.within(0..120)).expect("a small number");
        json!({
            "name": self.record.name,
            "input": format!("{scenario} {} {}", self.record.name, "x".repeat(length)),
            "target": {"type": "agent", "name": "talker"},
            "memory": {"name": shared.memory},
            "conversationId": shared.id,
            "conversationPolicy": if shared.alone { "reject" } else { "allow" },
            "toolSource": "hybrid",
            "externalTools": [{
                "name": "lookup",
                "description": "Looks something up where only the client can",
                "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
            }],
        })
    }

    /// Creates the query under a name of its own, so that it can be repeated safely.
    async fn create(&mut self, body: &Value) -> Answer {
        let path = if self.rng.chance(70) { "?wait=20s" } else { "" };
        loop {
            let answer = self.client.retry_until_answered(Method::POST, path, Some(body)).await.answer;
            if answer.code() == "conversation_busy" {
                self.client.back_off(&answer).await;
                continue;
            }
            if !(200..=202).contains(&answer.status) {
                self.fault(format!("creation was answered with {}: {}", answer.status, answer.body));
            }
            return answer;
        }
    }

    async fn read(&mut self) -> Answer {
        let answer = self.client.get(&format!("/{}?wait=20s&view=rfc", self.record.name)).await;
        if answer.status != 200 {
            self.fault(format!("was acknowledged and is answered with {}: {}", answer.status, answer.body));
        }
        answer
    }

    async fn cancel(&mut self) -> Answer {
        let path = format!("/{}/cancel", self.record.name);
        self.client.retry_until_answered(Method::PATCH, &path, Some(&json!({}))).await;
        self.read().await
    }

    async fn deliver(&mut self, query: &Answer) -> Answer {
        let calls = query.waiting_calls();
        let [(call, _)] = calls.as_slice() else {
            self.fault(format!("waits for something other than one call: {}", query.body));
            return self.read().await;
        };
        let result = json!({"toolCallId": call, "toolResult": format!("{} was found", self.record.name)});
        let posted = self.client.post(&format!("/{}/tool-result", self.record.name), &result).await;
        if posted.status != 200 {
            self.fault(format!("a result was answered with {}: {}", posted.status, posted.body));
        }
        self.read().await
    }
}
