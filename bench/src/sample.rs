//! One real cycle, split at its commits: what it wrote in each of the two, and what it answered.
//!
//! The floor writes and answers the same, so the difference is the work in between.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use bosun_core::{Entry, Event, Head, Timestamp};
use rusqlite::{Connection as Database, OpenFlags};
use serde_json::{Value, json};

use crate::{
    http::Connection,
    load::{QUERY, answer_to},
    process::World,
};

/// What one cycle writes and answers, and a store to write it to.
#[derive(Debug)]
pub(crate) struct Sample {
    /// In the format that [`crate::floor`] reads.
    pub(crate) file: PathBuf,
    /// A store of a server that has stopped, with one query in it.
    pub(crate) store: PathBuf,
    /// Bytes that a cycle writes: entries, and heads.
    pub(crate) entry_bytes: usize,
    pub(crate) head_bytes: usize,
}

pub(crate) async fn take(world: &World) -> anyhow::Result<Sample> {
    let store = world.data("sample");
    let server = world.serve(&store).await?;
    let mut connection = Connection::open(&server.authority).await?;
    let paused = connection.post("/v1/namespaces/default/queries?wait=20s", QUERY).await?.to_owned();
    let (path, result) = answer_to(&paused)?;
    let finished = connection.post(&path, &result).await?.to_owned();
    drop(connection);
    server.stop().await?;

    let database = Database::open_with_flags(store.join("bosun.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let (id, head): (i64, String) =
        database.query_row("SELECT id, head FROM queries", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let last: Head = serde_json::from_str(&head)?;
    let mut rows = database.prepare("SELECT seq, at, body FROM journal WHERE query = ?1 ORDER BY seq")?;
    let rows: Vec<(u64, i64, String)> =
        rows.query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()?;

    let mut commits: Vec<Value> = Vec::new();
    let mut folded: Option<Head> = None;
    let mut pending: Vec<Value> = Vec::new();
    let (mut entry_bytes, mut head_bytes) = (0, 0);
    for (seq, at, body) in rows {
        entry_bytes += body.len();
        let entry = Entry { seq, at: Timestamp(at), event: Event::decode(&body)? };
        let head = match folded.take() {
            None => Head::new(last.uid, last.namespace.clone(), last.name.clone(), &entry)?,
            Some(mut head) => {
                head.apply(&entry)?;
                head
            }
        };
        pending.push(json!({"seq": seq, "at": at, "body": body}));
        // The query pauses when its call has been requested, and ends when it ends.
        if matches!(entry.event, Event::CallAsked(_) | Event::Completed) {
            let text = serde_json::to_string(&head)?;
            head_bytes += text.len();
            let answer = if commits.is_empty() { &paused } else { &finished };
            commits.push(json!({
                "rows": std::mem::take(&mut pending), "head": text, "status": head.status().as_str(), "seq": head.seq,
                "deadline": head.deadline().map(|deadline| deadline.0), "answer": answer,
            }));
        }
        folded = Some(head);
    }
    ensure!(commits.len() == 2 && pending.is_empty(), "a cycle has two commits, but this one has {}", commits.len());
    ensure!(folded.as_ref() == Some(&last), "the stored head is not the fold of its journal");
    let file = world.data("sample.json");
    std::fs::write(&file, serde_json::to_string(&commits)?).context("writing the sample")?;
    Ok(Sample { file, store, entry_bytes, head_bytes })
}
