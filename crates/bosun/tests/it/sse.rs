//! Streams that are cut at random bytes and resumed, until the query ends.
//!
//! What a reader assembles from the parts must equal one uninterrupted reading: no event twice, none missing, none in
//! another order, and the text of the last turn complete. The uninterrupted reading, in turn, must match the journal.

use std::collections::BTreeMap;

use bosun_core::{Event, event::CallRoute};
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{
    client::{Client, Stream, result},
    oracle,
    proof::{Proof, scale, seed},
    rng::Rng,
    scenarios::{self, Scenario},
    server::{ProcessExit, World},
    soon,
    sse::SseEvent,
};

/// The number of concurrent readers.
const READERS: u64 = 8;
/// A cut may come this late; most events are shorter.
const LONGEST_PIECE: u64 = 700;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_cut_anywhere_is_resumed_without_loss() {
    let (seed, cuts) = (seed(), scale("BOSUN_SSE_CUTS", 200));
    let name = "sse::a_stream_that_is_cut_anywhere_is_resumed_without_loss";
    let mut proof = Proof::begin(name, seed, &[("BOSUN_SSE_CUTS", cuts)]);
    let rng = Rng::new(seed);
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);

    let (mut made, mut number) = (0, 0);
    let mut streams: BTreeMap<String, Vec<SseEvent>> = BTreeMap::new();
    let mut readers = JoinSet::new();
    while made < cuts || !readers.is_empty() {
        while made < cuts && (readers.len() as u64) < READERS {
            let reader = Reader::new(client.clone(), rng.branch(number), number);
            readers.spawn(reader.read());
            number += 1;
        }
        let read = soon("the end of a stream", readers.join_next()).await.expect("a reader").expect("no panic");
        made += read.cuts;
        proof.violations(read.violations);
        streams.insert(read.name, read.events);
    }

    assert_eq!(server.kill().await, ProcessExit::Killed);
    let mut violations = Vec::new();
    let mut events = 0;
    for journal in oracle::read_journals(&world.data(), &mut violations) {
        let journaled: Vec<_> =
            journal.entries.iter().filter_map(|entry| Some((entry.seq, sse_event_name(&entry.event)?))).collect();
        let read: Vec<_> = streams.get(journal.head.name.as_str()).into_iter().flatten().collect();
        let read: Vec<_> = read
            .iter()
            .map(|event| {
                let (uid, seq) = event.id.as_deref().unwrap_or_default().rsplit_once('.').unwrap_or_default();
                assert_eq!(uid, journal.head.uid.to_string());
                (seq.parse().expect("a number"), event.name.as_str())
            })
            .collect();
        events += read.len();
        if journaled != read {
            violations.push(format!("{}: the journal is {journaled:?}, and the stream {read:?}", journal.head.name));
        }
    }
    proof.violations(violations);
    proof.finish(made, &json!({"queries": streams.len(), "events": events}));
}

/// The event that an entry of the journal becomes, if any.
fn sse_event_name(event: &Event) -> Option<&'static str> {
    match event {
        Event::TurnStarted { turn: 1, .. } | Event::TurnStarted { attempt: 2.., .. } => Some("agent_thinking"),
        Event::TurnEnded { calls: 0, .. } => Some("agent_response"),
        Event::CallAsked(asked) => match asked.route {
            CallRoute::Outside { .. } => Some("tool_call"),
            CallRoute::Approval { .. } => Some("approval_required"),
            CallRoute::Parameters { .. } => Some("parameters_required"),
            CallRoute::Refused { .. } | CallRoute::Cached { .. } => Some("tool_finished"),
            CallRoute::Inside { .. } => None,
        },
        Event::CallStarted { .. } => Some("tool_started"),
        Event::CallFinished { .. } | Event::CallExpired { .. } => Some("tool_finished"),
        Event::CallApproved { .. } | Event::CallRejected { .. } => Some("approval_decided"),
        Event::CallResolved { .. } => Some("tool_result_received"),
        Event::CallDelegated { .. } => Some("child_started"),
        Event::ChildEnded { .. } => Some("child_ended"),
        Event::Completed | Event::Failed { .. } | Event::Cancelled { .. } => Some("complete"),
        _ => None,
    }
}

/// Reads one query in parts.
struct Reader {
    client: Client,
    rng: Rng,
    name: String,
    /// Events with an id, as they came.
    events: Vec<SseEvent>,
    /// The text of the turn that is being written, as this reader has it.
    text: Text,
    cuts: u64,
    violations: Vec<String>,
}

/// What a reader has assembled of one turn.
#[derive(Debug, Default)]
struct Text {
    turn: u64,
    attempt: u64,
    written: String,
}

struct Read {
    name: String,
    events: Vec<SseEvent>,
    cuts: u64,
    violations: Vec<String>,
}

impl Reader {
    fn new(client: Client, rng: Rng, number: u64) -> Self {
        let name = format!("stream-{number}");
        Self { client, rng, name, events: Vec::new(), text: Text::default(), cuts: 0, violations: Vec::new() }
    }

    async fn read(mut self) -> Read {
        let body = scenarios::query(&self.name, Scenario::Words);
        let mut stream = self.client.create_stream(&body).await.expect("a server");
        while !self.read_piece(&mut stream).await {
            self.cuts += 1;
            // Dropping the old stream closes its connection.
            stream = self.resume().await;
        }
        let mut whole = self.client.all_events(&self.name).await;
        whole.retain(|event| event.id.is_some());
        if self.events != whole {
            self.violations.push(format!("{}: was read as {:?} and is {whole:?}", self.name, self.events));
        }
        self.check_end().await;
        Read { name: self.name, events: self.events, cuts: self.cuts, violations: self.violations }
    }

    async fn resume(&self) -> Stream {
        let last_id = self.events.last().and_then(|event| event.id.as_deref());
        self.client.events(&self.name, last_id).await.expect("a server")
    }

    /// Reads up to a random byte; true when the query has ended.
    async fn read_piece(&mut self, stream: &mut Stream) -> bool {
        let mut budget = self.rng.within(1..LONGEST_PIECE);
        while let Some(event) = stream.next(&mut budget).await.expect("a server") {
            match event.name.as_str() {
                "agent_response_delta" => self.take_delta(&event),
                "tool_call" => self.answer(&event).await,
                _ => {}
            }
            let over = event.name == "complete";
            if event.id.is_some() {
                self.events.push(event);
            }
            if over {
                return true;
            }
        }
        false
    }

    /// A delta continues the text, or begins it again from offset 0 for a reader that came back.
    fn take_delta(&mut self, event: &SseEvent) {
        let data = event.json();
        let number = |name: &str| data[name].as_u64().unwrap_or_default();
        let (turn, attempt, offset) = (number("turn"), number("attempt"), number("offset"));
        if (turn, attempt) != (self.text.turn, self.text.attempt) || offset == 0 {
            self.text = Text { turn, attempt, written: String::new() };
        }
        if offset != self.text.written.len() as u64 {
            self.violations.push(format!("{}: {event:?} does not continue {:?}", self.name, self.text));
        }
        self.text.written.push_str(data["delta"].as_str().unwrap_or_default());
    }

    async fn answer(&mut self, event: &SseEvent) {
        let call = event.json()["id"].as_str().unwrap_or_default().to_owned();
        let body = result(&call, &format!("{} {call}", self.name));
        let posted = self.client.post(&format!("/{}/tool-result?wait=0", self.name), &body).await;
        if posted.status != 200 {
            self.violations
                .push(format!("{}: a result was answered with {}: {}", self.name, posted.status, posted.body));
        }
    }

    /// The answer is the same in the stream, in its deltas and in the query.
    async fn check_end(&mut self) {
        let query =
            self.client.retry_until_answered(Method::GET, &format!("/{}?view=rfc", self.name), None).await.answer;
        let response = query.body["response"].as_str().unwrap_or_default().to_owned();
        let streamed = self.events.iter().find(|event| event.name == "agent_response").map(SseEvent::json);
        let streamed = streamed.map(|data| data["response"].as_str().unwrap_or_default().to_owned());
        if streamed.as_deref() != Some(response.as_str()) {
            self.violations.push(format!("{}: answers `{response}`, and the stream says {streamed:?}", self.name));
        }
        if !response.starts_with(&self.text.written) && self.text.turn == 2 {
            self.violations.push(format!("{}: answers `{response}`, and its deltas {:?}", self.name, self.text));
        }
        if query.state() != "completed" {
            self.violations.push(format!("{}: is {}", self.name, query.body));
        }
    }
}
