//! Parameters of the query string are judged by the route that they are sent to.

use serde_json::Value;

use super::world::{TestServer, calculating, plain};

async fn with_query() -> TestServer {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries", &plain("q")).await.ok();
    world
}

/// A parameter of other routes is unknown to this one: ignored with a warning, whatever its value.
async fn check_unknown(world: &TestServer, path: &str, parameter: &str, value: &str) {
    let answer = world.get(&format!("{path}?{parameter}={value}")).await;
    let warning = format!("299 - \"unknown parameter `{parameter}` was ignored\"");
    assert_eq!(answer.status, 200, "{path}?{parameter}={value}: {}", answer.body);
    assert_eq!(answer.header("warning"), Some(warning.as_str()), "{path}?{parameter}={value}");
}

#[tokio::test(start_paused = true)]
async fn a_parameter_of_another_route_is_warned_about_and_not_judged() {
    let world = with_query().await;
    for (path, parameter, value) in [
        ("/v1/queries", "top", "3"),
        ("/v1/queries", "view", "garbage"),
        ("/v1/queries", "cursor", "garbage"),
        ("/v1/queries/q", "since", "garbage"),
        ("/v1/queries/q", "from", "garbage"),
        ("/v1/queries/q", "limit", "0"),
        ("/v1/queries/q", "cursor", "garbage"),
        ("/v1/namespaces/default/queries/q", "state", "garbage"),
        ("/v1/agents", "wait", "garbage"),
        ("/v1/agents", "state", "running"),
        ("/v1/agents/math-assistant", "limit", "0"),
        ("/v1/events", "from", "garbage"),
        ("/v1/events", "continue_token", ""),
        ("/v1/audit", "since", "garbage"),
        ("/v1/audit", "type", "Normal"),
        ("/v1/tools/usage", "limit", "0"),
        ("/v1/tools/usage", "actor", "garbage"),
        ("/v1/conversations", "action", "garbage"),
        ("/v1/conversations", "kind", "garbage"),
        ("/v1/capabilities", "stream", "garbage"),
        ("/v1/system-info", "query", "No%20Query"),
    ] {
        check_unknown(&world, path, parameter, value).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_is_judged_where_it_means_something() {
    let world = with_query().await;
    let answer = world.send("GET", "/v1/queries/q", &[("idempotency-key", "")], "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn a_parameter_of_the_route_is_judged() {
    let world = with_query().await;
    for (path, parameter, value) in [
        ("/v1/queries", "limit", "0"),
        ("/v1/queries", "state", "garbage"),
        ("/v1/queries", "continue_token", ""),
        ("/v1/queries", "since", "garbage"),
        ("/v1/queries", "labelSelector", "a%3Db%3Dc"),
        ("/v1/queries/q", "wait", "garbage"),
        ("/v1/queries/q", "view", "garbage"),
        ("/v1/agents", "limit", "1001"),
        ("/v1/events", "page", "0"),
        ("/v1/events", "query", "No%20Query"),
        ("/v1/audit", "from", "garbage"),
        ("/v1/audit", "cursor", "garbage"),
        ("/v1/audit", "action", "garbage"),
        ("/v1/tools/usage", "since", "garbage"),
        ("/v1/tools/usage", "top", "0"),
        ("/v1/conversations", "query", "No%20Query"),
        ("/v1/resources/apis/ark.mckinsey.com/v1alpha1/agents", "limit", "0"),
    ] {
        let answer = world.get(&format!("{path}?{parameter}={value}")).await;
        assert_eq!(answer.refusal(), (400, "invalid_parameter"), "{path}?{parameter}={value}");
        assert_eq!(answer.body["error"]["details"][0]["path"], parameter, "{path}?{parameter}={value}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_faults_are_reported_at_once() {
    let world = with_query().await;
    let answer = world.get("/v1/queries/q?view=x&wait=x&limit=x&limit=y").await;
    assert_eq!(
        answer.body["error"]["message"],
        "view: `x` is not `rfc` or `ark`; wait: `x` is not true, false or a duration such as `20s`; \
         limit: appears twice"
    );
}

/// A value that the parameter takes, by the schema that describes it.
fn sample(parameter: &Value) -> String {
    let schema = &parameter["schema"];
    match parameter["name"].as_str().unwrap() {
        "wait" => return "1s".to_owned(),
        "from" | "to" | "since" | "until" => return "1h".to_owned(),
        "lease" => return "60s".to_owned(),
        "action" => return "call.delivered".to_owned(),
        _ => {}
    }
    if let Some(first) = schema["enum"][0].as_str() {
        return first.to_owned();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), _) => "1".to_owned(),
        (Some("boolean"), _) => "false".to_owned(),
        (_, Some("uuid")) => "019a0000-0000-7000-8000-000000000000".to_owned(),
        _ => "q".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_parameter_that_is_described_is_taken() {
    let world = with_query().await;
    let document = world.get("/openapi.json").await.ok();
    let mut sent = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let address = path
            .replace("{namespace}", "default")
            .replace("/queries/{name}", "/queries/q")
            .replace("/agents/{name}", "/agents/math-assistant")
            .replace("{group}", "ark.mckinsey.com")
            .replace("apis/ark.mckinsey.com/{version}/{kind}", "apis/ark.mckinsey.com/v1alpha1/agents");
        if address.contains('{') {
            continue;
        }
        for parameter in operations["get"]["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] != "query" {
                continue;
            }
            let (name, value) = (parameter["name"].as_str().unwrap(), sample(parameter));
            let value = if name == "namespace" { "default".to_owned() } else { value };
            // A worker has to say what it runs.
            let more = if address.ends_with("/tool-calls") && name != "tools" { "&tools=t" } else { "" };
            let answer = world.get(&format!("{address}?{name}={value}{more}")).await;
            assert!(answer.refusal().1 != "invalid_parameter", "{address}?{name}={value}: {}", answer.body);
            let warning = answer.header("warning").unwrap_or_default();
            assert!(!warning.contains("unknown parameter"), "{address}?{name}={value}: {warning}");
            sent += 1;
        }
    }
    assert!(sent > 50, "{sent}");
}
