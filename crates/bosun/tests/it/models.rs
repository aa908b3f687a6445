//! Whole queries through models behind HTTP: `bosun models serve` simulates the APIs, with all their faults.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Child,
};

use crate::program::{Server, bosun, run, stderr, stdout, workspace};

/// The stand-in as a process, and a server whose models it simulates.
struct World {
    server: Server,
    _stand_in: Child,
    _manifests: TempDir,
}

/// One model of each provider, an unreachable one with a fallback, and an agent for each.
const MANIFESTS: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: openai}
spec: {provider: openai, model: {value: gpt}, config: {openai: {baseUrl: {value: "URL/v1"}, apiKey: {value: none}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: azure}
spec: {type: azure, model: {value: gpt}, config: {azure: {baseUrl: {value: "URL"}, properties: {stream: {value: "false"}}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: anthropic}
spec: {provider: anthropic, model: {value: claude}, config: {anthropic: {baseUrl: {value: "URL"}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: dead}
spec:
  provider: openai
  model: {value: gpt}
  fallback: [anthropic]
  config: {openai: {baseUrl: {value: "http://127.0.0.1:1/v1"}}}
"#;

fn agent(name: &str) -> String {
    format!(
        "---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\nmetadata: {{name: {name}}}\nspec:\n  prompt: Be brief.\n  \
         modelRef: {{name: {name}}}\n  tools: [{{type: builtin, name: calculator}}, {{type: builtin, name: current_time}}]\n"
    )
}

impl World {
    async fn start() -> Self {
        let mut stand_in = bosun()
            .args(["models", "serve", "--listen", "127.0.0.1:0", "--script"])
            .arg(workspace().join("examples/stand-in.yaml"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(stand_in.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("the stand-in is ready");
        let url = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next()).expect("an address");
        let manifests = tempfile::tempdir().unwrap();
        let agents: String = ["openai", "azure", "anthropic", "dead"].map(agent).concat();
        std::fs::write(manifests.path().join("all.yaml"), MANIFESTS.replace("URL", url) + &agents).unwrap();
        Self { server: Server::start_with(manifests.path()).await, _stand_in: stand_in, _manifests: manifests }
    }

    async fn ask(&self, agent: &str, input: &str) -> Value {
        let target = json!({"type": "agent", "name": agent});
        let body = json!({"input": input, "target": target, "externalTools": [], "toolSource": "ark"});
        let mut command = tokio::process::Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "-d", &body.to_string()]);
        let output = run(command.arg(format!("{}/v1/queries?wait=50s&view=rfc", self.server.base))).await;
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|error| panic!("{error}: {}", stdout(&output)))
    }
}

#[tokio::test]
async fn every_provider_goes_through_a_whole_query_and_through_every_fault() {
    let world = World::start().await;
    for agent in ["openai", "azure", "anthropic"] {
        let completes = async |input: &str, expect: &str, calls: usize| {
            let query = world.ask(agent, input).await;
            assert_eq!(query["status"], "completed", "{agent}, {input}: {query}");
            assert!(query["response"].as_str().unwrap().contains(expect), "{agent}, {input}: {query}");
            let history = query["toolExecutionHistory"].as_array().map_or(0, Vec::len);
            assert_eq!(history, calls, "{agent}, {input}: {query}");
        };
        completes("What is 25% of 8,432?", "25% of 8,432 is 2108", 2).await;
        completes("hello", "Hello! How can I help?", 0).await;
        completes("busy", "Thank you for waiting.", 0).await;
        completes("overloaded", "Here I am again.", 0).await;
        completes("broken", "Repaired.", 0).await;
        // Broken off in the middle of a call: it is retried, and the call runs once.
        completes("cut", "Whole.", 1).await;
        completes("slow", "Byte by byte.", 0).await;
        completes("no usage", "Who counts?", 0).await;
        completes("unknown tool", "there is no tool `missing_tool`", 1).await;
        let fails = async |input: &str, code: &str| {
            let query = world.ask(agent, input).await;
            assert_eq!(
                (&query["status"], &query["error"]["code"]),
                (&json!("failed"), &json!(code)),
                "{agent}, {input}: {query}"
            );
            assert_eq!(query["toolExecutionHistory"].as_array().map_or(0, Vec::len), 0, "{agent}, {input}: {query}");
        };
        fails("garbage", "model_malformed").await;
        fails("same ids", "model_malformed").await;
        fails("wrong end", "model_malformed").await;
        fails(if agent == "anthropic" { "too long for Anthropic" } else { "too long" }, "model_output_limit").await;
        fails("forbidden", "model_refused").await;
    }
    let query = world.ask("dead", "What is 25% of 8,432?").await;
    assert_eq!(query["response"], "25% of 8,432 is 2108", "{query}");
}

#[tokio::test]
async fn an_invalid_script_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("script.yaml");
    std::fs::write(&file, "otherwise: [{say: x, wire: {cutAt: soon}}]").unwrap();
    let output = run(bosun().args(["models", "serve", "--script"]).arg(&file)).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("script.yaml:1:36: `otherwise[0].wire.cutAt`"), "{}", stderr(&output));
}
