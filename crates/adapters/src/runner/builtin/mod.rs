//! Tools that ship with Bosun and run in its own process.
//!
//! Each has a module with its definition and its code. A call that cannot be done is an outcome that
//! the model reads. All of them are quick; none leaves work behind.

mod calculator;
mod current_time;
mod ledger;
mod read_result;

use std::{fmt, io, path::Path, sync::Arc};

use async_trait::async_trait;
use bosun_core::{Binding, Outcome, Tool, tool::Annotations};
use bosun_engine::{Clock, Runner, runner::InsideCall};
use serde_json::{Value, json};

use ledger::Ledger;

pub use read_result::UNKNOWN_HANDLE;

/// The code of an outcome when a builtin tool could not do what it was asked.
pub const FAILED: &str = "tool_failed";

/// The builtin tools of a server.
pub struct Builtins {
    clock: Arc<dyn Clock>,
    ledger: Option<Ledger>,
}

impl fmt::Debug for Builtins {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Builtins").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl Builtins {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ledger: None }
    }

    /// Adds the tools `ledger` and `ledger_idempotent`, which write every run to `file`: how the proofs
    /// count real effects.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn with_ledger(self, file: &Path) -> io::Result<Self> {
        Ok(Self { ledger: Some(Ledger::open(file)?), ..self })
    }

    /// The definitions of all builtin tools, by name.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![calculator::tool(), current_time::tool(), noop(), read_result::tool()];
        if self.ledger.is_some() {
            tools.extend([ledger::tool(), ledger::idempotent_tool()]);
        }
        tools
    }

    /// The names of all builtin tools, for a message.
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
    async fn run(&self, call: &InsideCall) -> Outcome {
        let Binding::Builtin { name } = &call.tool.binding else {
            return Outcome::failure(FAILED, format!("tool `{}` is not a builtin one", call.tool.name));
        };
        match (name.as_str(), &self.ledger) {
            (calculator::NAME, _) => calculator::run(&call.arguments),
            (current_time::NAME, _) => current_time::run(&call.arguments, self.clock.now()),
            (NOOP, _) => Outcome::success(Value::clone(&call.arguments)),
            (read_result::NAME, _) => read_result::run(&call.arguments, &call.results).await,
            (ledger::NAME | ledger::IDEMPOTENT_NAME, Some(ledger)) => ledger.run(call).await,
            // A manifest is checked when it is read, but a query may be older than this program.
            _ => Outcome::failure(FAILED, format!("this server has no builtin tool `{name}`")),
        }
    }
}

const NOOP: &str = "noop";

fn noop() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"message": {"type": "string", "description": "Anything; it is given back"}},
    });
    definition(NOOP, "Does nothing and gives its arguments back", parameters, Effects::Pure)
}

/// What running a tool again would do.
#[derive(Clone, Copy)]
enum Effects {
    /// Changes nothing, and gives the same for the same.
    Pure,
    /// Changes nothing, but what it reads moves on.
    Reads,
    /// Changes something once, however often it is run for the same call.
    WritesOnce,
    Writes,
}

fn definition(name: &str, description: &str, parameters: Value, effects: Effects) -> Tool {
    let mut tool = Tool::new(name, description, parameters, Binding::Builtin { name: name.into() });
    tool.annotations = Annotations {
        read_only_hint: Some(matches!(effects, Effects::Pure | Effects::Reads)),
        destructive_hint: Some(false),
        idempotent_hint: Some(matches!(effects, Effects::Pure | Effects::WritesOnce)),
        open_world_hint: Some(false),
    };
    tool
}

#[cfg(test)]
mod tests;
