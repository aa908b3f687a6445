//! What a query and the queries below it wait for.

use std::sync::Arc;

use bosun_core::{Head, Transcript};
use bosun_engine::Snapshot;

use super::person::{self, Approval, ParameterRequest};

/// The agents and teams from the query that is shown to the one below it.
pub(crate) fn path(below: &Snapshot) -> Vec<Arc<str>> {
    below.head.lineage.as_ref().map(|lineage| lineage.path.clone()).unwrap_or_default()
}

/// The calls that a person must approve: those of the query, and of all queries below it.
pub(crate) fn approvals(head: &Head, transcript: &Transcript, below: &[Snapshot]) -> Vec<Approval> {
    let below = below.iter().flat_map(|below| {
        let approvals = person::approvals(&below.head, &below.transcript).into_iter();
        approvals.map(|approval| Approval { agent_path: path(below), ..approval })
    });
    person::approvals(head, transcript).into_iter().chain(below).collect()
}

/// The requests for parameters, likewise.
pub(crate) fn parameter_requests(head: &Head, transcript: &Transcript, below: &[Snapshot]) -> Vec<ParameterRequest> {
    let below = below.iter().flat_map(|below| {
        let requests = person::parameter_requests(&below.head, &below.transcript).into_iter();
        requests.map(|request| ParameterRequest { agent_path: path(below), ..request })
    });
    person::parameter_requests(head, transcript).into_iter().chain(below).collect()
}
