//! The cycle with a model over HTTP that answers at once: what a real model API costs the server in addition to the
//! model's own time.

use std::path::Path;

use anyhow::Context;
use bosun_standin::StandInAnswers;
use serde_json::json;

use crate::{
    cycle::{self, Crowd},
    listen,
    options::Options,
    process::World,
    report::{Figure, Goal, Report, micros},
};

const GOAL_PER_SECOND: f64 = 1_500.0;
const GOAL_CPU_MICROS: f64 = 600.0;

/// The process that answers the model: OpenAI's chat completions, streamed, without a pause.
pub(crate) async fn serve(script: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(script)?;
    let answers = StandInAnswers::parse(script, &text).map_err(|faults| anyhow::anyhow!("{faults}"))?;
    listen::until_stdin_ends(bosun_standin::router(answers)).await
}

pub(crate) async fn measure(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let model = world.model().await.context("the model")?;
    let server = world.serve_remote(&world.data("remote"), &model.authority).await?;
    let model_cpu = model.cpu()?;
    let crowd = cycle::crowd(server, options.concurrency, options.time).await?;
    let Crowd { cycles, per_second, server_cpu, client_cpu, commits, .. } = crowd;
    let model_cpu = (model.cpu()? - model_cpu) / u32::try_from(cycles).unwrap_or(u32::MAX);
    model.stop().await?;
    let clients = options.concurrency;
    report.figure(&Figure {
        what: &format!("cycles a second, model over HTTP, {clients} clients"),
        value: per_second,
        goal: Goal::AtLeast(GOAL_PER_SECOND),
        n: cycles,
        note: format!("p99 {:.1} ms", micros(crowd.p99) / 1e3),
        details: json!({"p50_us": micros(crowd.p50), "p99_us": micros(crowd.p99), "commits_per_cycle": commits}),
        ..Figure::default()
    });
    report.figure(&Figure {
        what: "server CPU a cycle, model over HTTP",
        value: micros(server_cpu),
        unit: "µs",
        goal: Goal::AtMost(GOAL_CPU_MICROS),
        n: cycles,
        note: format!("model {:.0} µs, client {:.0} µs", micros(model_cpu), micros(client_cpu)),
        ..Figure::default()
    });
    Ok(())
}
