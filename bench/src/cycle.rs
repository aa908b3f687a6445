//! The cycle alone, beside its floor; and many cycles at once.

use std::{path::Path, time::Duration};

use anyhow::Context;
use serde_json::json;

use crate::{
    Options,
    load::{self, Subject, Times},
    process::{Running, World, own_cpu},
    report::{Report, Verdict, micros},
    sample::Sample,
};

/// At most this many times the floor.
const GOAL_RATIO: f64 = 1.6;
const GOAL_PER_SECOND: f64 = 5_000.0;
const LEAST_PER_SECOND: f64 = 3_000.0;
const GOAL_COMMITS: f64 = 0.15;
const GOAL_CPU: Duration = Duration::from_micros(350);
/// How long server and floor take turns for.
const TURN: Duration = Duration::from_millis(250);

/// One client: server and floor in short turns, so that both see the same machine.
pub(crate) async fn alone(
    world: &World,
    sample: &Sample,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let floor_data = world.data("floor");
    std::fs::create_dir(&floor_data)?;
    std::fs::copy(sample.store.join("bosun.db"), floor_data.join("bosun.db"))?;
    let (floor, _) = warm(world.floor(&floor_data, &sample.file).await?, Subject::Floor).await?;
    let (server, mut cycles) = warm(world.serve(&world.data("alone")).await?, Subject::Server).await?;
    let (mut servers, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let bare = load::run(&floor.authority, Subject::Floor, 1, TURN).await?;
        let times = load::run(&server.authority, Subject::Server, 1, TURN).await?;
        cycles += times.count();
        ratios.push(times.quantile(0.5).as_secs_f64() / bare.quantile(0.5).as_secs_f64());
        servers.push(times);
        floors.push(bare);
    }
    floor.stop().await?;
    let counted = server.stop().await?.context("the server does not say how often it committed")?;
    let ratio = median(&mut ratios);
    let awaited = counted.awaited as f64 / cycles as f64;
    report.line(
        "cycle_alone",
        &json!({
            "rounds": options.rounds, "cycles": cycles,
            "server_p50_us": each(&servers, 0.5), "server_p99_us": each(&servers, 0.99),
            "floor_p50_us": each(&floors, 0.5), "floor_p99_us": each(&floors, 0.99),
            "ratio": ratio, "ratios": ratios, "awaited_commits_per_cycle": awaited,
            "commits_per_cycle": counted.all as f64 / cycles as f64,
            "entry_bytes": sample.entry_bytes, "head_bytes": sample.head_bytes,
        }),
    );
    report.row(
        "cycle, one client, p50",
        format!("{:.0} µs", median(&mut each(&servers, 0.5))),
        format!("{:.0} µs", median(&mut each(&floors, 0.5))),
        format!("{ratio:.2}× ({:.2} to {:.2})", ratios[0], ratios[ratios.len() - 1]),
        format!("≤ {GOAL_RATIO}×"),
        Verdict::of(ratio <= GOAL_RATIO),
    );
    report.row(
        "awaited commits a cycle, one client",
        format!("{awaited:.3}"),
        "2".into(),
        String::new(),
        "≤ 2".into(),
        Verdict::of(counted.awaited <= 2 * cycles as u64),
    );
    Ok(())
}

/// Many clients at once, on a store of its own.
pub(crate) async fn crowded(
    world: &World,
    sample: &Sample,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (server, warm_up) = warm(world.serve(&world.data("crowded")).await?, Subject::Server).await?;
    let (server_cpu, client_cpu) = (server.cpu()?, own_cpu()?);
    let times = load::run(&server.authority, Subject::Server, options.concurrency, options.time).await?;
    let cycles = times.count();
    let each = |spent: Duration| spent / u32::try_from(cycles).unwrap_or(u32::MAX);
    let (server_cpu, client_cpu) = (each(server.cpu()? - server_cpu), each(own_cpu()? - client_cpu));
    let memory = server.peak_memory()?;
    let counted = server.stop().await?.context("the server does not say how often it committed")?;
    let commits = counted.all as f64 / (cycles + warm_up) as f64;
    let (rate, p99) = (times.per_second(), times.quantile(0.99));
    report.line(
        "cycle_crowded",
        &json!({
            "concurrency": options.concurrency, "cycles": cycles, "per_second": rate.round(),
            "p50_us": micros(times.quantile(0.5)), "p99_us": micros(p99), "max_us": micros(times.quantile(1.0)),
            "server_cpu_us": micros(server_cpu), "client_cpu_us": micros(client_cpu), "commits_per_cycle": commits,
            "peak_memory_kib": memory, "client_threads": 1, "pinned": false,
            "store_bytes": size(&world.data("crowded")), "entry_bytes": sample.entry_bytes,
        }),
    );
    let clients = options.concurrency;
    let goal = format!("≥ {GOAL_PER_SECOND:.0} (at least {LEAST_PER_SECOND:.0})");
    let verdict = if rate >= GOAL_PER_SECOND {
        Verdict::Reached
    } else if rate >= LEAST_PER_SECOND {
        Verdict::Partly
    } else {
        Verdict::Missed
    };
    report.row(
        &format!("cycles a second, {clients} clients"),
        format!("{rate:.0}"),
        String::new(),
        String::new(),
        goal,
        verdict,
    );
    report.row(
        &format!("cycle, {clients} clients, p99"),
        format!("{:.1} ms", p99.as_secs_f64() * 1e3),
        String::new(),
        format!("p50 {:.1} ms", times.quantile(0.5).as_secs_f64() * 1e3),
        String::new(),
        Verdict::None,
    );
    report.row(
        "server CPU a cycle",
        format!("{:.0} µs", micros(server_cpu)),
        String::new(),
        format!("client {:.0} µs", micros(client_cpu)),
        format!("≤ {:.0} µs", micros(GOAL_CPU)),
        Verdict::of(server_cpu <= GOAL_CPU),
    );
    report.row(
        "commits a cycle",
        format!("{commits:.3}"),
        String::new(),
        String::new(),
        format!("≤ {GOAL_COMMITS}"),
        Verdict::of(commits <= GOAL_COMMITS),
    );
    Ok(())
}

/// Runs a process until its caches and statements are there. Gives back how many cycles that took.
async fn warm(running: Running, subject: Subject) -> anyhow::Result<(Running, usize)> {
    let times = load::run(&running.authority, subject, 1, Duration::from_millis(300)).await?;
    Ok((running, times.count()))
}

fn each(rounds: &[Times], share: f64) -> Vec<f64> {
    rounds.iter().map(|times| micros(times.quantile(share))).collect()
}

/// Sorts, and takes the one in the middle.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn size(data: &Path) -> u64 {
    let files = std::fs::read_dir(data).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
