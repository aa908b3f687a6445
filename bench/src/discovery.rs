//! Fifty MCP servers of forty tools each: whether they delay the start of a server, and the memory of an idle one.
//!
//! Servers without any, with fifty that answer and with fifty that never do are started in turns. Memory is the
//! difference of resident sizes once all tools are known: the sessions, the definitions, and the tools in the catalogue.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::json;

use crate::{
    cycle::median,
    http::Connection,
    options::Options,
    peer,
    process::{Running, World, own},
    report::{Figure, Goal, Report},
};

const SERVERS: usize = 50;
/// How much later a server with MCP servers may answer its first request.
const GOAL_LATER_MILLIS: f64 = 50.0;
/// How long a server is idle before its memory is measured.
const REST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn measure(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let peer = Running::start(own("peer")?).await.context("the peer")?;
    let none = manifests(world, "none", 0, "")?;
    let many = manifests(world, "many", SERVERS, &format!("http://{}/mcp", peer.authority))?;
    let silent = manifests(world, "silent", SERVERS, &format!("http://{}/silent", peer.authority))?;
    let (mut alone, mut with, mut with_silent) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.starts {
        for (times, files, name) in
            [(&mut alone, &none, "none"), (&mut with, &many, "many"), (&mut with_silent, &silent, "silent")]
        {
            let data = world.data(&format!("discovery-{name}-{round}"));
            let begun = Instant::now();
            let server = world.serve_manifests(&data, files).await?;
            Connection::open(&server.authority).await?.get("/health").await.context("health")?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            server.kill().await?;
        }
    }
    let silent_millis = median(&mut with_silent);
    report.figure(&Figure {
        what: &format!("start with {SERVERS} MCP servers × {} tools, to the first answer", peer::TOOLS),
        value: median(&mut with),
        unit: "ms",
        floor: Some(median(&mut alone)),
        goal: Goal::AboveFloorAtMost(GOAL_LATER_MILLIS),
        n: options.starts,
        note: format!("floor: without any; {silent_millis:.1} ms with {SERVERS} that never answer"),
        details: json!({"none_ms": alone, "answering_ms": with, "silent_ms": with_silent}),
        ..Figure::default()
    });

    let bare = world.serve_manifests(&world.data("discovery-bare"), &none).await?;
    let begun = Instant::now();
    let full = world.serve_manifests(&world.data("discovery-full"), &many).await?;
    let mut connection = Connection::open(&full.authority).await?;
    let known = format!("\"tool_count\":{}", peer::TOOLS);
    loop {
        let servers = connection.get("/v1/mcp-servers").await?;
        if servers.matches(&known).count() == SERVERS {
            break;
        }
        ensure!(begun.elapsed() < PATIENCE, "not all servers were discovered: {servers}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let discovered = begun.elapsed();
    tokio::time::sleep(REST).await;
    let (bare_kib, full_kib) = (bare.resident()?, full.resident()?);
    report.figure(&Figure {
        what: &format!("memory of an idle MCP server with {} tools", peer::TOOLS),
        value: (full_kib.saturating_sub(bare_kib)) as f64 / SERVERS as f64,
        unit: "KiB",
        n: SERVERS,
        note: format!("all discovered {:.2} s after the start of the process", discovered.as_secs_f64()),
        details: json!({"without_kib": bare_kib, "with_kib": full_kib, "discovered_seconds": discovered.as_secs_f64()}),
        ..Figure::default()
    });
    bare.stop().await?;
    full.stop().await?;
    peer.kill().await?;
    Ok(())
}

/// A folder with the agent of the bench, and this many MCP servers below `address`.
fn manifests(world: &World, name: &str, servers: usize, address: &str) -> anyhow::Result<PathBuf> {
    let folder = world.data(&format!("manifests-{name}"));
    fs::create_dir(&folder)?;
    for file in ["agent.yaml", "script.yaml"] {
        fs::copy(world.data("manifests").join(file), folder.join(file))?;
    }
    write_servers(&folder, servers, address)?;
    Ok(folder)
}

fn write_servers(folder: &Path, servers: usize, address: &str) -> anyhow::Result<()> {
    let mut text = String::new();
    for number in 0..servers {
        write!(
            text,
            "---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: MCPServer\nmetadata: {{name: server-{number}}}\nspec: \
             {{address: {{value: '{address}/{number}'}}}}\n"
        )?;
    }
    if servers > 0 {
        fs::write(folder.join("servers.yaml"), text)?;
    }
    Ok(())
}
