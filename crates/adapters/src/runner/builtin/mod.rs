//! Tools that ship with Bosun and run in its own process.
//!
//! Each has a module with its definition and its code. A call that fails returns an outcome that the model reads. All
//! of them are fast; none leaves work behind.

mod calculator;
mod current_time;
mod read_result;
mod request_missing_parameters;
mod terminate;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bosun_core::{
    Binding, Outcome, Tool,
    machine::outcome_code,
    tool::{Annotations, ToolOrigin},
};
use bosun_engine::{
    Clock, Runner,
    runner::{InsideCall, RunContext, RunReply},
};
use serde_json::{Value, json};

/// The builtin tools of a server.
pub struct Builtins {
    clock: Arc<dyn Clock>,
    added: Vec<(Tool, Arc<dyn Runner>)>,
}

impl fmt::Debug for Builtins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.tools().into_iter().map(|tool| tool.name).collect();
        formatter.debug_struct("Builtins").field("tools", &names).finish_non_exhaustive()
    }
}

impl Builtins {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, added: Vec::new() }
    }

    /// Adds a tool that the program brings along, bound as builtin by its name.
    #[must_use]
    pub fn with(mut self, tool: Tool, runner: Arc<dyn Runner>) -> Self {
        self.added.push((tool, runner));
        self
    }

    /// The definitions of all builtin tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![
            calculator::tool(),
            current_time::tool(),
            noop(),
            read_result::tool(),
            request_missing_parameters::tool(),
            terminate::tool(),
        ];
        tools.extend(self.added.iter().map(|(tool, _)| tool.clone()));
        tools
    }

    /// The runner of a tool that the program has added.
    fn added(&self, name: &str) -> Option<&Arc<dyn Runner>> {
        self.added.iter().find(|(tool, _)| tool.name == name).map(|(_, runner)| runner)
    }

    /// The names of all builtin tools, for an error message.
    pub(crate) fn names(&self) -> String {
        self.tools().iter().map(|tool| format!("`{}`", tool.name)).collect::<Vec<_>>().join(", ")
    }

    /// The definition of one builtin tool.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }
}

#[async_trait]
impl Runner for Builtins {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        let Binding::Builtin { name } = &call.tool.binding else {
            let message = format!("tool `{}` is not a builtin one", call.tool.name);
            return Outcome::failure(outcome_code::TOOL_FAILED, message).into();
        };
        let outcome = match name.as_str() {
            calculator::NAME => calculator::run(&call.arguments),
            current_time::NAME => current_time::run(&call.arguments, self.clock.now()),
            NOOP => Outcome::success(Value::clone(&call.arguments)),
            read_result::NAME => read_result::run(&call.arguments, &call.results).await,
            request_missing_parameters::NAME => {
                // The engine opens such calls for the client; this one was made outside a query.
                let message = "the user can be asked for parameters only by a query";
                Outcome::failure(outcome_code::TOOL_FAILED, message)
            }
            terminate::NAME => terminate::run(&call.arguments),
            name => match self.added(name) {
                Some(runner) => return runner.run(call, context).await,
                // A manifest is checked when it is read, but a query may be older than this program.
                None => {
                    Outcome::failure(outcome_code::TOOL_FAILED, format!("this server has no builtin tool `{name}`"))
                }
            },
        };
        outcome.into()
    }

    async fn poll(&self, call: &InsideCall, handle: &Value, context: &RunContext) -> RunReply {
        match self.added(&call.tool.name) {
            Some(runner) => runner.poll(call, handle, context).await,
            None => {
                let message = format!("this server has no builtin tool `{}` that could be polled", call.tool.name);
                Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message).into()
            }
        }
    }

    async fn cancel(&self, call: &InsideCall, handle: &Value) {
        if let Some(runner) = self.added(&call.tool.name) {
            runner.cancel(call, handle).await;
        }
    }
}

const NOOP: &str = "noop";

fn noop() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "Any text; it is returned"}},
    });
    definition(NOOP, "Does nothing and returns its arguments", parameters, Effects::Pure)
}

/// What running a tool again would do.
#[derive(Clone, Copy)]
enum Effects {
    /// Changes nothing, and returns the same for the same arguments.
    Pure,
    /// Changes nothing, but what it reads may change.
    Reads,
}

fn definition(name: &str, description: &str, parameters: Value, effects: Effects) -> Tool {
    let mut tool = Tool::new(name, description, parameters, Binding::Builtin { name: name.into() });
    tool.annotations = Annotations {
        read_only_hint: Some(true),
        destructive_hint: Some(false),
        idempotent_hint: Some(matches!(effects, Effects::Pure)),
        open_world_hint: Some(false),
    };
    tool.origin = ToolOrigin::Operator;
    tool
}

#[cfg(test)]
mod tests;
