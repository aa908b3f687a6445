//! The policy of an MCP server: which of its calls wait for a person.

use serde_json::{Value, json};

use super::World;
use crate::program::Server;

/// An agent that calls both tools of a server with this policy, on a server with these options, and with this annotation
/// of the agent: the names of those that wait for approval.
async fn awaiting(policy: &str, annotations: &str, options: &[&str]) -> Vec<String> {
    let script = "otherwise: [{call: [{tool: odd-echo, arguments: {text: hi}}, {tool: odd-remove-all, arguments: {}}]}, \
                  {say: done}]\n";
    let world = World::new(&["odd-echo", "odd-remove-all"], script);
    let agent = std::fs::read_to_string(world.path().join("agent.yaml")).unwrap();
    let named = format!("metadata: {{name: helper, annotations: {{{annotations}}}}}");
    world.write("agent.yaml", &agent.replace("metadata: {name: helper}", &named));
    world.stand_in("odd", "odd-tools", &format!("  timeout: 60s\n{policy}"));
    let server = Server::start_in(world.path(), options).await;
    world.until_tool(&server, "odd-remove-all").await;
    let query = json!({"name": "q", "input": "x", "target": {"type": "agent", "name": "helper"}});
    world.ask(&server, &query).await;
    let found = world.get(&server, "queries/q?view=rfc").await;
    let waits = found["approvals"].as_array().cloned().unwrap_or_default();
    let expected = if waits.is_empty() { "completed" } else { "awaiting_approval" };
    assert_eq!(found["state"], expected, "{found}");
    waits.iter().map(|approval: &Value| approval["name"].as_str().unwrap().to_owned()).collect()
}

/// Both tools say that they only read, and one that it destroys: a hint may ask for approval, and never waives one.
#[tokio::test]
async fn the_policy_of_a_server_decides_and_its_hints_relax_none() {
    let (both, destructive, none) = (&["odd-echo", "odd-remove-all"][..], &["odd-remove-all"][..], &[][..]);
    let always = &["--confirm", "always"][..];
    for (policy, annotations, options, waits) in [
        ("", "", &[][..], destructive),
        ("", "", always, both),
        ("  confirm: auto\n", "", always, destructive),
        ("  confirm: always\n", "", &[], both),
        ("  confirm: never\n", "", &[], none),
        ("  confirm: never\n", "", always, none),
        // The policy of the server is more specific than that of the agent.
        ("  confirm: always\n", "bosun.dev/confirm: never", &[], both),
        ("  confirm: never\n", "bosun.dev/confirm: always", &[], none),
        ("", "bosun.dev/confirm: always", &[], both),
        ("  trustHints: true\n", "bosun.dev/confirm: always", &[], both),
    ] {
        assert_eq!(awaiting(policy, annotations, options).await, waits, "{policy} {annotations} {options:?}");
    }
}
