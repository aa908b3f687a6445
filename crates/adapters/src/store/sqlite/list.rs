//! Lists of queries, by state, labels, session, target and time.
//!
//! One index drives a list, and everything else that it asks for is compared row by row: a session, a label with one
//! value or a target if it has one, else the state, else the age. All of these are in the order of ids, so a page is
//! read as far as it is wanted and nothing is sorted.

use bosun_core::{
    Entry, Head, Namespace, QueryUid, Seq,
    tool::label_selector::{LabelExpression, LabelRequirement},
};
use bosun_engine::store::{ENDING, ListedQueries, PAGE_BYTES, QueryPage, QueryTerm, StoreError, shown_from};
use rusqlite::{Connection, Row, ToSql, params, params_from_iter};

use super::{
    read::{entry, head, readable, uid, unavailable},
    transaction::SEQ_BITS,
};

/// Entries of one journal, by their numbers.
pub(super) const ENTRIES: &str = "SELECT seq, at, body FROM journal WHERE key > ?1 AND key <= ?2 ORDER BY key";
/// Enough for an answer with a few calls in it. The journal of a query that waits for more calls is read completely.
const WAITING: usize = 8;

/// The statements of a list, and the values of their parameters.
pub(super) struct ListSearch {
    /// Without a LIMIT: an unreadable query does not count, and rows are read only as far as wanted.
    pub(super) list: String,
    pub(super) count: String,
    values: Vec<Box<dyn ToSql>>,
    /// The list continues before this id; the count does not.
    before: Option<QueryUid>,
}

/// What a list is driven by, and the conditions on its rows.
struct Conditions {
    texts: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    /// Adds a condition, in which `?` stands for each of the values, in their order.
    fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Box<dyn ToSql>>) {
        let mut text = String::with_capacity(condition.len() + 8);
        let mut values = values.into_iter();
        for letter in condition.chars() {
            text.push(letter);
            if letter == '?' {
                self.values.extend(values.next());
                text.push_str(&self.values.len().to_string());
            }
        }
        self.texts.push(text);
    }

    /// Requires that the query has, or has not, a term with this name and one of these values; any value if there are
    /// none.
    fn add_term(&mut self, is_required: bool, name: String, values: Vec<String>) {
        let not = if is_required { "" } else { "NOT " };
        let marks = vec!["?"; values.len()].join(", ");
        let with_value = if values.is_empty() { String::new() } else { format!(" AND value IN ({marks})") };
        let condition =
            format!("{not}EXISTS (SELECT 1 FROM query_terms WHERE query = queries.id AND name = ?{with_value})");
        let values = values.into_iter().map(boxed);
        self.add(&condition, std::iter::once(boxed(name)).chain(values));
    }
}

fn boxed<T: ToSql + 'static>(value: T) -> Box<dyn ToSql> {
    Box::new(value)
}

impl ListSearch {
    pub(super) fn new(namespace: &Namespace, page: &QueryPage) -> Self {
        let mut conditions = Conditions { texts: Vec::new(), values: Vec::new() };
        let mut terms = page.session.iter().map(|session| QueryTerm::session(session)).collect::<Vec<_>>();
        terms.extend(page.labels.match_labels.iter().map(|(key, value)| QueryTerm::label(key, value)));
        terms.extend(page.target.iter().map(|(kind, name)| QueryTerm::target(*kind, name)));
        let mut terms = terms.into_iter();
        let is_final = page.status.map(bosun_core::Status::is_final);
        let (from, id) = if let Some(QueryTerm { name, value }) = terms.next() {
            let namespace = namespace.to_string();
            conditions.add(
                "found.namespace = ? AND found.name = ? AND found.value = ?",
                [boxed(namespace), boxed(name), boxed(value)],
            );
            ("query_terms AS found CROSS JOIN queries ON queries.id = found.query", "found.uid")
        } else {
            conditions.add("queries.namespace = ?", [boxed(namespace.to_string())]);
            let from = match is_final {
                _ if page.approvals => "queries INDEXED BY queries_with_approvals",
                Some(true) => "queries INDEXED BY queries_ended",
                Some(false) => "queries INDEXED BY queries_open",
                None => "queries INDEXED BY queries_by_age",
            };
            (from, "queries.uid")
        };
        terms.for_each(|QueryTerm { name, value }| conditions.add_term(true, name, vec![value]));
        for LabelExpression { key, requirement } in &page.labels.match_expressions {
            let name = QueryTerm::label_name(key);
            match requirement {
                // No value is in an empty list.
                LabelRequirement::In(values) if values.is_empty() => conditions.add("0", []),
                LabelRequirement::In(values) => conditions.add_term(true, name, values.clone()),
                LabelRequirement::NotIn(values) if values.is_empty() => {}
                LabelRequirement::NotIn(values) => conditions.add_term(false, name, values.clone()),
                LabelRequirement::Exists => conditions.add_term(true, name, Vec::new()),
                LabelRequirement::DoesNotExist => conditions.add_term(false, name, Vec::new()),
            }
        }
        if page.approvals {
            conditions.add("approvals > 0", []);
        }
        if let Some(status) = page.status {
            let ended = if status.is_final() { "expires IS NOT NULL" } else { "expires IS NULL" };
            conditions.add(&format!("{ended} AND status = ?"), [boxed(status.as_str())]);
        }
        let (first, end) = page.created();
        if let Some(first) = first {
            conditions.add(&format!("{id} >= ?"), [boxed(first.as_bytes().to_vec())]);
        }
        if let Some(end) = end {
            conditions.add(&format!("{id} < ?"), [boxed(end.as_bytes().to_vec())]);
        }
        let Conditions { texts, values } = conditions;
        let conditions = texts.join(" AND ");
        let before = page.before.map_or(String::new(), |_| format!(" AND {id} < ?{}", values.len() + 1));
        Self {
            list: format!(
                "SELECT queries.id, queries.uid, head, bytes, journal.seq, at, body FROM {from} \
                 CROSS JOIN journal ON key = queries.id << {SEQ_BITS} | 1 WHERE {conditions}{before} ORDER BY {id} DESC"
            ),
            count: format!("SELECT count(*) FROM {from} WHERE {conditions}"),
            values,
            before: page.before,
        }
    }

    fn count(&self, snapshot: &Connection) -> rusqlite::Result<u64> {
        snapshot.prepare_cached(&self.count)?.query_row(params_from_iter(&self.values), |row| row.get(0))
    }
}

/// A query of a page, and the row of it.
struct ListedRow {
    id: i64,
    head: Head,
    entries: Vec<Entry>,
}

pub(super) fn list(
    connection: &Connection,
    namespace: &Namespace,
    page: &QueryPage,
) -> Result<ListedQueries, StoreError> {
    let search = ListSearch::new(namespace, page);
    let snapshot = connection.unchecked_transaction().map_err(unavailable)?;
    let total = search.count(&snapshot).map_err(unavailable)?;
    let mut statement = snapshot.prepare_cached(&search.list).map_err(unavailable)?;
    let before = search.before.map(|before| boxed(before.as_bytes().to_vec()));
    let mut rows = statement.query(params_from_iter(search.values.iter().chain(&before))).map_err(unavailable)?;
    let mut listed: Vec<ListedRow> = Vec::new();
    let (mut bytes, mut last, mut next) = (0, page.before, None);
    while let Some(row) = rows.next().map_err(unavailable)? {
        if listed.len() == page.limit || bytes > PAGE_BYTES {
            next = last;
            break;
        }
        bytes += row.get::<_, usize>(3).map_err(unavailable)?;
        let uid = uid(row, 1)?;
        last = Some(uid);
        listed.extend(readable(uid, read_row(uid, row))?);
    }
    let mut queries = Vec::with_capacity(listed.len());
    for row in listed {
        let uid = row.head.uid;
        queries.extend(readable(uid, add_latest(&snapshot, row))?);
    }
    Ok(ListedQueries { queries, next, total })
}

fn read_row(uid: QueryUid, row: &Row<'_>) -> Result<ListedRow, StoreError> {
    let id = row.get(0).map_err(unavailable)?;
    Ok(ListedRow { id, head: head(uid, row, 2)?, entries: vec![entry(uid, row, 4)?] })
}

/// Adds the last entries of a journal: of a query that has ended, and of one that waits. For all others the head is
/// sufficient.
fn add_latest(snapshot: &Connection, row: ListedRow) -> Result<(Head, Vec<Entry>), StoreError> {
    let ListedRow { id, head, mut entries } = row;
    let wanted = match head.status() {
        status if status.is_final() => ENDING,
        _ if head.deadline().is_some() => WAITING,
        _ => return Ok((head, entries)),
    };
    let from = |entries: &[Entry]| shown_from(&head, entries[1..].iter().map(|entry| &entry.event));
    let after = head.seq.saturating_sub(wanted as Seq).max(1);
    entries.extend(entries_after(snapshot, id, &head, after)?);
    let from = match from(&entries) {
        Some(from) => from,
        None => {
            entries.truncate(1);
            entries.extend(entries_after(snapshot, id, &head, 1)?);
            from(&entries).unwrap_or_default()
        }
    };
    entries.drain(1..=from);
    Ok((head, entries))
}

fn entries_after(snapshot: &Connection, id: i64, head: &Head, after: Seq) -> Result<Vec<Entry>, StoreError> {
    let key = |seq: Seq| (id << SEQ_BITS) + seq as i64;
    let mut statement = snapshot.prepare_cached(ENTRIES).map_err(unavailable)?;
    let mut rows = statement.query(params![key(after), key(head.seq)]).map_err(unavailable)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        entries.push(entry(head.uid, row, 0)?);
    }
    Ok(entries)
}
