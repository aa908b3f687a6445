//! Queries below a query, as its clients see them: their open calls next to its own, and the tree itself.

use bosun_core::{query::Usage, tree::Spent};
use bosun_engine::{QueryTree, Snapshot};

use super::convert;
use crate::{
    ark::wire,
    asking::{
        person::{self, Approval, ParameterRequest},
        tree::{self, path},
    },
};

/// The calls that the client must run: those of the query, and of all queries below it.
pub(super) fn open_calls(snapshot: &Snapshot) -> Vec<wire::ToolCall> {
    let below = snapshot.below.iter().flat_map(|below| {
        let calls = convert::open_calls(&below.head, &below.transcript).into_iter();
        calls.map(|call| wire::ToolCall { agent_path: path(below), ..call })
    });
    convert::open_calls(&snapshot.head, &snapshot.transcript).into_iter().chain(below).collect()
}

/// The calls that a person must approve, likewise.
pub(super) fn approvals(Snapshot { head, transcript, below }: &Snapshot) -> Vec<Approval> {
    tree::approvals(head, transcript, below)
}

/// The requests for parameters, likewise.
pub(super) fn parameter_requests(Snapshot { head, transcript, below }: &Snapshot) -> Vec<ParameterRequest> {
    tree::parameter_requests(head, transcript, below)
}

/// What the query and all queries below it have used; `None` if there are none below it.
pub(super) fn usage(snapshot: &Snapshot) -> Option<wire::TokenUsage> {
    let Snapshot { head, transcript, below } = snapshot;
    transcript.calls().find(|call| call.child.is_some())?;
    let mut spent = head.spent(head.updated_at);
    // The usage of queries that have ended below them is in their heads.
    below.iter().for_each(|below| spent += below.head.spent(below.head.updated_at));
    Some(total(Usage::default(), spent))
}

/// What a query has used, and the queries below it.
pub(super) fn total(own: Usage, below: Spent) -> wire::TokenUsage {
    let mut sum = own;
    sum += below.usage;
    wire::TokenUsage { total_tokens: own.total().saturating_add(below.tokens), ..convert::usage(sum) }
}

/// A query with those below it.
pub(crate) fn node(tree: &QueryTree, call: Option<String>) -> wire::TreeNode {
    let Snapshot { head, transcript, .. } = &tree.snapshot;
    let children = tree.children.iter().map(|child| {
        let call = child.snapshot.head.lineage.as_ref().map(|lineage| lineage.call.to_string());
        node(child, call)
    });
    wire::TreeNode {
        identity: convert::identity(head),
        target: convert::target(&transcript.spec),
        tool_call_id: call,
        tool_calls: convert::open_calls(head, transcript),
        approvals: person::approvals(head, transcript),
        response: transcript.response().map(str::to_owned),
        error: convert::failure(transcript),
        usage: convert::usage(head.usage),
        tree_usage: usage(&tree.snapshot),
        creation_timestamp: head.created_at.to_rfc3339(),
        children: children.collect(),
    }
}
