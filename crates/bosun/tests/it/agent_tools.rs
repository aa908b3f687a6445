//! What an agent makes of its tools: builtin ones that end a query, parameters of its own, and filtered results.

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{program::Server, support::client::Client};

const MODEL: &str = "
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: model.script.yaml}}}
";

/// A directory of an agent with `tools`, other manifests, and the script of its model.
pub(crate) fn agent(tools: &str, others: &str, script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let agent = format!(
        "{MODEL}---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: tester}}
spec:
  prompt: Do as the script says.
  tools: {tools}
{others}"
    );
    std::fs::write(directory.path().join("agents.yaml"), agent).unwrap();
    std::fs::write(directory.path().join("model.script.yaml"), script).unwrap();
    directory
}

/// The query that asks the agent, when it has ended.
async fn ask(server: &Server, more: Value) -> Value {
    let mut body = json!({"name": "q", "input": "go", "target": {"type": "agent", "name": "tester"}});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    let answer = Client::of(&server.base).ask(&Method::POST, "?wait=20s&view=rfc", Some(&body)).await;
    answer.expect("an answer").body
}

#[tokio::test]
async fn terminate_completes_the_query_with_its_response() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call:
          - {tool: calculator, arguments: {expression: "6 * 7"}}
          - {tool: terminate, arguments: {response: "that is all"}}
      - say: "the model is not asked again"
"#;
    let manifests = agent("[{type: builtin, name: terminate}, {type: builtin, name: calculator}]", "", script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!("that is all")), "{ended}");
    let history = ended["toolExecutionHistory"].as_array().unwrap();
    assert_eq!(history.len(), 2, "calls of the same turn are run: {ended}");
}

#[tokio::test]
async fn terminate_without_a_response_is_refused_and_the_model_goes_on() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call: [{tool: terminate, arguments: {}}]
      - say: "{{ result.terminate }}"
"#;
    let manifests = agent("[{type: builtin, name: terminate}]", "", script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    assert_eq!(ended["state"], "completed");
    assert!(ended["response"].as_str().unwrap().contains("response"), "{ended}");
}

#[tokio::test]
async fn the_response_of_terminate_has_to_match_the_schema_of_answers() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call: [{tool: terminate, arguments: {response: "no object"}}]
  - when: This answer is not what was asked for
    turns:
      - call: [{tool: terminate, arguments: {response: '{"sum": 42}'}}]
"#;
    let manifests = agent(
        "[{type: builtin, name: terminate}]",
        "  outputSchema: {type: object, properties: {sum: {type: number}}, required: [sum]}\n",
        script,
    );
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!(r#"{"sum": 42}"#)), "{ended}");
}

const FORECAST: &str = "---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {units: '{{ metric }}'}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: forecast}
spec:
  type: builtin
  builtin: {name: noop}
  inputSchema:
    type: object
    properties: {city: {type: string}, days: {type: integer}, units: {type: string}, detail: {type: string}}
    required: [city, days, units, detail]
    additionalProperties: false
";

const FORECAST_HERE: &str = "
    - type: custom
      name: forecast_here
      partial:
        name: forecast
        parameters:
          - {name: city, value: '{{ .Query.town }}, {{.Query.country}}'}
          - {name: days, valueFrom: {queryParameterRef: {name: days}}}
          - {name: units, valueFrom: {configMapKeyRef: {name: settings, key: units}}}";

#[tokio::test]
async fn preset_parameters_are_hidden_from_the_model_and_added_to_the_call() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call: [{tool: forecast_here, arguments: {detail: "rain", city: "Rome"}}]
      - call: [{tool: forecast_here, arguments: {detail: "rain"}}]
      - say: "{{ result.forecast_here }}"
"#;
    let manifests = agent(FORECAST_HERE, FORECAST, script);
    let server = Server::start_with(manifests.path()).await;
    let refused = ask(&server, json!({})).await;
    assert_eq!(refused["error"]["code"], "missing_parameters", "{refused}");
    for name in ["country", "days", "town"] {
        assert!(refused["error"]["message"].as_str().unwrap().contains(&format!("`{name}`")), "{refused}");
    }
    let parameter = |name: &str, value: &str| json!({"name": name, "value": value});
    let parameters = [parameter("town", "Paris"), parameter("country", "France"), parameter("days", "3")];
    let ended = ask(&server, json!({ "parameters": parameters })).await;
    let expected = json!({"detail": "rain", "city": "Paris, France", "days": 3, "units": "{{ metric }}"});
    assert_eq!(ended["response"].as_str(), Some(expected.to_string().as_str()), "{ended}");
    let history = ended["toolExecutionHistory"].as_array().unwrap();
    assert_eq!(history[0]["error"]["code"], "invalid_arguments", "the model has no `city` to set: {ended}");
}
