//! A server under the load of the bench, for a profiler.

use std::{path::Path, time::Duration};

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::{
    load::{self, Subject},
    process::World,
};

const CLIENTS: usize = 64;

/// Runs `command` while the server is under load, with the word `PID` replaced by the server's process id; it is
/// interrupted, as by ctrl-c, when the time is over.
pub(crate) async fn run(server: &Path, time: Duration, command: &[&str]) -> anyhow::Result<()> {
    let (program, arguments) = command.split_first().context("a command")?;
    let world = World::new(server)?;
    let server = world.serve(&world.data("profile")).await?;
    load::run(&server.authority, Subject::Server, CLIENTS, Duration::from_secs(1)).await?;
    let id = server.id()?.to_string();
    let arguments = arguments.iter().map(|word| if *word == "PID" { &id } else { *word });
    let mut profiler = Command::new(program).args(arguments).kill_on_drop(true).spawn().context("the profiler")?;
    let times = load::run(&server.authority, Subject::Server, CLIENTS, time).await?;
    if let Some(running) = profiler.id() {
        let stopped = Command::new("kill").args(["-INT", &running.to_string()]).status().await?;
        ensure!(stopped.success(), "the profiler cannot be stopped");
    }
    profiler.wait().await?;
    server.stop().await?;
    eprintln!("{} cycles, {:.0} a second", times.count(), times.per_second());
    Ok(())
}
