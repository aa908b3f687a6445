//! The part of `bosun check` that inspects a store: `--data`.
//!
//! It reads and changes nothing, and takes no lock, so it may run next to a server.

use std::{error::Error, path::Path, process::ExitCode};

use anstyle::{AnsiColor, Style};
use bosun_adapters::store::sqlite::{self, StoreFault, StoreInspection};
use serde_json::{Value, json};

use crate::commands::report::{count, printable};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const ASIDE: Style = AnsiColor::Cyan.on_default();
/// Further faults are listed by `--json` only.
const SHOWN: usize = 100;

pub(super) fn check(dir: &Path, as_json: bool) -> ExitCode {
    let inspection = sqlite::inspect(dir);
    if as_json {
        anstream::println!("{:#}", to_json(&inspection));
    } else {
        print(dir, &inspection);
    }
    if inspection.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `3 queries, 17 entries`
pub(crate) fn contents(inspection: &StoreInspection) -> String {
    let StoreInspection { queries, entries, blobs, .. } = inspection;
    let counted = |number: u64, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut text = format!("{}, {}", counted(*queries, "query", "queries"), counted(*entries, "entry", "entries"));
    if *blobs > 0 {
        text = format!("{text}, {}", counted(*blobs, "blob", "blobs"));
    }
    text
}

fn print(dir: &Path, inspection: &StoreInspection) {
    let faults = &inspection.faults;
    for fault in faults.iter().take(SHOWN) {
        anstream::eprintln!("{ERROR}error[{}]{ERROR:#}: {}", fault.code(), printable(&reasons(fault)));
    }
    if faults.len() > SHOWN {
        anstream::eprintln!("and {} more, which --json lists", faults.len() - SHOWN);
    }
    if faults.is_empty() {
        anstream::println!("{}, ok", contents(inspection));
    } else {
        anstream::eprintln!("{}, {}", contents(inspection), count(faults.len(), "fault"));
        anstream::eprintln!("\n{ASIDE}what to do{ASIDE:#}\n{}", remedy(dir, faults));
    }
}

fn to_json(inspection: &StoreInspection) -> Value {
    let fault = |fault: &StoreFault| json!({ "code": fault.code(), "message": reasons(fault) });
    json!({
        "queries": inspection.queries, "entries": inspection.entries, "blobs": inspection.blobs,
        "faults": inspection.faults.iter().map(fault).collect::<Vec<_>>(),
    })
}

fn reasons(fault: &StoreFault) -> String {
    let mut text = fault.to_string();
    let mut cause = fault.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn remedy(dir: &Path, faults: &[StoreFault]) -> String {
    let dir = dir.display();
    match faults.first().map(StoreFault::code) {
        Some("store_missing") => {
            return "Name the directory that the server is given with --data; without that it is ./data.".into();
        }
        Some("newer_schema") => {
            return "Check it with the version of Bosun that wrote it, or restore a backup from before the upgrade."
                .into();
        }
        Some("not_a_store") => {
            return "Name the directory of a store. If this was one, it has been overwritten: restore a backup.".into();
        }
        _ => {}
    }
    let concern = if faults.iter().all(StoreFault::is_of_one_query) {
        "Only the named queries are damaged: a server refuses them and serves the others."
    } else {
        "The store is damaged as a whole: a server may refuse to start on it, and should not be started."
    };
    format!(
        "{concern} Nothing was changed.

  1. Stop the server, and keep what there is:   cp -a {dir} {dir}.damaged
  2. Look at your last backup:                  bosun check --data BACKUP
  3. Put it in place:                           rm -r {dir} && cp -a BACKUP {dir}

`bosun backup` makes backups while a server runs; docs/operations.md has more."
    )
}
