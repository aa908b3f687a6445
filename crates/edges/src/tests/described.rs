//! The description of the API and the readers of bodies have the same fields.
//!
//! That a reader takes no field that is not described is checked in every test: `Fields::with_table` panics on it.

use std::sync::Arc;

use bosun_core::schema::Schema;
use serde_json::{Value, json};

use super::world::{HttpReply, TestServer, calculating, plain, with_calculator};

/// The schema of the body of an operation.
fn body_schema(document: &Value, method: &str, path: &str) -> Value {
    resolved(document, &document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"])
}

/// A schema with the components that it refers to.
fn resolved(document: &Value, schema: &Value) -> Value {
    match schema {
        Value::Object(members) => match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => resolved(document, document.pointer(reference.trim_start_matches('#')).unwrap()),
            None => members.iter().map(|(name, member)| (name.clone(), resolved(document, member))).collect(),
        },
        Value::Array(items) => items.iter().map(|item| resolved(document, item)).collect(),
        other => other.clone(),
    }
}

async fn send(world: &TestServer, method: &str, path: &str, body: &Value) -> HttpReply {
    world.send(&method.to_uppercase(), path, &[("content-type", "application/json")], body.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn every_field_that_is_described_is_read() {
    let world = TestServer::new(calculating()).await;
    let document = world.get("/openapi.json").await.ok();
    let mut read = 0;
    for (method, path, base) in [
        ("post", "/v1/queries", plain("x")),
        ("put", "/v1/queries/{name}", json!({})),
        ("patch", "/v1/queries/{name}/cancel", json!({})),
        ("post", "/v1/queries/{name}/continue", json!({})),
        ("post", "/v1/queries/{name}/tool-result", json!({"toolName": "calculator", "toolResult": 1, "wait": false})),
        ("post", "/v1/models/{name}/query", json!({"prompt": "Hi", "wait": false})),
        ("post", "/v1/namespaces", json!({"name": "new"})),
    ] {
        let schema = body_schema(&document, method, path);
        for field in schema["properties"].as_object().unwrap().keys() {
            let name = format!("{method}{read}");
            let query = format!("q{read}");
            world.post("/v1/queries", &with_calculator(&query)).await.ok();
            let mut body = base.clone();
            if path == "/v1/queries" {
                body["name"] = json!(name);
            }
            // Of no use to most fields, and then a fault with the field's name; an unknown field is a warning instead.
            body[field] = json!({"x": []});
            let address = path.replace("/models/{name}", "/models/default").replace("{name}", &query);
            let answer = send(&world, method, &address, &body).await;
            let warnings: Vec<_> =
                answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
            let unknown = format!("unknown field `{field}`");
            assert!(!warnings.iter().any(|warning| warning.contains(&unknown)), "{method} {path}: {warnings:?}");
            read += 1;
        }
    }
    assert!(read > 50, "{read}");
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_is_read_as_it_is_described() {
    let world = TestServer::new(calculating()).await;
    let document = world.get("/openapi.json").await.ok();
    let schema = Schema::compile(&Arc::new(body_schema(&document, "post", "/v1/namespaces"))).unwrap();
    for (body, is_read) in [
        (json!({"name": "one"}), true),
        (json!({"metadata": {"name": "two"}}), true),
        (json!({}), false),
        (json!({"metadata": {}}), false),
        (json!({"name": "Not.A.Name"}), false),
        (json!({"name": 5}), false),
        (json!({"metadata": {"name": "-"}}), false),
    ] {
        assert_eq!(schema.validate(&body).is_empty(), is_read, "{body}");
        let answer = world.post("/v1/namespaces", &body).await;
        // This server stores nothing: it says so about a body that it has read.
        let was_read = answer.body["error"]["details"][0]["code"] == "fixed_resources";
        assert_eq!(was_read, is_read, "{body}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_reader_takes_is_valid_by_its_description() {
    let world = TestServer::new(calculating()).await;
    let document = world.get("/openapi.json").await.ok();
    let schema = Schema::compile(&Arc::new(body_schema(&document, "post", "/v1/queries"))).unwrap();
    let spec = plain("x");
    for (index, more) in [
        json!({"timeout": "1h30m", "toolTimeout": "1.5s", "externalTimeout": 30, "ttl": "250ms"}),
        json!({"wait": true}),
        json!({"wait": "0s"}),
        json!({"wait": 0.5}),
        json!({"tools": ["calculator"]}),
        json!({"tools": [{"name": "calculator", "executionMode": "internal"}]}),
        json!({"externalTools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}]}),
        json!({"externalTools": [{"name": "t", "timeout": "1m30s"}]}),
        json!({"modelRef": {"name": "default", "namespace": "default"}}),
        json!({"modelRef": {"name": "default", "namespace": ""}}),
        json!({"target": {"type": "agent", "name": "math-assistant", "namespace": ""}}),
        json!({"parameters": [{"name": "p", "value": "v"}]}),
        json!({"kind": "Query", "metadata": {"labels": {"a": "b"}, "namespace": "default"}, "spec": spec}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = if more.get("spec").is_some() { json!({}) } else { plain("x") };
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let violations = schema.validate(&body);
        assert!(violations.is_empty(), "{body}: {violations:?}");
        let named = if body.get("spec").is_some() { &mut body["spec"]["name"] } else { &mut body["name"] };
        *named = json!(format!("x{index}"));
        let answer = world.post("/v1/queries", &body).await;
        assert!(matches!(answer.refusal().1, "" | "tools_not_found" | "model_not_found"), "{body}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn what_must_be_there_is_described_in_both_forms_of_a_body() {
    let world = TestServer::new(calculating()).await;
    let document = world.get("/openapi.json").await.ok();
    for (path, body) in [
        ("/v1/queries", json!({})),
        ("/v1/queries", json!({"spec": {}})),
        ("/v1/queries", json!({"spec": {"input": "x"}})),
        ("/v1/queries", json!({"spec": {"input": 5, "target": {"type": "agent", "name": "math-assistant"}}})),
        ("/v1/evaluations", json!({"spec": {}})),
        ("/v1/evaluations", json!({"spec": {"evaluator": {"name": "judge"}}})),
        ("/v1/evaluations", json!({"spec": {"evaluator": "judge", "config": {}}})),
    ] {
        let schema = Schema::compile(&Arc::new(body_schema(&document, "post", path))).unwrap();
        assert!(!schema.validate(&body).is_empty(), "{path} {body}");
        assert_eq!(world.post(path, &body).await.refusal().1, "invalid_request", "{path} {body}");
    }
}
