//! A call in this process: a query of the tool, in an engine of its own with a store in memory.
//!
//! The engine checks, limits and audits the call as a server does. Of the MCP servers, only those that the tool may
//! belong to are started, and they end with the call. The audit records of the call are spooled for the store in
//! `--data`, if there is one: only its server writes to the audit log.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use bosun_adapters::{
    address::Reachable,
    manifests::{Library, Manifests},
    runner::{a2a::A2aServers, builtin::Builtins, nango::NangoSettings},
    secret::Secrets,
    store::sqlite::audit::spool,
};
use bosun_core::{
    Actor, Binding, CallId, Content, Event, Namespace, Outcome, QueryLimits,
    audit::AuditRecord,
    event::{AskedCall, CallRoute},
    machine::Decision,
    query::TargetKind,
};
use bosun_engine::{
    AskedDecision, DecisionTarget, Engine, EngineError, EngineSettings, QueryKey, Registry, Submission, SystemClock,
    Watched,
    blob::MemoryBlobs,
    memory::MemoryStore,
    resource::{Assemble, ResourceKind},
    store::RecordSearch,
    tool_server::{ServerPhase, is_tool_of},
};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{CallResult, INVALID_ARGUMENTS, LocalOptions, run_by_client, unknown_tool};
use crate::{
    app::Unusable,
    commands::{
        ask::{TerminalPrompt, progress_line},
        report::printable,
    },
    mcp::McpServers,
    process,
    reload::Sources,
};

const DEFAULT_MANIFESTS: &str = "./agents";
/// How often the state of a server that has not answered yet is looked at: only new tools are announced.
const DISCOVERY_POLLED: Duration = Duration::from_millis(50);
/// The grace period of a call that was cancelled.
const GRACE: Duration = Duration::from_secs(2);
/// More records than one call has.
const RECORDS: usize = 100;

impl LocalOptions {
    pub(super) async fn call(
        self,
        namespace: Option<String>,
        name: &str,
        arguments: &str,
    ) -> anyhow::Result<CallResult> {
        let namespace = namespace.map_or_else(|| Ok(Namespace::default()), |name| name.parse::<Namespace>())?;
        let data = self.data.clone();
        let caller = Caller::open(self, &namespace, name).await?;
        let result = caller.call(&namespace, name, arguments).await;
        if let Err(error) = caller.spool_records(&data, &namespace).await {
            anstream::eprintln!("warning: the call cannot be recorded in the audit log: {error:#}");
        }
        caller.close().await;
        result
    }

    /// The folders of manifests; none if there are none by default, since builtin tools need no files.
    fn directories(&self) -> Vec<PathBuf> {
        match self.manifests.as_slice() {
            [] if Path::new(DEFAULT_MANIFESTS).exists() => vec![PathBuf::from(DEFAULT_MANIFESTS)],
            given => given.to_vec(),
        }
    }
}

/// An engine for one call.
struct Caller {
    engine: Engine,
    mcp: McpServers,
    a2a: Arc<A2aServers>,
    /// The MCP and A2A servers that the tool may belong to.
    servers: Vec<String>,
}

impl Caller {
    async fn open(options: LocalOptions, namespace: &Namespace, name: &str) -> anyhow::Result<Self> {
        let clock = Arc::new(SystemClock);
        let builtins = Arc::new(Builtins::new(clock.clone()));
        let directories = options.directories();
        let mut sources = Sources::new(directories.clone(), options.tools, Arc::clone(&builtins));
        let (mut manifests, opened) =
            sources.open().await.map_err(|faults| anyhow!("{}", Unusable { faults, directories: &directories }))?;
        for finding in opened.findings() {
            anstream::eprintln!("warning: {}", printable(&finding));
        }
        let servers = keep_servers_of(&mut manifests, namespace, name);
        if servers.is_empty() && find(&manifests, namespace, name).is_none() {
            manifests.tools.extend(builtins.tool(name).map(|tool| (namespace.clone(), tool)));
        }
        let secrets = Arc::new(Secrets::new(Some(options.secrets), std::env::vars()));
        let mut library = Library::new(manifests, Arc::clone(&secrets), Reachable::default(), builtins);
        if let Some(url) = options.nango_url {
            let connections = options.nango_connections.into_iter().collect();
            library = library.with_nango(NangoSettings { url, connections }, clock.clone());
        }
        let (mcp, library) = McpServers::open_for_one_call(&options.data, secrets, library)?;
        let (library, a2a) = library.with_a2a_servers(clock.clone());
        let limits = QueryLimits::default();
        let query_timeout = limits.query_timeout.max(options.tool_timeout);
        let limits = QueryLimits { tool_timeout: options.tool_timeout, query_timeout, ..limits };
        let settings = EngineSettings { limits, ..EngineSettings::default() };
        let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::new()));
        let engine = Engine::start(store, blobs, Arc::new(library) as Arc<dyn Assemble>, clock, settings).await?;
        Ok(Self { engine, mcp, a2a, servers })
    }

    async fn call(&self, namespace: &Namespace, name: &str, arguments: &str) -> anyhow::Result<CallResult> {
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
        let mut interrupted = std::pin::pin!(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        tokio::select! {
            discovered = self.discover(namespace, name) => discovered?,
            () = &mut interrupted => return Err(anyhow!("interrupted before the tool was called")),
        }
        let registry = self.engine.registry();
        match registry.tool(namespace, name) {
            Some(tool) => {
                if let Some(warning) = tool.deprecation_warning() {
                    anstream::eprintln!("warning: {}", printable(&warning));
                }
                if tool.is_external() {
                    return Err(run_by_client(name));
                }
            }
            // Of a tool that a server has not announced, the engine says what the server's state is.
            None if self.servers.is_empty() => return Err(not_found(&registry, namespace, name)),
            None => {}
        }
        let submission = Submission::to(TargetKind::Tool, Actor::local(), namespace.clone(), name, arguments);
        let submitted = match self.engine.submit(submission, None).await {
            Err(EngineError::InvalidArguments { violations, .. }) => {
                let messages: Vec<_> = violations.into_iter().map(|violation| violation.message).collect();
                return Ok(CallResult::Failure { code: INVALID_ARGUMENTS.into(), message: messages.join("; ") });
            }
            submitted => submitted?,
        };
        let key = (namespace.clone(), submitted.snapshot.head.name.clone());
        tokio::select! {
            followed = self.follow(&key, name) => followed,
            () = interrupted => {
                self.engine.cancel(Actor::local(), key, None).await?;
                Err(anyhow!("the call was cancelled; it may have taken effect already"))
            }
        }
    }

    /// Waits until it is known whether a server has the tool.
    async fn discover(&self, namespace: &Namespace, name: &str) -> Result<(), EngineError> {
        if self.servers.is_empty() {
            return Ok(());
        }
        if io::stderr().is_terminal() {
            anstream::eprintln!("  · connecting to {}", self.servers.join(", "));
        }
        let mut look = tokio::time::interval(DISCOVERY_POLLED);
        loop {
            let registry = self.engine.refresh().await?;
            let has_answered = |server: &String| {
                let tools = registry.tool_server(namespace, server).map(|status| status.phase);
                let agents = registry.agent_server(namespace, server).map(|status| status.phase);
                [tools, agents].into_iter().flatten().all(|phase| phase != ServerPhase::Discovering)
            };
            let is_known = match registry.tool(namespace, name).map(|tool| &tool.binding) {
                Some(Binding::Mcp { server, .. } | Binding::A2a { server, .. }) => has_answered(server),
                _ => self.servers.iter().all(has_answered),
            };
            if is_known {
                // A server may have answered since the registry was assembled.
                self.engine.refresh().await?;
                return Ok(());
            }
            tokio::select! {
                () = self.mcp.tools_changed() => {}
                () = self.a2a.agents_changed() => {}
                _ = look.tick() => {}
            }
        }
    }

    /// Follows the query to its end.
    async fn follow(&self, key: &QueryKey, tool: &str) -> anyhow::Result<CallResult> {
        let shows_progress = io::stderr().is_terminal();
        let mut watch = self.engine.watch(key, 0).await?;
        let mut finished = None;
        let mut failure = None;
        while let Some(item) = watch.next().await? {
            match item {
                Watched::Progress(call) if shows_progress => {
                    let progress = call.progress;
                    let line = progress_line(&call.tool, progress.done, progress.total, progress.message.as_deref());
                    // A terminal that is gone is no reason to stop the tool.
                    let _ = writeln!(anstream::stderr(), "  · {line}");
                }
                Watched::Progress(_) | Watched::Delta { .. } | Watched::BelowEnded(_) => {}
                // An agent behind the tool needs a client or a person.
                Watched::Below(call) => {
                    self.engine.cancel(Actor::local(), key.clone(), None).await?;
                    return Err(anyhow!(
                        "tool `{}` waits for a client: call it on a server, with `--server`",
                        printable(&call.asked.tool)
                    ));
                }
                Watched::Entry(entry) => match &entry.event {
                    Event::CallFinished { call, outcome } => finished = Some((*call, Arc::clone(outcome))),
                    Event::CallAsked(asked) => match &asked.route {
                        CallRoute::Refused { code, message, .. } => failure = Some((code.clone(), message.clone())),
                        CallRoute::Approval { .. } => self.approve(key, asked).await?,
                        CallRoute::Parameters { .. } | CallRoute::Outside { .. } => {
                            return self.give_up(key, &asked.tool).await;
                        }
                        CallRoute::Inside { .. } | CallRoute::Cached { .. } => {}
                    },
                    // What an agent behind an A2A server asks.
                    Event::CallQuestioned { .. } => return self.give_up(key, tool).await,
                    Event::Failed { code, message } => failure = Some((code.clone(), message.clone())),
                    _ => {}
                },
            }
        }
        match (finished, failure) {
            (Some((call, outcome)), _) => self.result(key, call, &outcome).await,
            (None, Some((code, message))) => Ok(CallResult::Failure { code, message }),
            (None, None) => Err(anyhow!("the call ended without an outcome")),
        }
    }

    /// Asks the person at the terminal whether the call may run.
    async fn approve(&self, key: &QueryKey, asked: &AskedCall) -> anyhow::Result<()> {
        let decision = match TerminalPrompt::default().ask(&asked.tool, &asked.arguments).await? {
            None => return self.give_up(key, &asked.tool).await,
            Some(bosun_client::Decision::Approve) => Decision::Approved { arguments: None },
            Some(bosun_client::Decision::Reject { reason }) => Decision::Rejected { reason },
        };
        let asked = AskedDecision { target: DecisionTarget::Call(asked.call), decision, seen: None };
        self.engine.decide(Actor::local(), key.clone(), asked, None).await?;
        Ok(())
    }

    /// Ends a call that only a person can continue.
    async fn give_up<T>(&self, key: &QueryKey, tool: &str) -> anyhow::Result<T> {
        self.engine.cancel(Actor::local(), key.clone(), None).await?;
        Err(anyhow!(
            "tool `{}` waits for a person: answer on standard input, or call it on a server, with `--server`, and decide \
             with `bosun approvals`",
            printable(tool)
        ))
    }

    async fn result(&self, key: &QueryKey, call: CallId, outcome: &Outcome) -> anyhow::Result<CallResult> {
        Ok(CallResult::Success(match outcome {
            Outcome::Failure { code, message, .. } => {
                return Ok(CallResult::Failure { code: code.clone(), message: message.clone() });
            }
            Outcome::Success { content: Content::Inline(value) } => value.clone(),
            // As a model reads them, with a mark for each image.
            Outcome::Success { content: Content::Blocks(blocks) } => blocks.text().into(),
            Outcome::Success { content: Content::Large(large) } => {
                let content = self.engine.result(key, call).await?;
                let bytes = content.read(0..content.size).await?;
                let text = String::from_utf8(bytes.to_vec()).context("the result is not UTF-8")?;
                if large.media_type.is_json() { serde_json::from_str(&text)? } else { Value::String(text) }
            }
        }))
    }

    /// Spools the audit records of the call for the server of the store in `data`, if there is a store.
    async fn spool_records(&self, data: &Path, namespace: &Namespace) -> anyhow::Result<()> {
        if !spool::has_store(data) {
            return Ok(());
        }
        let search = RecordSearch { limit: RECORDS, ..RecordSearch::default() };
        let mut found = self.engine.audit(namespace, &search).await?.records;
        found.sort_by_key(|numbered| numbered.seq);
        let user = process::user_id();
        for record in found.into_iter().map(|numbered| numbered.record) {
            let actor = record.actor.is_some().then(|| user.clone().map(Into::into)).flatten();
            spool::append(data, &AuditRecord { actor, ..record })?;
        }
        Ok(())
    }

    async fn close(self) {
        // Nothing in memory can fail to be committed.
        let _ = self.engine.shut_down(GRACE).await;
        self.mcp.shutdown().await;
        self.a2a.shutdown().await;
    }
}

/// A tool that the files declare, by its name or its `lc_name`.
fn find<'a>(manifests: &'a Manifests, namespace: &Namespace, name: &str) -> Option<&'a Binding> {
    let of_namespace = || manifests.tools.iter().filter(|(owner, _)| owner == namespace).map(|(_, tool)| tool);
    let named = of_namespace().find(|tool| tool.name == name);
    let tool = named.or_else(|| of_namespace().find(|tool| tool.lc_name.as_deref() == Some(name)));
    tool.map(|tool| &tool.binding)
}

/// Removes the servers that cannot have the tool, and returns the names of those that remain.
fn keep_servers_of(manifests: &mut Manifests, namespace: &Namespace, name: &str) -> Vec<String> {
    let declared = find(manifests, namespace, name).cloned();
    let may_have_it = |owner: &Namespace, server: &str| {
        owner == namespace
            && match &declared {
                Some(Binding::Mcp { server: of_tool, .. }) => of_tool == server,
                Some(_) => false,
                None => is_tool_of(server, name),
            }
    };
    manifests.mcp_servers.retain(|server| may_have_it(&server.namespace, &server.name));
    manifests.a2a_servers.retain(|server| may_have_it(&server.namespace, &server.name));
    let of_tools = manifests.mcp_servers.iter().map(|server| server.name.clone());
    of_tools.chain(manifests.a2a_servers.iter().map(|server| server.name.clone())).collect()
}

fn not_found(registry: &Registry, namespace: &Namespace, name: &str) -> anyhow::Error {
    let tools = registry.resources(ResourceKind::Tool, namespace);
    let known = tools.iter().map(|tool| tool.manifest.key.name.as_str());
    unknown_tool(name, &format!("in namespace `{namespace}` of these files"), known)
}
