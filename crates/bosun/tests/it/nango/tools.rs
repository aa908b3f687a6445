//! Files of tools, stored tools, and the command line.

use std::fs;

use serde_json::{Value, json};

use super::{CRM, MAIL, approve, call, email, ended, ids, outcome, state, world};
use crate::{
    program::{bosun, run, run_with_input, stderr, stdout},
    readme::{blocks, read},
    resources::api,
    support::server::Server,
};

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
        run_with_input(&mut command, answer).await
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
