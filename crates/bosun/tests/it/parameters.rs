//! A query's parameters from config maps: of files and of clients, frozen when the query is accepted.

use serde_json::{Value, json};

use crate::{
    resources::api,
    support::server::{Server, World},
};

const MANIFESTS: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: echo.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: greeter}
spec:
  prompt: "Be {{.tone}}."
  parameters: [{name: tone, valueFrom: {queryParameterRef: {name: tone}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {tone: kind, city: Vienna, empty: ""}
"#;

fn world() -> World {
    let world = World::new();
    let manifests = world.path("manifests");
    std::fs::write(manifests.join("parameters.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.join("echo.script.yaml"), "otherwise: [{say: \"{{ input }}\"}]\n").unwrap();
    world
}

fn from(map: &str, key: &str) -> Value {
    json!({"configMapKeyRef": {"name": map, "key": key}})
}

/// Creates a query with one parameter besides the agent's; the model repeats its input.
async fn ask(server: &Server, name: &str, city: &Value) -> crate::resources::Answer {
    let parameters =
        json!([{"name": "tone", "valueFrom": from("settings", "tone")}, {"name": "city", "valueFrom": city}]);
    let body = json!({"name": name, "input": "Greet {{.city}}", "parameters": parameters,
        "target": {"type": "agent", "name": "greeter"}});
    api(server, "POST", "/v1/queries?wait=20s", Some(&body)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_may_be_in_a_config_map() {
    let world = world();
    let server = world.start().await;
    let asked = ask(&server, "q1", &from("settings", "city")).await;
    assert_eq!(asked.body["status"]["response"]["content"], "Greet Vienna", "{}", asked.text);
    // The filled-in value is shown, and is in the prompt, too: an agent that refers to it was accepted.
    let parameters = json!([{"name": "city", "value": "Vienna"}, {"name": "tone", "value": "kind"}]);
    assert_eq!((&asked.body["parameters"], &asked.body["input"]), (&parameters, &json!("Greet {{.city}}")));
    for (name, city, greeted) in [
        ("q2", from("settings", "empty"), "Greet "),
        ("q3", json!({"configMapKeyRef": {"name": "settings", "key": "gone", "optional": true}}), "Greet "),
        ("q4", json!({"configMapKeyRef": {"name": "gone", "key": "gone", "optional": true}}), "Greet "),
    ] {
        let asked = ask(&server, name, &city).await;
        assert_eq!(asked.body["status"]["response"]["content"], greeted, "{}", asked.text);
    }
    for (name, city, missing) in [
        ("q5", from("settings", "gone"), "`city` refers to key `gone` of ConfigMap `settings`"),
        ("q6", from("gone", "city"), "`city` refers to ConfigMap `gone`"),
    ] {
        let refused = ask(&server, name, &city).await;
        assert_eq!((refused.status, &refused.body["error"]["code"]), (422, &json!("missing_parameters")));
        let message = format!("parameters have no value in namespace default: {missing}");
        assert_eq!(refused.body["detail"], message.as_str());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_keeps_the_values_that_it_was_accepted_with() {
    let world = world();
    let server = world.start().await;
    let put = async |city: &str| {
        let map = json!({"metadata": {"name": "mine"}, "data": {"city": city}});
        api(&server, "POST", "/v1/resources/api/v1/configmaps", Some(&map)).await
    };
    assert_eq!(ask(&server, "q1", &from("mine", "city")).await.body["error"]["code"], "missing_parameters");
    assert_eq!(put("Graz").await.status, 200);
    let first = ask(&server, "q1", &from("mine", "city")).await;
    assert_eq!(first.body["status"]["response"]["content"], "Greet Graz", "{}", first.text);
    // The same request again is the same query, and not another one with other values.
    let again = ask(&server, "q1", &from("mine", "city")).await;
    assert_eq!((again.status, &again.body["uid"]), (200, &first.body["uid"]), "{}", again.text);
    // A config map belongs to its namespace.
    let body = json!({"name": "q", "input": "{{.city}}", "target": {"type": "model", "name": "default"},
        "parameters": [{"name": "city", "valueFrom": from("mine", "city")}]});
    let elsewhere = api(&server, "POST", "/v1/namespaces/elsewhere/queries", Some(&body)).await;
    assert_eq!(elsewhere.body["error"]["code"], "missing_parameters", "{}", elsewhere.text);
}
