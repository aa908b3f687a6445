//! Many queries that wait at the same time: what they cost, and whether they slow others down.
//!
//! Each is created through the API, with a journal of its own of about 3 KB. Then: how much the server has grown; the
//! time from a result to the agent's answer, compared with an otherwise idle server; and after a `kill -9`, the time
//! from the start of the next process to the answer to a result for one of the old ones, and until an overdue one has
//! expired.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rusqlite::{Connection as Database, OpenFlags};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    cycle::median,
    http::Connection,
    load,
    options::Options,
    process::{Running, World},
    report::{Figure, Goal, Report, micros},
};

const GOAL_BYTES: f64 = 200.0;
const GOAL_RATIO: f64 = 1.5;
const GOAL_RESTART_MILLIS: f64 = 1_000.0;
/// The number of queries at which the fixed costs of a server are negligible.
const MANY: usize = 1_000_000;
const CREATORS: usize = 64;
/// How many of the waiting calls are kept, spread evenly over all.
const REMEMBERED: usize = 8_192;
/// Per round of turns with the empty store.
const DELIVERIES: usize = 64;
const RESTARTS: usize = 5;
const DAY: &[&str] = &["--external-timeout", "24h"];
/// The timeout of the overdue call: longer than a busy machine needs to get to the kill.
const OVERDUE_AFTER: Duration = Duration::from_secs(3);
/// How late the next process may expire it.
const LONGEST_OVERDUE: Duration = Duration::from_secs(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_secs(2);

/// The path and the body of a result.
type Call = (String, String);

pub(crate) async fn measure(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let (data, n) = (world.data("waiting"), options.waiting);
    let server = world.serve_with(&data, DAY).await?;
    // Fixed costs of a server: threads, connections, statements.
    create(&server, 0, CREATORS * 16, CREATORS * 16).await?;
    tokio::time::sleep(REST).await;
    let before = server.resident()?;
    let begun = Instant::now();
    let mut calls = create(&server, 1, n / 2, n).await?;
    tokio::time::sleep(REST).await;
    let halfway = server.resident()?;
    calls.extend(create(&server, 2, n - n / 2, n).await?);
    let took = begun.elapsed() - REST;
    tokio::time::sleep(REST).await;
    let after = server.resident()?;
    let each = |from: u64, to: u64, queries: usize| (to as f64 - from as f64) * 1024.0 / queries as f64;
    let (all, second_half) = (each(before, after, n), each(halfway, after, n - n / 2));
    let figures = Figure {
        unit: "bytes",
        goal: Goal::AtMost(GOAL_BYTES),
        n,
        details: json!({
            "before_kib": before, "halfway_kib": halfway, "after_kib": after, "create_seconds": took.as_secs_f64(),
            "bytes_each_all": all, "bytes_each_second_half": second_half,
        }),
        ..Figure::default()
    };
    // A cache of a fixed size is half a kilobyte for each of 20,000 queries, and nothing for each of a million.
    if n >= MANY {
        let what = format!("memory of a waiting query, {n} wait");
        let note = format!("made in {:.0} s; all caches included", took.as_secs_f64());
        report.figure(&Figure { what: &what, value: all, note, ..figures });
    } else {
        let what = format!("memory of a waiting query, {n} wait, the second half of them");
        let note = format!("made in {:.0} s; all, with the caches, {all:.0} bytes", took.as_secs_f64());
        report.figure(&Figure { what: &what, value: second_half, note, ..figures });
    }
    shuffle(&mut calls);
    let mut calls = calls.into_iter();
    delivering(world, &server, &mut calls, options, report).await?;
    restarting(world, server, &mut calls, options, report).await?;
    let (bytes, queries) = journals(&data)?;
    report.line("waiting_store", &json!({"queries": queries, "journal_bytes_each": bytes / queries as f64}));
    Ok(())
}

/// Creates `count` queries concurrently and returns some of their calls, as if there were `of` in all.
async fn create(server: &Running, series: usize, count: usize, of: usize) -> anyhow::Result<Vec<Call>> {
    let every = (of / REMEMBERED).max(1);
    let mut creators = JoinSet::new();
    for creator in 0..CREATORS {
        let authority = server.authority.clone();
        creators.spawn(async move {
            let mut connection = Connection::open(&authority).await?;
            let mut calls = Vec::new();
            for number in (creator..count).step_by(CREATORS) {
                let paused = connection.post(CREATE, &query(series, number)).await?;
                let call = load::answer_to(paused)?;
                if number % every == 0 {
                    calls.push(call);
                }
            }
            anyhow::Ok(calls)
        });
    }
    let mut calls = Vec::new();
    while let Some(created) = creators.join_next().await {
        calls.extend(created??);
    }
    Ok(calls)
}

const CREATE: &str = "/v1/namespaces/default/queries?wait=20s";

/// The query of the other parts with two kilobytes of unique text.
fn query(series: usize, number: usize) -> String {
    const WORDS: [&str; 16] = [
        "ledger", "harbour", "figure", "invoice", "quarter", "anchor", "margin", "freight", "discount", "vessel",
        "receipt", "tonnage", "balance", "manifest", "cargo", "rate",
    ];
    let mut text = String::with_capacity(2_200);
    let mut state = (series as u64) << 40 | number as u64;
    while text.len() < 2_100 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 60) as usize]);
        text.push(' ');
    }
    let question = format!("What is 25% of 8,432? Case {series}-{number}. {text}");
    load::QUERY.replace("What is 25% of 8,432?", &question)
}

/// From a result to the answer, in turns with a server that has an empty store.
async fn delivering(
    world: &World,
    server: &Running,
    calls: &mut impl Iterator<Item = Call>,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let empty = world.serve_with(&world.data("empty"), DAY).await?;
    let (mut full, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let fresh = create(&empty, 10 + round, DELIVERIES, DELIVERIES).await?;
        let (mut here, mut there) =
            (Connection::open(&server.authority).await?, Connection::open(&empty.authority).await?);
        let (mut crowded, mut alone) = (Vec::new(), Vec::new());
        for fresh in &fresh {
            let old = calls.next().context("there are not enough waiting calls for this many rounds")?;
            alone.push(deliver(&mut there, fresh).await?);
            crowded.push(deliver(&mut here, &old).await?);
        }
        let (crowded, alone) = (median(&mut crowded), median(&mut alone));
        ratios.push(crowded / alone);
        full.push(crowded);
        bare.push(alone);
    }
    empty.stop().await?;
    report.figure(&Figure {
        what: &format!("result to answer, {} wait, p50", options.waiting),
        value: median(&mut full),
        unit: "µs",
        floor: Some(median(&mut bare)),
        ratio: Some(median(&mut ratios)),
        goal: Goal::RatioAtMost(GOAL_RATIO),
        n: options.rounds * DELIVERIES,
        note: "floor: an empty store".into(),
        details: json!({"ratios": ratios}),
    });
    Ok(())
}

/// Posts one result and waits for the agent's answer, in microseconds.
async fn deliver(connection: &mut Connection, (path, result): &Call) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let finished = connection.post(path, result).await?;
    let took = micros(begun.elapsed());
    ensure!(finished.contains("25% of 8,432 is 2108"), "unexpected end of the query: {finished}");
    Ok(took)
}

/// Kills the server and starts the next, several times.
async fn restarting(
    world: &World,
    mut server: Running,
    calls: &mut impl Iterator<Item = Call>,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let data = world.data("waiting");
    let (mut restarts, mut overdue) = (Vec::new(), Vec::new());
    for round in 0..RESTARTS {
        // The log of a busy server is long; the next process has to read it.
        create(&server, 100 + round, CREATORS * 16, CREATORS * 16).await?;
        let late = create_overdue(&server, round).await?;
        let created = Instant::now();
        server.kill().await?;
        tokio::time::sleep((OVERDUE_AFTER + Duration::from_millis(100)).saturating_sub(created.elapsed())).await;
        let begun = Instant::now();
        server = world.serve_with(&data, DAY).await?;
        let mut connection = Connection::open(&server.authority).await?;
        let call = calls.next().context("there are not enough waiting calls for this many restarts")?;
        deliver(&mut connection, &call).await?;
        restarts.push(micros(begun.elapsed()) / 1e3);
        given_up(&mut connection, &late).await?;
        overdue.push(micros(begun.elapsed()) / 1e3);
    }
    server.stop().await?;
    let worst = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    report.figure(&Figure {
        what: &format!("kill -9 to the answer of an old query, {} wait, worst", options.waiting),
        value: worst(&restarts),
        unit: "ms",
        goal: Goal::AtMost(GOAL_RESTART_MILLIS),
        n: RESTARTS,
        note: format!("median {:.0} ms; from the start of the next process", median(&mut restarts.clone())),
        details: json!({"restart_ms": restarts}),
        ..Figure::default()
    });
    report.figure(&Figure {
        what: "kill -9 to the end of an overdue query, worst",
        value: worst(&overdue),
        unit: "ms",
        n: RESTARTS,
        details: json!({"overdue_ms": overdue}),
        ..Figure::default()
    });
    Ok(())
}

/// Polls until the overdue call has expired. A query that waits for its client is answered at once, so the server
/// cannot be asked to wait for that.
async fn given_up(connection: &mut Connection, query: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let seen = connection.get(query).await?;
        if seen.contains("External tool execution timeout") {
            return Ok(());
        }
        ensure!(begun.elapsed() < LONGEST_OVERDUE, "the overdue call did not expire: {seen}");
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// A query whose call is overdue soon. Returns its path.
async fn create_overdue(server: &Running, number: usize) -> anyhow::Result<String> {
    let seconds = OVERDUE_AFTER.as_secs();
    let body = query(1_000, number).replacen('{', &format!(r#"{{"externalTimeout":"{seconds}s","#), 1);
    let mut connection = Connection::open(&server.authority).await?;
    let (path, _) = load::answer_to(connection.post(CREATE, &body).await?)?;
    Ok(path.split("/tool-result").next().unwrap_or_default().to_owned())
}

/// The size of the journals, and their number.
fn journals(data: &std::path::Path) -> anyhow::Result<(f64, i64)> {
    let database = Database::open_with_flags(data.join("bosun.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(database.query_row("SELECT total(bytes), count(*) FROM queries", [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Deterministic, and unlike the order in which they were created.
fn shuffle(calls: &mut [Call]) {
    let mut state: u64 = 20_261_115;
    for index in (1..calls.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        calls.swap(index, (state >> 33) as usize % (index + 1));
    }
}
