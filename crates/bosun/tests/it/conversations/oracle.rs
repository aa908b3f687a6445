//! What must be true of conversations, whatever happened to the server.
//!
//! - A completed query appears in its conversation exactly once, complete, with the messages of its journal; a query
//!   that did not complete appears in none. Messages are numbered without a gap.
//! - What a query was shown is the end of its conversation at some moment: all of the exchanges up to one, cut at
//!   the window. That moment is not before anything that a client knew to be completed when the query was created,
//!   and not after the query itself; where queries are alone in a conversation, it is right before the query.
//! - Every request to the model begins with such a history, and for every query that exists, with its own.
//!
//! Windows are cut and messages are compared by the rules of `docs/conversations.md`, implemented independently here.

use std::collections::HashMap;

use bosun_core::{ContentHash, Event, Status, message};
use bosun_standin::Recorded;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::{CONVERSATIONS, SharedConversation, Window, workload::ClientRecord};
use crate::support::{
    oracle::{Journal, messages, read_journals},
    server::World,
};

/// The counts of the oracle.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) queries: u64,
    pub(super) completed: u64,
    pub(super) recoveries: u64,
    pub(super) requests: u64,
    /// Queries that were shown something.
    pub(super) histories: u64,
    /// Those of them that were not shown all.
    pub(super) cut: u64,
    /// Requests for a query whose creation a kill undid, before it was acknowledged.
    pub(super) lost: u64,
}

/// One conversation as it is in the end, and every history of it that there ever was.
#[derive(Debug, Default)]
struct Conversation {
    /// The position of each query.
    places: HashMap<String, usize>,
    /// Every history, as text: how many exchanges there were then, and whether it is cut.
    moments: HashMap<String, (usize, bool)>,
}

/// Compares the clients' records, the files of the world and the requests to the model.
pub(super) fn check(world: &World, records: &[ClientRecord], requests: &[Recorded]) -> (Figures, Vec<String>) {
    let mut violations = Vec::new();
    let journals = read_journals(&world.data(), &mut violations);
    let store = Connection::open_with_flags(world.data().join("bosun.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a store that no process has open");
    let mut oracle = Oracle {
        journals: journals.iter().map(|journal| (journal.head.name.as_str(), journal)).collect(),
        conversations: HashMap::new(),
        shown: HashMap::new(),
        figures: Figures::default(),
        violations,
    };
    oracle.read_conversations(&store);
    oracle.check_journals(&store);
    records.iter().for_each(|record| oracle.check_record(record));
    requests.iter().for_each(|request| oracle.check_request(request));
    oracle.check_that_all_were_asked();
    let log = std::fs::read_to_string(world.log()).unwrap_or_default();
    oracle.violations.extend(log.lines().filter(|line| line.contains("panicked")).map(|line| format!("log: {line}")));
    (oracle.figures, oracle.violations)
}

struct Oracle<'a> {
    journals: HashMap<&'a str, &'a Journal>,
    /// By memory and id.
    conversations: HashMap<(String, String), Conversation>,
    /// Of each query, the history that is stored with it, as text, and how often the model was asked with it.
    shown: HashMap<&'a str, (String, u64)>,
    figures: Figures,
    violations: Vec<String>,
}

impl Oracle<'_> {
    fn fault(&mut self, name: &str, what: impl std::fmt::Display) {
        self.violations.push(format!("{name}: {what}"));
    }

    fn read_conversations(&mut self, store: &Connection) {
        let count = |sql: &str| store.query_row(sql, [], |row| row.get::<_, u64>(0)).expect("a count");
        let strays = count("SELECT count(*) FROM exchanges WHERE conversation NOT IN (SELECT id FROM conversations)");
        let empty = count("SELECT count(*) FROM conversations WHERE id NOT IN (SELECT conversation FROM exchanges)");
        if (strays, empty) != (0, 0) {
            self.fault(
                "store",
                format!("{strays} exchanges without a conversation, {empty} conversations without one"),
            );
        }
        for shared in CONVERSATIONS {
            let conversation = self.read_conversation(store, shared);
            self.conversations.insert((shared.memory.to_owned(), shared.id.to_owned()), conversation);
        }
    }

    /// Reads one conversation, checks it by itself and against the journals, and cuts every history of it.
    fn read_conversation(&mut self, store: &Connection, shared: &SharedConversation) -> Conversation {
        let place = format!("{}/{}", shared.memory, shared.id);
        let (id, numbered, latest): (i64, u64, i64) = store
            .query_row(
                "SELECT id, messages, latest FROM conversations WHERE memory = ?1 AND name = ?2",
                [shared.memory, shared.id],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .expect("a row of every shared conversation");
        let mut rows = store
            .prepare(
                "SELECT id, name, first, messages, tokens, body FROM exchanges WHERE conversation = ?1 ORDER BY id",
            )
            .expect("a table of exchanges");
        let mut rows = rows.query([id]).expect("exchanges");
        let mut conversation = Conversation::default();
        let mut all: Vec<Vec<Value>> = Vec::new();
        conversation.moments.insert(text(&[]), (0, false));
        let (mut next, mut last) = (1, 0);
        while let Some(row) = rows.next().expect("a row") {
            let get = |column| row.get::<_, u64>(column).expect("a number");
            let name: String = row.get(1).expect("a name");
            let body: String = row.get(5).expect("a body");
            let exchange: Vec<_> = match serde_json::from_str::<Value>(&body) {
                Ok(body) => body["messages"].as_array().into_iter().flatten().map(comparable).collect(),
                Err(error) => {
                    self.fault(&name, format!("is half written in {place}: {error}"));
                    continue;
                }
            };
            let (first, messages, tokens) = (get(2), get(3), get(4));
            if first != next || messages != exchange.len() as u64 || tokens != cost(&exchange) as u64 {
                self.fault(
                    &name,
                    format!(
                        "is {messages} messages of {tokens} tokens from {first} on, not {exchange:?} from {next} on"
                    ),
                );
            }
            (next, last) = (first + messages, row.get(0).expect("an id"));
            match self.journals.get(name.as_str()) {
                Some(journal) if journal.head.status() == Status::Completed => {
                    let own = own(journal);
                    if own != exchange {
                        self.fault(&name, format!("has {own:?} in its journal and {exchange:?} in {place}"));
                    }
                }
                other => {
                    let status = other.map(|journal| journal.head.status());
                    self.fault(&name, format!("is remembered in {place} and is {status:?}"));
                }
            }
            if conversation.places.insert(name.clone(), all.len()).is_some() {
                self.fault(&name, format!("is twice in {place}"));
            }
            all.push(exchange);
            let shown = cut(&all, shared.window);
            conversation.moments.insert(text(&shown.concat()), (all.len(), shown.len() < all.len()));
        }
        if (numbered, latest) != (next - 1, last) {
            self.fault(
                &place,
                format!("has {} messages and ends with {last}, and its row has {numbered} and {latest}", next - 1),
            );
        }
        conversation
    }

    /// Every query is in its conversation or in none, and what it was shown is stored with it.
    fn check_journals(&mut self, store: &Connection) {
        let mut document = store.prepare("SELECT body FROM documents WHERE hash = ?1").expect("a table of documents");
        let journals: Vec<_> = self.journals.iter().map(|(name, journal)| (*name, *journal)).collect();
        for (name, journal) in journals {
            self.figures.queries += 1;
            self.figures.recoveries +=
                journal.entries.iter().filter(|entry| matches!(entry.event, Event::Recovered { .. })).count() as u64;
            if !journal.head.status().is_final() {
                self.fault(name, format!("never ended: {:?}", journal.head.status()));
            }
            let Some(Event::Created { spec, .. }) = journal.entries.first().map(|entry| &entry.event) else { continue };
            let Some(frozen) = &spec.conversation else {
                self.fault(name, "has no conversation");
                continue;
            };
            let shown = match frozen.history {
                None => text(&[]),
                Some(hash) => match document.query_row([hash.as_bytes()], |row| row.get::<_, String>(0)) {
                    Ok(body) if ContentHash::of(body.as_bytes()) == hash => {
                        let body: Value = serde_json::from_str(&body).expect("a document with its own hash");
                        text(&body["messages"].as_array().into_iter().flatten().map(comparable).collect::<Vec<_>>())
                    }
                    other => {
                        self.fault(name, format!("has no history {hash}: {other:?}"));
                        continue;
                    }
                },
            };
            self.shown.insert(name, (shown.clone(), 0));
            let completed = journal.head.status() == Status::Completed;
            self.figures.completed += u64::from(completed);
            let shared = self.conversations.get(&(frozen.key.memory.clone(), frozen.key.id.clone()));
            let place = shared.and_then(|shared| shared.places.get(name).copied());
            let moment = shared.and_then(|shared| shared.moments.get(&shown).copied());
            if place.is_some() != completed {
                self.fault(name, format!("is completed: {completed}, and has place {place:?} in {:?}", frozen.key));
            }
            let Some((moment, cut)) = moment else {
                self.fault(name, format!("was shown what {:?} never was: {shown}", frozen.key));
                continue;
            };
            self.figures.histories += u64::from(moment > 0);
            self.figures.cut += u64::from(cut);
            if place.is_some_and(|place| moment > place) {
                self.fault(name, format!("is number {place:?} and was shown {moment} others"));
            }
        }
    }

    /// A query was shown what clients knew when it was created; and their answers about it are true.
    fn check_record(&mut self, record: &ClientRecord) {
        let name = record.name.as_str();
        self.violations.extend(record.violations.iter().map(|what| format!("{name}: {what}")));
        let Some(journal) = self.journals.get(name).copied() else {
            return self.fault(name, "was acknowledged and is lost");
        };
        let exchange = own(journal);
        let answer = exchange.last().and_then(|message| message["content"].as_str());
        match &record.ended {
            None => self.fault(name, "its client never learned how it ended"),
            Some((state, _)) if state != record.meant => {
                self.fault(name, format!("was to be {} and is {state}: {:?}", record.meant, journal.entries.last()));
            }
            Some((state, _)) if state != journal.head.status().as_str() => {
                self.fault(name, format!("was {state} to its client and is {:?}", journal.head.status()));
            }
            Some((state, response)) if state == "completed" && response.as_deref() != answer => {
                self.fault(name, format!("answered {response:?} to its client and {answer:?} in its journal"));
            }
            Some(_) => {}
        }
        let shared = CONVERSATIONS[record.shared];
        let conversation = &self.conversations[&(shared.memory.to_owned(), shared.id.to_owned())];
        let Some((moment, _)) = self.shown.get(name).and_then(|(shown, _)| conversation.moments.get(shown)) else {
            return;
        };
        let unknown =
            record.known.iter().find(|known| conversation.places.get(*known).is_none_or(|place| place >= moment));
        let behind = conversation.places.get(name).filter(|place| shared.alone && *place != moment);
        let faults = [
            unknown.map(|known| format!("was begun after {known} was completed, and was not shown it")),
            behind.map(|place| format!("was alone, is number {place} and was shown {moment} others")),
        ];
        faults.into_iter().flatten().for_each(|what| self.fault(name, what));
    }

    /// A request is the prompt, a history, and the messages of its own query so far.
    fn check_request(&mut self, request: &Recorded) {
        self.figures.requests += 1;
        let body: Value = serde_json::from_str(&request.body).expect("a request is JSON");
        let messages: Vec<_> = body["messages"].as_array().into_iter().flatten().map(comparable).collect();
        let asked = messages.iter().rposition(|message| message["role"] == "user").expect("a user message");
        let input = messages[asked]["content"].as_str().unwrap_or_default();
        let name = input.split(' ').nth(1).unwrap_or_default().to_owned();
        if messages[0] != json!({"role": "system", "content": "Talk."}) {
            self.fault(&name, format!("its model was sent {}", messages[0]));
        }
        let (history, own_part) = (text(&messages[1..asked]), &messages[asked..]);
        let Some(journal) = self.journals.get(name.as_str()).copied() else {
            return self.fault(&name, "its model was asked, and no journal knows of it");
        };
        if !self.conversations.values().any(|shared| shared.moments.contains_key(&history)) {
            self.fault(&name, format!("its model was shown what no conversation ever was: {history}"));
        }
        match self.shown.get_mut(name.as_str()) {
            Some((shown, times)) if *shown == history => *times += 1,
            _ => return self.figures.lost += 1,
        }
        // The calls of a turn that was lost and made again have other ids.
        let plain = |messages: &[Value]| -> Vec<Value> {
            messages.iter().map(|message| json!([message["role"], message["content"]])).collect()
        };
        if !plain(&own(journal)).starts_with(&plain(own_part)) {
            self.fault(&name, format!("its model was shown {own_part:?}, and its journal has {:?}", own(journal)));
        }
    }

    fn check_that_all_were_asked(&mut self) {
        let unasked: Vec<_> = self.shown.iter().filter(|(_, (_, times))| *times == 0).map(|(name, _)| *name).collect();
        for name in unasked {
            self.fault(name, "no model was asked with the history that is stored with it");
        }
    }
}

/// The messages of a query by its journal alone: its prompt is not among them.
fn own(journal: &Journal) -> Vec<Value> {
    let messages = messages(&journal.entries);
    messages.iter().map(|message| comparable(&message::write(message))).filter(|it| it["role"] != "system").collect()
}

/// A message without what only some of its forms have: the name of a result's tool, what a provider adds.
fn comparable(message: &Value) -> Value {
    let mut comparable = json!({"role": message["role"], "content": message["content"]});
    for field in ["tool_call_id", "tool_calls"] {
        if let Some(value) = message.get(field) {
            comparable[field] = value.clone();
        }
    }
    comparable
}

/// The end of a conversation that a window holds: whole exchanges, and at least the last one.
fn cut(all: &[Vec<Value>], window: Window) -> &[Vec<Value>] {
    let (limit, size): (usize, fn(&[Value]) -> usize) = match window {
        Window::Messages(limit) => (limit, <[Value]>::len),
        Window::Tokens(limit) => (limit, cost),
    };
    let mut held = 0;
    let fits = |exchange: &&Vec<Value>| {
        held += size(exchange);
        held <= limit
    };
    let held = all.iter().rev().take_while(fits).count().max(1);
    &all[all.len() - held..]
}

/// Four bytes are a token, and each message four more.
fn cost(exchange: &[Value]) -> usize {
    let length = |text: &Value| text.as_str().map_or(0, str::len);
    let one = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: usize =
            calls.map(|call| length(&call["function"]["name"]) + length(&call["function"]["arguments"])).sum();
        4 + (length(&message["content"]) + calls).div_ceil(4)
    };
    exchange.iter().map(one).sum()
}

fn text(messages: &[Value]) -> String {
    Value::from(messages.to_vec()).to_string()
}
