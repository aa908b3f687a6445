//! Tools of Nango integrations, run by the whole program against the stand-in for Nango.

mod actions;
mod checking;
mod connections;
mod records;
mod tools;

use std::fs;

use bosun_standin::nango::{NangoAction, NangoFailure, NangoStandIn, NangoState};
use serde_json::{Value, json};

use crate::{
    resources::{Answer, send},
    support::{
        server::{Server, World},
        soon,
    },
};

/// The configuration of the course, as it is printed there.
const TOOL_CONFIG: &str = include_str!("../../../../../examples/nango/tool-config.json");
const CRM: &str = include_str!("../../../../../examples/nango/crm.json");
const PROVIDERS: &str = include_str!("../../../../../examples/nango/providers.json");
const STATE: &str = include_str!("../../../../../examples/nango/state.json");

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
