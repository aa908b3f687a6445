//! `docs/limits.md`, generated from the table of ceilings.

use std::fmt::Write as _;

use bosun_core::ceiling::{self, Area, Ceiling, Excess, Unit};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");

const BEGINNING: &str = "\
# Limits

What one request, one reply of a model, one journal, one page and one cache may cost at most. These ceilings are
constants: no setting raises them. Limits that a query, an agent or the operator may choose (times, calls, tokens,
queries that run or wait) are in [configuration.md](configuration.md) and [api.md](api.md).

This page is generated from `crates/core/src/ceiling.rs`, and `crates/bosun/tests/it/limits` goes through it row by row:
to the ceiling, and one above. A code in the last column is that of the answer or of the failed query.
";

fn title(area: Area) -> &'static str {
    match area {
        Area::Request => "Requests",
        Area::Schema => "Tools and schemas",
        Area::Model => "Models",
        Area::Journal => "Journals",
        Area::Answer => "Answers",
        Area::Cache => "Caches",
        Area::Upload => "Results",
    }
}

fn value(ceiling: &Ceiling) -> String {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    match (ceiling.unit, ceiling.value) {
        (Unit::Bytes, bytes) if bytes % MIB == 0 => format!("{} MiB", bytes / MIB),
        (Unit::Bytes, bytes) if bytes % KIB == 0 => format!("{} KiB", bytes / KIB),
        (Unit::Bytes, bytes) => format!("{bytes} bytes"),
        (Unit::Count, count) => count.to_string(),
        (Unit::Seconds, seconds) => format!("{seconds} s"),
    }
}

fn above(above: Excess) -> String {
    let code = |code: &str| format!("[`{code}`](errors.md#{code})");
    match above {
        Excess::Code(text) => code(text),
        Excess::Fault(code) => format!("[`{code}`](errors.md#faults-in-a-body) in `error.details`"),
        Excess::Status(status) => format!("status {status}"),
        Excess::ReportedToModel(text) => format!("the call is refused and the model reads why: {}", code(text)),
        Excess::Counted => "the others are left out and counted".to_owned(),
        Excess::Lowered => "it is lowered, with a warning".to_owned(),
        Excess::Marked => "a mark with type and size replaces it".to_owned(),
        Excess::Cut => "the rest is cut, with a mark that says so".to_owned(),
        Excess::NextPage => "the rest is on the next page".to_owned(),
        Excess::OldestLeftOut => "the oldest are not listed".to_owned(),
        Excess::Deleted => "it is deleted".to_owned(),
        Excess::Referenced => "a reference replaces it".to_owned(),
        Excess::Evicted => "the least recently used are evicted".to_owned(),
    }
}

fn page() -> String {
    let mut page = BEGINNING.to_owned();
    for area in Area::ALL {
        let _ = write!(page, "\n## {}\n\n| what | at most | above |\n|---|---|---|\n", title(area));
        for ceiling in ceiling::ALL.iter().filter(|ceiling| ceiling.area == area) {
            let _ = writeln!(page, "| {} | {} | {} |", ceiling.bounds.trim(), value(ceiling), above(ceiling.above));
        }
    }
    page
}

#[test]
fn the_page_of_limits_is_generated_from_the_table() {
    let (stored, current) = (std::fs::read_to_string(PATH).unwrap_or_default(), page());
    if std::env::var_os("BOSUN_UPDATE_DOCS").is_some() {
        std::fs::write(PATH, &current).expect("the page is written");
    } else {
        assert!(stored == current, "docs/limits.md is out of date: run this test with BOSUN_UPDATE_DOCS=1");
    }
}

/// A reader who follows a code finds what it means.
#[test]
fn every_code_of_the_table_has_a_heading() {
    let errors = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md"))
        .expect("the page of errors");
    let missing: Vec<_> = ceiling::ALL
        .iter()
        .filter_map(|ceiling| match ceiling.above {
            Excess::Code(code) | Excess::ReportedToModel(code) => Some(code),
            _ => None,
        })
        .filter(|code| !errors.contains(&format!("### `{code}`\n")))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md has no heading for {missing:?}");
    let (_, faults) = errors.split_once("## Faults in a body").expect("the faults");
    let missing: Vec<_> = ceiling::ALL
        .iter()
        .filter_map(|ceiling| if let Excess::Fault(code) = ceiling.above { Some(code) } else { None })
        .filter(|code| !faults.contains(&format!("`{code}`")))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md does not list the faults {missing:?}");
}
