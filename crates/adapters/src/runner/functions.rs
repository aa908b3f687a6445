//! Applies an agent's jq filters to the results of a tool: ARK's `functions`.
//!
//! Filters run in a process of their own, this program with the command `jq`: jaq cannot be interrupted, and a filter may
//! loop forever or build a huge value. The process has no environment, limits of time and memory, and its output is read
//! up to a limit. A result that is not JSON is passed on unfiltered, as ARK does. Results of inside calls are filtered
//! before they are recorded; those that clients deliver are recorded as they are, and filtered for the model.

use std::{
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    Outcome,
    ceiling::{HTTP_RESPONSE_BYTES, JQ_MEMORY_BYTES, JQ_SECONDS},
    content::{Blocks, Content},
    json::{self as strict, JsonLimits},
    machine::outcome_code,
    text::clip,
};
use bosun_engine::{
    Runner,
    runner::{InsideCall, ResultFilter, RunContext, RunReply},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    sync::Semaphore,
};

use crate::{jq, own_program::own_program};

/// The hidden command of the program that applies filters to its standard input.
pub const JQ_COMMAND: &str = "jq";
/// The exit code of a filter that failed; its standard error says why.
pub const FILTER_FAILED: u8 = 3;
/// Processes at the same time.
const PROCESSES: usize = 4;
/// Characters of a message of the process.
const LONGEST_MESSAGE: usize = 500;

/// Without it, mimalloc maps a gibibyte as data when it starts: the limit of memory is then exceeded before it is set, has
/// no effect on what is allocated within that gibibyte, and every further mapping fails.
const ALLOCATE_AS_NEEDED: [(&str, &str); 1] = [("MIMALLOC_ARENA_EAGER_COMMIT", "0")];

/// The standard input of the process.
#[derive(Debug, Serialize, Deserialize)]
pub struct JqInput {
    filters: Vec<String>,
    value: Value,
}

impl JqInput {
    /// Applies the filters in this process.
    ///
    /// # Errors
    /// With a message for the model.
    pub fn apply(self) -> Result<Value, String> {
        jq::apply(&self.filters, self.value)
    }
}

/// Starts the processes that apply filters.
#[derive(Debug)]
pub struct JqProcesses {
    program: PathBuf,
    permits: Semaphore,
}

impl Default for JqProcesses {
    fn default() -> Self {
        Self { program: own_program(), permits: Semaphore::new(PROCESSES) }
    }
}

impl JqProcesses {
    /// The result after the filters, or why they failed. One that is not JSON is not filtered.
    async fn filter_within(&self, filters: &[String], content: Content, time_left: Duration) -> Outcome {
        let value = match json_of(content) {
            Ok(value) => value,
            Err(content) => return Outcome::Success { content },
        };
        match self.apply(filters, value, time_left).await {
            Ok(value) => Outcome::success(value),
            Err(message) => Outcome::failure(outcome_code::FUNCTION_FAILED, message),
        }
    }

    async fn apply(&self, filters: &[String], value: Value, time_left: Duration) -> Result<Value, String> {
        let limit = Duration::from_secs(JQ_SECONDS as u64).min(time_left);
        match tokio::time::timeout(limit, self.run(filters, value)).await {
            Ok(result) => result,
            Err(_) => Err(format!("the filters took longer than {} s", limit.as_secs())),
        }
    }

    async fn run(&self, filters: &[String], value: Value) -> Result<Value, String> {
        let unusable = |error: std::io::Error| format!("the filters cannot be run: {error}");
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.map_err(|error| error.to_string())?;
        let input = strict::compact(&serde_json::json!(JqInput { filters: filters.to_vec(), value }));
        let mut command = Command::new(&self.program);
        command.arg(JQ_COMMAND).env_clear().envs(ALLOCATE_AS_NEEDED).kill_on_drop(true);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(unusable)?;
        let (output, message, status) = exchange(&mut child, input).await.map_err(unusable)?;
        if output.len() > HTTP_RESPONSE_BYTES {
            return Err(format!("the filters have more than {HTTP_RESPONSE_BYTES} bytes of output"));
        }
        if status.success() {
            let text = String::from_utf8_lossy(&output);
            let limits = JsonLimits { bytes: HTTP_RESPONSE_BYTES, ..JsonLimits::BODY };
            return strict::parse(&text, limits)
                .map_err(|error| format!("the output of the filters is refused: {error}"));
        }
        if status.code() == Some(FILTER_FAILED.into()) {
            return Err(clip(message.trim(), LONGEST_MESSAGE));
        }
        Err(format!("the filters needed more than {JQ_SECONDS} s or {} MiB of memory", JQ_MEMORY_BYTES >> 20))
    }
}

/// Writes the input while the output is read: either pipe may be full.
async fn exchange(child: &mut Child, input: String) -> std::io::Result<(Vec<u8>, String, ExitStatus)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A process that ends early does not read all of it.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(HTTP_RESPONSE_BYTES as u64 + 1).read_to_end(&mut output).await?;
        }
        Ok::<_, std::io::Error>(output)
    };
    let explain = async {
        let mut message = String::new();
        if let Some(stderr) = stderr {
            let mut bytes = Vec::new();
            stderr.take(64 * 1024).read_to_end(&mut bytes).await?;
            message = String::from_utf8_lossy(&bytes).into_owned();
        }
        Ok::<_, std::io::Error>(message)
    };
    let ((), output, message) = tokio::join!(write, read, explain);
    let output = output?;
    if output.len() > HTTP_RESPONSE_BYTES {
        child.kill().await?;
    }
    Ok((output, message?, child.wait().await?))
}

/// A runner whose results are filtered as the frozen tool says.
pub(crate) struct FilteringRunner {
    runner: Arc<dyn Runner>,
    processes: Arc<JqProcesses>,
}

impl FilteringRunner {
    pub(crate) fn around(runner: Arc<dyn Runner>, processes: &Arc<JqProcesses>) -> Arc<dyn Runner> {
        Arc::new(Self { runner, processes: Arc::clone(processes) })
    }

    async fn filter(&self, reply: RunReply, call: &InsideCall, context: &RunContext) -> RunReply {
        match reply {
            RunReply::Done(Outcome::Success { content }) if !call.tool.functions.is_empty() => {
                self.processes.filter_within(&call.tool.functions, content, context.time_left()).await.into()
            }
            reply => reply,
        }
    }
}

#[async_trait]
impl ResultFilter for JqProcesses {
    async fn filter(&self, filters: &[String], content: Content) -> Outcome {
        self.filter_within(filters, content, Duration::MAX).await
    }
}

/// The JSON of a result; the result itself if it is not JSON.
fn json_of(content: Content) -> Result<Value, Content> {
    let parse = |text: &str| strict::parse(text, JsonLimits { bytes: HTTP_RESPONSE_BYTES, ..JsonLimits::BODY }).ok();
    match content {
        Content::Inline(Value::String(text)) => parse(&text).ok_or(Content::Inline(Value::String(text))),
        Content::Inline(value) => Ok(value),
        Content::Blocks(blocks) => {
            let found = blocks.structured().cloned().or_else(|| only_text(&blocks).and_then(parse));
            found.ok_or(Content::Blocks(blocks))
        }
        large @ Content::Large(_) => Err(large),
    }
}

/// The text of a result that is one block of text.
fn only_text(blocks: &Blocks) -> Option<&str> {
    match blocks.content() {
        [block] if block.get("type").is_some_and(|kind| kind == "text") => block.get("text")?.as_str(),
        _ => None,
    }
}

#[async_trait]
impl Runner for FilteringRunner {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        let reply = self.runner.run(call, context).await;
        self.filter(reply, call, context).await
    }

    async fn poll(&self, call: &InsideCall, handle: &Value, context: &RunContext) -> RunReply {
        let reply = self.runner.poll(call, handle, context).await;
        self.filter(reply, call, context).await
    }

    async fn answer(&self, call: &InsideCall, handle: &Value, answer: &Value, context: &RunContext) -> RunReply {
        let reply = self.runner.answer(call, handle, answer, context).await;
        self.filter(reply, call, context).await
    }

    async fn cancel(&self, call: &InsideCall, handle: &Value) {
        self.runner.cancel(call, handle).await;
    }
}
