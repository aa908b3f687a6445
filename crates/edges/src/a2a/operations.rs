//! The operations of the protocol, on one agent: the same for both generations and both bindings.
//!
//! A task is a query and a context is a conversation: same engine, same journal, same limits and rights. The rights of
//! an operation are checked here, since one endpoint serves all of them.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use bosun_core::{
    ContentHash, Head, Namespace, QueryName, Status, Transcript,
    ceiling::TASKS_LISTED,
    machine::Decision,
    query::{EdgeNote, TargetKind},
    trace::TraceContext,
};
use bosun_engine::{
    Agent, AskedConversation, AskedDecision, DecisionTarget, Engine, QueryKey, QueryTree, Snapshot, Submission,
    store::{QueryPage, RequestKey},
};
use bosun_reading::a2a_options::A2aOptions;

use super::{
    decisions::decisions_of,
    error::{A2aError, ErrorKind, task_not_found},
    input::input_of,
    negotiate::Generation,
    reading::{IncomingMessage, ListParams, ResumeParams, SendParams, TaskParams},
    stream::{self, Binding, Envelope, StreamTerms},
    task::{self, MESSAGE_ID, Shown},
    task_page::{LatestTasks, TaskPosition},
    tools,
    waiting::OpenWork,
    wire::{Metadata, Task, TaskMessage, TaskPage},
};
use crate::{
    AppState,
    asking::{
        cursor, decisions,
        results::{self, Delivered, GivenResult},
        wait::MAX_WAIT,
    },
    auth::{
        Right,
        gate::{self, Caller, Needs},
    },
    http::error::clip,
};

/// The form of client tools that the creator of a task used is stored with its query: the extension's, or that of seed 003.
const EXTENSION_NOTE: EdgeNote = EdgeNote::new("a2a");
const SEED_NOTE: EdgeNote = EdgeNote::new("a2a-seed");

/// A request to one agent.
pub(super) struct AgentRequest {
    pub(super) app: AppState,
    pub(super) caller: Caller,
    pub(super) namespace: Namespace,
    pub(super) agent: Arc<Agent>,
    pub(super) generation: Generation,
    pub(super) trace: Option<Arc<TraceContext>>,
}

/// The answer to a message.
pub(super) enum Reply {
    Task(Box<ShownTask>),
    /// The answer itself, of an agent that replies with messages.
    Message(Box<TaskMessage>),
}

/// A task after a message of its client.
struct Accepted {
    snapshot: Snapshot,
    /// What its answer says about results that were not used.
    metadata: Option<Metadata>,
}

impl From<Snapshot> for Accepted {
    fn from(snapshot: Snapshot) -> Self {
        Self { snapshot, metadata: None }
    }
}

/// What a message to a task contains.
enum FollowUp {
    Results(Vec<GivenResult>),
    Decisions(Vec<AskedDecision>),
    Words,
}

/// A task, and whether its client reads calls in the form of the client tool provider.
pub(super) struct ShownTask {
    pub(super) task: Task,
    pub(super) aliases: bool,
}

impl ShownTask {
    fn with_metadata(mut self, metadata: Option<Metadata>) -> Self {
        self.task.metadata = metadata;
        self
    }
}

impl AgentRequest {
    fn engine(&self) -> &Engine {
        &self.app.engine
    }

    /// Refuses a caller without the right in this namespace.
    pub(super) fn need(&self, right: Right) -> Result<(), A2aError> {
        gate::check_right(Needs::Here(right), self.caller.grant()).map_err(Into::into)
    }

    fn options(&self) -> A2aOptions {
        A2aOptions::of(&self.agent.annotations)
    }

    fn shown(&self, history: Option<usize>) -> Shown {
        let rights = self.caller.grant().rights;
        let content = rights.has(Right::Read);
        Shown { content, approvals: content || rights.has(Right::Approve), ..Shown::all(history) }
    }

    /// `SendMessage`: creates a task, or continues one.
    pub(super) async fn send(&self, params: SendParams) -> Result<Reply, A2aError> {
        let history = params.history_length;
        let wait = params.is_blocking.then_some(MAX_WAIT);
        let is_new = params.message.task_id.is_none();
        let Accepted { snapshot, metadata } = self.accept(params, wait).await?;
        let text = snapshot.transcript.response().filter(|_| is_new && self.options().replies_with_message);
        if let (Some(text), Some(_)) = (text, wait) {
            let message = task::reply(&snapshot.head, &snapshot.transcript, text);
            return Ok(Reply::Message(Box::new(message)));
        }
        // The creator of a task may see the whole of it, here and nowhere else without `read`.
        let shown = if is_new { Shown::all(history) } else { self.shown(history) };
        Ok(Reply::Task(Box::new(shown_task(&snapshot, shown).with_metadata(metadata))))
    }

    /// `SendStreamingMessage`: the same, followed.
    pub(super) async fn stream(&self, params: SendParams, binding: Binding) -> Result<Response, A2aError> {
        let (history, is_new) = (params.history_length, params.message.task_id.is_none());
        if !is_new {
            self.need(Right::Read)?;
        }
        let Accepted { snapshot, metadata } = self.accept(params, None).await?;
        let aliases = has_aliases(&snapshot);
        let envelope = Envelope { binding, generation: self.generation, aliases };
        // A client of the seed reads one stream to the end; others begin a new one with their results.
        let terms = StreamTerms { after: None, outlasts_waiting: aliases, history, metadata };
        stream::open(self.engine(), &snapshot, envelope, terms).await
    }

    async fn accept(&self, mut params: SendParams, wait: Option<Duration>) -> Result<Accepted, A2aError> {
        let push = params.push.take();
        push.as_ref().map_or(Ok(()), |config| self.check_push(config))?;
        match (params.message.task_id.clone(), push) {
            (Some(task), None) => self.follow_up(&task, params, wait).await,
            (Some(task), Some(config)) => {
                self.need_for_follow_up(&params)?;
                self.need(Right::Run)?;
                self.need(Right::Read)?;
                let (key, before) = self.find(&task).await?;
                self.check_room(&before, &config).await?;
                // First the message, since one that is refused leaves no webhook behind; all that follows it is posted.
                let accepted = self.follow_up(&task, params, None).await?;
                self.put_push(&before, config, before.head.seq).await?;
                Ok(Accepted { snapshot: self.engine().get(&key, wait).await?, ..accepted })
            }
            (None, None) => self.create(params, wait).await.map(Accepted::from),
            (None, Some(config)) => {
                self.need(Right::Read)?;
                // First the task, then its webhook, then the wait: all that follows its creation is posted.
                let created = self.create(params, None).await?;
                self.put_push(&created, config, 1).await?;
                let key = (created.head.namespace.clone(), created.head.name.clone());
                Ok(self.engine().get(&key, wait).await?.into())
            }
        }
    }

    async fn create(&self, params: SendParams, wait: Option<Duration>) -> Result<Snapshot, A2aError> {
        self.need(Right::Run)?;
        let parts = &params.message.parts;
        if tools::results_of(parts)?.is_some() || decisions_of(parts)?.is_some() {
            let message = "results and decisions need the `taskId` of the task that asked for them";
            return Err(A2aError::invalid(message, vec![("message.taskId".to_owned(), "is missing".to_owned())]));
        }
        let input = input_of(&params.message.parts, &self.options())?;
        let read_tools = tools::read_tools(self.engine(), &params).await?;
        let IncomingMessage { message_id, context_id, .. } = params.message;
        let request = message_id.as_deref().map(|id| self.request_key(id));
        // If the client names none, the context is derived from the message and its actor: a retry gets the same, and
        // no other caller does.
        let context_id = match (context_id, &request) {
            (Some(id), _) => Some(id),
            (None, Some(RequestKey { actor, key, .. })) => {
                let hash = ContentHash::of_parts(&[actor.as_bytes(), key.as_bytes()]).to_string();
                Some(format!("ctx-{}", &hash[..32]))
            }
            (None, None) => None,
        };
        let submission = Submission {
            client_tools: read_tools.tools,
            edge_note: if read_tools.is_seeds { SEED_NOTE } else { EXTENSION_NOTE },
            conversation: AskedConversation { id: context_id, ..AskedConversation::default() },
            annotations: message_id.map(|id| (MESSAGE_ID.to_owned(), id)).into_iter().collect(),
            request,
            trace: self.trace.clone(),
            ..Submission::to_agent(self.caller.actor.clone(), self.namespace.clone(), &self.agent.name, input.as_str())
        };
        Ok(self.engine().submit(submission, wait).await?.snapshot)
    }

    /// A client's message id is its idempotency key, scoped to the actor and the agent.
    fn request_key(&self, message_id: &str) -> RequestKey {
        let key = ContentHash::of_parts(&[self.agent.name.as_bytes(), message_id.as_bytes()]).to_string();
        RequestKey { actor: self.caller.actor.id(), route: "a2a", key }
    }

    /// What a message to a task contains, if the caller may send it.
    fn need_for_follow_up(&self, params: &SendParams) -> Result<FollowUp, A2aError> {
        let parts = &params.message.parts;
        let (follow_up, right) = if let Some(given) = tools::results_of(parts)? {
            (FollowUp::Results(given), Right::Deliver)
        } else if let Some(asked) = decisions_of(parts)? {
            (FollowUp::Decisions(asked), Right::Approve)
        } else {
            (FollowUp::Words, Right::Run)
        };
        self.need(right)?;
        Ok(follow_up)
    }

    /// Results for the calls of a task, decisions about them, or a text that supersedes them.
    async fn follow_up(&self, id: &str, params: SendParams, wait: Option<Duration>) -> Result<Accepted, A2aError> {
        let follow_up = self.need_for_follow_up(&params)?;
        let (key, snapshot) = self.find(id).await?;
        let context = task::context_id(&snapshot.head, &snapshot.transcript);
        if let Some(other) = params.message.context_id.as_ref().filter(|other| **other != context) {
            let message = format!("`{}` is not the context of this task", clip(other));
            return Err(A2aError::invalid(message.clone(), vec![("message.contextId".to_owned(), message)]));
        }
        if tools::brings_tools(&params) {
            let message = "the tools of a task are frozen when it is created";
            return Err(A2aError::invalid(message, vec![("message.taskId".to_owned(), message.to_owned())]));
        }
        match follow_up {
            // Also for a task that has ended: the same results again are a replay.
            FollowUp::Results(given) => self.deliver(key, &snapshot, given, wait).await,
            FollowUp::Decisions(asked) => self.decide(key, asked, wait).await.map(Accepted::from),
            FollowUp::Words => self.supersede(key, &snapshot, &params.message, wait).await.map(Accepted::from),
        }
    }

    /// Records decisions, each for itself; an error if none of them was accepted.
    async fn decide(
        &self,
        key: QueryKey,
        asked: Vec<AskedDecision>,
        wait: Option<Duration>,
    ) -> Result<Snapshot, A2aError> {
        let (mut refusal, mut is_accepted) = (None, false);
        for one in asked {
            let report = self.engine().decide(self.caller.actor.clone(), key.clone(), one, None).await?;
            match decisions::accepted(&report) {
                Ok(_) => is_accepted = true,
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match refusal.filter(|_| !is_accepted) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(self.engine().get(&key, wait).await?),
        }
    }

    async fn deliver(
        &self,
        key: QueryKey,
        snapshot: &Snapshot,
        given: Vec<GivenResult>,
        wait: Option<Duration>,
    ) -> Result<Accepted, A2aError> {
        let mut transcripts = vec![Arc::clone(&snapshot.transcript)];
        transcripts.extend(snapshot.below.iter().map(|below| Arc::clone(&below.transcript)));
        if tools::has_unknown_calls(&given, &transcripts) {
            // One of a query below that has ended: the same result again is a replay.
            let tree = self.engine().tree(&key).await?;
            transcripts = transcripts_of(&tree);
        }
        tools::check_results(&given, &transcripts)?;
        let Delivered { snapshot, judged } =
            results::deliver(self.engine(), &self.caller.actor, key, given, false, wait).await?;
        results::refuse_unused(&snapshot.head, &judged)?;
        Ok(Accepted { snapshot, metadata: tools::unused_results(&judged) })
    }

    /// A plain message while calls are open: they are cancelled, and the model continues with the new input.
    async fn supersede(
        &self,
        key: QueryKey,
        snapshot: &Snapshot,
        message: &IncomingMessage,
        wait: Option<Duration>,
    ) -> Result<Snapshot, A2aError> {
        let refuse = |why: &str| Err(A2aError::new(ErrorKind::UnsupportedOperation, why));
        let work = OpenWork::of_snapshot(snapshot);
        let open: Vec<_> = work.calls.iter().map(|open| open.asked.call).collect();
        // Text while an approval is open is a rejection with that reason, never consent, whatever else is open.
        if work.awaits_approval() {
            self.need(Right::Approve)?;
            let decision = Decision::Rejected { reason: Some(input_of(&message.parts, &self.options())?) };
            let asked = AskedDecision { target: DecisionTarget::Every, decision, seen: None };
            let wait = wait.filter(|_| open.is_empty());
            let decided = self.engine().decide(self.caller.actor.clone(), key.clone(), asked, wait).await?;
            if open.is_empty() {
                return Ok(decided.snapshot);
            }
        }
        match snapshot.status() {
            Status::Completed | Status::Failed | Status::Cancelled => {
                refuse("the task has ended; send a message with its contextId to begin a new one")
            }
            // Whatever the task's own query waits for: the calls may be those of a query below it.
            _ if !open.is_empty() => {
                let given = tools::supersede(&open, &input_of(&message.parts, &self.options())?);
                Ok(self.deliver(key, snapshot, given, wait).await?.snapshot)
            }
            Status::AwaitingParameters => match OpenWork::question(snapshot) {
                Some(call) => {
                    self.need(Right::Deliver)?;
                    let given = vec![tools::answer(call, &input_of(&message.parts, &self.options())?)];
                    Ok(self.deliver(key, snapshot, given, wait).await?.snapshot)
                }
                None => refuse(
                    "the task waits for the values of parameters; send them as the result of the call that asks for them",
                ),
            },
            Status::Queued | Status::Running | Status::Waiting | Status::AwaitingApproval => {
                refuse("the task is working and waits for no message; subscribe to it, or cancel it")
            }
            Status::Held => refuse("the task is held; continue it with `POST …/queries/{name}/continue`"),
        }
    }

    /// Seed 003's `tasks/resume`.
    pub(super) async fn resume(&self, params: ResumeParams) -> Result<ShownTask, A2aError> {
        self.need(Right::Deliver)?;
        let (key, snapshot) = self.find(&params.task_id).await?;
        let given = tools::read_results(&params.results, "")?;
        let Accepted { snapshot, metadata } = self.deliver(key, &snapshot, given, Some(MAX_WAIT)).await?;
        let shown = shown_task(&snapshot, self.shown(None)).with_metadata(metadata);
        Ok(ShownTask { aliases: true, ..shown })
    }

    /// A task of this agent, by its id: the name of its query.
    pub(super) async fn find(&self, id: &str) -> Result<(QueryKey, Snapshot), A2aError> {
        let name: QueryName = id.parse().map_err(|_| task_not_found(id, None))?;
        let key = (self.namespace.clone(), name);
        let snapshot = self.engine().get(&key, None).await?;
        let is_agents = snapshot.transcript.spec.target_kind == TargetKind::Agent;
        if !is_agents || *snapshot.head.target != *self.agent.name {
            return Err(task_not_found(id, None));
        }
        Ok((key, snapshot))
    }

    /// `GetTask`
    pub(super) async fn get(&self, params: TaskParams) -> Result<ShownTask, A2aError> {
        self.need(Right::Read)?;
        let (_, snapshot) = self.find(&params.id).await?;
        Ok(shown_task(&snapshot, Shown::all(params.history_length)))
    }

    /// `CancelTask`
    pub(super) async fn cancel(&self, params: TaskParams) -> Result<ShownTask, A2aError> {
        self.need(Right::Run)?;
        let (key, snapshot) = self.find(&params.id).await?;
        if snapshot.head.status().is_final() {
            let message = format!("the task is {} already", snapshot.head.status().as_str());
            return Err(A2aError::new(ErrorKind::TaskNotCancelable, message));
        }
        let snapshot = self.engine().cancel(self.caller.actor.clone(), key, None).await?;
        Ok(shown_task(&snapshot, self.shown(None)))
    }

    /// `SubscribeToTask`: a snapshot and what follows, until the task ends.
    pub(super) async fn subscribe(
        &self,
        params: TaskParams,
        last_event: Option<&str>,
        binding: Binding,
    ) -> Result<Response, A2aError> {
        self.need(Right::Read)?;
        let (_, snapshot) = self.find(&params.id).await?;
        if snapshot.head.status().is_final() {
            let message = format!("the task is {} already; get it instead", snapshot.head.status().as_str());
            return Err(A2aError::new(ErrorKind::UnsupportedOperation, message));
        }
        let after = last_event.map(|id| cursor::read(id, &snapshot)).transpose()?;
        let envelope = Envelope { binding, generation: self.generation, aliases: has_aliases(&snapshot) };
        let terms = StreamTerms { after, outlasts_waiting: true, history: params.history_length, metadata: None };
        stream::open(self.engine(), &snapshot, envelope, terms).await
    }

    /// `ListTasks`: the tasks of this agent, the one that changed last first.
    pub(super) async fn list(&self, params: ListParams) -> Result<TaskPage, A2aError> {
        self.need(Right::Read)?;
        let before = params.page_token.as_deref().map(read_token).transpose()?;
        let mut page = LatestTasks::new(params.page_size);
        let mut total_size = 0;
        let shown = Shown { artifacts: params.include_artifacts, ..Shown::all(params.history_length) };
        let (mut queries, mut looked_at) = (QueryPage { limit: 500, ..QueryPage::default() }, 0);
        loop {
            queries.limit = queries.limit.min(TASKS_LISTED - looked_at);
            let listed = self.engine().list(&self.namespace, &queries).await?;
            looked_at += listed.queries.len().max(1);
            for (head, entries) in &listed.queries {
                let Some(transcript) = crate::asking::list::beginning_and_end(entries) else { continue };
                if !self.is_listed(head, &transcript, &params) {
                    continue;
                }
                total_size += 1;
                let position = (head.updated_at.0, head.uid);
                if before.is_none_or(|before| position < before) {
                    page.add(position, || task::task(head, &transcript, &OpenWork::of(head, &transcript, &[]), shown));
                }
            }
            match listed.next.filter(|_| looked_at < TASKS_LISTED) {
                Some(next) => queries.before = Some(next),
                None => return Ok(page.finish(total_size)),
            }
        }
    }

    fn is_listed(&self, head: &Head, transcript: &Transcript, params: &ListParams) -> bool {
        transcript.spec.target_kind == TargetKind::Agent
            && *head.target == *self.agent.name
            && params.state.is_none_or(|state| state == task::state(head.status()))
            && params.after.is_none_or(|after| head.updated_at > after)
            && params.context_id.as_ref().is_none_or(|id| *id == task::context_id(head, transcript))
    }
}

fn read_token(token: &str) -> Result<TaskPosition, A2aError> {
    let read = || {
        let (at, uid) = token.split_once('.')?;
        Some((at.parse().ok()?, uid.parse().ok()?))
    };
    read().ok_or_else(|| {
        let message = "is not the `nextPageToken` of an earlier page";
        A2aError::invalid(format!("pageToken {message}"), vec![("pageToken".to_owned(), message.to_owned())])
    })
}

fn has_aliases(snapshot: &Snapshot) -> bool {
    snapshot.head.edge_note == SEED_NOTE
}

fn shown_task(snapshot: &Snapshot, shown: Shown) -> ShownTask {
    let task = task::task(&snapshot.head, &snapshot.transcript, &OpenWork::of_snapshot(snapshot), shown);
    ShownTask { task, aliases: has_aliases(snapshot) }
}

/// The transcripts of a query and of all queries below it.
fn transcripts_of(tree: &QueryTree) -> Vec<Arc<Transcript>> {
    let below = tree.children.iter().flat_map(transcripts_of);
    std::iter::once(Arc::clone(&tree.snapshot.transcript)).chain(below).collect()
}
