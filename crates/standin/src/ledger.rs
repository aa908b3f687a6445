//! `ledger`, `ledger_idempotent` and `ledger_pending`: tools whose only purpose is to be counted.
//!
//! Each run appends one line to a file and flushes it to the disk before it answers, so the file
//! tells how often a call was really started, whatever happened to the server in between. The
//! first two differ only in their annotations: one may be run again after a crash, the other must not. The third
//! is pending for half a second, whatever becomes of the server. A server has them only if it was built with them and
//! started with `--ledger`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bosun_adapters::runner::builtin::Builtins;
use bosun_core::{
    Binding, Outcome, Timestamp, Tool,
    machine::outcome_code,
    tool::{Annotations, ToolOrigin},
};
use bosun_engine::{
    Clock as _, Runner, SystemClock,
    runner::{InsideCall, RunContext, RunReply},
};
use serde_json::{Value, json};

/// Adds the tools to those of a server; they write every run to `file`.
///
/// # Errors
/// If the file cannot be opened.
pub fn add(builtins: Builtins, file: &Path) -> io::Result<Builtins> {
    let ledger = Arc::new(Ledger::open(file)?);
    Ok(tools().into_iter().fold(builtins, |builtins, tool| builtins.with(tool, ledger.clone())))
}

/// The definitions of the tools.
#[must_use]
pub fn tools() -> [Tool; 3] {
    [
        tool("ledger", "Writes one line into the ledger; running it twice writes two", false),
        tool(
            "ledger_idempotent",
            "Writes one line into the ledger; running it again for the same call counts as one",
            true,
        ),
        tool(PENDING, "Writes one line into the ledger, and is done half a second later", false),
    ]
}

const PENDING: &str = "ledger_pending";
/// How long a pending call takes, and how often it is polled meanwhile.
const PENDING_MS: i64 = 500;
const POLLED_MS: i64 = 200;

fn now() -> i64 {
    SystemClock.now().0
}

/// The reply for a call that is done at this time.
fn done_at(done: i64) -> RunReply {
    match done - now() {
        ..=0 => Outcome::success("written").into(),
        left => RunReply::Pending { handle: json!({"done": done}), poll_at: Timestamp(now() + left.min(POLLED_MS)) },
    }
}

fn tool(name: &str, description: &str, is_idempotent: bool) -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"entry": {"type": "string", "description": "What to write"}},
    });
    let mut tool = Tool::new(name, description, parameters, Binding::Builtin { name: name.into() });
    tool.annotations = Annotations {
        read_only_hint: Some(false),
        destructive_hint: Some(false),
        idempotent_hint: Some(is_idempotent),
        open_world_hint: Some(false),
    };
    tool.origin = ToolOrigin::Operator;
    tool
}

/// The file that effects are counted in.
#[derive(Debug)]
struct Ledger {
    file: Arc<Mutex<File>>,
}

impl Ledger {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Arc::new(Mutex::new(file)) })
    }
}

#[async_trait]
impl Runner for Ledger {
    async fn run(&self, call: &InsideCall, _: &RunContext) -> RunReply {
        let line =
            json!({"call": call.id, "tool": call.tool.name, "attempt": call.attempt, "arguments": call.arguments});
        let file = Arc::clone(&self.file);
        let written = tokio::task::spawn_blocking(move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // One write, so that a kill leaves a whole line or none.
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        });
        let outcome = match written.await {
            Ok(Ok(())) if call.tool.name == PENDING => return done_at(now() + PENDING_MS),
            Ok(Ok(())) => Outcome::success("written"),
            Ok(Err(error)) => Outcome::failure(outcome_code::TOOL_FAILED, format!("ledger cannot be written: {error}")),
            Err(error) => Outcome::failure(outcome_code::TOOL_FAILED, format!("ledger was not written: {error}")),
        };
        outcome.into()
    }

    async fn poll(&self, _: &InsideCall, handle: &Value, _: &RunContext) -> RunReply {
        done_at(handle["done"].as_i64().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bosun_core::{Actor, CallId, Namespace, QueryUid, schema::Schema};
    use bosun_engine::Results;

    use super::*;

    fn builtins() -> Builtins {
        Builtins::new(Arc::new(SystemClock))
    }

    fn call(tool: &str, index: u32, attempt: u32, arguments: Value) -> InsideCall {
        InsideCall {
            namespace: Namespace::default(),
            id: CallId::derive(QueryUid::new(0, [0; 10]), 1, index),
            tool: Arc::new(tools().into_iter().find(|definition| definition.name == tool).unwrap()),
            arguments: arguments.into(),
            attempt,
            results: Results::default(),
        }
    }

    #[test]
    fn definitions_are_sound_and_tell_the_truth_about_effects() {
        for tool in tools() {
            Schema::compile(&tool.parameters).unwrap();
        }
        assert_eq!(tools().map(|tool| tool.is_safe_to_repeat()), [false, true, false]);
    }

    #[test]
    fn the_tools_are_there_only_with_a_file_to_write_to() {
        assert!(builtins().tool("ledger").is_none());
        assert!(add(builtins(), Path::new("/nonexistent/ledger")).is_err());
    }

    #[tokio::test]
    async fn the_ledger_has_one_line_for_each_run() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ledger");
        let context = RunContext::alone(Actor::local(), Duration::from_secs(9));
        let first = add(builtins(), &file).unwrap();
        first.run(&call("ledger", 0, 1, json!({"entry": "a\nb"})), &context).await;
        // A later process continues where the first one stopped.
        let second = add(builtins(), &file).unwrap();
        let reply = second.run(&call("ledger_idempotent", 1, 2, json!({})), &context).await;
        assert_eq!(reply, RunReply::Done(Outcome::success("written")));
        let lines: Vec<Value> =
            std::fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let id = |index| call("ledger", index, 1, json!({})).id;
        assert_eq!(
            lines,
            [
                json!({"call": id(0), "tool": "ledger", "attempt": 1, "arguments": {"entry": "a\nb"}}),
                json!({"call": id(1), "tool": "ledger_idempotent", "attempt": 2, "arguments": {}}),
            ]
        );
    }
}
