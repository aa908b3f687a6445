//! The floor of a durable cycle: two round trips, two commits, no logic.
//!
//! It has the store's tables, pragmas and statements, and writes and answers what a real cycle wrote
//! and answered. It parses nothing, checks nothing, and serves one client at a time.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use axum::{Router, body::Bytes, extract::State, http::header, response::IntoResponse, routing::post};
use rusqlite::{Connection, config::DbConfig, params};
use serde_json::Value;

use crate::listen;

/// The layout of the store's keys: the query's id in the high bits, the sequence number in this many low bits.
const SEQ_BITS: u32 = 24;

struct Floor {
    store: Mutex<Store>,
    pause: Commit,
    finish: Commit,
}

struct Store {
    connection: Connection,
    id: i64,
}

/// What is written in one commit, and what is answered after it.
struct Commit {
    rows: Vec<(i64, i64, String)>,
    head: String,
    status: String,
    seq: i64,
    deadline: Option<i64>,
    bytes: usize,
    answer: Bytes,
}

pub(crate) async fn serve(data: &Path, sample: &Path) -> anyhow::Result<()> {
    let commits: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(sample)?)?;
    let mut commits = commits.iter().map(Commit::read);
    let mut next = || commits.next().context("a sample has two commits")?;
    let floor = Floor { store: Mutex::new(Store::open(data)?), pause: next()?, finish: next()? };
    let router = Router::new()
        .route("/v1/namespaces/default/queries", post(start))
        .route("/v1/namespaces/default/queries/any/tool-result", post(finish))
        .with_state(Arc::new(floor));
    listen::until_stdin_ends(router).await
}

async fn start(State(floor): State<Arc<Floor>>, _body: Bytes) -> impl IntoResponse {
    answer(&floor.pause, floor.store().start(&floor.pause))
}

async fn finish(State(floor): State<Arc<Floor>>, _body: Bytes) -> impl IntoResponse {
    answer(&floor.finish, floor.store().finish(&floor.finish))
}

fn answer(commit: &Commit, written: rusqlite::Result<()>) -> Result<impl IntoResponse + use<>, String> {
    written.map_err(|error| error.to_string())?;
    Ok(([(header::CONTENT_TYPE, "application/json")], commit.answer.clone()))
}

impl Floor {
    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// The settings of the real store.
    fn open(data: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(data.join("bosun.db"))?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA cache_size = -16384;",
        )?;
        connection.set_prepared_statement_cache_capacity(32);
        let id = connection.query_row("SELECT coalesce(max(id), 0) FROM queries", [], |row| row.get(0))?;
        Ok(Self { connection, id })
    }

    fn start(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        self.id += 1;
        self.begin(commit)?;
        self.connection
            .prepare_cached(
                "INSERT INTO queries (id, uid, namespace, name, status, seq, epoch, unfinished, deadline, bytes, head) \
                 VALUES (?1, ?2, 'default', ?3, ?4, ?5, 1, 0, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.id,
                uid(self.id),
                format!("query-0199b0c0-0000-7000-8000-{:012x}", self.id),
                commit.status,
                commit.seq,
                commit.deadline,
                commit.bytes,
                commit.head,
            ])?;
        self.commit()
    }

    fn finish(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        self.begin(commit)?;
        self.connection
            .prepare_cached(
                "UPDATE queries SET status = ?2, seq = ?3, epoch = 1, unfinished = 0, deadline = ?4, \
                 bytes = bytes + ?5, head = ?6 WHERE id = ?1",
            )?
            .execute(params![self.id, commit.status, commit.seq, commit.deadline, commit.bytes, commit.head])?;
        self.commit()
    }

    fn begin(&self, commit: &Commit) -> rusqlite::Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = self.connection.prepare_cached("INSERT INTO journal (key, at, body) VALUES (?1, ?2, ?3)")?;
        for (seq, at, body) in &commit.rows {
            insert.execute(params![(self.id << SEQ_BITS) + seq, at, body])?;
        }
        Ok(())
    }

    fn commit(&self) -> rusqlite::Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([]).map(|_| ())
    }
}

/// Sixteen ascending bytes, like the uids of the server.
fn uid(id: i64) -> [u8; 16] {
    let mut bytes = [0x77; 16];
    bytes[..8].copy_from_slice(&id.to_be_bytes());
    bytes
}

impl Commit {
    fn read(value: &Value) -> anyhow::Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
        let number = |value: &Value| value.as_i64().context("a number");
        let rows = value["rows"].as_array().context("rows")?.iter();
        let rows: Vec<_> = rows
            .map(|row| Ok((number(&row["seq"])?, number(&row["at"])?, text(&row["body"])?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            bytes: rows.iter().map(|(_, _, body)| body.len()).sum(),
            rows,
            head: text(&value["head"])?,
            status: text(&value["status"])?,
            seq: number(&value["seq"])?,
            deadline: value["deadline"].as_i64(),
            answer: text(&value["answer"])?.into(),
        })
    }
}
