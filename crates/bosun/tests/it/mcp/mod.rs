//! MCP servers as a user has them: a manifest, an agent that uses their tools, and a state that can be seen.

mod behaviours;
mod commands;
mod confirm;
mod over_http;
mod peers;
mod pins;
mod sessions;

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    program::{Server, program},
    support::soon,
};

pub(crate) use peers::packages;

const HEAD: &str = "apiVersion: ark.mckinsey.com/v1alpha1";

/// Manifests of one test, and the server that has them.
pub(crate) struct World {
    manifests: TempDir,
    http: reqwest::Client,
}

impl World {
    /// Manifests with a scripted model and an agent `helper` that has these tools.
    pub(crate) fn new(tools: &[&str], script: &str) -> Self {
        // The process has one crypto provider; an error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let manifests = tempfile::tempdir().unwrap();
        let world = Self { manifests, http: reqwest::Client::builder().no_proxy().build().unwrap() };
        world.write("model.script.yaml", script);
        world.write(
            "model.yaml",
            &format!(
                "{HEAD}\nkind: Model\nmetadata: {{name: default}}\nspec: {{provider: scripted, model: {{value: script}}, \
                 config: {{scripted: {{file: model.script.yaml}}}}}}\n"
            ),
        );
        let tools: Vec<String> = tools.iter().map(|tool| format!("{{type: mcp, name: {tool}}}")).collect();
        let agent =
            format!("{HEAD}\nkind: Agent\nmetadata: {{name: helper}}\nspec: {{tools: [{}]}}\n", tools.join(", "));
        world.write("agent.yaml", &agent);
        world
    }

    pub(crate) fn path(&self) -> &Path {
        self.manifests.path()
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).unwrap();
    }

    /// An MCP server that is a stand-in over standard input and output; `spec` are further fields.
    pub(crate) fn stand_in(&self, name: &str, behaviour: &str, spec: &str) {
        let program = Value::from(program().to_string_lossy());
        let marker = Value::from(self.path().join(format!("{name}.marker")).to_string_lossy());
        let args = format!("[mcp, stand-in, {behaviour}, --marker, {marker}]");
        let text = format!(
            "{HEAD}\nkind: MCPServer\nmetadata: {{name: {name}}}\nspec:\n  transport: stdio\n  stdio: {{command: {program}, \
             args: {args}}}\n{spec}"
        );
        self.write(&format!("{name}.mcp.yaml"), &text);
    }

    pub(crate) async fn start(&self) -> Server {
        Server::start_with(self.path()).await
    }

    pub(crate) async fn get(&self, server: &Server, path: &str) -> Value {
        let response = self.http.get(format!("{}/v1/{path}", server.base)).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.json().await.unwrap()
    }

    /// Waits until an MCP server is in this phase, and returns it.
    async fn until(&self, server: &Server, name: &str, phase: &str) -> Value {
        let looking = async {
            loop {
                let found = self.get(server, &format!("mcp-servers/{name}")).await;
                if found["discovery"]["phase"] == phase {
                    return found;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        soon(&format!("phase `{phase}` of MCP server `{name}`"), looking).await
    }

    /// Waits until the catalogue has a tool.
    pub(crate) async fn until_tool(&self, server: &Server, name: &str) {
        self.until_listed(server, name, true).await;
    }

    /// Waits until the catalogue no longer has a tool.
    async fn until_no_tool(&self, server: &Server, name: &str) {
        self.until_listed(server, name, false).await;
    }

    async fn until_listed(&self, server: &Server, name: &str, is_listed: bool) {
        let looking = async {
            loop {
                let url = format!("{}/v1/tools/{name}", server.base);
                if self.http.get(url).send().await.unwrap().status().is_success() == is_listed {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        soon(&format!("tool `{name}`, listed: {is_listed}"), looking).await;
    }

    /// Runs a query to its end.
    async fn ask(&self, server: &Server, query: &Value) -> Value {
        let request = self.http.post(format!("{}/v1/queries?wait=60", server.base)).json(query).send();
        let response = soon("the end of the query", request).await.unwrap();
        response.json().await.unwrap()
    }

    /// Calls a tool in a query without a model.
    async fn call(&self, server: &Server, tool: &str, arguments: &Value) -> Value {
        let query = json!({"input": arguments.to_string(), "target": {"type": "tool", "name": tool}});
        self.ask(server, &query).await
    }
}

/// The answer of a query, or the message of its failure.
fn text_of(answer: &Value) -> &str {
    answer["status"]["response"]["content"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn an_agent_uses_the_tool_of_a_server_that_was_only_described() {
    let script = r#"
scenes:
  - when: "say it"
    turns:
      - call: [{tool: tiny-echo, arguments: {text: "hello there"}}, {tool: tiny-add-numbers, arguments: {first: 2, second: 3}}]
      - say: "It said {{ result.tiny-echo }}, and {{ result.tiny-add-numbers }}"
"#;
    let world = World::new(&["tiny-echo", "tiny-add-numbers"], script);
    world.stand_in("tiny", "good", "");
    let server = world.start().await;
    world.until_tool(&server, "tiny-add-numbers").await;
    let query = json!({"input": "say it", "target": {"type": "agent", "name": "helper"}});
    let answer = world.ask(&server, &query).await;
    assert_eq!(text_of(&answer), r#"It said hello there, and {"sum":5.0}"#, "{answer:#}");

    let found = world.get(&server, "mcp-servers/tiny").await;
    assert_eq!(found["discovery"]["phase"], "ready");
    assert_eq!(found["tool_count"], 2);
    assert_eq!(found["discovery"]["tools"][0]["original"], "add_numbers");
    assert_eq!(found["status"]["toolCount"], 2, "{found:#}");
    assert_eq!(found["status"]["resolvedAddress"], Value::Null, "a program has none: {found:#}");
    assert_eq!(found["status"]["conditions"][0]["reason"], "ToolsDiscovered");
    assert_eq!(found["status"]["conditions"][0]["message"], "Successfully discovered 2 tools");
    let tool = world.get(&server, "tools/tiny-echo").await;
    assert_eq!(tool["managedBy"], "mcp-server");
    assert_eq!(tool["labels"], json!({"mcp/server": "tiny"}));
    assert_eq!(tool["spec"]["mcp"], json!({"mcpServerRef": {"name": "tiny"}, "toolName": "echo"}));
}

#[tokio::test]
async fn a_server_that_is_down_is_named_and_does_not_stop_the_others() {
    let script =
        "otherwise: [{call: [{tool: tiny-echo, arguments: {text: here}}]}, {say: \"{{ result.tiny-echo }}\"}]\n";
    let world = World::new(&["tiny-echo", "dead-echo"], script);
    world.stand_in("tiny", "good", "");
    world.stand_in("dead", "exit-at-start", "");
    let server = world.start().await;
    world.until_tool(&server, "tiny-echo").await;
    let found = world.until(&server, "dead", "failed").await;
    let message = found["status_message"].as_str().unwrap();
    assert!(message.contains("exit status: 3") && message.contains("the licence has expired"), "{message}");
    let answer = world.ask(&server, &json!({"input": "x", "target": {"type": "agent", "name": "helper"}})).await;
    assert_eq!(text_of(&answer), "here", "{answer:#}");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("the query has no tool `dead-echo`: MCP server `dead` is failed: "), "{warnings}");
}

#[tokio::test]
async fn a_program_gets_its_own_variables_only_and_its_secrets_are_not_shown() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let program = Value::from(program().to_string_lossy());
    let manifest = format!(
        "{HEAD}\nkind: MCPServer\nmetadata: {{name: tiny}}\nspec:\n  transport: stdio\n  stdio:\n    command: {program}\n    \
         args: [mcp, stand-in, good]\n    env:\n      - {{name: MODE, value: quiet}}\n      - {{name: TOKEN, valueFrom: \
         {{secretKeyRef: {{name: tiny, key: token}}}}}}\n"
    );
    world.write("tiny.mcp.yaml", &manifest);
    let secrets = world.path().join("secrets/default/tiny");
    std::fs::create_dir_all(&secrets).unwrap();
    std::fs::write(secrets.join("token"), "cnry-of-program").unwrap();
    let server = Server::start_in(world.path(), &["--secrets", &world.path().join("secrets").to_string_lossy()]).await;
    world.until_tool(&server, "tiny-echo").await;
    // Cargo sets the last one for the test, and so for the server.
    for (text, expect) in [("$MODE", "quiet"), ("$TOKEN", "[redacted]"), ("$CARGO_PKG_NAME", "$CARGO_PKG_NAME")] {
        let answer = world.call(&server, "tiny-echo", &json!({"text": text})).await;
        assert_eq!(text_of(&answer), expect, "{text}: {answer:#}");
    }
}
