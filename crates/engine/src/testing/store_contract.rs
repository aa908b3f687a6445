//! The specification of [`Store`], as a test that every back end runs.
//!
//! Each clause is one function and begins with a store of its own. A back end brings a [`Place`]: a
//! store that can be opened, and opened again as a later process would find it. What is special to a
//! back end (locks, files, full disks) is tested beside it.

#![expect(clippy::expect_used, clippy::panic, reason = "compiled for tests only: a failure here is a failed test")]

use std::{collections::HashSet, sync::Arc, time::Duration};

use bosun_core::audit::Action;
use bosun_core::{
    Actor, Content, ContentHash, Entry, Event, Head, Namespace, Outcome, QueryName, Spec, Status, Timestamp,
    audit::Record, content::Large, machine,
};
use futures_util::future::{BoxFuture, FutureExt as _, join_all};

use super::{
    conversation_clauses, record_clauses,
    scribe::{Scribe, document, spec},
};
use crate::resource::{Change, Description, Kind, Manifest, ResourceChange, ResourceKey, StoredResource};
use crate::store::{
    Answered, Append, Page, Position, REQUESTS_KEPT, Removal, Request, RequestKey, Runnable, Search, Store, StoreError,
    Stored, Wanted,
};

/// Somewhere a store lives.
pub trait Place: Send {
    /// Opens it. The first time it is empty; after that it holds what was there, and whoever had
    /// it open before is gone.
    fn open(&mut self) -> Arc<dyn Store>;
}

type Clause = fn(Box<dyn Place>) -> BoxFuture<'static, ()>;

const CLAUSES: &[Clause] = &[
    |place| what_was_appended_is_loaded(place).boxed(),
    |place| positions_ascend_and_durable_implies_all_earlier_ones(place).boxed(),
    |place| appends_that_nobody_awaits_ride_along(place).boxed(),
    |place| a_wait_that_is_given_up_loses_nothing(place).boxed(),
    |place| a_conflict_does_not_sink_its_neighbours(place).boxed(),
    |place| what_builds_on_a_rejected_append_is_rejected_even_if_its_number_fits(place).boxed(),
    |place| a_writer_that_loads_again_can_go_on(place).boxed(),
    |place| an_append_must_follow_the_stored_journal(place).boxed(),
    |place| a_name_is_taken_once_in_a_namespace(place).boxed(),
    |place| namespaces_are_separate(place).boxed(),
    |place| a_load_sees_whole_appends_only(place).boxed(),
    |place| many_writers_at_once_all_get_through(place).boxed(),
    |place| a_document_is_stored_once_whoever_brings_it(place).boxed(),
    |place| a_list_has_pages_newest_first_with_total_and_filter(place).boxed(),
    |place| what_is_due_comes_most_overdue_first(place).boxed(),
    |place| a_mixed_turn_has_a_deadline_and_work(place).boxed(),
    |place| what_has_work_is_runnable_and_says_whether_it_is_inherited(place).boxed(),
    |place| namespaces_take_turns(place).boxed(),
    |place| a_request_is_answered_once_under_its_key(place).boxed(),
    |place| a_deleted_query_is_gone_and_its_name_is_free(place).boxed(),
    |place| what_ended_is_kept_for_its_time_and_no_longer(place).boxed(),
    |place| a_toolset_goes_with_the_last_query_that_has_it(place).boxed(),
    |place| a_later_process_finds_the_same_and_can_fold_it(place).boxed(),
    |place| hostile_texts_come_back_as_they_were(place).boxed(),
    |place| large_values_come_back_as_they_were(place).boxed(),
    |place| blobs_are_referred_to_by_what_is_committed(place).boxed(),
    |place| conversation_clauses::what_completed_queries_say_stands_in_the_order_of_their_completion(place).boxed(),
    |place| conversation_clauses::an_append_that_is_not_kept_says_nothing(place).boxed(),
    |place| conversation_clauses::a_history_is_cut_between_queries(place).boxed(),
    |place| conversation_clauses::who_wants_to_be_alone_in_a_conversation_is(place).boxed(),
    |place| conversation_clauses::conversations_are_listed_in_pages_the_latest_first(place).boxed(),
    |place| conversation_clauses::what_is_forgotten_is_gone_and_numbers_are_not_given_twice(place).boxed(),
    |place| conversation_clauses::a_conversation_that_nobody_goes_on_with_is_forgotten_in_time(place).boxed(),
    |place| conversation_clauses::a_history_goes_with_the_last_query_that_has_it(place).boxed(),
    |place| resources_are_kept_replaced_and_removed(place).boxed(),
    |place| closing_commits_and_then_refuses(place).boxed(),
    |place| record_clauses::what_is_appended_is_audited_and_counted(place).boxed(),
    |place| record_clauses::what_is_rejected_leaves_no_record(place).boxed(),
    |place| record_clauses::records_are_searched_newest_first_in_pages(place).boxed(),
    |place| record_clauses::the_log_outlives_its_queries_and_processes(place).boxed(),
];

/// Holds a back end to everything that [`Store`] promises.
///
/// # Panics
/// If it breaks a promise; the line says which.
pub async fn store_contract(new_place: impl Fn() -> Box<dyn Place>) {
    for clause in CLAUSES {
        clause(new_place()).await;
    }
}

pub(super) const LONG: Duration = Duration::from_secs(600);

pub(super) fn namespace(text: &str) -> Namespace {
    text.parse().expect("tests name good namespaces")
}

async fn load(store: &dyn Store, scribe: &Scribe) -> Option<Stored> {
    let head = scribe.head();
    store.load(&head.namespace, &head.name).await.expect("the store is readable")
}

pub(super) async fn durable(store: &dyn Store, position: Position) {
    store.durable(position).await.expect("the append is kept");
}

pub(super) async fn conflicts(store: &dyn Store, position: Position) -> bool {
    matches!(store.durable(position).await, Err(StoreError::Conflict(_)))
}

/// What the journal alone says the head is.
///
/// # Panics
/// If it is not a journal.
#[must_use]
pub fn fold(stored: &Stored) -> Head {
    let Head { uid, namespace, name, .. } = stored.head.clone();
    let (first, rest) = stored.entries.split_first().expect("a journal has entries");
    let mut head = Head::new(uid, namespace, name, first).expect("a journal begins with its creation");
    for entry in rest {
        head.apply(entry).expect("a journal has no gaps");
    }
    head
}

fn page(limit: usize) -> Page {
    Page { limit, before: None, status: None }
}

async fn what_was_appended_is_loaded(mut place: Box<dyn Place>) {
    let store = place.open();
    durable(&*store, Position::default()).await;
    let mut scribe = Scribe::new("default", "a", 1);
    let created = scribe.create();
    let entries: Vec<Entry> = created.entries.iter().map(|entry| Entry::clone(entry)).collect();
    assert!(load(&*store, &scribe).await.is_none());
    let position = scribe.send(&*store, created);
    durable(&*store, position).await;
    let stored = load(&*store, &scribe).await.expect("the query is there");
    assert_eq!(&stored.head, scribe.head());
    assert_eq!(stored.entries, entries);
    // Asking again, and asking about the past, costs nothing and says the same.
    durable(&*store, position).await;
    assert_eq!(store.last_position(), position);
}

async fn positions_ascend_and_durable_implies_all_earlier_ones(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut scribes: Vec<_> = (1..=20).map(|number| Scribe::new("default", &format!("q{number}"), number)).collect();
    let mut last = Position::default();
    for scribe in &mut scribes {
        let position = scribe.start_and_pause(&*store, LONG);
        assert!(position > last);
        last = position;
    }
    durable(&*store, last).await;
    for scribe in &scribes {
        let stored = load(&*store, scribe).await.expect("earlier appends are durable too");
        assert_eq!(&stored.head, scribe.head());
        assert_eq!(fold(&stored), stored.head);
    }
}

async fn appends_that_nobody_awaits_ride_along(mut place: Box<dyn Place>) {
    let store = place.open();
    let before = store.stats();
    let mut scribe = Scribe::new("default", "a", 1);
    let position = scribe.start_and_pause(&*store, LONG);
    durable(&*store, position).await;
    let after = store.stats();
    assert_eq!(after.appends - before.appends, 3);
    // None, if the store had committed them by itself before anybody asked.
    assert!(after.awaited_commits - before.awaited_commits <= 1);
    durable(&*store, position).await;
    assert_eq!(store.stats().awaited_commits, after.awaited_commits, "what is durable is not waited for");
}

async fn a_wait_that_is_given_up_loses_nothing(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut first = Scribe::new("default", "a", 1);
    let position = first.start(&*store);
    let mut waiting = store.durable(position);
    let _ = futures_util::poll!(&mut waiting);
    drop(waiting);
    let mut second = Scribe::new("default", "b", 2);
    let position = second.start(&*store);
    durable(&*store, position).await;
    assert!(load(&*store, &first).await.is_some());
}

async fn a_conflict_does_not_sink_its_neighbours(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut shared = Scribe::new("default", "shared", 1);
    let position = shared.start(&*store);
    durable(&*store, position).await;
    let mut stale = shared.clone();

    let (mut before, mut after) = (Scribe::new("default", "before", 2), Scribe::new("default", "after", 3));
    let first = before.start(&*store);
    let kept = shared.append(&*store, machine::start_turn(shared.head()));
    let lost = stale.append(&*store, machine::cancel(stale.head(), None, &Actor::local()));
    let last = after.start(&*store);
    durable(&*store, last).await;
    durable(&*store, first).await;
    durable(&*store, kept).await;
    match store.durable(lost).await {
        Err(StoreError::Conflict(uid)) => assert_eq!(uid, shared.uid()),
        other => panic!("a stale append must conflict, not {other:?}"),
    }
    assert!(conflicts(&*store, lost).await, "whoever asks again is told the same");
    assert_eq!(&load(&*store, &shared).await.expect("it exists").head, shared.head());
    assert!(load(&*store, &before).await.is_some() && load(&*store, &after).await.is_some());
}

async fn what_builds_on_a_rejected_append_is_rejected_even_if_its_number_fits(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut rightful = Scribe::new("default", "a", 1);
    let position = rightful.start(&*store);
    durable(&*store, position).await;
    let mut stale = rightful.clone();
    let mut late = rightful.clone();

    rightful.append(&*store, machine::start_turn(rightful.head()));
    let lost = stale.append(&*store, machine::start_turn(stale.head()));
    // Entry 2 exists, and so this one would seem to follow.
    let fits = stale.append(&*store, machine::cancel(stale.head(), None, &Actor::local()));
    assert!(conflicts(&*store, fits).await);
    assert!(conflicts(&*store, lost).await);
    // Also long after the conflict was found.
    let again = stale.append(&*store, machine::cancel(rightful.head(), None, &Actor::local()));
    assert!(conflicts(&*store, again).await);
    // The rightful writer notices nothing; and `late`, which built on the same entry, may not pass.
    let position = rightful.append(&*store, rightful.reply(Vec::new()));
    let late = late.append(&*store, machine::cancel(late.head(), None, &Actor::local()));
    durable(&*store, position).await;
    assert!(conflicts(&*store, late).await);
    let stored = load(&*store, &rightful).await.expect("it exists");
    assert_eq!(&stored.head, rightful.head());
    assert_eq!(fold(&stored), stored.head);
}

async fn a_writer_that_loads_again_can_go_on(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut first = Scribe::new("default", "a", 1);
    let position = first.start(&*store);
    durable(&*store, position).await;
    let mut second = first.clone();
    let position = first.append(&*store, machine::start_turn(first.head()));
    durable(&*store, position).await;
    let lost = second.append(&*store, machine::start_turn(second.head()));
    assert!(conflicts(&*store, lost).await);
    second.reload(&*store).await;
    let position = second.append(&*store, machine::cancel(second.head(), None, &Actor::local()));
    durable(&*store, position).await;
    assert_eq!(load(&*store, &second).await.expect("it exists").head.status(), Status::Cancelled);
}

async fn an_append_must_follow_the_stored_journal(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut scribe = Scribe::new("default", "a", 1);
    let created = scribe.create();
    let started = scribe.write(machine::start_turn(scribe.head()));
    let unknown = store.append(started.clone()).expect("the store is open");
    assert!(conflicts(&*store, unknown).await, "an append to a query that was never created");
    let position = store.append(created.clone()).expect("the store is open");
    durable(&*store, position).await;
    let twice = store.append(created.clone()).expect("the store is open");
    assert!(conflicts(&*store, twice).await, "a second creation of the same query");

    let ended = scribe.write(scribe.reply(Vec::new()));
    let broken: [(&str, Append); 4] = [
        ("a gap behind the stored entries", Append { seen: 1, ..ended.clone() }),
        ("a gap within", Append { entries: vec![Arc::clone(&ended.entries[1])], seen: 1, ..started.clone() }),
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
    assert_eq!(&load(&*store, &scribe).await.expect("it exists").head, scribe.head());
}

async fn a_name_is_taken_once_in_a_namespace(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut owner = Scribe::new("default", "a", 1);
    let mut second = Scribe::new("default", "a", 2);
    let mut elsewhere = Scribe::new("other", "a", 3);
    // Both in one commit, and once more when the owner is there.
    owner.start(&*store);
    let same_commit = second.start(&*store);
    let builds_on_it = second.append(&*store, machine::start_turn(second.head()));
    let position = elsewhere.start(&*store);
    durable(&*store, position).await;
    let later = Scribe::new("default", "a", 4).start(&*store);
    for position in [same_commit, builds_on_it, later] {
        match store.durable(position).await {
            Err(StoreError::NameTaken(name)) => assert_eq!(name, owner.head().name),
            other => panic!("the name must be taken, not {other:?}"),
        }
    }
    assert_eq!(load(&*store, &owner).await.expect("it exists").head.uid, owner.uid());
    assert_eq!(load(&*store, &elsewhere).await.expect("it exists").head.uid, elsewhere.uid());
}

async fn namespaces_are_separate(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut here = Scribe::new("here", "a", 1);
    let mut there = Scribe::new("there", "a", 2);
    let mut only_there = Scribe::new("there", "b", 3);
    here.start(&*store);
    there.start(&*store);
    let position = only_there.start(&*store);
    durable(&*store, position).await;
    let name = &only_there.head().name;
    assert!(store.load(&namespace("here"), name).await.expect("readable").is_none());
    for (place, expect) in [("here", 1), ("there", 2), ("nowhere", 0)] {
        let listed = store.list(&namespace(place), &page(10)).await.expect("readable");
        assert_eq!((listed.total, listed.queries.len(), listed.more), (expect, expect as usize, false), "{place}");
        assert!(listed.queries.iter().all(|(head, _)| head.namespace == namespace(place)));
    }
}

async fn a_load_sees_whole_appends_only(mut place: Box<dyn Place>) {
    const APPENDS: u64 = 40;
    let store = place.open();
    let mut scribe = Scribe::new("default", "a", 1);
    let position = scribe.start(&*store);
    durable(&*store, position).await;
    let reader = scribe.clone();
    let writing = async {
        for _ in 0..APPENDS {
            let events = [
                Event::Held { until: Timestamp(9), by: Actor::local() },
                Event::Continued { by: Actor::local() },
                Event::Recovered,
            ];
            let position = scribe.append(&*store, events.into());
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

async fn many_writers_at_once_all_get_through(mut place: Box<dyn Place>) {
    let store = place.open();
    let writers = (1..=32).map(|number| {
        let store = Arc::clone(&store);
        async move {
            let mut scribe = Scribe::new("default", &format!("q{number}"), number);
            let position = scribe.start_and_pause(&*store, LONG);
            durable(&*store, position).await;
            let position = scribe.resolve_and_complete(&*store);
            durable(&*store, position).await;
            let stored = load(&*store, &scribe).await.expect("what is durable is loaded");
            assert_eq!(&stored.head, scribe.head());
            assert_eq!(stored.head.status(), Status::Completed);
        }
    });
    join_all(writers).await;
    let listed = store.list(&namespace("default"), &page(100)).await.expect("readable");
    assert_eq!(listed.total, 32);
    assert!(store.stats().awaited_commits <= 64, "nobody waits twice");
}

async fn a_document_is_stored_once_whoever_brings_it(mut place: Box<dyn Place>) {
    let store = place.open();
    let shared = document(r#"[{"name":"look_up"}]"#);
    for number in 1..=3 {
        let mut scribe = Scribe::new("default", &format!("q{number}"), number);
        let mut append = scribe.create();
        append.toolset = Some(if number == 2 { document("2") } else { shared.clone() });
        let position = scribe.send(&*store, append);
        durable(&*store, position).await;
    }
    assert_eq!(store.document(shared.hash).await.expect("readable"), Some(shared.body));
    assert_eq!(store.document(document("2").hash).await.expect("readable").as_deref(), Some("2"));
    assert_eq!(store.document(ContentHash::of(b"never")).await.expect("readable"), None);
}

async fn a_list_has_pages_newest_first_with_total_and_filter(mut place: Box<dyn Place>) {
    let store = place.open();
    // Created out of order: it is the id that says which one is younger.
    for number in [3, 1, 5, 2, 4] {
        let mut scribe = Scribe::new("default", &format!("q{number}"), number);
        scribe.start_and_pause(&*store, LONG);
        let position = if number % 2 == 0 { scribe.resolve_and_complete(&*store) } else { scribe.position() };
        durable(&*store, position).await;
    }
    let names = async |page: Page| {
        let listed = store.list(&namespace("default"), &page).await.expect("readable");
        let names: Vec<_> = listed.queries.iter().map(|(head, _)| head.name.to_string()).collect();
        for (head, created) in &listed.queries {
            assert_eq!(created.seq, 1);
            assert!(matches!(created.event, Event::Created { .. }), "lists show the input");
            assert_eq!(created.at, head.created_at);
        }
        (names.join(" "), listed.more, listed.total)
    };
    let uid = |number| Some(Scribe::new("default", "any", number).uid());
    let (all, waiting, done) = (None, Some(Status::Waiting), Some(Status::Completed));
    let cases = [
        (9, None, all, ("q5 q4 q3 q2 q1", false, 5)),
        (5, None, all, ("q5 q4 q3 q2 q1", false, 5)),
        (2, None, all, ("q5 q4", true, 5)),
        (2, uid(4), all, ("q3 q2", true, 5)),
        (2, uid(2), all, ("q1", false, 5)),
        (2, uid(1), all, ("", false, 5)),
        (0, None, all, ("", true, 5)),
        (2, None, waiting, ("q5 q3", true, 3)),
        (2, uid(4), waiting, ("q3 q1", false, 3)),
        (9, None, done, ("q4 q2", false, 2)),
    ];
    for (limit, before, status, (expect, more, total)) in cases {
        let page = Page { limit, before, status };
        assert_eq!(names(page.clone()).await, (expect.to_owned(), more, total), "{page:?}");
    }
}

async fn what_is_due_comes_most_overdue_first(mut place: Box<dyn Place>) {
    let store = place.open();
    assert_eq!(store.next_deadline().await.expect("readable"), None);
    let mut scribes: Vec<_> = [(1, 300), (2, 100), (3, 200)]
        .map(|(number, seconds)| {
            let mut scribe = Scribe::new("default", &format!("q{number}"), number);
            scribe.start_and_pause(&*store, Duration::from_secs(seconds));
            scribe
        })
        .into();
    let running = Scribe::new("default", "running", 4).start(&*store);
    durable(&*store, running).await;
    let deadlines: Vec<_> = scribes.iter().map(|scribe| scribe.head().deadline().expect("it waits")).collect();
    let due = async |now: Timestamp, limit: usize| {
        let due = store.due(now, limit).await.expect("readable");
        due.into_iter().map(|(_, name)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(store.next_deadline().await.expect("readable"), Some(deadlines[1]));
    assert_eq!(due(Timestamp(deadlines[1].0 - 1), 9).await, "");
    assert_eq!(due(deadlines[1], 9).await, "q2");
    assert_eq!(due(deadlines[0], 9).await, "q2 q3 q1");
    assert_eq!(due(deadlines[0], 2).await, "q2 q3");

    // An answer ends the wait, a hold begins another, and the end of a query ends all.
    let position = scribes[1].resolve_and_complete(&*store);
    durable(&*store, position).await;
    assert_eq!(due(deadlines[0], 9).await, "q3 q1");
    let events = scribes[2].deliver(&Outcome::success("held"), true);
    let position = scribes[2].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(store.next_deadline().await.expect("readable"), Some(deadlines[0]));
    let held_until = scribes[2].head().deadline().expect("it is held");
    assert_eq!(due(held_until, 9).await, "q1 q3");
    for index in [0, 2] {
        let events = machine::cancel(scribes[index].head(), None, &Actor::local());
        let position = scribes[index].append(&*store, events);
        durable(&*store, position).await;
    }
    assert_eq!(store.next_deadline().await.expect("readable"), None);
    assert_eq!(due(Timestamp(i64::MAX), 9).await, "");
}

async fn a_mixed_turn_has_a_deadline_and_work(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut scribe = Scribe::new("default", "a", 1);
    scribe.start(&*store);
    scribe.append(&*store, machine::start_turn(scribe.head()));
    let ways = vec![machine::Way::Outside { timeout: LONG }, machine::Way::Inside { repeatable: true }];
    let position = scribe.append(&*store, scribe.reply(ways));
    durable(&*store, position).await;
    drop(store);
    let store = place.open();
    assert_eq!(store.next_deadline().await.expect("readable"), scribe.head().deadline());
    assert_eq!(runnable(&*store, Wanted { limit: 9, ..Wanted::default() }).await, "a*");
}

/// The names in the order in which they come; a star marks what is inherited.
async fn runnable(store: &dyn Store, wanted: Wanted) -> String {
    let found = store.runnable(wanted).await.expect("readable");
    let word = |Runnable { key, inherited }| format!("{}{}", key.1, if inherited { "*" } else { "" });
    found.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

async fn what_has_work_is_runnable_and_says_whether_it_is_inherited(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut queued: Vec<_> = [3, 1, 2].map(|number| Scribe::new("default", &format!("q{number}"), number)).into();
    for scribe in &mut queued {
        scribe.start(&*store);
    }
    let mut waiting = Scribe::new("default", "waiting", 4);
    waiting.start_and_pause(&*store, LONG);
    let mut done = Scribe::new("default", "done", 5);
    done.start_and_pause(&*store, LONG);
    done.resolve_and_complete(&*store);
    let mut thinking = Scribe::new("default", "thinking", 6);
    thinking.start(&*store);
    let position = thinking.append(&*store, machine::start_turn(thinking.head()));
    durable(&*store, position).await;
    let wanted = |limit: usize, except: &[&Scribe]| Wanted {
        limit,
        except: except.iter().map(|scribe| (scribe.head().namespace.clone(), scribe.head().name.clone())).collect(),
        after: None,
    };
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1 q2 q3 thinking");
    assert_eq!(store.count_runnable().await.expect("readable"), 4);
    drop(store);

    let store = place.open();
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1* q2* q3* thinking*");
    assert_eq!(runnable(&*store, wanted(2, &[])).await, "q1* q2*");
    assert_eq!(runnable(&*store, wanted(2, &[&queued[1], &queued[0]])).await, "q2* thinking*");
    assert_eq!(runnable(&*store, wanted(0, &[])).await, "");
    // What this process creates or takes up is its own.
    Scribe::new("default", "new", 7).start(&*store);
    queued[0].reload(&*store).await;
    let events = machine::recover(queued[0].head());
    let position = queued[0].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1* q2* q3 thinking* new");
    assert_eq!(store.count_runnable().await.expect("readable"), 5);
}

async fn namespaces_take_turns(mut place: Box<dyn Place>) {
    let store = place.open();
    for (namespace, name, number) in
        [("a", "a1", 1), ("a", "a2", 2), ("a", "a3", 3), ("a", "a4", 4), ("b", "b1", 5), ("c", "c1", 6), ("c", "c2", 7)]
    {
        Scribe::new(namespace, name, number).start(&*store);
    }
    durable(&*store, store.last_position()).await;
    let cases = [
        (None, 12, "a1 b1 c1 a2 c2 a3 a4"),
        (None, 9, "a1 b1 c1 a2 c2 a3"),
        (None, 4, "a1 b1 c1 a2"),
        (Some("a"), 4, "b1 c1 a1 c2"),
        (Some("b"), 2, "c1 a1"),
        (Some("c"), 1, "a1"),
        (Some("z"), 1, "a1"),
    ];
    for (after, limit, expect) in cases {
        let found = runnable(&*store, Wanted { after: after.map(namespace), limit, ..Wanted::default() }).await;
        assert_eq!(found, expect, "{after:?} {limit}");
    }
}

fn request(key: &str, body: &str) -> Request {
    let key = RequestKey { actor: "somebody".into(), route: "queries", key: key.into() };
    Request { key, fingerprint: ContentHash::of(body.as_bytes()) }
}

async fn a_request_is_answered_once_under_its_key(mut place: Box<dyn Place>) {
    let store = place.open();
    let create = |scribe: &mut Scribe, request: Request| {
        let append = Append { request: Some(request), ..scribe.create() };
        scribe.send(&*store, append)
    };
    let mut first = Scribe::new("default", "first", 1);
    let mut same_key = Scribe::new("default", "same-key", 2);
    let kept = create(&mut first, request("k1", "body"));
    // In the same commit, and once more when the first is there.
    let lost = create(&mut same_key, request("k1", "body"));
    durable(&*store, kept).await;
    let later = create(&mut Scribe::new("default", "later", 3), request("k1", "other"));
    for position in [lost, later] {
        let refused = store.durable(position).await;
        assert!(matches!(refused, Err(StoreError::RequestTaken)), "{refused:?}");
    }
    // Another key, another namespace, another actor and another door have nothing to do with it.
    let mut actor = request("k1", "body");
    actor.key.actor = "somebody else".into();
    let mut route = request("k1", "body");
    route.key.route = "messages";
    for (namespace, name, request) in [
        ("default", "a", request("k2", "body")),
        ("other", "b", request("k1", "body")),
        ("default", "c", actor),
        ("default", "d", route),
    ] {
        let position = create(&mut Scribe::new(namespace, name, 4 + u32::from(name.as_bytes()[0])), request);
        durable(&*store, position).await;
    }
    let found = store.answered(&namespace("default"), &request("k1", "").key).await.expect("readable");
    let expected =
        Answered { fingerprint: ContentHash::of(b"body"), uid: first.uid(), name: first.head().name.clone() };
    assert_eq!(found, Some(expected));
    assert_eq!(store.answered(&namespace("default"), &request("k3", "").key).await.expect("readable"), None);
}

/// That this query of the default namespace is to be deleted.
pub(super) fn removal(scribe: &Scribe) -> Removal {
    let record = Record::of_deletion(scribe.head(), Timestamp(1_000), &Actor::local());
    Removal::Query(namespace("default"), scribe.uid(), Box::new(record))
}

async fn a_deleted_query_is_gone_and_its_name_is_free(mut place: Box<dyn Place>) {
    let store = place.open();
    let (mut doomed, mut other) = (Scribe::new("default", "a", 1), Scribe::new("default", "b", 2));
    let append = Append { request: Some(request("k", "body")), ..doomed.create() };
    doomed.send(&*store, append);
    doomed.ask_outside(&*store, LONG);
    other.start_and_pause(&*store, LONG);
    // It is deleted behind what was appended before, awaited or not.
    let (this, now) = (removal(&doomed), Timestamp(1_000));
    assert_eq!(store.remove(this.clone(), now).await.expect("writable"), 1);
    assert!(load(&*store, &doomed).await.is_none());
    assert!(load(&*store, &other).await.is_some());
    assert_eq!(store.next_deadline().await.expect("readable"), other.head().deadline());
    assert_eq!(store.remove(this, now).await.expect("writable"), 0, "it is gone already");
    let lost = doomed.append(&*store, machine::cancel(doomed.head(), None, &Actor::local()));
    assert!(conflicts(&*store, lost).await, "nothing can be added to it");
    let answered = async |key: &str| {
        let found = store.answered(&namespace("default"), &request(key, "").key).await.expect("readable");
        found.map(|answered| answered.uid)
    };
    assert_eq!(answered("k").await, Some(doomed.uid()), "that it was is remembered");

    let mut heir = Scribe::new("default", "a", 3);
    let position = heir.start(&*store);
    durable(&*store, position).await;
    assert_eq!(load(&*store, &heir).await.expect("the name is free").head.uid, heir.uid());
    drop(store);
    let store = place.open();
    assert_eq!(load(&*store, &heir).await.expect("it stays").head.uid, heir.uid());
    let answered = async |now: Timestamp| {
        assert_eq!(store.remove(Removal::Outdated, now).await.expect("writable"), 0);
        store.answered(&namespace("default"), &request("k", "").key).await.expect("readable").is_some()
    };
    let forgotten = now.after(REQUESTS_KEPT);
    assert!(answered(Timestamp(forgotten.0 - 1)).await);
    assert!(!answered(forgotten).await, "and forgotten in time");
}

async fn what_ended_is_kept_for_its_time_and_no_longer(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut waiting = Scribe::new("default", "waiting", 1);
    waiting.start_and_pause(&*store, LONG);
    let mut ended: Vec<_> = (2..=400).map(|number| Scribe::new("default", &format!("q{number}"), number)).collect();
    for (seconds, scribe) in (1..).zip(&mut ended) {
        let mut spec = spec();
        spec.limits.ttl = Duration::from_secs(seconds);
        let created = scribe.create_as(spec);
        scribe.send(&*store, created);
        scribe.append(&*store, machine::cancel(scribe.head(), None, &Actor::local()));
    }
    durable(&*store, store.last_position()).await;
    let until: Vec<_> = ended.iter().map(|scribe| scribe.head().kept_until().expect("it has ended")).collect();
    let left = async |now: Timestamp| {
        // A little at a time, until there is nothing more to do.
        while store.remove(Removal::Outdated, now).await.expect("writable") > 0 {}
        store.list(&namespace("default"), &page(0)).await.expect("readable").total
    };
    assert_eq!(left(Timestamp(until[0].0 - 1)).await, 400);
    assert_eq!(left(until[0]).await, 399);
    assert!(load(&*store, &ended[0]).await.is_none() && load(&*store, &ended[1]).await.is_some());
    assert_eq!(left(Timestamp(i64::MAX)).await, 1, "what has not ended stays");
    assert!(load(&*store, &waiting).await.is_some());
}

async fn a_toolset_goes_with_the_last_query_that_has_it(mut place: Box<dyn Place>) {
    let store = place.open();
    let shared = document("shared");
    let mut scribes: Vec<_> = (1..=2).map(|number| Scribe::new("default", &format!("q{number}"), number)).collect();
    for scribe in &mut scribes {
        let created = Append { toolset: Some(shared.clone()), ..scribe.create() };
        scribe.send(&*store, created);
    }
    let there = async || store.document(shared.hash).await.expect("readable").is_some();
    for (scribe, left) in scribes.iter().zip([true, false]) {
        let this = removal(scribe);
        store.remove(this, Timestamp(1)).await.expect("writable");
        assert_eq!(there().await, left);
    }
    // And comes again with the next that brings it.
    let mut again = Scribe::new("default", "again", 3);
    let created = Append { toolset: Some(shared.clone()), ..again.create() };
    let position = again.send(&*store, created);
    durable(&*store, position).await;
    assert!(there().await);
}

async fn a_later_process_finds_the_same_and_can_fold_it(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut scribes: Vec<_> = (1..=24).map(|number| Scribe::new("default", &format!("q{number}"), number)).collect();
    for scribe in &mut scribes {
        scribe.start(&*store);
    }
    // A walk through every kind of step, the same each time, each query a step further than the last.
    for round in 0..24_u32 {
        for (index, scribe) in (0..).zip(&mut scribes).skip(round as usize) {
            if let Some(append) = scribe.step((round * 24 + index).wrapping_mul(0x9E37_79B1) >> 8) {
                scribe.send(&*store, append);
            }
        }
    }
    durable(&*store, store.last_position()).await;
    let mut before = Vec::new();
    for scribe in &scribes {
        before.push(load(&*store, scribe).await.expect("it exists"));
    }
    drop(store);
    let store = place.open();
    for (scribe, before) in scribes.iter().zip(before) {
        let after = load(&*store, scribe).await.expect("it exists");
        assert_eq!(&after.head, scribe.head());
        assert_eq!((&after.head, &after.entries), (&before.head, &before.entries));
        assert_eq!(fold(&after), after.head);
    }
    let statuses = scribes.iter().map(|scribe| scribe.head().status());
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
        agent: text.into(),
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

async fn hostile_texts_come_back_as_they_were(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut scribes = Vec::new();
    for (number, text) in (1..).zip(HOSTILE) {
        let mut scribe = Scribe::new("default", &format!("q{number}"), number);
        let mut created = scribe.create_as(hostile_spec(text));
        created.toolset = Some(document(text));
        scribe.send(&*store, created);
        scribe.ask_outside(&*store, LONG);
        let outcome = Outcome::Failure {
            code: (*text).into(),
            message: (*text).into(),
            content: Some(serde_json::json!({*text: [text]}).into()),
        };
        let mut events = scribe.deliver(&outcome, false);
        events.push(Event::Failed { code: (*text).into(), message: (*text).into() });
        let append = scribe.write(events);
        let entry = append.entries[0].clone();
        let position = scribe.send(&*store, append);
        durable(&*store, position).await;
        scribes.push((scribe, *text, entry));
    }
    drop(store);
    let store = place.open();
    for (scribe, text, resolved) in &scribes {
        let stored = load(&*store, scribe).await.expect("it exists");
        assert_eq!(&stored.head, scribe.head(), "{text:?}");
        assert_eq!(fold(&stored), stored.head, "{text:?}");
        assert_eq!(stored.entries[0].event, Event::Created { spec: Arc::new(hostile_spec(text)), by: Actor::local() });
        assert!(stored.entries.contains(resolved), "{text:?}");
        assert_eq!(store.document(document(text).hash).await.expect("readable").as_deref(), Some(*text));
    }
    let listed = store.list(&namespace("default"), &page(100)).await.expect("readable");
    assert_eq!(listed.total, HOSTILE.len() as u64);
}

async fn large_values_come_back_as_they_were(mut place: Box<dyn Place>) {
    let store = place.open();
    let text = "x\"\\\n中".repeat((1 << 20) / 7);
    let mut scribe = Scribe::new("default", &"a".repeat(253), 1);
    let mut created = scribe.create_as(hostile_spec(&text));
    created.toolset = Some(document(&text));
    scribe.send(&*store, created);
    scribe.ask_outside(&*store, LONG);
    let events = scribe.deliver(&Outcome::success(text.as_str()), false);
    let position = scribe.append(&*store, events.clone());
    durable(&*store, position).await;
    drop(store);
    let store = place.open();
    let stored = load(&*store, &scribe).await.expect("it exists");
    assert!(&stored.head == scribe.head() && fold(&stored) == stored.head);
    assert!(stored.entries.last().is_some_and(|entry| entry.event == events[0]));
    assert!(store.document(document(&text).hash).await.expect("readable").as_deref() == Some(&*text));
}

async fn blobs_are_referred_to_by_what_is_committed(mut place: Box<dyn Place>) {
    let store = place.open();
    let large = |text: &str| Large::of(&text.into()).0;
    let refer = |scribe: &mut Scribe, store: &dyn Store, text: &str| {
        let outcome = Outcome::Success { content: Content::Large(large(text)) };
        let events = scribe.deliver(&outcome, false);
        scribe.append(store, events)
    };
    let all = ["one", "two", "three"].map(|text| large(text).hash);
    let mut scribes = [Scribe::new("default", "a", 1), Scribe::new("other", "b", 2), Scribe::new("default", "c", 3)];
    for scribe in &mut scribes {
        scribe.start_and_pause(&*store, LONG);
    }
    assert!(store.referred(&all).await.expect("the store is readable").is_empty());
    // Two queries refer to the same blob, and one tries in vain.
    refer(&mut scribes[0], &*store, "one");
    let mut rival = scribes[2].clone();
    let last = refer(&mut scribes[2], &*store, "one");
    let in_vain = refer(&mut rival, &*store, "three");
    durable(&*store, last).await;
    assert!(conflicts(&*store, in_vain).await);
    let position = refer(&mut scribes[1], &*store, "two");
    durable(&*store, position).await;
    let expect = HashSet::from([all[0], all[1]]);
    assert_eq!(store.referred(&all).await.expect("the store is readable"), expect);
    assert_eq!(store.referred(&all[1..]).await.expect("the store is readable"), HashSet::from([all[1]]));
    let stored = load(&*store, &scribes[1]).await.expect("the query is there");
    assert_eq!(fold(&stored), stored.head);
    drop(store);
    let store = place.open();
    assert_eq!(store.referred(&all).await.expect("the store is readable"), expect);
}

async fn closing_commits_and_then_refuses(mut place: Box<dyn Place>) {
    let store = place.open();
    let mut scribe = Scribe::new("default", "a", 1);
    let position = scribe.start(&*store);
    let mut stale = scribe.clone();
    stale.append(&*store, machine::start_turn(stale.head()));
    let lost = scribe.append(&*store, machine::start_turn(scribe.head()));
    store.close().await.expect("the last commit succeeds");
    durable(&*store, position).await;
    assert!(conflicts(&*store, lost).await, "what was decided before is still told");
    let late: QueryName = "late".parse().expect("a good name");
    let refused = store.append(Scribe::new("default", late.as_str(), 2).create());
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    drop(store);
    let store = place.open();
    assert_eq!(&load(&*store, &scribe).await.expect("nobody awaited it, but it was appended").head, stale.head());
}

async fn resources_are_kept_replaced_and_removed(mut place: Box<dyn Place>) {
    let stored = |kind: Kind, namespace_of: &str, name: &str, generation: u64| StoredResource {
        manifest: Manifest {
            key: ResourceKey::new(kind, namespace(namespace_of), name),
            description: Description {
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
    let change = |what: Change| ResourceChange {
        record: Record::of_act(Timestamp(9), Action::ResourceUpdated, None, Some(what.key().name.clone())),
        what,
    };
    let keep = |resource: &StoredResource| change(Change::Keep(Box::new(resource.clone())));
    let remove = |resource: &StoredResource| change(Change::Remove(resource.manifest.key.clone()));
    let store = place.open();
    assert_eq!(store.resources().await.expect("readable"), []);
    let first = stored(Kind::Agent, "default", "a", 1);
    let other_kind = stored(Kind::Model, "default", "a", 1);
    let other_namespace = stored(Kind::Agent, "other", "a", 1);
    for resource in [&other_kind, &other_namespace, &first] {
        store.change_resource(keep(resource)).await.expect("kept");
    }
    let all = [first.clone(), other_namespace.clone(), other_kind.clone()];
    assert_eq!(store.resources().await.expect("readable"), all);
    let second = stored(Kind::Agent, "default", "a", 2);
    store.change_resource(keep(&second)).await.expect("replaced");
    store.change_resource(remove(&other_kind)).await.expect("removed");
    // There is nothing to remove, and that is no fault.
    store.change_resource(remove(&other_kind)).await.expect("removed");
    let left = [second, other_namespace];
    assert_eq!(store.resources().await.expect("readable"), left);
    drop(store);
    let store = place.open();
    assert_eq!(store.resources().await.expect("readable"), left);
    let found = store.search(&namespace("default"), &Search { limit: 10, ..Search::default() }).await;
    // Each change has its line, in the log of its namespace.
    assert_eq!(found.expect("readable").records.len(), 5);
    store.close().await.expect("closed");
    assert!(store.change_resource(keep(&first)).await.is_err());
}
