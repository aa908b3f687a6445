//! The clauses of the store's contract about stored content: whatever it is, it is read back unchanged.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{collections::HashSet, sync::Arc};

use bosun_core::{
    Actor, Content, ContentHash, Event, Outcome, Spec, Timestamp,
    audit::{Action, AuditRecord},
    content::Large,
};

use super::{
    query_writer::{QueryWriter, document, spec},
    store_contract::{LONG, StorePlace, conflicts, durable, fold, load, namespace, page},
};
use crate::{
    resource::{Manifest, ManifestBody, ManifestChange, ResourceChange, ResourceKey, ResourceKind, StoredResource},
    store::{RecordSearch, Store},
};

pub async fn a_document_is_stored_once(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let shared = document(r#"[{"name":"look_up"}]"#);
    for number in 1..=3 {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        let mut append = writer.create();
        append.toolset = Some(if number == 2 { document("2") } else { shared.clone() });
        let position = writer.send(&*store, append);
        durable(&*store, position).await;
    }
    assert_eq!(store.document(shared.hash).await.expect("readable"), Some(shared.body));
    assert_eq!(store.document(document("2").hash).await.expect("readable").as_deref(), Some("2"));
    assert_eq!(store.document(ContentHash::of(b"never")).await.expect("readable"), None);
}

pub async fn a_later_process_loads_the_same_and_can_fold_it(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writers: Vec<_> =
        (1..=24).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    for writer in &mut writers {
        writer.start(&*store);
    }
    // A deterministic walk through every kind of step, each query one step further than the last.
    for round in 0..24_u32 {
        for (index, writer) in (0..).zip(&mut writers).skip(round as usize) {
            if let Some(append) = writer.step((round * 24 + index).wrapping_mul(0x9E37_79B1) >> 8) {
                writer.send(&*store, append);
            }
        }
    }
    durable(&*store, store.last_position()).await;
    let mut before = Vec::new();
    for writer in &writers {
        before.push(load(&*store, writer).await.expect("it exists"));
    }
    drop(store);
    let store = place.open();
    for (writer, before) in writers.iter().zip(before) {
        let after = load(&*store, writer).await.expect("it exists");
        assert_eq!(&after.head, writer.head());
        assert_eq!((&after.head, &after.entries), (&before.head, &before.entries));
        assert_eq!(fold(&after), after.head);
    }
    let statuses = writers.iter().map(|writer| writer.head().status());
    assert!(statuses.clone().collect::<HashSet<_>>().len() >= 4, "{:?}", statuses.collect::<Vec<_>>());
}

/// Texts that have broken stores, terminals and JSON readers.
const HOSTILE: &[&str] = &[
    "",
    "'; DROP TABLE journal; --",
    "\"quoted\" \\back\\slashed\\ `ticked`",
    "\0nul\0 and \u{1}\u{1f}\u{7f}",
    r"\u0000 \ud800 \x00 %00 %s %n ${jndi:x} {{x}}",
    "\r\n\t line ends \u{2028}\u{2029}",
    "\u{202e}right to left\u{202c} \u{200b}\u{feff}",
    "naïve 中文 \u{1f469}\u{200d}\u{1f680} e\u{301}",
    "NULL",
    "{\"v\":99,\"kind\":\"completed\"}",
];

fn hostile_spec(text: &str) -> Spec {
    Spec {
        target: text.into(),
        model: text.into(),
        prompt: Some(text.into()),
        input: text.into(),
        session_id: Some(text.into()),
        labels: [(text.to_owned(), text.to_owned())].into(),
        annotations: [(text.to_owned(), text.to_owned())].into(),
        warnings: vec![text.into()],
        ..spec()
    }
}

pub async fn hostile_texts_are_read_back_unchanged(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writers = Vec::new();
    for (number, text) in (1..).zip(HOSTILE) {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        let mut created = writer.create_as(hostile_spec(text));
        created.toolset = Some(document(text));
        writer.send(&*store, created);
        writer.ask_outside(&*store, LONG);
        let outcome = Outcome::Failure {
            code: (*text).into(),
            message: (*text).into(),
            content: Some(serde_json::json!({*text: [text]}).into()),
        };
        let mut events = writer.deliver(&outcome, false);
        events.push(Event::Failed { code: (*text).into(), message: (*text).into() });
        let append = writer.write(events);
        let entry = append.entries[0].clone();
        let position = writer.send(&*store, append);
        durable(&*store, position).await;
        writers.push((writer, *text, entry));
    }
    drop(store);
    let store = place.open();
    for (writer, text, resolved) in &writers {
        let stored = load(&*store, writer).await.expect("it exists");
        assert_eq!(&stored.head, writer.head(), "{text:?}");
        assert_eq!(fold(&stored), stored.head, "{text:?}");
        assert_eq!(stored.entries[0].event, Event::Created { spec: Arc::new(hostile_spec(text)), by: Actor::local() });
        assert!(stored.entries.contains(resolved), "{text:?}");
        assert_eq!(store.document(document(text).hash).await.expect("readable").as_deref(), Some(*text));
    }
    let listed = store.list(&namespace("default"), &page(100)).await.expect("readable");
    assert_eq!(listed.total, HOSTILE.len() as u64);
}

pub async fn large_values_are_read_back_unchanged(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let text = "x\"\\\n中".repeat((1 << 20) / 7);
    let mut writer = QueryWriter::new("default", &"a".repeat(253), 1);
    let mut created = writer.create_as(hostile_spec(&text));
    created.toolset = Some(document(&text));
    writer.send(&*store, created);
    writer.ask_outside(&*store, LONG);
    let events = writer.deliver(&Outcome::success(text.as_str()), false);
    let position = writer.append(&*store, events.clone());
    durable(&*store, position).await;
    drop(store);
    let store = place.open();
    let stored = load(&*store, &writer).await.expect("it exists");
    assert!(&stored.head == writer.head() && fold(&stored) == stored.head);
    assert!(stored.entries.last().is_some_and(|entry| entry.event == events[0]));
    assert!(store.document(document(&text).hash).await.expect("readable").as_deref() == Some(&*text));
}

pub async fn blobs_are_referred_to_by_what_is_committed(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let large = |text: &str| Large::of(&text.into()).0;
    let refer = |writer: &mut QueryWriter, store: &dyn Store, text: &str| {
        let outcome = Outcome::Success { content: Content::Large(large(text)) };
        let events = writer.deliver(&outcome, false);
        writer.append(store, events)
    };
    let all = ["one", "two", "three"].map(|text| large(text).hash);
    let mut writers =
        [QueryWriter::new("default", "a", 1), QueryWriter::new("other", "b", 2), QueryWriter::new("default", "c", 3)];
    for writer in &mut writers {
        writer.start_and_pause(&*store, LONG);
    }
    assert!(store.referred(&all).await.expect("the store is readable").is_empty());
    // Two queries refer to the same blob, and a rejected append to another.
    refer(&mut writers[0], &*store, "one");
    let mut rival = writers[2].clone();
    let last = refer(&mut writers[2], &*store, "one");
    let in_vain = refer(&mut rival, &*store, "three");
    durable(&*store, last).await;
    assert!(conflicts(&*store, in_vain).await);
    let position = refer(&mut writers[1], &*store, "two");
    durable(&*store, position).await;
    let expect = HashSet::from([all[0], all[1]]);
    assert_eq!(store.referred(&all).await.expect("the store is readable"), expect);
    assert_eq!(store.referred(&all[1..]).await.expect("the store is readable"), HashSet::from([all[1]]));
    let stored = load(&*store, &writers[1]).await.expect("the query exists");
    assert_eq!(fold(&stored), stored.head);
    drop(store);
    let store = place.open();
    assert_eq!(store.referred(&all).await.expect("the store is readable"), expect);
}

pub async fn resources_are_kept_replaced_and_removed(mut place: Box<dyn StorePlace>) {
    let stored = |kind: ResourceKind, namespace_of: &str, name: &str, generation: u64| StoredResource {
        manifest: Manifest {
            key: ResourceKey::new(kind, namespace(namespace_of), name),
            description: ManifestBody {
                labels: [("team".to_owned(), "r\u{0}ed \u{1f980}".to_owned())].into(),
                annotations: [("a/b".to_owned(), generation.to_string())].into(),
                spec: serde_json::json!({"z": 1, "a": {"n": 18_446_744_073_709_551_615_u64, "f": 0.1}})
                    .as_object()
                    .expect("an object")
                    .clone(),
            },
        },
        generation,
        created_at: Timestamp(7),
        updated_at: Timestamp(7 + generation as i64),
    };
    let change = |what: ManifestChange| ResourceChange {
        record: AuditRecord::of_act(Timestamp(9), Action::ResourceUpdated, None, Some(what.key().name.clone())),
        what,
    };
    let keep = |resource: &StoredResource| change(ManifestChange::Keep(Box::new(resource.clone())));
    let remove = |resource: &StoredResource| change(ManifestChange::Remove(resource.manifest.key.clone()));
    let store = place.open();
    assert_eq!(store.resources(None).await.expect("readable"), []);
    let first = stored(ResourceKind::Agent, "default", "a", 1);
    let other_kind = stored(ResourceKind::Model, "default", "a", 1);
    let other_namespace = stored(ResourceKind::Agent, "other", "a", 1);
    for resource in [&other_kind, &other_namespace, &first] {
        store.change_resource(keep(resource)).await.expect("kept");
    }
    let all = [first.clone(), other_namespace.clone(), other_kind.clone()];
    assert_eq!(store.resources(None).await.expect("readable"), all);
    for (name, expect) in [("default", &[first.clone(), other_kind.clone()][..]), ("nowhere", &[])] {
        assert_eq!(store.resources(Some(&namespace(name))).await.expect("readable"), expect);
    }
    let second = stored(ResourceKind::Agent, "default", "a", 2);
    store.change_resource(keep(&second)).await.expect("replaced");
    store.change_resource(remove(&other_kind)).await.expect("removed");
    // Removing what does not exist is not an error.
    store.change_resource(remove(&other_kind)).await.expect("removed");
    let left = [second, other_namespace];
    assert_eq!(store.resources(None).await.expect("readable"), left);
    drop(store);
    let store = place.open();
    assert_eq!(store.resources(None).await.expect("readable"), left);
    let found = store.search(&namespace("default"), &RecordSearch { limit: 10, ..RecordSearch::default() }).await;
    // Each change has its record, in the log of its namespace.
    assert_eq!(found.expect("readable").records.len(), 5);
    store.close().await.expect("closed");
    assert!(store.change_resource(keep(&first)).await.is_err());
}
