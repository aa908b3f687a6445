//! `ledger` and `ledger_idempotent`: tools whose only purpose is to be counted.
//!
//! Each run appends one line to a file and flushes it to the disk before it answers, so the file
//! tells how often a call was really started, whatever happened to the server in between. They
//! differ only in what they say about themselves: one may be run again after a crash, the other
//! must not. A server has them only if it was started with a ledger.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bosun_core::{Outcome, Tool};
use bosun_engine::runner::InsideCall;
use serde_json::json;

use super::{Effects, FAILED, definition};

pub(super) const NAME: &str = "ledger";
pub(super) const IDEMPOTENT_NAME: &str = "ledger_idempotent";

pub(super) fn tool() -> Tool {
    definition(NAME, "Writes one line into the ledger; running it twice writes two", parameters(), Effects::Writes)
}

pub(super) fn idempotent_tool() -> Tool {
    let description = "Writes one line into the ledger; running it again for the same call counts as one";
    definition(IDEMPOTENT_NAME, description, parameters(), Effects::WritesOnce)
}

fn parameters() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {"entry": {"type": "string", "description": "What to write"}},
    })
}

/// The file that effects are counted in.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    file: Arc<Mutex<File>>,
}

impl Ledger {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Arc::new(Mutex::new(file)) })
    }

    pub(super) async fn run(&self, call: &InsideCall) -> Outcome {
        let line =
            json!({"call": call.id, "tool": call.tool.name, "attempt": call.attempt, "arguments": call.arguments});
        let file = Arc::clone(&self.file);
        let written = tokio::task::spawn_blocking(move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // One write, so that a kill leaves a whole line or none.
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        });
        match written.await {
            Ok(Ok(())) => Outcome::success("written"),
            Ok(Err(error)) => Outcome::failure(FAILED, format!("ledger cannot be written: {error}")),
            Err(error) => Outcome::failure(FAILED, format!("ledger was not written: {error}")),
        }
    }
}
