//! Invariants of the files that a server leaves behind, whatever happened to it.
//!
//! Clients keep a [`Record`] of their answers; the journals are read from the store's file after the last process has
//! ended; the ledger has one line for each run of a tool. The oracle compares them. It reads the file as data and
//! decides independently: of the program's own code it uses only the parser of an entry and the fold of a journal,
//! which is one of the things it checks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use bosun_core::{
    CallId, Content, ContentHash, Entry, Event, Head, Outcome, Status, Timestamp, Transcript,
    content::Large,
    event::CallRoute,
    head::{CallState, FoldError},
    machine::outcome_code,
    result_rendering::ResultRenderer,
    transcript::Message,
};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::{
    client::{LARGE, spelled_out},
    server::World,
};

/// No scenario has more entries than this, even if every part of it is repeated a few times.
const LONGEST_JOURNAL: usize = 100;

/// What one client observed of one query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) name: String,
    /// The server acknowledged that the query exists.
    pub(crate) acknowledged: bool,
    /// The client asked for its end.
    pub(crate) cancelled: bool,
    /// The server acknowledged that the query is deleted.
    pub(crate) deleted: bool,
    /// The server acknowledged this retention, and the label with it.
    pub(crate) hours: Option<u32>,
    pub(crate) posts: Vec<Post>,
    pub(crate) decisions: Vec<DecisionPost>,
    /// State and answer, as the client saw them at the end.
    pub(crate) ended: Option<(String, Option<String>)>,
    /// What the client itself found wrong.
    pub(crate) violations: Vec<String>,
}

/// One posted result, and the server's answer.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) call: String,
    pub(crate) content: String,
    pub(crate) verdict: PostVerdict,
}

/// One decision about a call, and the server's answer.
#[derive(Clone, Debug)]
pub(crate) struct DecisionPost {
    pub(crate) call: String,
    pub(crate) approved: bool,
    pub(crate) verdict: PostVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostVerdict {
    Accepted,
    Replayed,
    /// 409: there is another result.
    Conflict,
    /// 410: too late.
    Gone,
}

/// One query as its journal records it.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) head: Head,
    pub(crate) entries: Vec<Entry>,
}

/// The counts of the oracle.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) queries: u64,
    pub(crate) entries: u64,
    /// Queries without a cancellation, and those of them that completed.
    pub(crate) meant_to_succeed: u64,
    pub(crate) succeeded: u64,
    pub(crate) outcome_unknown: u64,
    pub(crate) recoveries: u64,
    pub(crate) ledger_lines: u64,
    pub(crate) large_results: u64,
    /// Runs of the idempotent tool for a call beyond its first.
    pub(crate) repeated_runs: u64,
    /// Runs of the idempotent tool for a query that was never acknowledged and did not survive.
    pub(crate) orphaned_runs: u64,
}

/// Compares the records of the clients and the files of the world.
pub(crate) fn judge(world: &World, records: &[Record]) -> (Figures, Vec<String>) {
    let mut violations = Vec::new();
    let mut figures = Figures::default();
    let journals = read_journals(&world.data(), &mut violations);
    let by_name: HashMap<_, _> = journals.iter().map(|journal| (journal.head.name.as_str(), journal)).collect();
    for journal in &journals {
        figures.queries += 1;
        figures.entries += journal.entries.len() as u64;
        figures.recoveries +=
            journal.entries.iter().filter(|entry| matches!(entry.event, Event::Recovered { .. })).count() as u64;
        let root = journal.head.lineage.as_ref().map(|lineage| by_name.get(lineage.root_name.as_str()));
        // The next process cancels what is left of a tree whose root has ended.
        let is_abandoned = root.is_some_and(|root| {
            root.is_none_or(|root| matches!(root.head.status(), Status::Failed | Status::Cancelled))
        });
        check_journal(journal, is_abandoned, &mut violations);
        check_child(journal, &by_name, &mut violations);
    }
    for record in records {
        violations.extend(record.violations.iter().map(|what| format!("{}: {what}", record.name)));
        match by_name.get(record.name.as_str()) {
            Some(_) if record.deleted => violations.push(format!("{}: was deleted and is there", record.name)),
            Some(journal) => {
                let is_below = |other: &&Journal| {
                    other.head.lineage.as_ref().is_some_and(|lineage| lineage.root == journal.head.uid)
                };
                let tree: Vec<_> = [*journal].into_iter().chain(journals.iter().filter(is_below)).collect();
                check_record(record, journal, &tree, &mut violations);
            }
            None if record.acknowledged && !record.deleted => {
                violations.push(format!("{}: was acknowledged and is lost", record.name));
            }
            None => {}
        }
        let completed = by_name.get(record.name.as_str()).is_some_and(|it| it.head.status() == Status::Completed);
        if !record.cancelled {
            figures.meant_to_succeed += 1;
            figures.succeeded += u64::from(completed);
        }
    }
    check_ledger(&world.ledger(), &journals, &mut figures, &mut violations);
    check_blobs(&world.data(), &journals, &mut figures, &mut violations);
    let log = std::fs::read_to_string(world.log()).unwrap_or_default();
    violations.extend(log.lines().filter(|line| line.contains("panicked")).map(|line| format!("log: {line}")));
    (figures, violations)
}

/// The invariants of a journal by itself.
fn check_journal(journal: &Journal, is_abandoned: bool, violations: &mut Vec<String>) {
    let Journal { head, entries } = journal;
    let mut fault = |what: String| violations.push(format!("{}: {what}", head.name));
    if !head.status().is_final() && !is_abandoned {
        fault(format!("never ended: {:?}, last entry {:?}", head.status(), entries.last()));
    }
    if entries.len() > LONGEST_JOURNAL {
        fault(format!("has {} entries, the last of them {:?}", entries.len(), &entries[entries.len() - 4..]));
    }
    let end = entries.iter().position(|entry| entry.event.is_final()).map_or(entries.len(), |end| end + 1);
    if entries[end..].iter().any(|entry| !matches!(entry.event, Event::Changed(_) | Event::Settled)) {
        fault("something happened after the end".into());
    }
    let mut outcomes: BTreeMap<CallId, u32> = BTreeMap::new();
    let mut starts: BTreeMap<CallId, u32> = BTreeMap::new();
    let mut pending: BTreeSet<CallId> = BTreeSet::new();
    let mut approved: BTreeSet<CallId> = BTreeSet::new();
    let mut turns: BTreeMap<u32, u32> = BTreeMap::new();
    let mut routes: BTreeMap<CallId, &CallRoute> = BTreeMap::new();
    for entry in entries {
        match &entry.event {
            Event::CallAsked(asked) => {
                let earlier = routes.insert(asked.call, &asked.route);
                if earlier.is_some() {
                    fault(format!("{} was asked for twice", asked.call));
                }
            }
            // Of a call that continues elsewhere, it is the start of a poll.
            Event::CallStarted { call, .. } if pending.contains(call) => {}
            Event::CallStarted { call, .. } => {
                if matches!(routes.get(call), Some(CallRoute::Approval { .. })) && !approved.contains(call) {
                    fault(format!("{call} was started without an approval"));
                }
                *starts.entry(*call).or_default() += 1;
            }
            Event::CallApproved { call, .. } => {
                let is_first = approved.insert(*call);
                if !is_first {
                    fault(format!("{call} was approved twice"));
                }
            }
            Event::CallPending { call, .. } => {
                pending.insert(*call);
            }
            Event::CallFinished { call, .. }
            | Event::CallResolved { call, .. }
            | Event::CallRejected { call, .. }
            | Event::CallExpired { call } => {
                *outcomes.entry(*call).or_default() += 1;
            }
            Event::TurnEnded { turn, .. } => *turns.entry(*turn).or_default() += 1,
            _ => {}
        }
    }
    for (call, route) in &routes {
        let recorded = outcomes.get(call).copied().unwrap_or_default();
        let wanted = u32::from(!matches!(route, CallRoute::Refused { .. } | CallRoute::Cached { .. }));
        let cut_short = head.status() != Status::Completed && recorded == 0;
        if recorded != wanted && !cut_short {
            fault(format!("{call} has {recorded} outcomes"));
        }
        if matches!(route, CallRoute::Inside { repeatable: false } | CallRoute::Approval { repeatable: false, .. })
            && starts.get(call).is_some_and(|starts| *starts > 1)
        {
            fault(format!("{call} must not run twice and was started {} times", starts[call]));
        }
    }
    if routes.len() > head.limits.max_tool_calls as usize {
        fault(format!("{} calls are more than allowed", routes.len()));
    }
    if let Some((turn, times)) = turns.iter().find(|(_, times)| **times > 1) {
        fault(format!("turn {turn} ended {times} times"));
    }
    check_answer(journal, violations);
}

/// A parent has the outcome of its child, once, and it is the child's answer.
fn check_child(journal: &Journal, by_name: &HashMap<&str, &Journal>, violations: &mut Vec<String>) {
    let Some(lineage) = &journal.head.lineage else { return };
    let Some(parent) = by_name.get(lineage.parent_name.as_str()) else { return };
    let mut fault = |what: String| violations.push(format!("{}: {what}", journal.head.name));
    let ends = |event: &Event| matches!(event, Event::ChildEnded { call, .. } if *call == lineage.call);
    let reported = parent.entries.iter().filter(|entry| ends(&entry.event)).count();
    if reported > 1 {
        fault(format!("its end was reported {reported} times"));
    }
    let outcome = parent.entries.iter().find_map(|entry| match &entry.event {
        Event::CallFinished { call, outcome } if *call == lineage.call => Some(outcome),
        _ => None,
    });
    let is_completed = journal.head.status() == Status::Completed;
    match outcome {
        Some(outcome) if is_completed => {
            let answer = answer(&journal.entries).unwrap_or_default();
            let whole = Outcome::success(answer);
            let large = Outcome::Success { content: Content::Large(Large::of(&Value::from(answer)).0) };
            if **outcome != whole && **outcome != large {
                fault(format!("answered `{answer}`, and its parent has {outcome:?}"));
            }
        }
        Some(outcome) if outcome.is_success() => fault(format!("did not complete, and its parent has {outcome:?}")),
        None if parent.head.status() == Status::Completed => fault("its parent has no outcome".into()),
        Some(_) | None => {}
    }
}

/// Every scenario's answer is made of the results that the model was shown: they must be those of the
/// journal, in the order in which it asked.
fn check_answer(journal: &Journal, violations: &mut Vec<String>) {
    let Some(Event::Created { spec, .. }) = journal.entries.first().map(|entry| &entry.event) else { return };
    if journal.head.status() != Status::Completed || matches!(spec.input.as_str(), "text" | "words") {
        return;
    }
    if journal.head.is_team {
        return check_team(journal, violations);
    }
    let shown: Vec<_> = messages(&journal.entries)
        .into_iter()
        .filter_map(|message| if let Message::Tool { content, .. } = message { Some(content) } else { None })
        .collect();
    let answer = answer(&journal.entries).unwrap_or_default();
    if answer != shown.join("|") {
        violations.push(format!("{}: answered `{answer}` after results {shown:?}", journal.head.name));
    }
}

/// The answer of a team is that of the member that spoke last.
fn check_team(journal: &Journal, violations: &mut Vec<String>) {
    let last = journal.entries.iter().rev().find_map(|entry| match &entry.event {
        Event::CallFinished { outcome, .. } => Some(outcome),
        _ => None,
    });
    // One that is too large for a journal is shown in part.
    let spoken = last.and_then(|outcome| outcome.content()).and_then(Content::inline_text);
    let answer = answer(&journal.entries).unwrap_or_default();
    if last.is_none() || spoken.as_ref().is_some_and(|spoken| spoken != answer) {
        violations.push(format!("{}: answered `{answer}`, and its last member {last:?}", journal.head.name));
    }
}

/// What the model of a query without a history was sent, and has answered.
pub(crate) fn messages(entries: &[Entry]) -> Vec<Message> {
    let Some(mut transcript) = entries.first().and_then(Transcript::new) else { return Vec::new() };
    entries[1..].iter().for_each(|entry| transcript.apply(entry));
    // The agent of the scenarios has the tool that pages.
    transcript.messages(&[], &ResultRenderer { pager: Some("read_result".into()), ..ResultRenderer::default() })
}

fn answer(entries: &[Entry]) -> Option<&str> {
    entries.iter().rev().find_map(|entry| match &entry.event {
        Event::TurnEnded { text: Some(text), calls: 0, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// What one client observed must match the journal.
fn check_record(record: &Record, journal: &Journal, tree: &[&Journal], violations: &mut Vec<String>) {
    let mut fault = |what: String| violations.push(format!("{}: {what}", record.name));
    match &record.ended {
        None => fault("its client never learned how it ended".into()),
        Some((state, response)) => {
            if state != journal.head.status().as_str() {
                fault(format!("was {state} to its client and is {:?}", journal.head.status()));
            }
            if response.as_deref() != answer(&journal.entries) {
                fault(format!("answered {response:?} to its client and {:?} in its journal", answer(&journal.entries)));
            }
        }
    }
    if let Some(hours) = record.hours {
        let labels = BTreeMap::from([("hours".to_owned(), hours.to_string())]);
        let is_so = journal.head.limits.ttl.as_secs() == u64::from(hours) * 3_600;
        if journal.head.labels.as_deref() != Some(&labels) || !is_so {
            fault(format!("was changed to {hours} hours and is {:?}", journal.head));
        }
    }
    let mut fresh: BTreeMap<&str, u32> = BTreeMap::new();
    for post in &record.posts {
        let Ok(call) = post.call.parse::<CallId>() else {
            fault(format!("`{}` is not the id of a call", post.call));
            continue;
        };
        let resolved = tree.iter().flat_map(|journal| &journal.entries).find_map(|entry| match &entry.event {
            Event::CallResolved { call: resolved, outcome, .. } if *resolved == call => Some(outcome),
            _ => None,
        });
        let same = resolved == Some(&outcome(&post.content).into());
        match post.verdict {
            PostVerdict::Accepted | PostVerdict::Replayed if !same => {
                fault(format!("{call}: result `{}` was acknowledged, and {resolved:?} is recorded", post.content));
            }
            PostVerdict::Conflict if same || resolved.is_none() => {
                fault(format!("{call}: result `{}` was refused as different from {resolved:?}", post.content));
            }
            PostVerdict::Gone => {
                let state = tree.iter().find_map(|journal| journal.head.call(call)).map(|call| call.state);
                if !matches!(state, Some(CallState::Expired | CallState::Cancelled)) {
                    fault(format!("{call}: was refused as too late, and is {state:?}"));
                }
            }
            PostVerdict::Accepted | PostVerdict::Replayed | PostVerdict::Conflict => {}
        }
        if post.verdict == PostVerdict::Accepted {
            *fresh.entry(&post.call).or_default() += 1;
        }
    }
    check_decisions(record, tree, &mut fault);
    for (call, times) in fresh.into_iter().filter(|(_, times)| *times > 1) {
        fault(format!("{call}: a result was accepted {times} times"));
    }
}

/// Each decision matches the answer that its client got, and only one was the first.
fn check_decisions(record: &Record, tree: &[&Journal], fault: &mut impl FnMut(String)) {
    let recorded = |id: &str| {
        tree.iter().flat_map(|journal| &journal.entries).find_map(|entry| match &entry.event {
            Event::CallApproved { call, .. } if call.to_string() == id => Some(true),
            Event::CallRejected { call, .. } if call.to_string() == id => Some(false),
            _ => None,
        })
    };
    let mut first: BTreeSet<&str> = BTreeSet::new();
    for DecisionPost { call, approved, verdict } in &record.decisions {
        let recorded = recorded(call);
        let is_so = match verdict {
            PostVerdict::Accepted | PostVerdict::Replayed => recorded == Some(*approved),
            PostVerdict::Conflict => recorded == Some(!*approved),
            PostVerdict::Gone => recorded.is_none(),
        };
        if !is_so {
            fault(format!("{call}: approved: {approved} was answered with {verdict:?}, and {recorded:?} is recorded"));
        }
        if *verdict == PostVerdict::Accepted && !first.insert(call) {
            fault(format!("{call}: a decision was accepted twice"));
        }
    }
}

/// What is recorded of a result.
fn outcome(content: &str) -> Outcome {
    let value = Value::from(spelled_out(content));
    if content.starts_with(LARGE) {
        return Outcome::Success { content: Content::Large(Large::of(&value).0) };
    }
    Outcome::success(value)
}

/// A journal never refers to a large result that is not there, whole.
fn check_blobs(data: &Path, journals: &[Journal], figures: &mut Figures, violations: &mut Vec<String>) {
    for journal in journals {
        for large in journal.entries.iter().filter_map(|entry| entry.event.large()) {
            figures.large_results += 1;
            let kept = std::fs::read(data.join("blobs").join(large.hash.to_string()));
            if !kept.as_ref().is_ok_and(|bytes| ContentHash::of(bytes) == large.hash) {
                let found = kept.map(|bytes| bytes.len());
                violations.push(format!("{}: refers to blob {}, which is {found:?}", journal.head.name, large.hash));
            }
        }
    }
}

/// Each line of the ledger is one real run of a tool.
fn check_ledger(ledger: &Path, journals: &[Journal], figures: &mut Figures, violations: &mut Vec<String>) {
    let mut runs: BTreeMap<String, (String, u64)> = BTreeMap::new();
    for line in std::fs::read_to_string(ledger).unwrap_or_default().lines() {
        figures.ledger_lines += 1;
        let line: Value = match serde_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                violations.push(format!("ledger: `{line}` is not a whole line: {error}"));
                continue;
            }
        };
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        runs.entry(text("call")).or_insert_with(|| (text("tool"), 0)).1 += 1;
    }
    let mut known = BTreeSet::new();
    for journal in journals {
        for entry in &journal.entries {
            match &entry.event {
                Event::CallAsked(asked) => {
                    known.insert(asked.call.to_string());
                }
                Event::CallRejected { call, .. } => {
                    let ran = runs.contains_key(&call.to_string());
                    if ran {
                        violations.push(format!("ledger: {call} was rejected and ran"));
                    }
                }
                Event::CallFinished { call, outcome } => {
                    let ran = runs.get(&call.to_string()).map_or(0, |(_, times)| *times);
                    let tool = journal.head.call(*call).map_or("", |call| &*call.tool);
                    let is_unknown =
                        matches!(&**outcome, Outcome::Failure { code, .. } if code == outcome_code::OUTCOME_UNKNOWN);
                    figures.outcome_unknown += u64::from(is_unknown);
                    if tool.starts_with("ledger") && outcome.is_success() && ran == 0 {
                        violations.push(format!("ledger: {call} has succeeded without a run"));
                    }
                }
                _ => {}
            }
        }
    }
    for (call, (tool, times)) in runs {
        let may_repeat = tool == "ledger_idempotent";
        if !may_repeat && times > 1 {
            violations.push(format!("ledger: {call} must not run twice and ran {times} times"));
        }
        if may_repeat {
            figures.repeated_runs += times - 1;
        }
        if !known.contains(&call) {
            if may_repeat {
                figures.orphaned_runs += times;
            } else {
                violations.push(format!("ledger: {call} ran, and no journal knows of it"));
            }
        }
    }
}

/// All journals of a store that no process has open. Each must be whole, and the stored head its fold.
pub(crate) fn read_journals(data: &Path, violations: &mut Vec<String>) -> Vec<Journal> {
    let file = Connection::open_with_flags(data.join("bosun.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a store");
    let damage: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    if damage != "ok" {
        violations.push(format!("store: {damage}"));
    }
    let mut rows = file.prepare("SELECT id, head FROM queries ORDER BY id").expect("a table of queries");
    let queries: Vec<(i64, String)> = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("queries")
        .map(|row| row.expect("a row"))
        .collect();
    // By their key, which is a query's number and an entry's in one: anything else would read all journals for each.
    let mut rows = file
        .prepare("SELECT seq, at, body FROM journal WHERE key > ?1 << 24 AND key < (?1 + 1) << 24 ORDER BY key")
        .expect("a table of entries");
    let mut journals = Vec::new();
    let mut entries_read = 0;
    for (id, head) in queries {
        let head: Head = serde_json::from_str(&head).expect("a head");
        let entries: Vec<Entry> = rows
            .query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)))
            .expect("entries")
            .map(|row| {
                let (seq, at, body) = row.expect("a row");
                Entry { seq, at: Timestamp(at), event: Event::decode(&body).expect("an event") }
            })
            .collect();
        entries_read += entries.len();
        match fold(&head, &entries) {
            Ok(folded) if folded == head => {}
            Ok(folded) => {
                violations.push(format!("{}: its head is {head:?}, and its journal says {folded:?}", head.name));
            }
            Err(error) => violations.push(format!("{}: {error}", head.name)),
        }
        journals.push(Journal { head, entries });
    }
    let all: usize = file.query_row("SELECT count(*) FROM journal", [], |row| row.get(0)).expect("a count");
    if all != entries_read {
        violations.push(format!("store: {} entries belong to no query", all - entries_read));
    }
    journals
}

/// What the journal folds to. An entry that is missing, or there twice, is an error.
fn fold(head: &Head, entries: &[Entry]) -> Result<Head, FoldError> {
    let (first, rest) = entries.split_first().ok_or(FoldError::NotCreated(head.uid))?;
    let mut folded = Head::new(head.uid, head.namespace.clone(), head.name.clone(), first)?;
    rest.iter().try_for_each(|entry| folded.apply(entry))?;
    Ok(folded)
}
