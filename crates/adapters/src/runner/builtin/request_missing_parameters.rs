//! `request_missing_parameters`: the model asks the user for parameters that it does not know.
//!
//! Its calls are never run: the query waits until the client delivers the values, which are validated like arguments
//! (`bosun_core::tool::missing`).

use bosun_core::{Tool, tool::missing::REQUEST_MISSING_PARAMETERS};
use serde_json::json;

use super::{Effects, definition};

pub(super) const NAME: &str = REQUEST_MISSING_PARAMETERS;

pub(super) fn tool() -> Tool {
    let description = "Asks the user for required parameters of another tool whose values are not known. Never make \
                       values up: ask for them, and then call the tool with the answer";
    let parameters = json!({
        "type": "object",
        "properties": {
            "intended_tool_name": {"type": "string", "description": "The tool that is to be called"},
            "missing_params": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": 50,
                "description": "The names of the parameters to ask for",
            },
            "clarification_question": {"type": "string", "description": "The question for the user"},
        },
        "required": ["intended_tool_name", "missing_params", "clarification_question"],
        "additionalProperties": false,
    });
    definition(NAME, description, parameters, Effects::Reads)
}
