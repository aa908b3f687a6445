//! Resources stored by clients, one row each.
//!
//! They are few and change seldom, so each change is a transaction of its own, on the writer thread. A resource that
//! this version cannot read is left out of the list, logged, and kept.

use bosun_core::{Namespace, Timestamp};
use bosun_engine::{
    StoreError, fault,
    resource::{Manifest, ManifestBody, ManifestChange, ResourceChange, ResourceKey, ResourceKind, StoredResource},
    store::Rejection,
};
use rusqlite::{Connection, Row, params};

use super::{
    audit::AuditChanges,
    transaction::{WriteConnection, unavailable},
};

const KEEP: &str = "INSERT OR REPLACE INTO resources (kind, namespace, name, generation, created, updated, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const REMOVE: &str = "DELETE FROM resources WHERE kind = ?1 AND namespace = ?2 AND name = ?3";
const ALL: &str = "SELECT kind, namespace, name, generation, created, updated, body FROM resources";
/// By kind, which the primary key begins with.
const OF_NAMESPACE: &str = "SELECT kind, namespace, resources.name, generation, created, updated, body \
     FROM json_each(?1) JOIN resources ON kind = json_each.value AND namespace = ?2";
/// The same, with the name as the first column.
pub(super) const BY_NAME: &str =
    "SELECT name, kind, namespace, name, generation, created, updated, body FROM resources";

impl WriteConnection {
    /// Makes one change, in one transaction. The connection must not be used after a failure.
    pub(super) fn change_resource(&mut self, epoch: i64, change: &ResourceChange) -> Result<(), Rejection> {
        if !self.begin(epoch).map_err(unavailable)? {
            return Err(Rejection::Fenced);
        }
        self.write_resource(&change.what).map_err(unavailable)?;
        let mut changes = AuditChanges::default();
        self.write_record(&change.what.key().namespace, &change.record, &mut changes).map_err(unavailable)?;
        fault::point("store.resource");
        self.run("COMMIT").map_err(unavailable)?;
        fault::point("store.resource_kept");
        self.audit.committed(changes);
        Ok(())
    }

    fn write_resource(&self, change: &ManifestChange) -> rusqlite::Result<()> {
        match change {
            ManifestChange::Keep(stored) => {
                let Manifest { key: ResourceKey { kind, namespace, name }, description } = &stored.manifest;
                let body = serde_json::to_string(description)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
                self.connection.prepare_cached(KEEP)?.execute(params![
                    kind.as_str(),
                    namespace.as_str(),
                    name,
                    stored.generation,
                    stored.created_at.0,
                    stored.updated_at.0,
                    body
                ])?;
            }
            ManifestChange::Remove(ResourceKey { kind, namespace, name }) => {
                self.connection.prepare_cached(REMOVE)?.execute(params![kind.as_str(), namespace.as_str(), name])?;
            }
        }
        Ok(())
    }
}

/// The resources of one namespace, or of all.
pub(super) fn list(connection: &Connection, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError> {
    let unavailable = |error: rusqlite::Error| StoreError::Unavailable(Box::new(error));
    let mut statement =
        connection.prepare_cached(if namespace.is_some() { OF_NAMESPACE } else { ALL }).map_err(unavailable)?;
    let kinds = serde_json::json!(ResourceKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>()).to_string();
    let rows = match namespace {
        Some(namespace) => statement.query(params![kinds, namespace.as_str()]),
        None => statement.query([]),
    };
    let mut rows = rows.map_err(unavailable)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        match read(row, 0).map_err(unavailable)? {
            Ok(stored) => found.push(stored),
            Err(what) => tracing::error!(resource = what, "a stored resource is left out because it is not readable"),
        }
    }
    found.sort_by(|left, right| left.manifest.key.cmp(&right.manifest.key));
    Ok(found)
}

/// The same for a row of [`BY_NAME`].
pub(super) fn read_named(row: &Row<'_>) -> rusqlite::Result<Result<StoredResource, String>> {
    read(row, 1)
}

/// Reads one resource from the columns from `first` on, or returns the name of what cannot be read.
fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Result<StoredResource, String>> {
    let (kind, namespace, name): (String, String, String) = (row.get(first)?, row.get(first + 1)?, row.get(first + 2)?);
    let body: String = row.get(first + 6)?;
    let parts =
        (ResourceKind::parse(&kind), namespace.parse::<Namespace>().ok(), serde_json::from_str::<ManifestBody>(&body));
    let (Some(kind), Some(namespace), Ok(description)) = parts else {
        return Ok(Err(format!("{kind} {namespace}/{name}")));
    };
    Ok(Ok(StoredResource {
        manifest: Manifest { key: ResourceKey { kind, namespace, name }, description },
        generation: row.get(first + 3)?,
        created_at: Timestamp(row.get(first + 4)?),
        updated_at: Timestamp(row.get(first + 5)?),
    }))
}
