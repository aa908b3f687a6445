//! The policy of an MCP server: which of its calls wait for a person, and that a client waives none of it.

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

/// Stores a resource; returns the status, and the faults as text.
async fn store(world: &World, server: &Server, kind: &str, name: &str, spec: &Value) -> (u16, String) {
    let body = json!({"name": name, "spec": spec});
    let answer = world.http.post(format!("{}/v1/{kind}", server.base)).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_client_stores_nothing_that_waives_an_approval_or_vouches_for_a_server() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let server = world.start().await;
    let address = json!({"value": "https://192.0.2.1/mcp"});
    let reached = |more: Value| {
        let mut spec = json!({"address": address});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let request = json!({"url": "https://192.0.2.1/items", "method": "DELETE"});
    let tool = |more: Value| {
        let mut spec = json!({"type": "http", "http": request});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let mine = json!({"type": "mcp", "mcp": {"mcpServerRef": {"name": "odd"}, "toolName": "echo"},
                      "approval": {"required": false}});
    let (waives, vouches) = ("approval_required", "unsupported_field");
    for (kind, spec, code) in [
        ("mcp-servers", reached(json!({"confirm": "never"})), waives),
        ("mcp-servers", reached(json!({"confirm": "auto"})), waives),
        ("a2a-servers", reached(json!({"confirm": "never"})), waives),
        ("a2a-servers", reached(json!({"confirm": "auto"})), waives),
        ("tools", tool(json!({"approval": {"required": false}})), waives),
        ("tools", tool(json!({"approval": {"required": false, "timeout": "1h"}})), waives),
        ("tools", mine, waives),
        ("mcp-servers", reached(json!({"trustHints": true})), vouches),
        ("mcp-servers", reached(json!({"elicitation": "defaults"})), vouches),
        ("a2a-servers", reached(json!({"idempotent": true})), vouches),
    ] {
        let (status, text) = store(&world, &server, kind, "waiver", &spec).await;
        assert_eq!(status, 422, "{kind} {spec}: {text}");
        assert!(text.contains(&format!(r#""code":"{code}""#)), "{kind} {spec}: {text}");
    }
    for (kind, spec) in [
        ("mcp-servers", reached(json!({"confirm": "perhaps"}))),
        ("mcp-servers", reached(json!({"confirm": "always", "trustHints": false, "elicitation": "refuse"}))),
        ("a2a-servers", reached(json!({"confirm": "always", "idempotent": false}))),
        ("tools", tool(json!({"approval": {"required": true}}))),
    ] {
        let (_, text) = store(&world, &server, kind, "careful", &spec).await;
        assert!(!text.contains(waives) && !text.contains(vouches), "{kind} {spec}: {text}");
    }
}

/// Another name for a tool, and a manifest without its hints, are no way around the policy of its server.
#[tokio::test]
async fn a_tool_that_a_client_stores_has_the_policy_of_the_server_and_its_hints() {
    for (policy, original, approval, waits) in [
        ("  confirm: always\n", "echo", json!(null), true),
        ("  confirm: never\n", "echo", json!(null), false),
        ("  confirm: never\n", "echo", json!({"required": true}), true),
        ("", "echo", json!(null), false),
        ("", "remove_all", json!(null), true),
        ("  confirm: never\n", "remove_all", json!(null), false),
    ] {
        let world = World::new(&[], "otherwise: [{say: x}]\n");
        world.stand_in("odd", "odd-tools", &format!("  timeout: 60s\n{policy}"));
        let server = world.start().await;
        world.until_tool(&server, "odd-remove-all").await;
        let mut spec = json!({
            "type": "mcp", "mcp": {"mcpServerRef": {"name": "odd"}, "toolName": original},
            "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": false},
        });
        if !approval.is_null() {
            spec["approval"] = approval.clone();
        }
        let (status, text) = store(&world, &server, "tools", "mine", &spec).await;
        assert_eq!(status, 200, "{policy}: {text}");
        let query = json!({"name": "q", "input": "{\"text\": \"x\"}", "target": {"type": "tool", "name": "mine"}});
        world.ask(&server, &query).await;
        let found = world.get(&server, "queries/q?view=rfc").await;
        assert_eq!(found["state"] == "awaiting_approval", waits, "{policy} {original} {approval}: {found}");
    }
}

/// The same tools in the operator's own manifest have what it says, and else what the server says.
#[tokio::test]
async fn a_tool_in_a_file_has_the_policy_of_the_server_where_it_has_none() {
    for (approval, waits) in [("", true), (", approval: {required: false}", false)] {
        let world = World::new(&[], "otherwise: [{say: x}]\n");
        world.stand_in("odd", "odd-tools", "  confirm: always\n");
        let head = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {name: mine}\n";
        let spec = format!("spec: {{type: mcp, mcp: {{mcpServerRef: {{name: odd}}, toolName: echo}}{approval}}}\n");
        world.write("mine.yaml", &format!("{head}{spec}"));
        let server = world.start().await;
        world.until_tool(&server, "odd-remove-all").await;
        let query = json!({"name": "q", "input": "{}", "target": {"type": "tool", "name": "mine"}});
        world.ask(&server, &query).await;
        let found = world.get(&server, "queries/q?view=rfc").await;
        assert_eq!(found["state"] == "awaiting_approval", waits, "{approval}: {found}");
    }
}
