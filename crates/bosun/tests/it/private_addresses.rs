//! No client can make the server call a private address.
//!
//! A listener on loopback records requests. Clients store models that point to it, in every possible way; the listener
//! proves that nothing arrives unless the operator has allowed it.

use std::fs;

use bosun_standin::{StandIn, StandInAnswers};
use serde_json::{Value, json};

use crate::{
    resources::api,
    support::server::{Server, World},
};

async fn trap() -> StandIn {
    let script = StandInAnswers::parse("script.yaml", "otherwise: [{say: Hello.}]").unwrap();
    StandIn::recording(script).await.unwrap()
}

fn model(name: &str, base_url: &Value) -> Value {
    let openai = json!({"baseUrl": base_url, "apiKey": {"value": "mine"}});
    json!({"name": name, "provider": "openai", "model": "m", "config": {"openai": openai}})
}

/// Stores a model that points to `base_url`; the status, and the code of a refusal.
async fn store(server: &Server, name: &str, base_url: &str) -> (u16, String) {
    let answer = api(server, "POST", "/v1/models", Some(&model(name, &json!({"value": base_url})))).await;
    let code = answer.body["error"]["code"].as_str().unwrap_or_default().to_owned();
    if !code.is_empty() {
        let message = answer.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("`allow_private`"), "it says what to do: {message}");
    }
    (answer.status, code)
}

/// Asks a model, and says how that ended.
async fn ask(server: &Server, name: &str, model: &str) -> (String, String) {
    let body = json!({"name": name, "input": "Hello", "target": {"type": "model", "name": model}});
    let answer = api(server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&answer.body["status"]), text(&answer.body["error"]["code"]))
}

fn refused() -> (String, String) {
    ("failed".to_owned(), "address_not_allowed".to_owned())
}

fn answered() -> (String, String) {
    ("completed".to_owned(), String::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_model_does_not_reach_this_machine_unless_the_operator_says_so() {
    let trap = trap().await;
    let port = trap.url().rsplit(':').next().unwrap().to_owned();
    let world = World::new();
    let secrets = world.path("secrets");
    let mut world = world.with(&["--secrets", secrets.to_str().unwrap()]);
    fs::create_dir_all(secrets.join("default/moved")).unwrap();
    fs::write(secrets.join("default/moved/base-url"), format!("http://127.0.0.1:{port}/v1")).unwrap();
    let of_file = format!(
        "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Model\nmetadata: {{name: official}}\nspec:\n  provider: openai\n  \
         model: {{value: m}}\n  config: {{openai: {{baseUrl: {{value: '{}/v1'}}}}}}\n",
        trap.url()
    );
    fs::write(world.path("manifests").join("official.yaml"), of_file).unwrap();
    let mut server = world.start().await;

    for (number, host) in ["127.0.0.1", "localhost", "localhost.", "a.localhost", "2130706433", "0x7f.1", "0", "[::1]"]
        .into_iter()
        .chain(["[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1", "[fd00::1]", "[64:ff9b::7f00:1]"])
        .enumerate()
    {
        let stored = store(&server, &format!("m{number}"), &format!("http://{host}:{port}/v1")).await;
        assert_eq!(stored, (422, "address_not_allowed".to_owned()), "{host}");
    }
    // A valid model cannot be redirected by a change.
    assert_eq!(store(&server, "mine", "https://models.example/v1").await.0, 200);
    let moved = json!({"spec": {"config": {"openai": {"baseUrl": {"value": format!("http://localhost:{port}/v1")}}}}});
    let answer = api(&server, "PUT", "/v1/models/mine", Some(&moved)).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (422, &json!("address_not_allowed")), "{}", answer.text);
    // An address that is a secret is known when it is called, and is refused then.
    let kept = json!({"valueFrom": {"secretKeyRef": {"name": "moved", "key": "base-url"}}});
    assert_eq!(api(&server, "POST", "/v1/models", Some(&model("kept", &kept))).await.status, 200);
    assert_eq!(ask(&server, "q1", "kept").await, refused());
    assert_eq!(trap.requests().len(), 0, "nothing arrived");
    // A file is the operator's own decision.
    assert_eq!(ask(&server, "q2", "official").await, answered());
    assert_eq!(trap.requests().len(), 1);
    server.kill().await;

    // The operator allows clients to call this one service, and revokes that.
    world.set("BOSUN_ALLOW_PRIVATE", format!("127.0.0.1:{port}"));
    let mut server = world.start().await;
    assert_eq!(store(&server, "allowed", &format!("http://127.0.0.1:{port}/v1")).await.0, 200);
    assert_eq!(store(&server, "other", "http://127.0.0.1:9/v1").await, (422, "address_not_allowed".to_owned()));
    assert_eq!(ask(&server, "q3", "allowed").await, answered());
    assert_eq!(ask(&server, "q4", "kept").await, answered());
    assert_eq!(trap.requests().len(), 3);
    server.kill().await;
    world.set("BOSUN_ALLOW_PRIVATE", "192.168.7.0/24");
    let server = world.start().await;
    assert_eq!(ask(&server, "q5", "allowed").await, refused());
    assert_eq!(trap.requests().len(), 3, "a refused call does not even begin");
}
