//! `source: cache`: reads the records that a sync has stored at Nango.
//!
//! Nango returns records oldest first and cannot sort or filter them, so all of them are read, up to a ceiling, and
//! the query is applied here. Where there are more, only those that changed recently are read: the newest are what a
//! caller asks for. A model that does not exist is an empty list at Nango; the state of the syncs distinguishes it.

use std::time::Duration;

use bosun_core::{
    Namespace, Timestamp,
    ceiling::{NANGO_BYTES, NANGO_RECORDS},
    json,
};
use serde_json::{Map, Value, json};

use super::{
    client::{NangoClient, NangoRequest},
    error::NangoError,
    query::RecordQuery,
};

/// Records of one request to Nango, which accepts up to 10,000: a page has to fit into one answer.
const PAGE: usize = 1_000;
/// Requests of one read, at most: Nango may cut every page short.
const MOST_PAGES: usize = 200;
/// How far back a read goes where there are more records than the ceiling, the longest first. Nango allows a year.
const WINDOWS: [Duration; 5] = [days(300), days(60), days(14), days(3), days(1)];
/// The member of a record that is Nango's own.
const METADATA: &str = "_nango_metadata";

const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 24 * 3_600)
}

/// The records that a call reads.
pub(super) struct RecordRead<'a> {
    pub(super) client: &'a NangoClient,
    pub(super) namespace: &'a Namespace,
    pub(super) provider: &'a str,
    pub(super) connection: &'a str,
    pub(super) model: &'a str,
    pub(super) now: Timestamp,
}

/// The records of one pass.
#[derive(Debug, Default)]
struct Scanned {
    /// Oldest first.
    records: Vec<Value>,
    total: usize,
    /// Records whose payload Nango has deleted for their age.
    pruned: usize,
    is_truncated: bool,
}

/// What is known of the syncs that write the model.
#[derive(Debug, Default)]
struct Freshness {
    synced_at: Option<String>,
    status: Option<String>,
    /// Records of the model, as Nango counts them.
    count: Option<u64>,
    /// Whether a sync writes the model; `None` if the syncs could not be read.
    is_known: Option<bool>,
}

impl RecordRead<'_> {
    /// The page that `query` asks for, and how fresh and complete it is.
    pub(super) async fn run(&self, query: RecordQuery, time_left: impl Fn() -> Duration) -> Result<Value, NangoError> {
        let freshness = self.freshness(&time_left).await?;
        let (scanned, since) = self.scan(&query, &freshness, &time_left).await?;
        let Scanned { records, total, pruned, is_truncated } = scanned;
        if total == 0 {
            self.explain_empty(&freshness)?;
        }
        // Comparing and sorting thousands of records would block a worker of the runtime for too long.
        let page = tokio::task::spawn_blocking(move || query.apply(records)).await;
        let page = page.map_err(|error| NangoError::Unavailable(format!("the records were not filtered: {error}")))?;
        let mut hints = Vec::new();
        if page.matched == 0 && total > 0 {
            hints.push("no record matches".to_owned());
        }
        if total == 0 {
            hints.push(format!("the model `{}` has no records", self.model));
        }
        if !page.unknown_fields.is_empty() && total > 0 {
            hints.push(format!("no record has the field {}", quoted(&page.unknown_fields)));
        }
        if page.incomparable > 0 {
            hints.push(format!("{} records have a value that the filters cannot be compared with", page.incomparable));
        }
        if pruned > 0 {
            hints.push(format!("the content of {pruned} records was deleted at Nango for their age"));
        }
        if is_truncated {
            hints.push(format!("only {total} records were read; narrow the query"));
        }
        if freshness.is_known.is_none() {
            hints.push("the state of the syncs is not known".to_owned());
        }
        let mut result = json!({
            "records": page.records,
            "matched": page.matched,
            "total_scanned": total,
            "truncated": is_truncated || since.is_some(),
            "synced_at": freshness.synced_at,
            "sync_status": freshness.status,
        });
        if let Some(since) = since {
            result["changed_since"] = json!(since.to_rfc3339());
        }
        if !hints.is_empty() {
            result["hint"] = json!(hints.join("; "));
        }
        Ok(result)
    }

    /// All records, or those of the longest window that fits below the ceiling.
    async fn scan(
        &self,
        query: &RecordQuery,
        freshness: &Freshness,
        time_left: &impl Fn() -> Duration,
    ) -> Result<(Scanned, Option<Timestamp>), NangoError> {
        let is_too_many = freshness.count.is_some_and(|count| count > NANGO_RECORDS as u64);
        // With an order of the caller's own, the newest are not what is asked for.
        let may_narrow = query.identifier.is_none() && query.is_newest_first();
        if !(is_too_many && may_narrow) {
            let scanned = self.pass(query, None, time_left).await?;
            if !(scanned.is_truncated && may_narrow) {
                return Ok((scanned, None));
            }
        }
        let mut last = (Scanned::default(), None);
        for window in WINDOWS {
            let since = self.now.before(window);
            let scanned = self.pass(query, Some(since), time_left).await?;
            let is_complete = !scanned.is_truncated;
            last = (scanned, Some(since));
            if is_complete {
                break;
            }
        }
        Ok(last)
    }

    async fn pass(
        &self,
        query: &RecordQuery,
        since: Option<Timestamp>,
        time_left: &impl Fn() -> Duration,
    ) -> Result<Scanned, NangoError> {
        let mut request = NangoRequest::get(&["records"])
            .with("model", self.model)
            // Deleted records would be returned too, as stubs.
            .with("filter", "added,updated");
        request = request.on(self.provider, self.connection)?;
        if let Some(id) = &query.identifier {
            request = request.with("ids", id.as_str());
        }
        if let Some(since) = since {
            request = request.with("modified_after", since.to_rfc3339());
        }
        let mut scanned = Scanned::default();
        let (mut cursor, mut bytes, mut limit): (Option<String>, usize, usize) = (None, 0, PAGE);
        for _ in 0..MOST_PAGES {
            let mut page = request.clone().with("limit", limit.to_string());
            if let Some(cursor) = &cursor {
                page = page.with("cursor", cursor.as_str());
            }
            let mut body = match self.client.send(self.namespace, &page, time_left).await {
                Ok(answer) => answer.body,
                // Large records: fewer of them fit into one answer.
                Err(NangoError::TooLarge(_)) if limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let next = body.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            let Some(Value::Array(records)) = body.get_mut("records").map(Value::take) else {
                return Err(NangoError::Unavailable("Nango's answer has no list of `records`".to_owned()));
            };
            for record in records {
                if scanned.total == NANGO_RECORDS || bytes > NANGO_BYTES {
                    scanned.is_truncated = true;
                    return Ok(scanned);
                }
                scanned.total += 1;
                bytes += json::compact_size(&record);
                match shown(record) {
                    ShownRecord::Whole(record) => scanned.records.push(record),
                    ShownRecord::Pruned => scanned.pruned += 1,
                    ShownRecord::Deleted => scanned.total -= 1,
                }
            }
            // A page may be shorter than its limit and still have a successor.
            if next.is_none() || next == cursor {
                return Ok(scanned);
            }
            cursor = next;
        }
        scanned.is_truncated = true;
        Ok(scanned)
    }

    async fn freshness(&self, time_left: &impl Fn() -> Duration) -> Result<Freshness, NangoError> {
        let request = NangoRequest::get(&["sync", "status"])
            .with("syncs", "*")
            .with("provider_config_key", self.provider)
            .with("connection_id", self.connection);
        let body = match self.client.send(self.namespace, &request, time_left).await {
            Ok(answer) => answer.body,
            // A key without the scope for syncs can still read records.
            Err(NangoError::Misconfigured(_)) => return Ok(Freshness::default()),
            Err(error) => return Err(error),
        };
        let mut freshness = Freshness { is_known: Some(false), ..Freshness::default() };
        for sync in body.get("syncs").and_then(Value::as_array).into_iter().flatten() {
            let of_model = |name: &str| sync.get(name).and_then(|models| models.get(self.model));
            let count = of_model("recordCount").and_then(Value::as_u64);
            if count.is_none() && of_model("latestResult").is_none() {
                continue;
            }
            let text = |name: &str| sync.get(name).and_then(Value::as_str).map(str::to_owned);
            freshness.is_known = Some(true);
            freshness.count = freshness.count.max(count);
            // RFC 3339 in UTC, so the later text is the later time.
            if text("finishedAt") >= freshness.synced_at {
                freshness.synced_at = text("finishedAt");
                freshness.status = text("status");
            }
        }
        Ok(freshness)
    }

    /// Why there are no records, if that is a fault and not an answer.
    fn explain_empty(&self, freshness: &Freshness) -> Result<(), NangoError> {
        let (model, provider) = (self.model, self.provider);
        match (freshness.is_known, &freshness.synced_at) {
            (Some(false), _) => Err(NangoError::SyncNotReady(format!(
                "no sync of `{provider}` has written the model `{model}` for this connection: it has not run yet, or the \
                 tool's `cache_model` is wrong"
            ))),
            (Some(true), None) => Err(NangoError::SyncNotReady(format!(
                "the first sync of the model `{model}` has not ended yet; try again later"
            ))),
            _ => Ok(()),
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

enum ShownRecord {
    Whole(Value),
    Pruned,
    Deleted,
}

/// A record without Nango's metadata, of which only the time of the last change is kept.
fn shown(record: Value) -> ShownRecord {
    let Value::Object(mut members) = record else { return ShownRecord::Whole(record) };
    let metadata = match members.shift_remove(METADATA) {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let is_set = |name: &str| metadata.get(name).is_some_and(|value| !value.is_null());
    if metadata.get("last_action").and_then(Value::as_str) == Some("DELETED") || is_set("deleted_at") {
        return ShownRecord::Deleted;
    }
    if is_set("pruned_at") {
        return ShownRecord::Pruned;
    }
    if let Some(at) = metadata.get("last_modified_at").filter(|_| !members.contains_key("last_modified_at")) {
        members.insert("last_modified_at".to_owned(), at.clone());
    }
    ShownRecord::Whole(Value::Object(members))
}
