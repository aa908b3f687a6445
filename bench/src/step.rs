//! One step of an agent that calls its own tools: the model requests a call, which is validated, run and recorded.
//!
//! In this process, on the store in memory, with the scripted model and the builtin calculator: what remains is the
//! engine. A step is a twentieth of the difference between a query of 21 steps and one of one. Each round has a store
//! of its own, in memory that earlier rounds have freed: a store that keeps everything would make every round slower by
//! the pages that the kernel has to clear for it.

use std::{fmt::Write as _, fs, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use bosun_adapters::{manifests, runner::builtin::Builtins, secret::Secrets};
use bosun_core::{Actor, Namespace, QueryLimits, Status, tool::toolset::ToolSources};
use bosun_engine::{Engine, EngineSettings, Submission, SystemClock, blob::MemoryBlobs, memory::MemoryStore};
use serde_json::json;

use crate::{
    clock::processor_time,
    cycle::median,
    options::Options,
    report::{Figure, Goal, Report},
};

const GOAL_MICROS: f64 = 20.0;
pub(crate) const STEPS: usize = 21;
/// Queries of each kind in a round.
const QUERIES: usize = 100;

pub(crate) async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut steps = Vec::new();
    // The first round is a warm-up.
    for _ in 0..=options.rounds {
        let engine = engine().await?;
        let (short, long) = (spend(&engine, "short").await?, spend(&engine, "long").await?);
        engine.shut_down(Duration::from_secs(1)).await?;
        steps.push((long - short) / (STEPS - 1) as f64);
    }
    steps.remove(0);
    report.figure(&Figure {
        what: "CPU of one builtin call step, memory store",
        value: median(&mut steps),
        unit: "µs",
        goal: Goal::AtMost(GOAL_MICROS),
        n: options.rounds * QUERIES * (STEPS - 1),
        note: format!("{:.1} to {:.1} µs", steps[0], steps[steps.len() - 1]),
        details: json!({"rounds": steps}),
        ..Figure::default()
    });
    Ok(())
}

/// CPU time of one query in microseconds, everything included.
async fn spend(engine: &Engine, input: &str) -> anyhow::Result<f64> {
    let before = processor_time();
    for _ in 0..QUERIES {
        run_query(engine, input).await?;
    }
    Ok((processor_time() - before).as_secs_f64() * 1e6 / QUERIES as f64)
}

/// Runs one query of the agent to its end.
pub(crate) async fn run_query(engine: &Engine, input: &str) -> anyhow::Result<()> {
    let snapshot = engine.submit(submission(input), Some(Duration::from_secs(20))).await?.snapshot;
    let (status, end) = (snapshot.head.status(), &snapshot.transcript.end);
    ensure!(status == Status::Completed, "unexpected end of the query: {end:?}");
    Ok(())
}

fn submission(input: &str) -> Submission {
    let asked = Submission::to_agent(Actor::local(), Namespace::default(), "math-assistant", input);
    Submission { tool_sources: ToolSources::Catalog, ..asked }
}

async fn engine() -> anyhow::Result<Engine> {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("agent.yaml"), MANIFESTS)?;
    let mut script = String::from("scenes:\n");
    for (name, steps) in [("short", 1), ("long", STEPS)] {
        write!(script, "  - when: {name}\n    turns:\n")?;
        // Not the same call twice: that would be detected as a loop.
        for step in 0..steps {
            writeln!(script, "      - call: [{{tool: calculator, arguments: {{expression: {step} + 1}}}}]")?;
        }
        script.push_str("      - say: 'the end'\n");
    }
    fs::write(directory.path().join("script.yaml"), script)?;
    let clock = Arc::new(SystemClock);
    let builtins = Builtins::new(clock.clone());
    let manifests = manifests::load(&[directory.path().to_owned()], &builtins)
        .map_err(|faults| anyhow::anyhow!("{faults}"))
        .context("manifests")?;
    let registry = manifests.build(&Arc::new(Secrets::new(None, [])), Arc::new(builtins));
    let limits = QueryLimits { max_tool_calls: 64, ..QueryLimits::default() };
    let settings = EngineSettings { limits, ..EngineSettings::default() };
    Ok(Engine::start(Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::default()), registry, clock, settings).await?)
}

const MANIFESTS: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: scripted}
spec: {provider: scripted, config: {scripted: {file: script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: math-assistant}
spec:
  prompt: You are a careful mathematician.
  modelRef: {name: scripted}
  tools: [{type: builtin, name: calculator}]
";
