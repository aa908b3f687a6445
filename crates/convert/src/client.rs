//! The client tool provider: tools that a client defines and runs itself.
//!
//! Definitions are validated once, when the provider is made; a call is handed back to the client through a callback.
//! The texts of its errors are those of the original, which clients match on. Nothing here blocks: the callback may
//! answer at once or be a future, as the caller likes.
//!
//! ```
//! use bosun_convert::client::{ClientTools, ToolCall, ToolResult};
//! use serde_json::json;
//!
//! let provider = ClientTools::new(&json!([{
//!     "name": "search_database",
//!     "description": "Search the client database",
//!     "parameters": {
//!         "type": "object",
//!         "properties": {
//!             "query": {"type": "string", "description": "Search query"},
//!             "limit": {"type": "integer", "description": "Max results", "minimum": 1, "maximum": 100},
//!         },
//!         "required": ["query"],
//!     },
//! }]))?;
//!
//! let call: ToolCall = serde_json::from_value(json!({
//!     "id": "call-123", "type": "function",
//!     "function": {"name": "search_database", "arguments": "{\"query\": \"test\", \"limit\": 2.5}"},
//! }))?;
//! let validation = provider.validate_arguments(&call);
//! assert_eq!(validation.errors, ["Parameter limit must be an integer, got: 2.5"]);
//!
//! let result = provider.execute(&call, |call| Ok::<_, String>(ToolResult::success(call, json!({"users": []}))));
//! assert!(result.success);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use bosun_core::{
    Fault, Tool, Toolset,
    json::{self, JsonLimits},
    schema::{CheckedArguments, Violation},
    tool::{
        definition::{self, DefinitionFaults, Rules},
        toolset::ToolSources,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Validates definitions by the strict rules, with all faults.
///
/// # Errors
/// `Invalid client tool definitions: …` or `Duplicate tool names: …`.
pub fn validate_definitions(definitions: &Value) -> Result<Vec<Tool>, DefinitionFaults> {
    definition::check(definitions, Rules::Strict)
}

/// The outcome of [`safe_validate_definitions`], as it is serialized: one of the two fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SafeValidation {
    pub success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<Tool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<Fault>>,
}

/// [`validate_definitions`] with faults in a value instead of an `Err`.
#[must_use]
pub fn safe_validate_definitions(definitions: &Value) -> SafeValidation {
    match validate_definitions(definitions) {
        Ok(tools) => SafeValidation { success: true, data: Some(tools), errors: None },
        Err(faults) => SafeValidation { success: false, data: None, errors: Some(faults.faults.into_listed()) },
    }
}

/// One call, as a model API writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    #[serde(rename = "type", default)]
    pub kind: CallKind,
    pub function: FunctionCall,
}

/// There is only one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    #[default]
    Function,
}

/// The function and its arguments: a text of JSON, or the value itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub tool_call_id: String,
    pub tool_name: String,
    pub success: bool,
    /// Null when the call failed.
    pub result: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ToolResult {
    /// A successful call.
    #[must_use]
    pub fn success(call: &ToolCall, result: Value) -> Self {
        Self {
            tool_call_id: call.id.clone(),
            tool_name: call.function.name.clone(),
            success: true,
            result,
            error: None,
        }
    }

    /// A failed call.
    #[must_use]
    pub fn failure(call: &ToolCall, error: impl fmt::Display) -> Self {
        Self {
            tool_call_id: call.id.clone(),
            tool_name: call.function.name.clone(),
            success: false,
            result: Value::Null,
            error: Some(error.to_string()),
        }
    }
}

/// Whether the arguments of a call may be sent to the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Validation {
    pub valid: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// The tools of one client.
#[derive(Debug)]
pub struct ClientTools {
    tools: Toolset,
}

impl ClientTools {
    /// Validates the definitions that a client sent, flat or in OpenAI's envelope.
    ///
    /// # Errors
    /// `Invalid client tool definitions: …` or `Duplicate tool names: …`, with every fault.
    pub fn new(definitions: &Value) -> Result<Self, DefinitionFaults> {
        Ok(Self { tools: Toolset::merge(ToolSources::Client, Vec::new(), validate_definitions(definitions)?) })
    }

    /// A copy of the tools, in the client's order.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        self.tools.tools().iter().map(|member| Tool::clone(&member.tool)).collect()
    }

    /// The tool with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name).map(|member| &*member.tool)
    }

    /// Whether the client has this tool.
    #[must_use]
    pub fn can_handle(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The same tools, as the engine's type.
    #[must_use]
    pub fn into_toolset(self) -> Toolset {
        self.tools
    }

    /// Validates the arguments of a call against the tool's parameters: all of JSON Schema, all faults.
    #[must_use]
    pub fn validate_arguments(&self, call: &ToolCall) -> Validation {
        let errors = match self.tools.get(&call.function.name) {
            None => vec![format!("Tool {} not found", call.function.name)],
            Some(member) => match (member.schema(), &call.function.arguments) {
                (Err(error), _) => vec![error.to_string()],
                (Ok(schema), Value::String(text)) => messages(schema.check_arguments(text)),
                (Ok(schema), value) => messages(schema.check_value(value.clone())),
            },
        };
        Validation { valid: errors.is_empty(), errors }
    }

    /// Hands a call to the client and returns its result, unchanged. Never fails itself: errors are in the result.
    pub fn execute<E: fmt::Display>(
        &self,
        call: &ToolCall,
        on_input_required: impl FnOnce(&ToolCall) -> Result<ToolResult, E>,
    ) -> ToolResult {
        match self.prepare(call) {
            Err(refusal) => ToolResult::failure(call, refusal),
            Ok(call) => on_input_required(&call).unwrap_or_else(|error| ToolResult::failure(&call, error)),
        }
    }

    /// [`ClientTools::execute`] for an asynchronous client.
    pub async fn execute_async<E, F>(
        &self,
        call: &ToolCall,
        on_input_required: impl FnOnce(ToolCall) -> F,
    ) -> ToolResult
    where
        E: fmt::Display,
        F: Future<Output = Result<ToolResult, E>>,
    {
        match self.prepare(call) {
            Err(refusal) => ToolResult::failure(call, refusal),
            Ok(call) => {
                let answer = on_input_required(call.clone()).await;
                answer.unwrap_or_else(|error| ToolResult::failure(&call, error))
            }
        }
    }

    /// The call with its arguments as an object, or why the client is not called.
    fn prepare(&self, call: &ToolCall) -> Result<ToolCall, String> {
        let name = &call.function.name;
        if !self.can_handle(name) {
            return Err(format!("Tool {name} not found in client tools"));
        }
        let arguments = match &call.function.arguments {
            Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
            Value::String(text) => json::parse(text, JsonLimits::ARGUMENTS)
                .map_err(|error| format!("Invalid tool arguments JSON: {error}"))?,
            value => value.clone(),
        };
        if !arguments.is_object() {
            return Err("Invalid tool arguments: must be an object.".to_owned());
        }
        let function = FunctionCall { name: name.clone(), arguments };
        Ok(ToolCall { id: call.id.clone(), kind: call.kind, function })
    }
}

fn messages(checked: Result<CheckedArguments, Vec<Violation>>) -> Vec<String> {
    checked.err().unwrap_or_default().into_iter().map(|violation| violation.message).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn search_database() -> Value {
        json!({
            "name": "search_database",
            "description": "Search the client database",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Search query"},
                    "limit": {"type": "integer", "description": "Max results", "minimum": 1, "maximum": 100},
                },
                "required": ["query"],
            },
        })
    }

    fn closed() -> Value {
        let mut closed = search_database();
        closed["name"] = json!("closed");
        closed["parameters"]["additionalProperties"] = json!(false);
        closed
    }

    fn provider() -> ClientTools {
        ClientTools::new(&json!([search_database(), closed()])).unwrap()
    }

    fn call(name: &str, arguments: Value) -> ToolCall {
        let function = FunctionCall { name: name.to_owned(), arguments };
        ToolCall { id: "call-123".to_owned(), kind: CallKind::Function, function }
    }

    #[test]
    fn a_call_is_read_as_model_apis_write_it() {
        let text = r#"{"id": "call-123", "type": "function", "function": {"name": "x", "arguments": "{}"}}"#;
        assert_eq!(serde_json::from_str::<ToolCall>(text).unwrap(), call("x", json!("{}")));
    }

    #[track_caller]
    fn check_arguments(name: &str, arguments: Value, errors: &[&str]) {
        let validation = provider().validate_arguments(&call(name, arguments));
        assert_eq!(validation.errors, errors);
        assert_eq!(validation.valid, errors.is_empty());
    }

    fn never_called(_: &ToolCall) -> Result<ToolResult, String> {
        panic!("the client must not be called")
    }

    #[test]
    fn creates_with_valid_tools() {
        assert_eq!(provider().tools().len(), 2);
    }

    #[test]
    fn rejects_invalid_definitions() {
        let error = ClientTools::new(&json!([{"name": "x"}])).unwrap_err().to_string();
        assert!(error.starts_with("Invalid client tool definitions: "), "{error}");
    }

    #[test]
    fn rejects_invalid_names() {
        for name in ["", "invalid name!", "a.b"] {
            let mut tool = search_database();
            tool["name"] = json!(name);
            let error = ClientTools::new(&json!([tool])).unwrap_err().to_string();
            assert!(error.contains("Tool name must contain only alphanumeric characters"), "{error}");
        }
    }

    #[test]
    fn rejects_duplicates() {
        let error = ClientTools::new(&json!([search_database(), search_database()])).unwrap_err();
        assert_eq!(error.to_string(), "Duplicate tool names: search_database");
    }

    #[test]
    fn accepts_names_with_hyphens_and_underscores() {
        let mut tool = search_database();
        tool["name"] = json!("my-tool_2");
        assert!(ClientTools::new(&json!([tool])).unwrap().can_handle("my-tool_2"));
    }

    #[test]
    fn get_tools_returns_all_in_order() {
        let names: Vec<String> = provider().tools().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["search_database", "closed"]);
    }

    #[test]
    fn get_tools_returns_a_copy() {
        let provider = provider();
        provider.tools().clear();
        assert_eq!(provider.tools().len(), 2);
    }

    #[test]
    fn can_handle_is_true_for_a_tool_of_the_client() {
        assert!(provider().can_handle("closed"));
    }

    #[test]
    fn can_handle_is_false_for_an_unknown_tool() {
        assert!(!provider().can_handle("xyz"));
    }

    #[test]
    fn get_tool_finds_a_tool_by_its_name() {
        let provider = provider();
        let found = provider.get("closed").unwrap();
        assert_eq!((found.name.as_str(), &*found.description), ("closed", "Search the client database"));
    }

    #[test]
    fn get_tool_of_an_unknown_name_is_none() {
        assert!(provider().get("xyz").is_none());
    }

    #[test]
    fn execute_returns_the_clients_result_untouched() {
        let asked = call("search_database", json!(r#"{"query": "test"}"#));
        let result = provider().execute(&asked, |call| {
            assert_eq!(call.function.arguments, json!({"query": "test"}));
            Ok::<_, String>(ToolResult::success(call, json!({"users": []})))
        });
        assert_eq!(
            serde_json::to_value(result).unwrap(),
            json!({"toolCallId": "call-123", "toolName": "search_database", "success": true, "result": {"users": []}})
        );
    }

    #[test]
    fn execute_fails_for_unknown_tools() {
        let result = provider().execute(&call("xyz", json!({})), never_called);
        assert_eq!(result.error.as_deref(), Some("Tool xyz not found in client tools"));
        assert_eq!((result.success, result.result), (false, Value::Null));
    }

    #[test]
    fn execute_fails_for_invalid_json() {
        let result = provider().execute(&call("closed", json!("{invalid")), never_called);
        assert_eq!(
            result.error.as_deref(),
            Some("Invalid tool arguments JSON: key must be a string at line 1 column 2")
        );
    }

    #[test]
    fn execute_fails_for_null_arguments() {
        for arguments in [json!(null), json!("null")] {
            let result = provider().execute(&call("closed", arguments), never_called);
            assert_eq!(result.error.as_deref(), Some("Invalid tool arguments: must be an object."));
            assert_eq!((result.success, result.tool_call_id.as_str()), (false, "call-123"));
        }
    }

    #[test]
    fn execute_fails_for_arguments_that_are_no_object() {
        for arguments in [json!([]), json!("[]"), json!(5)] {
            let result = provider().execute(&call("closed", arguments), never_called);
            assert_eq!(result.error.as_deref(), Some("Invalid tool arguments: must be an object."));
        }
    }

    #[test]
    fn execute_reports_the_callbacks_error() {
        let result = provider().execute(&call("closed", json!({})), |_| Err("client disconnected"));
        assert_eq!(result.error.as_deref(), Some("client disconnected"));
    }

    #[test]
    fn a_slow_client_is_awaited() {
        let provider = provider();
        let asked = call("closed", json!(""));
        let mut future = std::pin::pin!(
            provider.execute_async(&asked, async |call| Ok::<_, String>(ToolResult::success(&call, json!(1))))
        );
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) else { panic!("not ready") };
        assert!(result.success);
    }

    #[test]
    fn validate_tool_arguments_accepts_valid_ones() {
        check_arguments("search_database", json!(r#"{"query": "test", "limit": 10}"#), &[]);
        check_arguments("search_database", json!({"query": "test", "limit": 10}), &[]);
    }

    #[test]
    fn validate_tool_arguments_names_a_missing_required_parameter() {
        check_arguments("search_database", json!({}), &["Missing required parameter: query"]);
    }

    #[test]
    fn validate_tool_arguments_names_a_wrong_type() {
        let wrong = ["Parameter query has wrong type: expected string, got number"];
        check_arguments("search_database", json!({"query": 5}), &wrong);
    }

    #[test]
    fn validate_tool_arguments_accepts_an_integer() {
        check_arguments("search_database", json!({"query": "x", "limit": 7}), &[]);
        check_arguments("search_database", json!(r#"{"query": "x", "limit": 7}"#), &[]);
    }

    #[test]
    fn validate_tool_arguments_rejects_a_fraction_for_an_integer() {
        let wrong = ["Parameter limit must be an integer, got: 2.5"];
        check_arguments("search_database", json!({"query": "x", "limit": 2.5}), &wrong);
    }

    #[test]
    fn validate_tool_arguments_fails_for_an_unknown_tool() {
        check_arguments("xyz", json!({}), &["Tool xyz not found"]);
    }

    #[test]
    fn validate_tool_arguments_rejects_null() {
        check_arguments("search_database", json!(null), &["Arguments are not valid: must be an object."]);
    }

    #[test]
    fn validate_tool_arguments_allows_extra_parameters_by_default() {
        check_arguments("search_database", json!({"query": "x", "extra": 1}), &[]);
    }

    #[test]
    fn validate_tool_arguments_rejects_extra_parameters_of_a_closed_schema() {
        check_arguments("closed", json!({"query": "x", "abc": 1}), &["Unknown parameter: abc"]);
    }

    #[test]
    fn the_safe_variant_has_one_of_two_fields() {
        let good = serde_json::to_value(safe_validate_definitions(&json!([]))).unwrap();
        assert_eq!(good, json!({"success": true, "data": []}));
        let bad = serde_json::to_value(safe_validate_definitions(&json!({}))).unwrap();
        assert_eq!(
            bad,
            json!({"success": false, "errors": [
                {"path": "", "code": "invalid_type", "message": "Invalid input: expected array, received object"},
            ]})
        );
    }
}
