//! Cold starts: from the start of the process to the first answer, compared with only opening the same store.

use std::{path::Path, process::Stdio, time::Instant};

use anyhow::{Context, ensure};
use rusqlite::Connection as Database;
use serde_json::json;

use crate::{
    cycle::median,
    http::Connection,
    load::{self, Subject},
    options::Options,
    process::{World, own},
    report::{Figure, Goal, Report},
};

/// How much longer a server may take than a process that only opens its store.
const GOAL_ABOVE: f64 = 15.0;

/// The floor: a process that opens the store as its writer does, takes it over, and ends.
pub(crate) fn bare_open(data: &Path) -> anyhow::Result<()> {
    let database = Database::open(data.join("bosun.db"))?;
    database.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    ensure!(version > 0, "the store has no schema");
    database.execute("UPDATE writer SET epoch = epoch + 1", [])?;
    println!("open");
    Ok(())
}

/// Starts both in turns, on the store that the concurrent clients have filled.
pub(crate) async fn starts(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let data = world.data("crowded");
    if !data.exists() {
        let server = world.serve(&data).await?;
        load::run(&server.authority, Subject::Server, options.concurrency, options.time).await?;
        server.stop().await?;
    }
    let queries: i64 =
        Database::open(data.join("bosun.db"))?.query_row("SELECT count(*) FROM queries", [], |row| row.get(0))?;
    let (mut servers, mut floors, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.starts {
        let begun = Instant::now();
        let output = own("open")?.arg(&data).stdin(Stdio::null()).output().await?;
        ensure!(output.status.success(), "the floor: {}", String::from_utf8_lossy(&output.stderr));
        floors.push(millis(begun));
        servers.push(start(world, &data).await?);
        fresh.push(start(world, &world.data(&format!("fresh-{round}"))).await?);
    }
    let (server, floor, first) = (median(&mut servers), median(&mut floors), median(&mut fresh));
    report.figure(&Figure {
        what: &format!("cold start to the first answer, {queries} queries"),
        value: server,
        unit: "ms",
        floor: Some(floor),
        goal: Goal::AboveFloorAtMost(GOAL_ABOVE),
        n: options.starts,
        note: format!("on a new store {first:.1} ms"),
        details: json!({"server_ms": servers, "bare_open_ms": floors, "fresh_store_ms": fresh}),
        ..Figure::default()
    });
    Ok(())
}

async fn start(world: &World, data: &Path) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let server = world.serve(data).await?;
    Connection::open(&server.authority).await?.get("/health").await.context("health")?;
    let took = millis(begun);
    server.stop().await?;
    Ok(took)
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
