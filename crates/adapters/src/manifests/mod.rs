//! Agents, models and tools as YAML files, in ARK's words.
//!
//! [`load`] reads whole directories and either understands all of it or says everything that is
//! wrong, each fault with its file, line and column. A field that nobody reads is a fault: to ignore
//! one would be to run something else than what was written. Secrets are not read here, only named.
//!
//! Limits of an agent are annotations (`bosun.dev/query-timeout: 2m`), since ARK's own definition of
//! an Agent refuses fields that it does not know, and the same files should serve both.

mod agent;
mod document;
mod files;
mod model;
mod tool;
mod value;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use bosun_core::{Namespace, Tool};
use bosun_engine::{Agent, Registry};

use self::{
    agent::AgentDraft,
    document::{Document, Located},
    model::ModelDraft,
};
use crate::{
    fault::{Fault, Faults},
    model::{remote::Connections, scripted::Script},
    runner::builtin::Builtins,
    secret::Secrets,
    yaml::{self, Node},
};

pub use model::{ModelManifest, Provider};

/// The version of ARK's definitions that is read.
pub const API_VERSION: &str = "ark.mckinsey.com/v1alpha1";

/// Everything that the files of a server describe, checked and consistent.
#[derive(Debug, Default)]
pub struct Manifests {
    pub agents: Vec<Agent>,
    pub models: Vec<ModelManifest>,
    /// Declared tools, and the builtin ones that agents use without declaring them.
    pub tools: Vec<(Namespace, Tool)>,
}

/// Reads every `*.yaml` and `*.yml` file of `directories` and of the directories in them.
///
/// # Errors
/// With everything that is wrong, if anything is.
pub fn load(directories: &[PathBuf], builtins: &Builtins) -> Result<Manifests, Faults> {
    let mut faults = Vec::new();
    let mut parsed = Vec::new();
    for file in files::find(directories, &mut faults) {
        match files::read(&file).and_then(|text| yaml::parse(&file, &text)) {
            Ok(documents) => parsed.push((file, documents)),
            Err(fault) => faults.push(fault),
        }
    }
    // A script may lie next to the manifest that names it, and is no manifest.
    let scripts: HashSet<_> = parsed
        .iter()
        .flat_map(|(file, documents)| documents.iter().filter_map(|document| model::named_script(file, document)))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let is_script = |file: &Path| file.canonicalize().is_ok_and(|path| scripts.contains(&path));
    faults.retain(|fault| !is_script(&fault.file));
    parsed.retain(|(file, _)| !is_script(file));
    if faults.is_empty() && parsed.iter().all(|(_, documents)| documents.is_empty()) {
        return Err(files::nothing_found(directories));
    }

    let mut drafts = Drafts::default();
    for (file, documents) in &parsed {
        for document in documents {
            faults.extend(drafts.read(file, document, builtins));
        }
    }
    drafts.resolve(builtins, faults)
}

/// What was read so far; references are not followed yet.
#[derive(Debug, Default)]
struct Drafts {
    agents: Vec<Located<AgentDraft>>,
    models: Vec<Located<ModelDraft>>,
    tools: Vec<Located<(Namespace, Tool)>>,
    /// Scripts by path, since several models may play one; `None` for a faulty one.
    scripts: HashMap<PathBuf, Option<Arc<Script>>>,
    /// Documents that are faulty but have a name, so that references to them are not faults as well.
    faulty: HashSet<(&'static str, Namespace, String)>,
}

impl Drafts {
    /// Reads one document and gives back what is wrong with it.
    fn read(&mut self, file: &Path, node: &Node, builtins: &Builtins) -> Vec<Fault> {
        let mut name = None;
        let faults = document::read(file, node, |kind, metadata, fields| {
            name = Some((kind.as_str(), metadata.namespace.clone(), metadata.name.clone()));
            match kind {
                Document::Agent => self.agents.extend(agent::read(&metadata, fields)),
                Document::Model => self.models.extend(model::read(&metadata, fields, &mut self.scripts)),
                Document::Tool => self.tools.extend(tool::read(&metadata, fields, builtins)),
            }
        });
        if !faults.is_empty() {
            self.faulty.extend(name);
        }
        faults
    }

    /// Follows the references between the documents.
    fn resolve(self, builtins: &Builtins, mut faults: Vec<Fault>) -> Result<Manifests, Faults> {
        let Self { agents, models, tools, faulty, .. } = self;
        let agents = unique(agents, Document::Agent, |draft| (&draft.agent.namespace, &draft.agent.name), &mut faults);
        let models = unique(models, Document::Model, |draft| (&draft.model.namespace, &draft.model.name), &mut faults);
        let tools = unique(tools, Document::Tool, |(namespace, tool)| (namespace, &tool.name), &mut faults);

        let tools = tools.into_iter().map(|located| located.value);
        let mut tools: BTreeMap<_, _> = tools.map(|(namespace, tool)| ((namespace, tool.name.clone()), tool)).collect();
        let is_faulty = |kind: Document, namespace: &Namespace, name: &str| {
            faulty.contains(&(kind.as_str(), namespace.clone(), name.to_owned()))
        };
        faults.extend(model::check_fallbacks(&models, is_faulty));
        let models: Vec<_> = models.into_iter().map(|located| located.value.model).collect();
        for draft in &agents {
            faults.extend(agent::check_model(draft, &models, is_faulty));
            faults.extend(agent::check_tools(draft, &mut tools, builtins, is_faulty));
        }
        let manifests = Manifests {
            agents: agents.into_iter().map(|located| located.value.agent).collect(),
            models,
            tools: tools.into_iter().map(|((namespace, _), tool)| (namespace, tool)).collect(),
        };
        Faults::none_or(faults, manifests)
    }
}

impl Manifests {
    /// What the engine reaches for: agents and tools as they are, models ready to be asked.
    #[must_use]
    pub fn build(self, secrets: &Arc<Secrets>, builtins: Arc<Builtins>) -> Registry {
        let connections = Arc::new(Connections::default());
        let mut registry = Registry::default();
        for agent in self.agents {
            registry.add_agent(agent);
        }
        for (namespace, tool) in self.tools {
            registry.add_tool(namespace, tool);
        }
        for (namespace, name, model) in model::build(&self.models, secrets, &connections) {
            registry.add_model(namespace, name, model);
        }
        registry.set_builtins(builtins);
        registry
    }
}

/// The documents with a name of their own; a second one of the same name is a fault.
fn unique<T>(
    documents: Vec<Located<T>>,
    kind: Document,
    identity: impl Fn(&T) -> (&Namespace, &String),
    faults: &mut Vec<Fault>,
) -> Vec<Located<T>> {
    let mut kept: Vec<Located<T>> = Vec::new();
    for document in documents {
        let (namespace, name) = identity(&document.value);
        let Some(earlier) = kept.iter().find(|earlier| identity(&earlier.value) == (namespace, name)) else {
            kept.push(document);
            continue;
        };
        let (file, place) = (earlier.file.display(), earlier.place);
        faults.push(Fault {
            message: format!("{} `{name}` exists twice in namespace `{namespace}`", kind.as_str()),
            hint: Some(format!("the other one is in {file}:{}:{}", place.line, place.column)),
            code: "duplicate_name",
            place: Some(document.place),
            file: document.file,
        });
    }
    kept
}

#[cfg(test)]
mod tests;
