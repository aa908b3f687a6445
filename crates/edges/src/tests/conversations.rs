//! Queries that continue where earlier ones ended.

use std::time::Duration;

use bosun_core::transcript::Message;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::world::{TestServer, assert_answer, plain};

fn in_conversation(name: &str, fields: &Value) -> Value {
    let mut body = plain(name);
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

async fn ask(world: &TestServer, name: &str, fields: &Value) -> Value {
    let answer = world.post("/v1/queries?wait=true", &in_conversation(name, fields)).await.ok();
    assert_eq!(answer["status"]["phase"], "done", "{answer}");
    answer
}

/// What the model was shown the last time, without the prompt.
fn shown(world: &TestServer) -> Vec<String> {
    let messages = world.model.requests().pop().unwrap().messages;
    let text = |message: &Message| match message {
        Message::System(_) => None,
        Message::User(text) => Some(text.clone()),
        Message::Assistant { text, calls, .. } => {
            Some(text.clone().unwrap_or_else(|| format!("{} calls", calls.len())))
        }
        Message::Tool { content, .. } => Some(content.clone()),
    };
    messages.iter().filter_map(text).collect()
}

fn talking() -> ScriptedModel {
    ScriptedModel::default()
        .on("I am Ada", vec![ScriptedTurn::say("Hello Ada.")])
        .on("Who am I?", vec![ScriptedTurn::say("You are Ada.")])
        .on(
            "Look it up",
            vec![ScriptedTurn::call("database_query", &json!({"table": "people"})), ScriptedTurn::say("Found.")],
        )
        .on("Fail", vec![ScriptedTurn::refuse(400, "no")])
        .on("Hello", vec![ScriptedTurn::say("Hi.")])
}

#[tokio::test(start_paused = true)]
async fn a_session_continues_where_it_ended() {
    let world = TestServer::new(talking()).await;
    // As the n8n node sends it: a memory and a session, and no conversation.
    let session =
        |input: &str| json!({"memory": {"name": "long", "namespace": "default"}, "sessionId": "s", "input": input});
    let answer = ask(&world, "one", &session("I am Ada")).await;
    assert_eq!((&answer["conversationId"], &answer["memory"]["name"]), (&json!("s"), &json!("long")));
    assert_eq!(answer["status"]["conversationId"], "s");
    ask(&world, "two", &session("Who am I?")).await;
    assert_eq!(shown(&world), ["I am Ada", "Hello Ada.", "Who am I?"]);
    // The newer spelling is the same conversation.
    let newer = json!({"memory": "long", "sessionId": "trace", "conversationId": "s", "input": "Hello"});
    ask(&world, "three", &newer).await;
    assert_eq!(shown(&world), ["I am Ada", "Hello Ada.", "Who am I?", "You are Ada.", "Hello"]);
    // Another memory, another name and another namespace know nothing of it.
    for (name, fields) in [
        ("other-memory", json!({"memory": "recent", "sessionId": "s"})),
        ("other-session", json!({"memory": "long", "sessionId": "t"})),
        ("no-memory", json!({"sessionId": "s"})),
        ("no-session", json!({"memory": "long"})),
    ] {
        ask(&world, name, &fields).await;
        assert_eq!(shown(&world), ["Hello"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_fails_or_is_cancelled_leaves_nothing_behind() {
    let world = TestServer::new(talking()).await;
    let fields = |input: &str| json!({"memory": "long", "conversationId": "c", "input": input});
    world.post("/v1/queries?wait=true", &in_conversation("failed", &fields("Fail"))).await.ok();
    world.post("/v1/queries", &in_conversation("cancelled", &fields("Unheard of"))).await.ok();
    world.post("/v1/queries/cancelled/cancel", &json!({})).await.ok();
    assert_eq!(world.get("/v1/conversations/c").await.refusal(), (404, "conversation_not_found"));
    ask(&world, "hello", &fields("Hello")).await;
    assert_eq!(shown(&world), ["Hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_window_is_cut_between_queries_and_calls_keep_their_results() {
    let world = TestServer::new(talking()).await;
    let fields = |memory: &str, input: &str| {
        json!({
            "memory": memory, "conversationId": "c", "input": input,
            "target": {"type": "agent", "name": "research-assistant"},
        })
    };
    ask(&world, "a1", &fields("recent", "I am Ada")).await;
    ask(&world, "a2", &fields("recent", "Look it up")).await;
    ask(&world, "a3", &fields("recent", "Hello")).await;
    // The window has two messages, and the last query four: it is shown whole, and nothing before it.
    let seen = shown(&world);
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert_eq!((seen[0].as_str(), seen[1].as_str(), seen[3].as_str()), ("Look it up", "1 calls", "Found."));
    ask(&world, "a4", &fields("recent", "Hello")).await;
    assert_eq!(shown(&world), ["Hello", "Hi.", "Hello"]);
    // In tokens: the two queries before are worth about 13 and 11.
    for (name, input) in [("b1", "I am Ada"), ("b2", "I am Ada"), ("b3", "Hello"), ("b4", "Hello")] {
        ask(&world, name, &fields("small", input)).await;
    }
    assert_eq!(shown(&world), ["I am Ada", "Hello Ada.", "Hello", "Hi.", "Hello"]);
}

#[tokio::test(start_paused = true)]
async fn the_history_is_frozen_when_a_query_is_accepted() {
    let script =
        talking().on("Ask me", vec![ScriptedTurn::call("ask_client", &json!({})), ScriptedTurn::say("Thanks.")]);
    let world = TestServer::new(script).await;
    let fields = |input: &str| json!({"memory": "long", "conversationId": "c", "input": input});
    ask(&world, "one", &fields("I am Ada")).await;
    let mut waiting = in_conversation("waiting", &fields("Ask me"));
    waiting["externalTools"] = json!([{"name": "ask_client"}]);
    waiting["view"] = Value::Null;
    let paused = world.post("/v1/queries?wait=true", &waiting).await.ok();
    assert_eq!(paused["status"], "tool_call_required");
    ask(&world, "two", &fields("Hello")).await;
    assert_eq!(world.send("DELETE", "/v1/conversations/c", &[], "").await.status, 204);
    let result = json!({"toolName": "ask_client", "toolResult": "yes"});
    let answer = world.post("/v1/queries/waiting/tool-result", &result).await.ok();
    assert_eq!(answer["response"], "Thanks.");
    assert_eq!(shown(&world), ["I am Ada", "Hello Ada.", "Ask me", "1 calls", "yes"]);
    // It adds to what is left of the conversation, which is nothing.
    let left = world.get("/v1/conversations/c").await.ok();
    assert_eq!(left["messages"][0]["message"]["content"], "Ask me");
    assert_eq!(left["total"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_rejects_a_busy_conversation_is_refused() {
    let script =
        talking().on("Ask me", vec![ScriptedTurn::call("ask_client", &json!({})), ScriptedTurn::say("Thanks.")]);
    let world = TestServer::new(script).await;
    let alone = json!({"memory": "long", "conversationId": "c", "conversationPolicy": "reject"});
    let mut waiting = in_conversation("waiting", &alone);
    waiting["input"] = json!("Ask me");
    waiting["externalTools"] = json!([{"name": "ask_client"}]);
    world.post("/v1/queries?wait=true", &waiting).await.ok();
    let refused = world.post("/v1/queries?wait=true", &in_conversation("second", &alone)).await;
    assert_eq!(refused.refusal(), (409, "conversation_busy"));
    assert_eq!(world.get("/v1/queries/second").await.refusal(), (404, "query_not_found"), "it was not accepted");
    assert_eq!(world.model.requests().len(), 1, "and no model was asked for it");
    let result = json!({"toolName": "ask_client", "toolResult": "yes"});
    world.post("/v1/queries/waiting/tool-result", &result).await.ok();
    ask(&world, "second", &alone).await;
    assert_eq!(shown(&world), ["Ask me", "1 calls", "yes", "Thanks.", "Hello"]);
}

#[tokio::test(start_paused = true)]
async fn conversations_are_listed_read_and_deleted() {
    let world = TestServer::new(talking()).await;
    for (name, memory, id) in [("a", "long", "one"), ("b", "long", "two"), ("c", "recent", "one"), ("d", "long", "one")]
    {
        ask(&world, name, &json!({"memory": memory, "conversationId": id})).await;
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_answer("conversations", &world.get("/v1/conversations").await.ok());
    assert_answer("conversation", &world.get("/v1/conversations/one?memory=long&limit=1").await.ok());
    let token = world.get("/v1/conversations/one?memory=long&limit=1").await.ok()["continue_token"].clone();
    let path = format!("/v1/conversations/one?memory=long&continue_token={}", token.as_str().unwrap());
    let rest = world.get(&path).await.ok();
    assert_eq!((&rest["messages"][0]["sequence"], &rest["count"], &rest["total"]), (&json!(3), &json!(2), &json!(4)));
    let both = world.get("/v1/namespaces/default/conversations/one").await.ok();
    assert_eq!((both.get("memoryName"), &both["total"]), (None, &json!(6)));
    let of_memory = world.get("/v1/memories/recent/conversations/one/messages").await.ok();
    assert_eq!((&of_memory["memoryName"], &of_memory["total"]), (&json!("recent"), &json!(2)));
    let messages = world.get("/v1/memory-messages?memory=long&conversation=one&query=d").await.ok();
    assert_eq!((&messages["count"], &messages["total"]), (&json!(2), &json!(2)));
    assert_eq!(messages["items"][1]["message"], json!({"role": "assistant", "content": "Hi."}));
    assert_eq!(messages["items"][1]["sequence"], 4);

    let delete = async |path: &str| world.send("DELETE", path, &[], "").await.status.as_u16();
    assert_eq!(delete("/v1/conversations/one/queries/a/messages?memory=long").await, 204);
    assert_eq!(world.get("/v1/conversations/one?memory=long").await.ok()["total"], 2);
    assert_eq!(delete("/v1/conversations/one/queries/a/messages").await, 404);
    assert_eq!(delete("/v1/namespaces/other/conversations").await, 204);
    assert_eq!(world.get("/v1/memory-messages").await.ok()["total"], 6);
    assert_eq!(delete("/v1/conversations?memory=recent").await, 204);
    assert_eq!(world.get("/v1/conversations").await.ok()["total"], 2);
    assert_eq!(delete("/v1/conversations/two").await, 204);
    assert_eq!(delete("/v1/conversations").await, 204);
    assert_eq!(world.get("/v1/conversations").await.ok(), json!({"items": [], "count": 0, "total": 0}));
}

#[tokio::test(start_paused = true)]
async fn answers_that_were_not_taken_and_instructions_are_not_remembered() {
    let script = ScriptedModel::default()
        .on("Count", vec![ScriptedTurn::say("seven"), ScriptedTurn::say(r#"{"total": 7}"#)])
        .on("Hello", vec![ScriptedTurn::say("Hi.")]);
    let world = TestServer::new(script).await;
    let counting = json!({
        "memory": "long", "conversationId": "c", "target": {"type": "agent", "name": "typed-assistant"},
        "type": "messages", "input": [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "Count"}],
    });
    ask(&world, "one", &counting).await;
    ask(&world, "two", &json!({"memory": "long", "conversationId": "c"})).await;
    assert_eq!(shown(&world), ["Count", r#"{"total": 7}"#, "Hello"]);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_kept_in_the_memory_that_every_namespace_has() {
    let world = TestServer::new(talking()).await;
    let fields = |input: &str| json!({"conversationId": "c", "input": input});
    let first = ask(&world, "one", &fields("I am Ada")).await;
    assert_eq!((&first["memory"]["name"], &first["warnings"]), (&json!("default"), &json!([])));
    ask(&world, "two", &fields("Who am I?")).await;
    assert_eq!(shown(&world), ["I am Ada", "Hello Ada.", "Who am I?"]);
    let listed = world.get("/v1/memories").await.ok();
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|memory| memory["name"].clone()).collect();
    assert!(names.contains(&json!("default")), "{names:?}");
    let memory = world.get("/v1/memories/default").await.ok();
    assert_eq!((&memory["managedBy"], &memory["spec"]["maxMessages"]), (&json!("server"), &json!(50)));
    let read = world.get("/v1/memories/default/conversations/c/messages").await.ok();
    assert_eq!(read["total"], 4);
    // A query that names no conversation begins none: no client could continue it.
    let alone = ask(&world, "alone", &json!({"input": "Hello"})).await;
    assert_eq!(alone["memory"], Value::Null);
    assert_eq!(world.get("/v1/conversations").await.ok()["total"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_short_lived_query_does_not_take_a_conversation_with_it() {
    let world = TestServer::new(talking()).await;
    let fields = |ttl: &str| json!({"memory": "long", "conversationId": "c", "ttl": ttl});
    ask(&world, "lasting", &fields("10h")).await;
    ask(&world, "brief", &fields("1ms")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.get("/v1/queries/brief").await.refusal(), (404, "query_not_found"));
    assert_eq!(world.get("/v1/conversations/c").await.ok()["total"], 4);
}
