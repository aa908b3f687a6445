//! The specification of [`Store`], as a test that every back end runs.
//!
//! Each clause is one function, in one of the modules `…_clauses`, and begins with a store of its own. A back end brings a [`Place`]: a
//! store that can be opened, and opened again as a later process would find it. What is special to a
//! back end (locks, files, full disks) is tested beside it.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{sync::Arc, time::Duration};

use bosun_core::{Actor, Head, Namespace, Timestamp, audit::Record};
use futures_util::future::{BoxFuture, FutureExt as _};

use super::{
    append_clauses, content_clauses, conversation_clauses, finding_clauses, record_clauses, removal_clauses,
    scribe::Scribe,
};
use crate::store::{Page, Position, Removal, Store, StoreError, Stored};

/// Somewhere a store lives.
pub trait Place: Send {
    /// Opens it. The first time it is empty; after that it holds what was there, and whoever had
    /// it open before is gone.
    fn open(&mut self) -> Arc<dyn Store>;
}

type Clause = fn(Box<dyn Place>) -> BoxFuture<'static, ()>;

const CLAUSES: &[Clause] = &[
    |place| append_clauses::what_was_appended_is_loaded(place).boxed(),
    |place| append_clauses::positions_ascend_and_durable_implies_all_earlier_ones(place).boxed(),
    |place| append_clauses::appends_that_nobody_awaits_ride_along(place).boxed(),
    |place| append_clauses::a_wait_that_is_given_up_loses_nothing(place).boxed(),
    |place| append_clauses::a_conflict_does_not_sink_its_neighbours(place).boxed(),
    |place| append_clauses::what_builds_on_a_rejected_append_is_rejected_even_if_its_number_fits(place).boxed(),
    |place| append_clauses::a_writer_that_loads_again_can_go_on(place).boxed(),
    |place| append_clauses::an_append_must_follow_the_stored_journal(place).boxed(),
    |place| append_clauses::a_name_is_taken_once_in_a_namespace(place).boxed(),
    |place| append_clauses::namespaces_are_separate(place).boxed(),
    |place| append_clauses::a_load_sees_whole_appends_only(place).boxed(),
    |place| append_clauses::many_writers_at_once_all_get_through(place).boxed(),
    |place| content_clauses::a_document_is_stored_once_whoever_brings_it(place).boxed(),
    |place| finding_clauses::a_list_has_pages_newest_first_with_total_and_filter(place).boxed(),
    |place| finding_clauses::a_list_tells_of_every_call_that_waits(place).boxed(),
    |place| finding_clauses::a_page_of_large_answers_is_short(place).boxed(),
    |place| finding_clauses::a_namespace_is_in_use_while_a_query_is_in_it(place).boxed(),
    |place| finding_clauses::what_is_due_comes_most_overdue_first(place).boxed(),
    |place| finding_clauses::a_mixed_turn_has_a_deadline_and_work(place).boxed(),
    |place| finding_clauses::what_has_work_is_runnable_and_says_whether_it_is_inherited(place).boxed(),
    |place| finding_clauses::namespaces_take_turns(place).boxed(),
    |place| removal_clauses::a_request_is_answered_once_under_its_key(place).boxed(),
    |place| removal_clauses::a_deleted_query_is_gone_and_its_name_is_free(place).boxed(),
    |place| removal_clauses::what_ended_is_kept_for_its_time_and_no_longer(place).boxed(),
    |place| removal_clauses::what_ended_is_kept_for_the_time_that_was_said_last(place).boxed(),
    |place| removal_clauses::a_toolset_goes_with_the_last_query_that_has_it(place).boxed(),
    |place| content_clauses::a_later_process_finds_the_same_and_can_fold_it(place).boxed(),
    |place| content_clauses::hostile_texts_come_back_as_they_were(place).boxed(),
    |place| content_clauses::large_values_come_back_as_they_were(place).boxed(),
    |place| content_clauses::blobs_are_referred_to_by_what_is_committed(place).boxed(),
    |place| conversation_clauses::what_completed_queries_say_stands_in_the_order_of_their_completion(place).boxed(),
    |place| conversation_clauses::an_append_that_is_not_kept_says_nothing(place).boxed(),
    |place| conversation_clauses::a_history_is_cut_between_queries(place).boxed(),
    |place| conversation_clauses::who_wants_to_be_alone_in_a_conversation_is(place).boxed(),
    |place| conversation_clauses::conversations_are_listed_in_pages_the_latest_first(place).boxed(),
    |place| conversation_clauses::what_is_forgotten_is_gone_and_numbers_are_not_given_twice(place).boxed(),
    |place| conversation_clauses::a_conversation_that_nobody_goes_on_with_is_forgotten_in_time(place).boxed(),
    |place| {
        conversation_clauses::a_query_that_is_kept_for_a_short_time_does_not_shorten_the_life_of_its_conversation(place)
            .boxed()
    },
    |place| conversation_clauses::a_page_of_what_was_said_is_short_if_that_is_long(place).boxed(),
    |place| conversation_clauses::a_history_goes_with_the_last_query_that_has_it(place).boxed(),
    |place| conversation_clauses::a_namespace_is_in_use_while_a_conversation_is_in_it(place).boxed(),
    |place| content_clauses::resources_are_kept_replaced_and_removed(place).boxed(),
    |place| append_clauses::closing_commits_and_then_refuses(place).boxed(),
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

pub(super) async fn load(store: &dyn Store, scribe: &Scribe) -> Option<Stored> {
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

pub(super) fn page(limit: usize) -> Page {
    Page { limit, before: None, status: None }
}

/// That this query of the default namespace is to be deleted.
pub(super) fn removal(scribe: &Scribe) -> Removal {
    let record = Record::of_deletion(scribe.head(), Timestamp(1_000), &Actor::local());
    Removal::Query(namespace("default"), scribe.uid(), Box::new(record))
}
