//! Trees of queries: child queries are created, awaited, cancelled and looked through.
//!
//! A call of an agent or a team is a query whose uid is derived from the parent and the call. Its creation is idempotent
//! and repeated after a crash; its end is reported to the parent by a compare-and-set. Both sides are rows with work until
//! that is done, so nothing here depends on the survival of a process. No two queries are ever locked at the same time.
//! `docs/decisions/023-child-queries.md` has the reasons.

use std::sync::Arc;

use bosun_core::{
    Binding, CallId, Event, Head, Namespace, Outcome, QueryLimits, QueryName, QueryUid, Tool, Toolset, Transcript,
    machine::{self, ChildReport, outcome_code},
    query::{AskedLimits, Spec, TargetKind},
    tool::toolset::ToolSources,
    transcript::{Call, Ending, Message},
    tree::{Lineage, Spent, TreeBudget},
};

use crate::{
    Engine, EngineError, Input, QueryKey, Snapshot, StoreError, Submission,
    engine::{Inner, large_results},
    fault,
    parameters::QueryParameter,
    queries::{
        append::{CreationParts, never},
        live::LiveQuery,
        state::QueryState,
    },
    store::{Position, StoredDocument},
    turns::{
        team::{self, EarlierText},
        terminate,
    },
};

/// How many queries of a tree are read at most: more than a tree can have open.
const MAX_LOOKED_AT: usize = 1_000;

/// The key of the query that answers a call.
fn child_key(namespace: &Namespace, parent: QueryUid, call: CallId) -> (QueryKey, QueryUid) {
    let uid = QueryUid::for_child(parent, call);
    ((namespace.clone(), QueryName::for_uid(uid)), uid)
}

/// A query of a tree, and the queries of its calls.
#[derive(Clone, Debug)]
pub struct QueryTree {
    pub snapshot: Snapshot,
    pub children: Vec<QueryTree>,
}

/// The target of a call of this binding, if that is an agent or a team.
pub(crate) fn asked(binding: &Binding) -> Option<(TargetKind, &str)> {
    match binding {
        Binding::Agent { name } => Some((TargetKind::Agent, name)),
        Binding::Team { name } => Some((TargetKind::Team, name)),
        Binding::Builtin { .. }
        | Binding::Http(_)
        | Binding::Mcp { .. }
        | Binding::Nango(_)
        | Binding::A2a { .. }
        | Binding::Inline { .. }
        | Binding::External => None,
    }
}

/// A started call of an agent or a team, which is to have a query of its own.
pub(crate) struct ChildCall {
    pub(crate) parent: Arc<Head>,
    /// Of the parent, as its toolset.
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) toolset: Arc<Toolset>,
    pub(crate) earlier: EarlierText,
    pub(crate) id: CallId,
    pub(crate) tool: Arc<Tool>,
}

impl Inner {
    /// Gives a call a query of its own, and records that in its parent. The inner error is for the model.
    ///
    /// To be run as detached work: a parent that ends drops its calls, and the end reaches only recorded children. A
    /// child that could not be recorded, since the parent has ended meanwhile, is cancelled here.
    pub(crate) async fn delegate(
        self: Arc<Self>,
        live: Arc<LiveQuery>,
        call: ChildCall,
    ) -> Result<Result<(), Outcome>, StoreError> {
        let child = match self.create_child(&call).await? {
            Ok(child) => child,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let ChildCall { parent, transcript, id, .. } = call;
        let is_awaited = match live.lock_query(&*self.store, Some(parent.uid)).await? {
            Some(mut locked) => {
                let events = locked.state().map(|state| machine::delegate(&state.head, id, child)).unwrap_or_default();
                locked.append(&*self.store, self.clock.now(), events, never)?;
                locked.state().is_some_and(|state| awaits(&state.head, id))
            }
            None => false,
        };
        if !is_awaited {
            self.cancel_child(&parent, id, &transcript.by).await?;
        }
        fault::point("call.delegated");
        Ok(Ok(()))
    }

    /// Creates the query of a call, unless it exists, and waits until it is durable. The inner error is for the model.
    async fn create_child(self: &Arc<Self>, asked: &ChildCall) -> Result<Result<QueryUid, Outcome>, StoreError> {
        let ChildCall { parent, transcript, toolset, earlier, id, tool } = asked;
        let (key, uid) = child_key(&parent.namespace, parent.uid, *id);
        let live = self.live_queries.entry(&key);
        let existing = live.lock(&*self.store).await?.state().map(|state| state.position);
        if let Some(position) = existing {
            self.make_durable(&live, position).await?;
            return Ok(Ok(uid));
        }
        let refused = |error: &dyn std::fmt::Display| {
            let message = format!("`{}` could not be asked: {error}", tool.name);
            Ok(Err(Outcome::failure(outcome_code::CHILD_REFUSED, message)))
        };
        let call = transcript.call(*id);
        let submission = call.and_then(|call| child_submission(parent, transcript, earlier, toolset, call, tool));
        let Some(submission) = submission else {
            return refused(&"its input is missing");
        };
        let by = submission.by.clone();
        if let Err(error) = self.compile_output_schema(&submission).await {
            return refused(&error);
        }
        let (mut spec, toolset) = match self.prepare(submission, None, None).await {
            Ok(prepared) => prepared,
            Err(EngineError::Store(error)) => return Err(error),
            Err(error) => return refused(&error),
        };
        spec.lineage = Some(Arc::new(lineage(parent, *id, &spec)));
        let mut locked = live.lock(&*self.store).await?;
        // A driver of an earlier process cannot be here, and this one creates it once: whatever is here is the same query.
        if let Some(position) = locked.state().map(|state| state.position) {
            drop(locked);
            self.make_durable(&live, position).await?;
            return Ok(Ok(uid));
        }
        let toolset = StoredDocument { hash: toolset.hash(), body: toolset.to_document() };
        let brings = CreationParts { toolset, request: None, joins: None };
        let event = Event::Created { spec: Arc::new(spec), by };
        let mut permit = None;
        let created =
            locked.create(&*self.store, uid, self.clock.now(), event, brings, |_| self.may_begin(&key, &mut permit));
        let position = match created {
            Ok(position) => position,
            Err(StoreError::Journal(fault)) => return refused(&fault),
            Err(error) => return Err(error),
        };
        fault::point("child.appended");
        self.admission.unpark(&key);
        self.drive_if_due(&live, &mut locked, permit);
        drop(locked);
        self.make_durable(&live, position).await?;
        fault::point("child.durable");
        Ok(Ok(uid))
    }

    /// Whether the query that an open query answers has ended or is gone: then no one reads its answer.
    pub(crate) async fn is_orphan(&self, head: &Head) -> Result<bool, StoreError> {
        let Some(lineage) = head.lineage.as_ref().filter(|_| !head.status().is_final()) else { return Ok(false) };
        let live = self.live_queries.entry(&lineage.parent_key(&head.namespace));
        let locked = live.lock_query(&*self.store, Some(lineage.parent)).await?;
        let parent = locked.as_ref().and_then(|locked| locked.state());
        Ok(!parent.is_some_and(|parent| awaits(&parent.head, lineage.call)))
    }

    /// Cancels the query of a call, if it is open.
    async fn cancel_child(
        self: &Arc<Self>,
        parent: &Head,
        call: CallId,
        by: &bosun_core::Actor,
    ) -> Result<(), StoreError> {
        let (key, uid) = child_key(&parent.namespace, parent.uid, call);
        let live = self.live_queries.entry(&key);
        let Some(mut locked) = live.lock_query(&*self.store, Some(uid)).await? else { return Ok(()) };
        let reason = Some(format!("query `{}`, which asked for it, has ended", parent.name));
        let events = locked.state().map(|state| machine::cancel(&state.head, reason, by)).unwrap_or_default();
        let position = locked.append(&*self.store, self.clock.now(), events, never)?;
        self.drive_if_due(&live, &mut locked, None);
        drop(locked);
        self.make_durable(&live, position).await
    }

    /// Lets the end of a query reach its tree: cancels its open children, and reports to its parent. May be repeated.
    pub(crate) async fn settle_end(
        self: &Arc<Self>,
        live: &Arc<LiveQuery>,
        uid: QueryUid,
    ) -> Result<Position, StoreError> {
        let found = {
            let Some(locked) = live.lock_query(&*self.store, Some(uid)).await? else { return Ok(Position::default()) };
            locked.state().map(|state| (state.snapshot(), state.position))
        };
        let Some((Snapshot { head, transcript, .. }, position)) = found else { return Ok(Position::default()) };
        let Some(unsettled) = &head.unsettled else { return Ok(position) };
        // Neither the children nor the parent may be notified of an end that a power cut could undo.
        self.make_durable(live, position).await?;
        for call in &unsettled.children {
            self.cancel_child(&head, *call, &transcript.by).await?;
        }
        if let Some(lineage) = &head.lineage {
            let report = self.report(&head, &transcript).await?;
            self.report_to_parent(&head, lineage, report).await?;
        }
        let Some(mut locked) = live.lock_query(&*self.store, Some(uid)).await? else { return Ok(Position::default()) };
        let events = locked.state().map(|state| machine::settle(&state.head)).unwrap_or_default();
        let position = locked.append(&*self.store, self.clock.now(), events, never)?;
        fault::point("settle.appended");
        Ok(position)
    }

    async fn report_to_parent(
        self: &Arc<Self>,
        head: &Head,
        lineage: &Lineage,
        report: ChildReport,
    ) -> Result<(), StoreError> {
        let live = self.live_queries.entry(&lineage.parent_key(&head.namespace));
        let Some(mut locked) = live.lock_query(&*self.store, Some(lineage.parent)).await? else { return Ok(()) };
        let Some(parent) = locked.state() else { return Ok(()) };
        let events = machine::child_ended(&parent.head, lineage.call, report);
        let position = match self.append_and_drive(&live, &mut locked, self.clock.now(), events, "child.reported") {
            Ok(position) => position,
            // The parent has failed because its journal is full.
            Err(StoreError::Journal(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        drop(locked);
        self.make_durable(&live, position).await
    }

    /// How a query has ended, for its parent.
    async fn report(&self, head: &Head, transcript: &Transcript) -> Result<ChildReport, StoreError> {
        let kind = transcript.spec.target_kind.as_str();
        let name = &head.target;
        let failed = |message| Outcome::failure(outcome_code::CHILD_FAILED, message);
        let outcome = match transcript.end.as_ref().map(|end| &end.how) {
            Some(Ending::Completed) => match transcript.response() {
                Some(text) if !text.is_empty() => Outcome::success(text),
                _ => failed(format!("{kind} `{name}` answered with nothing")),
            },
            Some(Ending::Failed { code, message }) => failed(format!("{kind} `{name}` failed ({code}): {message}")),
            Some(Ending::Cancelled { .. }) | None => failed(format!("the query of {kind} `{name}` was cancelled")),
        };
        let outcome = large_results::keep(&*self.blobs, &Arc::new(outcome)).await?;
        let toolset = self.frozen_toolset(transcript.spec.toolset).await?;
        let terminated = toolset.is_some_and(|toolset| terminate::has_ended(transcript, &toolset));
        Ok(ChildReport { outcome, spent: head.spent(head.updated_at), terminated })
    }

    /// The budget of the tree of a query: the root's limits, and what all its other queries have used.
    pub(crate) async fn tree_budget(&self, head: &Head) -> Result<Option<(TreeBudget, QueryLimits)>, StoreError> {
        let root = root_of(head);
        let (mut others, mut limits, now) = (Spent::default(), None, self.clock.now());
        self.walk(&root, |state| {
            if state.head.uid == root.1 {
                limits = Some(state.head.limits);
            }
            others += if state.head.uid == head.uid { state.head.below } else { state.head.spent(now) };
        })
        .await?;
        Ok(limits.map(|limits| {
            let QueryLimits { max_tool_calls, max_tokens, .. } = limits;
            (TreeBudget { others, max_tool_calls, max_tokens }, limits)
        }))
    }

    /// Visits the query with this key, and all queries below it that are open. Only one is locked at a time. Returns
    /// what has to be durable before any of it is shown.
    async fn walk(
        &self,
        (key, uid): &(QueryKey, QueryUid),
        mut visit: impl FnMut(&QueryState),
    ) -> Result<Vec<(Arc<LiveQuery>, Position)>, StoreError> {
        let mut ahead = vec![(key.clone(), *uid)];
        let mut visited = Vec::new();
        while let Some((key, uid)) = ahead.pop().filter(|_| visited.len() < MAX_LOOKED_AT) {
            let live = self.live_queries.entry(&key);
            let Some(locked) = live.lock_query(&*self.store, Some(uid)).await? else { continue };
            let Some(state) = locked.state() else { continue };
            visit(state);
            // Reversed, so that the first call is looked at first.
            let calls: Vec<_> = state.head.child_calls().map(|call| call.id).collect();
            ahead.extend(calls.into_iter().rev().map(|call| child_key(&key.0, uid, call)));
            let position = state.position;
            drop(locked);
            visited.push((live, position));
        }
        Ok(visited)
    }

    /// The open queries below one, durable.
    pub(crate) async fn below(&self, head: &Head) -> Result<Arc<[Snapshot]>, StoreError> {
        if head.child_calls().next().is_none() {
            return Ok(Arc::default());
        }
        let mut found = Vec::new();
        let root = ((head.namespace.clone(), head.name.clone()), head.uid);
        let visited = self
            .walk(&root, |state| {
                if state.head.uid != head.uid {
                    found.push(state.snapshot());
                }
            })
            .await?;
        for (live, position) in visited {
            self.make_durable(&live, position).await?;
        }
        Ok(found.into())
    }

    /// Visits a query and all queries below it, also those that have ended. Only one is locked at a time.
    pub(crate) async fn visit_tree(
        &self,
        key: &QueryKey,
        mut visit: impl FnMut(&QueryKey, &QueryState),
    ) -> Result<(), StoreError> {
        let mut ahead = vec![(key.clone(), None)];
        let mut looked_at = 0;
        while let Some((key, uid)) = ahead.pop().filter(|_| looked_at < MAX_LOOKED_AT) {
            looked_at += 1;
            let live = self.live_queries.entry(&key);
            let Some(locked) = live.lock_query(&*self.store, uid).await? else { continue };
            let Some(state) = locked.state() else { continue };
            visit(&key, state);
            let children = state.transcript.calls().filter(|call| may_have_child(call));
            let children = children.map(|call| child_key(&key.0, state.head.uid, call.asked.call));
            ahead.extend(children.map(|(key, uid)| (key, Some(uid))));
        }
        Ok(())
    }
}

/// Whether a query still waits for the outcome of a call.
fn awaits(head: &Head, call: CallId) -> bool {
    head.call(call).is_some_and(|call| call.state.is_open())
}

/// Whether a call may have a query of its own: one was recorded, or it was started and has no outcome, and the process
/// may have died before it was recorded.
pub(crate) fn may_have_child(call: &Call) -> bool {
    call.child.is_some() || (call.started_at.is_some() && call.result.is_none())
}

/// The query that a call asks for.
fn child_submission(
    parent: &Head,
    transcript: &Transcript,
    earlier: &EarlierText,
    toolset: &Toolset,
    call: &Call,
    tool: &Tool,
) -> Option<Submission> {
    let (kind, name) = asked(&tool.binding)?;
    let spec = &transcript.spec;
    let input = match &spec.team {
        Some(_) => team::input_of_member(transcript, earlier),
        None => call.arguments().get("input")?.as_str()?.to_owned(),
    };
    // With parameters, a text would be a template, and this one is written by a model.
    let input =
        if spec.parameters.is_empty() { Input::Text(input) } else { Input::Messages(vec![Message::User(input)]) };
    let passes = |name: &str| tool.passes.iter().any(|passed| passed == "*" || passed == name);
    let external = toolset.tools().iter().map(|member| &member.tool);
    let client_tools = external.filter(|one| one.is_external() && !one.claimable && passes(&one.name));
    let QueryLimits {
        query_timeout,
        tool_timeout,
        external_timeout,
        approval_timeout,
        max_tool_calls,
        max_tokens,
        ttl,
    } = parent.limits;
    let limits = AskedLimits {
        query_timeout: Some(query_timeout),
        tool_timeout: Some(tool_timeout),
        external_timeout: Some(external_timeout),
        approval_timeout: Some(approval_timeout),
        max_tool_calls: Some(max_tool_calls),
        max_tokens,
        ttl: Some(ttl),
    };
    let parameters = spec.parameters.iter();
    Some(Submission {
        client_tools: client_tools.map(|tool| Tool::clone(tool)).collect(),
        tool_sources: ToolSources::Both,
        parameters: parameters.map(|(name, value)| (name.clone(), QueryParameter::Value(value.clone()))).collect(),
        limits,
        edge_note: spec.edge_note.clone(),
        on_expired: spec.on_expired,
        session_id: spec.session_id.clone(),
        trace: spec.trace.clone(),
        ..Submission::to(kind, transcript.by.clone(), parent.namespace.clone(), name, input)
    })
}

/// The root of the tree that a query belongs to.
fn root_of(head: &Head) -> (QueryKey, QueryUid) {
    match &head.lineage {
        Some(lineage) => (lineage.root_key(&head.namespace), lineage.root),
        None => ((head.namespace.clone(), head.name.clone()), head.uid),
    }
}

fn lineage(parent: &Head, call: CallId, spec: &Spec) -> Lineage {
    let of_parent = parent.lineage.as_deref();
    let mut path = of_parent.map_or_else(|| vec![Arc::clone(&parent.target)], |lineage| lineage.path.clone());
    path.push(spec.target.as_str().into());
    Lineage {
        root: of_parent.map_or(parent.uid, |lineage| lineage.root),
        root_name: of_parent.map_or_else(|| parent.name.clone(), |lineage| lineage.root_name.clone()),
        parent: parent.uid,
        parent_name: parent.name.clone(),
        call,
        depth: of_parent.map_or(0, |lineage| lineage.depth) + 1,
        path,
    }
}

impl Engine {
    /// A query with all queries below it, open or ended.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn tree(&self, key: &QueryKey) -> Result<QueryTree, EngineError> {
        let mut left = MAX_LOOKED_AT;
        self.subtree(key.clone(), &mut left).await
    }

    fn subtree<'a>(
        &'a self,
        key: QueryKey,
        left: &'a mut usize,
    ) -> futures_util::future::BoxFuture<'a, Result<QueryTree, EngineError>> {
        Box::pin(async move {
            *left = left.saturating_sub(1);
            let snapshot = self.get(&key, None).await?;
            let called = snapshot.transcript.calls().filter(|call| call.child.is_some());
            let called: Vec<_> = called.map(|call| child_key(&key.0, snapshot.head.uid, call.asked.call).0).collect();
            let mut children = Vec::new();
            for child in called {
                if *left == 0 {
                    break;
                }
                match self.subtree(child, left).await {
                    Ok(child) => children.push(child),
                    // It was deleted.
                    Err(EngineError::QueryNotFound(..)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(QueryTree { snapshot, children })
        })
    }

    /// Deletes the queries below one that has ended, from the leaves up: after a crash in between, those that are left
    /// can still be found.
    pub(crate) async fn delete_below(&self, by: &bosun_core::Actor, key: &QueryKey) -> Result<(), EngineError> {
        let inner = &self.inner;
        let mut below = Vec::new();
        inner.visit_tree(key, |one, _| below.extend((one != key).then(|| one.clone()))).await?;
        for child in below.into_iter().rev() {
            match Box::pin(self.delete_one(by.clone(), child)).await {
                Ok(()) | Err(EngineError::QueryNotFound(..)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
