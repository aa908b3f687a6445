//! The limits: their page, and a case for every row of their table.
//!
//! A case tests the limit and one above it, from outside where possible: on the real server, with what a client sends.
//! What no client can cause quickly (caches, journals of 64 MiB, replies of a model) is tested where the limit is
//! enforced; [`CASES`] says where.

mod page;
mod requests;
mod schemas;
mod site;

use bosun_core::ceiling;

const REQUESTS: &str = "crates/bosun/tests/it/limits/requests.rs";
const SCHEMAS: &str = "crates/bosun/tests/it/limits/schemas.rs";
const WORKERS: &str = "crates/bosun/tests/it/workers.rs";
const ENGINE: &str = "crates/engine/src/tests/ceilings.rs";
const NANGO: &str = "crates/bosun/tests/it/nango/records.rs";
const NANGO_QUERY: &str = "crates/adapters/src/runner/nango/query.rs";
const AGENT_TOOLS: &str = "crates/bosun/tests/it/agent_tools.rs";
const PUSH: &str = "crates/bosun/tests/it/a2a_push.rs";
const BLOCKS: &str = "crates/engine/src/tests/blocks.rs";

/// The row, the file and the name of its test.
const CASES: &[(&str, &str, &str)] = &[
    ("BODY_BYTES", REQUESTS, "a_body"),
    ("JSON_MEMORY_BYTES", REQUESTS, "the_values_of_a_body"),
    ("JSON_DEPTH", REQUESTS, "the_depth_of_a_body"),
    ("HEADER_BYTES", REQUESTS, "the_headers"),
    ("IDEMPOTENCY_KEY_BYTES", REQUESTS, "an_idempotency_key"),
    ("WAIT_SECONDS", REQUESTS, "the_time_to_wait"),
    ("CONVERSATION_ID_BYTES", REQUESTS, "the_name_of_a_conversation"),
    ("REASON_BYTES", REQUESTS, "the_reason_of_a_cancellation"),
    ("LABELS_BYTES", REQUESTS, "labels_and_annotations"),
    ("LABELS", REQUESTS, "the_number_of_labels"),
    ("RESOURCE_BYTES", REQUESTS, "a_stored_resource"),
    ("RESOURCE_MEMORY_BYTES", REQUESTS, "the_values_of_a_stored_resource"),
    ("SERVERS_STORED", REQUESTS, "servers_that_a_namespace_stores"),
    ("PARAMETERS_BYTES", REQUESTS, "parameters_from_config_maps"),
    ("RENDERED_BYTES", REQUESTS, "an_input_that_is_filled_in"),
    ("FAULTS_LISTED", REQUESTS, "faults_of_a_request"),
    ("WARNINGS_KEPT", REQUESTS, "warnings_of_a_request"),
    ("RESULTS_DELIVERED", REQUESTS, "results_of_a_delivery"),
    ("WORKER_TOOLS", WORKERS, "what_a_worker_asks_for_has_ceilings"),
    ("CALLS_CLAIMED", WORKERS, "what_a_worker_asks_for_has_ceilings"),
    ("LEASE_SECONDS", WORKERS, "what_a_worker_asks_for_has_ceilings"),
    ("RPC_ID_BYTES", REQUESTS, "the_ids_of_a2a"),
    ("MESSAGE_ID_BYTES", REQUESTS, "the_ids_of_a2a"),
    ("PUSH_CONFIGS", PUSH, "configs_are_created_read_listed_and_deleted_over_both_bindings"),
    ("PUSH_FIELD_BYTES", PUSH, "an_address_that_is_private_is_refused_unless_the_operator_lists_it"),
    (
        "PUSH_ATTEMPTS",
        "crates/edges/src/tests/a2a/push.rs",
        "a_receiver_that_always_fails_loses_its_webhook_after_the_last_attempt",
    ),
    ("CHANGES_BYTES", REQUESTS, "changes_of_a_query"),
    ("PAGE_ENTRIES", REQUESTS, "entries_of_a_page"),
    ("TASK_PAGE_ENTRIES", REQUESTS, "entries_of_a_page_of_tasks"),
    ("TASKS_LISTED", "crates/edges/src/tests/a2a/tasks.rs", "only_the_newest_queries_are_looked_through_for_tasks"),
    ("TOOLS", SCHEMAS, "tools_of_a_request"),
    ("TOOL_NAME_LENGTH", SCHEMAS, "the_name_of_a_tool"),
    ("TOOL_DESCRIPTION_BYTES", SCHEMAS, "the_description_of_a_tool"),
    ("SCHEMA_BYTES", SCHEMAS, "a_schema"),
    ("SCHEMA_DEPTH", SCHEMAS, "the_depth_of_a_schema"),
    ("SUBSCHEMAS", SCHEMAS, "subschemas"),
    ("ENUM_VALUES", SCHEMAS, "values_of_an_enum"),
    ("PATTERN_BYTES", SCHEMAS, "a_pattern"),
    ("PATTERN_COMPILED_BYTES", SCHEMAS, "a_compiled_pattern"),
    ("SCHEMA_PATTERN_BYTES", SCHEMAS, "all_patterns_of_a_schema"),
    ("REQUEST_PATTERN_BYTES", SCHEMAS, "all_patterns_of_a_request"),
    ("ARGUMENT_BYTES", ENGINE, "arguments_that_are_too_large_are_reported_to_the_model"),
    ("REPLY_CALLS", ENGINE, "a_reply_with_too_many_calls_fails_the_query_and_none_is_journaled"),
    ("CALL_NAME_BYTES", ENGINE, "the_id_and_the_name_of_a_call_have_a_maximum_length"),
    ("REPLY_TEXT_BYTES", ENGINE, "the_text_of_a_reply_is_counted_as_json_writes_it"),
    ("REPLY_BYTES", ENGINE, "a_reply_has_a_ceiling_as_a_whole"),
    ("RESULT_SHOWN_BYTES", ENGINE, "the_model_is_shown_a_result_up_to_its_ceiling"),
    ("BLOCKS_SHOWN_BYTES", BLOCKS, "blocks_are_shown_up_to_their_ceiling_and_mentioned_above"),
    ("IMAGES_SHOWN", BLOCKS, "a_request_has_the_newest_images_up_to_a_number"),
    ("IMAGES_SHOWN_BYTES", BLOCKS, "a_request_has_the_newest_images_up_to_a_total_size"),
    ("ENTRY_BYTES", ENGINE, "the_entry_that_creates_a_query_has_a_ceiling"),
    ("JOURNAL_BYTES", ENGINE, "a_query_whose_journal_is_full_fails_and_can_still_be_read_and_deleted"),
    (
        "INLINE_RESULT_BYTES",
        "crates/edges/src/tests/large.rs",
        "a_stream_and_a_view_have_references_instead_of_megabytes",
    ),
    ("EVENT_BYTES", "crates/edges/src/tests/streaming.rs", "no_event_is_larger_than_its_ceiling"),
    ("PAGE_BYTES", "crates/engine/src/testing/finding_clauses.rs", "a_page_of_large_answers_is_short"),
    ("SCHEMA_CACHE_BYTES", "crates/core/src/schema/cache.rs", "patterns_weigh_what_they_take"),
    ("TOOLSET_CACHE_BYTES", "crates/engine/src/turns/toolset_cache.rs", "the_least_recently_used_is_evicted"),
    (
        "CATALOG_CACHE_BYTES",
        "crates/engine/src/registry/catalogs.rs",
        "the_catalogues_of_many_agents_are_bounded_by_their_size",
    ),
    ("DEFINITION_CACHE_BYTES", "crates/core/src/tool/definition/cache.rs", "what_is_kept_is_bounded"),
    (
        "RESULT_CACHE_BYTES",
        "crates/engine/src/turns/result_cache.rs",
        "the_total_size_is_bounded_and_the_least_recently_used_is_evicted",
    ),
    ("WAITING_CACHE_BYTES", ENGINE, "waiting_queries_are_cached_up_to_a_total_size"),
    ("NANGO_RECORDS", NANGO, "all_pages_are_read_up_to_the_ceiling_and_the_newest_beyond_it"),
    ("NANGO_BYTES", NANGO, "records_are_read_up_to_a_total_size"),
    ("NANGO_CONDITIONS", NANGO_QUERY, "what_a_query_costs_is_bounded"),
    ("NANGO_OPERANDS", NANGO_QUERY, "what_a_query_costs_is_bounded"),
    ("NANGO_LOGIC_NUMBERS", NANGO_QUERY, "what_a_query_costs_is_bounded"),
    ("NANGO_ORDER_FIELDS", NANGO_QUERY, "what_a_query_costs_is_bounded"),
    ("JQ_SECONDS", AGENT_TOOLS, "a_filter_that_does_not_end_or_takes_all_memory_is_reported_to_the_model"),
    ("JQ_MEMORY_BYTES", AGENT_TOOLS, "a_filter_that_does_not_end_or_takes_all_memory_is_reported_to_the_model"),
    ("HTTP_RESPONSE_BYTES", "crates/bosun/tests/it/http_tools/mod.rs", "the_size_of_an_answer_is_limited"),
    ("RECENT_ENTRIES_BYTES", ENGINE, "recent_entries_are_cached_up_to_a_total_size_and_all_reach_the_reader"),
    (
        "RESULT_BYTES",
        "crates/bosun/tests/it/large.rs",
        "sixty_four_mebibytes_are_uploaded_and_downloaded_in_bounded_memory",
    ),
    ("RESULT_BYTES", "crates/bosun/tests/it/large.rs", "a_body_that_is_too_large_or_cut_off_leaves_nothing"),
    ("CALL_DRAFTS", "crates/engine/src/engine/upload_limits.rs", "drafts_are_limited_per_call"),
    (
        "NAMESPACE_DRAFT_BYTES",
        "crates/engine/src/engine/upload_limits.rs",
        "the_total_size_of_drafts_is_limited_per_namespace",
    ),
];

#[test]
fn every_row_of_the_table_has_a_case() {
    let without: Vec<_> = ceiling::ALL
        .iter()
        .map(|ceiling| ceiling.name)
        .filter(|name| !CASES.iter().any(|(row, ..)| row == name))
        .collect();
    assert!(without.is_empty(), "these ceilings have no case at them and above: {without:?}");
    for (row, file, test) in CASES {
        assert!(ceiling::ALL.iter().any(|ceiling| ceiling.name == *row), "there is no ceiling {row}");
        let text = std::fs::read_to_string(format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))).expect("a file");
        assert!(text.contains(&format!("fn {test}(")), "{row}: there is no `{test}` in {file}");
    }
}
