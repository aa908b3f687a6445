//! The script of the model in the proofs, and the requests that use it.
//!
//! Every scenario ends with a sentence made of the results that the model was shown, in the order in
//! which it asked for them, so the answer of a query shows what the model has seen.

use std::{fs, path::Path};

use serde_json::{Value, json};

/// What a query is about; its input is the name of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// One outside call.
    Outside,
    /// The same without a pause anywhere.
    Quick,
    /// Two outside calls at once.
    Pair,
    /// An outside call, one that must not be repeated and one that may be, all at once.
    Hybrid,
    /// Two turns of inside calls.
    Inside,
    /// One inside call that must not be repeated.
    Once,
    /// One inside call that must not be repeated, and continues after its server has died.
    Pending,
    /// One inside call that must not be repeated, and that a person has to approve, next to one that runs at once.
    Approval,
    /// An agent that asks an agent that asks an agent, with a call that must not be repeated on the first level and on
    /// the third, and an outside call on the third.
    Tree,
    /// An agent that asks an agent, each with a call that must not be repeated and that a person has to approve, and an
    /// outside call on the second level.
    GuardedTree,
    /// A team of an agent and a team whose selector chooses an agent: an outside call and one that continues elsewhere in
    /// the first, an approval in the second.
    Team,
    /// An answer at once.
    Text,
    /// This many outside calls at once, from two to ten.
    Several(u32),
    /// An outside call between two answers that are written word by word.
    Words,
    /// An answer that takes its time.
    Slow,
    /// An answer that takes an hour: no test waits for it.
    Endless,
}

impl Scenario {
    pub(crate) fn input(self) -> String {
        match self {
            Self::Outside => "outside".into(),
            Self::Quick => "quick".into(),
            Self::Pair => "pair".into(),
            Self::Hybrid => "hybrid".into(),
            Self::Inside => "inside".into(),
            Self::Once => "once".into(),
            Self::Pending => "pending".into(),
            Self::Approval => "approval".into(),
            Self::Tree => "tree".into(),
            Self::GuardedTree => "guarded-tree".into(),
            Self::Team => "team".into(),
            Self::Text => "text".into(),
            Self::Several(calls) => format!("several-{calls}"),
            Self::Words => "words".into(),
            Self::Slow => "slow".into(),
            Self::Endless => "endless".into(),
        }
    }
}

/// The body that creates a query.
pub(crate) fn query(name: &str, scenario: Scenario) -> Value {
    let tool = |name: &str| {
        json!({
            "name": name,
            "description": "Looks something up where only the client can",
            "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
        })
    };
    let (kind, target) = match scenario {
        Scenario::Approval => ("agent", "guarded"),
        Scenario::Tree => ("agent", "root"),
        Scenario::GuardedTree => ("agent", "captain"),
        Scenario::Team => ("team", "crew"),
        _ => ("agent", "prover"),
    };
    json!({
        "name": name,
        "input": scenario.input(),
        "target": {"type": kind, "name": target},
        "toolSource": "hybrid",
        "externalTools": [tool("lookup"), tool("fetch")],
    })
}

/// Writes the manifests and the script into `directory`.
pub(crate) fn write(directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    fs::write(directory.join("agent.yaml"), manifests()).expect("a manifest");
    fs::write(directory.join("script.yaml"), script()).expect("a script");
}

const MODEL: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata:
  name: scripted
spec:
  provider: scripted
  config:
    scripted:
      file: script.yaml
";

/// The agents, and their tools.
const AGENTS: &[(&str, &[&str])] = &[
    ("prover", &[LEDGER, IDEMPOTENT, PENDING, "{type: built-in, name: calculator}"]),
    ("guarded", &[GUARDED, IDEMPOTENT]),
    ("root", &[LEDGER, "{type: agent, name: middle, externalTools: ['*']}"]),
    ("middle", &[IDEMPOTENT, "{type: agent, name: leaf, externalTools: [lookup]}"]),
    ("leaf", &[LEDGER]),
    ("captain", &[GUARDED, "{type: agent, name: mate, externalTools: ['*']}"]),
    ("mate", &[GUARDED, IDEMPOTENT]),
    ("scout", &[PENDING]),
    ("chooser", &[]),
];

const LEDGER: &str = "{type: built-in, name: ledger}";
const GUARDED: &str = "{type: built-in, name: ledger, approval: {required: true}}";
const IDEMPOTENT: &str = "{type: built-in, name: ledger_idempotent}";
const PENDING: &str = "{type: built-in, name: ledger_pending}";

const TEAMS: &str = "\
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata:
  name: desk
spec:
  strategy: selector
  maxTurns: 1
  selector: {agent: chooser}
  members:
    - {name: mate, type: agent}
    - {name: guarded, type: agent}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata:
  name: crew
spec:
  strategy: sequential
  members:
    - {name: scout, type: agent}
    - {name: desk, type: team}
";

fn manifests() -> String {
    let agent = |(name, tools): &(&str, &[&str])| {
        // Every model may read large results in pages.
        let tools = [*tools, &["{type: built-in, name: read_result}"]].concat().join(", ");
        format!(
            "---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\nmetadata: {{name: {name}}}\nspec: {{prompt: Prove \
             it., modelRef: {{name: scripted}}, tools: [{tools}]}}\n"
        )
    };
    MODEL.to_owned() + &AGENTS.iter().map(agent).collect::<String>() + TEAMS
}

fn script() -> String {
    let several = (2..=10).map(|calls| {
        let asked: String =
            (0..calls).map(|key| format!("          - {{tool: lookup, arguments: {{key: 'k{key}'}}}}\n")).collect();
        let shown: Vec<_> = (0..calls).map(|index| format!("{{{{ result[{index}] }}}}")).collect();
        let (input, shown) = (Scenario::Several(calls).input(), shown.join("|"));
        format!("  - when: {{exactly: {input}}}\n    turns:\n      - call:\n{asked}      - say: \"{shown}\"\n")
    });
    SCRIPT.to_owned() + &several.collect::<String>()
}

const SCRIPT: &str = "\
scenes:
  - when: {exactly: outside}
    turns:
      - delay: 1ms
        say: Let me look.
        call:
          - {tool: lookup, arguments: {key: one}}
      - delay: 1ms
        say: \"{{ result[0] }}\"
  - when: {exactly: quick}
    turns:
      - call:
          - {tool: lookup, arguments: {key: one}}
      - say: \"{{ result[0] }}\"
  - when: {exactly: pair}
    turns:
      - call:
          - {tool: lookup, arguments: {key: one}}
          - {tool: fetch, arguments: {key: two}}
      - delay: 2ms
        say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: hybrid}
    turns:
      - delay: 1ms
        call:
          - {tool: ledger, arguments: {entry: once}}
          - {tool: lookup, arguments: {key: one}}
          - {tool: ledger_idempotent, arguments: {entry: again}}
      - delay: 1ms
        say: \"{{ result[0] }}|{{ result[1] }}|{{ result[2] }}\"
  - when: {exactly: inside}
    turns:
      - delay: 2ms
        call:
          - {tool: ledger, arguments: {entry: first}}
          - {tool: ledger_idempotent, arguments: {entry: second}}
      - delay: 2ms
        call:
          - {tool: calculator, arguments: {expression: '6 * 7'}}
          - {tool: ledger, arguments: {entry: third}}
      - delay: 2ms
        say: \"{{ result[0] }}|{{ result[1] }}|{{ result[2] }}|{{ result[3] }}\"
  - when: {exactly: once}
    turns:
      - call:
          - {tool: ledger, arguments: {entry: once}}
      - say: \"{{ result[0] }}\"
  - when: {exactly: pending}
    turns:
      - call:
          - {tool: ledger_pending, arguments: {entry: later}}
      - say: \"{{ result[0] }}\"
  - when: {exactly: approval}
    turns:
      - call:
          - {tool: ledger, arguments: {entry: approved}}
          - {tool: ledger_idempotent, arguments: {entry: free}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: tree}
    turns:
      - call:
          - {tool: middle, arguments: {input: tree-middle}}
          - {tool: ledger, arguments: {entry: root}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: tree-middle}
    turns:
      - call:
          - {tool: ledger_idempotent, arguments: {entry: middle}}
          - {tool: leaf, arguments: {input: tree-leaf}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: tree-leaf}
    turns:
      - call:
          - {tool: ledger, arguments: {entry: leaf}}
          - {tool: lookup, arguments: {key: one}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: guarded-tree}
    turns:
      - call:
          - {tool: mate, arguments: {input: guarded-mate}}
          - {tool: ledger, arguments: {entry: captain}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: guarded-mate}
    turns:
      - call:
          - {tool: ledger, arguments: {entry: mate}}
          - {tool: lookup, arguments: {key: one}}
          - {tool: ledger_idempotent, arguments: {entry: free}}
      - say: \"{{ result[0] }}|{{ result[1] }}|{{ result[2] }}\"
  - when: {exactly: team}
    turns:
      - call:
          - {tool: ledger_pending, arguments: {entry: scout}}
          - {tool: lookup, arguments: {key: one}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: 'The names are'
    turns:
      - say: guarded
  - when: 'scout:'
    turns:
      - call:
          - {tool: ledger, arguments: {entry: desk}}
          - {tool: ledger_idempotent, arguments: {entry: free}}
      - say: \"{{ result[0] }}|{{ result[1] }}\"
  - when: {exactly: text}
    turns:
      - delay: 3ms
        say: Nothing to look up.
  - when: {exactly: slow}
    turns:
      - delay: 250ms
        say: There is no hurry.
  - when: {exactly: endless}
    turns:
      - delay: 1h
        say: At last.
  - when: {exactly: words}
    turns:
      - words: 1ms
        say: 'I have to look that up, which may take you a while to read — 待って.'
        call:
          - {tool: lookup, arguments: {key: one}}
          - {tool: calculator, arguments: {expression: '6 * 7'}}
      - words: 1ms
        say: 'You gave me, and I repeat it word for word as it came: {{ result[0] }}|{{ result[1] }}'
";
