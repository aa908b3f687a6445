//! `source: cache`: what is read of the records, how complete and how fresh it is, and what survives a kill.

use bosun_standin::nango::{NangoChange, NangoRecord, NangoRecords};
use serde_json::{Value, json};

use super::{MAIL, call, ended, ids, outcome, state, world};
use crate::{resources::api, support::until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_filtered_and_sorted_here_and_deleted_ones_are_not_shown() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let all = call(&server, "fetch_emails", json!({"operation": "fetch"})).await.unwrap();
    assert_eq!(ids(&all), ["t3", "t2", "t1"], "the newest first, without the deleted one: {all}");
    assert_eq!((&all["total_scanned"], &all["matched"], &all["truncated"]), (&json!(3), &json!(3), &json!(false)));
    assert_eq!((&all["synced_at"], &all["sync_status"]), (&json!("2026-11-17T09:00:00.000Z"), &json!("SUCCESS")));
    let first = json!({"id": "t3", "sender": "sarah@example.com", "subject": "Re: invoice 7", "hasAttachment": true,
        "last_modified_at": "2026-11-16T10:00:00.000Z"});
    assert_eq!(all["records"][0], first);

    let with = |filters: Value| json!({"operation": "fetch", "filters": filters});
    let found = call(&server, "fetch_emails", with(json!({"sender": "sarah@example.com"}))).await.unwrap();
    assert_eq!(ids(&found), ["t3", "t2"]);
    let filters = json!({"subject": {"contains": "invoice"}, "hasAttachment": true});
    assert_eq!(ids(&call(&server, "fetch_emails", with(filters)).await.unwrap()), ["t3", "t1"]);
    let none = call(&server, "fetch_emails", with(json!({"sender": "nemo"}))).await.unwrap();
    assert_eq!((ids(&none).len(), &none["hint"]), (0, &json!("no record matches")));

    // Nothing is asked of Nango for a filter that is not understood.
    let asked = nango.requests().len();
    let (code, message) =
        call(&server, "fetch_emails", with(json!({"dateRange": {"from": "2026-01-01"}}))).await.unwrap_err();
    assert_eq!(code, "invalid_arguments");
    assert!(message.contains("`from` is not an operator; use one of `equals`"), "{message}");
    assert_eq!(nango.requests().len(), asked);
    let records = nango.requests().into_iter().find(|request| request.starts_with("GET /records")).unwrap();
    assert_eq!(records, "GET /records?model=GmailThread&filter=added%2Cupdated&limit=1000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_chooses_its_model() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let input = |kind: &str| json!({"operation": "fetch", "entityType": kind});
    let contacts = call(&server, "fetch_entity", input("Contact")).await.unwrap();
    assert_eq!(ids(&contacts), ["c1"]);
    let mut one = input("Contact");
    one["identifier"] = json!("c1");
    assert_eq!(ids(&call(&server, "fetch_entity", one).await.unwrap()), ["c1"]);
    assert!(nango.requests().iter().any(|request| request.contains("ids=c1")), "{:?}", nango.requests());
    let leads = call(&server, "fetch_entity", input("Lead")).await.unwrap();
    assert_eq!(leads["hint"], "the model `SalesforceLead` has no records");
    let (code, _) = call(&server, "fetch_entity", input("Unicorn")).await.unwrap_err();
    assert_eq!(code, "invalid_tool_arguments", "the enum of the tool");
}

/// Every page is short, so that cursors are followed to their end, and there are more records than one call reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pages_are_read_up_to_the_ceiling_and_the_newest_beyond_it() {
    let mut full = state();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let minutes = |ago: i64| bosun_core::Timestamp(now - ago * 60_000).to_rfc3339();
    let record = |number: i64, ago: i64| {
        let data = json!({"id": format!("r{number:05}"), "number": number});
        NangoRecord {
            data: data.as_object().unwrap().clone(),
            modified: minutes(ago),
            change: NangoChange::Updated,
            pruned: false,
        }
    };
    // Most of them are two years old.
    let old = (0..9_990).map(|number| record(number, 60 * 24 * 700 + 20_000 - number));
    let recent = (9_990..10_040).map(|number| record(number, 10_040 - number));
    full.records = vec![NangoRecords {
        provider_config_key: MAIL.into(),
        connection_id: "my-connection".into(),
        model: "GmailThread".into(),
        records: old.chain(recent).collect(),
    }];
    full.faults.page_bytes = Some(60_000);
    let (world, nango) = world(full, &[]).await;
    let server = world.start().await;
    let newest = call(&server, "fetch_emails", json!({"operation": "fetch"})).await.unwrap();
    assert_eq!(ids(&newest)[..2], ["r10039", "r10038"], "{newest}");
    assert_eq!((&newest["truncated"], &newest["total_scanned"]), (&json!(true), &json!(50)), "{newest}");
    assert!(newest["changed_since"].is_string(), "{newest}");
    nango.change(|state| drop(state.records[0].records.drain(..9_000)));
    let all = call(&server, "fetch_emails", json!({"operation": "fetch"})).await.unwrap();
    assert_eq!(
        (&all["truncated"], &all["total_scanned"], &all["matched"]),
        (&json!(false), &json!(1_040), &json!(1_040))
    );
    let pages = nango.requests().iter().filter(|request| request.contains("cursor=")).count();
    assert!(pages > 2, "{pages} pages were followed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_read_up_to_a_total_size() {
    let mut large = state();
    let record = |number: usize| {
        let data = json!({"id": format!("r{number:03}"), "text": "x".repeat(256 << 10)});
        let modified = format!("2026-11-{:02}T10:00:{:02}.000Z", 1 + number / 60, number % 60);
        NangoRecord { data: data.as_object().unwrap().clone(), modified, change: NangoChange::Added, pruned: false }
    };
    large.records[0].records = (0..200).map(record).collect();
    // A page has to fit into one answer.
    large.faults.page_bytes = Some(4 << 20);
    // On a busy machine, a debug build needs more than the default to read all of it.
    let (world, nango) = world(large, &["--tool-timeout", "5m"]).await;
    let server = world.start().await;
    // In an order of the caller's own, what changed last is not what is asked for.
    let input = json!({"operation": "fetch", "orderBy": "id", "excludeFields": ["text"]});
    let cut = call(&server, "fetch_emails", input.clone()).await.unwrap();
    let scanned = cut["total_scanned"].as_u64().unwrap();
    assert_eq!(cut["truncated"], true);
    assert!((128..=130).contains(&scanned), "32 MiB are 128 records: {scanned}");
    nango.change(|state| state.records[0].records.truncate(100));
    let whole = call(&server, "fetch_emails", input).await.unwrap();
    assert_eq!((&whole["truncated"], &whole["total_scanned"]), (&json!(false), &json!(100)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_list_is_distinguished_from_a_sync_that_has_not_run() {
    let mut fresh = state();
    fresh.records.clear();
    fresh.integrations[0].syncs[0].finished_at = None;
    let (world, nango) = world(fresh, &[]).await;
    let server = world.start().await;
    let fetch = || call(&server, "fetch_emails", json!({"operation": "fetch"}));
    let (code, message) = fetch().await.unwrap_err();
    assert_eq!(code, "sync_not_ready", "{message}");
    nango.change(|state| state.integrations[0].syncs[0].finished_at = Some("2026-11-17T09:00:00.000Z".into()));
    assert_eq!(fetch().await.unwrap()["records"], json!([]));
    nango.change(|state| state.integrations[0].syncs[0].models = vec!["Other".into()]);
    let (code, message) = fetch().await.unwrap_err();
    assert_eq!(code, "sync_not_ready");
    assert!(message.contains("`cache_model` is wrong"), "{message}");
    // A record whose content is gone is not an empty record.
    let mut pruned = state();
    pruned.records[0].records[2].pruned = true;
    nango.change(|state| *state = pruned);
    let shown = fetch().await.unwrap();
    assert_eq!(ids(&shown), ["t2", "t1"]);
    assert!(shown["hint"].as_str().unwrap().contains("content of 1 records was deleted"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_retried_and_our_own_key_is_distinguished_from_the_users() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let fetch = || call(&server, "fetch_emails", json!({"operation": "fetch"}));
    for status in [502, 503, 429] {
        nango.change(|state| (state.faults.fail_next, state.faults.fail_status) = (1, Some(status)));
        assert!(fetch().await.is_ok(), "{status}");
    }
    nango.change(|state| state.key = "11111111-2222-4333-8444-555555555555".into());
    let (code, message) = fetch().await.unwrap_err();
    assert_eq!(code, "tool_misconfigured");
    assert!(message.contains("check the secret `nango`"), "{message}");
    drop(nango);
    let (code, message) = fetch().await.unwrap_err();
    assert_eq!(code, "tool_unreachable", "{message}");
}

/// A small request whose expression names one long list of values again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_cost_more_than_their_size_are_refused() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let with = |values: usize, numbers: usize| {
        let list = json!({"field": "size", "operator": "in", "values": vec![1; values]});
        json!({"operation": "fetch", "filters": {"conditions": [list], "logic": vec!["1"; numbers].join(" or ")}})
    };
    for (values, numbers, expect) in [
        (20_000, 4_000, "more than 1000 values"),
        (1_001, 1, "more than 1000 values"),
        (1, 201, "`logic` has more than 200 numbers"),
    ] {
        let (code, message) = call(&server, "fetch_emails", with(values, numbers)).await.unwrap_err();
        assert_eq!(code, "invalid_arguments", "{values} {numbers}: {message}");
        assert!(message.contains(expect), "{values} {numbers}: {message}");
    }
    assert!(nango.requests().is_empty(), "nothing is asked of Nango");
    assert!(call(&server, "fetch_emails", with(1_000, 200)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_a_kill_interrupts_is_repeated() {
    let (world, nango) = world(state(), &[]).await;
    let mut server = world.start().await;
    nango.change(|state| state.faults.latency_ms = 600_000);
    let input = json!({"input": {"operation": "fetch"}}).to_string();
    let body = json!({"name": "read", "input": input, "target": {"type": "tool", "name": "fetch_emails"}});
    let begun = api(&server, "POST", "/v1/queries?view=rfc", Some(&body)).await;
    assert!(begun.status < 300, "{}", begun.text);
    until("the first request", || !nango.requests().is_empty()).await;
    server.kill().await;
    nango.change(|state| state.faults.latency_ms = 0);
    let server = world.start().await;
    let records = outcome(&ended(&server, "read", &[]).await).unwrap();
    assert_eq!(ids(&records), ["t3", "t2", "t1"]);
}
