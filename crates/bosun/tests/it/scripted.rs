//! A folder with a scripted model and the agent `tester`, for commands that ask it.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::program::Server;

/// The model `default`, which answers from the script next to it.
pub(crate) const MODEL: &str = "
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: model.script.yaml}}}
";

/// A script to which further scenes may be added: a call of the client's tool `probe`, and a failure of the model.
pub(crate) const SCENES: &str = r#"
scenes:
  - when: one tool
    turns:
      - call: [{tool: probe, arguments: {word: "one"}}]
      - say: "probe said {{ result.probe }}"
  - when: nothing works
    turns:
      - fail: {status: 400, message: "no such deployment"}
"#;

const AGENT: &str = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: tester}
spec: {prompt: Do as the script says.}
";

#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    /// `manifests` are further documents, each after a line `---`.
    pub(crate) fn new(script: &str, manifests: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.agents()).unwrap();
        folder.write("agents/agents.yaml", &format!("{MODEL}{AGENT}{manifests}"));
        folder.write("agents/model.script.yaml", script);
        folder
    }

    /// A file `tools.json` with definitions of these tools.
    pub(crate) fn with_tools(self, names: &[&str]) -> Self {
        let definition = |name: &&str| json!({ "name": name, "description": "A tool", "parameters": { "type": "object", "properties": {} } });
        let tools: Vec<_> = names.iter().map(definition).collect();
        self.write("tools.json", &json!(tools).to_string());
        self
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn agents(&self) -> PathBuf {
        self.path().join("agents")
    }

    pub(crate) async fn serve(&self) -> Server {
        Server::start_with(&self.agents()).await
    }
}
