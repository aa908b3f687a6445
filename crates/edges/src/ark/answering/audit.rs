//! The audit log as an answer: a page of JSON, or lines of it.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bosun_core::{Namespace, audit::AuditRecord, hex};
use bosun_engine::store::{FoundRecords, Numbered};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    ark::{
        describe::{DescribedAnswer, DescribedBody, Operation, declared, schema},
        handlers::audit::AuditParams,
    },
    http::answer::Json,
};

const LINES: &str = "application/x-ndjson";
/// The cursor of the next page, where the answer is lines and has no field for it.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

pub(crate) const OPERATION: Operation = Operation {
    method: "get",
    path: "/audit",
    id: "listAuditRecords",
    summary: "Who did what, newest first, in pages; as lines with `Accept: application/x-ndjson`",
    parameters: declared::<AuditParams>,
    body: DescribedBody::None,
    answer: DescribedAnswer::Json(schema::<AuditPage>),
    errors: &[],
};

#[derive(Debug, Serialize, JsonSchema)]
struct AuditPage {
    items: Vec<AuditItem>,
    count: usize,
    /// The `cursor` of the next page. There may be one after a page that is not full.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AuditItem {
    namespace: String,
    /// Counts up from 1 in each namespace, without a gap.
    seq: u64,
    time: String,
    /// The MAC that chains it to the previous record.
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    /// `action`, and what belongs to it: `actor`, `agent`, `query`, `call`, `tool`, `source`, `argumentsHash`,
    /// `arguments`, `outcome`, `durationMs`, …
    #[serde(flatten)]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    record: AuditRecord,
}

impl AuditItem {
    fn new(namespace: &Namespace, numbered: Numbered) -> Self {
        let Numbered { seq, record, mac } = numbered;
        Self {
            namespace: namespace.to_string(),
            seq,
            time: record.at.to_rfc3339(),
            mac: mac.map(|mac| hex::encode(&mac)),
            record,
        }
    }
}

pub(crate) fn answer(namespace: &Namespace, found: FoundRecords, headers: &HeaderMap) -> Response {
    let items: Vec<_> = found.records.into_iter().map(|numbered| AuditItem::new(namespace, numbered)).collect();
    let wants_lines = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains(LINES));
    if !wants_lines {
        return Json(AuditPage { count: items.len(), items, next: found.next }).into_response();
    }
    let mut lines = String::new();
    for line in items.iter().filter_map(|item| serde_json::to_string(item).ok()) {
        lines.push_str(&line);
        lines.push('\n');
    }
    let mut response = ([(header::CONTENT_TYPE, HeaderValue::from_static(LINES))], lines).into_response();
    if let Some(next) = found.next {
        response.headers_mut().insert(NEXT_CURSOR, HeaderValue::from(next));
    }
    response
}
