//! Conversations in tables of their own, written with the append that completes a query.
//!
//! One row is what one query has added. Its size is stored with it, so a history is cut without reading what is cut
//! off.

use std::sync::Arc;

use bosun_core::{
    Namespace, QueryUid, Timestamp,
    audit::AuditRecord,
    conversation::{ConversationKey, History},
};
use bosun_engine::store::{
    PAGE_BYTES, StoreError,
    conversations::{Conversation, ConversationTurn, Exchange, Frame, Listing, Size, WantedConversations, outdated},
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    read::{name, uid, unavailable},
    transaction::WriteConnection,
};

/// One transaction deletes at most this many conversations, or exchanges of them.
const AT_MOST: usize = 64;

const FIND: &str = "SELECT id, messages FROM conversations WHERE namespace = ?1 AND memory = ?2 AND name = ?3";
const LATEST: &str = "SELECT query FROM conversations JOIN exchanges ON exchanges.id = latest \
     WHERE namespace = ?1 AND memory = ?2 AND conversations.name = ?3";
const ADD: &str = "INSERT INTO conversations (namespace, memory, name, messages, latest, expires) \
     VALUES (?1, ?2, ?3, 0, 0, ?4)";
const ADD_EXCHANGE: &str = "INSERT INTO exchanges (conversation, query, name, at, first, messages, tokens, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
/// A query with a short retention must not shorten the retention of what other queries have added.
const CHANGE: &str = "UPDATE conversations SET messages = ?2, latest = ?3, expires = max(expires, ?4) WHERE id = ?1";
pub(super) const OPEN: &str = "SELECT uid FROM queries WHERE namespace = ?1 AND conversation = ?2 AND expires IS NULL";
pub(super) const HISTORY: &str = "SELECT query, exchanges.name, at, first, exchanges.messages, tokens, length(body), body \
     FROM conversations JOIN exchanges ON conversation = conversations.id \
     WHERE namespace = ?1 AND memory = ?2 AND conversations.name = ?3 ORDER BY exchanges.id DESC";
/// The conditions and the cursor of a list.
const WANTED: &str = "namespace = ?1 AND (?2 IS NULL OR memory = ?2) AND (?3 IS NULL OR conversations.name = ?3)";
const OUTDATED: &str = "DELETE FROM conversations WHERE id IN \
     (SELECT id FROM conversations WHERE expires <= ?1 ORDER BY expires LIMIT ?2) RETURNING namespace, memory, name";
const LAST_LEFT: &str = "UPDATE conversations SET latest = (SELECT max(id) FROM exchanges WHERE conversation = ?1) \
     WHERE id = ?1 AND EXISTS (SELECT 1 FROM exchanges WHERE conversation = ?1)";
const FORGET_EMPTY: &str = "DELETE FROM conversations WHERE id = ?1 \
     AND NOT EXISTS (SELECT 1 FROM exchanges WHERE conversation = ?1)";

/// What a query adds, as it is stored; serialized by the callers, which run in parallel.
#[derive(Debug)]
pub(super) struct QueuedExchange {
    exchange: Exchange,
    size: Size,
    body: String,
}

impl QueuedExchange {
    pub(super) fn new(exchange: Exchange) -> Result<Self, serde_json::Error> {
        let body = History { messages: exchange.messages.to_vec() }.to_document()?;
        let size = Size::of(&exchange.messages, body.len());
        Ok(Self { exchange, size, body })
    }

    pub(super) fn key(&self) -> &ConversationKey {
        &self.exchange.key
    }
}

/// The conversation's name in the row of a query. No memory has a `/` in its name.
pub(super) fn text(key: &ConversationKey) -> String {
    format!("{}/{}", key.memory, key.id)
}

impl WriteConnection {
    pub(super) fn add_exchange(&self, namespace: &Namespace, queued: &QueuedExchange) -> rusqlite::Result<()> {
        let QueuedExchange { exchange, size, body } = queued;
        let connection = &self.connection;
        let names = params![namespace.as_str(), exchange.key.memory, exchange.key.id];
        let known: Option<(i64, u64)> =
            connection.prepare_cached(FIND)?.query_row(names, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (id, before) = match known {
            Some(known) => known,
            None => {
                let Exchange { key, kept_until, .. } = exchange;
                let row = params![namespace.as_str(), key.memory, key.id, kept_until.0];
                (connection.prepare_cached(ADD)?.insert(row)?, 0)
            }
        };
        let latest = connection.prepare_cached(ADD_EXCHANGE)?.insert(params![
            id,
            exchange.query.as_bytes(),
            exchange.name.as_str(),
            exchange.at.0,
            before + 1,
            size.messages,
            size.tokens,
            body,
        ])?;
        let row = params![id, before + size.messages, latest, exchange.kept_until.0];
        connection.prepare_cached(CHANGE)?.execute(row).map(|_| ())
    }

    /// The query that was the last to add to a conversation at the last commit.
    pub(super) fn latest_in(&self, namespace: &Namespace, key: &ConversationKey) -> rusqlite::Result<Option<QueryUid>> {
        let mut statement = self.connection.prepare_cached(LATEST)?;
        let latest =
            statement.query_row(params![namespace.as_str(), key.memory, key.id], |row| row.get(0)).optional()?;
        Ok(latest.map(QueryUid::from_bytes))
    }

    /// The queries of a conversation that were open at the last commit.
    pub(super) fn open_in(&self, namespace: &Namespace, conversation: &str) -> rusqlite::Result<Vec<QueryUid>> {
        let mut statement = self.connection.prepare_cached(OPEN)?;
        let rows = statement.query_map(params![namespace.as_str(), conversation], |row| row.get(0))?;
        rows.map(|row| row.map(QueryUid::from_bytes)).collect()
    }

    /// Deletes a bounded part of what is wanted, and returns how much was deleted.
    pub(super) fn delete(&self, namespace: &Namespace, wanted: &WantedConversations) -> rusqlite::Result<usize> {
        let connection = &self.connection;
        if wanted.query.is_none() {
            let sql = format!(
                "DELETE FROM conversations WHERE id IN (SELECT id FROM conversations WHERE {WANTED} LIMIT {AT_MOST})"
            );
            return connection.prepare_cached(&sql)?.execute(params![namespace.as_str(), wanted.memory, wanted.id]);
        }
        let sql = format!(
            "SELECT exchanges.id, conversation FROM exchanges JOIN conversations ON conversation = conversations.id \
             WHERE {WANTED} AND (exchanges.name = ?4 OR query = ?5) LIMIT {AT_MOST}"
        );
        let (query, by_uid) = query(wanted);
        let mut statement = connection.prepare_cached(&sql)?;
        let found: Vec<(i64, i64)> = statement
            .query_map(params![namespace.as_str(), wanted.memory, wanted.id, query, by_uid], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (exchange, conversation) in &found {
            connection.prepare_cached("DELETE FROM exchanges WHERE id = ?1")?.execute([exchange])?;
            connection.prepare_cached(LAST_LEFT)?.execute([conversation])?;
            connection.prepare_cached(FORGET_EMPTY)?.execute([conversation])?;
        }
        Ok(found.len())
    }

    /// Deletes a bounded number of those past their retention, and returns the audit records of that.
    pub(super) fn delete_outdated(&self, now: Timestamp) -> rusqlite::Result<Vec<(Namespace, AuditRecord)>> {
        let mut statement = self.connection.prepare_cached(OUTDATED)?;
        let forgotten = statement.query_map(params![now.0, AT_MOST], |row| {
            let namespace = row.get_ref(0)?.as_str()?.parse().unwrap_or_else(|_| Namespace::of_server());
            let key = ConversationKey { memory: row.get(1)?, id: row.get(2)? };
            Ok((namespace, outdated(&key, now)))
        })?;
        forgotten.collect()
    }
}

/// The name of the wanted query, and its uid if it can be one.
fn query(wanted: &WantedConversations) -> (Option<&str>, Option<[u8; 16]>) {
    let text = wanted.query.as_deref();
    (text, text.and_then(|text| text.parse::<QueryUid>().ok()).map(|uid| *uid.as_bytes()))
}

pub(super) fn history(
    connection: &Connection,
    namespace: &Namespace,
    key: &ConversationKey,
    mut frame: Frame,
) -> Result<Vec<ConversationTurn>, StoreError> {
    let mut statement = connection.prepare_cached(HISTORY).map_err(unavailable)?;
    let mut rows = statement.query(params![namespace.as_str(), key.memory, key.id]).map_err(unavailable)?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        let size = size(row).map_err(unavailable)?;
        if !frame.take(size) {
            break;
        }
        turns.push(read(row, key.clone())?);
    }
    turns.reverse();
    Ok(turns)
}

fn size(row: &Row<'_>) -> rusqlite::Result<Size> {
    Ok(Size { messages: row.get(4)?, tokens: row.get(5)?, bytes: row.get(6)? })
}

fn read(row: &Row<'_>, key: ConversationKey) -> Result<ConversationTurn, StoreError> {
    let body = row.get_ref(7).and_then(|value| Ok(value.as_str()?)).map_err(unavailable)?;
    let history = History::from_document(body).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    Ok(ConversationTurn {
        key,
        query: uid(row, 0)?,
        name: name(row, 1)?,
        at: Timestamp(row.get(2).map_err(unavailable)?),
        first: row.get(3).map_err(unavailable)?,
        messages: Arc::from(history.messages),
    })
}

pub(super) fn conversations(
    connection: &Connection,
    namespace: &Namespace,
    wanted: &WantedConversations,
    after: Option<QueryUid>,
    limit: usize,
) -> Result<Listing<Conversation>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(unavailable)?;
    let count = format!("SELECT count(*) FROM conversations WHERE {WANTED}");
    let total = snapshot
        .prepare_cached(&count)
        .and_then(|mut statement| {
            statement.query_row(params![namespace.as_str(), wanted.memory, wanted.id], |row| row.get(0))
        })
        .map_err(unavailable)?;
    let list = format!(
        "SELECT memory, conversations.name, query, at, \
         (SELECT sum(messages) FROM exchanges WHERE conversation = conversations.id) \
         FROM conversations JOIN exchanges ON exchanges.id = latest WHERE {WANTED} \
         AND (?4 IS NULL OR latest < (SELECT id FROM exchanges WHERE query = ?4)) ORDER BY latest DESC LIMIT ?5"
    );
    let mut statement = snapshot.prepare_cached(&list).map_err(unavailable)?;
    let after = after.map(|uid| *uid.as_bytes());
    let mut rows = statement
        .query(params![namespace.as_str(), wanted.memory, wanted.id, after, bounded(limit)])
        .map_err(unavailable)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        items.push(Conversation {
            key: key(row, 0)?,
            messages: row.get(4).map_err(unavailable)?,
            latest: uid(row, 2)?,
            updated_at: Timestamp(row.get(3).map_err(unavailable)?),
        });
    }
    Ok(page(items, limit, total))
}

pub(super) fn conversation_turns(
    connection: &Connection,
    namespace: &Namespace,
    wanted: &WantedConversations,
    after: Option<QueryUid>,
    limit: usize,
) -> Result<Listing<ConversationTurn>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(unavailable)?;
    let from = format!(
        "FROM exchanges JOIN conversations ON conversation = conversations.id WHERE {WANTED} \
         AND (?4 IS NULL OR exchanges.name = ?4 OR query = ?5)"
    );
    let (query, by_uid) = query(wanted);
    let count = format!("SELECT coalesce(sum(exchanges.messages), 0) {from}");
    let total = snapshot
        .prepare_cached(&count)
        .and_then(|mut statement| {
            let wanted = params![namespace.as_str(), wanted.memory, wanted.id, query, by_uid];
            statement.query_row(wanted, |row| row.get(0))
        })
        .map_err(unavailable)?;
    let list = format!(
        "SELECT query, exchanges.name, at, first, exchanges.messages, tokens, length(body), body, memory, \
         conversations.name {from} AND (?6 IS NULL OR exchanges.id > (SELECT id FROM exchanges WHERE query = ?6)) \
         ORDER BY exchanges.id LIMIT ?7"
    );
    let mut statement = snapshot.prepare_cached(&list).map_err(unavailable)?;
    let after = after.map(|uid| *uid.as_bytes());
    let mut rows = statement
        .query(params![namespace.as_str(), wanted.memory, wanted.id, query, by_uid, after, bounded(limit)])
        .map_err(unavailable)?;
    let (mut items, mut bytes, mut more) = (Vec::new(), 0, false);
    while let Some(row) = rows.next().map_err(unavailable)? {
        if items.len() == limit || bytes > PAGE_BYTES {
            more = true;
            break;
        }
        bytes += row.get::<_, usize>(6).map_err(unavailable)?;
        let key = key(row, 8)?;
        items.push(read(row, key)?);
    }
    Ok(Listing { items, more, total })
}

fn key(row: &Row<'_>, column: usize) -> Result<ConversationKey, StoreError> {
    let text = |column| row.get::<_, String>(column).map_err(unavailable);
    Ok(ConversationKey { memory: text(column)?, id: text(column + 1)? })
}

/// One more than the limit, to see whether there are more.
fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

fn page<T>(mut items: Vec<T>, limit: usize, total: u64) -> Listing<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    Listing { items, more, total }
}
