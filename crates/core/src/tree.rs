//! Trees of queries: a call of an agent or a team is a query of its own.
//!
//! The root owns the budget of the whole tree. Each query knows its [`Lineage`]; what its ended children have
//! [`Spent`] is folded into its head, so that the spending of a tree is the sum over its open queries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{CallId, Namespace, QueryName, QueryUid, query::Usage};

/// How deep a tree may be: the root has depth 0.
pub const MAX_DEPTH: u32 = 5;

/// Where a child query is in its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    pub root: QueryUid,
    pub root_name: QueryName,
    pub parent: QueryUid,
    pub parent_name: QueryName,
    /// The parent's call that this query answers.
    pub call: CallId,
    /// 1 for a child of the root.
    pub depth: u32,
    /// The targets from the root to this query, both included.
    pub path: Vec<Arc<str>>,
}

impl Lineage {
    /// The root, which is in the namespace of every query of its tree.
    #[must_use]
    pub fn root_key(&self, namespace: &Namespace) -> (Namespace, QueryName) {
        (namespace.clone(), self.root_name.clone())
    }

    #[must_use]
    pub fn parent_key(&self, namespace: &Namespace) -> (Namespace, QueryName) {
        (namespace.clone(), self.parent_name.clone())
    }
}

/// What queries of a tree have used of the root's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    #[serde(default)]
    pub calls: u32,
    #[serde(default)]
    pub tokens: u64,
    #[serde(default)]
    pub running_ms: u64,
    /// The tokens by kind. Zero in journals from before it was recorded; `tokens` is always right.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

impl Spent {
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.running_ms = self.running_ms.saturating_add(other.running_ms);
        self.usage += other.usage;
    }
}

/// The budget of a tree, as one of its queries finds it when a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeBudget {
    /// What all other queries of the tree have used.
    pub others: Spent,
    /// The root's limits.
    pub max_tool_calls: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

impl TreeBudget {
    /// Why the tokens of the tree are used up, if they are; `own` are those of the query that looks.
    #[must_use]
    pub fn token_fault(&self, own: u64) -> Option<String> {
        let tokens = own.saturating_add(self.others.tokens);
        let limit = self.max_tokens.filter(|limit| tokens >= *limit)?;
        Some(format!("the query and its tree have used {tokens} tokens, the limit of the root is {limit}"))
    }
}
