//! A step of an agent whose tool is behind MCP, or behind an HTTP API, compared with the same call made directly: by
//! rmcp, or by hyper.
//!
//! As in `step`, the engine runs in this process on the store in memory, and one step is a twentieth of the difference
//! between a query of 21 steps and one of one. Only the CPU time of this process counts: what is called is another one.
//! Engine and direct call take turns, so that the ratio is that of one machine in one state.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bosun_adapters::{
    address::Reachable,
    manifests::{self, Library},
    mcp::McpHost,
    runner::builtin::Builtins,
    secret::Secrets,
};
use bosun_core::{Namespace, QueryLimits};
use bosun_engine::{Engine, EngineSettings, SystemClock, blob::MemoryBlobs, memory::MemoryStore, resource::Assemble};
use bosun_mcp::Host;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rmcp::{ServiceExt as _, model::CallToolRequestParams, transport::StreamableHttpClientTransport};
use serde_json::json;

use crate::{
    clock::processor_time,
    cycle::median,
    options::Options,
    process::{Running, own},
    report::{Figure, Goal, Report, micros},
    step::{STEPS, run_query},
};

/// A step may add twice the direct call's own CPU time to it.
const GOAL_RATIO: f64 = 3.0;
/// Queries of each kind in a round.
const QUERIES: usize = 40;
const CALLS: usize = QUERIES * (STEPS - 1);

/// The CPU time and the median wall-clock time of one call, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    cpu: f64,
    wall: f64,
}

pub(crate) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let peer = Running::start(own("peer")?).await.context("the peer")?;
    let authority = peer.authority.as_str();
    let (mut steps, mut calls) = (Vec::new(), Vec::new());
    // The first round is a warm-up.
    for round in 0..=options.rounds {
        let (step, call) = (spend_step(authority, MCP).await?, call_mcp(authority).await?);
        if round > 0 {
            steps.push(step);
            calls.push(call);
        }
    }
    tell("one MCP call step over HTTP", "rmcp", &steps, &calls, report);
    let (mut steps, mut calls) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let (step, call) = (spend_step(authority, HTTP).await?, call_http(authority).await?);
        if round > 0 {
            steps.push(step);
            calls.push(call);
        }
    }
    tell("one HTTP tool step", "hyper", &steps, &calls, report);
    peer.stop().await?;
    Ok(())
}

fn tell(what: &str, directly: &str, steps: &[Cost], calls: &[Cost], report: &mut Report) {
    let of = |costs: &[Cost], part: fn(&Cost) -> f64| median(&mut costs.iter().map(part).collect::<Vec<_>>());
    let ratios = steps.iter().zip(calls).map(|(step, call)| step.cpu / call.cpu);
    let mut ratios: Vec<f64> = ratios.collect();
    let (step, call) = (of(steps, |cost| cost.wall), of(calls, |cost| cost.wall));
    report.figure(&Figure {
        what: &format!("CPU of {what}, memory store"),
        value: of(steps, |cost| cost.cpu),
        unit: "µs",
        floor: Some(of(calls, |cost| cost.cpu)),
        ratio: Some(median(&mut ratios)),
        goal: Goal::RatioAtMost(GOAL_RATIO),
        n: steps.len() * CALLS,
        note: format!(
            "floor: the call by {directly}; p50 {step:.0} µs in place of {call:.0}, {:.0} added",
            step - call
        ),
        details: json!({"ratios": ratios, "step_p50_us": step, "direct_p50_us": call, "added_p50_us": step - call}),
    });
}

/// What an agent calls, and the manifests that describe it.
#[derive(Clone, Copy)]
struct CalledTool {
    tool: &'static str,
    manifest: &'static str,
}

const MCP: CalledTool = CalledTool {
    tool: "peer-tool-0",
    manifest: "\
kind: MCPServer
metadata: {name: peer}
spec: {address: {value: 'http://AUTHORITY/mcp'}, trustHints: true}
",
};
const HTTP: CalledTool = CalledTool {
    tool: "lookup",
    manifest: "\
kind: Tool
metadata: {name: lookup}
spec:
  type: http
  description: Looks up a record
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  http: {url: 'http://AUTHORITY/api?text={text}'}
",
};

/// The cost of one step.
async fn spend_step(authority: &str, called: CalledTool) -> anyhow::Result<Cost> {
    let directory = tempfile::tempdir()?;
    write_manifests(directory.path(), authority, called)?;
    let clock = Arc::new(SystemClock);
    let builtins = Arc::new(Builtins::new(clock.clone()));
    let files = manifests::load(&[directory.path().to_owned()], &builtins);
    let files = files.map_err(|faults| anyhow::anyhow!("{faults}")).context("manifests")?;
    let secrets = Arc::new(Secrets::new(None, []));
    let library = Library::new(files, Arc::clone(&secrets), Reachable::default(), builtins);
    // No server here is a program, so that nothing has to be ended after this process.
    let host = Arc::new(Host::open(Arc::clone(library.pool()), secrets, None, clock.clone(), PathBuf::new())?);
    let library = library.with_mcp_host(Arc::clone(&host) as Arc<dyn McpHost>);
    let limits = QueryLimits { max_tool_calls: 64, ..QueryLimits::default() };
    let settings = EngineSettings { limits, ..EngineSettings::default() };
    let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::default()));
    let assembler = Arc::new(library) as Arc<dyn Assemble>;
    let engine = Engine::start(store, blobs, assembler, clock, settings).await?;
    while engine.registry().tool(&Namespace::default(), called.tool).is_none() {
        host.tools_changed().await;
        engine.refresh().await?;
    }
    run_query(&engine, "short").await?;
    let (short, long) = (spend(&engine, "short").await?, spend(&engine, "long").await?);
    engine.shut_down(Duration::from_secs(1)).await?;
    host.shutdown().await;
    let each = (STEPS - 1) as f64;
    Ok(Cost { cpu: (long.cpu - short.cpu) / each, wall: (long.wall - short.wall) / each })
}

/// The cost of one query.
async fn spend(engine: &Engine, input: &str) -> anyhow::Result<Cost> {
    let mut walls = Vec::with_capacity(QUERIES);
    let before = processor_time();
    for _ in 0..QUERIES {
        let begun = Instant::now();
        run_query(engine, input).await?;
        walls.push(micros(begun.elapsed()));
    }
    Ok(Cost { cpu: micros(processor_time() - before) / QUERIES as f64, wall: median(&mut walls) })
}

fn write_manifests(directory: &Path, authority: &str, called: CalledTool) -> anyhow::Result<()> {
    const HEAD: &str = "apiVersion: ark.mckinsey.com/v1alpha1";
    let CalledTool { tool, manifest } = called;
    let kind = if tool == MCP.tool { "mcp" } else { "http" };
    let text = format!(
        "{HEAD}\nkind: Model\nmetadata: {{name: scripted}}\nspec: {{provider: scripted, config: {{scripted: {{file: \
         script.yaml}}}}}}\n---\n{HEAD}\nkind: Agent\nmetadata: {{name: math-assistant}}\nspec:\n  prompt: You are careful.\n  \
         modelRef: {{name: scripted}}\n  tools: [{{type: {kind}, name: {tool}}}]\n---\n{HEAD}\n{}",
        manifest.replace("AUTHORITY", authority)
    );
    fs::write(directory.join("agent.yaml"), text)?;
    let mut script = String::from("scenes:\n");
    for (name, steps) in [("short", 1), ("long", STEPS)] {
        write!(script, "  - when: {name}\n    turns:\n")?;
        // Not the same call twice: that would be detected as a loop.
        for step in 0..steps {
            writeln!(script, "      - call: [{{tool: {tool}, arguments: {{text: step {step}}}}}]")?;
        }
        script.push_str("      - say: 'the end'\n");
    }
    fs::write(directory.join("script.yaml"), script)?;
    Ok(())
}

async fn call_mcp(authority: &str) -> anyhow::Result<Cost> {
    let transport = StreamableHttpClientTransport::from_uri(format!("http://{authority}/mcp"));
    let client = ().serve(transport).await.context("rmcp")?;
    let call = async |number: usize| {
        let arguments = json!({"text": format!("step {number}")});
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let result = client.call_tool(CallToolRequestParams::new("tool_0").with_arguments(arguments)).await?;
        ensure!(!result.content.is_empty(), "the call has no result");
        Ok(())
    };
    let cost = spend_calls(call).await?;
    client.cancel().await?;
    Ok(cost)
}

async fn call_http(authority: &str) -> anyhow::Result<Cost> {
    let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    spend_calls(async |number: usize| {
        let response = client.get(format!("http://{authority}/api?text=step%20{number}").parse()?).await?;
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(!body.is_empty(), "the call has no result");
        Ok(())
    })
    .await
}

async fn spend_calls(call: impl AsyncFn(usize) -> anyhow::Result<()>) -> anyhow::Result<Cost> {
    call(0).await?;
    let mut walls = Vec::with_capacity(CALLS);
    let before = processor_time();
    for number in 0..CALLS {
        let begun = Instant::now();
        call(number).await?;
        walls.push(micros(begun.elapsed()));
    }
    Ok(Cost { cpu: micros(processor_time() - before) / CALLS as f64, wall: median(&mut walls) })
}
