//! The table of what queries are found by: labels, session and target.

use bosun_core::Head;
use bosun_engine::store::TermChange;
use rusqlite::params;

use super::transaction::WriteConnection;

const DROP_LABELS: &str = "DELETE FROM query_terms WHERE query = ?1 AND substr(name, 1, length(?2)) = ?2";
const ADD_TERM: &str = "INSERT INTO query_terms (query, name, value, namespace, uid) VALUES (?1, ?2, ?3, ?4, ?5)";

impl WriteConnection {
    /// Writes the terms of a query that is created, or whose labels change.
    pub(super) fn write_terms(&self, id: i64, head: &Head, change: &TermChange) -> rusqlite::Result<()> {
        let terms = match change {
            TermChange::All(terms) => terms,
            TermChange::Labels(terms) => {
                self.connection.prepare_cached(DROP_LABELS)?.execute(params![id, TermChange::LABELS])?;
                terms
            }
        };
        let mut add = self.connection.prepare_cached(ADD_TERM)?;
        for term in terms {
            add.execute(params![id, term.name, term.value, head.namespace.as_str(), head.uid.as_bytes()])?;
        }
        Ok(())
    }
}
