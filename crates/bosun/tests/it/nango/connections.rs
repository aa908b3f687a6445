//! The connections of end users and of the settings, and the key of the server.

use std::fs;

use bosun_standin::nango::NangoConnection;
use serde_json::{Value, json};

use super::{MAIL, action, call, call_as, email, ids, state, world};
use crate::{
    program::{bosun, run, stderr, stdout},
    resources::{api, send},
};

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
    assert_eq!(ids(&fetch(None).await.unwrap()), ["t3", "t2", "t1"], "the connection of the settings");
    let (code, message) = fetch(Some("bob")).await.unwrap_err();
    assert_eq!(code, "provider_not_connected");
    assert!(message.contains("user `bob` has not connected `google-mail-ynxw`"), "{message}");
    // A tag that only begins alike, or differs in the case of a letter, is another user. Nor does a filter that the
    // server ignores hand out a connection of another user.
    for ignores_filters in [false, true] {
        nango.change(|state| state.faults.ignore_filters = ignores_filters);
        for other in ["ali", "Alice", "ALICE", "bob"] {
            let (code, message) = fetch(Some(other)).await.expect_err(other);
            assert_eq!(code, "provider_not_connected", "{other}: {message}");
            assert_eq!(state_of(Some(other), "fetch_emails").await.0, "unavailable", "{other}");
        }
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_end_user_tools_without_a_connection_in_the_settings_are_listed_as_unavailable() {
    // Connections of the command line replace those of the file.
    let (world, _nango) = world(state(), &["--nango-connections", &format!("{MAIL}=my-connection")]).await;
    let server = world.start().await;
    let listed = api(&server, "GET", "/v1/tools", None).await;
    let tools = listed.body["items"].as_array().unwrap().iter().filter(|tool| tool["binding"] == "nango");
    let text = |tool: &Value, field: &str| tool[field].as_str().unwrap_or_default().to_owned();
    let shown: Vec<_> =
        tools.map(|tool| ["name", "state", "available", "reason"].map(|field| text(tool, field))).collect();
    let why = "`salesforce-ybzg` is not connected for queries without an end user: add its connection to \
               `[nango.connections]`; end users use their own";
    let expect = [
        ["fetch_emails", "ready", "True", ""],
        ["fetch_entity", "unavailable", "False", why],
        ["send_email", "ready", "True", ""],
    ];
    assert_eq!(shown, expect, "{}", listed.text);
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
