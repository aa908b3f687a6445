//! All manifests of a server: those in files, and those that clients have stored.
//!
//! The files are read when the server starts and whenever they are reloaded ([`Library::replace`]), and must be valid as
//! a whole. Stored manifests are read by the same code whenever one changes, and a registry is built of both. A file takes
//! precedence over a stored manifest of the same name, and is marked as hiding it. A stored manifest may refer to
//! resources that do not exist (yet), as in a cluster, but sends a secret only to the destinations that
//! [`binding`](crate::secret::binding) allows, and calls only what is [`Reachable`].

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bosun_core::{Binding, Namespace, Tool, fault::FaultList, tool::BindingKind};
use bosun_engine::{
    Clock, Registry, Runner,
    agent_server::AgentServers,
    registry::AgentTool,
    resource::{
        Assemble, CheckedManifest, Manifest, ManifestBody, Resource, ResourceKey, ResourceKind, ResourceOrigin,
        StoredResource,
    },
    user_connections::UserConnections,
};
use bosun_reading::{Fault, Report};
use serde_json::{Map, Value, json};

use super::{
    Connections, ManifestDrafts, Manifests, a2a_server, agent, announced, document, http_tool, mcp_server, model,
    reference,
    tool::{self, ToolDraft},
};
use crate::{
    address::Reachable,
    mcp::McpHost,
    outbound::Pool,
    runner::{
        a2a::A2aServers,
        builtin::Builtins,
        functions::{FilteringRunner, JqProcesses},
        nango::{GrantedNango, NangoRunner, NangoSettings, ProviderGrants},
    },
    secret::{Secrets, binding::Grants},
};

/// The manifests of a server, and what is needed to build a registry of them.
#[derive(Debug)]
pub struct Library {
    files: ArcSwap<Files>,
    builtins: Arc<Builtins>,
    secrets: Arc<Secrets>,
    /// Shared by successive registries, with the health of the APIs behind them.
    connections: Arc<Connections>,
    /// The MCP host; `None` in a build without the client of MCP.
    host: Option<Arc<dyn McpHost>>,
    /// The A2A servers; `None` in a command that asks no agents.
    a2a: Option<Arc<A2aServers>>,
    /// The runner of tools of Nango; `None` if the server has no settings for it.
    nango: Option<Arc<NangoRunner>>,
    filters: Arc<JqProcesses>,
}

/// The manifests in files, and the grants that follow from them. Swapped as a whole.
#[derive(Debug)]
pub struct Files {
    manifests: Manifests,
    /// The destinations to which the files send secrets; stored manifests may send them there too.
    grants: Arc<Grants>,
    /// The integrations of Nango that the files use; stored tools may use them too.
    providers: Arc<ProviderGrants>,
}

impl Files {
    fn new(manifests: Manifests) -> Self {
        let mut grants = Grants::default();
        model::add_grants(&manifests.models, &mut grants);
        http_tool::add_grants(&manifests.tools, &mut grants);
        mcp_server::add_grants(&manifests.mcp_servers, &mut grants);
        a2a_server::add_grants(&manifests.a2a_servers, &mut grants);
        let providers = Arc::new(ProviderGrants::of(&manifests.tools));
        Self { manifests, grants: Arc::new(grants), providers }
    }
}

impl Library {
    /// `reachable` is what the models and tools that clients store may call.
    #[must_use]
    pub fn new(files: Manifests, secrets: Arc<Secrets>, reachable: Reachable, builtins: Arc<Builtins>) -> Self {
        let connections = Arc::new(Connections::new(Arc::new(Pool::new(reachable))));
        Self {
            files: ArcSwap::from_pointee(Files::new(files)),
            builtins,
            secrets,
            connections,
            host: None,
            a2a: None,
            nango: None,
            filters: Arc::default(),
        }
    }

    /// Replaces the manifests in files, and returns the previous ones. The change takes effect with the next registry.
    pub fn replace(&self, files: Manifests) -> Arc<Files> {
        self.files.swap(Arc::new(Files::new(files)))
    }

    /// Undoes a [`replace`](Self::replace).
    pub fn restore(&self, files: Arc<Files>) {
        self.files.store(files);
    }

    /// The connections to other servers, which everything that sends requests shares.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.connections.pool
    }

    /// Sets where Nango is.
    #[must_use]
    pub fn with_nango(mut self, settings: NangoSettings, clock: Arc<dyn Clock>) -> Self {
        let (secrets, pool) = (Arc::clone(&self.secrets), Arc::clone(&self.connections.pool));
        self.nango = Some(Arc::new(NangoRunner::new(settings, secrets, pool, clock)));
        self
    }

    /// Connects to A2A servers, from a runtime.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn with_a2a_servers(mut self, clock: Arc<dyn Clock>) -> (Self, Arc<A2aServers>) {
        let (secrets, pool) = (Arc::clone(&self.secrets), Arc::clone(&self.connections.pool));
        let servers = Arc::new(A2aServers::open(secrets, pool, clock));
        self.a2a = Some(Arc::clone(&servers));
        (self, servers)
    }

    /// Sets what connects to MCP servers.
    #[must_use]
    pub fn with_mcp_host(mut self, host: Arc<dyn McpHost>) -> Self {
        self.host = Some(host);
        self
    }
}

#[async_trait]
impl Assemble for Library {
    async fn check(&self, manifest: &Manifest) -> Result<CheckedManifest, FaultList> {
        if manifest.key.kind == ResourceKind::Namespace {
            return Ok(CheckedManifest::default());
        }
        let (mut drafts, report) = (ManifestDrafts::default(), Report::of_client());
        drafts.read_document(&report, &document::of_manifest(manifest), &self.builtins);
        let warnings = warnings(&report);
        let (grants, nango) = {
            let files = self.files.load();
            (Arc::clone(&files.grants), self.granted_nango(&files))
        };
        let mut faults = report.into_fault_list();
        for mut model in drafts.models.into_iter().map(|draft| draft.value.model) {
            model.bind(&grants);
            faults.extend(model.check_destination(&self.secrets, &self.connections).await);
        }
        for ToolDraft { namespace, tool, .. } in drafts.tools.iter().map(|draft| &draft.value) {
            let (secrets, pool) = (&self.secrets, &self.connections.pool);
            faults.extend(http_tool::check_destination(namespace, tool, secrets, pool, &grants).await);
            let refusal = nango.as_ref().and_then(|nango| nango.refusal(namespace, tool));
            faults.extend(refusal.map(|message| {
                Fault::new("", "provider_not_granted", message).hint("ask the operator of this server")
            }));
        }
        for mut server in drafts.mcp_servers.into_iter().map(|draft| draft.value.server) {
            server.bind(&grants);
            faults.extend(server.check_destination(&self.secrets, self.pool()).await);
        }
        for mut server in drafts.a2a_servers.into_iter().map(|draft| draft.value) {
            server.bind(&grants);
            faults.extend(server.check_destination(&self.secrets, self.pool()).await);
        }
        if faults.count() == 0 { Ok(CheckedManifest { warnings }) } else { Err(faults) }
    }

    fn assemble(&self, stored: &[StoredResource]) -> Registry {
        let files = self.files.load();
        self.assemble_with(files.manifests.clone(), &files, stored, None)
    }

    fn assemble_namespace(&self, namespace: &Namespace, stored: &[StoredResource]) -> Registry {
        // A reference never leaves its namespace, so nothing else is needed.
        let files = self.files.load();
        self.assemble_with(files.manifests.of_namespace(namespace), &files, stored, Some(namespace))
    }
}

impl Library {
    /// Adds the stored manifests and the announced tools to the manifests of the files. With `namespace`, only that one
    /// is assembled.
    fn assemble_with(
        &self,
        mut all: Manifests,
        files: &Files,
        stored: &[StoredResource],
        namespace: Option<&Namespace>,
    ) -> Registry {
        let described: HashSet<ResourceKey> = all.resources.iter().map(|one| one.manifest.key.clone()).collect();
        let mut hidden: HashSet<&ResourceKey> = HashSet::new();
        let mut drafts = ManifestDrafts::default();
        for one in stored {
            if described.contains(&one.manifest.key) {
                hidden.insert(&one.manifest.key);
                continue;
            }
            let report = Report::of_client();
            if one.manifest.key.kind != ResourceKind::Namespace {
                let mut draft = ManifestDrafts::default();
                draft.read_document(&report, &document::of_manifest(&one.manifest), &self.builtins);
                if report.is_sound() {
                    drafts.absorb(draft);
                }
            }
            all.resources.push(resource(one, report.into_faults()));
        }
        for resource in &mut all.resources {
            resource.hides_stored = hidden.contains(&resource.manifest.key);
        }
        drafts.models.iter_mut().for_each(|draft| draft.value.model.bind(&files.grants));
        drafts.mcp_servers.iter_mut().for_each(|draft| draft.value.server.bind(&files.grants));
        drafts.a2a_servers.iter_mut().for_each(|draft| draft.value.bind(&files.grants));
        drafts.add_to(&mut all, &self.builtins);
        self.add_announced(&mut all, namespace);
        let mut registry = self.build(all, files);
        if let Some(host) = &self.host {
            registry.set_runner(BindingKind::Mcp, FilteringRunner::around(host.runner(), &self.filters));
            registry.set_tool_servers(host.tool_servers());
        }
        if let Some(a2a) = &self.a2a {
            registry.set_runner(BindingKind::A2a, FilteringRunner::around(a2a.runner(), &self.filters));
            registry.set_agent_servers(Arc::clone(a2a) as Arc<dyn AgentServers>);
        }
        registry
    }

    /// Hands the servers over to what connects to them, and adds what they have announced. A resource in a manifest takes
    /// precedence over an announced one.
    fn add_announced(&self, all: &mut Manifests, namespace: Option<&Namespace>) {
        let (mcp, a2a) = (std::mem::take(&mut all.mcp_servers), std::mem::take(&mut all.a2a_servers));
        match &self.host {
            None => all.resources.iter_mut().for_each(lacks_mcp),
            Some(host) => {
                let policies = announced::policies(&mcp);
                host.configure(namespace, mcp);
                announced::add_tools(all, host.announced(namespace), &policies);
            }
        }
        if let Some(servers) = &self.a2a {
            servers.configure(namespace, a2a);
            announced::add_agents(all, servers.announced(namespace));
        }
    }

    /// The runner of Nango's tools, with the permissions that follow from these files.
    fn granted_nango(&self, files: &Files) -> Option<GrantedNango> {
        let runner = Arc::clone(self.nango.as_ref()?);
        Some(GrantedNango::new(runner, Arc::clone(&files.providers)))
    }

    /// The registry of these manifests, with the runners that need no server of their own.
    fn build(&self, mut all: Manifests, files: &Files) -> Registry {
        let settings = self.nango.as_ref().map(|nango| nango.settings());
        all.resources.iter_mut().for_each(|resource| note_nango(resource, settings));
        let builtins = Arc::clone(&self.builtins);
        let mut registry = all.build_with(&self.secrets, builtins, &files.grants, &self.connections, &self.filters);
        if let Some(nango) = &self.nango {
            registry.set_user_connections(Arc::clone(nango) as Arc<dyn UserConnections>);
        }
        if let Some(nango) = self.granted_nango(files) {
            let runner = FilteringRunner::around(Arc::new(nango) as Arc<dyn Runner>, &self.filters);
            registry.set_runner(BindingKind::Nango, runner);
        }
        registry
    }
}

impl ManifestDrafts {
    fn absorb(&mut self, other: Self) {
        self.agents.extend(other.agents);
        self.models.extend(other.models);
        self.tools.extend(other.tools);
        self.memories.extend(other.memories);
        self.config_maps.extend(other.config_maps);
        self.mcp_servers.extend(other.mcp_servers);
        self.a2a_servers.extend(other.a2a_servers);
        self.teams.extend(other.teams);
    }

    /// Adds the stored manifests to those of the files; what a reference does not resolve to is left out.
    fn add_to(self, all: &mut Manifests, builtins: &Builtins) {
        all.models.extend(self.models.into_iter().map(|located| located.value.model));
        all.memories.extend(self.memories.into_iter().map(|located| located.value));
        all.config_maps.extend(self.config_maps.into_iter().map(|located| located.value));
        all.mcp_servers.extend(self.mcp_servers.into_iter().map(|located| located.value.server));
        all.a2a_servers.extend(self.a2a_servers.into_iter().map(|located| located.value));
        all.teams.extend(self.teams.into_iter().map(|located| located.value.team));
        let config_maps: BTreeMap<_, _> =
            all.config_maps.iter().map(|map| ((map.namespace.clone(), map.name.clone()), map.clone())).collect();
        for mut draft in self.tools {
            // A setting without a value is reported when the tool is called.
            tool::resolve_settings(&mut draft, &config_maps);
            all.tools.push((draft.value.namespace, draft.value.tool));
        }
        let mut declared: HashSet<_> =
            all.tools.iter().map(|(namespace, tool)| (namespace.clone(), tool.name.clone())).collect();
        for mut draft in self.agents {
            // A parameter without a value is reported when the agent is queried, and by its availability.
            agent::resolve_parameters(&mut draft, &config_maps);
            let agent = draft.value.agent;
            for used in agent.tools.iter().map(AgentTool::tool) {
                // Whatever type the agent gives it: ARK looks tools up by their names.
                if declared.insert((agent.namespace.clone(), used.to_owned())) {
                    all.tools.extend(builtins.tool(used).map(|tool| (agent.namespace.clone(), tool)));
                }
            }
            all.agents.push(agent);
        }
    }
}

fn resource(stored: &StoredResource, faults: Vec<Fault>) -> Resource {
    let StoredResource { manifest, generation, created_at, updated_at } = stored;
    Resource {
        needs: reference::needs(manifest),
        not_served: reference::not_served(manifest),
        manifest: manifest.clone(),
        origin: ResourceOrigin::Stored { generation: *generation, created_at: *created_at, updated_at: *updated_at },
        faults,
        hides_stored: false,
    }
}

/// The warnings for the client that sent the manifest.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings: Vec<_> = report.take_warnings().into_iter().map(|warning| warning.message).collect();
    match report.warnings_omitted() {
        0 => {}
        omitted => warnings.push(format!("{omitted} further warnings are not listed")),
    }
    warnings
}

/// Marks a resource that needs the client of MCP as not served by this build.
fn lacks_mcp(resource: &mut Resource) {
    let spec = &resource.manifest.description.spec;
    let needs_it = match resource.manifest.key.kind {
        ResourceKind::McpServer => true,
        ResourceKind::Tool => spec.get("type").and_then(Value::as_str) == Some("mcp"),
        _ => false,
    };
    if needs_it {
        resource.not_served = Some("this build does not connect to MCP servers: it lacks the feature `mcp`".to_owned());
    }
}

/// Marks a tool of Nango that a query without an end user cannot use, and says how to connect it.
fn note_nango(resource: &mut Resource, settings: Option<&NangoSettings>) {
    let spec = &resource.manifest.description.spec;
    let is_nango = spec.get("type").and_then(Value::as_str) == Some(BindingKind::Nango.as_str());
    if resource.manifest.key.kind != ResourceKind::Tool || !is_nango {
        return;
    }
    let provider = spec.get("nango").and_then(|nango| nango.get("provider")?.as_str()).unwrap_or_default();
    resource.not_served = match settings {
        None => Some("this server has no settings for Nango: set `url` in `[nango]`".to_owned()),
        Some(settings) if settings.connections.contains_key(provider) => None,
        Some(_) => Some(format!(
            "`{provider}` is not connected for queries without an end user: add its connection to `[nango.connections]`; \
             end users use their own"
        )),
    };
}

/// A tool as the manifest that would declare it in the default namespace.
pub(super) fn describe(tool: &Tool, origin: ResourceOrigin) -> Resource {
    let kind = tool.binding.kind().to_string();
    let mut spec = Map::new();
    spec.insert("type".into(), kind.as_str().into());
    spec.insert("description".into(), tool.description.as_str().into());
    spec.insert("inputSchema".into(), Value::clone(&tool.parameters));
    spec.insert("annotations".into(), json!(tool.annotations));
    if let Some(block) = binding(&tool.binding) {
        spec.insert(kind, block);
    }
    let key = ResourceKey::new(ResourceKind::Tool, Namespace::default(), tool.name.clone());
    let description = ManifestBody { labels: tool.labels.clone(), spec, ..ManifestBody::default() };
    let manifest = Manifest { key, description };
    Resource {
        needs: reference::needs(&manifest),
        not_served: reference::not_served(&manifest),
        manifest,
        origin,
        faults: Vec::new(),
        hides_stored: false,
    }
}

/// How a tool is run, in the field of `spec` that has the name of its type.
fn binding(binding: &Binding) -> Option<Value> {
    match binding {
        Binding::External => None,
        // ARK's spelling, which the reader of references knows.
        Binding::Mcp { server, tool } => Some(json!({"mcpServerRef": {"name": server}, "toolName": tool})),
        other => {
            let mut written = json!(other);
            written.as_object_mut()?.shift_remove("kind");
            Some(written)
        }
    }
}

#[cfg(test)]
mod tests;
