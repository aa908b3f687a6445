//! `bosun demo`: what Bosun promises, shown with a real server that is killed.
//!
//! The server is a process of its own on a temporary store; its model answers from a script. Everything that the
//! timeline shows was observed from outside: events as they arrived, answers as they were given, files on the disk. A
//! deviation from the promise ends the demonstration with an error.

mod client;
mod server;
mod timeline;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anstream::stdout;
use anstyle::{AnsiColor, Style};
use anyhow::{Context, ensure};
use bosun_adapters::runner::builtin::Builtins;
use bosun_client::{ClientError, OpenCall};
use bosun_core::{Actor, Namespace, result_rendering::ResultRenderer};
use bosun_engine::{
    Results, SystemClock,
    runner::{InsideCall, RunContext, run_alone},
};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use client::Run;
use server::{DemoDirectory, Server, size_of};
use timeline::{Emphasis, Side, Timeline};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const CODE: Style = AnsiColor::Cyan.on_default();
const GOOD: Style = AnsiColor::Green.on_default().bold();

/// The example agents, so that the demonstration runs from any directory.
const EXAMPLES: &[(&str, &str)] = &[
    ("math-assistant.yaml", include_str!("../../../../../examples/agents/math-assistant.yaml")),
    ("model.script.yaml", include_str!("../../../../../examples/agents/model.script.yaml")),
    ("model.yaml", include_str!("../../../../../examples/agents/model.yaml")),
    ("research-assistant.yaml", include_str!("../../../../../examples/agents/research-assistant.yaml")),
];

/// The RFC's Example 1, verbatim.
const QUESTION: &str = "What is 25% of 8,432?";
const RESULT: &str = "2108";
const ANSWER: &str = "25% of 8,432 is 2,108";
const NEWS_QUESTION: &str = "What is the news about Rust?";

/// See a query pause for a tool, survive its server, and finish.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Write the example agents into this directory and stop: something for `bosun serve` to serve
    #[arg(long, value_name = "DIR")]
    examples: Option<PathBuf>,
}

impl Demo {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(directory) = self.examples {
            write_examples(&directory)?;
            let directory = directory.display();
            writeln!(stdout(), "wrote the example agents; serve them with\n\n  bosun serve --manifests {directory}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
        // The server is killed when its handle is dropped, so every way of leaving cleans up.
        tokio::select! {
            ended = run_demo() => ended.map(|()| ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
            _ = terminate.recv() => Ok(ExitCode::from(143)),
        }
    }
}

fn write_examples(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for (name, content) in EXAMPLES {
        let path = directory.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

async fn run_demo() -> anyhow::Result<()> {
    let place = DemoDirectory::new()?;
    write_examples(&place.manifests())?;
    writeln!(
        stdout(),
        "\n  {BOLD}Bosun{BOLD:#}  a tool runtime for AI agents: every call runs where it belongs
  {DIM}A server in a process of its own, a temporary store, a scripted model. No key, no network.{DIM:#}"
    )?;
    let timeline = Timeline::begin();
    timeline.scene("1  The agent needs a tool that only the client has", "the RFC's Example 1")?;
    let server = start(&timeline, &place, "an empty store").await?;
    outside(&timeline, &server).await?;
    timeline.pause().await;
    timeline.scene("2  One turn, two tools: one outside, one inside", "hybrid mode")?;
    hybrid(&timeline, &server).await?;
    timeline.pause().await;
    timeline.scene("3  The server dies while the query waits", "kill -9")?;
    crash(&timeline, &place, server).await?;
    Ok(print_next_steps(&timeline)?)
}

async fn start(timeline: &Timeline, place: &DemoDirectory, store: &str) -> anyhow::Result<Server> {
    let begun = timeline.elapsed();
    let server = place.start().await?;
    let millis = (timeline.elapsed() - begun) * 1000.0;
    let address = server.base.trim_start_matches("http://");
    timeline.step(
        Side::Server,
        "●",
        &format!("process {} on {address}, ready after {millis:.0} ms on {store}", server.pid),
    )?;
    Ok(server)
}

/// Part 1: the calculator belongs to the client.
async fn outside(timeline: &Timeline, server: &Server) -> anyhow::Result<()> {
    let mut run = ask_for_calculation(timeline, server, "demo-outside").await?;
    let call = run.call().await?;
    let result = calculate(timeline, &call).await?;
    deliver(timeline, &run, &call, &result).await?;
    expect(&run.answer().await?, ANSWER)
}

/// Part 2: `web_search` belongs to the client, `current_time` to the server, and the model calls both.
async fn hybrid(timeline: &Timeline, server: &Server) -> anyhow::Result<()> {
    timeline.step(Side::Client, "⇢", &format!("asks research-assistant “{NEWS_QUESTION}” and brings web_search"))?;
    let mut run = Run::create(
        timeline,
        &server.base,
        "demo-hybrid",
        &json!({
            "name": "demo-hybrid",
            "input": NEWS_QUESTION,
            "target": { "type": "agent", "name": "research-assistant" },
            "toolSource": "hybrid",
            "externalTools": [{
                "name": "web_search",
                "description": "Search the web",
                "parameters": {
                    "type": "object",
                    "properties": { "query": { "type": "string", "description": "Search query" } },
                    "required": ["query"],
                },
            }],
        }),
    )
    .await?;
    let call = run.call().await?;
    let time = run.inside_result().await?;
    let news = format!("Bosun {} is written in Rust {}", env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_RUST_VERSION"));
    timeline.step(Side::Client, "⚙", &format!("runs {} here: {news}", call.name))?;
    deliver(timeline, &run, &call, &news).await?;
    let time = time.as_str().context("the time is not a text")?;
    expect(&run.answer().await?, &format!("As of {time}: {news}"))
}

/// Part 3: the first part again, with a kill in the middle.
async fn crash(timeline: &Timeline, place: &DemoDirectory, server: Server) -> anyhow::Result<()> {
    let mut run = ask_for_calculation(timeline, &server, "demo-crash").await?;
    let call = run.call().await?;
    let pid = server.pid;
    server.kill().await?;
    timeline.with_emphasis(Side::Server, "✗", Emphasis::Bad, &format!("kill -9 {pid}: the process is gone"))?;
    ensure!(run.inside_result().await.is_err(), "the stream of a killed server continued");
    ensure!(run.state().await.is_err(), "a killed server answered");
    timeline.step(Side::Client, "!", "the stream broke, and the server no longer answers")?;
    let kilobytes = size_of(&place.data())? / 1024;
    timeline.step(
        Side::Disk,
        "▪",
        &format!("{kilobytes} KB in {}: all that is left of the query", place.data().display()),
    )?;
    timeline.pause().await;
    let server = start(timeline, place, "the same store").await?;
    let mut run = run.reattach(&server.base).await?;
    let state = run.state().await?;
    ensure!(state == "waiting", "after the restart the query is `{state}`, not `waiting`");
    timeline.step(Side::Client, "⇠", &format!("asks for the state of the query: {state}, with its call still open"))?;
    let result = calculate(timeline, &call).await?;
    deliver(timeline, &run, &call, &result).await?;
    expect(&run.answer().await?, ANSWER)?;
    let again = run.deliver(&call, &result).await?;
    ensure!(again.replayed, "a result that was sent twice was accepted twice");
    timeline.step(Side::Client, "⇢", "sends the same result once more: 200, replayed; it is recorded once")?;
    let other = run.deliver(&call, "42").await.err();
    ensure!(other.as_ref().and_then(ClientError::code) == Some("already_resolved"), "another result was not refused");
    timeline.step(Side::Client, "⇢", "sends another result: 409 already_resolved; nothing is overwritten")?;
    server.kill().await
}

async fn ask_for_calculation<'a>(
    timeline: &'a Timeline,
    server: &Server,
    name: &'static str,
) -> anyhow::Result<Run<'a>> {
    timeline.step(Side::Client, "⇢", &format!("asks math-assistant “{QUESTION}” and brings a calculator"))?;
    Run::create(
        timeline,
        &server.base,
        name,
        &json!({
            "name": name,
            "input": QUESTION,
            "target": { "type": "agent", "name": "math-assistant" },
            "toolSource": "n8n",
            "externalTools": [calculator()],
        }),
    )
    .await
}

/// The RFC's calculator.
fn calculator() -> Value {
    json!({
        "name": "calculator",
        "description": "Perform mathematical calculations",
        "parameters": {
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "Mathematical expression to evaluate (e.g., \"2 + 2\")",
                },
            },
            "required": ["expression"],
        },
    })
}

/// The client's own calculator: in this process, not in the server's.
async fn calculate(timeline: &Timeline, call: &OpenCall) -> anyhow::Result<String> {
    let builtins = Builtins::new(Arc::new(SystemClock));
    let tool = builtins.tool(&call.name).with_context(|| format!("the client has no tool `{}`", call.name))?;
    let call = InsideCall {
        namespace: Namespace::default(),
        id: call.id.parse().with_context(|| format!("`{}` is not the id of a call", call.id))?,
        tool: Arc::new(tool),
        arguments: Arc::new(call.arguments.clone()),
        attempt: 1,
        results: Results::default(),
    };
    let context = RunContext::alone(Actor::local(), Duration::from_secs(5));
    let outcome = run_alone(&builtins, &call, &context, &SystemClock).await;
    let result = ResultRenderer::default().render(call.id, &outcome);
    ensure!(result == RESULT, "the calculation gave `{result}`, not `{RESULT}`");
    timeline.step(Side::Client, "⚙", &format!("runs {} here: {result}", call.tool.name))?;
    Ok(result)
}

async fn deliver(timeline: &Timeline, run: &Run<'_>, call: &OpenCall, result: &str) -> anyhow::Result<()> {
    timeline.step(Side::Client, "⇢", "POST …/tool-result")?;
    let delivered = run.deliver(call, result).await?;
    ensure!(!delivered.replayed, "a first result was treated as a replay");
    Ok(())
}

fn expect(answer: &str, expected: &str) -> anyhow::Result<()> {
    ensure!(answer == expected, "the agent answered “{answer}”, not “{expected}”");
    Ok(())
}

/// A summary, and what to do next.
fn print_next_steps(timeline: &Timeline) -> io::Result<()> {
    let program = std::env::args().next().unwrap_or_else(|| "bosun".into());
    writeln!(
        stdout(),
        "
  {GOOD}✓{GOOD:#} All of it happened in {:.1} s, and every answer was checked. Nothing is left behind.

  {BOLD}By hand{BOLD:#}
  {DIM}A server with the same agents:{DIM:#}

    {CODE}{program} demo --examples ./agents{CODE:#}
    {CODE}{program} serve --manifests ./agents{CODE:#}

  {DIM}In another terminal, ask; the stream stays open while the query waits for you:{DIM:#}

    {CODE}curl -N 'localhost:8080/v1/namespaces/default/queries?stream=true' -d '{{
      \"name\": \"by-hand\", \"input\": \"{QUESTION}\",
      \"target\": {{\"type\": \"agent\", \"name\": \"math-assistant\"}},
      \"externalTools\": [{{\"name\": \"calculator\", \"description\": \"Calculates\",
        \"parameters\": {{\"type\": \"object\", \"properties\": {{\"expression\": {{\"type\": \"string\"}}}}}}}}]}}'{CODE:#}

  {DIM}In a third, be the calculator (kill the server before, if you like, and start it again):{DIM:#}

    {CODE}curl 'localhost:8080/v1/namespaces/default/queries/by-hand/tool-result' \\
      -d '{{\"toolName\": \"calculator\", \"toolResult\": \"{RESULT}\"}}'{CODE:#}
",
        timeline.elapsed(),
    )
}
