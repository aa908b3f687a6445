//! H2: a query of the same name as one that is deleted while its turn is prepared.

use bosun_standin::{StandIn, StandInAnswers};
use serde_json::{Value, json};

use super::{
    Attack,
    target::{Keys, Target},
};
use crate::support::{proof::scale, server::World};

/// The window of the attack is as long as the conversation.
const MESSAGES: usize = 18_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_never_answered_with_the_question_of_a_deleted_one() {
    let mut attack = Attack::begin("h2_swapped_answers");
    let rounds = scale("BOSUN_ATTACK_ROUNDS", 6);
    let script = "otherwise: [{say: 'answer to: {{ input }}'}]";
    let script = StandInAnswers::parse("script.yaml", script).expect("a script");
    let model = StandIn::recording(script).await.expect("a port");
    let world = World::new();
    std::fs::write(world.path("manifests").join("talk.yaml"), manifests(&model.url())).expect("manifests");
    let keys = Keys::new(&world);
    let all = ["read", "run", "deliver", "manage"];
    let (ada, bob) = (keys.create("ada", "default", &all).await, keys.create("bob", "default", &all).await);
    let mut target = Target::start_in(world.with(&["--auth", keys.path()])).await;
    target.key = Some(ada.clone());

    let history: Vec<Value> = (0..MESSAGES)
        .map(|number| json!({"role": if number % 2 == 0 { "user" } else { "assistant" }, "content": "m"}))
        .collect();
    let mut begun = query("begin", "begin");
    begun["type"] = json!("messages");
    begun["input"] = Value::Array(history.into_iter().chain([json!({"role": "user", "content": "begin"})]).collect());
    let created = target.json("POST", "/v1/queries", &begun).await.expect("an answer");
    assert_eq!(created.status, 200, "{}", created.body);
    let ended = target.end_of("/v1/queries/begin").await;
    assert_eq!(ended.state(), "completed", "{}", ended.body);
    let mut swapped = 0;
    for round in 0..rounds {
        let (first, second) = (format!("first question <{round}>"), format!("second question <{round}>"));
        target.key = Some(ada.clone());
        let created = target.json("POST", "/v1/queries", &query("x", &first)).await.expect("an answer");
        assert_eq!(created.status, 200, "{}", created.body);
        let deleted = target.request("DELETE", "/v1/queries/x").send().await.expect("an answer");
        assert!(deleted.status().is_success(), "{deleted:?}");
        target.key = Some(bob.clone());
        let created = target.json("POST", "/v1/queries", &query("x", &second)).await.expect("an answer");
        assert_eq!(created.status, 200, "{}", created.body);
        let ended = target.end_of("/v1/queries/x").await;
        let expect = format!("answer to: {second}");
        if ended.body["response"] != json!(expect) {
            swapped += 1;
            attack.violation(format!("round {round}: asked `{second}`, answered {}", ended.body["response"]));
        }
        // At most the deleted query sent its question to the model, and only once. If it was answered before it was
        // deleted, its question is part of the conversation, before the second one.
        let asks_first = |body: &str| body.contains(&first) && !body.contains(&second);
        let asked = model.requests().iter().filter(|request| asks_first(&request.body)).count();
        attack.expect(asked <= 1, || format!("round {round}: the first question was asked {asked} times"));
        assert!(target.request("DELETE", "/v1/queries/x").send().await.is_ok());
    }
    attack.figure("rounds", rounds);
    attack.figure("swapped", swapped);
    attack.finish();
}

fn query(name: &str, input: &str) -> Value {
    json!({
        "name": name, "input": input, "target": {"type": "agent", "name": "talker"}, "externalTools": [],
        "memory": {"name": "long"}, "conversationId": "c",
    })
}

fn manifests(model: &str) -> String {
    format!(
        "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {{name: remote}}
spec: {{provider: openai, model: {{value: some}}, config: {{openai: {{baseUrl: {{value: '{model}/v1'}}, apiKey: {{value: none}}}}}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: talker}}
spec: {{prompt: Talk., modelRef: {{name: remote}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Memory
metadata: {{name: long}}
spec: {{maxMessages: 20000}}
"
    )
}
