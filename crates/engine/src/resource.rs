//! What can be described: agents, models, tools and the other kinds of ARK, as data.
//!
//! A [`Manifest`] describes one resource. It comes from a file, or a client has stored it; either way an
//! [`Assemble`] reads it, checks it and builds the [`Registry`] of all of them. A file outranks a stored
//! manifest of the same name, and nothing of the engine changes a file. What a resource *does* is not
//! here: agents, tools and models are in the registry, ready for use.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bosun_core::{Namespace, Timestamp, audit::Record};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Registry;

macro_rules! kinds {
    ($($(#[$meta:meta])* $variant:ident = $name:literal, $plural:literal, $version:literal;)*) => {
        /// The kinds of resources.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$meta])* $variant,)*
        }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As `kind` has it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// As it stands in paths.
            #[must_use]
            pub fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)* }
            }

            /// As `apiVersion` has it.
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
    McpServer = "MCPServer", "mcp-servers", "ark.mckinsey.com/v1alpha1";
    ConfigMap = "ConfigMap", "configmaps", "v1";
    /// A namespace that somebody has made; others are there because something is in them.
    Namespace = "Namespace", "namespaces", "v1";
}

/// Which resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    pub kind: Kind,
    pub namespace: Namespace,
    pub name: String,
}

impl ResourceKey {
    #[must_use]
    pub fn new(kind: Kind, namespace: Namespace, name: impl Into<String>) -> Self {
        Self { kind, namespace, name: name.into() }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} `{}` of namespace `{}`", self.kind.as_str(), self.name, self.namespace)
    }
}

/// The description of one resource, as somebody wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub key: ResourceKey,
    pub description: Description,
}

/// What a manifest says of its resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Description {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Whatever stands beside the metadata: `spec`, or the `data` of a `ConfigMap`.
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

/// A change of what is stored, and what the audit log says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceChange {
    pub what: Change,
    pub record: Record,
}

/// What becomes of a stored resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It replaces the one of the same key.
    Keep(Box<StoredResource>),
    Remove(ResourceKey),
}

impl Change {
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
pub enum Origin {
    File(PathBuf),
    Stored {
        generation: u64,
        created_at: Timestamp,
        updated_at: Timestamp,
    },
    /// It ships with the server.
    Builtin,
}

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFault {
    pub code: &'static str,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestFaults {
    pub faults: Vec<ManifestFault>,
    /// How many more there are than are listed.
    pub omitted: usize,
}

/// A resource as it is in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub manifest: Manifest,
    pub origin: Origin,
    /// What it needs, in its own namespace.
    pub needs: Vec<(Kind, String)>,
    /// Why this version does nothing with it although it is in order.
    pub not_served: Option<String>,
    /// What is wrong with it. Only of stored ones: a server with a faulty file does not start.
    pub faults: Vec<ManifestFault>,
    /// A stored manifest of the same key has no effect because of this one.
    pub hides_stored: bool,
}

/// Whether a resource can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    pub is_available: bool,
    /// One word, as Kubernetes likes it.
    pub reason: &'static str,
    pub message: String,
}

impl Resource {
    /// Whether it can be used together with what else is there.
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
        let missing: Vec<_> = self
            .needs
            .iter()
            .filter(|(kind, name)| registry.resource(*kind, &key.namespace, name).is_none())
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

/// A manifest that was taken, and what its author should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub warnings: Vec<String>,
}

/// Reads manifests and builds what the engine reaches for.
#[async_trait]
pub trait Assemble: Send + Sync + 'static {
    /// Whether a client may store this manifest. What it refers to need not exist yet.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    async fn check(&self, manifest: &Manifest) -> Result<Checked, ManifestFaults>;

    /// Everything that is described, by files and by `stored`. It never fails: what was stored by another
    /// version of the program and is not readable any more is there, with its faults.
    fn assemble(&self, stored: &[StoredResource]) -> Registry;

    /// The same of one namespace, of which `stored` is what clients have stored. What it holds of others is not looked at.
    fn assemble_namespace(&self, namespace: &Namespace, stored: &[StoredResource]) -> Registry;
}

/// A registry that was put together by hand and that nothing can be added to.
#[derive(Debug)]
struct Fixed(Registry);

#[async_trait]
impl Assemble for Fixed {
    async fn check(&self, _: &Manifest) -> Result<Checked, ManifestFaults> {
        let message = "this server has a fixed set of resources".to_owned();
        let faults = vec![ManifestFault { code: "fixed_resources", message, hint: None }];
        Err(ManifestFaults { faults, omitted: 0 })
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
    #[error("{0} ships with the server and cannot be changed")]
    ManagedByServer(ResourceKey),
    #[error("{key} is not in order: {}", faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; "))]
    Invalid {
        key: ResourceKey,
        faults: Vec<ManifestFault>,
        /// How many more there are than are listed.
        omitted: usize,
    },
}

/// A resource that was changed, and what its author should know.
#[derive(Clone, Debug)]
pub struct ChangedResource {
    pub resource: Arc<Resource>,
    pub registry: Arc<Registry>,
    pub warnings: Vec<String>,
}

/// What a change of a resource names; everything else stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amendment {
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
    /// A `null` removes a field.
    pub spec: Map<String, Value>,
}

impl Amendment {
    pub(crate) fn apply(self, description: &mut Description) {
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
