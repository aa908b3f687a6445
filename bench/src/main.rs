//! How fast a whole cycle is: start, pause, result, finish, over HTTP, with every answer on the disk.
//!
//! `run` measures the real program as its own process, and beside it, in turns, a floor: two bare
//! round trips that write the same bytes to the same tables in two commits. A figure means little on
//! a machine that does other work at the same time; the ratio to the floor of the same run means more.
//! Before that it measures the domain alone, in this process: the check of arguments beside ajv and Zod,
//! and a catalogue of 100,000 tools; `tools` does only that.
//! `load` is for looking at a server with a profiler; the other commands are processes that `run` starts.

mod catalog;
mod clock;
mod cold;
mod cycle;
mod floor;
mod http;
mod load;
mod process;
mod report;
mod sample;
mod schema;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};

/// What to measure and for how long.
#[derive(Debug)]
struct Options {
    server: PathBuf,
    /// Of the measurement with many clients.
    time: Duration,
    /// How often server and floor take turns.
    rounds: usize,
    concurrency: usize,
    /// Cold starts.
    starts: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", options @ ..] => runtime(1)?.block_on(run(&read_options(options)?)),
        ["tools", options @ ..] => {
            let mut report = report::Report::begin();
            report.machine();
            tools(&read_options(options)?, &mut report)?;
            report.print_table();
            Ok(())
        }
        ["load", authority, concurrency, seconds] => {
            let time = Duration::from_secs(seconds.parse()?);
            let times =
                runtime(1)?.block_on(load::run(authority, load::Subject::Server, concurrency.parse()?, time))?;
            println!("{} cycles, {:.0} a second", times.count(), times.per_second());
            Ok(())
        }
        ["floor", data, sample] => runtime(2)?.block_on(floor::serve(data.as_ref(), sample.as_ref())),
        ["open", data] => cold::bare_open(data.as_ref()),
        _ => bail!(
            "usage: bosun-bench run --server FILE [--seconds N] [--rounds N] [--concurrency N] [--starts N]\n       \
             bosun-bench tools [--rounds N]\n       \
             bosun-bench load ADDRESS:PORT CONCURRENCY SECONDS    (against a server with the agent of the bench)"
        ),
    }
}

fn read_options(words: &[&str]) -> anyhow::Result<Options> {
    let mut options =
        Options { server: PathBuf::new(), time: Duration::from_secs(10), rounds: 20, concurrency: 64, starts: 20 };
    for pair in words.chunks(2) {
        let [name, value] = pair else { bail!("`{}` has no value", pair[0]) };
        let number = || value.parse::<usize>().with_context(|| format!("`{name} {value}` is not a number"));
        match *name {
            "--server" => options.server = value.into(),
            "--seconds" => options.time = Duration::from_secs(number()? as u64),
            "--rounds" => options.rounds = number()?.max(1),
            "--concurrency" => options.concurrency = number()?.max(1),
            "--starts" => options.starts = number()?.max(1),
            _ => bail!("unknown option `{name}`"),
        }
    }
    Ok(options)
}

/// The client has one thread: what it uses, the server cannot have.
fn runtime(threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().context("the runtime does not start")
}

/// The domain alone, without a server. The peers and the fixtures are found from the project's root.
fn tools(options: &Options, report: &mut report::Report) -> anyhow::Result<()> {
    schema::measure(Path::new("."), options.rounds, report).context("schemas")?;
    catalog::measure(options.rounds, report).context("the catalogue")
}

async fn run(options: &Options) -> anyhow::Result<()> {
    let world = process::World::new(&options.server)?;
    let sample = sample::take(&world).await.context("the first cycle")?;
    let mut report = report::Report::begin();
    report.machine();
    tools(options, &mut report)?;
    cycle::alone(&world, &sample, options, &mut report).await.context("concurrency 1")?;
    cycle::crowded(&world, &sample, options, &mut report).await.context("many at once")?;
    cold::starts(&world, options, &mut report).await.context("cold starts")?;
    report.print_table();
    Ok(())
}
