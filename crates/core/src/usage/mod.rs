//! Usage statistics of tools: calls, errors and latencies, by agent, tool and source.
//!
//! A [`Sample`] is the contribution of one audit record; tallies of samples add up, so a store keeps one for each hour
//! and answers any window of hours by adding them, regardless of the number of calls and of restarts. Latencies are
//! kept in [`Histogram`]s, whose quantiles are within 6 % of the exact value. Arguments and results are never part of
//! it.

mod histogram;
#[cfg(test)]
mod tests;

pub use histogram::Histogram;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    audit::{Action, AuditRecord, CallSource, SUCCESS},
};

/// The tool name under which calls are counted once an hour has too many distinct ones: clients choose names.
pub const OTHER: &str = "(other)";
/// Maximum number of distinct agent and tool pairs in an hour.
pub const MOST_KEYS: usize = 1_000;

/// Maximum number of distinct pairs in a sum of hours.
const MOST_KEYS_OF_A_SUM: usize = 10_000;

const HOUR: i64 = 3_600_000;

/// Whole hours since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub i64);

impl Hour {
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        Self(at.0.div_euclid(HOUR))
    }

    #[must_use]
    pub fn begin(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(HOUR))
    }
}

/// The key by which calls are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageKey {
    pub agent: Arc<str>,
    pub tool: Arc<str>,
    pub source: CallSource,
}

/// Calls that have an outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTally {
    pub calls: u64,
    pub errors: u64,
    /// From start to end inside, from hand-out to result outside; refused calls take no time.
    pub latency: Histogram,
}

/// Queries that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryTally {
    pub queries: u64,
    /// Failed or cancelled.
    pub failed: u64,
    pub with_inside: u64,
    pub with_outside: u64,
    /// With inside and outside calls.
    pub mixed: u64,
    pub calls: u64,
    /// Distinct tools, summed over queries.
    pub tools: u64,
}

impl std::ops::AddAssign<&Self> for CallTally {
    fn add_assign(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.latency += &other.latency;
    }
}

impl std::ops::AddAssign<&Self> for QueryTally {
    fn add_assign(&mut self, other: &Self) {
        self.queries += other.queries;
        self.failed += other.failed;
        self.with_inside += other.with_inside;
        self.with_outside += other.with_outside;
        self.mixed += other.mixed;
        self.calls += other.calls;
        self.tools += other.tools;
    }
}

/// The contribution of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    Call { key: UsageKey, is_error: bool, latency_ms: Option<u64> },
    Query { agent: Arc<str>, tally: QueryTally },
}

impl Sample {
    #[must_use]
    pub fn of(record: &AuditRecord) -> Option<Self> {
        let agent = record.agent.clone()?;
        match record.action {
            Action::CallFinished
            | Action::CallCached
            | Action::CallDelivered
            | Action::CallExpired
            | Action::CallRefused => Some(Self::Call {
                key: UsageKey { agent, tool: record.tool.clone()?, source: record.source? },
                is_error: record.outcome.as_deref() != Some(SUCCESS),
                latency_ms: record.duration_ms,
            }),
            Action::QueryCompleted | Action::QueryFailed | Action::QueryCancelled => {
                let calls = record.calls?;
                let (inside, outside) = (calls.inside > 0, calls.outside > 0);
                let tally = QueryTally {
                    queries: 1,
                    failed: u64::from(record.action != Action::QueryCompleted),
                    with_inside: u64::from(inside),
                    with_outside: u64::from(outside),
                    mixed: u64::from(inside && outside),
                    calls: u64::from(calls.inside) + u64::from(calls.outside) + u64::from(calls.refused),
                    tools: u64::from(calls.tools),
                };
                Some(Self::Query { agent, tally })
            }
            Action::QueryCreated
            | Action::QueryHeld
            | Action::QueryContinued
            | Action::QueryChanged
            | Action::QueryRecovered
            | Action::QueryDeleted
            | Action::CallAsked
            | Action::CallHandedOut
            | Action::CallStarted
            | Action::ApprovalRequired
            | Action::CallApproved
            | Action::CallRejected
            | Action::DecisionRefused
            | Action::CallLooping
            | Action::CallClaimed
            | Action::CallReleased
            | Action::CallAnswered
            | Action::CacheCleared
            | Action::DeliveryRefused
            | Action::ResourceCreated
            | Action::ResourceUpdated
            | Action::ResourceDeleted
            | Action::ConversationDeleted
            | Action::WebhookSet
            | Action::WebhookDeleted
            | Action::KeysReloaded
            | Action::ConfigurationReloaded
            | Action::ConfigurationRefused
            | Action::KeysRefused
            | Action::KeyAdded
            | Action::KeyChanged
            | Action::KeyRevoked
            | Action::StoreBackedUp
            | Action::AuditKeyRotated
            | Action::AuditShortened
            | Action::AuditBroken
            | Action::AccessRefused => None,
        }
    }
}

/// The tallies of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    pub calls: BTreeMap<UsageKey, CallTally>,
    pub queries: BTreeMap<Arc<str>, QueryTally>,
}

impl UsageTotals {
    pub fn add(&mut self, sample: Sample) {
        match sample {
            Sample::Call { key, is_error, latency_ms } => {
                let tally = self.calls.entry(key).or_default();
                tally.calls += 1;
                tally.errors += u64::from(is_error);
                latency_ms.into_iter().for_each(|millis| tally.latency.add(millis));
            }
            Sample::Query { agent, tally } => *self.queries.entry(agent).or_default() += &tally,
        }
    }

    /// Adds calls of another period. A sum over many hours is bounded, too.
    pub fn add_calls(&mut self, key: UsageKey, tally: &CallTally) {
        let is_new = !self.calls.contains_key(&key);
        let key = if is_new && self.calls.len() >= MOST_KEYS_OF_A_SUM {
            UsageKey { agent: OTHER.into(), tool: OTHER.into(), source: key.source }
        } else {
            key
        };
        *self.calls.entry(key).or_default() += tally;
    }

    /// Adds queries of another period.
    pub fn add_queries(&mut self, agent: Arc<str>, tally: &QueryTally) {
        *self.queries.entry(agent).or_default() += tally;
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.queries.is_empty()
    }

    /// All queries together.
    #[must_use]
    pub fn all_queries(&self) -> QueryTally {
        self.queries.values().fold(QueryTally::default(), |mut sum, tally| {
            sum += tally;
            sum
        })
    }

    /// Calls by source.
    #[must_use]
    pub fn by_source(&self) -> BTreeMap<CallSource, CallTally> {
        self.sum_by(|key| key.source)
    }

    /// Calls by tool, over all agents: the most used first, ties by name.
    #[must_use]
    pub fn by_tool(&self) -> Vec<((Arc<str>, CallSource), CallTally)> {
        let mut tools: Vec<_> = self.sum_by(|key| (key.tool.clone(), key.source)).into_iter().collect();
        tools.sort_by(|(left, a), (right, b)| b.calls.cmp(&a.calls).then_with(|| left.cmp(right)));
        tools
    }

    fn sum_by<K: Ord>(&self, group: impl Fn(&UsageKey) -> K) -> BTreeMap<K, CallTally> {
        let mut sums: BTreeMap<K, CallTally> = BTreeMap::new();
        for (key, tally) in &self.calls {
            *sums.entry(group(key)).or_default() += tally;
        }
        sums
    }

    /// The share of all calls that the `top` most used tools have.
    #[must_use]
    pub fn coverage(&self, top: usize) -> Option<f64> {
        let tools = self.by_tool();
        let sum =
            |tools: &[((Arc<str>, CallSource), CallTally)]| tools.iter().map(|(_, tally)| tally.calls).sum::<u64>();
        ratio(sum(&tools[..top.min(tools.len())]), sum(&tools))
    }
}

/// A part of a whole; zero if the whole is zero.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a share is shown to people, and counts are far below 2^52")]
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
