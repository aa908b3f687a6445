//! Pinned definitions: what each server's tools were when they were first seen or last approved.
//!
//! A server that changes what a tool says or takes after it was trusted is an attack (OWASP MCP03, "rug pull"), and so
//! is a new tool next to the trusted ones, which defeats pins by name. The file is replaced atomically. Pins of a
//! server that is removed stay: adding it again must not approve what has changed meanwhile.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use bosun_adapters::manifests::PinPolicy;
use bosun_core::Namespace;
use bosun_engine::tool_server::DefinitionChange;
use serde::{Deserialize, Serialize};

use crate::definition::Definition;

/// The version of the file.
const VERSION: u32 = 1;

/// The approved definitions of all servers.
#[derive(Debug)]
pub(crate) struct Pins {
    /// Without one, pins last as long as the process.
    file: Option<PathBuf>,
    pinned: Mutex<Pinned>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pinned {
    version: u32,
    /// By `<namespace>/<server>`, then by the server's own name of the tool.
    servers: BTreeMap<String, BTreeMap<String, Definition>>,
}

impl Default for Pinned {
    fn default() -> Self {
        Self { version: VERSION, servers: BTreeMap::new() }
    }
}

/// The verdict on an announced definition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Accepted,
    /// Accepted, and logged for the operator.
    Noted(Vec<DefinitionChange>),
    Withheld(Vec<DefinitionChange>),
}

impl Pins {
    /// Reads the file, if there is one. A file that cannot be read is an error: an empty one would approve everything.
    pub(crate) fn open(file: Option<PathBuf>) -> io::Result<Self> {
        let pinned = match file.as_deref().map(fs::read) {
            None => Pinned::default(),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Pinned::default(),
            Some(read) => serde_json::from_slice(&read?)?,
        };
        if pinned.version != VERSION {
            return Err(io::Error::other(format!("it was written by another version ({})", pinned.version)));
        }
        Ok(Self { file, pinned: Mutex::new(pinned) })
    }

    /// Compares the definitions of a server with its pins, and pins those that are accepted.
    ///
    /// # Errors
    /// If new pins cannot be saved: then nothing is accepted that was not.
    pub(crate) fn review(
        &self,
        namespace: &Namespace,
        server: &str,
        policy: PinPolicy,
        announced: &[Definition],
    ) -> io::Result<Vec<Verdict>> {
        if policy == PinPolicy::Off {
            return Ok(vec![Verdict::Accepted; announced.len()]);
        }
        let key = format!("{namespace}/{server}");
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pinned.servers.get(&key);
        let verdicts: Vec<Verdict> = announced.iter().map(|one| judge(policy, known, one)).collect();
        let is_accepted = |verdict: &Verdict| !matches!(verdict, Verdict::Withheld(_));
        let unpinned = announced.iter().zip(&verdicts).filter(|(one, verdict)| {
            is_accepted(verdict) && known.and_then(|known| known.get(&one.name)) != Some(*one)
        });
        let unpinned: Vec<Definition> = unpinned.map(|(one, _)| one.clone()).collect();
        if !unpinned.is_empty() {
            self.pin(&mut pinned, &key, unpinned)?;
        }
        Ok(verdicts)
    }

    /// Makes these the approved definitions of their tools.
    pub(crate) fn approve(&self, namespace: &Namespace, server: &str, approved: Vec<Definition>) -> io::Result<()> {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        self.pin(&mut pinned, &format!("{namespace}/{server}"), approved)
    }

    fn pin(&self, pinned: &mut Pinned, key: &str, definitions: Vec<Definition>) -> io::Result<()> {
        let mut next = pinned.clone();
        let tools = next.servers.entry(key.to_owned()).or_default();
        tools.extend(definitions.into_iter().map(|definition| (definition.name.clone(), definition)));
        if let Some(file) = &self.file {
            replace(file, &serde_json::to_vec_pretty(&next)?)?;
        }
        *pinned = next;
        Ok(())
    }
}

fn judge(policy: PinPolicy, known: Option<&BTreeMap<String, Definition>>, announced: &Definition) -> Verdict {
    // A server that is seen for the first time is trusted as it is: an operator has just added it.
    let Some(known) = known else { return Verdict::Accepted };
    let changes = match known.get(&announced.name) {
        Some(approved) => announced.changes_from(approved),
        None => announced.as_new(),
    };
    let is_text = |change: &DefinitionChange| matches!(change.field.as_str(), "name" | "title" | "description");
    match policy {
        _ if changes.is_empty() => Verdict::Accepted,
        PinPolicy::Strict => Verdict::Withheld(changes),
        PinPolicy::WarnOfTexts if !changes.iter().all(is_text) => Verdict::Withheld(changes),
        PinPolicy::WarnOfTexts | PinPolicy::Warn | PinPolicy::Off => Verdict::Noted(changes),
    }
}

/// Replaces a file as a whole: after a crash it has the old content or the new.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let draft = file.with_extension("draft");
    let mut written = File::create(&draft)?;
    written.write_all(content)?;
    written.sync_all()?;
    fs::rename(&draft, file)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition(name: &str, description: &str, schema: Value) -> Definition {
        Definition::read(&json!({"name": name, "description": description, "inputSchema": schema})).unwrap()
    }

    fn verdict(pins: &Pins, policy: PinPolicy, announced: &Definition) -> &'static str {
        let found = pins.review(&Namespace::default(), "s", policy, std::slice::from_ref(announced)).unwrap();
        match &found[..] {
            [Verdict::Accepted] => "accepted",
            [Verdict::Noted(_)] => "noted",
            [Verdict::Withheld(_)] => "withheld",
            _ => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_policy_says_what_a_change_does() {
        let first = definition("a", "d", json!({"type": "object"}));
        let text = definition("a", "other", json!({"type": "object"}));
        let schema = definition("a", "d", json!({"type": "object", "required": ["x"]}));
        let new = definition("b", "d", json!({"type": "object"}));
        for (policy, expect) in [
            (PinPolicy::Strict, ["accepted", "withheld", "withheld", "withheld"]),
            (PinPolicy::WarnOfTexts, ["accepted", "noted", "withheld", "noted"]),
            (PinPolicy::Warn, ["accepted", "noted", "noted", "noted"]),
            (PinPolicy::Off, ["accepted", "accepted", "accepted", "accepted"]),
        ] {
            let found = [&first, &text, &schema, &new].map(|changed| {
                let pins = Pins::open(None).unwrap();
                assert_eq!(verdict(&pins, policy, &first), "accepted");
                verdict(&pins, policy, changed)
            });
            assert_eq!(found, expect, "{policy:?}");
        }
    }

    #[test]
    fn what_is_withheld_stays_withheld_until_it_is_approved_and_what_is_noted_is_noted_once() {
        let pins = Pins::open(None).unwrap();
        let (first, changed) = (definition("a", "d", json!({})), definition("a", "e", json!({})));
        assert_eq!(verdict(&pins, PinPolicy::Strict, &first), "accepted");
        for _ in 0..2 {
            assert_eq!(verdict(&pins, PinPolicy::Strict, &changed), "withheld");
        }
        pins.approve(&Namespace::default(), "s", vec![changed.clone()]).unwrap();
        assert_eq!(verdict(&pins, PinPolicy::Strict, &changed), "accepted");
        assert_eq!(verdict(&pins, PinPolicy::Strict, &first), "withheld");
        assert_eq!(verdict(&pins, PinPolicy::Warn, &first), "noted");
        assert_eq!(verdict(&pins, PinPolicy::Warn, &first), "accepted");
    }

    #[test]
    fn pins_survive_a_restart_and_a_damaged_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pins.json");
        let (first, changed) = (definition("a", "d", json!({})), definition("a", "e", json!({})));
        let pins = Pins::open(Some(file.clone())).unwrap();
        assert_eq!(verdict(&pins, PinPolicy::Strict, &first), "accepted");
        let pins = Pins::open(Some(file.clone())).unwrap();
        assert_eq!(verdict(&pins, PinPolicy::Strict, &changed), "withheld");
        fs::write(&file, b"{\"version\": 1, \"ser").unwrap();
        assert!(Pins::open(Some(file.clone())).is_err());
        fs::write(&file, b"{\"version\": 2, \"servers\": {}}").unwrap();
        assert!(Pins::open(Some(file)).is_err());
    }
}
