//! Queries below a query, as its clients see them: their open calls beside its own, and the tree itself.

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
        creation_timestamp: head.created_at.to_rfc3339(),
        children: children.collect(),
    }
}
