//! `GET /records` and `GET /sync/status`.

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bosun_core::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    answer::{error, invalid, ok},
    state::{Environment, NangoChange, NangoRecord},
};

const DEFAULT_LIMIT: usize = 100;
const LARGEST_LIMIT: usize = 10_000;
const KNOWN: &[&str] = &["model", "variant", "modified_after", "delta", "limit", "filter", "cursor", "ids"];
const YEAR_MS: i64 = 366 * 24 * 3_600 * 1_000;

/// Base64 of the position of a record: opaque to clients.
pub(super) fn cursor_of(record: &NangoRecord) -> String {
    BASE64_STANDARD.encode(format!("{}||{}", record.modified, record.id()))
}

fn position(cursor: &str) -> Option<(Timestamp, String)> {
    let text = String::from_utf8(BASE64_STANDARD.decode(cursor).ok()?).ok()?;
    let (modified, id) = text.split_once("||")?;
    Some((Timestamp::from_rfc3339(modified)?, id.to_owned()))
}

pub(super) fn list(
    environment: &Environment,
    headers: &HeaderMap,
    query: &[(String, String)],
    now: Timestamp,
) -> Response {
    let (provider, connection) = match super::answer::connection_headers(headers) {
        Ok(named) => named,
        Err(response) => return response,
    };
    if let Some((unknown, _)) = query.iter().find(|(name, _)| !KNOWN.contains(&name.as_str())) {
        return invalid("invalid_query_params", &format!("Unrecognized key: \"{unknown}\""), unknown);
    }
    let get = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let Some(model) = get("model") else { return invalid("invalid_query_params", "Required", "model") };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !model.starts_with(|first: char| first.is_ascii_uppercase()) || !model.chars().all(is_name) {
        return invalid("invalid_query_params", "Invalid", "model");
    }
    let limit = match get("limit").map_or(Ok(DEFAULT_LIMIT), str::parse) {
        Ok(limit) if (1..=LARGEST_LIMIT).contains(&limit) => limit,
        _ => return invalid("invalid_query_params", "Number must be between 1 and 10000", "limit"),
    };
    let filter: Option<Vec<String>> = get("filter").map(|text| text.split(',').map(str::to_lowercase).collect());
    if filter.iter().flatten().any(|word| !matches!(word.as_str(), "added" | "updated" | "deleted")) {
        return invalid("invalid_query_params", "Invalid filter value", "filter");
    }
    let since = match get("modified_after").or_else(|| get("delta")).map(Timestamp::from_rfc3339) {
        Some(Some(since)) if now.0 - since.0 <= YEAR_MS => Some(since),
        Some(_) => return invalid("invalid_query_params", "Must be within the last 12 months", "modified_after"),
        None => None,
    };
    let after = match get("cursor").map(position) {
        Some(None) => return error(StatusCode::INTERNAL_SERVER_ERROR, "server_error", Some("Failed to decode cursor")),
        Some(Some(after)) => Some(after),
        None => None,
    };
    if environment.connection(&provider, &connection).is_none() {
        return error(StatusCode::BAD_REQUEST, "unknown_connection", Some("Connection not found"));
    }
    let ids: Vec<_> = query.iter().filter(|(name, _)| name == "ids").map(|(_, value)| value.as_str()).collect();
    let stored = environment.state.records.iter().find(|records| {
        records.provider_config_key == provider && records.connection_id == connection && records.model == model
    });
    let mut records: Vec<&NangoRecord> = stored.iter().flat_map(|records| &records.records).collect();
    // Oldest first, and there is no way to change that.
    records.sort_by_key(|record| (record.modified_at(), record.id()));
    let is_wanted = |record: &&NangoRecord| {
        let is_listed = match &filter {
            None => true,
            Some(words) => {
                let has = |word: &str| words.iter().any(|known| known == word);
                match record.change {
                    NangoChange::Added => has("added"),
                    NangoChange::Updated => has("updated"),
                    // Together with another word, `deleted` finds nothing.
                    NangoChange::Deleted => has("deleted") && words.len() == 1,
                }
            }
        };
        is_listed
            && since.is_none_or(|since| record.modified_at() >= since)
            && after.as_ref().is_none_or(|after| (record.modified_at(), record.id()) > *after)
            && (ids.is_empty() || ids.contains(&record.id().as_str()))
    };
    let wanted: Vec<_> = records.into_iter().filter(is_wanted).collect();
    let (mut page, mut bytes): (Vec<Value>, usize) = (Vec::new(), 0);
    let mut last = None;
    for record in &wanted {
        let shown = record.to_json();
        bytes += shown.to_string().len();
        let is_over_budget = environment.state.faults.page_bytes.is_some_and(|budget| bytes > budget);
        if page.len() == limit || (is_over_budget && !page.is_empty()) {
            break;
        }
        page.push(shown);
        last = Some(*record);
    }
    let next = last.filter(|_| page.len() < wanted.len()).map(cursor_of);
    ok(&json!({"records": page, "next_cursor": next}))
}

pub(super) fn sync_status(environment: &Environment, query: &[(String, String)]) -> Response {
    let get = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let (Some(syncs), Some(provider)) = (get("syncs"), get("provider_config_key")) else {
        return invalid("invalid_query_params", "Required", "syncs");
    };
    let Some(integration) = environment.integration(provider) else {
        return error(StatusCode::BAD_REQUEST, "unknown_provider", Some("Unknown provider"));
    };
    let connection = get("connection_id").unwrap_or_default();
    let is_asked = |name: &str| syncs == "*" || syncs.split(',').any(|asked| asked == name);
    let shown = integration.syncs.iter().filter(|sync| is_asked(&sync.name)).map(|sync| {
        let count = |model: &String| {
            let of_model = environment.state.records.iter().find(|records| {
                records.provider_config_key == provider && records.connection_id == connection && records.model == *model
            });
            of_model.map_or(0, |records| records.records.iter().filter(|record| record.change != NangoChange::Deleted).count())
        };
        // Before the first run has ended there are no results yet.
        let counts: Map<String, Value> =
            sync.models.iter().filter(|_| sync.finished_at.is_some()).map(|model| (model.clone(), json!(count(model)))).collect();
        let latest: Map<String, Value> =
            counts.keys().map(|model| (model.clone(), json!({"added": 0, "updated": 0, "deleted": 0}))).collect();
        json!({
            "id": sync.name, "name": sync.name, "variant": "base", "connection_id": connection, "type": "INCREMENTAL",
            "status": sync.status.as_deref().unwrap_or("SUCCESS"), "latestResult": latest, "latestExecutionStatus": "SUCCESS",
            "frequency": "5 minutes", "finishedAt": sync.finished_at, "nextScheduledSyncAt": null, "recordCount": counts,
            "checkpoint": null,
        })
    });
    ok(&json!({"syncs": shown.collect::<Vec<_>>()}))
}
