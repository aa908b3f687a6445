//! One configured server: its connection, kept up in the background, and the tools that it has announced.
//!
//! A task connects, lists the tools, and lists them again when the server says that they changed, on a poll, and after
//! every reconnection. Calls use the same session, or one of their caller's own. A failure backs off; a call that needs the server shortens the wait. Tools that were known stay
//! while the server is down: a call of one fails with the reason.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use bosun_adapters::{announced_name, manifests::McpServerManifest};
use bosun_core::{Timestamp, Tool, schema::Schema};
use bosun_engine::{
    Clock,
    tool_server::{DefinitionChange, ServerPhase, ServerStatus, ServerTool},
};
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    definition::Definition,
    error::McpError,
    identity::SessionIdentity,
    pins::{Pins, Verdict},
    pool::{BorrowedSession, SessionPool},
    session::{Session, SessionContext},
};

/// The backoff between attempts: doubled from the first to the last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// A session that lasted this long resets the backoff.
const STEADY: Duration = Duration::from_secs(30);
/// The minimum interval between two lists, however often a server says that its tools have changed, and whatever
/// `pollInterval` says: a manifest may come from a client.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
const REMOVED: &str = "it is no longer configured";
/// How many unusable tools the status message names.
const FAULTS_SHOWN: usize = 3;

/// What all servers of a host share.
pub(crate) struct Shared {
    pub(crate) means: SessionContext,
    pub(crate) pins: Arc<Pins>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Notified when the accepted tools of any server have changed.
    pub(crate) tools_changed: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("means", &self.means).finish_non_exhaustive()
    }
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) manifest: Arc<McpServerManifest>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    connection: watch::Sender<Connection>,
    /// Notified by a call that waits for a session.
    wanted: Notify,
    list_changed: Arc<Notify>,
    is_older: AtomicBool,
    state: Mutex<State>,
    /// The sessions of callers that do not share the one of `connection`.
    callers: Arc<SessionPool>,
}

/// A session for one call.
#[derive(Debug)]
pub(crate) struct CallSession {
    pub(crate) session: Arc<Session>,
    /// Of a caller that has its own.
    _borrowed: Option<BorrowedSession>,
}

/// The connection of a server, with the number of the attempt to connect.
#[derive(Clone, Debug)]
enum Connection {
    Connecting(u64),
    Up(u64, Arc<Session>),
    Down(u64, McpError),
}

#[derive(Debug)]
struct State {
    phase: ServerPhase,
    since: Timestamp,
    message: String,
    peer: Option<String>,
    tools: Vec<KnownTool>,
}

/// A tool that the server has announced.
#[derive(Clone, Debug)]
pub(crate) struct KnownTool {
    definition: Definition,
    /// Under its name in the catalogue.
    pub(crate) tool: Tool,
    /// The schema of its results.
    pub(crate) output: Option<Arc<Schema>>,
    /// Why it is withheld; empty if it is not.
    changes: Vec<DefinitionChange>,
}

impl Server {
    pub(crate) fn new(manifest: McpServerManifest, shared: Arc<Shared>, stop: CancellationToken) -> Self {
        let state = State {
            phase: ServerPhase::Discovering,
            since: shared.clock.now(),
            message: "it has not answered yet".to_owned(),
            peer: None,
            tools: Vec::new(),
        };
        Self {
            manifest: Arc::new(manifest),
            shared,
            stop,
            connection: watch::Sender::new(Connection::Connecting(0)),
            wanted: Notify::new(),
            list_changed: Arc::default(),
            is_older: AtomicBool::new(false),
            state: Mutex::new(state),
            callers: Arc::default(),
        }
    }

    /// Copies the known tools of the server that this one replaces, so that they stay in the catalogue until it answers.
    pub(crate) fn inherit(&self, earlier: &Self) {
        self.state().tools.clone_from(&earlier.state().tools);
    }

    /// Ends the connection and the task that keeps it up.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let state = self.state();
        let tool = |known: &KnownTool| ServerTool {
            name: known.tool.name.clone(),
            original: known.definition.name.clone(),
            description: known.tool.description.clone(),
            hash: known.definition.hash(),
            changes: known.changes.clone(),
        };
        ServerStatus {
            phase: state.phase,
            since: state.since,
            message: state.message.clone(),
            tools: state.tools.iter().map(tool).collect(),
            peer: state.peer.clone(),
        }
    }

    /// The tools that may be used.
    pub(crate) fn accepted(&self) -> Vec<Tool> {
        let state = self.state();
        state.tools.iter().filter(|known| known.changes.is_empty()).map(|known| known.tool.clone()).collect()
    }

    /// A tool by the server's own name of it.
    ///
    /// # Errors
    /// With a sentence for the model, if it cannot be called.
    pub(crate) fn tool(&self, original: &str) -> Result<KnownTool, String> {
        let state = self.state();
        match state.tools.iter().find(|known| known.definition.name == original) {
            Some(known) if known.changes.is_empty() => Ok(known.clone()),
            Some(_) => Err(format!(
                "the definition of tool `{original}` has changed and waits for an operator's approval; do not call it again"
            )),
            None if state.peer.is_none() => Err(state.message.clone()),
            None => Err(format!("the server does not announce a tool `{original}`; do not call it again")),
        }
    }

    /// Approves the withheld definitions of these tools of the catalogue, or of all; returns their names.
    pub(crate) fn approve(&self, tools: &[String]) -> Result<Vec<String>, ApproveFault> {
        let withheld: Vec<KnownTool> =
            self.state().tools.iter().filter(|known| !known.changes.is_empty()).cloned().collect();
        if let Some(unknown) = tools.iter().find(|name| !withheld.iter().any(|known| known.tool.name == **name)) {
            return Err(ApproveFault::NotWithheld(unknown.clone()));
        }
        let is_meant = |known: &&KnownTool| tools.is_empty() || tools.contains(&known.tool.name);
        let meant: Vec<&KnownTool> = withheld.iter().filter(is_meant).collect();
        let definitions = meant.iter().map(|known| known.definition.clone()).collect();
        let names: Vec<String> = meant.iter().map(|known| known.tool.name.clone()).collect();
        let (namespace, name) = (&self.manifest.namespace, &self.manifest.name);
        self.shared.pins.approve(namespace, name, definitions).map_err(ApproveFault::NotSaved)?;
        let mut state = self.state();
        for known in &mut state.tools {
            // The server may have announced another definition since the snapshot above.
            if meant.iter().any(|meant| meant.definition == known.definition) {
                known.changes.clear();
            }
        }
        self.settle(&mut state);
        drop(state);
        self.shared.tools_changed.notify_one();
        Ok(names)
    }

    /// Keeps the connection up, and closes idle sessions of callers, until the server is stopped.
    pub(crate) async fn run(self: Arc<Self>) {
        tokio::select! {
            () = self.keep_connected() => {}
            () = self.callers.close_idle() => {}
        }
        self.callers.close_all().await;
    }

    async fn keep_connected(&self) {
        let (mut attempt, mut failures) = (0, 0_u32);
        while !self.stop.is_cancelled() {
            attempt += 1;
            self.connection.send_replace(Connection::Connecting(attempt));
            let began = Instant::now();
            let Some(opened) = self.stop.run_until_cancelled(self.open()).await else { break };
            let error = match opened {
                Ok(session) => {
                    self.connection.send_replace(Connection::Up(attempt, Arc::clone(&session)));
                    let error = self.stop.run_until_cancelled(self.keep_listed(&session)).await;
                    session.close().await;
                    error.unwrap_or_else(|| McpError::Unavailable(REMOVED.to_owned()))
                }
                Err(error) => error,
            };
            let is_retired = matches!(error, McpError::Stale(_));
            failures = if began.elapsed() > STEADY || is_retired { 0 } else { failures + 1 };
            if !is_retired && !self.stop.is_cancelled() {
                self.fail(&error);
            }
            self.connection.send_replace(Connection::Down(attempt, error));
            let until = began + wait_after(failures);
            let backing_off = async {
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    // A call waits for a session. Even so, a program that crashes at once is not restarted in a loop.
                    () = self.wanted.notified() => tokio::time::sleep_until(until.min(began + FIRST_WAIT)).await,
                }
            };
            let _ = self.stop.run_until_cancelled(backing_off).await;
        }
    }

    async fn open(&self) -> Result<Arc<Session>, McpError> {
        let session = self.open_session(&[]).await?;
        match self.list(&session).await {
            Ok(()) => Ok(session),
            Err(error) => {
                session.close().await;
                Err(error)
            }
        }
    }

    async fn open_session(&self, headers: &[(String, String)]) -> Result<Arc<Session>, McpError> {
        let means = &self.shared.means;
        Session::open(means, &self.manifest, headers, &self.is_older, &self.list_changed).await.map(Arc::new)
    }

    /// Lists the tools whenever they may have changed; returns why the session can no longer be used.
    async fn keep_listed(&self, session: &Session) -> McpError {
        loop {
            let listed = Instant::now();
            tokio::select! {
                () = session.closed.cancelled() => {
                    return if session.is_retired() {
                        McpError::Stale("the session was given up".to_owned())
                    } else {
                        McpError::Broken(session.why_closed().await)
                    };
                }
                () = tokio::time::sleep(self.manifest.poll_interval.max(LIST_INTERVAL)) => {}
                () = self.list_changed.notified() => tokio::time::sleep_until(listed + LIST_INTERVAL).await,
            }
            if let Err(error) = self.list(session).await {
                return error;
            }
        }
    }

    async fn list(&self, session: &Session) -> Result<(), McpError> {
        let announced = session.list_tools(self.manifest.silence()).await?;
        let (definitions, faults) = read_all(&announced);
        let (pins, manifest) = (Arc::clone(&self.shared.pins), Arc::clone(&self.manifest));
        let reviewing = tokio::task::spawn_blocking(move || {
            let verdicts = pins.review(&manifest.namespace, &manifest.name, manifest.pin, &definitions);
            verdicts.map(|verdicts| known_tools(&manifest, definitions, verdicts))
        });
        let unsaved = |error: String| McpError::Unavailable(format!("its definitions cannot be pinned: {error}"));
        let known = reviewing.await.map_err(|error| unsaved(error.to_string()))?;
        let known = known.map_err(|error| unsaved(error.to_string()))?;
        self.accept(known, &faults, session);
        Ok(())
    }

    fn accept(&self, known: Vec<KnownTool>, faults: &[String], session: &Session) {
        let mut state = self.state();
        let usable = |tools: &[KnownTool]| -> Vec<Tool> {
            tools.iter().filter(|known| known.changes.is_empty()).map(|known| known.tool.clone()).collect()
        };
        let is_changed = usable(&state.tools) != usable(&known);
        state.tools = known;
        state.peer = Some(session.description.clone());
        self.settle(&mut state);
        if !faults.is_empty() {
            let shown = faults.iter().take(FAULTS_SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
            state.message = format!("{}; {} cannot be used: {shown}", state.message, faults.len());
        }
        drop(state);
        if is_changed {
            self.shared.tools_changed.notify_one();
        }
    }

    /// The phase and the message of a server whose tools are known.
    fn settle(&self, state: &mut State) {
        let withheld = state.tools.iter().filter(|known| !known.changes.is_empty()).count();
        let usable = state.tools.len() - withheld;
        // ARK's own wording.
        let found = format!("Successfully discovered {usable} tools");
        if withheld == 0 {
            self.enter(state, ServerPhase::Ready, found);
        } else {
            let name = &self.manifest.name;
            let message = format!(
                "{found}; {withheld} withheld because of changes: see `bosun mcp show {name}`, then `bosun mcp \
                 approve {name}`"
            );
            self.enter(state, ServerPhase::Quarantined, message);
        }
    }

    fn fail(&self, error: &McpError) {
        let (server, namespace) = (&self.manifest.name, &self.manifest.namespace);
        tracing::warn!(server, %namespace, error = %error, "an MCP server cannot be used");
        let mut state = self.state();
        self.enter(&mut state, ServerPhase::Failed, error.to_string());
    }

    fn enter(&self, state: &mut State, phase: ServerPhase, message: String) {
        if state.phase != phase {
            let (server, namespace) = (&self.manifest.name, &self.manifest.namespace);
            tracing::info!(server, %namespace, phase = phase.as_str(), "the state of an MCP server has changed");
            (state.phase, state.since) = (phase, self.shared.clock.now());
        }
        state.message = message;
    }

    /// The session for a call: the caller's own, or the one that all callers share.
    ///
    /// # Errors
    /// If it cannot be opened, or not in time.
    pub(crate) async fn session(
        &self,
        identity: Option<&SessionIdentity>,
        timeout: Duration,
    ) -> Result<CallSession, McpError> {
        let Some(identity) = identity else {
            return Ok(CallSession { session: self.shared_session(timeout).await?, _borrowed: None });
        };
        // A call is checked against the definitions that the shared session lists.
        if self.state().peer.is_none() {
            self.shared_session(timeout).await?;
        }
        let open = async {
            let session = self.open_session(&identity.headers).await?;
            // What is opened after the pool was emptied would never be closed.
            if self.stop.is_cancelled() {
                session.close().await;
                return Err(McpError::Unavailable(REMOVED.to_owned()));
            }
            Ok(session)
        };
        match tokio::time::timeout(timeout, self.callers.get(identity, open)).await {
            Ok(found) => found.map(|(session, borrowed)| CallSession { session, _borrowed: Some(borrowed) }),
            Err(_) => Err(McpError::Unavailable(format!("it has not answered within {timeout:?}"))),
        }
    }

    /// The session that all callers share, as soon as there is one.
    ///
    /// # Errors
    /// If the attempt that this call waits for fails, or takes too long.
    async fn shared_session(&self, timeout: Duration) -> Result<Arc<Session>, McpError> {
        let mut connection = self.connection.subscribe();
        // An attempt that had failed before this call says nothing about now.
        let earlier = match &*connection.borrow() {
            Connection::Down(attempt, _) | Connection::Up(attempt, _) => *attempt,
            Connection::Connecting(attempt) => attempt.saturating_sub(1),
        };
        self.wanted.notify_one();
        let up = connection.wait_for(|connection| match connection {
            Connection::Connecting(_) => false,
            Connection::Up(_, session) => session.is_open(),
            Connection::Down(attempt, _) => *attempt > earlier,
        });
        let found = match tokio::time::timeout(timeout, up).await {
            Ok(Ok(found)) => found.clone(),
            Ok(Err(_)) => return Err(McpError::Unavailable(REMOVED.to_owned())),
            Err(_) => return Err(McpError::Unavailable(format!("it has not answered within {timeout:?}"))),
        };
        match found {
            Connection::Up(_, session) => Ok(session),
            Connection::Down(_, error) => Err(McpError::Unavailable(error.to_string())),
            Connection::Connecting(_) => Err(McpError::Unavailable("it is being connected to".to_owned())),
        }
    }
}

/// Why nothing was approved.
#[derive(Debug)]
pub(crate) enum ApproveFault {
    NotWithheld(String),
    NotSaved(std::io::Error),
}

fn wait_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        _ => FIRST_WAIT.saturating_mul(1 << (failures - 1).min(10)).min(LAST_WAIT),
    }
}

/// The definitions that can be used, each name once, and what is wrong with the others.
fn read_all(announced: &[Value]) -> (Vec<Definition>, Vec<String>) {
    let (mut definitions, mut faults): (Vec<Definition>, Vec<String>) = Default::default();
    for one in announced {
        match Definition::read(one) {
            Ok(found) if definitions.iter().any(|earlier| earlier.name == found.name) => {
                faults.push(format!("tool `{}` is announced twice", found.name));
            }
            Ok(found) => definitions.push(found),
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    (definitions, faults)
}

fn known_tools(manifest: &McpServerManifest, definitions: Vec<Definition>, verdicts: Vec<Verdict>) -> Vec<KnownTool> {
    let originals: Vec<&str> = definitions.iter().map(|definition| definition.name.as_str()).collect();
    let names = announced_name::in_catalogue(&manifest.name, &originals);
    let mut known = Vec::with_capacity(definitions.len());
    for ((definition, verdict), name) in definitions.into_iter().zip(verdicts).zip(names) {
        let (server, tool) = (&manifest.name, &definition.name);
        let changes = match verdict {
            Verdict::Accepted => Vec::new(),
            Verdict::Noted(changes) => {
                let fields: Vec<&str> = changes.iter().map(|change| change.field.as_str()).collect();
                tracing::warn!(server, tool, ?fields, "an MCP server has changed the definition of a tool");
                Vec::new()
            }
            Verdict::Withheld(changes) => changes,
        };
        let output = definition.output_schema.clone().and_then(|schema| Schema::compile(&Arc::new(schema)).ok());
        let tool = definition.to_tool(name, manifest);
        known.push(KnownTool { definition, tool, output: output.map(Arc::new), changes });
    }
    known.sort_by(|left, right| left.tool.name.cmp(&right.tool.name));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_the_next_attempt_doubles_up_to_a_minute() {
        let waits = [0, 1, 2, 3, 6, 7, 8, u32::MAX].map(|failures| wait_after(failures).as_secs());
        assert_eq!(waits, [0, 1, 2, 4, 32, 60, 60, 60]);
    }
}
