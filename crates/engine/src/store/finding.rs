//! What queries are found by: state, labels, session, target, and the time of their creation.
//!
//! Labels, session and target are *terms*, which a store indexes. The time of creation is part of a query's id, so a
//! list, which is in the order of ids, needs no index for it.

use std::collections::BTreeMap;

use bosun_core::{
    Event, Head, QueryUid, Spec, Status, Timestamp, query::TargetKind, tool::label_selector::LabelSelector,
};

use super::Encoded;

/// The wanted page of a list, newest first. Everything that it says must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryPage {
    /// At most this many queries; fewer, if they are [large](super::PAGE_BYTES).
    pub limit: usize,
    /// Only queries created before this one.
    pub before: Option<QueryUid>,
    pub status: Option<Status>,
    /// Only queries with calls that wait for approval.
    pub approvals: bool,
    /// Only queries with these labels.
    pub labels: LabelSelector,
    /// Only queries of this session.
    pub session: Option<String>,
    /// Only queries to this target.
    pub target: Option<(TargetKind, String)>,
    /// Only queries created at this time or later.
    pub since: Option<Timestamp>,
    /// Only queries created before this time.
    pub until: Option<Timestamp>,
}

impl QueryPage {
    /// Whether a query is on this page or on another one of the same list.
    #[must_use]
    pub fn wants(&self, head: &Head, spec: &Spec) -> bool {
        let (first, end) = self.created();
        self.status.is_none_or(|status| head.status() == status)
            && (!self.approvals || head.approvals().next().is_some())
            && self.session.as_ref().is_none_or(|session| spec.session_id.as_ref() == Some(session))
            && self.target.as_ref().is_none_or(|(kind, name)| spec.target_kind == *kind && spec.target == *name)
            && first.is_none_or(|first| head.uid >= first)
            && end.is_none_or(|end| head.uid < end)
            && self.labels.matches(head.labels(spec))
    }

    /// The smallest id of the list, and the one that is past its largest.
    #[must_use]
    pub fn created(&self) -> (Option<QueryUid>, Option<QueryUid>) {
        (self.since.map(QueryUid::first_at), self.until.map(QueryUid::first_at))
    }
}

/// One thing that a query is found by. A query has at most one term with each name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryTerm {
    pub name: String,
    pub value: String,
}

impl QueryTerm {
    #[must_use]
    pub fn session(id: &str) -> Self {
        Self { name: "session".to_owned(), value: id.to_owned() }
    }

    #[must_use]
    pub fn target(kind: TargetKind, name: &str) -> Self {
        Self { name: "target".to_owned(), value: format!("{}/{name}", kind.as_str()) }
    }

    #[must_use]
    pub fn label(key: &str, value: &str) -> Self {
        Self { name: Self::label_name(key), value: value.to_owned() }
    }

    /// The name of the term of this label.
    #[must_use]
    pub fn label_name(key: &str) -> String {
        format!("{LABEL}{key}")
    }

    /// All terms of a query, by name.
    #[must_use]
    pub fn of(spec: &Spec, labels: &BTreeMap<String, String>) -> Vec<Self> {
        let mut terms: Vec<_> = labels.iter().map(|(key, value)| Self::label(key, value)).collect();
        terms.extend(spec.session_id.as_deref().map(Self::session));
        terms.push(Self::target(spec.target_kind, &spec.target));
        terms.sort_unstable();
        terms
    }
}

const LABEL: &str = "label:";

/// What an append does to the terms of its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermChange {
    /// The query is created with these.
    All(Vec<QueryTerm>),
    /// Its labels are replaced by these.
    Labels(Vec<QueryTerm>),
}

impl TermChange {
    /// The start of the names of labels.
    pub const LABELS: &str = LABEL;

    /// The last change of the entries, if there is one.
    #[must_use]
    pub fn of(entries: &[Encoded]) -> Option<Self> {
        let labels = |labels: &BTreeMap<String, String>| {
            labels.iter().map(|(key, value)| QueryTerm::label(key, value)).collect::<Vec<_>>()
        };
        entries.iter().fold(None, |change, entry| match &entry.event {
            Event::Created { spec, .. } => Some(Self::All(QueryTerm::of(spec, &spec.labels))),
            Event::Changed(changed) => match (&changed.labels, change) {
                (None, change) => change,
                (Some(new), Some(Self::All(mut terms))) => {
                    terms.retain(|term| !term.name.starts_with(LABEL));
                    terms.extend(labels(new));
                    Some(Self::All(terms))
                }
                (Some(new), _) => Some(Self::Labels(labels(new))),
            },
            _ => change,
        })
    }
}
