//! What to measure, and for how long.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail};

/// One part of the bench, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Tools,
    Convert,
    Cycle,
    Cold,
    Model,
    Peers,
    Waiting,
    Streams,
    Step,
    Inside,
    Discovery,
    A2a,
}

impl Part {
    pub(crate) const ALL: [(&'static str, Self); 12] = [
        ("tools", Self::Tools),
        ("convert", Self::Convert),
        ("cycle", Self::Cycle),
        ("cold", Self::Cold),
        ("model", Self::Model),
        ("step", Self::Step),
        ("inside", Self::Inside),
        ("discovery", Self::Discovery),
        ("streams", Self::Streams),
        ("waiting", Self::Waiting),
        ("peers", Self::Peers),
        ("a2a", Self::A2a),
    ];
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) server: PathBuf,
    pub(crate) parts: Vec<Part>,
    /// Of each measurement with many clients.
    pub(crate) time: Duration,
    /// How often the server and its floor take turns.
    pub(crate) rounds: usize,
    pub(crate) concurrency: usize,
    /// Cold starts.
    pub(crate) starts: usize,
    /// Concurrently waiting queries.
    pub(crate) waiting: usize,
    /// Concurrently open streams.
    pub(crate) streams: usize,
}

impl Options {
    pub(crate) fn read(words: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            server: PathBuf::new(),
            parts: Vec::new(),
            time: Duration::from_secs(10),
            rounds: 20,
            concurrency: 64,
            starts: 20,
            waiting: 20_000,
            streams: 10_000,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                let part = Part::ALL.iter().find(|(name, _)| name == word);
                let (_, part) = part.with_context(|| format!("no part is called `{word}`"))?;
                options.parts.push(*part);
                continue;
            }
            let value = words.next().with_context(|| format!("`{word}` has no value"))?;
            let number = || value.parse::<usize>().with_context(|| format!("`{word} {value}` is not a number"));
            match *word {
                "--server" => options.server = value.into(),
                "--seconds" => options.time = Duration::from_secs(number()?.max(1) as u64),
                "--rounds" => options.rounds = number()?.max(1),
                "--concurrency" => options.concurrency = number()?.max(1),
                "--starts" => options.starts = number()?.max(1),
                "--n" => options.waiting = number()?.max(1_000),
                "--streams" => options.streams = number()?.max(100),
                _ => bail!("unknown option `{word}`"),
            }
        }
        if options.parts.is_empty() {
            options.parts = Part::ALL.map(|(_, part)| part).to_vec();
        }
        Ok(options)
    }
}
