//! `PUT …/queries/{name}`: what can be changed of a query, and what cannot.

use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{
    streaming::Events,
    world::{HttpReply, TestServer},
};

async fn put(world: &TestServer, body: &Value) -> HttpReply {
    world.send("PUT", "/v1/queries/q", &[("content-type", "application/json")], body.to_string()).await
}

/// A query with everything that an answer shows, which does not end by itself.
async fn asked() -> TestServer {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
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
    let events = world.get("/v1/events?query=q&reason=QueryChanged").await.ok();
    assert_eq!(events["total"], 0, "what stays as it is was not changed: {events}");
    let unknown = put(&world, &json!({"colour": "red"})).await.ok();
    assert_eq!(unknown["warnings"], json!(["unknown field `colour` was ignored"]));
}

#[tokio::test(start_paused = true)]
async fn limits_labels_and_annotations_become_what_is_sent() {
    let world = asked().await;
    let mut expect = world.get("/v1/queries/q").await.ok();
    let labels = json!({"team": "red", "tier": "1"});
    for (body, place, name, value) in [
        (json!({"timeout": "91s"}), "", "timeout", json!("1m31s")),
        (json!({"spec": {"timeout": "2m"}}), "", "timeout", json!("2m0s")),
        (json!({"ttl": "1h"}), "", "ttl", json!("1h0m0s")),
        (json!({"metadata": {"labels": labels}}), "/metadata", "labels", labels),
        (json!({"metadata": {"annotations": {"a": "b"}}}), "/metadata", "annotations", json!({"a": "b"})),
        (json!({"metadata": {"labels": {}}}), "/metadata", "labels", Value::Null),
    ] {
        let answer = put(&world, &body).await.ok();
        let place = expect.pointer_mut(place).unwrap().as_object_mut().unwrap();
        place.insert(name.to_owned(), value);
        // What there is none of is not shown.
        place.retain(|name, value| name != "labels" || !value.is_null());
        assert_eq!(answer, expect, "{body}: this became so, and nothing else");
        assert_eq!(world.get("/v1/queries/q").await.ok(), expect, "{body}");
    }
    let listed = &world.get("/v1/queries").await.ok()["items"][0];
    assert_eq!(listed["metadata"], expect["metadata"]);
    let raw = world.get("/v1/resources/apis/ark.mckinsey.com/v1alpha1/queries/q").await.ok();
    assert_eq!(raw["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!((&raw["spec"]["timeout"], &raw["spec"]["ttl"]), (&expect["timeout"], &expect["ttl"]));
    let events = world.get("/v1/events?query=q&reason=QueryChanged").await.ok();
    let messages: Vec<_> =
        events["items"].as_array().unwrap().iter().map(|event| event["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages.join("; "),
        "Changed: timeout; Changed: timeout; Changed: ttl; Changed: labels; Changed: annotations; Changed: labels"
    );
}

#[tokio::test(start_paused = true)]
async fn limits_that_are_narrowed_or_come_too_late_get_a_warning() {
    let world = asked().await;
    for (body, warning) in [
        (json!({"timeout": "9h"}), "`timeout` of 9h0m0s was narrowed to the limit of 5m0s"),
        (json!({"maxToolCalls": 1000}), "`maxToolCalls` of 1000 was narrowed to the limit of 10"),
        (json!({"toolTimeout": "1h"}), "`toolTimeout` of 1h0m0s was narrowed to the limit of 30s"),
        (json!({"externalTimeout": "99h"}), "`externalTimeout` of 99h0m0s was narrowed to the limit of 10m0s"),
    ] {
        assert_eq!(put(&world, &body).await.ok()["warnings"], json!([warning]), "{body}");
    }
    assert_eq!(put(&world, &json!({"cancel": true, "ttl": "3h"})).await.ok()["ttl"], "3h0m0s");
    for (body, warnings) in [
        (json!({"timeout": "1m"}), json!(["`timeout` has no effect any more: the query has ended"])),
        (json!({"timeout": "1m"}), json!([])),
        (json!({"ttl": "4h", "metadata": {"labels": {"team": "late"}}}), json!([])),
        (json!({"maxTokens": 4}), json!(["`maxTokens` has no effect any more: the query has ended"])),
    ] {
        let answer = put(&world, &body).await.ok();
        assert_eq!((&answer["warnings"], &answer["status"]["phase"]), (&warnings, &json!("canceled")), "{body}");
    }
    let late = world.get("/v1/queries/q").await.ok();
    assert_eq!((&late["ttl"], &late["metadata"]["labels"]), (&json!("4h0m0s"), &json!({"team": "late"})));
    assert_eq!(world.get("/v1/queries").await.ok()["items"][0]["metadata"]["labels"], json!({"team": "late"}));
}

#[tokio::test(start_paused = true)]
async fn a_stream_resumed_after_the_end_is_empty_even_if_the_query_was_changed_since() {
    let world = asked().await;
    put(&world, &json!({"cancel": true})).await.ok();
    let whole = Events::of(&world, "q", None).await.rest().await;
    put(&world, &json!({"ttl": "1h"})).await.ok();
    assert_eq!(Events::of(&world, "q", None).await.rest().await, whole);
    let last = whole.last().and_then(|event| event.id.as_deref());
    assert_eq!(Events::of(&world, "q", last).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_to_become_another_is_refused_by_name_and_nothing_is_done() {
    let world = asked().await;
    let before = world.get("/v1/queries/q").await.ok();
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
        (json!({"outputSchema": {"type": "object"}}), "frozen_field", "outputSchema"),
        (json!({"externalTools": []}), "frozen_field", "externalTools"),
        (json!({"toolSource": "ark"}), "frozen_field", "toolSource"),
        (json!({"name": "other"}), "frozen_field", "name"),
        (json!({"namespace": "other"}), "frozen_field", "namespace"),
        (json!({"metadata": {"name": "other"}}), "frozen_field", "metadata.name"),
        (json!({"serviceAccount": "root"}), "unsupported_field", "serviceAccount"),
        (json!({"overrides": [{"headers": []}]}), "unsupported_field", "overrides"),
        (json!({"evaluators": [{"name": "e"}]}), "unsupported_field", "evaluators"),
        (json!({"cancel": "yes"}), "invalid_request", "cancel"),
        (json!({"timeout": "soon"}), "invalid_request", "timeout"),
        (json!({"spec": {"ttl": 0}}), "invalid_request", "spec.ttl"),
        (json!({"maxToolCalls": -1}), "invalid_request", "maxToolCalls"),
        (json!({"metadata": {"labels": {"team": 1}}}), "invalid_request", "metadata.labels.team"),
        (json!({"metadata": {"labels": ["a"]}}), "invalid_request", "metadata.labels"),
        (json!({"metadata": "blue"}), "invalid_request", "metadata"),
    ] {
        // Whatever else is asked for is not done either.
        let mut cancelling = body.clone();
        for (name, value) in [("cancel", json!(true)), ("ttl", json!("1h")), ("maxTokens", json!(7))] {
            let is_there = body.get(name).is_some() || body["spec"].get(name).is_some();
            if !is_there {
                cancelling[name] = value;
            }
        }
        let answer = put(&world, &cancelling).await;
        assert_eq!(answer.refusal(), (422, code), "{body}");
        assert_eq!(answer.body["error"]["details"][0]["path"], path, "{body}");
        assert_eq!(answer.body["body"], cancelling, "{body}");
    }
    assert_eq!(world.get("/v1/queries/q").await.ok(), before, "nothing was done");
    assert_eq!(put(&world, &json!({"cancel": true, "timeout": "90s"})).await.ok()["state"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_have_a_size() {
    let world = asked().await;
    for (name, size, status) in
        [("labels", 256 * 1024, 422), ("annotations", 256 * 1024, 422), ("labels", 256 * 1024 - 1, 200)]
    {
        let answer = put(&world, &json!({"metadata": {name: {"a": "b".repeat(size)}}})).await;
        assert_eq!(answer.status.as_u16(), status, "{name} {size}");
        if status == 422 {
            let fault = &answer.body["error"]["details"][0];
            assert_eq!(fault["path"], format!("metadata.{name}"));
            assert_eq!(fault["message"], "has 262145 bytes; 262144 are the most");
        }
    }
}
