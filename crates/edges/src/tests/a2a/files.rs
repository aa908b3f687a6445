//! Files: those that tools have made are artifacts, those that clients send are input; and answers without a task.

use bosun_core::content::Blocks;
use bosun_engine::{
    EngineSettings,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};
use serde_json::{Value, json};

use super::{V1, V03, calls, fault, message, result, results};
use crate::tests::{
    streaming::Events,
    world::{HttpReply, TestServer},
};

const RESEARCHER: &str = "/a2a/agents/default/research-assistant";
const TYPED: &str = "/a2a/agents/default/typed-assistant";
const MESSENGER: &str = "/a2a/agents/default/messenger";

async fn ask(world: &TestServer, agent: &str, method: &str, params: Value) -> HttpReply {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let headers = if method.contains('/') { V03 } else { V1 };
    world.send("POST", agent, headers, body.to_string()).await
}

/// A world whose tool answers with a text, a picture, a document and a link.
async fn with_files() -> TestServer {
    let blocks = Blocks::new(
        vec![
            json!({"type": "text", "text": "Here they are."}),
            json!({"type": "image", "data": "iVBORw0KGgoA", "mimeType": "image/png"}),
            json!({"type": "resource", "resource": {"uri": "file:///out/report.pdf", "mimeType": "application/pdf", "blob": "JVBERi0x"}}),
            json!({"type": "resource_link", "uri": "https://h.example/log.txt", "name": "log.txt", "mimeType": "text/plain"}),
        ],
        None,
    );
    let script = vec![ScriptedTurn::call("database_query", &json!({"table": "a"})), ScriptedTurn::say("Done.")];
    TestServer::with(ScriptedModel::always(script), CallLedger::giving_blocks(blocks), EngineSettings::default()).await
}

#[tokio::test(start_paused = true)]
async fn files_that_a_tool_has_made_are_an_artifact_before_the_answer() {
    let world = with_files().await;
    let task = result(ask(&world, RESEARCHER, "SendMessage", json!({"message": message("m1", "Report")})).await);
    let artifacts = &task["task"]["artifacts"];
    assert_eq!(
        artifacts[0]["parts"],
        json!([
            {"raw": "iVBORw0KGgoA", "mediaType": "image/png"},
            {"raw": "JVBERi0x", "filename": "report.pdf", "mediaType": "application/pdf"},
            {"url": "https://h.example/log.txt", "filename": "log.txt", "mediaType": "text/plain"},
        ])
    );
    assert_eq!((&artifacts[0]["name"], &artifacts[1]["name"]), (&json!("database_query"), &json!("answer")));
    assert!(artifacts[0]["artifactId"].as_str().is_some_and(|id| id.starts_with("call_")), "{artifacts}");
    let old = result(ask(&world, RESEARCHER, "tasks/get", json!({"id": task["task"]["id"]})).await);
    let file =
        json!({"kind": "file", "file": {"bytes": "JVBERi0x", "name": "report.pdf", "mimeType": "application/pdf"}});
    assert_eq!(old["artifacts"][0]["parts"][1], file);
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_the_files_when_their_call_has_ended() {
    let world = with_files().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message("m1", "Go")}});
    let events = Events::open(&world, "POST", RESEARCHER, V1, body.to_string().into()).await.rest().await;
    let updates = events.iter().map(|event| &event.data["result"]["artifactUpdate"]).filter(|update| !update.is_null());
    let updates: Vec<_> = updates.collect();
    assert_eq!(updates[0]["artifact"]["parts"][0]["mediaType"], "image/png", "{updates:?}");
    assert_eq!((&updates[0]["append"], &updates[0]["lastChunk"]), (&json!(false), &json!(true)));
    assert_eq!(updates.last().unwrap()["artifact"]["name"], "answer");
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_an_agent_with_an_output_schema_is_data_first() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say(r#"{"total": 3}"#)])).await;
    let task = result(ask(&world, TYPED, "SendMessage", json!({"message": message("m1", "Count")})).await);
    let parts = &task["task"]["artifacts"][0]["parts"];
    assert_eq!(*parts, json!([{"data": {"total": 3}, "mediaType": "application/json"}, {"text": "{\"total\": 3}"}]));
}

#[tokio::test(start_paused = true)]
async fn an_agent_may_reply_with_a_message_where_nothing_waits() {
    let script = ScriptedModel::default()
        .on("Hi", vec![ScriptedTurn::say("Hello!")])
        .on("Wait", vec![ScriptedTurn::call("ask_client", &json!({})), ScriptedTurn::say("Thanks.")])
        .on("Fail", vec![ScriptedTurn::refuse(401, "no")]);
    let world = TestServer::new(script).await;
    let send = async |params: Value| result(ask(&world, MESSENGER, "SendMessage", params).await);
    let reply = send(json!({"message": message("m1", "Hi")})).await;
    let replied = &reply["message"];
    assert_eq!((&replied["role"], &replied["parts"]), (&json!("ROLE_AGENT"), &json!([{"text": "Hello!"}])), "{reply}");
    assert!(replied.get("taskId").is_none() && replied["contextId"].is_string(), "{reply}");
    assert_eq!(send(json!({"message": message("m1", "Hi")})).await, reply, "a retry gets the same message");
    // What a client must act on, or will ask for again, is a task.
    let waiting = send(json!({"message": message("m2", "Wait")})).await["task"].clone();
    assert_eq!(waiting["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let given = json!([{"toolCallId": calls(&waiting)[0]["id"], "result": "yes"}]);
    assert_eq!(send(results("m3", &waiting, given)).await["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(send(json!({"message": message("m4", "Fail")})).await["task"]["status"]["state"], "TASK_STATE_FAILED");
    let immediately = json!({"message": message("m5", "Hi"), "configuration": {"returnImmediately": true}});
    assert!(send(immediately).await["task"]["id"].is_string());
    let http = world
        .send("POST", &format!("{MESSENGER}/message:send"), V1, json!({"message": message("m6", "Hi")}).to_string())
        .await;
    assert_eq!(http.ok()["message"]["parts"][0]["text"], "Hello!");
    let old = json!({"messageId": "m7", "role": "user", "parts": [{"kind": "text", "text": "Hi"}]});
    let old = result(ask(&world, MESSENGER, "message/send", json!({"message": old})).await);
    assert_eq!((&old["kind"], old.get("taskId")), (&json!("message"), None));
}

#[tokio::test(start_paused = true)]
async fn an_agent_takes_the_files_that_its_manifest_names() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say("Nice.")])).await;
    let card = world.send("GET", &format!("{MESSENGER}/.well-known/agent-card.json"), V1, "").await.ok();
    assert_eq!(card["defaultInputModes"], json!(["text/plain", "application/json", "application/pdf", "image/*"]));
    let send = async |id: &str, part: Value| {
        let message = json!({"messageId": id, "role": "ROLE_USER", "parts": [part]});
        ask(&world, MESSENGER, "SendMessage", json!({"message": message})).await
    };
    let pdf = json!({"raw": "JVBERi0x", "mediaType": "application/pdf", "filename": "a.pdf"});
    result(send("m1", pdf).await);
    let asked = format!("{:?}", world.model.requests().pop().unwrap().messages.last().unwrap());
    assert!(
        asked.contains(r#"{\"file\":{\"name\":\"a.pdf\",\"mediaType\":\"application/pdf\",\"bytes\":\"JVBERi0x\"}}"#),
        "{asked}"
    );
    let zip = json!({"raw": "UEsDBA==", "mediaType": "application/zip"});
    assert_eq!(fault(&send("m2", zip).await), (-32005, "CONTENT_TYPE_NOT_SUPPORTED".to_owned()));
    let broken = json!({"raw": "!", "mediaType": "image/png"});
    let refused = send("m3", broken).await;
    assert_eq!(refused.body["error"]["data"][0]["fieldViolations"][0]["field"], "message.parts[0].raw");
}
