//! MCP servers in the program: the only place that knows whether the build connects to any.

use std::{path::Path, sync::Arc};

use bosun_adapters::{manifests::Library, secret::Secrets};
use bosun_engine::Engine;
use tokio_util::sync::CancellationToken;

/// The file of pinned definitions, in the directory of data.
#[cfg(feature = "mcp")]
const PINS: &str = "mcp-pins.json";

/// The client side of MCP servers; empty in a build without the feature.
#[derive(Debug)]
pub(crate) struct McpServers {
    #[cfg(feature = "mcp")]
    host: Arc<bosun_mcp::Host>,
    /// The copy of the pins of a host that must not change them.
    #[cfg(feature = "mcp")]
    _pins: Option<tempfile::TempDir>,
}

#[cfg(feature = "mcp")]
impl McpServers {
    /// Attaches the host to the library of manifests, which lists the servers to connect to.
    pub(crate) fn open(data: &Path, secrets: Arc<Secrets>, library: Library) -> anyhow::Result<(Self, Library)> {
        use anyhow::Context as _;
        use bosun_adapters::own_program::own_program;
        let file = data.join(PINS);
        let pins = Some(file.clone());
        let clock = Arc::new(bosun_engine::SystemClock);
        let host = bosun_mcp::Host::open(Arc::clone(library.pool()), secrets, pins, clock, own_program());
        let host =
            host.with_context(|| format!("the pinned definitions of MCP tools in {} cannot be used", file.display()))?;
        let host = Arc::new(host);
        let library = library.with_mcp_host(Arc::clone(&host) as Arc<dyn bosun_adapters::mcp::McpHost>);
        Ok((Self { host, _pins: None }, library))
    }

    /// The same for a call outside the server. Definitions that the server in `data` has pinned are respected and not
    /// changed: the file belongs to the server, which may be running.
    pub(crate) fn open_for_one_call(
        data: &Path,
        secrets: Arc<Secrets>,
        library: Library,
    ) -> anyhow::Result<(Self, Library)> {
        use anyhow::Context as _;
        let copy = tempfile::tempdir().context("cannot create a temporary directory")?;
        let pins = data.join(PINS);
        if pins.exists() {
            let copied = std::fs::copy(&pins, copy.path().join(PINS));
            copied.with_context(|| format!("{} cannot be read", pins.display()))?;
        }
        let (servers, library) = Self::open(copy.path(), secrets, library)?;
        Ok((Self { _pins: Some(copy), ..servers }, library))
    }

    /// Resolves when the accepted tools of a server have changed.
    pub(crate) async fn tools_changed(&self) {
        self.host.tools_changed().await;
    }

    /// Assembles the registry again whenever a server has announced other tools.
    pub(crate) async fn keep_announced(&self, engine: &Engine, stopping: &CancellationToken) {
        while stopping.run_until_cancelled(self.tools_changed()).await.is_some() {
            if let Err(error) = engine.refresh().await {
                tracing::error!(error = %error, "tools that MCP servers have announced are not in effect");
            }
        }
    }

    /// Ends all sessions and programs.
    pub(crate) async fn shutdown(&self) {
        self.host.shutdown().await;
    }
}

#[cfg(not(feature = "mcp"))]
impl McpServers {
    pub(crate) fn open(_: &Path, _: Arc<Secrets>, library: Library) -> anyhow::Result<(Self, Library)> {
        Ok((Self {}, library))
    }

    pub(crate) fn open_for_one_call(
        data: &Path,
        secrets: Arc<Secrets>,
        library: Library,
    ) -> anyhow::Result<(Self, Library)> {
        Self::open(data, secrets, library)
    }

    pub(crate) async fn tools_changed(&self) {
        std::future::pending::<()>().await;
    }

    pub(crate) async fn keep_announced(&self, _: &Engine, _: &CancellationToken) {}

    pub(crate) async fn shutdown(&self) {}
}
