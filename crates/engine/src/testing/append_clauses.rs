//! The clauses of the store's contract about appends: their order, their durability, and which of two is kept.

#![expect(clippy::expect_used, clippy::panic, reason = "compiled for tests only: a failure here is a failed test")]

use std::sync::Arc;

use bosun_core::{Actor, Entry, Event, QueryName, Status, Timestamp, machine};
use futures_util::future::join_all;

use super::{
    query_writer::QueryWriter,
    store_contract::{LONG, StorePlace, conflicts, durable, fold, load, namespace, page},
};
use crate::store::{Append, Position, StoreError};

pub async fn what_was_appended_is_loaded(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    durable(&*store, Position::default()).await;
    let mut writer = QueryWriter::new("default", "a", 1);
    let created = writer.create();
    let entries: Vec<Entry> = created.entries.iter().map(|entry| Entry::clone(entry)).collect();
    assert!(load(&*store, &writer).await.is_none());
    let position = writer.send(&*store, created);
    durable(&*store, position).await;
    let stored = load(&*store, &writer).await.expect("the query exists");
    assert_eq!(&stored.head, writer.head());
    assert_eq!(stored.entries, entries);
    // Waiting again, also for earlier positions, costs nothing and has the same result.
    durable(&*store, position).await;
    assert_eq!(store.last_position(), position);
}

pub async fn positions_ascend_and_durable_implies_all_earlier_ones(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writers: Vec<_> =
        (1..=20).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    let mut last = Position::default();
    for writer in &mut writers {
        let position = writer.start_and_pause(&*store, LONG);
        assert!(position > last);
        last = position;
    }
    durable(&*store, last).await;
    for writer in &writers {
        let stored = load(&*store, writer).await.expect("earlier appends are durable too");
        assert_eq!(&stored.head, writer.head());
        assert_eq!(fold(&stored), stored.head);
    }
}

pub async fn appends_without_a_waiter_are_batched(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let before = store.stats();
    let mut writer = QueryWriter::new("default", "a", 1);
    let position = writer.start_and_pause(&*store, LONG);
    durable(&*store, position).await;
    let after = store.stats();
    assert_eq!(after.appends - before.appends, 3);
    // None, if the store had committed them by itself before the wait.
    assert!(after.awaited_commits - before.awaited_commits <= 1);
    durable(&*store, position).await;
    assert_eq!(store.stats().awaited_commits, after.awaited_commits, "a durable position causes no commit");
}

pub async fn a_wait_that_is_dropped_loses_nothing(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut first = QueryWriter::new("default", "a", 1);
    let position = first.start(&*store);
    let mut waiting = store.durable(position);
    let _ = futures_util::poll!(&mut waiting);
    drop(waiting);
    let mut second = QueryWriter::new("default", "b", 2);
    let position = second.start(&*store);
    durable(&*store, position).await;
    assert!(load(&*store, &first).await.is_some());
}

pub async fn a_conflict_does_not_reject_other_appends_of_its_commit(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut shared = QueryWriter::new("default", "shared", 1);
    let position = shared.start(&*store);
    durable(&*store, position).await;
    let mut stale = shared.clone();

    let (mut before, mut after) = (QueryWriter::new("default", "before", 2), QueryWriter::new("default", "after", 3));
    let first = before.start(&*store);
    let kept = shared.append(&*store, machine::advance(shared.head()));
    let lost = stale.append(&*store, machine::cancel(stale.head(), None, &Actor::local()));
    let last = after.start(&*store);
    durable(&*store, last).await;
    durable(&*store, first).await;
    durable(&*store, kept).await;
    match store.durable(lost).await {
        Err(StoreError::Conflict(uid)) => assert_eq!(uid, shared.uid()),
        other => panic!("a stale append must conflict, not {other:?}"),
    }
    assert!(conflicts(&*store, lost).await, "a second wait has the same result");
    assert_eq!(&load(&*store, &shared).await.expect("it exists").head, shared.head());
    assert!(load(&*store, &before).await.is_some() && load(&*store, &after).await.is_some());
}

pub async fn what_builds_on_a_rejected_append_is_rejected_even_if_its_sequence_number_fits(
    mut place: Box<dyn StorePlace>,
) {
    let store = place.open();
    let mut rightful = QueryWriter::new("default", "a", 1);
    let position = rightful.start(&*store);
    durable(&*store, position).await;
    let mut stale = rightful.clone();
    let mut late = rightful.clone();

    rightful.append(&*store, machine::advance(rightful.head()));
    let lost = stale.append(&*store, machine::advance(stale.head()));
    // Entry 2 exists, and so this one seems to follow.
    let fits = stale.append(&*store, machine::cancel(stale.head(), None, &Actor::local()));
    assert!(conflicts(&*store, fits).await);
    assert!(conflicts(&*store, lost).await);
    // Also long after the conflict was found.
    let again = stale.append(&*store, machine::cancel(rightful.head(), None, &Actor::local()));
    assert!(conflicts(&*store, again).await);
    // The rightful writer is not affected; and `late`, which built on the same entry, is rejected.
    let position = rightful.append(&*store, rightful.reply(Vec::new()));
    let late = late.append(&*store, machine::cancel(late.head(), None, &Actor::local()));
    durable(&*store, position).await;
    assert!(conflicts(&*store, late).await);
    let stored = load(&*store, &rightful).await.expect("it exists");
    assert_eq!(&stored.head, rightful.head());
    assert_eq!(fold(&stored), stored.head);
}

pub async fn a_writer_that_reloads_can_continue(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut first = QueryWriter::new("default", "a", 1);
    let position = first.start(&*store);
    durable(&*store, position).await;
    let mut second = first.clone();
    let position = first.append(&*store, machine::advance(first.head()));
    durable(&*store, position).await;
    let lost = second.append(&*store, machine::advance(second.head()));
    assert!(conflicts(&*store, lost).await);
    second.reload(&*store).await;
    let position = second.append(&*store, machine::cancel(second.head(), None, &Actor::local()));
    durable(&*store, position).await;
    assert_eq!(load(&*store, &second).await.expect("it exists").head.status(), Status::Cancelled);
}

pub async fn an_append_must_follow_the_stored_journal(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    let created = writer.create();
    let started = writer.write(machine::advance(writer.head()));
    let unknown = store.append(started.clone()).expect("the store is open");
    assert!(conflicts(&*store, unknown).await, "an append to a query that was never created");
    let position = store.append(created.clone()).expect("the store is open");
    durable(&*store, position).await;
    let twice = store.append(created.clone()).expect("the store is open");
    assert!(conflicts(&*store, twice).await, "a second creation of the same query");

    let ended = writer.write(writer.reply(Vec::new()));
    let broken: [(&str, Append); 4] = [
        ("a gap behind the stored entries", Append { seen: 1, ..ended.clone() }),
        ("a gap within the entries", Append { entries: vec![ended.entries[1].clone()], seen: 1, ..started.clone() }),
        ("a head of another moment", Append { head: Arc::clone(&ended.head), ..started.clone() }),
        ("no entries", Append { entries: Vec::new(), ..started.clone() }),
    ];
    for (fault, append) in broken {
        let position = store.append(append).expect("the store is open");
        assert!(conflicts(&*store, position).await, "{fault}");
    }
    let position = store.append(started).expect("the store is open");
    durable(&*store, position).await;
    let position = store.append(ended).expect("the store is open");
    durable(&*store, position).await;
    assert_eq!(&load(&*store, &writer).await.expect("it exists").head, writer.head());
}

pub async fn a_name_is_unique_in_a_namespace(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut owner = QueryWriter::new("default", "a", 1);
    let mut second = QueryWriter::new("default", "a", 2);
    let mut elsewhere = QueryWriter::new("other", "a", 3);
    // Both in one commit, and once more when the owner exists.
    owner.start(&*store);
    let same_commit = second.start(&*store);
    let builds_on_it = second.append(&*store, machine::advance(second.head()));
    let position = elsewhere.start(&*store);
    durable(&*store, position).await;
    let later = QueryWriter::new("default", "a", 4).start(&*store);
    for position in [same_commit, builds_on_it, later] {
        match store.durable(position).await {
            Err(StoreError::NameTaken(name)) => assert_eq!(name, owner.head().name),
            other => panic!("the name must be taken, not {other:?}"),
        }
    }
    assert_eq!(load(&*store, &owner).await.expect("it exists").head.uid, owner.uid());
    assert_eq!(load(&*store, &elsewhere).await.expect("it exists").head.uid, elsewhere.uid());
}

pub async fn namespaces_are_separate(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut here = QueryWriter::new("here", "a", 1);
    let mut there = QueryWriter::new("there", "a", 2);
    let mut only_there = QueryWriter::new("there", "b", 3);
    here.start(&*store);
    there.start(&*store);
    let position = only_there.start(&*store);
    durable(&*store, position).await;
    let name = &only_there.head().name;
    assert!(store.load(&namespace("here"), name).await.expect("readable").is_none());
    for (place, expect) in [("here", 1), ("there", 2), ("nowhere", 0)] {
        let listed = store.list(&namespace(place), &page(10)).await.expect("readable");
        assert_eq!((listed.total, listed.queries.len(), listed.next), (expect, expect as usize, None), "{place}");
        assert!(listed.queries.iter().all(|(head, _)| head.namespace == namespace(place)));
    }
}

pub async fn a_load_sees_whole_appends_only(mut place: Box<dyn StorePlace>) {
    const APPENDS: u64 = 40;
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    let position = writer.start(&*store);
    durable(&*store, position).await;
    let reader = writer.clone();
    let writing = async {
        for _ in 0..APPENDS {
            let events = [
                Event::Held { until: Timestamp(9), by: Actor::local() },
                Event::Continued { by: Actor::local() },
                Event::Recovered { orderly: false, alone: false },
            ];
            let position = writer.append(&*store, events.into());
            durable(&*store, position).await;
            tokio::task::yield_now().await;
        }
    };
    let reading = async {
        let mut seen = 0;
        while seen < 1 + 3 * APPENDS {
            let stored = load(&*store, &reader).await.expect("it exists");
            assert_eq!(stored.head.seq, stored.entries.len() as u64);
            assert_eq!(stored.head.seq % 3, 1, "three entries at a time");
            assert!(stored.head.seq >= seen, "a later load never sees less");
            assert_eq!(fold(&stored), stored.head);
            seen = stored.head.seq;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writing, reading);
}

pub async fn concurrent_writers_all_succeed(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let writers = (1..=32).map(|number| {
        let store = Arc::clone(&store);
        async move {
            let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
            let position = writer.start_and_pause(&*store, LONG);
            durable(&*store, position).await;
            let position = writer.resolve_and_complete(&*store);
            durable(&*store, position).await;
            let stored = load(&*store, &writer).await.expect("what is durable is loaded");
            assert_eq!(&stored.head, writer.head());
            assert_eq!(stored.head.status(), Status::Completed);
        }
    });
    join_all(writers).await;
    let listed = store.list(&namespace("default"), &page(100)).await.expect("readable");
    assert_eq!(listed.total, 32);
    assert!(store.stats().awaited_commits <= 64, "no writer waits twice");
}

pub async fn closing_commits_and_then_refuses(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    let position = writer.start(&*store);
    let mut stale = writer.clone();
    stale.append(&*store, machine::advance(stale.head()));
    let lost = writer.append(&*store, machine::advance(writer.head()));
    store.close().await.expect("the last commit succeeds");
    durable(&*store, position).await;
    assert!(conflicts(&*store, lost).await, "earlier decisions are still reported");
    let late: QueryName = "late".parse().expect("a good name");
    let refused = store.append(QueryWriter::new("default", late.as_str(), 2).create());
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    drop(store);
    let store = place.open();
    assert_eq!(&load(&*store, &writer).await.expect("it was appended, although not waited for").head, stale.head());
}
