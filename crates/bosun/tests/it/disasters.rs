//! The store when the disk fails, fills up, or keeps half of what was written.

mod answers;
mod failing;
mod full;
mod torn;
mod trees;

use std::time::Instant;

use reqwest::Method;
use serde_json::Value;

use crate::support::{
    PATIENCE,
    client::Client,
    oracle::Record,
    scenarios::{self, Scenario},
    soon,
};

/// A client separate from the load, whose clients may all be waiting when something has to be tried.
#[derive(Debug)]
struct ProbeClient {
    client: Client,
    /// Queries that were acknowledged to it.
    names: Vec<String>,
    tried: u64,
}

impl ProbeClient {
    /// Starts with a query that has ended before anything goes wrong.
    async fn call(client: &Client) -> Self {
        let mut probe = Self { client: client.clone(), names: Vec::new(), tried: 0 };
        probe.check_that_work_continues().await;
        probe
    }

    fn body(&mut self) -> (String, Value) {
        self.tried += 1;
        let name = format!("probe-{}", self.tried);
        let body = scenarios::query(&name, Scenario::Text);
        (name, body)
    }

    /// Creates queries until one is refused, as it must be while nothing can be written.
    async fn is_refused(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let (name, body) = self.body();
            match self.client.ask(&Method::POST, "", Some(&body)).await {
                Ok(answer) if answer.status == 200 => self.names.push(name),
                Ok(answer) if answer.code() == "store_unavailable" && answer.retry_after => return Ok(()),
                other => return Err(format!("{name} was answered with {other:?} while nothing could be written")),
            }
        }
        Err(format!("nothing was refused within {PATIENCE:?}"))
    }

    /// Whether reads are answered while nothing can be written.
    async fn can_read(&self) -> Result<(), String> {
        for path in ["", "?limit=3", "/probe-1", "/probe-1?wait=1s&view=rfc"] {
            match soon("an answer", self.client.ask(&Method::GET, path, None)).await {
                Ok(answer) if answer.status == 200 => {}
                other => return Err(format!("GET {path} was answered with {other:?} while nothing could be written")),
            }
        }
        if self.client.is_healthy().await { Ok(()) } else { Err("`/health` is not answered".into()) }
    }

    /// Checks that a query can be created and ends again.
    async fn check_that_work_continues(&mut self) {
        let (name, body) = self.body();
        let created = soon("an end of the fault", self.client.post("?wait=20s", &body)).await;
        assert_eq!(created.state(), "completed", "{}", created.body);
        self.names.push(name);
    }

    /// Checks the end of everything that was acknowledged to it.
    async fn into_records(self) -> Vec<Record> {
        let mut records = Vec::new();
        for name in self.names {
            let ended = self.client.get(&format!("/{name}?wait=20s&view=rfc")).await;
            let response = ended.body["response"].as_str().map(str::to_owned);
            let ended = Some((ended.state().to_owned(), response));
            records.push(Record { name, acknowledged: true, ended, ..Record::default() });
        }
        records
    }
}
