//! Which query of a tree a result or a decision is for.
//!
//! The root of a tree, and every query in it, accepts results and decisions for the queries below it. A call is found
//! by its id; without one, by what is open in the whole tree, with the same rules that a single query has: exactly one
//! open call, and a result that repeats the last one of its tool is a replay.

use bosun_core::{
    CallId, ContentHash, Head, Timestamp,
    head::CallState,
    machine::{Delivery, DeliveryTarget},
};

use crate::{
    EngineError, QueryKey, StoreError,
    engine::{Inner, decide::DecisionTarget, large_results},
    queries::state::QueryState,
};

/// The query that a result is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResultOwner {
    Query(QueryKey),
    /// Several queries have an open call of the tool, and the result does not say which one it is for.
    Ambiguous,
}

impl Inner {
    /// Whether the query has, or had, children.
    async fn has_children(&self, key: &QueryKey) -> Result<bool, StoreError> {
        let live = self.live_queries.entry(key);
        let locked = live.lock(&*self.store).await?;
        Ok(locked.state().is_some_and(|state| state.transcript.calls().any(|call| call.child.is_some())))
    }

    /// The owner of each result; `None` if all are for the query itself.
    pub(crate) async fn result_owners(
        &self,
        key: &QueryKey,
        deliveries: &[Delivery],
    ) -> Result<Option<Vec<ResultOwner>>, StoreError> {
        if !self.has_children(key).await? {
            return Ok(None);
        }
        let mut owners = Vec::with_capacity(deliveries.len());
        for Delivery { target, outcome, .. } in deliveries {
            owners.push(match target {
                DeliveryTarget::Call(call) | DeliveryTarget::Claimed(call, _) => {
                    ResultOwner::Query(self.owner_of_call(key, *call).await?)
                }
                DeliveryTarget::Tool(name) => {
                    self.owner_of_tool(key, name, large_results::recorded_hash(outcome)).await?
                }
            });
        }
        let is_other = |owner: &ResultOwner| !matches!(owner, ResultOwner::Query(owner) if owner == key);
        Ok(Some(owners).filter(|owners| owners.iter().any(is_other)))
    }

    /// The query of the tree whose call this is; the query itself if there is none.
    pub(crate) async fn owner_of_call(&self, key: &QueryKey, call: CallId) -> Result<QueryKey, StoreError> {
        let mut owner = None;
        if self.has_children(key).await? {
            self.visit_tree(key, |one, state| {
                if state.head.call(call).is_some() {
                    owner = Some(one.clone());
                }
            })
            .await?;
        }
        Ok(owner.unwrap_or_else(|| key.clone()))
    }

    /// The query with the only open call of a tool, or the one whose last result this repeats.
    async fn owner_of_tool(&self, key: &QueryKey, tool: &str, outcome: ContentHash) -> Result<ResultOwner, StoreError> {
        let mut open: Vec<QueryKey> = Vec::new();
        let mut last: Option<(Timestamp, ContentHash, QueryKey)> = None;
        self.visit_tree(key, |one, state| {
            if has_open_call(&state.head, tool) {
                open.push(one.clone());
            }
            if let Some((at, known)) = last_result(state, tool)
                && last.as_ref().is_none_or(|(latest, ..)| *latest < at)
            {
                last = Some((at, known, one.clone()));
            }
        })
        .await?;
        Ok(match (last, open.len()) {
            // A replay of the last result must not answer the next call of the same tool, in whichever query.
            (Some((_, known, owner)), _) if known == outcome => ResultOwner::Query(owner),
            (_, 2..) => ResultOwner::Ambiguous,
            // Without an open call, a query that had one reports that, or else the query itself.
            (last, _) => {
                let owner = open.pop().or(last.map(|(.., owner)| owner));
                ResultOwner::Query(owner.unwrap_or_else(|| key.clone()))
            }
        })
    }

    /// The queries of the tree that a decision is for; the query itself if there are none.
    pub(crate) async fn decision_owners(
        &self,
        key: &QueryKey,
        target: DecisionTarget,
    ) -> Result<Vec<QueryKey>, EngineError> {
        if !self.has_children(key).await? {
            return Ok(vec![key.clone()]);
        }
        let mut owners = Vec::new();
        self.visit_tree(key, |one, state| {
            let is_meant = match target {
                DecisionTarget::Call(call) => state.head.call(call).is_some(),
                DecisionTarget::Only | DecisionTarget::Every => state.head.approvals().next().is_some(),
            };
            owners.extend(is_meant.then(|| one.clone()));
        })
        .await?;
        match (target, owners.len()) {
            (_, 0) => Ok(vec![key.clone()]),
            (DecisionTarget::Only, 2..) => Err(EngineError::SeveralToApprove(key.1.clone())),
            _ => Ok(owners),
        }
    }
}

/// Whether a client can deliver a result, or values, to a call of this tool.
fn has_open_call(head: &Head, tool: &str) -> bool {
    let is_open = |state: CallState| state.waiting().is_some_and(|waiting| waiting.on.is_delivered());
    head.calls.iter().any(|call| *call.tool == *tool && is_open(call.state))
}

/// The last result that a client has delivered to a call of this tool, and when.
fn last_result(state: &QueryState, tool: &str) -> Option<(Timestamp, ContentHash)> {
    state.head.calls.iter().rev().filter(|call| *call.tool == *tool).find_map(|call| {
        let CallState::Resolved { outcome } = call.state else { return None };
        let at = state.transcript.call(call.id)?.result.as_ref()?.at;
        Some((at, outcome))
    })
}
