//! Storing a resource: it needs nothing of other namespaces.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{Actor, Namespace, fault::FaultList};
use tokio::sync::Notify;

use crate::{
    Engine, EngineSettings, Registry,
    blob::MemoryBlobs,
    memory::MemoryStore,
    resource::{
        Assemble, CheckedManifest, Manifest, ManifestBody, Resource, ResourceKey, ResourceKind, ResourceOrigin,
        StoredResource,
    },
    testing::TokioClock,
};

/// Describes what is stored and does nothing with it; records its arguments.
#[derive(Default)]
struct Describing {
    /// The namespaces that were assembled, and how many resources were stored in each.
    assembled: Mutex<Vec<(String, usize)>>,
    /// Manifests of the namespace `slow` are checked when this is notified.
    slow: Notify,
}

struct SharedStore(Arc<Describing>);

fn registry(stored: &[StoredResource]) -> Registry {
    let mut registry = Registry::default();
    for StoredResource { manifest, generation, created_at, updated_at } in stored.iter().cloned() {
        registry.add_resource(Resource {
            manifest,
            origin: ResourceOrigin::Stored { generation, created_at, updated_at },
            needs: Vec::new(),
            not_served: None,
            faults: Vec::new(),
            hides_stored: false,
        });
    }
    registry
}

#[async_trait]
impl Assemble for SharedStore {
    async fn check(&self, manifest: &Manifest) -> Result<CheckedManifest, FaultList> {
        if manifest.key.namespace.as_str() == "slow" {
            self.0.slow.notified().await;
        }
        Ok(CheckedManifest::default())
    }

    fn assemble(&self, stored: &[StoredResource]) -> Registry {
        registry(stored)
    }

    fn assemble_namespace(&self, namespace: &Namespace, stored: &[StoredResource]) -> Registry {
        self.0.assembled.lock().unwrap().push((namespace.to_string(), stored.len()));
        registry(stored)
    }
}

impl Describing {
    async fn start(self: &Arc<Self>) -> Engine {
        let assembler = Arc::new(SharedStore(Arc::clone(self))) as Arc<dyn Assemble>;
        let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::new()));
        Engine::start(store, blobs, assembler, Arc::new(TokioClock::new()), EngineSettings::default()).await.unwrap()
    }
}

fn manifest(namespace: &str, name: &str) -> Manifest {
    let key = ResourceKey::new(ResourceKind::Agent, namespace.parse().unwrap(), name);
    Manifest { key, description: ManifestBody::default() }
}

#[tokio::test(start_paused = true)]
async fn storing_a_resource_reads_its_own_namespace_and_keeps_the_others() {
    let assembler = Arc::new(Describing::default());
    let engine = assembler.start().await;
    for (namespace, name) in [("a", "one"), ("b", "two"), ("a", "three")] {
        engine.create_resource(Actor::local(), manifest(namespace, name)).await.unwrap();
    }
    let expect = [("a", 1), ("b", 1), ("a", 2)].map(|(namespace, count)| (namespace.to_owned(), count));
    assert_eq!(*assembler.assembled.lock().unwrap(), expect);
    let registry = engine.registry();
    let names = |namespace: &str| -> Vec<String> {
        let resources = registry.resources(ResourceKind::Agent, &namespace.parse().unwrap());
        resources.iter().map(|resource| resource.manifest.key.name.clone()).collect()
    };
    assert_eq!((names("a"), names("b")), (vec!["one".to_owned(), "three".into()], vec!["two".to_owned()]));
    assert_eq!(registry.generation(), 3);
    engine.delete_resource(Actor::local(), manifest("b", "two").key).await.unwrap();
    assert!(!engine.registry().has_namespace(&"b".parse().unwrap()));
    assert!(engine.registry().has_namespace(&"a".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_slow_change_in_one_namespace_does_not_block_another() {
    let assembler = Arc::new(Describing::default());
    let engine = assembler.start().await;
    let slow = engine.create_resource(Actor::local(), manifest("slow", "one"));
    let others = async {
        // More namespaces than stripes of the lock: only those on the same stripe are blocked.
        let mut stored = 0;
        for number in 0..20 {
            let created = engine.create_resource(Actor::local(), manifest(&format!("quick-{number}"), "one"));
            stored += usize::from(tokio::time::timeout(Duration::from_secs(1), created).await.is_ok());
        }
        assembler.slow.notify_one();
        stored
    };
    let (slow, stored) = tokio::join!(slow, others);
    slow.unwrap();
    assert!(stored >= 10, "{stored} of 20");
}
