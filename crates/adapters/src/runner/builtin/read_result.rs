//! `read_result`: reads a truncated result, page by page.
//!
//! The handle is in the marker at the end of a truncated result: the id of its call. A query can read its own results
//! and no others. A page is text followed by one line with its offsets, so that a model need not count.

use bosun_core::{Outcome, Tool, content::ContentPage, machine::outcome_code};
use bosun_engine::{PageError, READ_RESULT, Results};
use serde_json::{Value, json};

use super::{Effects, definition};

pub(super) const NAME: &str = READ_RESULT;

/// The size of a page without a `limit`: a few thousand tokens.
const DEFAULT_LIMIT: u64 = 16 * 1024;
/// A page must be small enough not to be truncated itself.
const LARGEST_LIMIT: u64 = 128 * 1024;

pub(super) fn tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "handle": {
                "type": "string",
                "description": "The handle at the end of the truncated result",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "Where to begin, in bytes; 0 if left out",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": LARGEST_LIMIT,
                "description": format!("How many bytes to read at most; {DEFAULT_LIMIT} if left out"),
            },
        },
        "required": ["handle"],
        "additionalProperties": false,
    });
    definition(
        NAME,
        "Reads a part of an earlier tool result that was too large to be shown whole",
        parameters,
        Effects::Pure,
    )
}

pub(super) async fn run(arguments: &Value, results: &Results) -> Outcome {
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
    let handle = arguments.get("handle").and_then(Value::as_str).unwrap_or_default();
    let limit = number("limit").unwrap_or(DEFAULT_LIMIT).min(LARGEST_LIMIT);
    match results.page(handle, number("offset").unwrap_or(0), limit).await {
        Ok(page) => Outcome::success(show(page)),
        Err(error @ PageError::Unknown(_)) => Outcome::failure(outcome_code::UNKNOWN_HANDLE, error.to_string()),
        Err(PageError::Store(error)) => {
            tracing::warn!(error = %error, "a large result cannot be read");
            Outcome::failure(outcome_code::TOOL_FAILED, "the result cannot be read right now")
        }
    }
}

fn show(page: ContentPage) -> String {
    let (start, end, size) = (page.start, page.end(), page.size);
    let rest = if end == size { "this is the end".to_owned() } else { format!("to read on, use offset {end}") };
    format!("{}\n[bytes {start} to {end} of {size}; {rest}]", page.text)
}
