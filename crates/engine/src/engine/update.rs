//! Changing an accepted query.
//!
//! The request of a query is frozen in the first entry of its journal. Its limits, its retention and its
//! labels can be changed at any time by an entry of their own, and every reader sees the change from that entry on.

use std::{collections::BTreeMap, sync::Arc};

use bosun_core::{
    Actor, Namespace, QueryLimits, QueryUid,
    event::Changed,
    machine,
    query::{AskedLimits, TargetKind},
};

use crate::{Engine, EngineError, QueryKey, Snapshot, StoreError, engine::Inner, queries::state::QueryState};

/// The requested changes of a query. Absent fields are left unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The uid of the query that the caller has read before: its name may belong to another query by now.
    pub of: Option<QueryUid>,
    pub limits: AskedLimits,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
    /// Whether to cancel it.
    pub cancel: bool,
    /// Whether the caller may shorten the retention of the query.
    pub may_shorten: bool,
}

impl Engine {
    /// Changes a query, whether or not it has ended. Limits above their bounds are clamped.
    ///
    /// # Errors
    /// If the query does not exist, if its retention would be shortened and the caller may not do that, or if the store
    /// fails.
    pub async fn update(&self, by: Actor, key: QueryKey, update: Update) -> Result<Snapshot, EngineError> {
        let inner = Arc::clone(&self.inner);
        self.change(key, None, "update.appended", move |state| {
            if let Some(of) = update.of.filter(|of| *of != state.head.uid) {
                return Err(StoreError::Conflict(of).into());
            }
            let changed = update.compare(state, inner.bounds_of(state), &by);
            // Checked with the query locked: what was read before may have changed since.
            if !update.may_shorten && changed.limits.ttl.is_some_and(|ttl| ttl < state.head.limits.ttl) {
                return Err(EngineError::MayNotShorten(state.head.name.clone()));
            }
            let mut events = machine::change(changed);
            if update.cancel {
                events.extend(machine::cancel(&state.head, None, &by));
            }
            Ok(events)
        })
        .await
    }

    /// Upper bounds of a query's limits: the ceilings of the server, or those of its agent where they are lower.
    #[must_use]
    pub fn bounds(&self, namespace: &Namespace, target: TargetKind, name: &str) -> QueryLimits {
        self.inner.bounds(namespace, target, name)
    }
}

impl Inner {
    fn bounds(&self, namespace: &Namespace, target: TargetKind, name: &str) -> QueryLimits {
        let (server, registry) = (self.settings.ceilings, self.resources.registry());
        let agent = (target == TargetKind::Agent).then(|| registry.agent(namespace, name)).flatten();
        agent.map_or(server, |agent| agent.limits.narrow(server))
    }

    fn bounds_of(&self, state: &QueryState) -> QueryLimits {
        self.bounds(&state.head.namespace, state.transcript.spec.target_kind, &state.head.target)
    }
}

impl Update {
    /// The requested changes that differ from the current state.
    fn compare(&self, state: &QueryState, wide: QueryLimits, by: &Actor) -> Changed {
        let (head, spec) = (&state.head, &state.transcript.spec);
        let other = |wanted: &Option<BTreeMap<_, _>>, is: &BTreeMap<_, _>| wanted.clone().filter(|wanted| wanted != is);
        Changed {
            limits: self.limits.changes(head.limits, wide),
            labels: other(&self.labels, head.labels(spec)).map(Arc::new),
            annotations: other(&self.annotations, head.annotations(spec)).map(Arc::new),
            by: by.clone(),
        }
    }
}
