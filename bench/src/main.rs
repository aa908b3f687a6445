//! The speed of a server, compared with floors on the same machine and with its peers.
//!
//! `run` measures the real program as its own process, over HTTP, with durable answers; and, in turns, floors that do
//! only what cannot be left out. A figure means little on a machine that does other work at the same time; the ratio to
//! the floor of the same run means more. Parts can be selected by name: `tools convert cycle cold model step inside
//! discovery streams waiting peers a2a`. `tools` is the domain alone, in this process: the validation of arguments compared with ajv and Zod, and a
//! catalogue of 100,000 tools; `convert` is the converters likewise. `load` and `profile` are for profiling a server under load; the other commands are
//! processes that `run` starts.

mod a2a;
mod broadcast;
mod catalog;
mod clock;
mod cold;
mod convert;
mod cycle;
mod discovery;
mod floor;
mod http;
mod inside;
mod listen;
mod load;
mod model;
mod options;
mod peer;
mod peers;
mod process;
mod profile;
mod report;
mod sample;
mod schema;
mod step;
mod streams;
mod waiting;

use std::{path::Path, time::Duration};

use anyhow::{Context, bail};

use options::{Options, Part};

/// The server's allocator: `step` runs the engine in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", options @ ..] => run(&Options::read(options)?),
        ["load", authority, concurrency, seconds] => {
            let time = Duration::from_secs(seconds.parse()?);
            let times =
                runtime(1)?.block_on(load::run(authority, load::Subject::Server, concurrency.parse()?, time))?;
            println!("{} cycles, {:.0} a second", times.count(), times.per_second());
            Ok(())
        }
        ["profile", server, seconds, command @ ..] => {
            let time = Duration::from_secs(seconds.parse()?);
            runtime(1)?.block_on(profile::run(server.as_ref(), time, command))
        }
        ["floor", data, sample] => runtime(2)?.block_on(floor::serve(data.as_ref(), sample.as_ref())),
        ["model", script] => runtime(2)?.block_on(model::serve(script.as_ref())),
        ["a2a", manifests] => runtime(2)?.block_on(a2a::serve(manifests.as_ref())),
        ["peer"] => runtime(2)?.block_on(peer::serve()),
        ["broadcast"] => runtime(2)?.block_on(broadcast::serve()),
        ["readers", authority, path, count] => {
            runtime(1)?.block_on(streams::read_many(authority, path, count.parse()?))
        }
        ["open", data] => cold::bare_open(data.as_ref()),
        _ => bail!(
            "usage: bosun-bench run [PART…] --server FILE [--seconds N] [--rounds N] [--concurrency N] [--starts N] \
             [--n WAITING] [--streams N]\n       \
             bosun-bench load ADDRESS:PORT CONCURRENCY SECONDS    (against a server with the agent of the bench)\n       \
             bosun-bench profile SERVER SECONDS COMMAND… PID    (a command that looks at a server under load)\n\
             parts: {}",
            Part::ALL.map(|(name, _)| name).join(" ")
        ),
    }
}

/// The client has one thread, so that it leaves the other cores to the server.
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

fn run(options: &Options) -> anyhow::Result<()> {
    let world = process::World::new(&options.server)?;
    let mut report = report::Report::begin();
    report.machine();
    for part in &options.parts {
        measure(*part, &world, options, &mut report)?;
    }
    report.print_table();
    Ok(())
}

fn measure(part: Part, world: &process::World, options: &Options, report: &mut report::Report) -> anyhow::Result<()> {
    let client = runtime(1)?;
    match part {
        // The domain alone, in this process. Paths of peers and fixtures are relative to the project's root.
        Part::Tools => {
            schema::measure(Path::new("."), options.rounds, report).context("schemas")?;
            catalog::measure(options.rounds, report).context("the catalogue")
        }
        Part::Convert => convert::measure(options.rounds, report).context("converters"),
        Part::Cycle => client.block_on(async {
            let sample = sample::take(world).await.context("the first cycle")?;
            cycle::alone(world, &sample, options, report).await.context("concurrency 1")?;
            cycle::crowded(world, options, report).await.context("many clients")
        }),
        Part::Cold => client.block_on(cold::starts(world, options, report)).context("cold starts"),
        Part::Model => client.block_on(model::measure(world, options, report)).context("a model over HTTP"),
        Part::Step => client.block_on(step::measure(options, report)).context("one step"),
        Part::Inside => client.block_on(inside::measure(options, report)).context("inside calls"),
        Part::Discovery => client.block_on(discovery::measure(world, options, report)).context("discovery"),
        Part::Streams => client.block_on(streams::measure(world, options, report)).context("streams"),
        Part::Waiting => client.block_on(waiting::measure(world, options, report)).context("waiting queries"),
        Part::A2a => client.block_on(a2a::measure(world, options, report)).context("A2A"),
        Part::Peers => client.block_on(peers::measure(world, options, report)).context("peers"),
    }
}
