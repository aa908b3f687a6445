//! Thousands of broken configurations, one after the other.

use std::path::{Path, PathBuf};

use bosun_adapters::{address::Reachable, secret::Secrets};
use bosun_engine::{EngineSettings, Registry, SystemClock, blob::MemoryBlobs, memory::MemoryStore, resource::Assemble};

use super::*;

const MANIFEST: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata:
  name: default
spec:
  provider: openai
  model:
    value: gpt-4o-mini
  config:
    openai:
      baseUrl:
        value: https://api.openai.com/v1
      apiKey:
        valueFrom:
          secretKeyRef:
            name: openai
            key: api-key
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: tones
data:
  tone: friendly
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata:
  name: search
  labels:
    team: research
spec:
  type: external
  description: Searches where the client is
  inputSchema:
    type: object
    properties:
      text:
        type: string
    required: [text]
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata:
  name: weather
spec:
  type: http
  description: The weather of a city
  annotations:
    readOnlyHint: true
  http:
    url: https://weather.example.com/{city}
    method: GET
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata:
  name: assistant
  annotations:
    bosun.dev/query-timeout: 2m
spec:
  description: Helps
  prompt: You are a {{.tone}} assistant.
  parameters:
    - name: tone
      valueFrom:
        configMapKeyRef:
          name: tones
          key: tone
  tools:
    - type: external
      name: search
    - type: http
      name: weather
    - type: built-in
      name: calculator
";
const TOOL_CONFIG: &str = r#"{
  // As it is printed in documents: with comments.
  "tools": [
    {
      "name": "fetch_emails",
      "description": "Fetches emails",
      "lc_name": "FetchEmails",
      "category": "Mail",
      "providerConfigKey": "google-mail",
      "source": "action",
      "action": "fetch-emails",
      "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}}
    },
    {
      "name": "ask_user",
      "description": "Asks the user",
      "parameters": {
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"]
      }
    }
  ]
}
"#;
const ROUNDS: u64 = 2000;

/// A small generator of numbers: every run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap()
    }
}

/// One change: of a byte, a line, or the order of lines.
fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let line = random.below(lines.len());
    match random.below(6) {
        0 => drop(lines.remove(line)),
        1 => lines.insert(line, lines[line].clone()),
        2 => {
            let other = random.below(lines.len());
            lines.swap(line, other);
        }
        3 if !lines[line].is_empty() => {
            let at = random.below(lines[line].len());
            lines[line][at] = u8::try_from(random.below(256)).unwrap();
        }
        4 if !lines[line].is_empty() => {
            let at = random.below(lines[line].len());
            lines[line].remove(at);
        }
        // A comment or a letter: often still valid.
        _ => lines[line].extend_from_slice([&b" # x"[..], b"x", b" "][random.below(3)]),
    }
    lines.join(&b'\n')
}

fn builtins() -> Arc<Builtins> {
    Arc::new(Builtins::new(Arc::new(SystemClock)))
}

fn library(files: Manifests) -> Library {
    Library::new(files, Arc::new(Secrets::default()), Reachable::default(), builtins())
}

/// What a server reads: a folder of manifests, and a file of tools.
#[derive(Clone, Debug)]
struct Configured {
    manifests: PathBuf,
    tools: PathBuf,
}

impl Configured {
    fn write(directory: &Path) -> Self {
        let configured = Self { manifests: directory.join("manifests"), tools: directory.join("tool-config.json") };
        std::fs::create_dir(&configured.manifests).unwrap();
        std::fs::write(configured.manifest(), MANIFEST).unwrap();
        std::fs::write(&configured.tools, TOOL_CONFIG).unwrap();
        configured
    }

    fn manifest(&self) -> PathBuf {
        self.manifests.join("assistant.yaml")
    }

    fn sources(&self) -> Sources {
        Sources::new(vec![self.manifests.clone()], vec![ToolSource::Path(self.tools.clone())], builtins())
    }
}

/// The registry of a server that starts now; `None` if it would not start.
async fn started_now(sources: &mut Sources) -> Option<Registry> {
    let (files, _) = sources.open().await.ok()?;
    Some(library(files).assemble(&[]))
}

/// Everything of a registry that a query reads.
fn agents(registry: &Registry) -> Vec<String> {
    let namespaces = registry.namespaces();
    namespaces.iter().flat_map(|namespace| registry.agents(namespace).map(|agent| format!("{agent:?}"))).collect()
}

/// Mutates one of the files many times, and reloads after each; the other stays as it is. A faulty manifest changes
/// nothing at all, and a faulty source of tools keeps its own and hides no change of the others.
async fn check(mutated: impl Fn(&Configured) -> PathBuf, original: &str, swaps_if_faulty: bool) {
    let directory = tempfile::tempdir().unwrap();
    let configured = Configured::write(directory.path());
    let file = mutated(&configured);
    let mut sources = configured.sources();
    let (files, opened) = sources.open().await.unwrap();
    let library = Arc::new(library(files));
    let assembler = Arc::clone(&library) as Arc<dyn Assemble>;
    let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::new()));
    let engine =
        Engine::start(store, blobs, assembler, Arc::new(SystemClock), EngineSettings::default()).await.unwrap();
    let reloader = Reloader::new(sources, opened, library, engine.clone());

    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut sources = configured.sources();
    let mut last_good = started_now(&mut sources).await.unwrap();
    let mut text = original.as_bytes().to_vec();
    let (mut good, mut bad) = (0, 0);
    for round in 0..ROUNDS {
        // Changes accumulate, so that some texts are far from the first.
        if random.below(2) == 0 {
            text = original.as_bytes().to_vec();
        }
        text = mutate(&text, &mut random);
        std::fs::write(&file, &text).unwrap();
        let before = engine.registry().generation();
        let status = reloader.reload(Actor::local()).await.unwrap();
        let shown = String::from_utf8_lossy(&text);
        match started_now(&mut sources).await {
            Some(registry) => {
                good += 1;
                assert!(status.faults.is_empty(), "round {round}: {:?}\n{shown}", status.faults);
                last_good = registry;
            }
            None => {
                bad += 1;
                assert!(!status.faults.is_empty(), "round {round}\n{shown}");
                let is_swapped = engine.registry().generation() != before;
                assert_eq!(is_swapped, swaps_if_faulty, "round {round}\n{shown}");
            }
        }
        let registry = engine.registry();
        assert_eq!(registry.diff(&last_good), ResourceDiff::default(), "round {round}\n{shown}");
        assert_eq!(agents(&registry), agents(&last_good), "round {round}\n{shown}");
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
}

#[tokio::test]
async fn a_mutated_manifest_never_leaves_a_broken_catalogue() {
    check(Configured::manifest, MANIFEST, false).await;
}

#[tokio::test]
async fn a_mutated_tool_config_never_leaves_a_broken_catalogue() {
    check(|configured| configured.tools.clone(), TOOL_CONFIG, true).await;
}
