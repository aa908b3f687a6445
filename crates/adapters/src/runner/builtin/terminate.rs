//! `terminate`: ends a query with an answer of the model's choosing.
//!
//! The tool only returns `response`. The engine recognises a call of it that has succeeded, and completes the query
//! with its result instead of asking the model again.

use bosun_core::{Outcome, Tool, machine::outcome_code};
use bosun_engine::TERMINATE;
use serde_json::{Value, json};

use super::{Effects, definition};

pub(super) const NAME: &str = TERMINATE;

pub(super) fn tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"response": {"type": "string", "description": "The final answer"}},
        "required": ["response"],
    });
    definition(NAME, "Ends the conversation with a final answer", parameters, Effects::Pure)
}

pub(super) fn run(arguments: &Value) -> Outcome {
    match arguments.get("response") {
        Some(Value::String(response)) => Outcome::success(response.as_str()),
        // A manifest may give the tool a schema of its own.
        _ => Outcome::failure(outcome_code::TOOL_FAILED, "`response` is missing: it must be text, the final answer"),
    }
}
