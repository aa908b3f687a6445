//! Clients that run queries without a pause, each with a behaviour of its own, and record their answers.
//!
//! They survive the server: a request without an answer is retried with the next process, and one that is refused
//! because the server is temporarily unavailable is retried with the same one. The violations that they find go into their
//! record, and from there to the oracle.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    behaviour::{BEHAVIOURS, ClientBehaviour},
    client::{Answer, Client, LARGE, NoStream, result, spelled_out},
    oracle::{DecisionPost, Post, PostVerdict, Record},
    rng::Rng,
    scenarios::{self, Scenario},
    soon,
};

/// The clients, and what they share.
#[derive(Debug)]
pub(crate) struct Workload {
    client: Client,
    next: AtomicU64,
    /// No new queries are created.
    closing: AtomicBool,
    rng: Rng,
    large_results: bool,
    records: Mutex<Vec<Record>>,
}

impl Workload {
    pub(crate) fn new(client: Client, rng: Rng) -> Arc<Self> {
        Arc::new(Self::from_parts(client, rng, false))
    }

    /// One in sixteen clients posts results that are too large for a journal.
    pub(crate) fn with_large_results(client: Client, rng: Rng) -> Arc<Self> {
        Arc::new(Self::from_parts(client, rng, true))
    }

    fn from_parts(client: Client, rng: Rng, large_results: bool) -> Self {
        let (next, closing) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { client, next, closing, rng, large_results, records: Mutex::default() }
    }

    /// Starts with this many queries in flight.
    pub(crate) fn begin(self: &Arc<Self>, clients: u64) -> Clients {
        let mut working = JoinSet::new();
        for _ in 0..clients {
            working.spawn(Arc::clone(self).work());
        }
        Clients { workload: Arc::clone(self), working }
    }

    async fn work(self: Arc<Self>) {
        while !self.closing.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mut client = QueryClient::new(&self.client, self.rng.branch(number), number);
            client.large = self.large_results && number.is_multiple_of(16);
            client.run().await;
            self.records.lock().expect("the records").push(client.record);
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

fn decision(call: &str, approve: bool) -> Value {
    json!({"toolCallId": call, "decision": if approve { "approved" } else { "rejected" }})
}

/// The clients at work.
#[derive(Debug)]
pub(crate) struct Clients {
    workload: Arc<Workload>,
    working: JoinSet<()>,
}

impl Clients {
    /// Lets every query that was created end, and returns the clients' records.
    pub(crate) async fn end(mut self) -> Vec<Record> {
        self.workload.closing.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("the end of every query", self.working.join_next()).await {
            ended.expect("a client");
        }
        std::mem::take(&mut *self.workload.records.lock().expect("the records"))
    }
}

/// A client that runs one query.
struct QueryClient<'a> {
    client: &'a Client,
    rng: Rng,
    scenario: Scenario,
    behaviour: ClientBehaviour,
    large: bool,
    record: Record,
}

impl<'a> QueryClient<'a> {
    fn new(client: &'a Client, mut rng: Rng, number: u64) -> Self {
        let (scenario, manners) = *rng.pick(BEHAVIOURS);
        let behaviour = *rng.pick(manners);
        let record = Record {
            name: format!("q{number}-{}-{behaviour:?}", scenario.input()).to_lowercase(),
            cancelled: matches!(
                behaviour,
                ClientBehaviour::Cancel | ClientBehaviour::CancelRace | ClientBehaviour::Delete
            ),
            ..Record::default()
        };
        Self { client, rng, scenario, behaviour, large: false, record }
    }

    async fn run(&mut self) {
        let mut query = self.create().await;
        if self.behaviour == ClientBehaviour::Delete {
            return self.delete().await;
        }
        if self.behaviour == ClientBehaviour::Change {
            self.change().await;
        }
        // A query has at most ten calls, so it cannot pause more often than that.
        for _ in 0..40 {
            match query.state() {
                "queued" | "running" => query = self.read().await,
                "awaiting_approval" if self.behaviour == ClientBehaviour::Late => {
                    query = self.approve_after_deadline(&query).await;
                }
                "awaiting_approval" => query = self.decide(&query).await,
                "waiting" if self.behaviour == ClientBehaviour::Late => query = self.post_after_deadline(&query).await,
                "waiting" => query = self.answer(&query).await,
                "held" => query = self.resume().await,
                "completed" | "failed" | "cancelled" => return self.end(&query).await,
                other => return self.fault(format!("answered {} with state `{other}`: {}", query.status, query.body)),
            }
        }
        self.fault(format!("makes no progress: {}", query.body));
    }

    fn fault(&mut self, what: impl Into<String>) {
        self.record.violations.push(what.into());
    }

    /// Creates the query under a name of its own, so that it can be repeated safely.
    async fn create(&mut self) -> Answer {
        let mut body = scenarios::query(&self.record.name, self.scenario);
        if self.behaviour == ClientBehaviour::Late {
            body["externalTimeout"] = json!("120ms");
            body["approvalTimeout"] = json!("120ms");
        }
        let path = if self.rng.chance(50) { "?wait=20s" } else { "" };
        // A creation that arrives behind a deletion would be a new query.
        if self.rng.chance(20) && self.behaviour != ClientBehaviour::Delete {
            self.send_without_waiting(Method::POST, path, &body).await;
        }
        let created = self.client.retry_until_answered(Method::POST, path, Some(&body)).await;
        match created.answer.status {
            200..=202 => {
                self.record.acknowledged = true;
                created.answer
            }
            status => {
                self.fault(format!("creation was answered with {status}: {}", created.answer.body));
                created.answer
            }
        }
    }

    async fn read(&mut self) -> Answer {
        let path = format!("/{}?wait=20s&view=rfc", self.record.name);
        let answer = self.client.get(&path).await;
        if answer.status != 200 {
            self.fault(format!("was acknowledged and is answered with {}: {}", answer.status, answer.body));
        }
        answer
    }

    /// Sends a request and does not wait for its answer.
    async fn send_without_waiting(&mut self, method: Method, path: &str, body: &Value) {
        let timeout = Duration::from_micros(self.rng.within(0..6_000));
        // Answered, lost or still on its way: this client will not know.
        let _ = tokio::time::timeout(timeout, self.client.ask(&method, path, Some(body))).await;
    }

    /// Answers the waiting calls, as this client behaves.
    async fn answer(&mut self, query: &Answer) -> Answer {
        let calls = query.waiting_calls();
        if calls.is_empty() {
            self.fault(format!("waits for nothing: {}", query.body));
        }
        match self.behaviour {
            ClientBehaviour::Cancel => return self.cancel().await,
            ClientBehaviour::Change => self.change().await,
            ClientBehaviour::CancelRace => {
                let (call, _) = &calls[0];
                let body = result(call, &self.content(call, 0));
                let path = self.result_path("");
                let client = self.client;
                let (posted, _) =
                    tokio::join!(client.retry_until_answered(Method::POST, &path, Some(&body)), self.cancel());
                self.note(call, &self.content(call, 0), &posted.answer);
                return self.read().await;
            }
            ClientBehaviour::Batch => {
                let entry = |call: &str| result(call, &self.content(call, 0));
                let body = json!({"toolResults": calls.iter().map(|(call, _)| entry(call)).collect::<Vec<_>>()});
                let posted = self.client.post(&self.result_path(""), &body).await;
                self.note_batch(&calls, &posted);
                return posted;
            }
            _ => {}
        }
        let mut last = None;
        for (call, tool) in &calls {
            last = Some(self.deliver(call, tool).await);
        }
        match last {
            Some(answer) if answer.status == 200 && answer.body.get("state").is_some() => answer,
            _ => self.read().await,
        }
    }

    /// Delivers one result, as this client behaves.
    async fn deliver(&mut self, call: &str, tool: &str) -> Answer {
        let parameters = if self.rng.chance(50) { "" } else { "?wait=0" };
        let path = self.result_path(parameters);
        let content = self.content(call, 0);
        let mut body = match self.behaviour {
            ClientBehaviour::ByName => json!({"toolName": tool, "toolResult": spelled_out(&content)}),
            _ => result(call, &content),
        };
        match self.behaviour {
            ClientBehaviour::Hold => body["continueExecution"] = json!(false),
            ClientBehaviour::Lost => self.send_without_waiting(Method::POST, &path, &body).await,
            ClientBehaviour::Twice | ClientBehaviour::Rivals => {
                let other =
                    if self.behaviour == ClientBehaviour::Rivals { self.content(call, 1) } else { content.clone() };
                let other_body = result(call, &other);
                let (first, second) = tokio::join!(
                    self.client.retry_until_answered(Method::POST, &path, Some(&body)),
                    self.client.retry_until_answered(Method::POST, &path, Some(&other_body)),
                );
                self.note(call, &content, &first.answer);
                self.note(call, &other, &second.answer);
                return if first.answer.status == 200 { first.answer } else { second.answer };
            }
            _ => {}
        }
        let posted = self.client.retry_until_answered(Method::POST, &path, Some(&body)).await;
        self.note(call, &content, &posted.answer);
        posted.answer
    }

    /// Decides about the call that waits for approval, as this client behaves.
    async fn decide(&mut self, query: &Answer) -> Answer {
        let Some(call) = query.body["approvals"][0]["id"].as_str().map(str::to_owned) else {
            self.fault(format!("waits for no approval: {}", query.body));
            return self.read().await;
        };
        let approve = self.rng.chance(60);
        let path = self.approval_path();
        match self.behaviour {
            ClientBehaviour::Cancel => return self.cancel().await,
            ClientBehaviour::Text => return self.write_text(query).await,
            ClientBehaviour::Change => self.change().await,
            ClientBehaviour::CancelRace => {
                let (client, body) = (self.client, decision(&call, approve));
                let (posted, _) =
                    tokio::join!(client.retry_until_answered(Method::POST, &path, Some(&body)), self.cancel());
                self.note_decision(&call, approve, &posted.answer);
                return self.read().await;
            }
            ClientBehaviour::Lost => self.send_without_waiting(Method::POST, &path, &decision(&call, approve)).await,
            ClientBehaviour::Twice | ClientBehaviour::Rivals => {
                let other = if self.behaviour == ClientBehaviour::Rivals { !approve } else { approve };
                let (body, other_body) = (decision(&call, approve), decision(&call, other));
                let (first, second) = tokio::join!(
                    self.client.retry_until_answered(Method::POST, &path, Some(&body)),
                    self.client.retry_until_answered(Method::POST, &path, Some(&other_body)),
                );
                self.note_decision(&call, approve, &first.answer);
                self.note_decision(&call, other, &second.answer);
                return self.read().await;
            }
            _ => {}
        }
        let posted = self.client.retry_until_answered(Method::POST, &path, Some(&decision(&call, approve))).await;
        self.note_decision(&call, approve, &posted.answer);
        self.read().await
    }

    /// Rejects every approval that is open, in whichever query of the tree, with a text.
    async fn write_text(&mut self, query: &Answer) -> Answer {
        let approvals = query.body["approvals"].as_array().cloned().unwrap_or_default();
        let body = json!({"text": "not like this"});
        let posted = self.client.retry_until_answered(Method::POST, &self.approval_path(), Some(&body)).await;
        let verdict = match posted.answer.status {
            200 => PostVerdict::Accepted,
            // The lost answer was to the same text.
            409 if posted.repeated && posted.answer.code() == "approval_not_open" => PostVerdict::Replayed,
            status => {
                self.fault(format!("a text was answered with {status}: {}", posted.answer.body));
                return self.read().await;
            }
        };
        for approval in approvals {
            let call = approval["id"].as_str().unwrap_or_default().to_owned();
            self.record.decisions.push(DecisionPost { call, approved: false, verdict });
        }
        self.read().await
    }

    /// Waits for the approval to expire, then approves anyway.
    async fn approve_after_deadline(&mut self, query: &Answer) -> Answer {
        let call = query.body["approvals"][0]["id"].as_str().unwrap_or_default().to_owned();
        self.watch_to_the_end().await;
        let posted = self.client.post(&self.approval_path(), &decision(&call, true)).await;
        if posted.status != 410 {
            self.fault(format!("a late approval was answered with {}: {}", posted.status, posted.body));
        }
        self.note_decision(&call, true, &posted);
        self.read().await
    }

    fn approval_path(&self) -> String {
        format!("/{}/approval", self.record.name)
    }

    /// Records the answer to a decision.
    fn note_decision(&mut self, call: &str, approved: bool, answer: &Answer) {
        let verdict = match (answer.status, answer.replayed) {
            (200, false) => PostVerdict::Accepted,
            (200, true) => PostVerdict::Replayed,
            (409, _) if answer.code() == "already_decided" => PostVerdict::Conflict,
            (410, _) => PostVerdict::Gone,
            _ => return self.fault(format!("a decision was answered with {}: {}", answer.status, answer.body)),
        };
        self.record.decisions.push(DecisionPost { call: call.to_owned(), approved, verdict });
    }

    /// Waits for the call to expire, then posts anyway.
    async fn post_after_deadline(&mut self, query: &Answer) -> Answer {
        let calls = query.waiting_calls();
        self.watch_to_the_end().await;
        for (call, _) in &calls {
            let content = self.content(call, 0);
            let posted = self.client.post(&self.result_path(""), &result(call, &content)).await;
            if posted.status != 410 {
                self.fault(format!("a late result was answered with {}: {}", posted.status, posted.body));
            }
            self.note(call, &content, &posted);
        }
        self.read().await
    }

    /// Follows the stream, across as many processes as it takes, and checks it against an uninterrupted reading.
    async fn watch_to_the_end(&mut self) {
        let mut seen = Vec::new();
        let mut last_id: Option<String> = None;
        let mut endless = u64::MAX;
        'connections: loop {
            let lost = match self.client.events(&self.record.name, last_id.as_deref()).await {
                Err(NoStream::Lost(lost)) => lost,
                Err(NoStream::Refused(answer)) if answer.is_unavailable() => {
                    self.client.back_off(&answer).await;
                    continue;
                }
                Err(NoStream::Refused(answer)) => {
                    let (status, body) = (answer.status, &answer.body);
                    return self.fault(format!("its stream behind {last_id:?} was refused with {status}: {body}"));
                }
                Ok(mut stream) => loop {
                    match stream.next(&mut endless).await {
                        Ok(Some(event)) => {
                            let over = event.name == "complete";
                            if event.id.is_some() {
                                last_id.clone_from(&event.id);
                                seen.push(event);
                            }
                            if over {
                                break 'connections;
                            }
                        }
                        Ok(None) => continue 'connections,
                        Err(lost) => break lost,
                    }
                },
            };
            self.client.wait_for_next_process(lost).await;
        }
        let mut whole = self.client.all_events(&self.record.name).await;
        whole.retain(|event| event.id.is_some());
        if seen != whole {
            self.fault(format!("was streamed as {seen:?} and is {whole:?}"));
        }
    }

    async fn cancel(&mut self) -> Answer {
        let path = format!("/{}/cancel", self.record.name);
        let cancelled = self.client.retry_until_answered(Method::PATCH, &path, None).await.answer;
        if cancelled.status != 200 {
            self.fault(format!("its cancellation was answered with {}: {}", cancelled.status, cancelled.body));
        }
        self.read().await
    }

    /// Changes what can be changed into something that it never was.
    async fn change(&mut self) {
        let hours = self.record.hours.unwrap_or_default() + 1;
        let body = json!({"ttl": format!("{hours}h"), "metadata": {"labels": {"hours": hours.to_string()}}});
        let path = format!("/{}", self.record.name);
        if self.rng.chance(20) {
            self.send_without_waiting(Method::PUT, &path, &body).await;
        }
        let changed = self.client.retry_until_answered(Method::PUT, &path, Some(&body)).await.answer;
        if changed.status != 200 || changed.body["metadata"]["labels"] != body["metadata"]["labels"] {
            self.fault(format!("its change was answered with {}: {}", changed.status, changed.body));
        }
        self.record.hours = Some(hours);
    }

    async fn delete(&mut self) {
        let path = format!("/{}", self.record.name);
        let deleted = self.client.retry_until_answered(Method::DELETE, &path, None).await;
        match deleted.answer.status {
            204 => {}
            404 if deleted.repeated => {}
            status => return self.fault(format!("its deletion was answered with {status}: {}", deleted.answer.body)),
        }
        self.record.deleted = true;
        let answer = self.client.get(&path).await;
        if answer.status != 404 {
            self.fault(format!("was deleted and is answered with {}: {}", answer.status, answer.body));
        }
    }

    async fn resume(&mut self) -> Answer {
        let path = format!("/{}/continue", self.record.name);
        let resumed = self.client.retry_until_answered(Method::POST, &path, Some(&json!({}))).await;
        match resumed.answer.status {
            200 => {}
            409 if resumed.repeated && resumed.answer.code() == "query_not_held" => {}
            status => self.fault(format!("to continue was answered with {status}: {}", resumed.answer.body)),
        }
        self.read().await
    }

    /// The query has ended: every earlier answer is still true.
    async fn end(&mut self, query: &Answer) {
        let ending = |answer: &Answer| (answer.state().to_owned(), answer.body["response"].as_str().map(str::to_owned));
        self.record.ended = Some(ending(query));
        let again: Vec<_> = self.record.posts.clone();
        for post in again {
            let posted = self.client.post(&self.result_path(""), &result(&post.call, &post.content)).await;
            self.note(&post.call, &post.content, &posted);
            if post.verdict == PostVerdict::Accepted && !(posted.status == 200 && posted.replayed) {
                self.fault(format!("{}: was accepted, and later {}: {}", post.call, posted.status, posted.body));
            }
        }
        if self.behaviour == ClientBehaviour::Change {
            self.change().await;
        }
        let still = self.read().await;
        if self.record.ended != Some(ending(&still)) {
            self.fault(format!("ended as {:?} and then was {}", self.record.ended, still.body));
        }
    }

    fn result_path(&self, parameters: &str) -> String {
        format!("/{}/tool-result{parameters}", self.record.name)
    }

    /// A result that no other call of any query has.
    fn content(&self, call: &str, variant: u32) -> String {
        let kind = if self.large { LARGE } else { "" };
        format!("{kind}{} {call} {variant}", self.record.name)
    }

    /// Records the answer to a result.
    fn note(&mut self, call: &str, content: &str, answer: &Answer) {
        let verdict = match (answer.status, answer.replayed) {
            (200, false) => PostVerdict::Accepted,
            (200, true) => PostVerdict::Replayed,
            (409, _) if answer.code() == "already_resolved" => PostVerdict::Conflict,
            (410, _) => PostVerdict::Gone,
            _ => return self.fault(format!("a result was answered with {}: {}", answer.status, answer.body)),
        };
        self.record.posts.push(Post { call: call.to_owned(), content: content.to_owned(), verdict });
    }

    fn note_batch(&mut self, calls: &[(String, String)], answer: &Answer) {
        let results = answer.body["results"].as_array().cloned().unwrap_or_default();
        if answer.status != 200 || results.len() != calls.len() {
            return self.fault(format!("a batch was answered with {}: {}", answer.status, answer.body));
        }
        for ((call, _), result) in calls.iter().zip(results) {
            let verdict = match result["status"].as_str() {
                Some("accepted") => PostVerdict::Accepted,
                Some("replayed") => PostVerdict::Replayed,
                _ => return self.fault(format!("an entry of a batch was answered with {result}")),
            };
            let content = self.content(call, 0);
            self.record.posts.push(Post { call: call.clone(), content, verdict });
        }
    }
}
