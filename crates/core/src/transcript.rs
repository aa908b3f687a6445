//! The large fold of a journal: all messages, calls and results.
//!
//! Folded only to build a model request or to show the query to a client. It never decides anything; that is the
//! [`Head`](crate::Head)'s part.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    Actor, CallId, Outcome, QueryUid, Timestamp,
    content::Images,
    event::{AskedCall, CallQuestion, CallRoute, Entry, Event, Seq},
    json,
    machine::{outcome_code, rejected},
    query::{Spec, Usage},
    result_rendering::{ImageBudget, ResultRenderer},
};

/// All messages, calls and results of a query so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    pub spec: Arc<Spec>,
    /// The caller that created the query.
    pub by: Actor,
    pub created_at: Timestamp,
    /// Shared: a reader that still holds an earlier state of the query does not cause a copy of all results.
    pub turns: Vec<Arc<Turn>>,
    pub end: Option<QueryEnd>,
}

/// One answer of the model, with the outcomes of its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub text: Option<String>,
    pub usage: Usage,
    pub calls: Vec<Call>,
    /// The answer as it was validated, if that is not the text itself.
    pub output: Option<Arc<Value>>,
    /// Why the text failed validation against `outputSchema`.
    pub rejected: Option<String>,
    /// Opaque data that the model API expects back with the next request.
    pub provider: Option<Arc<Value>>,
    /// The model that answered, if it was not the query's own.
    pub answered_by: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub asked: Arc<AskedCall>,
    pub asked_at: Timestamp,
    /// When an inside call was (last) started.
    pub started_at: Option<Timestamp>,
    /// How its runner polls for the result, if it continues elsewhere.
    pub pending: Option<PendingCall>,
    /// What it asks a person, until that is answered.
    pub question: Option<Arc<CallQuestion>>,
    /// The answer that its runner has to pass on.
    pub answer: Option<Arc<Value>>,
    /// The query that answers it, if it has one of its own.
    pub child: Option<QueryUid>,
    /// That query ended by a call of `terminate`.
    pub terminated: bool,
    /// What a person decided, if it waited for approval.
    pub decision: Option<RecordedDecision>,
    pub result: Option<RecordedOutcome>,
    /// The model is warned that it is looping.
    pub loop_noticed: bool,
}

/// A call that continues elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingCall {
    pub handle: Arc<Value>,
    /// The call expires at this time.
    pub deadline: Timestamp,
}

/// What a person decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedDecision {
    pub approved: bool,
    pub by: Actor,
    pub at: Timestamp,
    /// The arguments, if they were changed.
    pub arguments: Option<Arc<Value>>,
}

impl Call {
    /// The arguments that are run: those of the model, or those that were approved instead.
    #[must_use]
    pub fn arguments(&self) -> &Arc<Value> {
        let edited = self.decision.as_ref().and_then(|decision| decision.arguments.as_ref());
        edited.unwrap_or(&self.asked.arguments)
    }
}

/// The one outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedOutcome {
    pub outcome: Arc<Outcome>,
    pub at: Timestamp,
    /// How long the tool ran, if the client that delivered the outcome has measured it.
    pub took: Option<Duration>,
}

impl RecordedOutcome {
    fn new(outcome: Arc<Outcome>, at: Timestamp) -> Self {
        Self { outcome, at, took: None }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct QueryEnd {
    pub seq: Seq,
    pub at: Timestamp,
    pub how: Ending,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Failed { code: String, message: String },
    Cancelled { reason: Option<String> },
}

/// One message as the model reads it; each model API has its own format for these.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    System(String),
    User(String),
    Assistant {
        text: Option<String>,
        calls: Vec<MessageCall>,
        /// Opaque data of one model API; the others ignore it.
        provider: Option<Arc<Value>>,
    },
    Tool {
        provider_id: Arc<str>,
        alias: Arc<str>,
        content: String,
        /// The images whose marks are in `content`, for a model API that accepts them. Never in a history.
        images: Images,
        /// Whether `content` is an error message.
        is_error: bool,
    },
}

/// The messages that a model has been sent for a query. Each turn is rendered once: a long query would otherwise spend
/// its time on rendering everything, with all results, again on every turn.
#[derive(Clone, Debug, Default)]
pub struct SentMessages {
    pub messages: Vec<Message>,
    /// The turns that are in them.
    pub turns: Vec<Arc<Turn>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MessageCall {
    pub provider_id: Arc<str>,
    pub alias: Arc<str>,
    /// JSON text, as the model itself wrote it.
    pub arguments: String,
}

impl Transcript {
    /// The transcript of a query that has just been created; `None` if `entry` is not a creation.
    #[must_use]
    pub fn new(entry: &Entry) -> Option<Self> {
        let Event::Created { spec, by } = &entry.event else { return None };
        Some(Self { spec: Arc::clone(spec), by: by.clone(), created_at: entry.at, turns: Vec::new(), end: None })
    }

    /// Folds one more entry in.
    pub fn apply(&mut self, entry: &Entry) {
        let at = entry.at;
        match &entry.event {
            Event::TurnEnded { text, usage, calls, output, rejected, provider, answered_by, .. } => {
                self.turns.push(Arc::new(Turn {
                    text: text.clone(),
                    usage: *usage,
                    // The calls follow; a capacity that is too small is harmless.
                    calls: Vec::with_capacity((*calls).min(16) as usize),
                    output: output.clone(),
                    rejected: rejected.clone(),
                    provider: provider.clone(),
                    answered_by: answered_by.clone(),
                }));
            }
            Event::CallAsked(asked) => {
                let result = match &asked.route {
                    CallRoute::Cached { outcome, .. } => Some(RecordedOutcome::new(Arc::clone(outcome), at)),
                    route => route.refusal().map(|outcome| RecordedOutcome::new(Arc::new(outcome), at)),
                };
                if let Some(turn) = self.turns.last_mut().map(Arc::make_mut) {
                    let asked = Arc::clone(asked);
                    turn.calls.push(Call {
                        asked,
                        asked_at: at,
                        started_at: None,
                        pending: None,
                        question: None,
                        answer: None,
                        child: None,
                        terminated: false,
                        decision: None,
                        result,
                        loop_noticed: false,
                    });
                }
            }
            Event::CallStarted { call, .. } => self.with_call(*call, |call| {
                // A poll is not a start.
                if call.pending.is_none() {
                    call.started_at = Some(at);
                }
            }),
            Event::CallPending { call, handle, deadline, .. } => {
                let pending = PendingCall { handle: Arc::clone(handle), deadline: *deadline };
                self.with_call(*call, |call| {
                    call.pending = Some(pending);
                    call.answer = None;
                });
            }
            Event::CallQuestioned { call, handle, question, deadline } => {
                let pending = PendingCall { handle: Arc::clone(handle), deadline: *deadline };
                self.with_call(*call, |call| {
                    call.pending = Some(pending);
                    call.question = Some(Arc::clone(question));
                    call.answer = None;
                });
            }
            Event::CallAnswered { call, answer, .. } => self.with_call(*call, |call| {
                call.question = None;
                call.answer = Some(Arc::clone(answer));
            }),
            Event::CallDelegated { call, child } => self.with_call(*call, |call| call.child = Some(*child)),
            Event::ChildEnded { call, child, terminated, .. } => self.with_call(*call, |call| {
                call.child = Some(*child);
                call.terminated = *terminated;
            }),
            Event::CallFinished { call, outcome } => {
                let recorded = RecordedOutcome::new(Arc::clone(outcome), at);
                self.with_call(*call, |call| call.result = Some(recorded));
            }
            Event::CallResolved { call, outcome, took_ms, .. } => {
                let took = took_ms.map(Duration::from_millis);
                let recorded = RecordedOutcome { outcome: Arc::clone(outcome), at, took };
                self.with_call(*call, |call| call.result = Some(recorded));
            }
            Event::CallApproved { call, arguments, by, .. } => {
                let decision = RecordedDecision { approved: true, by: by.clone(), at, arguments: arguments.clone() };
                self.with_call(*call, |call| call.decision = Some(decision));
            }
            Event::CallRejected { call, reason, by } => {
                let recorded = RecordedOutcome::new(Arc::new(rejected(reason.as_deref())), at);
                let decision = RecordedDecision { approved: false, by: by.clone(), at, arguments: None };
                self.with_call(*call, |call| {
                    call.decision = Some(decision);
                    call.result = Some(recorded);
                });
            }
            Event::CallExpired { call } => self.with_call(*call, |call| {
                let outcome = Arc::new(expired(&call.asked, call.decision.is_some()));
                call.result = Some(RecordedOutcome::new(outcome, at));
            }),
            Event::LoopNoticed { call } => self.with_call(*call, |call| call.loop_noticed = true),
            Event::Completed => self.end = Some(QueryEnd { seq: entry.seq, at, how: Ending::Completed }),
            Event::Failed { code, message } => {
                let how = Ending::Failed { code: code.clone(), message: message.clone() };
                self.end = Some(QueryEnd { seq: entry.seq, at, how });
            }
            Event::Cancelled { reason, .. } => {
                let how = Ending::Cancelled { reason: reason.clone() };
                self.end = Some(QueryEnd { seq: entry.seq, at, how });
            }
            Event::ClockStepped { by_ms } => self.shift_open_calls(*by_ms),
            Event::Created { .. }
            | Event::CallDue { .. }
            | Event::CallClaimed { .. }
            | Event::CallExtended { .. }
            | Event::CallReleased { .. }
            | Event::TurnStarted { .. }
            | Event::Held { .. }
            | Event::Continued { .. }
            | Event::Changed(_)
            | Event::Interrupted
            | Event::Settled
            | Event::Recovered { .. } => {}
        }
    }

    /// Shifts the start of running calls by a step of the wall clock.
    fn shift_open_calls(&mut self, by_ms: i64) {
        let Some(turn) = self.turns.last_mut().filter(|turn| turn.calls.iter().any(|call| call.result.is_none()))
        else {
            return;
        };
        for call in Arc::make_mut(turn).calls.iter_mut().filter(|call| call.result.is_none()) {
            for time in [Some(&mut call.asked_at), call.started_at.as_mut()].into_iter().flatten() {
                *time = time.shifted(by_ms);
            }
        }
    }

    fn with_call(&mut self, id: CallId, change: impl FnOnce(&mut Call)) {
        let is_it = |call: &Call| call.asked.call == id;
        // Open calls are always in the last turn.
        if let Some(turn) = self.turns.iter_mut().rev().find(|turn| turn.calls.iter().any(is_it))
            && let Some(call) = Arc::make_mut(turn).calls.iter_mut().find(|call| is_it(call))
        {
            change(call);
        }
    }

    /// All calls, in the order in which the model asked.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.turns.iter().flat_map(|turn| &turn.calls)
    }

    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&Call> {
        // Usually a call of the last turn: only those are open.
        self.turns.iter().rev().find_map(|turn| turn.calls.iter().find(|call| call.asked.call == id))
    }

    /// The final answer, once there is one.
    #[must_use]
    pub fn response(&self) -> Option<&str> {
        match self.end.as_ref()?.how {
            Ending::Completed => Some(self.turns.last()?.text.as_deref().unwrap_or_default()),
            Ending::Failed { .. } | Ending::Cancelled { .. } => None,
        }
    }

    /// The answer as data, if there is an `outputSchema`.
    #[must_use]
    pub fn output(&self) -> Option<Value> {
        self.spec.output_schema.as_ref()?;
        let text = self.response()?;
        // It was parsed the same way when it was validated.
        let checked = self.turns.last()?.output.as_deref();
        checked.cloned().or_else(|| json::parse(text, json::JsonLimits::ARGUMENTS).ok())
    }

    /// The conversation as the model reads it: its prompt, the history before the query, and the query.
    #[must_use]
    pub fn messages(&self, history: &[Message], renderer: &ResultRenderer) -> Vec<Message> {
        self.extend_sent(SentMessages::default(), history, renderer).messages
    }

    /// The same, for a model that has been sent some of it already: only new turns are added.
    #[must_use]
    pub fn extend_sent(&self, sent: SentMessages, history: &[Message], renderer: &ResultRenderer) -> SentMessages {
        let new = self.unsent_turns(&sent);
        let SentMessages { mut messages, mut turns } =
            if self.begins_with(&sent) { sent } else { self.opening(history) };
        add_turns(&mut messages, new.iter(), renderer);
        turns.extend_from_slice(new);
        drop_older_images(&mut messages);
        SentMessages { messages, turns }
    }

    /// The turns that [`Transcript::extend_sent`] would add.
    #[must_use]
    pub fn unsent_turns(&self, sent: &SentMessages) -> &[Arc<Turn>] {
        let known = if self.begins_with(sent) { sent.turns.len() } else { 0 };
        self.turns.get(known..).unwrap_or_default()
    }

    /// Whether `sent` is still a prefix. After a failed write a turn may have taken another course, and then it is
    /// another turn: a shared turn is never changed in place.
    fn begins_with(&self, sent: &SentMessages) -> bool {
        let same = sent.turns.iter().zip(&self.turns).filter(|(sent, turn)| Arc::ptr_eq(sent, turn)).count();
        same == sent.turns.len() && !sent.messages.is_empty()
    }

    fn opening(&self, history: &[Message]) -> SentMessages {
        let mut messages: Vec<_> = self.spec.prompt.iter().map(|prompt| Message::System(prompt.clone())).collect();
        messages.extend_from_slice(history);
        self.add_input(&mut messages);
        SentMessages { messages, turns: Vec::new() }
    }

    /// What later queries of the same conversation see of this one: the input and everything that led to the answer.
    /// Instructions were for this query alone, and rejected answers are left out. Images are only mentioned.
    #[must_use]
    pub fn remembered(&self, renderer: &ResultRenderer) -> Vec<Message> {
        let mut messages = Vec::new();
        self.add_input(&mut messages);
        messages.retain(|message| !matches!(message, Message::System(_)));
        add_turns(&mut messages, self.turns.iter().filter(|turn| turn.rejected.is_none()), renderer);
        all_images(&mut messages).for_each(|images| *images = Images::default());
        messages
    }

    fn add_input(&self, messages: &mut Vec<Message>) {
        if self.spec.messages.is_empty() {
            messages.push(Message::User(self.spec.input.clone()));
        } else {
            messages.extend_from_slice(&self.spec.messages);
        }
    }
}

/// Results are in the order in which the model made the calls.
fn add_turns<'a>(messages: &mut Vec<Message>, turns: impl Iterator<Item = &'a Arc<Turn>>, renderer: &ResultRenderer) {
    for turn in turns {
        let calls = turn.calls.iter().map(|call| MessageCall {
            provider_id: call.asked.provider_id.clone(),
            alias: call.asked.alias.clone(),
            arguments: call.asked.written.clone().unwrap_or_else(|| json::compact(&call.asked.arguments)),
        });
        messages.push(Message::Assistant {
            text: turn.text.clone(),
            calls: calls.collect(),
            provider: turn.provider.clone(),
        });
        messages.extend(turn.rejected.clone().map(Message::User));
        for call in &turn.calls {
            let Some(recorded) = &call.result else { continue };
            let outcome = renderer.outcome(call.asked.call, &recorded.outcome);
            let mut content = renderer.render(call.asked.call, outcome);
            content.extend(edited_note(call));
            if call.loop_noticed {
                content.push_str(
                    "\n[This tool has now returned the same result for the same arguments several times. \
                         Calling it again will not change it: go on with what you have.]",
                );
            }
            messages.push(Message::Tool {
                provider_id: call.asked.provider_id.clone(),
                alias: call.asked.alias.clone(),
                content,
                images: renderer.images(outcome),
                is_error: !outcome.is_success(),
            });
        }
    }
}

fn all_images(messages: &mut [Message]) -> impl DoubleEndedIterator<Item = &mut Images> {
    messages.iter_mut().filter_map(|message| match message {
        Message::Tool { images, .. } if !images.is_empty() => Some(images),
        _ => None,
    })
}

/// Drops the images of older results, so that the request stays within its ceilings; their marks are in the texts.
/// Images that were dropped for one turn would be dropped for every later one.
fn drop_older_images(messages: &mut [Message]) {
    let mut budget = ImageBudget::default();
    all_images(messages).rev().for_each(|images| budget.spend(images));
}

/// The outcome of a call whose wait has ended without what it waited for. A call that was approved has waited for its
/// runner.
#[must_use]
pub fn expired(asked: &AskedCall, is_decided: bool) -> Outcome {
    let tool = &asked.tool;
    match &asked.route {
        CallRoute::Approval { .. } if !is_decided => {
            let message = format!("no decision about `{tool}` was made in time; it was not run");
            Outcome::failure(outcome_code::APPROVAL_EXPIRED, message)
        }
        CallRoute::Parameters { .. } => {
            let message = format!("the user gave no values for `{tool}` in time");
            Outcome::failure(outcome_code::CALL_EXPIRED, message)
        }
        // ARK's wording.
        CallRoute::Outside { .. } => {
            let message = format!("External tool execution timeout: no result for `{tool}` in time");
            Outcome::failure(outcome_code::CALL_EXPIRED, message)
        }
        // It was started elsewhere, and may be running there still.
        CallRoute::Inside { .. }
        | CallRoute::Approval { .. }
        | CallRoute::Refused { .. }
        | CallRoute::Cached { .. } => {
            let message =
                format!("Tool execution timeout: no result for `{tool}` in time; whether it took effect is not known");
            Outcome::failure(outcome_code::CALL_EXPIRED, message)
        }
    }
}

/// Edited arguments are repeated to the model up to this size: it would otherwise believe that its own were run.
const EDITED_SHOWN: usize = 8 * 1024;

fn edited_note(call: &Call) -> Option<String> {
    let edited = json::compact(call.decision.as_ref()?.arguments.as_ref()?);
    let shown = &edited[..edited.floor_char_boundary(EDITED_SHOWN)];
    let cut = if shown.len() < edited.len() { "…" } else { "" };
    Some(format!("\n[The user changed the arguments of this call before approving it. It was run with: {shown}{cut}]"))
}
