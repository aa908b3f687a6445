//! What people decide for a query: they approve and reject calls, and give the values of parameters.
//!
//! What a person sends is validated like what a model sends, against the tools that were frozen with the query, before
//! the query is locked. An approval that is not accepted is in the audit log.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Content, ContentHash, Outcome, Toolset,
    audit::AuditRecord,
    ceiling::ARGUMENT_BYTES,
    head::{CallHead, WaitingOn},
    json,
    machine::{self, CallDecision, Decision, DecisionVerdict, Delivery, DeliveryTarget},
    schema::{Schema, Violation},
    tool::missing::ParameterRequest,
};
use serde_json::Value;

use crate::{Engine, EngineError, QueryKey, Snapshot, StoreError, engine::Inner, fault, queries::live::LiveQuery};

/// Which calls a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionTarget {
    Call(CallId),
    /// The one call that waits for approval.
    Only,
    /// Every call that waits for approval.
    Every,
}

/// A decision, as a person sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedDecision {
    pub target: DecisionTarget,
    pub decision: Decision,
    /// The hash of the arguments that the person has seen.
    pub seen: Option<ContentHash>,
}

/// The verdict on each decision, and the query after them.
#[derive(Clone, Debug)]
pub struct DecideReport {
    pub verdicts: Vec<(CallId, DecisionVerdict)>,
    pub snapshot: Snapshot,
}

impl Engine {
    /// Approves or rejects calls that wait for it. With `wait`, answers with the agent's next action.
    ///
    /// # Errors
    /// If the query does not exist, no call waits and none is named, several do and none is named, changed arguments
    /// are invalid, or the store fails. The report has a verdict for each call.
    #[tracing::instrument(level = "debug", name = "query.decide", skip_all, fields(query = %key.1))]
    pub async fn decide(
        &self,
        by: Actor,
        key: QueryKey,
        asked: AskedDecision,
        wait: Option<Duration>,
    ) -> Result<DecideReport, EngineError> {
        let owners = self.inner.decision_owners(&key, asked.target).await?;
        self.detached(async move |inner| {
            if owners != [key.clone()] {
                return inner.decide_in_tree(by, key, owners, asked, wait).await;
            }
            inner.decide_one(by, key, asked, wait).await
        })
        .await
    }
}

/// Whether a client that decided this waits for the agent's next action.
fn awaits_next_action(verdicts: &[(CallId, DecisionVerdict)]) -> bool {
    verdicts.iter().any(|(_, verdict)| verdict.refusal().is_none())
}

impl Inner {
    /// Decides in each of these queries of a tree, one after the other: no two queries are locked at the same time. A
    /// crash in between leaves the later ones waiting and the client without an answer; its repetition decides the rest.
    async fn decide_in_tree(
        self: Arc<Self>,
        by: Actor,
        key: QueryKey,
        owners: Vec<QueryKey>,
        asked: AskedDecision,
        wait: Option<Duration>,
    ) -> Result<DecideReport, EngineError> {
        let mut verdicts = Vec::new();
        for owner in owners {
            match Arc::clone(&self).decide_one(by.clone(), owner, asked.clone(), None).await {
                Ok(report) => verdicts.extend(report.verdicts),
                // Its approvals were decided, or have expired, since they were looked for.
                Err(EngineError::NothingToApprove(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if verdicts.is_empty() {
            return Err(EngineError::NothingToApprove(key.1));
        }
        let wait = wait.filter(|_| awaits_next_action(&verdicts));
        let live = self.live_queries.entry(&key);
        let snapshot = match wait {
            Some(wait) => self.settle(&live, wait).await?,
            None => self.read(&live).await?,
        };
        Ok(DecideReport { verdicts, snapshot })
    }

    async fn decide_one(
        self: Arc<Self>,
        by: Actor,
        key: QueryKey,
        asked: AskedDecision,
        wait: Option<Duration>,
    ) -> Result<DecideReport, EngineError> {
        let live = self.live_queries.entry(&key);
        let AskedDecision { target, decision, seen } = asked;
        let target = self.open_approval(&live, &key, target).await?;
        let decision = self.check_edit(&live, &key, &target, decision).await?;
        let mut locked = live.lock(&*self.store).await?;
        let (head, now) = (Arc::clone(&Self::state_of(&locked, &key)?.head), self.clock.now());
        let decisions = target.iter().map(|call| CallDecision { call: *call, decision: decision.clone(), seen });
        let (events, verdicts) = machine::decide_each(&head, now, decisions.collect(), &by);
        let verdicts: Vec<_> = target.into_iter().zip(verdicts).collect();
        let refused = verdicts.iter().filter_map(|(call, verdict)| {
            Some(AuditRecord::of_refused_decision(&head, now, &by, *call, verdict.refusal()?))
        });
        let refused: Vec<_> = refused.collect();
        if !refused.is_empty() {
            self.store.record(&head.namespace, refused)?;
        }
        let changed = !events.is_empty();
        let position = self.append_and_drive(&live, &mut locked, now, events, "decide.appended")?;
        drop(locked);
        let wait = wait.filter(|_| awaits_next_action(&verdicts));
        let snapshot = self.answer(&live, position, wait).await?;
        if changed {
            fault::point("decide.durable");
        }
        Ok(DecideReport { verdicts, snapshot })
    }

    /// The toolset that was frozen with a query.
    pub(crate) async fn frozen_toolset(&self, hash: ContentHash) -> Result<Option<Arc<Toolset>>, StoreError> {
        if let Some(toolset) = self.toolsets.get(hash) {
            return Ok(Some(toolset));
        }
        let Some(document) = self.store.document(hash).await? else { return Ok(None) };
        let read = Toolset::from_document(&document).ok();
        Ok(read.map(|toolset| self.toolsets.share(toolset.sharing(&self.schemas))))
    }

    pub(crate) async fn snapshot_of(&self, live: &LiveQuery, key: &QueryKey) -> Result<Snapshot, EngineError> {
        let locked = live.lock(&*self.store).await?;
        Ok(Self::state_of(&locked, key)?.snapshot())
    }

    /// The calls that a target means.
    async fn open_approval(
        &self,
        live: &LiveQuery,
        key: &QueryKey,
        target: DecisionTarget,
    ) -> Result<Vec<CallId>, EngineError> {
        if let DecisionTarget::Call(call) = target {
            return Ok(vec![call]);
        }
        let Snapshot { head, .. } = self.snapshot_of(live, key).await?;
        let open: Vec<CallId> = head.approvals().map(|(call, _)| call.id).collect();
        match (target, open.len()) {
            (_, 0) => Err(EngineError::NothingToApprove(head.name.clone())),
            (DecisionTarget::Only, 2..) => Err(EngineError::SeveralToApprove(head.name.clone())),
            _ => Ok(open),
        }
    }

    /// Validates arguments that a person has changed, as those of the model were. What the agent itself sets stays.
    async fn check_edit(
        &self,
        live: &LiveQuery,
        key: &QueryKey,
        calls: &[CallId],
        decision: Decision,
    ) -> Result<Decision, EngineError> {
        let Decision::Approved { arguments: Some(edited) } = decision else { return Ok(decision) };
        let Snapshot { transcript, .. } = self.snapshot_of(live, key).await?;
        let unchanged = Decision::Approved { arguments: Some(Arc::clone(&edited)) };
        // The machine reports a call that does not exist.
        let Some(call) = calls.first().and_then(|call| transcript.call(*call)) else { return Ok(unchanged) };
        let toolset = self.frozen_toolset(transcript.spec.toolset).await?;
        let name = call.asked.tool.to_string();
        // Without the schema of the tool, changed arguments are not run.
        let absent = || EngineError::ToolsNotFound { namespace: key.0.clone(), names: vec![name.clone()] };
        let toolset = toolset.ok_or_else(absent)?;
        let invalid = |violations| EngineError::InvalidEdit { tool: name.clone(), violations };
        let member = toolset.get(&name).ok_or_else(absent)?;
        let tool = Arc::clone(&member.tool);
        let schema = member.schema().map_err(|source| EngineError::ToolUnusable { tool: name.clone(), source })?;
        let mut arguments = Value::clone(&edited);
        if let Value::Object(members) = &mut arguments {
            members.retain(|name, _| !tool.presets.iter().any(|preset| preset.name == *name));
        }
        let checked = self.offload.run(move || schema.check_value(arguments)).await.map_err(invalid)?;
        let mut arguments = checked.into_value();
        let whole = |message: String| vec![Violation { path: String::new(), keyword: "size".to_owned(), message }];
        tool.fill_presets(&mut arguments, &transcript.spec.parameters).map_err(|message| invalid(whole(message)))?;
        if json::compact_size(&arguments) > ARGUMENT_BYTES {
            return Err(invalid(whole(format!("Arguments have more than {ARGUMENT_BYTES} bytes"))));
        }
        Ok(Decision::Approved { arguments: Some(Arc::new(arguments)) })
    }

    /// Validates values of parameters before they are delivered: invalid ones leave their call waiting.
    pub(crate) async fn check_values(&self, query: &Snapshot, deliveries: &[Delivery]) -> Result<(), EngineError> {
        let Snapshot { head, transcript, .. } = query;
        let is_request =
            |call: &CallHead| call.state.waiting().is_some_and(|waiting| waiting.on == WaitingOn::Parameters);
        let is_question = |call: &CallHead| {
            call.state.waiting().is_some_and(|waiting| matches!(waiting.on, WaitingOn::Answer { .. }))
        };
        let toolset = self.frozen_toolset(transcript.spec.toolset).await?;
        for Delivery { target, outcome, .. } in deliveries {
            let is_meant = |call: &&CallHead| match target {
                DeliveryTarget::Call(id) | DeliveryTarget::Claimed(id, _) => call.id == *id,
                DeliveryTarget::Tool(name) => *call.tool == **name,
            };
            if head.calls.iter().filter(|call| is_question(call)).any(|call| is_meant(&call))
                && matches!(outcome, Outcome::Success { content: Content::Large(_) | Content::Blocks(_) })
            {
                let message = "an answer is a text or JSON, and not larger than an inline result".to_owned();
                let violations = vec![Violation { path: String::new(), keyword: "type".to_owned(), message }];
                return Err(EngineError::InvalidValues { violations });
            }
            let call = head.calls.iter().filter(|call| is_request(call)).find(is_meant);
            let asked = call.and_then(|call| transcript.call(call.id)).map(|call| Arc::clone(&call.asked.arguments));
            let (Some(asked), Some(toolset)) = (asked, &toolset) else { continue };
            let Outcome::Success { content } = outcome else { continue };
            let values = match content {
                Content::Inline(values) => values.clone(),
                Content::Blocks(_) | Content::Large(_) => Value::Null,
            };
            let whole = |message: String| vec![Violation { path: String::new(), keyword: "type".to_owned(), message }];
            let request = ParameterRequest::read(toolset, &asked)
                .map_err(|message| EngineError::InvalidValues { violations: whole(message) })?;
            let checked = self
                .offload
                .run(move || match Schema::compile(&request.schema) {
                    Ok(schema) => schema.check_value(values).map(|_| ()),
                    Err(error) => Err(whole(error.to_string())),
                })
                .await;
            checked.map_err(|violations| EngineError::InvalidValues { violations })?;
        }
        Ok(())
    }
}
