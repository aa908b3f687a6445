//! Agents, models, tools and the rest of ARK's kinds, in ARK's words: as YAML files, or sent by clients.
//!
//! [`load`] reads whole directories and either accepts all of it or reports every fault, each with its file, line and
//! column. An unknown field is a fault: ignoring it would run something other than what was written. Secrets are not
//! read here, only named. Manifests that clients store are read by the same code, through a [`Library`]; there, unknown
//! fields are warnings and references may be unresolved.
//!
//! Limits of an agent are annotations (`bosun.dev/query-timeout: 2m`), since ARK's own definition of an Agent refuses
//! fields that it does not know, and the same files should work with both.

mod a2a_server;
mod agent;
mod agent_tool;
mod announced;
mod config_map;
mod document;
mod endpoint;
mod evaluator;
mod files;
mod http_tool;
mod library;
mod mcp_server;
mod memory;
mod model;
mod parameter;
mod reference;
mod team;
mod tool;
mod value;

use std::{
    collections::{BTreeMap, HashMap, HashSet, btree_map},
    path::{Path, PathBuf},
    sync::Arc,
};

use bosun_core::{Namespace, Tool, query::TargetKind, tool::BindingKind};
use bosun_engine::{
    Agent, Registry,
    registry::{AgentTool, DescribedMemory, Team},
    resource::{Resource, ResourceOrigin},
    runner::ResultFilter,
    tool_server::is_tool_of,
};
use bosun_reading::{Fault, Faults, Node, Report, Syntax, Warning, yaml};

use self::{
    agent::AgentDraft,
    document::{Document, LocatedManifest},
    mcp_server::McpServerDraft,
    model::ModelDraft,
    reference::Referrer,
    team::TeamDraft,
    tool::ToolDraft,
};
use crate::{
    model::{remote::Connections, scripted::Script},
    runner::{
        builtin::Builtins,
        functions::{FilteringRunner, JqProcesses},
        http::HttpRunner,
    },
    secret::{Secrets, binding::Grants},
};

pub use a2a_server::A2aServerManifest;
pub use config_map::ConfigMap;
pub use endpoint::EndpointHeader;
pub use library::{Files, Library};
pub use mcp_server::{
    ElicitationPolicy, McpAuthorization, McpCommand, McpEndpoint, McpServerManifest, McpTransport, NO_SSE, PinPolicy,
    SessionSharing,
};
pub use model::{ModelManifest, ModelProvider};

/// The version of ARK's definitions that is read.
pub const API_VERSION: &str = "ark.mckinsey.com/v1alpha1";

/// Everything that the files of a server describe, checked and consistent.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    pub agents: Vec<Agent>,
    pub models: Vec<ModelManifest>,
    /// Declared tools, and the builtin ones that agents use without declaring them.
    pub tools: Vec<(Namespace, Tool)>,
    pub memories: Vec<DescribedMemory>,
    pub config_maps: Vec<ConfigMap>,
    pub mcp_servers: Vec<McpServerManifest>,
    pub a2a_servers: Vec<A2aServerManifest>,
    pub teams: Vec<Team>,
    /// All of them, as they were written.
    pub resources: Vec<Resource>,
}

/// Reads every `*.yaml` and `*.yml` file of `directories` and of the directories in them.
///
/// # Errors
/// With everything that is wrong, if anything is.
pub fn load(directories: &[PathBuf], builtins: &Builtins) -> Result<Manifests, Faults> {
    review(directories, builtins, Vec::new()).0
}

/// The files that [`load`] reads, including the scripts of models next to them.
#[must_use]
pub fn find(directories: &[PathBuf]) -> Vec<PathBuf> {
    files::find(directories, &mut Vec::new())
}

/// Like [`load`], with the tools of a collection, which agents of the default namespace may name; a tool that a manifest
/// declares takes precedence over one of the collection. Also returns, whether or not there are faults, a warning for
/// each field and each valid document that has no effect in this version.
pub fn review(
    directories: &[PathBuf],
    builtins: &Builtins,
    collection: Vec<CollectedTool>,
) -> (Result<Manifests, Faults>, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut parsed = Vec::new();
    for file in files::find(directories, &mut faults) {
        match files::read(&file).and_then(|text| yaml::parse(&file, &text)) {
            Ok(documents) => parsed.push((file, documents)),
            Err(found) => faults.extend(found),
        }
    }
    // A script may be in the same directory as the manifest that names it, but is not a manifest.
    let scripts: HashSet<_> = parsed
        .iter()
        .flat_map(|(file, documents)| documents.iter().filter_map(|document| model::named_script(file, document)))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let is_script = |file: &Path| file.canonicalize().is_ok_and(|path| scripts.contains(&path));
    faults.retain(|fault| !is_script(&fault.file));
    parsed.retain(|(file, _)| !is_script(file));
    if !directories.is_empty() && faults.is_empty() && parsed.iter().all(|(_, documents)| documents.is_empty()) {
        return (Err(files::nothing_found(directories)), Vec::new());
    }

    let mut drafts = ManifestDrafts { collection, ..ManifestDrafts::default() };
    let mut warnings = Vec::new();
    for (file, documents) in &parsed {
        for document in documents {
            let report = Report::of_file(file, Syntax::Yaml);
            drafts.read_document(&report, document, builtins);
            let placed = |warning: Warning| {
                Fault::of_file(file, warning.code, warning.message).at(document.place_at(&warning.path))
            };
            warnings.extend(report.take_warnings().into_iter().map(placed));
            faults.extend(report.into_faults());
        }
    }
    warnings.extend(drafts.resources.iter().filter_map(not_served));
    (drafts.resolve(builtins, faults), warnings)
}

/// A tool of the operator that no manifest declares.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectedTool {
    pub tool: Tool,
    pub origin: ResourceOrigin,
}

/// The documents read so far; references are not resolved yet.
#[derive(Debug, Default)]
struct ManifestDrafts {
    agents: Vec<LocatedManifest<AgentDraft>>,
    models: Vec<LocatedManifest<ModelDraft>>,
    tools: Vec<LocatedManifest<ToolDraft>>,
    memories: Vec<LocatedManifest<DescribedMemory>>,
    config_maps: Vec<LocatedManifest<ConfigMap>>,
    mcp_servers: Vec<LocatedManifest<McpServerDraft>>,
    a2a_servers: Vec<LocatedManifest<A2aServerManifest>>,
    teams: Vec<LocatedManifest<TeamDraft>>,
    /// Evaluators, of which only the references are kept.
    evaluators: Vec<LocatedManifest<Referrer>>,
    resources: Vec<LocatedManifest<Resource>>,
    collection: Vec<CollectedTool>,
    /// Scripts by path, since several models may play one; `None` for a faulty one.
    scripts: HashMap<PathBuf, Option<Arc<Script>>>,
    /// Documents that are faulty but have a name, so that references to them are not faults as well.
    faulty: HashSet<(&'static str, Namespace, String)>,
}

impl ManifestDrafts {
    fn read_document(&mut self, report: &Report, node: &Node, builtins: &Builtins) {
        let mut described = None;
        document::read(report, node, |kind, metadata, fields| {
            match kind {
                Document::Agent => self.agents.extend(agent::read(&metadata, fields)),
                Document::Model => self.models.extend(model::read(&metadata, fields, &mut self.scripts)),
                Document::Tool => self.tools.extend(tool::read(&metadata, fields, builtins)),
                Document::Memory => self.memories.extend(memory::read(&metadata, fields)),
                Document::Team => self.teams.extend(team::read(&metadata, fields)),
                Document::Evaluator => self.evaluators.extend(evaluator::read(&metadata, fields)),
                Document::McpServer => self.mcp_servers.extend(mcp_server::read(&metadata, fields)),
                Document::A2aServer => self.a2a_servers.extend(a2a_server::read(&metadata, fields)),
                Document::ConfigMap => self.config_maps.push(config_map::read(&metadata, fields)),
                // No document is of this kind.
                Document::Namespace => {}
            }
            let manifest = document::to_manifest(kind, &metadata, node);
            let resource = Resource {
                needs: reference::needs(&manifest),
                not_served: reference::not_served(&manifest),
                manifest,
                origin: ResourceOrigin::File(report.file().to_owned()),
                faults: Vec::new(),
                hides_stored: false,
            };
            described = Some(metadata.located(fields, resource));
        });
        let Some(described) = described else { return };
        if report.is_sound() {
            self.resources.push(described);
        } else {
            let key = described.value.manifest.key;
            self.faulty.insert((key.kind.as_str(), key.namespace, key.name));
        }
    }

    /// Resolves the references between the documents.
    fn resolve(self, builtins: &Builtins, mut faults: Vec<Fault>) -> Result<Manifests, Faults> {
        let Self {
            agents,
            models,
            tools,
            memories,
            config_maps,
            mcp_servers,
            a2a_servers,
            teams,
            evaluators,
            resources,
            collection,
            faulty,
            ..
        } = self;
        let mut agents =
            unique(agents, Document::Agent, |draft| (&draft.agent.namespace, &draft.agent.name), &mut faults);
        let models = unique(models, Document::Model, |draft| (&draft.model.namespace, &draft.model.name), &mut faults);
        let mut tools = unique(tools, Document::Tool, |draft| (&draft.namespace, &draft.tool.name), &mut faults);
        let memories = unique(memories, Document::Memory, |memory| (&memory.namespace, &memory.name), &mut faults);
        let config_maps = unique(config_maps, Document::ConfigMap, |map| (&map.namespace, &map.name), &mut faults);
        let mcp_servers = unique(
            mcp_servers,
            Document::McpServer,
            |draft| (&draft.server.namespace, &draft.server.name),
            &mut faults,
        );
        let a2a_servers =
            unique(a2a_servers, Document::A2aServer, |server| (&server.namespace, &server.name), &mut faults);
        let teams = unique(teams, Document::Team, |draft| (&draft.team.namespace, &draft.team.name), &mut faults);
        let mut referrers: Vec<_> = teams.iter().map(|draft| draft.map(TeamDraft::referrer)).collect();
        referrers.extend(unique(evaluators, Document::Evaluator, |draft| (&draft.namespace, &draft.name), &mut faults));
        referrers.extend(mcp_servers.iter().map(|draft| draft.map(McpServerDraft::referrer)));
        referrers.extend(agents.iter().map(|draft| draft.map(AgentDraft::referrer)));
        let config_maps = config_maps.into_iter().map(|located| located.value);
        let config_maps: BTreeMap<_, _> =
            config_maps.map(|map| ((map.namespace.clone(), map.name.clone()), map)).collect();
        for draft in &mut tools {
            faults.extend(tool::resolve_settings(draft, &config_maps));
        }
        referrers.extend(tools.iter().map(|draft| draft.map(ToolDraft::referrer)));
        let tools = tools.into_iter().map(|located| located.value);
        let mut tools: BTreeMap<_, _> =
            tools.map(|draft| ((draft.namespace, draft.tool.name.clone()), draft.tool)).collect();
        let mut collected = Vec::new();
        for CollectedTool { tool, origin } in collection {
            if let btree_map::Entry::Vacant(free) = tools.entry((Namespace::default(), tool.name.clone())) {
                collected.push(library::describe(&tool, origin));
                free.insert(tool);
            }
        }
        let is_faulty = |kind: Document, namespace: &Namespace, name: &str| {
            faulty.contains(&(kind.as_str(), namespace.clone(), name.to_owned()))
        };
        faults.extend(model::check_fallbacks(&models, is_faulty));
        let models: Vec<_> = models.into_iter().map(|located| located.value.model).collect();
        let mcp_servers: Vec<_> = mcp_servers.into_iter().map(|located| located.value.server).collect();
        let a2a_servers: Vec<_> = a2a_servers.into_iter().map(|located| located.value).collect();
        // The tools of a server are known only once it is connected.
        let is_announced = |namespace: &Namespace, tool: &str| {
            let of_mcp = mcp_servers.iter().map(|server| (&server.namespace, &server.name));
            let of_a2a = a2a_servers.iter().map(|server| (&server.namespace, &server.name));
            let is_server = |kind| kind == Document::McpServer.as_str() || kind == Document::A2aServer.as_str();
            let invalid = faulty.iter().filter(|(kind, ..)| is_server(*kind)).map(|(_, owner, name)| (owner, name));
            let mut servers = of_mcp.chain(of_a2a).chain(invalid);
            servers.any(|(owner, name)| owner == namespace && is_tool_of(name, tool))
        };
        let is_described = |kind: Document, namespace: &Namespace, name: &str| {
            let key = bosun_engine::resource::ResourceKey::new(kind, namespace.clone(), name);
            resources.iter().any(|resource| resource.value.manifest.key == key)
        };
        for draft in &mut agents {
            agent::resolve_lc_names(draft, &tools);
            faults.extend(agent::check_model(draft, &models, is_faulty));
            let may_come = |entry: &AgentTool, namespace: &Namespace| {
                let tool = entry.tool();
                let asked = match entry.asks {
                    Some(TargetKind::Agent) => Some(Document::Agent),
                    Some(TargetKind::Team) => Some(Document::Team),
                    _ => None,
                };
                let is_asked =
                    asked.is_some_and(|kind| is_described(kind, namespace, tool) || is_faulty(kind, namespace, tool));
                is_asked || is_faulty(Document::Tool, namespace, tool) || is_announced(namespace, tool)
            };
            faults.extend(agent::check_tools(draft, &mut tools, builtins, may_come));
            faults.extend(agent::resolve_parameters(draft, &config_maps));
        }
        let described: HashSet<_> = resources.iter().map(|resource| &resource.value.manifest.key).collect();
        let exists = |kind: Document, namespace: &Namespace, name: &str| {
            let key = bosun_engine::resource::ResourceKey::new(kind, namespace.clone(), name);
            described.contains(&key) || is_faulty(kind, namespace, name)
        };
        faults.extend(reference::check(&referrers, exists));
        let manifests = Manifests {
            agents: agents.into_iter().map(|located| located.value.agent).collect(),
            models,
            tools: tools.into_iter().map(|((namespace, _), tool)| (namespace, tool)).collect(),
            memories: memories.into_iter().map(|located| located.value).collect(),
            config_maps: config_maps.into_values().collect(),
            mcp_servers,
            a2a_servers,
            teams: teams.into_iter().map(|located| located.value.team).collect(),
            resources: resources.into_iter().map(|located| located.value).chain(collected).collect(),
        };
        Faults::none_or(faults, manifests)
    }
}

/// The warning for a resource that has no effect in this version.
fn not_served(resource: &LocatedManifest<Resource>) -> Option<Fault> {
    let message = resource.value.not_served.clone()?;
    let fault = Fault::of_file(&resource.file, "not_served", message).at(resource.place);
    Some(fault.hint("it is checked, and can be referred to"))
}

impl Manifests {
    /// The engine's registry: agents and tools as described, models ready to be called.
    #[must_use]
    pub fn build(self, secrets: &Arc<Secrets>, builtins: Arc<Builtins>) -> Registry {
        self.build_with(secrets, builtins, &Arc::default(), &Arc::default(), &Arc::default())
    }

    /// The manifests of one namespace.
    fn of_namespace(&self, namespace: &Namespace) -> Self {
        fn of<T: Clone>(all: &[T], is_in_it: impl Fn(&T) -> bool) -> Vec<T> {
            all.iter().filter(|one| is_in_it(one)).cloned().collect()
        }
        Self {
            agents: of(&self.agents, |agent| agent.namespace == *namespace),
            models: of(&self.models, |model| model.namespace == *namespace),
            tools: of(&self.tools, |(owner, _)| owner == namespace),
            memories: of(&self.memories, |memory| memory.namespace == *namespace),
            config_maps: of(&self.config_maps, |map| map.namespace == *namespace),
            mcp_servers: of(&self.mcp_servers, |server| server.namespace == *namespace),
            a2a_servers: of(&self.a2a_servers, |server| server.namespace == *namespace),
            teams: of(&self.teams, |team| team.namespace == *namespace),
            resources: of(&self.resources, |resource| resource.manifest.key.namespace == *namespace),
        }
    }

    fn build_with(
        self,
        secrets: &Arc<Secrets>,
        builtins: Arc<Builtins>,
        grants: &Arc<Grants>,
        connections: &Arc<Connections>,
        filters: &Arc<JqProcesses>,
    ) -> Registry {
        let mut registry = Registry::default();
        for agent in self.agents {
            registry.add_agent(agent);
        }
        for (namespace, tool) in self.tools {
            registry.add_tool(namespace, tool);
        }
        for (namespace, name, model) in model::build(&self.models, secrets, connections) {
            registry.add_model(namespace, name, model);
        }
        for memory in self.memories {
            registry.add_memory(memory);
        }
        for team in self.teams {
            registry.add_team(team);
        }
        for resource in self.resources {
            registry.add_resource(resource);
        }
        for tool in builtins.tools() {
            registry.add_builtin_tool(library::describe(&tool, ResourceOrigin::Builtin));
        }
        let http = HttpRunner::new(Arc::clone(secrets), Arc::clone(grants), Arc::clone(&connections.pool));
        registry.set_runner(BindingKind::Builtin, FilteringRunner::around(builtins, filters));
        registry.set_runner(BindingKind::Http, FilteringRunner::around(Arc::new(http), filters));
        registry.set_result_filter(Arc::clone(filters) as Arc<dyn ResultFilter>);
        registry
    }
}

/// The documents with unique names; a second one of the same name is a fault.
fn unique<T>(
    documents: Vec<LocatedManifest<T>>,
    kind: Document,
    identity: impl Fn(&T) -> (&Namespace, &String),
    faults: &mut Vec<Fault>,
) -> Vec<LocatedManifest<T>> {
    let mut kept: Vec<LocatedManifest<T>> = Vec::new();
    for document in documents {
        let (namespace, name) = identity(&document.value);
        let Some(earlier) = kept.iter().find(|earlier| identity(&earlier.value) == (namespace, name)) else {
            kept.push(document);
            continue;
        };
        let (file, place) = (earlier.file.display(), earlier.place);
        let message = format!("{} `{name}` exists twice in namespace `{namespace}`", kind.as_str());
        let fault = Fault::of_file(&document.file, "duplicate_name", message).at(document.place);
        faults.push(fault.hint(format!("the other one is in {file}:{place}")));
    }
    kept
}

#[cfg(test)]
mod described;
#[cfg(test)]
mod tests;
