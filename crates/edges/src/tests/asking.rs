//! What a query can ask: of whom, with which model and parameters, in which messages, for which answer.

use bosun_core::{Event, content::Images, transcript::Message};
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{
    streaming::Events,
    world::{TestServer, assert_answer, plain},
};

fn saying(text: &str) -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::say(text)])
}

async fn ask(world: &TestServer, body: &Value) -> Value {
    world.post("/v1/queries?wait=true", body).await.ok()
}

fn with(name: &str, fields: &Value) -> Value {
    let mut body = plain(name);
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

/// The names of the events with an id in the query's stream.
async fn events(world: &TestServer, name: &str) -> Vec<String> {
    let events = Events::of(world, name, None).await.rest().await;
    events.into_iter().filter(|event| event.id.is_some()).map(|event| event.event).collect()
}

/// What the model was asked the last time.
fn last_messages(world: &TestServer) -> Vec<Message> {
    world.model.requests().pop().unwrap().messages
}

#[tokio::test(start_paused = true)]
async fn a_query_may_bring_another_model_and_the_agent_stays_as_it_is() {
    let world = TestServer::new(saying("I am the agent's own.")).await;
    for (name, model) in [("by-name", json!("other")), ("by-reference", json!({"name": "other"}))] {
        let answer = ask(&world, &with(name, &json!({"modelRef": model}))).await;
        assert_eq!(answer["status"]["response"]["content"], "I am the other.");
        assert_eq!(answer["modelRef"], json!({"name": "other"}));
    }
    let agent = world.get("/v1/agents/math-assistant").await.ok();
    assert_eq!(agent["modelRef"], json!({"name": "default"}));
    let answer = ask(&world, &plain("later")).await;
    assert_eq!(answer["status"]["response"]["content"], "I am the agent's own.");
}

#[tokio::test(start_paused = true)]
async fn parameters_are_filled_into_the_input() {
    let world = TestServer::new(saying("Hello.")).await;
    let parameters = json!([{"name": "name", "value": "Ada {{.x}}"}, {"name": "x", "value": "y"}]);
    let answer = ask(&world, &with("q", &json!({"input": "Greet {{ .name }}!", "parameters": parameters}))).await;
    assert_eq!(last_messages(&world)[1], Message::User("Greet Ada {{.x}}!".into()));
    assert_eq!(answer["input"], "Greet {{ .name }}!", "as it was written");
    assert_eq!(answer["parameters"], parameters);
    assert_eq!(world.get("/v1/queries").await.ok()["items"][0]["input"], "Greet {{ .name }}!");

    let answer = ask(&world, &with("raw", &json!({"input": "Keep {{.name}} {{if}}"}))).await;
    assert_eq!(last_messages(&world)[1], Message::User("Keep {{.name}} {{if}}".into()));
    assert_eq!(answer["status"]["phase"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_parameter_without_a_source_is_reported_with_its_path() {
    let world = TestServer::new(saying("Hello.")).await;
    let check = async |parameter: Value, code: &str, faults: Value| {
        let mut named = json!({"name": "p"});
        named.as_object_mut().unwrap().extend(parameter.as_object().unwrap().clone());
        let answer = world.post("/v1/queries", &with("q", &json!({"parameters": [named]}))).await;
        assert_eq!(answer.refusal(), (422, code), "{}", answer.body);
        let listed = answer.body["error"]["details"].as_array().cloned().unwrap_or_default();
        let listed: Vec<_> = listed.iter().map(|fault| json!([fault["path"], fault["code"]])).collect();
        assert_eq!(json!(listed), faults, "{}", answer.body);
    };
    let key = json!({"name": "n", "key": "k"});
    let from = |kind: &str| json!({"valueFrom": {kind: key}});
    let at = |field: &str| format!("parameters[0].{field}");
    for kind in ["secretKeyRef", "queryParameterRef", "serviceRef"] {
        let place = at(&format!("valueFrom.{kind}"));
        check(from(kind), "unsupported_field", json!([[place, "unsupported_field"]])).await;
    }
    check(json!({}), "invalid_request", json!([[at("value"), "missing"]])).await;
    check(
        json!({"valueFrom": 5}),
        "invalid_request",
        json!([[at("valueFrom"), "wrong_type"], [at("value"), "missing"]]),
    )
    .await;
    check(json!({"valueFrom": {}}), "invalid_request", json!([[at("valueFrom.configMapKeyRef"), "missing"]])).await;
    let both = json!({"value": "v", "valueFrom": {"configMapKeyRef": key}});
    check(both, "invalid_request", json!([[at("value"), "value_twice"]])).await;
    let part = json!({"valueFrom": {"configMapKeyRef": {"name": 5, "optional": "no"}}});
    let places = ["name", "key", "optional"].map(|field| at(&format!("valueFrom.configMapKeyRef.{field}")));
    let faults = json!([[places[0], "wrong_type"], [places[1], "missing"], [places[2], "wrong_type"]]);
    check(part, "invalid_request", faults).await;
    check(from("configMapKeyRef"), "missing_parameters", json!([])).await;
    assert_eq!(world.get("/v1/queries").await.ok()["count"], 0, "none of them was accepted");
}

#[tokio::test(start_paused = true)]
async fn a_model_alone_answers_without_prompt_and_tools() {
    let world = TestServer::new(saying("Forty-two.")).await;
    let body = json!({"name": "q", "input": "What is it?", "target": {"type": "model", "name": "default"}});
    let answer = ask(&world, &body).await;
    assert_eq!(answer["status"]["response"]["content"], "Forty-two.");
    assert_eq!(answer["target"], json!({"type": "model", "name": "default"}));
    let request = world.model.requests().pop().unwrap();
    assert_eq!(request.messages, [Message::User("What is it?".into())]);
    assert!(request.toolset.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_call_of_the_n8n_model_node_is_one_request() {
    let world = TestServer::new(saying("Forty-two.")).await;
    let body = json!({"prompt": "What is it?", "temperature": 0.5, "maxTokens": 100, "colour": "blue"});
    let answer = world.post("/v1/models/default/query", &body).await.ok();
    assert_answer("model_query", &answer);
    let options = world.model.requests().pop().unwrap().options;
    assert_eq!((options.temperature, options.max_tokens), (Some(0.5), Some(100)));
    let name = answer["queryName"].as_str().unwrap();
    assert_eq!(world.get(&format!("/v1/queries/{name}")).await.ok()["target"]["type"], "model");
    let same = world.post("/v1/namespaces/default/models/default/query", &body).await.ok();
    assert_eq!(same["response"], "Forty-two.");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_an_error_of_the_one_request() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::refuse(401, "no such key")])).await;
    let answer = world.post("/v1/models/default/query", &json!({"prompt": "What is it?"})).await;
    assert_eq!(answer.refusal(), (502, "model_failed"));
    assert_eq!(answer.body["error"]["details"][0]["code"], "model_refused");
}

#[tokio::test(start_paused = true)]
async fn a_tool_alone_runs_once_and_its_result_is_the_answer() {
    let world = TestServer::new(ScriptedModel::default()).await;
    let input = json!({"table": "customers"}).to_string();
    let body = json!({"name": "q", "input": input, "target": {"type": "tool", "name": "database_query"}});
    let answer = ask(&world, &body).await;
    assert_eq!(answer["status"]["phase"], "done");
    assert_eq!(answer["target"]["type"], "tool");
    assert!(answer.get("modelRef").is_none(), "no model was asked");
    assert!(world.model.requests().is_empty());
    assert_eq!(world.ledger.runs().len(), 1);
    assert_eq!(
        events(&world, "q").await,
        ["agent_thinking", "tool_started", "tool_finished", "agent_response", "complete"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_outside_tool_alone_waits_for_its_client() {
    let world = TestServer::new(ScriptedModel::default()).await;
    let body = json!({"name": "q", "input": "Which one?", "target": {"type": "tool", "name": "ask_client"}});
    let answer = ask(&world, &body).await;
    assert_eq!(answer["status"]["phase"], "input-required");
    let call = &answer["status"]["toolCalls"][0];
    assert_eq!(call["arguments"], json!({"input": "Which one?"}));
    let result = json!({"toolCallId": call["id"], "toolResult": {"choice": "this one"}});
    let answer = world.post("/v1/queries/q/tool-result", &result).await.ok();
    assert_eq!(answer["status"]["response"]["content"], r#"{"choice":"this one"}"#);

    let body = json!({"name": "failing", "input": "Which one?", "target": {"type": "tool", "name": "ask_client"}});
    ask(&world, &body).await;
    let result = json!({"toolName": "ask_client", "success": false, "error": "nobody is there"});
    let answer = world.post("/v1/queries/failing/tool-result", &result).await.ok();
    assert_eq!(answer["status"]["phase"], "error");
    assert_eq!(answer["status"]["error"], json!({"code": "tool_failed", "message": "nobody is there"}));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_may_be_the_input() {
    let world = TestServer::new(saying("Yes.")).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{\"id\": 7}"}});
    let messages = json!([
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is it there?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "{{.kept}}"},
        {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
    ]);
    let body = with("q", &json!({"type": "messages", "input": messages, "parameters": [{"name": "a", "value": "b"}]}));
    let answer = ask(&world, &body).await;
    assert_eq!(answer["status"]["response"]["content"], "Yes.");
    assert_eq!(answer["type"], "messages");
    assert_eq!(answer["input"][2], messages[2]);
    let asked = last_messages(&world);
    assert_eq!(asked.len(), 6);
    assert_eq!((&asked[0], &asked[1]), (&Message::System("Be brief.".into()), &Message::System("Be kind.".into())));
    let kept = Message::Tool {
        provider_id: "c1".into(),
        alias: "look_up".into(),
        content: "{{.kept}}".into(),
        images: Images::default(),
        is_error: false,
    };
    assert_eq!(asked[4], kept, "messages are not templates");
    let listed = world.get("/v1/queries").await.ok();
    assert_eq!((&listed["items"][0]["type"], &listed["items"][0]["input"]), (&json!("messages"), &answer["input"]));
    let again = world.post("/v1/queries", &body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "it is the same request");
}

#[tokio::test(start_paused = true)]
async fn a_selector_takes_the_first_agent_that_has_its_labels() {
    let world = TestServer::new(saying("Hello.")).await;
    let body = json!({"name": "q", "input": "Hi", "selector": {"matchLabels": {"team": "research"}}});
    let answer = ask(&world, &body).await;
    assert_eq!(answer["target"], json!({"type": "agent", "name": "research-assistant"}));
}

#[tokio::test(start_paused = true)]
async fn a_filter_leaves_tools_of_the_agent_out() {
    let world = TestServer::new(saying("Hello.")).await;
    let target = json!({"type": "agent", "name": "research-assistant"});
    for (name, filter, tools) in
        [("some", json!({"readOnly": true}), 1), ("none", json!({"readOnly": false}), 0), ("all", json!({}), 1)]
    {
        ask(&world, &with(name, &json!({"target": target, "toolFilter": filter}))).await;
        assert_eq!(world.model.requests().pop().unwrap().toolset.len(), tools, "{filter}");
    }
    let body = with("unknown", &json!({"target": target, "toolFilter": {"names": ["database_querry"]}}));
    let refused = world.post("/v1/queries", &body).await;
    assert_eq!(refused.refusal(), (422, "tools_not_found"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_validated_against_the_schema_of_the_agent() {
    let turns = vec![
        ScriptedTurn::say("It is 7."),
        ScriptedTurn::say(r#"{"total": "7"}"#),
        ScriptedTurn::say(r#"{"total": 7, "note": null}"#),
    ];
    let world = TestServer::new(ScriptedModel::always(turns)).await;
    let body = with("q", &json!({"target": {"type": "agent", "name": "typed-assistant"}}));
    let answer = ask(&world, &body).await;
    assert_eq!(answer["status"]["response"]["content"], r#"{"total": 7, "note": null}"#);
    assert_eq!(answer["status"]["output"], json!({"total": 7}), "a null for something optional is left out");
    let asked = last_messages(&world);
    let Some(Message::User(correction)) = asked.last() else { panic!("{asked:?}") };
    assert!(correction.contains("Parameter total has wrong type: expected integer, got string"), "{correction}");
    assert!(correction.contains(r#""required":["total"]"#), "{correction}");
    let format = world.model.requests()[0].answer.clone().unwrap();
    assert_eq!(format.name, "namespace-default-agent-typed-assistant");
    let rejected = |entry: &bosun_core::Entry| matches!(&entry.event, Event::TurnEnded { rejected: Some(_), .. });
    assert_eq!(world.journal("q").await.iter().filter(|entry| rejected(entry)).count(), 2);
    assert_eq!(
        events(&world, "q").await,
        ["agent_thinking", "agent_thinking", "agent_thinking", "agent_response", "complete"]
    );
    let rfc = world.get("/v1/queries/q?view=rfc").await.ok();
    assert_eq!(rfc["output"], json!({"total": 7}));
}

#[tokio::test(start_paused = true)]
async fn the_schema_of_the_query_goes_before_the_agents_and_an_answer_that_never_fits_fails() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say(r#"{"total": 7}"#); 9])).await;
    let schema = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    let target = json!({"type": "agent", "name": "typed-assistant"});
    let answer = ask(&world, &with("q", &json!({"target": target, "outputSchema": schema}))).await;
    assert_eq!(answer["status"]["phase"], "error");
    assert_eq!(answer["status"]["error"]["code"], "output_invalid");
    assert_eq!(world.model.requests().len(), 3);
    assert!(answer["status"].get("output").is_none());
    assert_eq!(answer["status"]["conditions"][0]["reason"], "OutputInvalid");
}

#[tokio::test(start_paused = true)]
async fn a_query_is_cancelled_by_putting_cancel() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    for (name, body) in
        [("flat", json!({"cancel": true})), ("nested", json!({"kind": "Query", "spec": {"cancel": true}}))]
    {
        world.post("/v1/queries", &plain(name)).await.ok();
        let path = format!("/v1/queries/{name}");
        let put = |body: &Value| world.send("PUT", &path, &[("content-type", "application/json")], body.to_string());
        let unchanged = put(&json!({"cancel": false})).await.ok();
        assert_ne!(unchanged["status"]["phase"], "canceled");
        let cancelled = put(&body).await.ok();
        assert_eq!(cancelled["status"]["phase"], "canceled");
        assert_eq!(cancelled["status"]["conditions"][0]["reason"], "QueryCanceled");
    }
}

/// `zod-to-json-schema` writes every tuple so, without saying which draft it follows.
#[tokio::test(start_paused = true)]
async fn a_tool_with_a_tuple_or_boolean_bounds_of_older_drafts_is_accepted_and_its_arguments_are_checked() {
    let wrong = json!({"at": ["north", 1], "size": 0});
    let right = json!({"at": [1.5, "north"], "size": 1});
    let turns =
        vec![ScriptedTurn::call("place", &wrong), ScriptedTurn::call("place", &right), ScriptedTurn::say("done")];
    let world = TestServer::new(ScriptedModel::always(turns)).await;
    let parameters = json!({"type": "object", "properties": {
        "at": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "number"}, {"type": "string"}]},
        "size": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
    }});
    let tool = json!({"name": "place", "description": "Places it", "parameters": parameters});
    let answer = ask(&world, &with("q", &json!({"externalTools": [tool]}))).await;
    assert_eq!(answer["toolCall"]["arguments"], right, "{answer}");
    let Some(Message::Tool { content, .. }) = last_messages(&world).pop() else { panic!("no result was sent") };
    assert!(content.contains("at[0]") && content.contains("must be greater than 0"), "{content}");
}
