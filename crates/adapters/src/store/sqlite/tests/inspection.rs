//! Inspection covers every table: each is listed, and each is damaged once to see that it is reported.

use std::{collections::BTreeSet, time::Duration};

use bosun_core::{
    ContentHash, Outcome, Spec, Timestamp,
    audit::{Action, AuditRecord},
    conversation::{ConversationKey, History},
    machine,
    transcript::Message,
};
use bosun_engine::{
    resource::{Manifest, ManifestBody, ManifestChange, ResourceChange, ResourceKey, ResourceKind, StoredResource},
    store::{
        Append, IdempotentRequest, Records as _, RequestKey, Store as _, StoredDocument, Webhook, WebhookChange,
        WebhookProgress, Webhooks as _,
        conversations::{ConversationPart, Exchange, Joining},
    },
    testing::query_writer::{self, QueryWriter},
};
use rusqlite::Connection;

use super::TestDirectory;
use crate::store::sqlite::{
    Sqlite,
    inspect::{self, tables::TABLES},
};

/// Damage by an operator, or by a disk, for each table.
const DAMAGES: &[(&str, &str)] = &[
    ("writer", "DELETE FROM writer"),
    ("queries", "UPDATE queries SET status = 'running' WHERE id = (SELECT min(id) FROM queries)"),
    ("journal", "UPDATE journal SET body = '{}' WHERE key = (SELECT min(key) FROM journal)"),
    ("documents", "UPDATE documents SET body = '[]' WHERE id = (SELECT min(id) FROM documents)"),
    ("requests", "UPDATE requests SET uid = zeroblob(16)"),
    ("requests", "UPDATE requests SET fingerprint = x'00'"),
    ("blobs", "INSERT INTO blobs (hash, query) VALUES (zeroblob(32), 999)"),
    ("claimable", "UPDATE claimable SET tool = 'another'"),
    ("claimable", "DELETE FROM claimable"),
    ("claimable", "INSERT INTO claimable VALUES (99, 'call_x', 'default', 'tool')"),
    ("query_terms", "UPDATE query_terms SET value = 'another'"),
    ("query_terms", "DELETE FROM query_terms"),
    ("query_terms", "UPDATE query_terms SET uid = zeroblob(16)"),
    ("query_terms", "INSERT INTO query_terms VALUES (99, 'session', 's', 'default', zeroblob(16))"),
    ("audit", "UPDATE audit SET body = '{}' WHERE key = (SELECT min(key) FROM audit)"),
    ("audit", "DELETE FROM audit WHERE key = (SELECT min(key) + 3 FROM audit)"),
    ("audit", "INSERT INTO audit SELECT 99 << 40 | 1, body, mac FROM audit LIMIT 1"),
    ("audit_chains", "UPDATE audit_chains SET seq = seq + 1"),
    ("audit_chains", "UPDATE audit_chains SET let_go = 5"),
    ("audit_blocks", "UPDATE audit_blocks SET terms = x'00000000'"),
    ("audit_blocks", "UPDATE audit_blocks SET last_at = last_at - 1"),
    ("audit_blocks", "INSERT INTO audit_blocks VALUES (1 << 40 | 7, 0, 0, x'')"),
    ("usage_of_calls", "UPDATE usage_of_calls SET latency = 'x'"),
    ("usage_of_calls", "UPDATE usage_of_calls SET errors = calls + 1"),
    ("usage_of_queries", "UPDATE usage_of_queries SET tally = '[]'"),
    ("conversations", "UPDATE conversations SET latest = 99"),
    ("conversations", "UPDATE conversations SET messages = 0"),
    ("exchanges", "UPDATE exchanges SET body = 'x'"),
    ("exchanges", "UPDATE exchanges SET messages = messages + 1"),
    ("exchanges", "UPDATE exchanges SET conversation = 99"),
    ("resources", "UPDATE resources SET body = 'x'"),
    ("resources", "UPDATE resources SET kind = 'Dream'"),
    ("webhooks", "UPDATE webhooks SET target = 'x'"),
    ("webhooks", "UPDATE webhooks SET seq = 99"),
    ("webhooks", "UPDATE webhooks SET query = 99"),
];

/// A document that matches its hash.
fn served_document() -> StoredDocument {
    let body = History::default().to_document().unwrap();
    StoredDocument { hash: ContentHash::of(body.as_bytes()), body: body.into() }
}

/// A store with rows in each of its tables.
async fn full(directory: &TestDirectory) {
    let store = Sqlite::open(directory.path()).unwrap();
    let mut writer = QueryWriter::new("default", "a", 1);
    let key = ConversationKey { memory: "default".into(), id: "talk".into() };
    let request = IdempotentRequest {
        key: RequestKey { actor: "local".into(), route: "queries", key: "k".into() },
        fingerprint: ContentHash::of(b"asked"),
    };
    let joins = Some(ConversationPart::Joins(Joining { key: key.clone(), alone: false, after: None, history: None }));
    let document = served_document();
    let spec = Spec { toolset: document.hash, ..query_writer::spec() };
    let created = writer.create_as(spec);
    let created = Append { toolset: Some(document), request: Some(request), conversation: joins, ..created };
    writer.send(&store, created);
    writer.append(&store, machine::advance(writer.head()));
    writer.ask_outside(&store, Duration::from_secs(600));
    let events = writer.deliver(&Outcome::success("done"), false);
    writer.append(&store, events);
    let mut events = machine::advance(writer.head());
    let mut ahead = writer.clone();
    ahead.write(events.clone());
    events.extend(ahead.reply(Vec::new()));
    let mut append = writer.write(events);
    append.conversation = Some(ConversationPart::Adds(Exchange {
        key,
        query: writer.head().uid,
        name: writer.head().name.clone(),
        at: Timestamp(1),
        kept_until: Timestamp(i64::MAX / 2),
        messages: vec![Message::User("hello".into())].into(),
    }));
    writer.send(&store, append);
    let mut served = QueryWriter::new("default", "served", 2);
    let document = served_document();
    let created = served.create_as(Spec { toolset: document.hash, ..query_writer::spec() });
    served.send(&store, Append { toolset: Some(document), ..created });
    served.append(&store, machine::advance(served.head()));
    let worker = machine::CallDisposition::Worker { timeout: Duration::from_secs(600), repeatable: true };
    let events = served.reply(vec![worker]);
    served.append(&store, events);
    let head = served.head();
    let record = AuditRecord::of_webhook(head, Timestamp(1), Action::WebhookSet, None, "w");
    let webhook = Webhook {
        namespace: head.namespace.clone(),
        name: head.name.clone(),
        query: head.uid,
        id: "w".into(),
        target: "{}".into(),
        progress: WebhookProgress::default(),
    };
    assert!(store.change_webhook(WebhookChange::Put { webhook, at_most: 1, record: Box::new(record) }).await.unwrap());
    let act = |at| AuditRecord::of_act(Timestamp(at), Action::KeysReloaded, None, None);
    let position = store.record(&"default".parse().unwrap(), (0..300).map(act).collect()).unwrap();
    store.durable(position).await.unwrap();
    assert!(store.maintain_records(Timestamp(0)).await.unwrap());
    let manifest = Manifest {
        key: ResourceKey::new(ResourceKind::Agent, "default".parse().unwrap(), "agent"),
        description: ManifestBody::default(),
    };
    let stored = StoredResource { manifest, generation: 1, created_at: Timestamp(1), updated_at: Timestamp(1) };
    let change = ResourceChange { what: ManifestChange::Keep(Box::new(stored)), record: act(1) };
    store.change_resource(change).await.unwrap();
    store.close().await.unwrap();
}

fn tables(connection: &Connection) -> BTreeSet<String> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    connection.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn every_table_of_the_schema_is_inspected() {
    let directory = TestDirectory::new();
    full(&directory).await;
    let listed: BTreeSet<_> = TABLES.iter().map(|(table, _)| (*table).to_owned()).collect();
    let damaged: BTreeSet<_> = DAMAGES.iter().map(|(table, _)| (*table).to_owned()).collect();
    let there = tables(&directory.connection());
    assert_eq!(listed, there, "left: inspected tables; right: existing tables");
    assert_eq!(damaged, there, "left: tables that this test damages; right: existing tables");
    let faults = inspect::inspect(directory.path()).faults;
    assert!(faults.is_empty(), "{faults:?}");
    let database = directory.path().join("bosun.db");
    let pristine = std::fs::read(&database).unwrap();
    for (table, damage) in DAMAGES {
        std::fs::write(&database, &pristine).unwrap();
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF").unwrap();
        assert_ne!(connection.execute(damage, []).unwrap(), 0, "{damage}: the table has rows");
        drop(connection);
        let faults = inspect::inspect(directory.path()).faults;
        assert!(!faults.is_empty(), "{table}: {damage} was not noticed");
    }
}
