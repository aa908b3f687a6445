//! The table of open calls that workers may claim.

use bosun_core::Head;
use rusqlite::params;

use super::transaction::WriteConnection;

const DROP_CLAIMABLE: &str = "DELETE FROM claimable WHERE query = ?1";
const ADD_CLAIMABLE: &str = "INSERT INTO claimable (query, call, namespace, tool) VALUES (?1, ?2, ?3, ?4)";

impl WriteConnection {
    /// Writes the open calls of a query that workers may claim. Most queries never have any.
    pub(super) fn write_claimable(&self, id: i64, head: &Head) -> rusqlite::Result<()> {
        if head.calls.iter().all(|call| call.claim.is_none()) {
            return Ok(());
        }
        self.connection.prepare_cached(DROP_CLAIMABLE)?.execute([id])?;
        let mut add = self.connection.prepare_cached(ADD_CLAIMABLE)?;
        for (call, _) in head.claimable() {
            add.execute(params![id, call.id.to_string(), head.namespace.as_str(), &*call.tool])?;
        }
        Ok(())
    }
}
