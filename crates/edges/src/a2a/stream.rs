//! A task as a stream of events: its snapshot, then what happens to it.
//!
//! [`TaskNarrator`] folds the journal as the engine does and compares the status before and after each entry, so a
//! stream reports exactly what a poll would. Text of the answer is sent as it is written, in an artifact that a later
//! attempt replaces. Entries of the journal carry an `id`, `<uid>.<seq>`; a client that sends its last `id` when it
//! subscribes gets the events after it, and no snapshot. The protocol has no ids; clients that ignore them lose
//! nothing.

use axum::{body::Bytes, response::Response};
use bosun_core::{Entry, Event, Head, Seq, Transcript};
use bosun_engine::{Engine, QueryKey, Snapshot, Watched, store::Stored};
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};

use super::{
    artifact,
    error::A2aError,
    negotiate::Generation,
    task::{self, Shown},
    v03,
    waiting::OpenWork,
    wire::{Artifact, ArtifactUpdate, MessagePart, Metadata, StatusUpdate, StreamEvent, Task, TaskState},
};
use crate::{
    asking::follow::{Narrate, follow},
    http::sse,
};

/// The binding of a stream, which decides how its events are written.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// With the id of the request.
    JsonRpc(Value),
    HttpJson,
    #[cfg(feature = "grpc")]
    Grpc,
}

impl Binding {
    pub(super) fn is_grpc(&self) -> bool {
        match self {
            Self::JsonRpc(_) | Self::HttpJson => false,
            #[cfg(feature = "grpc")]
            Self::Grpc => true,
        }
    }

    fn respond(&self, events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
        match self {
            Self::JsonRpc(_) | Self::HttpJson => sse::respond(events),
            #[cfg(feature = "grpc")]
            Self::Grpc => super::grpc::respond(events),
        }
    }
}

/// How an event is wrapped for its client.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) binding: Binding,
    pub(super) generation: Generation,
    /// Whether the client reads calls in the form of the client tool provider.
    pub(super) aliases: bool,
}

impl Envelope {
    /// Writes an event. `is_final`: whether the stream ends with it, which 0.3 says in the event.
    fn write(&self, id: Option<&str>, event: &StreamEvent, is_final: bool) -> Bytes {
        let result = match self.generation {
            Generation::V1 => json!(event),
            Generation::V03 => v03::event(event, self.aliases, is_final),
        };
        match &self.binding {
            Binding::JsonRpc(request) => {
                sse::write_data(id, &json!({ "jsonrpc": "2.0", "id": request, "result": result }))
            }
            Binding::HttpJson => sse::write_data(id, &result),
            // Messages of gRPC have no id.
            #[cfg(feature = "grpc")]
            Binding::Grpc => super::grpc::write_event(result),
        }
    }
}

/// Where a stream begins and when it ends.
#[derive(Debug, Default)]
pub(super) struct StreamTerms {
    /// Begin after this entry, without a snapshot.
    pub(super) after: Option<Seq>,
    /// Whether the stream continues while the task waits for its client.
    pub(super) outlasts_waiting: bool,
    pub(super) history: Option<usize>,
    /// That of the task in the snapshot.
    pub(super) metadata: Option<Metadata>,
}

/// Streams a task from `snapshot` on.
pub(super) async fn open(
    engine: &Engine,
    snapshot: &Snapshot,
    envelope: Envelope,
    terms: StreamTerms,
) -> Result<Response, A2aError> {
    let key = (snapshot.head.namespace.clone(), snapshot.head.name.clone());
    let (narrator, first) = match terms.after {
        // The subscription reports what child queries wait for.
        Some(seq) => (TaskNarrator::at(engine, &key, seq, envelope, &terms).await?, Bytes::new()),
        None => {
            let narrator = TaskNarrator::new(snapshot, envelope, &terms);
            let first = narrator.snapshot(&terms);
            (narrator, first)
        }
    };
    let (binding, first) = (narrator.envelope.binding.clone(), stream::iter((!first.is_empty()).then_some(first)));
    if narrator.over {
        return Ok(binding.respond(first));
    }
    let shown = if terms.after.is_none() { &snapshot.below[..] } else { &[] };
    let watch = engine.watch(&key, narrator.head.seq).await?.with_shown_below(shown);
    Ok(binding.respond(first.chain(follow(watch, narrator, engine.metrics().stream_opened()))))
}

/// Translates the journal of a task.
#[derive(Debug)]
struct TaskNarrator {
    head: Head,
    transcript: Transcript,
    envelope: Envelope,
    outlasts_waiting: bool,
    /// Calls of the last turn that follow in the same append.
    calls_to_come: u32,
    /// What queries below the task's wait for.
    below: OpenWork,
    /// The status that the client was sent last: the state, and what the task waits for.
    sent: (TaskState, Vec<String>),
    over: bool,
}

impl TaskNarrator {
    fn new(snapshot: &Snapshot, envelope: Envelope, terms: &StreamTerms) -> Self {
        let (head, transcript) = (Head::clone(&snapshot.head), Transcript::clone(&snapshot.transcript));
        Self::of(head, transcript, OpenWork::below(snapshot), envelope, terms)
    }

    fn of(head: Head, transcript: Transcript, below: OpenWork, envelope: Envelope, terms: &StreamTerms) -> Self {
        let mut narrator = Self {
            head,
            transcript,
            envelope,
            outlasts_waiting: terms.outlasts_waiting,
            calls_to_come: 0,
            below,
            sent: (TaskState::Submitted, Vec::new()),
            over: false,
        };
        narrator.sent = narrator.seen_status();
        narrator.over = narrator.is_last(narrator.sent.0);
        narrator
    }

    /// The task as it was after entry `seq` of its journal.
    async fn at(
        engine: &Engine,
        key: &QueryKey,
        seq: Seq,
        envelope: Envelope,
        terms: &StreamTerms,
    ) -> Result<Self, A2aError> {
        let (namespace, name) = key;
        let stored = engine.store().load(namespace, name).await.map_err(bosun_engine::EngineError::from)?;
        let stored = stored.ok_or_else(|| super::error::task_not_found(name.as_str(), None))?;
        let (head, transcript) = fold(&stored, seq).ok_or_else(internal)?;
        Ok(Self::of(head, transcript, OpenWork::default(), envelope, terms))
    }

    /// The stream ends with this state.
    fn is_last(&self, state: TaskState) -> bool {
        state.is_terminal() || (state == TaskState::InputRequired && !self.outlasts_waiting)
    }

    fn snapshot(&self, terms: &StreamTerms) -> Bytes {
        let task = task::task(&self.head, &self.transcript, &self.open_work(), Shown::all(terms.history));
        let task = Task { metadata: terms.metadata.clone(), ..task };
        let mut text = self.write(Some(self.head.seq), &StreamEvent::Task(Box::new(task))).to_vec();
        // Clients of the seed read calls in status updates alone, and these may be open by now.
        if self.envelope.aliases && self.sent.0 == TaskState::InputRequired {
            text.extend_from_slice(&self.write(Some(self.head.seq), &self.status_update()));
        }
        text.into()
    }

    fn write(&self, seq: Option<Seq>, event: &StreamEvent) -> Bytes {
        let id = seq.map(|seq| format!("{}.{seq}", self.head.uid));
        self.envelope.write(id.as_deref(), event, self.over)
    }

    fn artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) -> StreamEvent {
        StreamEvent::ArtifactUpdate(ArtifactUpdate {
            task_id: self.head.name.to_string(),
            context_id: task::context_id(&self.head, &self.transcript),
            artifact,
            append,
            last_chunk,
        })
    }

    fn open_work(&self) -> OpenWork {
        OpenWork::of(&self.head, &self.transcript, &[]).merge(&self.below)
    }

    fn seen_status(&self) -> (TaskState, Vec<String>) {
        let open = self.open_work();
        (open.state(self.head.status()), open.ids())
    }

    /// The status, if the client does not know it yet.
    fn new_status(&mut self) -> Option<StreamEvent> {
        let now = self.seen_status();
        if self.calls_to_come > 0 || now == self.sent {
            return None;
        }
        let state = now.0;
        self.sent = now;
        self.over = self.is_last(state);
        Some(self.status_update())
    }

    fn status_update(&self) -> StreamEvent {
        StreamEvent::StatusUpdate(Box::new(StatusUpdate {
            task_id: self.head.name.to_string(),
            context_id: task::context_id(&self.head, &self.transcript),
            status: task::status(&self.head, &self.transcript, &self.open_work(), Shown::all(None)),
        }))
    }

    /// Folds an entry, and returns the events for the client.
    fn events(&mut self, entry: &Entry) -> Vec<StreamEvent> {
        if let Err(error) = self.head.apply(entry) {
            tracing::error!(error = %error, "journal cannot be followed, ending the stream");
            self.over = true;
            return Vec::new();
        }
        self.transcript.apply(entry);
        let mut events = Vec::new();
        match &entry.event {
            Event::TurnEnded { calls: 0, rejected: None, text, .. } => {
                let text = text.as_deref().unwrap_or_default();
                let whole = artifact::answer(&self.head, &self.transcript, text);
                // The whole text, so it is correct whatever the client has read of earlier attempts.
                events.push(self.artifact(whole, false, true));
            }
            Event::TurnEnded { calls, .. } => self.calls_to_come = *calls,
            Event::CallAsked(_) => self.calls_to_come = self.calls_to_come.saturating_sub(1),
            _ => {}
        }
        events.extend(artifact::of_entry(entry, &self.transcript).map(|files| self.artifact(files, false, true)));
        events.extend(self.new_status());
        events
    }
}

fn internal() -> A2aError {
    crate::http::error::internal().into()
}

/// A task as it was after entry `seq` of its journal.
fn fold(stored: &Stored, seq: Seq) -> Option<(Head, Transcript)> {
    let mut entries = stored.entries.iter().take_while(|entry| entry.seq <= seq);
    let created = entries.next()?;
    let Head { uid, namespace, name, .. } = &stored.head;
    let mut head = Head::new(*uid, namespace.clone(), name.clone(), created).ok()?;
    let mut transcript = Transcript::new(created)?;
    for entry in entries {
        head.apply(entry).ok()?;
        transcript.apply(entry);
    }
    Some((head, transcript))
}

/// Calls `notify` for every entry after `after` that has events, with the task as it was then.
pub(super) fn replay(stored: &Stored, after: Seq, mut notify: impl FnMut(Seq, &Head, &Transcript, &[StreamEvent])) {
    // A cursor of zero is before the first entry, which has no event of its own.
    let Some((head, transcript)) = fold(stored, after.max(1)) else { return };
    let envelope = Envelope { binding: Binding::HttpJson, generation: Generation::V1, aliases: false };
    let terms = StreamTerms { outlasts_waiting: true, ..StreamTerms::default() };
    let mut narrator = TaskNarrator::of(head, transcript, OpenWork::default(), envelope, &terms);
    for entry in stored.entries.iter().filter(|entry| entry.seq > after.max(1)) {
        let events = narrator.events(entry);
        if !events.is_empty() {
            notify(entry.seq, &narrator.head, &narrator.transcript, &events);
        }
    }
}

impl Narrate for TaskNarrator {
    fn narrate(&mut self, watched: &Watched, _has_other_subscribers: bool) -> Bytes {
        let entry = match watched {
            Watched::Entry(entry) => entry,
            Watched::Delta { offset, text, .. } => {
                let parts = vec![MessagePart::text(text.clone())];
                let artifact = artifact::of_answer(&self.head, parts);
                return self.write(None, &self.artifact(artifact, *offset > 0, false));
            }
            // The protocol has no place for the progress of inside calls.
            Watched::Progress(_) => return Bytes::new(),
            // They are not entries of this query, so they have no id: a client that reconnects gets the snapshot.
            Watched::Below(call) => {
                self.below.add(call);
                return self.new_status().map_or_else(Bytes::new, |event| self.write(None, &event));
            }
            Watched::BelowEnded(call) => {
                self.below.remove(*call);
                return self.new_status().map_or_else(Bytes::new, |event| self.write(None, &event));
            }
        };
        let mut text = Vec::new();
        for event in &self.events(entry) {
            text.extend_from_slice(&self.write(Some(entry.seq), event));
        }
        text.into()
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
