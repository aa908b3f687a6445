//! `PUT …/queries/{name}`: what can be sent about a query that is there.

use bosun_engine::testing::{ScriptedModel, Turn};
use serde_json::{Value, json};

use super::world::{Answer, World};

async fn put(world: &World, body: &Value) -> Answer {
    world.send("PUT", "/v1/queries/q", &[("content-type", "application/json")], body.to_string()).await
}

/// A query with everything that an answer shows, which does not end by itself.
async fn asked() -> World {
    let world = World::new(ScriptedModel::always(vec![Turn::default().hanging()])).await;
    let body = json!({
        "name": "q", "input": "Hello {{.who}}", "target": {"type": "agent", "name": "math-assistant"},
        "parameters": [{"name": "who", "value": "Ada"}], "sessionId": "s", "timeout": "90s", "ttl": "2h",
        "maxToolCalls": 3, "modelOptions": {"temperature": 0.5}, "metadata": {"labels": {"team": "blue"}},
    });
    world.post("/v1/queries", &body).await.ok();
    world
}

#[tokio::test(start_paused = true)]
async fn a_field_may_be_sent_with_the_value_that_it_has() {
    let world = asked().await;
    let whole = world.get("/v1/queries/q").await.ok();
    for body in [
        whole.clone(),
        json!({"metadata": {"name": "q", "namespace": "default", "labels": {"team": "blue"}}, "spec": {"input": "Hello {{.who}}"}}),
        json!({"timeout": "1m30s", "ttl": 7200, "maxToolCalls": 3, "modelOptions": {"temperature": 0.5}}),
        json!({"timeout": "90000ms", "targets": whole["targets"], "modelRef": whole["modelRef"]["name"]}),
        json!({"cancel": false, "serviceAccount": null, "overrides": [], "selector": null, "outputSchema": null}),
        json!({}),
    ] {
        let answer = put(&world, &body).await;
        assert_eq!((answer.status.as_u16(), &answer.body["warnings"]), (200, &json!([])), "{body}: {}", answer.body);
        assert_ne!(answer.body["state"], "cancelled");
    }
    let unknown = put(&world, &json!({"colour": "red"})).await.ok();
    assert_eq!(unknown["warnings"], json!(["unknown field `colour` was ignored"]));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_to_become_another_is_refused_by_name_and_nothing_is_done() {
    let world = asked().await;
    for (body, code, path) in [
        (json!({"input": "Bye"}), "frozen_field", "input"),
        (json!({"spec": {"input": ["Bye"]}}), "frozen_field", "spec.input"),
        (json!({"type": "messages"}), "frozen_field", "type"),
        (json!({"target": {"type": "agent", "name": "research-assistant"}}), "frozen_field", "target"),
        (json!({"targets": []}), "frozen_field", "targets"),
        (json!({"selector": {"matchLabels": {"a": "b"}}}), "frozen_field", "selector"),
        (json!({"parameters": [{"name": "who", "value": "Bob"}]}), "frozen_field", "parameters"),
        (json!({"memory": {"name": "m"}}), "frozen_field", "memory"),
        (json!({"modelRef": "other"}), "frozen_field", "modelRef"),
        (json!({"modelOptions": {"temperature": 1}}), "frozen_field", "modelOptions"),
        (json!({"sessionId": "t"}), "frozen_field", "sessionId"),
        (json!({"conversationId": "t"}), "frozen_field", "conversationId"),
        (json!({"timeout": "91s"}), "frozen_field", "timeout"),
        (json!({"timeout": "soon"}), "frozen_field", "timeout"),
        (json!({"ttl": "1h"}), "frozen_field", "ttl"),
        (json!({"maxToolCalls": 4}), "frozen_field", "maxToolCalls"),
        (json!({"maxTokens": 4}), "frozen_field", "maxTokens"),
        (json!({"toolTimeout": "1ms"}), "frozen_field", "toolTimeout"),
        (json!({"externalTimeout": "1ms"}), "frozen_field", "externalTimeout"),
        (json!({"outputSchema": {"type": "object"}}), "frozen_field", "outputSchema"),
        (json!({"externalTools": []}), "frozen_field", "externalTools"),
        (json!({"toolSource": "ark"}), "frozen_field", "toolSource"),
        (json!({"name": "other"}), "frozen_field", "name"),
        (json!({"namespace": "other"}), "frozen_field", "namespace"),
        (json!({"metadata": {"labels": {"team": "red"}}}), "frozen_field", "metadata.labels"),
        (json!({"metadata": {"annotations": {"a": "b"}}}), "frozen_field", "metadata.annotations"),
        (json!({"metadata": {"name": "other"}}), "frozen_field", "metadata.name"),
        (json!({"serviceAccount": "root"}), "unsupported_field", "serviceAccount"),
        (json!({"overrides": [{"headers": []}]}), "unsupported_field", "overrides"),
        (json!({"evaluators": [{"name": "e"}]}), "unsupported_field", "evaluators"),
        (json!({"cancel": "yes"}), "invalid_request", "cancel"),
    ] {
        let mut cancelling = body.clone();
        if body.get("cancel").is_none() {
            cancelling["cancel"] = json!(true);
        }
        let answer = put(&world, &cancelling).await;
        assert_eq!(answer.refusal(), (422, code), "{body}");
        assert_eq!(answer.body["error"]["details"][0]["path"], path, "{body}");
        assert_eq!(answer.body["body"], cancelling, "{body}");
    }
    assert_ne!(world.get("/v1/queries/q").await.ok()["state"], "cancelled", "nothing was done");
    assert_eq!(put(&world, &json!({"cancel": true, "timeout": "90s"})).await.ok()["state"], "cancelled");
}
