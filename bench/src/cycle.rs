//! The cycle with one client, compared with its floor; and with many clients.

use std::{path::Path, time::Duration};

use anyhow::Context;
use serde_json::{Value, json};

use crate::{
    load::{self, Subject, Times},
    options::Options,
    process::{Machine, Running, World, own_cpu},
    report::{Figure, Goal, Report, micros},
    sample::Sample,
};

/// At most this many times the floor.
const GOAL_RATIO: f64 = 1.6;
const GOAL_PER_SECOND: f64 = 5_000.0;
const LEAST_PER_SECOND: f64 = 3_000.0;
const GOAL_COMMITS: f64 = 0.15;
const GOAL_CPU_MICROS: f64 = 350.0;
/// How long server and floor run in each turn.
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
    let counted = server.stop().await?.context("the server did not log its number of commits")?;
    let ratio = median(&mut ratios);
    report.figure(&Figure {
        what: "cycle, one client, p50",
        value: median(&mut each(&servers, 0.5)),
        unit: "µs",
        floor: Some(median(&mut each(&floors, 0.5))),
        ratio: Some(ratio),
        goal: Goal::RatioAtMost(GOAL_RATIO),
        n: cycles,
        note: format!("{:.2} to {:.2}", ratios[0], ratios[ratios.len() - 1]),
        details: json!({
            "rounds": options.rounds, "ratios": ratios,
            "server_p50_us": each(&servers, 0.5), "server_p99_us": each(&servers, 0.99),
            "floor_p50_us": each(&floors, 0.5), "floor_p99_us": each(&floors, 0.99),
            "commits_per_cycle": counted.all as f64 / cycles as f64,
            "entry_bytes": sample.entry_bytes, "head_bytes": sample.head_bytes,
        }),
    });
    report.figure(&Figure {
        what: "awaited commits a cycle, one client",
        value: counted.awaited as f64 / cycles as f64,
        goal: Goal::AtMost(2.0),
        n: cycles,
        ..Figure::default()
    });
    Ok(())
}

/// The results of many concurrent clients.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) cycles: usize,
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
    /// Of one cycle.
    pub(crate) server_cpu: Duration,
    pub(crate) client_cpu: Duration,
    pub(crate) commits: f64,
    /// KiB.
    pub(crate) peak_memory: u64,
    /// Steal time: per cent of the machine's CPU time that its host gave to other guests meanwhile.
    pub(crate) stolen: f64,
}

/// Runs many clients against a server, and stops it.
pub(crate) async fn crowd(server: Running, concurrency: usize, time: Duration) -> anyhow::Result<Crowd> {
    let (server, warm_up) = warm(server, Subject::Server).await?;
    let (machine, server_cpu, client_cpu) = (Machine::now()?, server.cpu()?, own_cpu()?);
    let times = load::run(&server.authority, Subject::Server, concurrency, time).await?;
    let cycles = times.count();
    let each = |spent: Duration| spent / u32::try_from(cycles).unwrap_or(u32::MAX);
    let (server_cpu, client_cpu) = (each(server.cpu()? - server_cpu), each(own_cpu()? - client_cpu));
    let stolen = Machine::now()?.stolen_since(machine);
    let peak_memory = server.peak_memory()?;
    let counted = server.stop().await?.context("the server did not log its number of commits")?;
    Ok(Crowd {
        cycles,
        per_second: times.per_second(),
        p50: times.quantile(0.5),
        p99: times.quantile(0.99),
        longest: times.quantile(1.0),
        server_cpu,
        client_cpu,
        commits: counted.all as f64 / (cycles + warm_up) as f64,
        peak_memory,
        stolen,
    })
}

/// Many concurrent clients, on a store of its own.
pub(crate) async fn crowded(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let data = world.data("crowded");
    let crowd = crowd(world.serve(&data).await?, options.concurrency, options.time).await?;
    let details = json!({
        "concurrency": options.concurrency, "client_threads": 1,
        "peak_memory_kib": crowd.peak_memory, "store_bytes": size(&data), "stolen_percent": crowd.stolen,
    });
    tell(&crowd, options.concurrency, details, report);
    Ok(())
}

fn tell(crowd: &Crowd, clients: usize, details: Value, report: &mut Report) {
    let n = crowd.cycles;
    report.figure(&Figure {
        what: &format!("cycles a second, {clients} clients"),
        value: crowd.per_second,
        goal: Goal::AtLeastOr(GOAL_PER_SECOND, LEAST_PER_SECOND),
        n,
        note: format!("stolen {:.1} %", crowd.stolen),
        details,
        ..Figure::default()
    });
    report.figure(&Figure {
        what: &format!("cycle, {clients} clients, p99"),
        value: micros(crowd.p99) / 1e3,
        unit: "ms",
        n,
        note: format!("p50 {:.1} ms", micros(crowd.p50) / 1e3),
        details: json!({"p50_us": micros(crowd.p50), "max_us": micros(crowd.longest)}),
        ..Figure::default()
    });
    report.figure(&Figure {
        what: "server CPU a cycle",
        value: micros(crowd.server_cpu),
        unit: "µs",
        goal: Goal::AtMost(GOAL_CPU_MICROS),
        n,
        note: format!("client {:.0} µs", micros(crowd.client_cpu)),
        ..Figure::default()
    });
    report.figure(&Figure {
        what: "commits a cycle",
        value: crowd.commits,
        goal: Goal::AtMost(GOAL_COMMITS),
        n,
        ..Figure::default()
    });
}

/// Runs a process until its caches and statements are warm. Returns how many cycles that took.
async fn warm(running: Running, subject: Subject) -> anyhow::Result<(Running, usize)> {
    let times = load::run(&running.authority, subject, 1, Duration::from_millis(300)).await?;
    Ok((running, times.count()))
}

fn each(rounds: &[Times], share: f64) -> Vec<f64> {
    rounds.iter().map(|times| micros(times.quantile(share))).collect()
}

/// Sorts, and returns the median.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn size(data: &Path) -> u64 {
    let files = std::fs::read_dir(data).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
