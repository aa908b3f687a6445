//! All A2A servers of a program, by namespace and name.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bosun_core::{Namespace, Tool};
use bosun_engine::{
    Clock, Runner,
    agent_server::{AgentServerStatus, AgentServers, AgentSkill},
};
use tokio::{runtime::Handle, sync::Notify};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{A2aRunner, link::Link, server::Server};
use crate::{manifests::A2aServerManifest, outbound::Pool, secret::Secrets};

/// How long all tasks together may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

type Table = RwLock<BTreeMap<(Namespace, String), Arc<Server>>>;

/// An agent behind a server, and the tool that asks it. Both have the name of the tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnouncedAgent {
    pub namespace: Namespace,
    pub server: String,
    pub tool: Tool,
    /// The address of the server, unless that is a secret.
    pub address: Option<String>,
    pub skills: Vec<AgentSkill>,
}

/// Fetches the cards of A2A servers, and asks the agents behind them.
pub struct A2aServers {
    table: Arc<Table>,
    secrets: Arc<Secrets>,
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
    changed: Arc<Notify>,
    runtime: Handle,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl fmt::Debug for A2aServers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("A2aServers").field("table", &self.table).finish_non_exhaustive()
    }
}

impl A2aServers {
    /// No servers yet.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn open(secrets: Arc<Secrets>, pool: Arc<Pool>, clock: Arc<dyn Clock>) -> Self {
        Self {
            table: Arc::default(),
            secrets,
            pool,
            clock,
            changed: Arc::default(),
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Resolves when the agent of a server has changed, so that the registry must be assembled again.
    pub async fn agents_changed(&self) {
        self.changed.notified().await;
    }

    /// Ends the tasks that fetch cards.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("requests to A2A servers did not end in time");
        }
    }

    /// Makes these the servers of a namespace, or of all. The cards of those that are new or changed are fetched in the
    /// background; the others are left alone.
    pub(crate) fn configure(&self, namespace: Option<&Namespace>, servers: Vec<A2aServerManifest>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_listed = |owner: &Namespace, name: &str| {
            servers.iter().any(|server| server.namespace == *owner && server.name == name)
        };
        table.retain(|(owner, name), server| {
            let stays = namespace.is_some_and(|namespace| namespace != owner) || is_listed(owner, name);
            if !stays {
                server.stop();
            }
            stays
        });
        for manifest in servers {
            let key = (manifest.namespace.clone(), manifest.name.clone());
            let earlier = table.get(&key);
            if earlier.is_some_and(|earlier| *earlier.manifest() == manifest) {
                continue;
            }
            let link = Link::new(Arc::new(manifest), Arc::clone(&self.secrets), Arc::clone(&self.pool));
            let (clock, changed) = (Arc::clone(&self.clock), Arc::clone(&self.changed));
            let server = Arc::new(Server::new(link, clock, changed, self.stop.child_token()));
            if let Some(earlier) = earlier {
                earlier.stop();
                server.inherit(earlier);
            }
            self.tasks.spawn_on(Arc::clone(&server).run(), &self.runtime);
            table.insert(key, server);
        }
    }

    /// The agents behind the servers of a namespace, or of all, as far as they are known.
    pub(crate) fn announced(&self, namespace: Option<&Namespace>) -> Vec<AnnouncedAgent> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let meant = table.iter().filter(|((owner, _), _)| namespace.is_none_or(|namespace| namespace == owner));
        let agent = |((owner, name), server): (&(Namespace, String), &Arc<Server>)| {
            let known = server.agent()?;
            Some(AnnouncedAgent {
                namespace: owner.clone(),
                server: name.clone(),
                tool: known.tool.clone(),
                address: server.address(),
                skills: known.skills().to_vec(),
            })
        };
        meant.filter_map(agent).collect()
    }

    /// The runner of tools that ask an agent.
    pub(crate) fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(A2aRunner::new(ServerTable(Arc::clone(&self.table)), Arc::clone(&self.clock)))
    }
}

impl AgentServers for A2aServers {
    fn status(&self, namespace: &Namespace, name: &str) -> Option<AgentServerStatus> {
        Some(ServerTable(Arc::clone(&self.table)).get(namespace, name)?.status())
    }
}

/// The servers, as the runner sees them.
#[derive(Clone, Debug)]
pub(super) struct ServerTable(Arc<Table>);

impl ServerTable {
    pub(super) fn get(&self, namespace: &Namespace, name: &str) -> Option<Arc<Server>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&(namespace.clone(), name.to_owned())).cloned()
    }
}
