//! Stored resources: validated, then durable, then in effect.
//!
//! Changes are serialised per namespace. The namespace's part of the registry is rebuilt from what the store holds
//! after the change, on the blocking pool, and swapped in atomically, so that no reader sees half of it; other
//! namespaces are neither read nor blocked. Running queries keep what was frozen when they were submitted. A change
//! that was answered is durable, and in effect for all later requests.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};

use bosun_core::{
    Actor, Fault, Namespace, Timestamp,
    audit::{Action, AuditRecord},
    ceiling::{RESOURCE_BYTES, RESOURCE_MEMORY_BYTES, SERVERS_STORED},
    json::{compact_size, escaped_size, memory, memory_of_member},
};

use crate::{
    Engine, EngineError, Registry, StoreError,
    engine::Inner,
    fault,
    resource::{
        Amendment, Assemble, ChangedResource, Manifest, ManifestBody, ManifestChange, Resource, ResourceChange,
        ResourceError, ResourceKey, ResourceKind, ResourceOrigin, StoredResource,
    },
    tool_server::ApproveError,
};

/// The current registry, and the assembler that rebuilds it.
pub(crate) struct Resources {
    assembler: Arc<dyn Assemble>,
    current: arc_swap::ArcSwap<Registry>,
    /// Held only while the current registry is replaced.
    swapping: Mutex<()>,
    /// Striped locks of the writers of resources: each namespace hashes to one stripe, which it may share with others.
    changing: [tokio::sync::Mutex<()>; STRIPES],
    hasher: RandomState,
}

const STRIPES: usize = 64;

impl Resources {
    pub(crate) fn new(assembler: Arc<dyn Assemble>, stored: &[StoredResource]) -> Self {
        let registry = assembler.assemble(stored);
        Self {
            assembler,
            current: arc_swap::ArcSwap::from_pointee(registry),
            swapping: Mutex::default(),
            changing: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            hasher: RandomState::new(),
        }
    }

    /// Locks out other changes of a namespace.
    async fn lock(&self, namespace: &Namespace) -> tokio::sync::MutexGuard<'_, ()> {
        let stripe = self.hasher.hash_one(namespace) % STRIPES as u64;
        self.changing[usize::try_from(stripe).unwrap_or_default()].lock().await
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.current.load_full()
    }

    /// Assembles everything again.
    async fn refresh(&self, stored: Vec<StoredResource>) -> Result<Arc<Registry>, StoreError> {
        let assembler = Arc::clone(&self.assembler);
        let built = tokio::task::spawn_blocking(move || assembler.assemble(&stored)).await;
        let mut registry = built.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let _swapping = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        registry.set_generation(self.current.load().generation() + 1);
        let registry = Arc::new(registry);
        self.current.store(Arc::clone(&registry));
        Ok(registry)
    }

    /// Puts the stored resources of a namespace into effect.
    async fn swap(&self, namespace: Namespace, stored: Vec<StoredResource>) -> Result<Arc<Registry>, StoreError> {
        let (assembler, of) = (Arc::clone(&self.assembler), namespace.clone());
        // Reading all manifests of a namespace would block a worker of the runtime for too long.
        let built = tokio::task::spawn_blocking(move || assembler.assemble_namespace(&of, &stored)).await;
        let built = built.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let _swapping = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut registry = Registry::clone(&self.current.load());
        registry.replace_namespace(&namespace, &built);
        registry.set_generation(registry.generation() + 1);
        let registry = Arc::new(registry);
        self.current.store(Arc::clone(&registry));
        Ok(registry)
    }
}

impl Engine {
    /// The current registry. It is immutable; a change makes a new one.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.inner.resources.registry()
    }

    /// Assembles the registry again, from files, stored resources and what servers announce, and swaps it as a whole.
    /// Running queries keep what was frozen when they were submitted.
    ///
    /// # Errors
    /// If the store fails; the registry is then unchanged.
    #[tracing::instrument(name = "resource.refresh", skip_all)]
    pub async fn refresh(&self) -> Result<Arc<Registry>, EngineError> {
        self.detached(async move |inner| {
            let resources = &inner.resources;
            // No stored resource may change between being read and being in effect.
            let _changing = futures_util::future::join_all(resources.changing.iter().map(|lock| lock.lock())).await;
            let stored = inner.store.resources(None).await?;
            Ok(resources.refresh(stored).await?)
        })
        .await
    }

    /// Whether a namespace exists: it is the default one, it was created, or it contains something. Checks memory
    /// first, then an index of the store.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn has_namespace(&self, namespace: &Namespace) -> Result<bool, EngineError> {
        Ok(self.registry().has_namespace(namespace) || self.inner.store.is_in_use(namespace).await?)
    }

    /// All namespaces that exist.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn namespaces(&self) -> Result<BTreeSet<Namespace>, EngineError> {
        let mut namespaces = self.registry().namespaces();
        namespaces.extend(self.inner.store.namespaces().await?);
        Ok(namespaces)
    }

    /// Stores a resource that does not exist yet.
    ///
    /// # Errors
    /// If it exists, if anything is wrong with the manifest, or if the store fails.
    #[tracing::instrument(name = "resource.create", skip_all, fields(resource = %manifest.key))]
    pub async fn create_resource(&self, by: Actor, manifest: Manifest) -> Result<ChangedResource, EngineError> {
        self.detached(async move |inner| {
            let _changing = inner.resources.lock(&manifest.key.namespace).await;
            if find(&inner.resources.registry(), &manifest.key).is_some_and(|known| !is_replaceable(&known)) {
                return Err(ResourceError::Exists(manifest.key).into());
            }
            if let Some(fault) = too_many(&inner.resources.registry(), &manifest.key) {
                return Err(ResourceError::Invalid { key: manifest.key, faults: fault.into() }.into());
            }
            let now = inner.clock.now();
            let stored = StoredResource { manifest, generation: 1, created_at: now, updated_at: now };
            inner.keep(&by, Action::ResourceCreated, stored).await
        })
        .await
    }

    /// Changes the fields of a stored resource that `amendment` names.
    ///
    /// # Errors
    /// If it does not exist or is not a stored one, if the result would be invalid, or if the store fails.
    #[tracing::instrument(name = "resource.update", skip_all, fields(resource = %key))]
    pub async fn update_resource(
        &self,
        by: Actor,
        key: ResourceKey,
        amendment: Amendment,
    ) -> Result<ChangedResource, EngineError> {
        self.rewrite(by, key, move |description| amendment.apply(description)).await
    }

    /// Replaces a stored resource: fields that `manifest` does not have are dropped.
    ///
    /// # Errors
    /// If it does not exist or is not a stored one, if the manifest is invalid, or if the store fails.
    #[tracing::instrument(name = "resource.replace", skip_all, fields(resource = %manifest.key))]
    pub async fn replace_resource(&self, by: Actor, manifest: Manifest) -> Result<ChangedResource, EngineError> {
        let Manifest { key, description: anew } = manifest;
        self.rewrite(by, key, move |description| *description = anew).await
    }

    async fn rewrite(
        &self,
        by: Actor,
        key: ResourceKey,
        change: impl FnOnce(&mut ManifestBody) + Send + 'static,
    ) -> Result<ChangedResource, EngineError> {
        self.detached(async move |inner| {
            let _changing = inner.resources.lock(&key.namespace).await;
            let (resource, generation, created_at) = changeable(&inner.resources.registry(), &key)?;
            let mut manifest = resource.manifest.clone();
            change(&mut manifest.description);
            let updated_at = inner.clock.now();
            let stored = StoredResource { manifest, generation: generation + 1, created_at, updated_at };
            inner.keep(&by, Action::ResourceUpdated, stored).await
        })
        .await
    }

    /// Removes a stored resource. Resources that refer to it stay, but are unavailable.
    ///
    /// # Errors
    /// If it does not exist or is not a stored one, or if the store fails.
    #[tracing::instrument(name = "resource.delete", skip_all, fields(resource = %key))]
    pub async fn delete_resource(&self, by: Actor, key: ResourceKey) -> Result<(), EngineError> {
        self.detached(async move |inner| {
            let _changing = inner.resources.lock(&key.namespace).await;
            changeable(&inner.resources.registry(), &key)?;
            inner.change_resources(&by, Action::ResourceDeleted, ManifestChange::Remove(key)).await?;
            Ok(())
        })
        .await
    }
}

impl Engine {
    /// Approves definitions that an MCP server has changed: those of these tools, or all. Returns their names; they are
    /// in effect for all later requests.
    ///
    /// # Errors
    /// If there is no such server, if it does not withhold a tool, or if that cannot be saved.
    #[tracing::instrument(name = "tools.approve", skip_all, fields(server = name))]
    pub async fn approve_tools(
        &self,
        by: Actor,
        namespace: Namespace,
        name: String,
        tools: Vec<String>,
    ) -> Result<Vec<String>, EngineError> {
        let registry = self.registry();
        let servers = registry.tool_servers().ok_or_else(|| ApproveError::NotFound(name.clone()))?;
        let approved = servers.approve(&namespace, &name, &tools).await?;
        if !approved.is_empty() {
            let kind = ResourceKind::McpServer.as_str();
            let detail = format!("{kind} {name}: {} approved", approved.join(", "));
            let now = self.inner.clock.now();
            let record = AuditRecord::of_act(now, Action::ResourceUpdated, Some(&by), Some(detail));
            let position = self.inner.store.record(&namespace, vec![record])?;
            self.inner.store.durable(position).await?;
            self.refresh().await?;
        }
        Ok(approved)
    }
}

/// Limits the size of a resource. Changes are merged field by field, so it could otherwise grow with every change.
fn too_large(ManifestBody { labels, annotations, spec }: &ManifestBody) -> Option<Fault> {
    let texts = || labels.iter().chain(annotations);
    let fields = spec.iter().map(|(name, value)| name.len() + compact_size(value));
    let bytes: usize = texts().map(|(name, text)| name.len() + escaped_size(text)).chain(fields).sum();
    let members = texts().map(|(name, text)| memory_of_member(name, text));
    let in_memory: usize = members.chain(spec.values().map(memory)).sum();
    let message = if bytes > RESOURCE_BYTES {
        format!("The resource would have {bytes} bytes; at most {RESOURCE_BYTES} are allowed")
    } else if in_memory > RESOURCE_MEMORY_BYTES {
        format!("The resource would take {in_memory} bytes of memory; at most {RESOURCE_MEMORY_BYTES} are allowed")
    } else {
        return None;
    };
    Some(Fault::new("", "too_large", message).hint("set fields that are not needed to null"))
}

/// Limits the number of servers that a namespace has this one connect to. Those of files are the operator's, and do not
/// count.
fn too_many(registry: &Registry, ResourceKey { kind, namespace, .. }: &ResourceKey) -> Option<Fault> {
    if !matches!(kind, ResourceKind::McpServer | ResourceKind::A2aServer) {
        return None;
    }
    let is_stored = |resource: &Arc<Resource>| matches!(resource.origin, ResourceOrigin::Stored { .. });
    let stored = registry.resources(*kind, namespace).into_iter().filter(is_stored).count();
    (stored >= SERVERS_STORED).then(|| {
        let kind = kind.as_str();
        let message =
            format!("Namespace `{namespace}` has {stored} of the kind {kind}; at most {SERVERS_STORED} are allowed");
        Fault::new("", "too_many", message).hint("delete one that is not needed")
    })
}

impl Inner {
    async fn keep(&self, by: &Actor, action: Action, stored: StoredResource) -> Result<ChangedResource, EngineError> {
        let key = stored.manifest.key.clone();
        if let Some(fault) = too_large(&stored.manifest.description) {
            return Err(ResourceError::Invalid { key, faults: fault.into() }.into());
        }
        let checked = self.resources.assembler.check(&stored.manifest).await;
        let checked = checked.map_err(|faults| ResourceError::Invalid { key: key.clone(), faults })?;
        let registry = self.change_resources(by, action, ManifestChange::Keep(Box::new(stored))).await?;
        let resource = find(&registry, &key).ok_or(ResourceError::NotFound(key))?;
        Ok(ChangedResource { resource, warnings: checked.warnings, registry })
    }

    /// Durable first, then in effect. If the store does not know whether the change was committed, what it holds when
    /// it can be read again decides.
    async fn change_resources(
        &self,
        by: &Actor,
        action: Action,
        what: ManifestChange,
    ) -> Result<Arc<Registry>, StoreError> {
        let ResourceKey { kind, name, namespace } = what.key();
        let namespace = namespace.clone();
        let detail = format!("{} {name}", kind.as_str());
        let record = AuditRecord::of_act(self.clock.now(), action, Some(by), Some(detail));
        let changed = self.store.change_resource(ResourceChange { what, record }).await;
        fault::point("resource.durable");
        let stored = self.store.resources(Some(&namespace)).await?;
        let registry = self.resources.swap(namespace, stored).await?;
        changed?;
        Ok(registry)
    }
}

/// Whether a client may create a resource of this name although one exists: the built-in memory is only the default for
/// namespaces without one of their own.
fn is_replaceable(resource: &Resource) -> bool {
    resource.origin == ResourceOrigin::Builtin && resource.manifest.key.kind == ResourceKind::Memory
}

fn find(registry: &Registry, key: &ResourceKey) -> Option<Arc<Resource>> {
    registry.resource(key.kind, &key.namespace, &key.name)
}

fn changeable(registry: &Registry, key: &ResourceKey) -> Result<(Arc<Resource>, u64, Timestamp), ResourceError> {
    let resource = find(registry, key).ok_or_else(|| ResourceError::NotFound(key.clone()))?;
    match &resource.origin {
        ResourceOrigin::Stored { generation, created_at, .. } => Ok((Arc::clone(&resource), *generation, *created_at)),
        ResourceOrigin::File(file) => Err(ResourceError::ManagedByFile { key: key.clone(), file: file.clone() }),
        ResourceOrigin::Url(url) => Err(ResourceError::ManagedByUrl { key: key.clone(), url: url.clone() }),
        ResourceOrigin::Builtin => Err(ResourceError::ManagedByServer(key.clone())),
        ResourceOrigin::Announced { by, server } => {
            Err(ResourceError::Announced { key: key.clone(), by: *by, server: server.clone() })
        }
    }
}
