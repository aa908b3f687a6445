//! Evaluations, and finding queries by label, session, target and time.

use bosun_core::transcript::Message;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::world::{TestServer, plain};

const VERDICT: &str = r#"{"score": 0.85, "reasoning": "It is right, and short."}"#;

fn saying() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::say("4")])
}

/// A server with the evaluator `strict`, whose judge answers with `turns`.
async fn judging(turns: Vec<ScriptedTurn>) -> TestServer {
    let world = TestServer::storing(ScriptedModel::always(turns)).await;
    let parameters = json!([{"name": "evaluator-role", "value": "You are a harbour master."}]);
    world.post("/v1/evaluators", &json!({"name": "strict", "spec": {"parameters": parameters}})).await.ok();
    world
}

fn direct(name: &str) -> Value {
    json!({
        "name": name, "type": "direct", "timeout": "30s",
        "evaluator": {"name": "strict", "parameters": [{"name": "min_score", "value": "0.8"}]},
        "config": {"input": "2+2", "output": "4"},
    })
}

#[tokio::test(start_paused = true)]
async fn an_evaluation_is_a_query_of_the_judge_with_a_score() {
    let world = judging(vec![ScriptedTurn::say(VERDICT)]).await;
    let made = world.post("/v1/evaluations?wait=20s", &direct("e1")).await.ok();
    assert_eq!(made["status"]["phase"], "done", "{made}");
    assert_eq!((&made["status"]["score"], &made["status"]["passed"]), (&json!("0.85"), &json!(true)));
    assert_eq!(made["status"]["message"], "It is right, and short.");
    assert_eq!(made["metadata"]["annotations"]["evaluation.metadata/reasoning"], "It is right, and short.");
    assert_eq!(made["spec"]["config"], json!({"input": "2+2", "output": "4"}));
    assert_eq!(made["spec"]["timeout"], "30s");
    assert_eq!(world.get("/v1/evaluations/e1").await.ok(), made);
    // It is durable, limited and listed as any other query is.
    let query = world.get("/v1/queries/e1").await.ok();
    assert_eq!((&query["target"]["type"], &query["state"]), (&json!("model"), &json!("completed")));
    let requests = world.model.requests();
    let [Message::System(prompt), Message::User(question)] = &requests[0].messages[..] else { panic!("{requests:?}") };
    assert!(prompt.contains("Your role: You are a harbour master."), "{prompt}");
    assert_eq!(question, r#"{"input":"2+2","output":"4"}"#);
    // The same request again is the same evaluation.
    assert_eq!(world.post("/v1/evaluations", &direct("e1")).await.header("idempotent-replayed"), Some("true"));
    let mut other = direct("e1");
    other["config"]["output"] = "5".into();
    assert_eq!(world.post("/v1/evaluations", &other).await.refusal(), (409, "query_exists"));
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_query_is_evaluated() {
    let world = judging(vec![ScriptedTurn::say(VERDICT)]).await;
    world.post("/v1/queries?wait=true", &plain("asked")).await.ok();
    let of = |reference: Value| {
        let evaluator = json!({"name": "strict", "parameters": [{"name": "min-score", "value": "0.9"}]});
        json!({"metadata": {"name": "of-query"}, "spec": {"type": "query", "evaluator": evaluator, "config": {"queryRef": reference}}})
    };
    let reference = json!({"name": "asked", "responseTarget": "agent:math-assistant"});
    let made = world.post("/v1/evaluations?wait=20s", &of(reference.clone())).await.ok();
    assert_eq!((&made["status"]["score"], &made["status"]["passed"]), (&json!("0.85"), &json!(false)), "{made}");
    assert_eq!(made["spec"]["config"]["queryRef"], reference);
    let requests = world.model.requests();
    let Some(Message::User(question)) = requests[1].messages.last() else { panic!("{requests:?}") };
    assert!(question.contains(r#""output":"{\"score\""#), "{question}");
    for (reference, expect) in [
        (json!({"name": "asked", "responseTarget": "agent:other"}), (422, "invalid_request")),
        (json!({"name": "nothing"}), (404, "query_not_found")),
        (json!({}), (422, "invalid_request")),
    ] {
        assert_eq!(world.post("/v1/evaluations", &of(reference.clone())).await.refusal(), expect, "{reference}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_without_an_answer_is_not_evaluated() {
    let world = judging(vec![ScriptedTurn::default().hanging()]).await;
    world.post("/v1/queries", &plain("slow")).await.ok();
    let body = json!({"type": "query", "evaluator": {"name": "strict"}, "config": {"queryRef": {"name": "slow"}}});
    assert_eq!(world.post("/v1/evaluations", &body).await.refusal(), (409, "query_not_completed"));
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_gives_no_score_fails_the_evaluation() {
    let world = judging(vec![ScriptedTurn::say("It is fine."); 9]).await;
    let made = world.post("/v1/evaluations?wait=20s", &direct("e1")).await.ok();
    assert_eq!((&made["status"]["phase"], made["status"].get("score")), (&json!("error"), None), "{made}");
    assert!(made["status"]["message"].as_str().unwrap().contains("outputSchema"), "{made}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_evaluated_is_refused_by_name() {
    let world = judging(vec![ScriptedTurn::say(VERDICT)]).await;
    let changed = |field: &str, value: Value| {
        let mut body = direct("e1");
        body[field] = value;
        body
    };
    for (body, expect) in [
        (changed("evaluator", json!({"name": "none"})), (404, "resource_not_found")),
        (changed("evaluator", Value::Null), (422, "invalid_request")),
        (changed("type", json!("batch")), (422, "unsupported_field")),
        (changed("type", json!("magic")), (422, "invalid_request")),
        (changed("config", json!({"input": "only"})), (422, "invalid_request")),
        (changed("evaluator", json!({"name": "strict", "namespace": "other"})), (422, "invalid_request")),
        (
            changed("evaluator", json!({"name": "strict", "parameters": [{"name": "model.name", "value": "gone"}]})),
            (422, "model_not_found"),
        ),
    ] {
        assert_eq!(world.post("/v1/evaluations", &body).await.refusal(), expect, "{body}");
    }
    // A query is not an evaluation, whatever its labels are.
    let mut query = plain("q");
    query["metadata"] = json!({"labels": {"ark.mckinsey.com/kind": "evaluation"}});
    world.post("/v1/queries?wait=true", &query).await.ok();
    for path in ["/v1/evaluations/q", "/v1/evaluations/nothing", "/v1/evaluations/No_Name"] {
        assert_eq!(world.get(path).await.refusal(), (404, "resource_not_found"), "{path}");
    }
    assert_eq!(world.get("/v1/evaluations").await.ok()["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn evaluations_are_listed_by_evaluator_and_query_cancelled_and_deleted() {
    let world = judging(vec![ScriptedTurn::say(VERDICT)]).await;
    world.post("/v1/evaluators", &json!({"name": "mild", "spec": {}})).await.ok();
    world.post("/v1/queries?wait=true", &plain("asked")).await.ok();
    world.post("/v1/evaluations?wait=20s", &direct("e1")).await.ok();
    // The newer one has the later time.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let of_query = json!({"name": "e2", "type": "query", "evaluator": {"name": "mild"}, "config": {"queryRef": {"name": "asked"}}});
    world.post("/v1/evaluations?wait=20s", &of_query).await.ok();
    for (filter, expect) in [
        ("", "e2 e1"),
        ("?evaluator=strict", "e1"),
        ("?query_ref=asked&enhanced=true", "e2"),
        ("?query_ref=asked&evaluator=strict", ""),
        ("?state=failed", ""),
        ("?limit=1", "e2"),
    ] {
        let listed = world.get(&format!("/v1/evaluations{filter}")).await.ok();
        let names: Vec<_> =
            listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names.join(" "), expect, "{filter}");
    }
    let listed = world.get("/v1/evaluators").await.ok();
    assert_eq!((&listed["items"][0]["name"], &listed["items"][1]["name"]), (&json!("mild"), &json!("strict")));
    let shown = world.get("/v1/evaluators/strict").await.ok();
    assert_eq!(shown["parameters"][0]["name"], "evaluator-role");
    let cancelled = world.send("PATCH", "/v1/evaluations/e1/cancel", &[], String::new()).await.ok();
    assert_eq!(cancelled["status"]["phase"], "done", "an evaluation that has ended stays what it is");
    let deleted = world.send("DELETE", "/v1/evaluations/e1", &[], String::new()).await.ok();
    assert_eq!(deleted["message"], "Evaluation 'e1' deleted");
    assert_eq!(world.get("/v1/evaluations/e1").await.refusal(), (404, "resource_not_found"));
}

#[tokio::test(start_paused = true)]
async fn an_evaluation_that_runs_is_cancelled() {
    let world = judging(vec![ScriptedTurn::default().hanging()]).await;
    let made = world.post("/v1/evaluations", &direct("e1")).await.ok();
    assert!(matches!(made["status"]["phase"].as_str(), Some("pending" | "running")), "{made}");
    let cancelled = world.send("PATCH", "/v1/evaluations/e1/cancel", &[], String::new()).await.ok();
    assert_eq!(cancelled["status"]["phase"], "canceled");
}

#[tokio::test(start_paused = true)]
async fn queries_are_found_by_label_session_target_and_time() {
    let world = TestServer::new(saying()).await;
    for (name, label, session) in [("a", "red", "s1"), ("b", "blue", "s1"), ("c", "red", "s2")] {
        let mut query = plain(name);
        query["sessionId"] = session.into();
        query["metadata"] = json!({"labels": {"team": label}});
        world.post("/v1/queries?wait=true", &query).await.ok();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    }
    for (search, expect) in [
        ("labelSelector=team%3Dred", "c a"),
        ("label_selector=team%20in%20(red,%20blue),team!%3Dblue", "c a"),
        ("sessionId=s1", "b a"),
        ("session=s1&labelSelector=team%3Dred", "a"),
        ("target=agent/math-assistant", "c b a"),
        ("target=math-assistant&sessionId=s2", "c"),
        ("target=model/math-assistant", ""),
        ("state=completed&sessionId=s1", "b a"),
        ("state=failed&sessionId=s1", ""),
        ("since=90s", "c"),
        ("until=90s", "b a"),
        ("since=150s&until=90s", "b"),
    ] {
        let listed = world.get(&format!("/v1/queries?{search}")).await.ok();
        let items = listed["items"].as_array().unwrap();
        let names: Vec<_> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!((names.join(" ").as_str(), &listed["total"]), (expect, &json!(items.len())), "{search}");
    }
    for wrong in ["labelSelector=", "labelSelector=a%3Db%3Dc", "sessionId=", "target=", "target=ship/a", "since=soon"] {
        assert_eq!(world.get(&format!("/v1/queries?{wrong}")).await.refusal(), (400, "invalid_parameter"), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_shows_its_tools_with_description_and_schema() {
    let world = TestServer::new(saying()).await;
    let agent = world.get("/v1/agents/research-assistant").await.ok();
    assert_eq!(
        agent["toolDetails"],
        json!([{
            "name": "database_query",
            "type": "builtin",
            "description": "Queries internal customer data",
            "inputSchema": {"type": "object", "properties": {"table": {"type": "string"}}, "required": ["table"]},
            "executionMode": "internal",
        }])
    );
    assert_eq!(agent["tools"][0]["name"], "database_query");
    assert_eq!(world.get("/v1/agents/without-tool").await.ok()["toolDetails"], json!([]));
}
