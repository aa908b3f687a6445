//! A secret of the server is sent only where its operator allows it, whatever a client stores.
//!
//! Two model APIs listen on loopback and record requests: one that a manifest in a file names, and one that only a
//! client does. The proof is theirs: a canary arrives at the first and never at the second.

use std::fs;

use bosun_standin::{StandIn, StandInAnswers};
use serde_json::{Value, json};

use crate::{
    resources::{Answer, api},
    support::server::{Server, World},
};

const CANARY: &str = "sk-cnry-bound-7f3a91";

/// A server with a secret, the API that its files send it to, and one that they do not.
struct SecretHostsWorld {
    world: World,
    trusted: StandIn,
    foreign: StandIn,
}

async fn stand_in() -> StandIn {
    let script = StandInAnswers::parse("script.yaml", "otherwise: [{say: Hello.}]").unwrap();
    StandIn::recording(script).await.unwrap()
}

fn secret() -> Value {
    json!({"valueFrom": {"secretKeyRef": {"name": "shared", "key": "api-key"}}})
}

impl SecretHostsWorld {
    async fn build() -> Self {
        let (trusted, foreign) = (stand_in().await, stand_in().await);
        let world = World::new();
        let directory = world.path("secrets");
        let world = world.with(&["--secrets", directory.to_str().unwrap()]);
        // What clients may reach at all is not the question here.
        let world = world.with(&["--allow-private", "127.0.0.1", "--allow-private", "localhost"]);
        let world = Self { world, trusted, foreign };
        world.put("api-key", CANARY);
        fs::write(world.official(), world.manifest()).unwrap();
        world
    }

    fn official(&self) -> std::path::PathBuf {
        self.world.path("manifests").join("official.yaml")
    }

    fn manifest(&self) -> String {
        format!(
            "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Model\nmetadata: {{name: official}}\nspec:\n  provider: openai\n  \
             model: {{value: m}}\n  config: {{openai: {{baseUrl: {{value: '{}/v1'}}, apiKey: {}}}}}\n",
            self.trusted.url(),
            secret()
        )
    }

    /// Writes a key of the secret.
    fn put(&self, key: &str, value: &str) {
        let directory = self.world.path("secrets").join("default/shared");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(key), value).unwrap();
    }

    /// How often each API was asked, and how often with the canary.
    fn received(&self) -> [(usize, usize); 2] {
        [&self.trusted, &self.foreign].map(|api| {
            let requests = api.requests();
            let has_canary = |text: String| text.contains(CANARY);
            let with = requests.iter().filter(|request| {
                has_canary(format!("{:?}", request.headers)) || has_canary(format!("{}{}", request.path, request.body))
            });
            (requests.len(), with.count())
        })
    }
}

/// A model as a client stores it.
fn model(name: &str, base_url: &str, settings: &Value) -> Value {
    let mut openai = settings.clone();
    openai["baseUrl"] = json!({"value": format!("{base_url}/v1")});
    json!({"name": name, "provider": "openai", "model": "m", "config": {"openai": openai}})
}

#[track_caller]
fn check_refused(answer: &Answer) {
    let error = &answer.body["error"];
    assert_eq!((answer.status, &error["code"]), (422, &json!("secret_not_allowed")), "{}", answer.text);
    assert_eq!(error["details"][0]["code"], "secret_not_allowed", "{}", answer.text);
    assert!(error["message"].as_str().unwrap().contains("secret `shared` may not be sent"), "{}", answer.text);
    assert!(!answer.text.contains(CANARY), "{}", answer.text);
}

/// Asks a model, and says how that ended.
async fn ask(server: &Server, name: &str, model: &str) -> (String, String) {
    let body = json!({"name": name, "input": "Hello", "target": {"type": "model", "name": model}});
    let answer = api(server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    assert!(!answer.text.contains(CANARY), "{}", answer.text);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&answer.body["status"]), text(&answer.body["error"]["code"]))
}

fn outcome(status: &str, code: &str) -> (String, String) {
    (status.to_owned(), code.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_model_cannot_carry_a_secret_to_a_host_of_its_own() {
    let world = SecretHostsWorld::build().await;
    let server = world.world.start().await;
    let (trusted, foreign) = (world.trusted.url(), world.foreign.url());
    let key = json!({"apiKey": secret()});

    // Where a file sends it, a client may, too; a client's own key may be sent anywhere.
    api(&server, "POST", "/v1/models", Some(&model("same", &trusted, &key))).await;
    api(&server, "POST", "/v1/models", Some(&model("own", &foreign, &json!({"apiKey": "client-key"})))).await;
    assert_eq!(ask(&server, "q1", "same").await, outcome("completed", ""));
    assert_eq!(ask(&server, "q2", "own").await, outcome("completed", ""));
    assert_eq!(ask(&server, "q3", "official").await, outcome("completed", ""));
    assert_eq!(world.received(), [(2, 2), (1, 0)]);

    // By no route, and in no part of a request.
    let header = json!({"apiKey": "client-key", "headers": [{"name": "x-key", "value": secret()}]});
    let property = json!({"apiKey": "client-key", "properties": {"user": secret()}});
    for settings in [&key, &header, &property] {
        check_refused(&api(&server, "POST", "/v1/models", Some(&model("evil", &foreign, settings))).await);
    }
    // The API may store a body for the owner of the key that it is sent with: not even to the trusted one.
    check_refused(&api(&server, "POST", "/v1/models", Some(&model("evil", &trusted, &property))).await);
    let raw = json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Model", "metadata": {"name": "evil"}, "spec": {
        "provider": "openai", "model": {"value": "m"},
        "config": {"openai": {"baseUrl": {"value": format!("{foreign}/v1")}, "apiKey": secret()}}}});
    check_refused(&api(&server, "POST", "/v1/resources/apis/ark.mckinsey.com/v1alpha1/models", Some(&raw)).await);
    // A valid model cannot be redirected by a change, from either side.
    let moved =
        json!({"spec": {"config": {"openai": {"baseUrl": {"value": format!("{foreign}/v1")}, "apiKey": secret()}}}});
    check_refused(&api(&server, "PUT", "/v1/models/same", Some(&moved)).await);
    check_refused(&api(&server, "PUT", "/v1/models/own", Some(&moved)).await);
    let whole = json!({"metadata": {"name": "own"}, "spec": raw["spec"]});
    let path = "/v1/resources/apis/ark.mckinsey.com/v1alpha1/models/own";
    check_refused(&api(&server, "PUT", path, Some(&whole)).await);
    assert_eq!(ask(&server, "q4", "evil").await.0, "");
    assert_eq!(ask(&server, "q5", "own").await, outcome("completed", ""));
    assert_eq!(world.received(), [(2, 2), (2, 0)], "nothing that was refused has left a trace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_allowed_once_is_decided_again_at_every_call() {
    let world = SecretHostsWorld::build().await;
    let mut server = world.world.start().await;
    let by_name = world.foreign.url().replace("127.0.0.1", "localhost");
    let key = json!({"apiKey": secret()});

    // The operator lists a host, and removes it again.
    check_refused(&api(&server, "POST", "/v1/models", Some(&model("listed", &by_name, &key))).await);
    world.put("allowed-hosts", "localhost\n127.0.0.1\n");
    let created = api(&server, "POST", "/v1/models", Some(&model("listed", &by_name, &key))).await;
    assert_eq!(created.status, 200, "{}", created.text);
    assert_eq!(ask(&server, "q1", "listed").await, outcome("completed", ""));
    assert_eq!(world.received(), [(0, 0), (1, 1)]);
    world.put("allowed-hosts", "127.0.0.1\n");
    assert_eq!(ask(&server, "q2", "listed").await, outcome("failed", "secret_not_allowed"));
    // Another port is another service, and https is not http.
    let port = world.foreign.url().rsplit(':').next().unwrap().to_owned();
    for (name, list) in [("p1", "localhost:1".to_owned()), ("p2", format!("https://localhost:{port}"))] {
        world.put("allowed-hosts", &list);
        assert_eq!(ask(&server, name, "listed").await, outcome("failed", "secret_not_allowed"), "{list}");
    }
    world.put("allowed-hosts", &format!("http://localhost:{port}"));
    assert_eq!(ask(&server, "p3", "listed").await, outcome("completed", ""));
    assert_eq!(world.received(), [(0, 0), (2, 2)]);
    // A list applies to files as well.
    world.put("allowed-hosts", "elsewhere.example\n");
    assert_eq!(ask(&server, "q3", "official").await, outcome("failed", "secret_not_allowed"));
    fs::remove_file(world.world.path("secrets").join("default/shared/allowed-hosts")).unwrap();
    assert_eq!(ask(&server, "q4", "listed").await, outcome("failed", "secret_not_allowed"));

    // The file that sent the secret there is removed.
    let created = api(&server, "POST", "/v1/models", Some(&model("same", &world.trusted.url(), &key))).await;
    assert_eq!(created.status, 200, "{}", created.text);
    assert_eq!(ask(&server, "q5", "same").await, outcome("completed", ""));
    server.kill().await;
    fs::remove_file(world.official()).unwrap();
    let server = world.world.start().await;
    assert_eq!(ask(&server, "q6", "same").await, outcome("failed", "secret_not_allowed"));
    assert_eq!(world.received(), [(1, 1), (2, 2)], "a refused call does not even begin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_a_secret_gets_the_key_next_to_it_and_no_other() {
    let world = SecretHostsWorld::build().await;
    world.put("base-url", &format!("{}/v1", world.foreign.url()));
    let other = world.world.path("secrets").join("default/other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("api-key"), "sk-of-another").unwrap();
    let server = world.world.start().await;
    let store = async |name: &str, secret: &str| {
        let reference = |name: &str, key: &str| json!({"valueFrom": {"secretKeyRef": {"name": name, "key": key}}});
        let openai = json!({"baseUrl": reference("shared", "base-url"), "apiKey": reference(secret, "api-key")});
        let body = json!({"name": name, "provider": "openai", "model": "m", "config": {"openai": openai}});
        api(&server, "POST", "/v1/models", Some(&body)).await
    };
    for (name, secret) in [("beside", "shared"), ("apart", "other")] {
        let created = store(name, secret).await;
        assert_eq!(created.status, 200, "{}", created.text);
    }
    assert_eq!(ask(&server, "q1", "beside").await, outcome("completed", ""));
    assert_eq!(ask(&server, "q2", "apart").await, outcome("failed", "secret_not_allowed"));
    assert_eq!(world.received(), [(0, 0), (1, 1)]);
    // The address is a secret, too: a refusal does not reveal it.
    let answer = api(&server, "GET", "/v1/queries/q2", None).await.text;
    assert!(answer.contains("the address in secret `shared`"), "{answer}");
    assert!(!answer.contains(world.foreign.url().trim_start_matches("http://")), "{answer}");
    // What may not be sent anywhere is refused before a call, whatever the address is.
    let kept = json!({"valueFrom": {"secretKeyRef": {"name": "shared", "key": "base-url"}}});
    let openai = json!({"baseUrl": kept, "apiKey": "client-key", "properties": {"user": secret()}});
    let body = json!({"name": "log", "provider": "openai", "model": "m", "config": {"openai": openai}});
    check_refused(&api(&server, "POST", "/v1/models", Some(&body)).await);
}
