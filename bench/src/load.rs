//! Clients that run cycles one after another, and how long each cycle took.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use crate::http::Connection;

/// The RFC's first example: one outside tool.
pub(crate) const QUERY: &str = r#"{"input":"What is 25% of 8,432?","target":{"type":"agent","name":"math-assistant"},"toolSource":"n8n","externalTools":[{"name":"calculator","description":"Perform mathematical calculations","parameters":{"type":"object","properties":{"expression":{"type":"string","description":"Mathematical expression to evaluate"}},"required":["expression"]}}]}"#;

/// What the cycles are run against: the server, or its floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Server,
    Floor,
}

/// The durations of cycles, sorted.
#[derive(Debug)]
pub(crate) struct Times {
    sorted: Vec<Duration>,
    pub(crate) wall: Duration,
}

impl Times {
    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.count() as f64 / self.wall.as_secs_f64()
    }

    /// The duration that `share` of all cycles did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let index = ((self.sorted.len() as f64 * share).ceil() as usize).clamp(1, self.sorted.len()) - 1;
        self.sorted[index]
    }
}

/// Runs cycles on `concurrency` connections for `time`. Those that begin within it are counted.
pub(crate) async fn run(
    authority: &str,
    subject: Subject,
    concurrency: usize,
    time: Duration,
) -> anyhow::Result<Times> {
    let mut connections = Vec::new();
    for _ in 0..concurrency {
        connections.push(Connection::open(authority).await?);
    }
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for mut connection in connections {
        clients.spawn(async move {
            let mut times = Vec::new();
            while begun.elapsed() < time {
                let start = Instant::now();
                cycle(&mut connection, subject).await?;
                times.push(start.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut sorted = Vec::new();
    while let Some(times) = clients.join_next().await {
        sorted.extend(times??);
    }
    let wall = begun.elapsed();
    anyhow::ensure!(!sorted.is_empty(), "no cycle was run");
    sorted.sort_unstable();
    Ok(Times { sorted, wall })
}

/// Starts a query, answers its call, and reads the answer.
pub(crate) async fn cycle(connection: &mut Connection, subject: Subject) -> anyhow::Result<()> {
    let paused = connection.post("/v1/namespaces/default/queries?wait=20s", QUERY).await?;
    let (path, result) = answer_to(paused)?;
    let path = match subject {
        Subject::Server => path.as_str(),
        // The floor has one query.
        Subject::Floor => "/v1/namespaces/default/queries/any/tool-result?wait=20s",
    };
    let finished = connection.post(path, &result).await?;
    anyhow::ensure!(finished.contains("25% of 8,432 is 2108"), "unexpected end of the query: {finished}");
    Ok(())
}

/// The path and the body for the result of a paused query. Parsing the whole answer would be most of the client's work,
/// and it is the server that is measured.
pub(crate) fn answer_to(paused: &str) -> anyhow::Result<(String, String)> {
    let after = |start: &str| -> anyhow::Result<&str> {
        let (_, rest) = paused.split_once(start).with_context(|| format!("no `{start}` in {paused}"))?;
        Ok(rest.split('"').next().unwrap_or_default())
    };
    let (name, call) = (after("\"name\":\"")?, after("\"id\":\"call_")?);
    Ok((
        format!("/v1/namespaces/default/queries/{name}/tool-result?wait=20s"),
        format!(r#"{{"toolCallId":"call_{call}","toolName":"calculator","toolResult":"2108"}}"#),
    ))
}
