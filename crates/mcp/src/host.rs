//! All servers of a program, by namespace and name.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use bosun_adapters::{
    manifests::McpServerManifest,
    mcp::{AnnouncedTool, McpHost},
    outbound::Pool,
    secret::Secrets,
};
use bosun_core::Namespace;
use bosun_engine::{
    Clock, Runner,
    tool_server::{ApproveError, ServerStatus, ToolServers},
};
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    pins::Pins,
    reaper::Reaper,
    runner::McpRunner,
    server::{ApproveFault, Server, Shared},
    session::SessionContext,
};

/// How long all servers together may take to shut down.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

type Table = RwLock<BTreeMap<(Namespace, String), Arc<Server>>>;

/// Connects to MCP servers, and runs their tools.
#[derive(Debug)]
pub struct Host {
    servers: Arc<Servers>,
    runtime: Handle,
    stop: CancellationToken,
}

/// The servers, as the runner and the edges see them.
#[derive(Debug)]
pub(crate) struct Servers {
    table: Table,
    pub(crate) shared: Arc<Shared>,
}

impl Host {
    /// A host without servers. Pinned definitions are stored in the file `pins`; without one they last as long as the
    /// process. `program` is this program, whose command [`REAP_COMMAND`](crate::REAP_COMMAND) ends the programs of servers after
    /// this process.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn open(
        pool: Arc<Pool>,
        secrets: Arc<Secrets>,
        pins: Option<PathBuf>,
        clock: Arc<dyn Clock>,
        program: PathBuf,
    ) -> io::Result<Self> {
        let reaper = Arc::new(Reaper::new(program));
        let means = SessionContext { pool, secrets, tasks: TaskTracker::new(), reaper };
        let pins = Arc::new(Pins::open(pins)?);
        let shared = Arc::new(Shared { means, pins, clock, tools_changed: tokio::sync::Notify::new() });
        let servers = Arc::new(Servers { table: Table::default(), shared });
        Ok(Self { servers, runtime: Handle::current(), stop: CancellationToken::new() })
    }

    /// Resolves when the accepted tools of a server have changed, so that the registry must be assembled again.
    pub async fn tools_changed(&self) {
        self.servers.shared.tools_changed.notified().await;
    }

    /// Ends all sessions and the programs behind them.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        let tasks = &self.servers.shared.means.tasks;
        tasks.close();
        if tokio::time::timeout(STOP_TIMEOUT, tasks.wait()).await.is_err() {
            tracing::warn!("MCP servers did not shut down in time");
        }
    }
}

impl Servers {
    pub(crate) fn get(&self, namespace: &Namespace, name: &str) -> Option<Arc<Server>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.get(&(namespace.clone(), name.to_owned())).cloned()
    }
}

impl McpHost for Host {
    fn configure(&self, namespace: Option<&Namespace>, servers: Vec<McpServerManifest>) {
        let mut table = self.servers.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_meant = |owner: &Namespace| namespace.is_none_or(|namespace| namespace == owner);
        let is_listed = |owner: &Namespace, name: &str| {
            servers.iter().any(|server| server.namespace == *owner && server.name == name)
        };
        table.retain(|(owner, name), server| {
            let stays = !is_meant(owner) || is_listed(owner, name);
            if !stays {
                server.stop();
            }
            stays
        });
        for manifest in servers {
            let key = (manifest.namespace.clone(), manifest.name.clone());
            let earlier = table.get(&key);
            if earlier.is_some_and(|earlier| *earlier.manifest == manifest) {
                continue;
            }
            let server = Arc::new(Server::new(manifest, Arc::clone(&self.servers.shared), self.stop.child_token()));
            if let Some(earlier) = earlier {
                earlier.stop();
                server.inherit(earlier);
            }
            let tasks = &self.servers.shared.means.tasks;
            tasks.spawn_on(Arc::clone(&server).run(), &self.runtime);
            table.insert(key, server);
        }
    }

    fn announced(&self, namespace: Option<&Namespace>) -> Vec<AnnouncedTool> {
        let table = self.servers.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut announced = Vec::new();
        for ((owner, name), server) in table.iter() {
            if namespace.is_none_or(|namespace| namespace == owner) {
                let tool = |tool| AnnouncedTool { namespace: owner.clone(), server: name.clone(), tool };
                announced.extend(server.accepted().into_iter().map(tool));
            }
        }
        announced
    }

    fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(McpRunner::new(Arc::clone(&self.servers)))
    }

    fn tool_servers(&self) -> Arc<dyn ToolServers> {
        Arc::clone(&self.servers) as Arc<dyn ToolServers>
    }
}

#[async_trait]
impl ToolServers for Servers {
    fn status(&self, namespace: &Namespace, name: &str) -> Option<ServerStatus> {
        Some(self.get(namespace, name)?.status())
    }

    async fn approve(&self, namespace: &Namespace, name: &str, tools: &[String]) -> Result<Vec<String>, ApproveError> {
        let server = self.get(namespace, name).ok_or_else(|| ApproveError::NotFound(name.to_owned()))?;
        let tools = tools.to_vec();
        // Writes the file of pins.
        let approved = tokio::task::spawn_blocking(move || server.approve(&tools)).await;
        let approved = approved.map_err(|error| ApproveError::NotSaved(io::Error::other(error)))?;
        approved.map_err(|fault| match fault {
            ApproveFault::NotWithheld(tool) => ApproveError::NotWithheld { server: name.to_owned(), tool },
            ApproveFault::NotSaved(error) => ApproveError::NotSaved(error),
        })
    }
}
