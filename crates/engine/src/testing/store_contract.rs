//! The specification of [`Store`], as tests that every back end runs.
//!
//! Each clause is one function, in one of the modules `…_clauses`, and begins with a store of its own. A back end
//! implements [`StorePlace`]: a store that can be opened, and opened again as a later process would find it. What is special
//! to a back end (locks, files, full disks) is tested next to it.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{sync::Arc, time::Duration};

use bosun_core::{Actor, Head, Namespace, Timestamp, audit::AuditRecord};

use super::query_writer::QueryWriter;
use crate::store::{Position, QueryPage, Removal, Store, StoreError, Stored};

/// Persistent storage for a store.
pub trait StorePlace: Send {
    /// Opens it. The first time it is empty; after that it contains what was stored, and the handle that had it open
    /// before is fenced.
    fn open(&mut self) -> Arc<dyn Store>;
}

/// Makes a test of every clause of the contract, with the attributes of the first argument and a new place for each.
///
/// `store_contract!([tokio::test] Directory::new());` in a module of its own.
#[macro_export]
macro_rules! store_contract {
    ([$($attribute:tt)+] $place:expr) => {
        $crate::store_contract! { @each [$($attribute)+] $place;
            append_clauses::what_was_appended_is_loaded,
            append_clauses::positions_ascend_and_durable_implies_all_earlier_ones,
            append_clauses::appends_without_a_waiter_are_batched,
            append_clauses::a_wait_that_is_dropped_loses_nothing,
            append_clauses::a_conflict_does_not_reject_other_appends_of_its_commit,
            append_clauses::what_builds_on_a_rejected_append_is_rejected_even_if_its_sequence_number_fits,
            append_clauses::a_writer_that_reloads_can_continue,
            append_clauses::an_append_must_follow_the_stored_journal,
            append_clauses::a_name_is_unique_in_a_namespace,
            append_clauses::namespaces_are_separate,
            append_clauses::a_load_sees_whole_appends_only,
            append_clauses::concurrent_writers_all_succeed,
            content_clauses::a_document_is_stored_once,
            finding_clauses::a_list_has_pages_newest_first_with_total_and_filter,
            finding_clauses::queries_are_found_by_label_session_target_and_time,
            finding_clauses::queries_with_open_approvals_are_listed_whatever_else_they_wait_for,
            finding_clauses::a_list_shows_every_open_call,
            finding_clauses::a_page_of_large_answers_is_short,
            finding_clauses::a_namespace_is_in_use_while_a_query_is_in_it,
            finding_clauses::due_queries_are_listed_most_overdue_first,
            finding_clauses::a_mixed_turn_has_a_deadline_and_work,
            finding_clauses::open_calls_of_workers_are_found_until_they_are_claimed,
            finding_clauses::a_query_with_work_is_runnable_and_marked_if_inherited,
            finding_clauses::namespaces_are_served_round_robin,
            removal_clauses::a_request_is_answered_once_under_its_idempotency_key,
            removal_clauses::a_deleted_query_is_gone_and_its_name_is_free,
            removal_clauses::ended_queries_are_deleted_at_the_end_of_their_retention,
            removal_clauses::the_latest_retention_of_an_ended_query_counts,
            removal_clauses::a_toolset_is_deleted_with_the_last_query_that_refers_to_it,
            content_clauses::a_later_process_loads_the_same_and_can_fold_it,
            content_clauses::hostile_texts_are_read_back_unchanged,
            content_clauses::large_values_are_read_back_unchanged,
            content_clauses::blobs_are_referred_to_by_what_is_committed,
            conversation_clauses::messages_are_in_the_order_in_which_their_queries_completed,
            conversation_clauses::an_append_that_is_not_kept_adds_no_messages,
            conversation_clauses::a_history_is_cut_between_queries,
            conversation_clauses::a_query_that_must_be_alone_in_a_conversation_is,
            conversation_clauses::conversations_are_listed_in_pages_the_latest_first,
            conversation_clauses::deleted_messages_are_gone_and_numbers_are_not_reused,
            conversation_clauses::a_conversation_is_deleted_at_the_end_of_its_retention,
            conversation_clauses::a_query_with_a_short_retention_does_not_shorten_that_of_its_conversation,
            conversation_clauses::a_page_of_large_messages_is_short,
            conversation_clauses::a_history_is_deleted_with_the_last_query_that_refers_to_it,
            conversation_clauses::a_namespace_is_in_use_while_a_conversation_is_in_it,
            content_clauses::resources_are_kept_replaced_and_removed,
            append_clauses::closing_commits_and_then_refuses,
            record_clauses::what_is_appended_is_audited_and_counted,
            record_clauses::what_is_rejected_leaves_no_record,
            record_clauses::records_are_searched_newest_first_in_pages,
            record_clauses::the_log_outlives_its_queries_and_processes,
            webhook_clauses::a_webhook_is_kept_replaced_and_bounded_in_number,
            webhook_clauses::webhooks_are_due_while_their_query_has_entries_after_their_cursor,
            webhook_clauses::webhooks_are_deleted_with_their_query,
        }
    };
    (@each $attribute:tt $place:expr; $($module:ident::$clause:ident,)+) => {
        $($crate::store_contract! { @one $attribute $place; $module $clause })+
    };
    (@one [$($attribute:tt)+] $place:expr; $module:ident $clause:ident) => {
        #[$($attribute)+]
        async fn $clause() {
            $crate::testing::$module::$clause(Box::new($place)).await;
        }
    };
}

pub(super) const LONG: Duration = Duration::from_secs(600);

pub(super) fn namespace(text: &str) -> Namespace {
    text.parse().expect("tests name good namespaces")
}

pub(super) async fn load(store: &dyn Store, writer: &QueryWriter) -> Option<Stored> {
    let head = writer.head();
    store.load(&head.namespace, &head.name).await.expect("the store is readable")
}

pub(super) async fn durable(store: &dyn Store, position: Position) {
    store.durable(position).await.expect("the append is kept");
}

pub(super) async fn conflicts(store: &dyn Store, position: Position) -> bool {
    matches!(store.durable(position).await, Err(StoreError::Conflict(_)))
}

/// The head as folded from the journal alone.
///
/// # Panics
/// If it is not a valid journal.
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

pub(super) fn page(limit: usize) -> QueryPage {
    QueryPage { limit, ..QueryPage::default() }
}

/// The deletion of this query of the default namespace.
pub(super) fn removal(writer: &QueryWriter) -> Removal {
    let record = AuditRecord::of_deletion(writer.head(), Timestamp(1_000), &Actor::local());
    Removal::Query(namespace("default"), writer.uid(), Box::new(record))
}
