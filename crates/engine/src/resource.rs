//! Resources: agents, models, tools and the other kinds of ARK, as data.
//!
//! A [`Manifest`] describes one resource. It comes from a file or was stored by a client; either way an [`Assemble`]
//! reads it, validates it and builds the [`Registry`]. A file takes precedence over a stored manifest of the same name,
//! and the engine never changes a file. The objects that are *used* are not here: agents, tools and models are in the
//! registry.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bosun_core::{Fault, Namespace, Timestamp, audit::AuditRecord, fault::FaultList};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Registry, agent_server::ServedAgent, tool_server::ServerPhase};

macro_rules! kinds {
    ($($(#[$meta:meta])* $variant:ident = $name:literal, $plural:literal, $version:literal;)*) => {
        /// The kinds of resources.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ResourceKind {
            $($(#[$meta])* $variant,)*
        }

        impl ResourceKind {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value of `kind`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The plural that paths use.
            #[must_use]
            pub fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)* }
            }

            /// The value of `apiVersion`.
            #[must_use]
            pub fn api_version(self) -> &'static str {
                match self { $(Self::$variant => $version,)* }
            }

            /// The kind with this name.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
            }
        }
    };
}

kinds! {
    Agent = "Agent", "agents", "ark.mckinsey.com/v1alpha1";
    Model = "Model", "models", "ark.mckinsey.com/v1alpha1";
    Tool = "Tool", "tools", "ark.mckinsey.com/v1alpha1";
    Memory = "Memory", "memories", "ark.mckinsey.com/v1alpha1";
    Team = "Team", "teams", "ark.mckinsey.com/v1alpha1";
    Evaluator = "Evaluator", "evaluators", "ark.mckinsey.com/v1alpha1";
    McpServer = "MCPServer", "mcp-servers", "ark.mckinsey.com/v1alpha1";
    A2aServer = "A2AServer", "a2a-servers", "ark.mckinsey.com/v1prealpha1";
    ConfigMap = "ConfigMap", "configmaps", "v1";
    /// A namespace that was created explicitly; others exist because they contain something.
    Namespace = "Namespace", "namespaces", "v1";
}

/// The key of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    pub kind: ResourceKind,
    pub namespace: Namespace,
    pub name: String,
}

impl ResourceKey {
    #[must_use]
    pub fn new(kind: ResourceKind, namespace: Namespace, name: impl Into<String>) -> Self {
        Self { kind, namespace, name: name.into() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} `{}` of namespace `{}`", self.kind.as_str(), self.name, self.namespace)
    }
}

/// The manifest of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub key: ResourceKey,
    pub description: ManifestBody,
}

/// The content of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManifestBody {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Everything next to the metadata: `spec`, or the `data` of a `ConfigMap`.
    #[serde(default)]
    pub spec: Map<String, Value>,
}

/// A manifest that a client has stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredResource {
    pub manifest: Manifest,
    /// How often it was written.
    pub generation: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A change of a stored resource, and its audit record.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceChange {
    pub what: ManifestChange,
    pub record: AuditRecord,
}

/// What happens to a stored resource.
#[derive(Clone, Debug, PartialEq)]
pub enum ManifestChange {
    /// It replaces the one of the same key.
    Keep(Box<StoredResource>),
    Remove(ResourceKey),
}

impl ManifestChange {
    #[must_use]
    pub fn key(&self) -> &ResourceKey {
        match self {
            Self::Keep(stored) => &stored.manifest.key,
            Self::Remove(key) => key,
        }
    }
}

/// Where a resource comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceOrigin {
    File(PathBuf),
    /// A document of another server, which the operator has named.
    Url(String),
    Stored {
        generation: u64,
        created_at: Timestamp,
        updated_at: Timestamp,
    },
    /// It ships with the server.
    Builtin,
    /// A tool of an MCP server, or an agent of an A2A server and the tool that asks it.
    Announced {
        by: ResourceKind,
        server: String,
    },
}

/// A resource as it is in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub manifest: Manifest,
    pub origin: ResourceOrigin,
    /// The resources of its namespace that it needs.
    pub needs: Vec<(ResourceKind, String)>,
    /// Why this version does nothing with it although it is valid.
    pub not_served: Option<String>,
    /// Its faults. Only stored resources have any: a server with a faulty file does not start.
    pub faults: Vec<Fault>,
    /// Whether a stored manifest of the same key has no effect because of this one.
    pub hides_stored: bool,
}

/// Whether a resource can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    pub is_available: bool,
    /// One word in CamelCase, by the convention of Kubernetes.
    pub reason: &'static str,
    pub message: String,
}

impl Resource {
    /// Whether it can be used, given the other resources.
    #[must_use]
    pub fn availability(&self, registry: &Registry) -> Availability {
        let not = |reason, message| Availability { is_available: false, reason, message };
        if let Some(fault) = self.faults.first() {
            return not("Invalid", fault.message.clone());
        }
        if let Some(reason) = &self.not_served {
            return not("NotServed", reason.clone());
        }
        let Manifest { key, .. } = &self.manifest;
        let status = match key.kind {
            ResourceKind::McpServer => registry.tool_server(&key.namespace, &key.name).map(|one| one.availability()),
            ResourceKind::A2aServer => registry.agent_server(&key.namespace, &key.name).map(|one| {
                // Its card may have been read after this registry was assembled.
                let is_in = |agent: &ServedAgent| registry.tool(&key.namespace, &agent.name).is_some();
                if one.phase == ServerPhase::Ready && !one.agent.as_ref().is_some_and(is_in) {
                    return not("Discovering", one.message);
                }
                one.availability()
            }),
            _ => None,
        };
        if let Some(availability) = status {
            return availability;
        }
        let missing: Vec<_> = self
            .needs
            .iter()
            .filter(|(kind, name)| registry.resource(*kind, &key.namespace, name).is_none())
            // A tool may stand for an agent or a team.
            .filter(|(kind, name)| {
                !matches!(kind, ResourceKind::Agent | ResourceKind::Team)
                    || registry.tool(&key.namespace, name).is_none()
            })
            .map(|(kind, name)| format!("{} `{name}`", kind.as_str()))
            .collect();
        if missing.is_empty() {
            let message = "everything that it refers to exists".to_owned();
            Availability { is_available: true, reason: "AllDependenciesReady", message }
        } else {
            not("DependencyMissing", format!("missing: {}", missing.join(", ")))
        }
    }
}

/// A valid manifest, and warnings for its author.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedManifest {
    pub warnings: Vec<String>,
}

/// Reads manifests and builds the registry.
#[async_trait]
pub trait Assemble: Send + Sync + 'static {
    /// Whether a client may store this manifest. What it refers to need not exist yet.
    ///
    /// # Errors
    /// With all faults of the manifest.
    async fn check(&self, manifest: &Manifest) -> Result<CheckedManifest, FaultList>;

    /// The registry of all files and of `stored`. It never fails: a manifest that was stored by another version of the
    /// program and cannot be read any more is included, with its faults.
    fn assemble(&self, stored: &[StoredResource]) -> Registry;

    /// The same for one namespace, of which `stored` are the stored manifests. The result's other namespaces are
    /// ignored.
    fn assemble_namespace(&self, namespace: &Namespace, stored: &[StoredResource]) -> Registry;
}

/// A fixed registry, to which nothing can be added.
#[derive(Debug)]
struct Fixed(Registry);

#[async_trait]
impl Assemble for Fixed {
    async fn check(&self, _: &Manifest) -> Result<CheckedManifest, FaultList> {
        let message = "this server has a fixed set of resources".to_owned();
        Err(Fault::new("", "fixed_resources", message).into())
    }

    fn assemble(&self, _: &[StoredResource]) -> Registry {
        self.0.clone()
    }

    fn assemble_namespace(&self, _: &Namespace, _: &[StoredResource]) -> Registry {
        self.0.clone()
    }
}

impl From<Registry> for Arc<dyn Assemble> {
    fn from(registry: Registry) -> Self {
        Self::from(Box::new(Fixed(registry)) as Box<dyn Assemble>)
    }
}

/// Why a resource was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    #[error("{0} does not exist")]
    NotFound(ResourceKey),
    #[error("{0} exists already")]
    Exists(ResourceKey),
    #[error("{key} is described by the file {}: change the file", file.display())]
    ManagedByFile { key: ResourceKey, file: PathBuf },
    #[error("{key} is described by the document at {url}: change it there")]
    ManagedByUrl { key: ResourceKey, url: String },
    #[error("{0} ships with the server and cannot be changed")]
    ManagedByServer(ResourceKey),
    #[error("{key} is announced by {} `{server}` and cannot be changed", by.as_str())]
    Announced { key: ResourceKey, by: ResourceKind, server: String },
    #[error("{key} is invalid: {}", faults.listed().iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "))]
    Invalid { key: ResourceKey, faults: FaultList },
}

/// A resource that was changed, and warnings for its author.
#[derive(Clone, Debug)]
pub struct ChangedResource {
    pub resource: Arc<Resource>,
    pub registry: Arc<Registry>,
    pub warnings: Vec<String>,
}

/// A partial change of a resource; fields that it does not have are left unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amendment {
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
    /// A `null` removes a field.
    pub spec: Map<String, Value>,
}

impl Amendment {
    pub(crate) fn apply(self, description: &mut ManifestBody) {
        if let Some(labels) = self.labels {
            description.labels = labels;
        }
        if let Some(annotations) = self.annotations {
            description.annotations = annotations;
        }
        for (name, value) in self.spec {
            if value.is_null() {
                description.spec.shift_remove(&name);
            } else {
                description.spec.insert(name, value);
            }
        }
    }
}
