//! Tools of Nango integrations, run by the whole program against the stand-in for Nango.

use std::fs;

use bosun_standin::nango::{
    NangoAction, NangoChange, NangoConnection, NangoFailure, NangoRecord, NangoRecords, NangoStandIn, NangoState,
};
use serde_json::{Value, json};

use crate::{
    program::{bosun, run, stderr, stdout},
    readme::{blocks, read},
    resources::{Answer, api, send},
    support::{
        server::{Server, World},
        soon,
    },
};

/// The configuration of the course, as it is printed there.
const TOOL_CONFIG: &str = include_str!("../../../../examples/nango/tool-config.json");
const CRM: &str = include_str!("../../../../examples/nango/crm.json");
const PROVIDERS: &str = include_str!("../../../../examples/nango/providers.json");
const STATE: &str = include_str!("../../../../examples/nango/state.json");

const MAIL: &str = "google-mail-ynxw";

fn state() -> NangoState {
    serde_json::from_str(STATE).expect("the example is a state")
}

/// A server whose tools are those of the course, and a stand-in for its Nango.
async fn world(state: NangoState, more: &[&str]) -> (World, NangoStandIn) {
    let (world, nango) = (World::new(), NangoStandIn::start(state.clone()).await.unwrap());
    fs::write(world.path("tool-config.json"), TOOL_CONFIG).unwrap();
    fs::write(world.path("crm.json"), CRM).unwrap();
    fs::write(world.path("providers.json"), PROVIDERS).unwrap();
    let secrets = world.path("secrets/default/nango");
    fs::create_dir_all(&secrets).unwrap();
    fs::write(secrets.join("key"), &state.key).unwrap();
    let settings = format!(
        "[nango]\nurl = \"{}\"\n[nango.connections]\n{MAIL} = \"my-connection\"\nsalesforce-ybzg = \"crm-connection\"\n",
        nango.url()
    );
    fs::write(world.path("bosun.toml"), settings).unwrap();
    let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
    let options = [
        "--config".to_owned(),
        path("bosun.toml"),
        "--secrets".to_owned(),
        path("secrets"),
        "--tools".to_owned(),
        path("tool-config.json"),
        "--tools".to_owned(),
        path("crm.json"),
    ];
    let options: Vec<_> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    (world.with(&options), nango)
}

/// Calls a tool by itself; its result, or its error.
async fn call(server: &Server, tool: &str, input: Value) -> Result<Value, (String, String)> {
    call_as(server, tool, input, &[]).await
}

async fn call_as(
    server: &Server,
    tool: &str,
    input: Value,
    headers: &[(&str, &str)],
) -> Result<Value, (String, String)> {
    let body = json!({"input": json!({"input": input}).to_string(), "target": {"type": "tool", "name": tool}});
    let answer = send(server, "POST", "/v1/queries?wait=60s&view=rfc", Some(&body), headers).await.unwrap();
    if answer.body["status"] != "approval_required" {
        return outcome(&answer);
    }
    let name = answer.body["name"].as_str().unwrap().to_owned();
    approve(server, &name, headers).await;
    outcome(&ended(server, &name, headers).await)
}

/// Approves the one call of a query that waits for it.
async fn approve(server: &Server, name: &str, headers: &[(&str, &str)]) {
    let decision = json!({"decision": "approved"});
    let path = format!("/v1/queries/{name}/approval?wait=0&view=rfc");
    let approved = send(server, "POST", &path, Some(&decision), headers).await.unwrap();
    assert!(approved.status < 300, "{}", approved.text);
}

/// The query when it has ended.
async fn ended(server: &Server, name: &str, headers: &[(&str, &str)]) -> Answer {
    let path = format!("/v1/queries/{name}?wait=20s&view=rfc");
    let waiting = async {
        loop {
            let answer = send(server, "GET", &path, None, headers).await.unwrap();
            if matches!(answer.body["status"].as_str(), Some("completed" | "failed")) {
                return answer;
            }
        }
    };
    soon("the end of the query", waiting).await
}

fn outcome(answer: &Answer) -> Result<Value, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match answer.body["status"].as_str() {
        Some("completed") => Ok(serde_json::from_str(&text(&answer.body["response"])).unwrap_or_default()),
        _ => {
            let error = &answer.body["error"];
            assert!(error.is_object(), "{}", answer.text);
            Err((text(&error["code"]), text(&error["message"])))
        }
    }
}

fn ids(result: &Value) -> Vec<&str> {
    result["records"].as_array().unwrap().iter().map(|record| record["id"].as_str().unwrap()).collect()
}

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

/// An action with this behaviour.
fn action(name: &str, delay_ms: u64, fails: Option<(u16, Value)>) -> NangoAction {
    let fails = fails.map(|(status, error)| NangoFailure { status, error });
    NangoAction {
        name: name.into(),
        description: String::new(),
        output: None,
        fails,
        delay_ms,
        is_disabled: false,
        input_schema: None,
    }
}

fn email() -> Value {
    json!({"to": "ada@example.com", "subject": "Hello", "body": "<p>Hi</p>"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_gets_its_input_unwrapped_once_and_validated_here() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let sent = call(&server, "send_email", email()).await.unwrap();
    assert_eq!(sent, json!({"id": "msg-1", "threadId": "thread-9"}));
    let [run] = &nango.runs()[..] else { panic!("{:?}", nango.runs()) };
    assert_eq!((run.action.as_str(), run.connection.as_str(), &run.input), ("send-email", "my-connection", &email()));
    let (code, _) = call(&server, "send_email", json!({"to": "ada@example.com"})).await.unwrap_err();
    assert_eq!(code, "invalid_tool_arguments");
    assert_eq!(nango.runs().len(), 1, "nothing was sent for arguments that are not valid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_actions_have_their_own_codes() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let upstream = |status: u16| json!({"code": "script_http_error", "payload": null, "upstream": {"status": status, "headers": {}, "body": {"why": "quota"}}});
    let cases = [
        (
            Some((500, json!({"code": "action_script_runtime_error", "payload": {"message": "no such label"}}))),
            "action_failed",
        ),
        (Some((424, upstream(401))), "provider_auth_expired"),
        (Some((424, upstream(503))), "upstream_error"),
        (Some((424, upstream(429))), "rate_limited"),
        (Some((424, json!({"code": "script_api_rate_limit_error"}))), "rate_limited"),
    ];
    for (fails, expect) in cases {
        nango.change(|state| state.integrations[0].actions = vec![action("send-email", 0, fails)]);
        let before = nango.runs().len();
        let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
        assert_eq!(code, expect, "{message}");
        assert_eq!(nango.runs().len(), before + 1, "{expect}: an action is never repeated");
    }
    nango.change(|state| state.integrations[0].actions = vec![action("send-mail", 0, None)]);
    let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
    assert_eq!(code, "tool_misconfigured");
    assert!(message.contains("the action `send-email` is not deployed for `google-mail-ynxw`"), "{message}");
    // A 5xx of Nango itself after the request was sent.
    nango.change(|state| {
        state.integrations[0].actions = vec![action("send-email", 0, None)];
        (state.faults.fail_next, state.faults.fail_status) = (1, Some(502));
    });
    let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
    assert_eq!(code, "outcome_unknown", "{message}");
}

/// The handle of an action is durable before it is polled: a later process asks for its result, and it runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_takes_long_survives_kill_9() {
    let mut slow = state();
    slow.integrations[0].actions = vec![action("send-email", 3_000, None)];
    let (world, nango) = world(slow, &[]).await;
    let mut server = world.start().await;
    let input = json!({"input": email()}).to_string();
    let body = json!({"name": "slow", "input": input, "target": {"type": "tool", "name": "send_email"}});
    let begun = api(&server, "POST", "/v1/queries?view=rfc", Some(&body)).await;
    assert!(begun.status < 300, "{}", begun.text);
    let waiting = async {
        while api(&server, "GET", "/v1/queries/slow?view=rfc", None).await.body["status"] != "approval_required" {
            tokio::task::yield_now().await;
        }
    };
    soon("the request for approval", waiting).await;
    approve(&server, "slow", &[]).await;
    let polled = async {
        while !nango.requests().iter().any(|request| request.starts_with("GET /action/")) {
            tokio::task::yield_now().await;
        }
    };
    soon("the first poll", polled).await;
    server.kill().await;
    let server = world.start().await;
    let result = outcome(&ended(&server, "slow", &[]).await);
    assert_eq!(result, Ok(email()), "the action gives its input back");
    assert_eq!(nango.runs().len(), 1, "{:?}", nango.runs());
}

/// Between the answer of Nango and the entry of the journal: whether the action ran is not known, and it is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_handle_is_durable_leaves_an_unknown_outcome_and_one_run() {
    let (world, nango) = world(state(), &[]).await;
    let crate::support::server::Started::Ready(mut server) = world.spawn(Some("call.pending")).ready().await else {
        panic!("the server starts")
    };
    let input = json!({"input": email()}).to_string();
    let body = json!({"name": "once", "input": input, "target": {"type": "tool", "name": "send_email"}});
    let asked = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    assert_eq!(asked.body["status"], "approval_required", "{}", asked.text);
    // The process dies before or after it has answered.
    let decision = json!({"decision": "approved"});
    let _ = send(&server, "POST", "/v1/queries/once/approval?wait=0", Some(&decision), &[]).await;
    assert_eq!(server.exit().await, crate::support::server::ProcessExit::AtFaultPoint);
    let server = world.start().await;
    let answer = ended(&server, "once", &[]).await;
    let (code, _) = outcome(&answer).unwrap_err();
    assert_eq!(code, "outcome_unknown", "{}", answer.text);
    assert_eq!(nango.runs().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_user_has_connections_of_their_own_and_no_others() {
    let (world, nango) = world(state(), &[]).await;
    let keys = world.path("keys.toml");
    let create =
        ["keys", "create", "app", "--json", "--right", "read", "--right", "run", "--may-act-for", "*", "--auth"];
    let created = run(bosun().args(create).arg(&keys)).await;
    assert!(created.status.success(), "{}", stderr(&created));
    let key: Value = serde_json::from_str(&stdout(&created)).unwrap();
    let token = key["secret_key"].as_str().unwrap().to_owned();
    let world = world.with(&["--auth", keys.to_str().unwrap()]);
    let server = world.start().await;
    let bearer = format!("Bearer {token}");
    let fetch = async |user: Option<&str>| {
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(user.map(|user| ("x-forwarded-user", user)));
        call_as(&server, "fetch_emails", json!({"operation": "fetch"}), &headers).await
    };
    assert_eq!(ids(&fetch(Some("alice")).await.unwrap()), ["a1"], "her own");
    // The list of tools says the same, before anything is called.
    let state_of = async |user: Option<&str>, tool: &str| {
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(user.map(|user| ("x-forwarded-user", user)));
        let listed = send(&server, "GET", "/v1/tools", None, &headers).await.unwrap().body;
        let tool = listed["items"].as_array().unwrap().iter().find(|one| one["name"] == tool).unwrap().clone();
        let text = |field: &str| tool[field].as_str().unwrap_or_default().to_owned();
        (text("state"), text("available"), text("reason"))
    };
    let ready = || ("ready".to_owned(), "True".to_owned(), String::new());
    assert_eq!(state_of(None, "fetch_emails").await, ready());
    assert_eq!(state_of(Some("alice"), "fetch_emails").await, ready());
    assert_eq!(state_of(Some("bob"), "request_missing_parameters").await, ready(), "it needs no connection");
    let (state, available, reason) = state_of(Some("alice"), "fetch_entity").await;
    assert_eq!((state.as_str(), available.as_str()), ("unavailable", "False"));
    assert!(reason.starts_with("user `alice` has not connected `salesforce-ybzg`: a call of the tool"), "{reason}");
    assert_eq!(state_of(Some("ali"), "fetch_emails").await.0, "unavailable");
    assert_eq!(ids(&fetch(None).await.unwrap()), ["t3", "t2", "t1"], "the connection of the settings");
    let (code, message) = fetch(Some("bob")).await.unwrap_err();
    assert_eq!(code, "provider_not_connected");
    assert!(message.contains("user `bob` has not connected `google-mail-ynxw`"), "{message}");
    // A tag that only begins alike is another user.
    let (code, _) = fetch(Some("ali")).await.unwrap_err();
    assert_eq!(code, "provider_not_connected");
    // A filter that the server ignores hands out no connection of another user.
    nango.change(|state| state.faults.ignore_filters = true);
    let (code, _) = fetch(Some("bob")).await.unwrap_err();
    assert_eq!(code, "provider_not_connected");
    assert_eq!(state_of(Some("bob"), "fetch_emails").await.0, "unavailable");
    nango.change(|state| state.faults.ignore_filters = false);
    nango.change(|state| {
        state.connections.push(NangoConnection {
            connection_id: "bobs-mail".into(),
            provider_config_key: MAIL.into(),
            tags: [("end_user_id".to_owned(), "bob".to_owned())].into(),
            errors: vec!["auth".into()],
            created: None,
        });
    });
    let (code, message) = fetch(Some("bob")).await.unwrap_err();
    assert_eq!(code, "provider_auth_expired", "{message}");
    nango.change(|state| state.connections.last_mut().unwrap().errors.clear());
    // It was not cached as missing.
    assert!(fetch(Some("bob")).await.is_ok());
}

/// The key is in no answer, no log and no journal, whatever Nango answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nangos_key_is_nowhere() {
    let mut echoing = state();
    let key = echoing.key.clone();
    let error =
        json!({"code": "action_script_runtime_error", "message": format!("Bearer {key}"), "payload": {"key": key}});
    echoing.integrations[0].actions = vec![action("send-email", 0, Some((500, error)))];
    let (world, _nango) = world(echoing, &[]).await;
    let mut server = world.start().await;
    let (code, message) = call(&server, "send_email", email()).await.unwrap_err();
    assert_eq!((code.as_str(), message.contains("[redacted]")), ("action_failed", true), "{message}");
    let shown = api(&server, "GET", "/v1/queries?limit=10", None).await.text;
    server.terminate();
    server.exit().await;
    let mut found = vec![("answers", shown.contains(&key)), ("message", message.contains(&key))];
    for file in ["data/bosun.db", "data/bosun.db-wal", "log"] {
        let bytes = fs::read(world.path(file)).unwrap_or_default();
        found.push((file, bytes.windows(key.len()).any(|window| window == key.as_bytes())));
    }
    assert!(found.iter().all(|(_, is_there)| !is_there), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_added_while_the_server_runs_is_callable() {
    // Connections of the command line replace those of the file.
    let mail = format!("{MAIL}=my-connection");
    let connections = [mail.as_str(), "salesforce-ybzg=crm-connection", "notion=notes-connection"];
    let options = connections.map(|connection| ["--nango-connections", connection]).concat();
    let (world, nango) = world(state(), &options).await;
    let server = world.start().await;
    let listed = api(&server, "GET", "/v1/tools", None).await;
    let nango_tools = listed.body["items"].as_array().unwrap().iter().filter(|tool| tool["binding"] == "nango");
    let shown: Vec<_> =
        nango_tools.map(|tool| (tool["name"].as_str().unwrap(), tool["available"].as_str().unwrap())).collect();
    assert_eq!(shown, [("fetch_emails", "True"), ("fetch_entity", "True"), ("send_email", "True")], "{}", listed.text);
    let notion = json!({
        "name": "create_notion_page", "description": "Create a new page in Notion", "category": "Notes",
        "providerConfigKey": "notion", "source": "action", "action": "create-page",
        "parameters": {"type": "object", "properties": {"input": {"type": "object",
            "properties": {"title": {"type": "string"}, "content": {"type": "string"}, "parentId": {"type": "string"}},
            "required": ["title"]}}},
    });
    let mut crm = json!([serde_json::from_str::<Value>(CRM).unwrap(), notion]);
    fs::write(world.path("crm.json"), crm.to_string()).unwrap();
    let reloaded = api(&server, "POST", "/v1/reload", None).await;
    assert!(reloaded.status < 300, "{}", reloaded.text);
    assert_eq!(call(&server, "create_notion_page", json!({"title": "Notes"})).await, Ok(json!({"title": "Notes"})));
    assert_eq!(nango.runs()[0].action, "create-page");
    // The action of the course's own name, which is not deployed.
    crm[1].as_object_mut().unwrap().shift_remove("action");
    fs::write(world.path("crm.json"), crm.to_string()).unwrap();
    api(&server, "POST", "/v1/reload", None).await;
    let (code, message) = call(&server, "create_notion_page", json!({"title": "Notes"})).await.unwrap_err();
    assert_eq!(code, "tool_misconfigured");
    assert!(message.contains("`create-notion-page` is not deployed for `notion`"), "{message}");
}

/// The names of the tools that a filter of the list leaves.
async fn listed(server: &Server, filter: &str) -> Vec<String> {
    let listed = api(server, "GET", &format!("/v1/tools?{filter}"), None).await;
    assert_eq!(listed.status, 200, "{filter}: {}", listed.text);
    assert!(!listed.text.contains("was ignored"), "{filter}: {}", listed.text);
    let items = listed.body["items"].as_array().unwrap();
    assert_eq!(listed.body["total"], items.len(), "{filter}: {}", listed.text);
    items.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The two files of the course as it prints them: listed, shown to a model, and called, with an approval in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_the_course_work_as_printed() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let tools = api(&server, "GET", "/v1/tools?provider=salesforce-ybzg", None).await;
    let tool = &tools.body["items"][0];
    assert_eq!((&tool["category"], &tool["provider"]), (&json!("CRM"), &json!("salesforce-ybzg")), "{}", tools.text);
    for (filter, expect) in [
        ("category=Email", &["fetch_emails", "send_email"][..]),
        ("category=email", &["fetch_emails", "send_email"]),
        ("category=CRM", &["fetch_entity"]),
        ("provider=google-mail-ynxw", &["fetch_emails", "send_email"]),
        ("provider=google-mail", &[]),
        ("category=CRM&provider=google-mail-ynxw", &[]),
        ("category=Email&labelSelector=team%3Dred", &[]),
        ("category=Email&labelSelector=!team", &["fetch_emails", "send_email"]),
    ] {
        assert_eq!(listed(&server, filter).await, expect, "{filter}");
    }
    assert!(listed(&server, "category=General").await.contains(&"calculator".to_owned()), "without a category");
    for filter in ["category=", "provider=", "labelSelector=a%3D%3D%3Db%2C("] {
        let refused = api(&server, "GET", &format!("/v1/tools?{filter}"), None).await;
        assert_eq!(
            (refused.status, refused.body["error"]["code"].as_str()),
            (400, Some("invalid_parameter")),
            "{filter}: {}",
            refused.text
        );
    }
    let page = api(&server, "GET", "/v1/tools?category=Email&limit=1", None).await;
    assert_eq!((&page.body["total"], &page.body["remaining_item_count"]), (&json!(2), &json!(1)), "{}", page.text);
    let folder = world.path("tool-config.json").parent().unwrap().to_owned();
    let files = ["tool-config.json", "crm.json"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    for format in ["openai", "anthropic"] {
        let shown = run(bosun().args(["tools", "show", "fetch_entity", "--for", format]).args([
            "--catalog",
            &files[0],
            "--catalog",
            &files[1],
        ]))
        .await;
        assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
        assert!(stdout(&shown).contains("entityType"), "{}", stdout(&shown));
    }
    let checked = run(bosun().arg("check").args(&files)).await;
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    let found = call(&server, "fetch_entity", json!({"operation": "fetch", "entityType": "Contact"})).await.unwrap();
    assert_eq!(ids(&found), ["c1"]);
    let input = json!({"input": email()}).to_string();
    let body = json!({"name": "mail", "input": input, "target": {"type": "tool", "name": "send_email"}});
    let asked = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    assert_eq!(asked.body["status"], "approval_required", "{}", asked.text);
    assert!(nango.runs().is_empty(), "nothing runs before it is approved");
    approve(&server, "mail", &[]).await;
    assert!(outcome(&ended(&server, "mail", &[]).await).is_ok());
    assert_eq!(nango.runs()[0].action, "send-email");
    // Without the file beside it, the block of the course does not say which model it reads.
    fs::remove_file(world.path("providers.json")).unwrap();
    let checked = run(bosun().args(["check", &files[1]])).await;
    assert_eq!(checked.status.code(), Some(1));
    let report = format!("{}{}", stdout(&checked), stderr(&checked));
    assert!(report.contains("cache_model_missing") && report.contains("providers.json"), "{report}");
}

#[tokio::test]
async fn the_files_and_the_filters_of_the_page_are_taken() {
    let [providers, filters] = &blocks(&read("docs/nango.md"), "json")[..] else { panic!("two blocks of JSON") };
    let (world, _nango) = world(state(), &[]).await;
    fs::write(world.path("providers.json"), providers).unwrap();
    let server = world.start().await;
    assert_eq!(
        api(&server, "GET", "/v1/tools/fetch_entity", None).await.status,
        200,
        "its model is in the printed file"
    );
    let filters: Value = serde_json::from_str(filters).unwrap();
    let fetched = call(&server, "fetch_emails", json!({"operation": "fetch", "filters": filters})).await;
    assert_eq!(ids(&fetched.unwrap()), ["t3"]);
}

/// An entry of a tool-config, as a body of `POST …/tools`.
fn entry(name: &str, provider: &str, more: Value) -> Value {
    let mut entry = json!({
        "name": name, "description": "Sends a mail", "category": "Email", "display_name": "Mail",
        "providerConfigKey": provider,
        "parameters": {"type": "object", "properties": {"input": {
            "type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"],
        }}},
    });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_a_tool_config_is_stored_over_the_api_and_runs() {
    let (world, nango) = world(state(), &[]).await;
    let mut server = world.start().await;
    let store = async |server: &Server, body: &Value| api(server, "POST", "/v1/tools", Some(body)).await;
    let action = entry("mail_once", MAIL, json!({"source": "action", "action": "send-email"}));
    let stored = store(&server, &action).await;
    assert_eq!(stored.status, 200, "{}", stored.text);
    let spec = &stored.body["spec"];
    assert_eq!(spec["type"], "nango");
    assert_eq!(spec["nango"], json!({"provider": MAIL, "source": "action", "action": "send-email"}));
    assert_eq!(spec["inputSchema"], action["parameters"], "verbatim");
    let cached = json!({
        "name": "read_mail", "description": "Reads mail", "category": "Email", "providerConfigKey": MAIL,
        "source": "cache", "cache_model": "GmailThread",
        "parameters": {"type": "object", "properties": {"input": {"type": "object"}}},
        "deprecated": {"since": "2026-10", "replacedBy": "fetch_emails"},
    });
    assert_eq!(store(&server, &cached).await.status, 200);

    // They are in effect, and after a crash too.
    server.kill().await;
    let server = world.start().await;
    let listed = api(&server, "GET", "/v1/tools", None).await.body;
    let tool = listed["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "mail_once").unwrap();
    let shown = ["source", "binding", "state", "category"].map(|field| tool[field].as_str().unwrap_or_default());
    assert_eq!(shown, ["stored", "nango", "ready", "Email"], "{tool}");
    let sent = call(&server, "mail_once", json!({"to": "ada@example.com"})).await.unwrap();
    assert_eq!(sent, json!({"id": "msg-1", "threadId": "thread-9"}));
    assert_eq!(nango.runs()[0].input, json!({"to": "ada@example.com"}), "unwrapped once, after an approval");
    assert_eq!(ids(&call(&server, "read_mail", json!({})).await.unwrap()), ["t3", "t2", "t1"]);

    // The deprecation was kept: callers of the tool are warned.
    let asked = json!({
        "name": "old", "input": "{}", "target": {"type": "tool", "name": "read_mail"},
    });
    let old = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&asked)).await;
    let warning = "tool `read_mail` is deprecated since 2026-10; use `fetch_emails` instead";
    assert_eq!(old.body["toolExecutionHistory"][0]["deprecated"], warning, "{}", old.text);

    // The same form changes it.
    let moved = json!({"providerConfigKey": MAIL, "source": "action", "action": "send-later", "category": "Later"});
    let changed = api(&server, "PUT", "/v1/tools/mail_once", Some(&moved)).await;
    assert_eq!(
        (changed.status, &changed.body["spec"]["nango"]["action"]),
        (200, &json!("send-later")),
        "{}",
        changed.text
    );
    assert_eq!(changed.body["description"], "Sends a mail", "what is not named stays");
    let renamed = api(&server, "PUT", "/v1/tools/mail_once", Some(&json!({"category": "Drafts"}))).await;
    let spec = &renamed.body["spec"];
    assert_eq!((&spec["type"], &spec["nango"]["action"]), (&json!("nango"), &json!("send-later")), "{}", renamed.text);
    assert!(renamed.warnings.is_empty(), "{:?}", renamed.warnings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_tool_uses_only_what_the_operator_names_and_waives_no_approval() {
    let (world, nango) = world(state(), &[]).await;
    let server = world.start().await;
    let cases = [
        (entry("page", "notion", json!({"source": "action"})), "provider_not_granted", "`[nango.connections]`"),
        (
            entry("now", MAIL, json!({"source": "action", "confirm": "never"})),
            "approval_required",
            "only the operator waives",
        ),
        (entry("read", MAIL, json!({"source": "cache"})), "cache_model_missing", "which model"),
        (entry("odd", MAIL, json!({"source": "webhook"})), "source_unknown", "neither `cache` nor `action`"),
        (entry("none", "", json!({"source": "action"})), "provider_missing", "`providerConfigKey`"),
        (entry("asks", MAIL, json!({"confirm": "perhaps"})), "bad_value", "`never`, `always` or `auto`"),
        (
            entry("old", MAIL, json!({"deprecated": {"until": "2027"}})),
            "bad_value",
            "`since`, `message` and `replacedBy`",
        ),
        (
            entry("part", MAIL, json!({"source": "cache", "cache_model": "Gmail{kind}"})),
            "cache_model_placeholder_unknown",
            "`{kind}`",
        ),
    ];
    for (body, code, message) in cases {
        let refused = api(&server, "POST", "/v1/tools", Some(&body)).await;
        assert_eq!(refused.status, 422, "{code}: {}", refused.text);
        assert!(refused.text.contains(code) && refused.text.contains(message), "{code}: {}", refused.text);
    }
    // Without a provider it is a tool of clients, and the answer says so.
    let plain = json!({"name": "ask_user", "description": "Asks", "parameters": {"type": "object"}});
    let stored = api(&server, "POST", "/v1/tools", Some(&plain)).await;
    assert_eq!((stored.status, &stored.body["spec"]["type"]), (200, &json!("external")), "{}", stored.text);
    assert!(stored.warnings.concat().contains("names no provider"), "{:?}", stored.warnings);
    assert_eq!(nango.requests().len(), 0, "nothing was asked of Nango");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_call_runs_tools_of_integrations_in_the_program_itself() {
    let (world, nango) = world(state(), &[]).await;
    let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
    let (tools, secrets, connection) = (path("tool-config.json"), path("secrets"), format!("{MAIL}=my-connection"));
    let own = async |tool: &str, input: Value, answer: &str, more: &[&str]| {
        let mut command = bosun();
        command.args(["tools", "call", tool, &json!({"input": input}).to_string(), "--tools", &tools]);
        command.args(["--secrets", &secrets, "--data", &path("nowhere"), "--nango-url", &nango.url()]).args(more);
        command.current_dir(world.path(""));
        crate::program::run_with_input(&mut command, answer).await
    };
    let with = ["--nango-connections", connection.as_str()];
    let read = own("fetch_emails", json!({"operation": "fetch"}), "", &with).await;
    assert_eq!(ids(&serde_json::from_str(&stdout(&read)).unwrap()), ["t3", "t2", "t1"], "{}", stderr(&read));
    let unconnected = own("fetch_emails", json!({"operation": "fetch"}), "", &[]).await;
    assert!(stderr(&unconnected).contains("[provider_not_connected]"), "{}", stderr(&unconnected));
    // A person decides about an action.
    let rejected = own("send_email", email(), "n\n", &with).await;
    assert_eq!((rejected.status.code(), nango.runs().len()), (Some(1), 0), "{}", stderr(&rejected));
    assert!(stderr(&rejected).contains("run send_email? [y/N]"), "{}", stderr(&rejected));
    let unanswered = own("send_email", email(), "", &with).await;
    assert!(stderr(&unanswered).contains("waits for a person"), "{}", stderr(&unanswered));
    assert_eq!(nango.runs().len(), 0);
    let sent = own("send_email", email(), "y\n", &with).await;
    assert!(stdout(&sent).contains("msg-1"), "{}{}", stdout(&sent), stderr(&sent));
    assert_eq!(nango.runs().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_live_compares_the_input_of_actions_and_the_fields_of_models() {
    let (world, nango) = world(state(), &[]).await;
    let check = async || {
        let mut command = bosun();
        command.args(["check", "--live", "--nango-url", &nango.url(), "--secrets"]).arg(world.path("secrets"));
        run(command.arg(world.path("tool-config.json"))).await
    };
    let schemas = |input: Value, model: Value| {
        nango.change(|state| {
            state.integrations[0].actions[0].input_schema = Some(input);
            state.integrations[0].syncs[0].schemas = [("GmailThread".to_owned(), model)].into();
        });
    };
    let text = json!({"type": "string"});
    let message = json!({"to": text, "subject": text, "body": text, "cc": text});
    let thread = json!({"sender": text, "subject": text, "dateRange": {}, "hasAttachment": {"type": "boolean"}});
    schemas(
        json!({"type": "object", "properties": message, "required": ["to", "subject", "body"]}),
        json!({"type": "object", "properties": thread}),
    );
    let same = check().await;
    assert!(same.status.success(), "{}{}", stdout(&same), stderr(&same));
    let changed = json!({"to": text, "subject": {"type": "array"}, "body": text, "copy": text, "html": text});
    schemas(
        json!({"type": "object", "properties": changed, "required": ["to", "html"]}),
        json!({"type": "object", "properties": {"sender": text, "subject": text, "sent": text}}),
    );
    let differs = check().await;
    assert_eq!(differs.status.code(), Some(1), "{}", stdout(&differs));
    let printed = stdout(&differs) + &stderr(&differs);
    for expected in [
        "requires `html`, which the tool does not have",
        "`subject` is `string` in the tool and `array` in the action `send-email`",
        "takes no `cc`",
        "the model `GmailThread` has no field `dateRange` to filter by",
        "the model `GmailThread` has no field `hasAttachment` to filter by",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}
