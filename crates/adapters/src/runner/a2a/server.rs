//! One configured server: its card, fetched in the background, and the agent that it describes.
//!
//! A task fetches the card, and fetches it again on a poll, with its `ETag`. A failure backs off. An agent that was known
//! stays while its server is down: a call of it fails with the reason.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bosun_core::{Binding, Timestamp, Tool, ceiling::TOOL_DESCRIPTION_BYTES, tool::ToolOrigin};
use bosun_engine::{
    Clock,
    agent_server::{AgentServerStatus, AgentSkill, ServedAgent},
    tool_server::ServerPhase,
};
use bosun_wire::a2a::{CARD_PATH, VERSION, VERSION_HEADER};
use hyper::{
    StatusCode,
    header::{ETAG, HeaderValue, IF_NONE_MATCH},
};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    card::{self, Card, Interface},
    error::A2aError,
    link::{A2aRequest, Link},
};
use crate::{announced_name, manifests::A2aServerManifest};

/// The backoff between attempts: doubled from the first to the last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// Where a card was before 0.3.
const OLDER_CARD_PATH: &str = ".well-known/agent.json";

/// One server.
pub(super) struct Server {
    pub(super) link: Link,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    state: Mutex<State>,
    /// The agent, once its card was read.
    known: watch::Sender<Option<Arc<KnownAgent>>>,
    /// Notified when the agent of any server has changed.
    changed: Arc<Notify>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("link", &self.link).finish_non_exhaustive()
    }
}

/// The agent behind a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KnownAgent {
    card: Card,
    /// The tool that asks it, under its name in the catalogue.
    pub(super) tool: Tool,
}

impl KnownAgent {
    pub(super) fn interface(&self) -> &Interface {
        &self.card.interface
    }

    pub(super) fn skills(&self) -> &[AgentSkill] {
        &self.card.skills
    }
}

#[derive(Debug)]
struct State {
    phase: ServerPhase,
    since: Timestamp,
    message: String,
    address: Option<String>,
    /// The tag of the card that was read last, and the URL that it is of.
    etag: Option<(Url, HeaderValue)>,
}

impl Server {
    pub(super) fn new(link: Link, clock: Arc<dyn Clock>, changed: Arc<Notify>, stop: CancellationToken) -> Self {
        let state = State {
            phase: ServerPhase::Discovering,
            since: clock.now(),
            message: "its card has not been fetched yet".to_owned(),
            address: None,
            etag: None,
        };
        Self { link, clock, stop, state: Mutex::new(state), known: watch::Sender::new(None), changed }
    }

    pub(super) fn manifest(&self) -> &A2aServerManifest {
        &self.link.manifest
    }

    /// Keeps the agent of the server that this one replaces, so that it stays in the catalogue until the card is read.
    pub(super) fn inherit(&self, earlier: &Self) {
        let known = earlier.known.borrow().as_ref().map(|known| Arc::new(self.known_agent(known.card.clone())));
        self.known.send_replace(known);
    }

    /// Ends the task that fetches the card.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent, if its card was read.
    pub(super) fn agent(&self) -> Option<Arc<KnownAgent>> {
        self.known.borrow().clone()
    }

    /// The address that the card was last fetched from.
    pub(super) fn address(&self) -> Option<String> {
        self.state().address.clone()
    }

    /// The agent, waiting for its card if that was never read: after a restart, calls begin before it was.
    ///
    /// # Errors
    /// With the state of the server, if that takes too long.
    pub(super) async fn wait_for_agent(&self, limit: Duration) -> Result<Arc<KnownAgent>, A2aError> {
        let mut known = self.known.subscribe();
        let found = tokio::time::timeout(limit, known.wait_for(Option::is_some)).await;
        let found = found.ok().and_then(|found| found.ok().and_then(|known| known.clone()));
        found.ok_or_else(|| {
            let (name, message) = (&self.manifest().name, self.state().message.clone());
            A2aError::Unreachable(format!("A2A server `{name}` is not available: {message}"))
        })
    }

    pub(super) fn status(&self) -> AgentServerStatus {
        let state = self.state();
        let agent = self.agent().map(|known| {
            let KnownAgent { card, tool } = &*known;
            ServedAgent {
                name: tool.name.clone(),
                original: card.name.clone(),
                description: card.description.clone(),
                version: card.version.clone(),
                protocol: card.interface.generation.as_str(),
                binding: card.interface.transport.as_str(),
                skills: card.skills.clone(),
            }
        });
        AgentServerStatus {
            phase: state.phase,
            since: state.since,
            message: state.message.clone(),
            address: state.address.clone(),
            agent,
        }
    }

    /// Fetches the card until the server is stopped.
    pub(super) async fn run(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            let Some(fetched) = self.stop.run_until_cancelled(self.fetch()).await else { return };
            let wait = match fetched {
                Ok(card) => {
                    failures = 0;
                    self.accept(card);
                    self.manifest().poll_interval
                }
                Err(message) => {
                    self.fail(message);
                    let wait = FIRST_WAIT.saturating_mul(1 << failures.min(6)).min(LAST_WAIT);
                    failures += 1;
                    wait
                }
            };
            if self.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    /// Fetches the card; `None` if it still has the tag of the last one.
    async fn fetch(&self) -> Result<Option<Card>, String> {
        let address = self.link.address().await.map_err(|error| error.to_string())?;
        self.state().address = address.kept_in.is_none().then(|| shown(&address.url));
        let mut last = String::new();
        for url in card_urls(&address.url) {
            let etag = self.state().etag.clone().filter(|(of, _)| *of == url).map(|(_, etag)| etag);
            let mut request = A2aRequest::get(url.clone()).with(VERSION_HEADER, HeaderValue::from_static(VERSION));
            request.headers.extend(etag.clone().map(|etag| (IF_NONE_MATCH, etag)));
            let answer = self.link.send(&request, None).await.map_err(|error| error.to_string())?;
            match answer.status {
                StatusCode::NOT_MODIFIED if etag.is_some() => return Ok(None),
                StatusCode::NOT_FOUND => {
                    last = format!("there is no card at {}", url.path());
                    continue;
                }
                _ => {}
            }
            let card = answer.success().map_err(|error| error.to_string())?;
            let card = card::read(&card, &address.url).map_err(|fault| fault.to_string())?;
            // Before a call finds that out.
            self.link.check(&address, &card.interface.url).map_err(|error| error.to_string())?;
            self.state().etag = answer.headers.get(ETAG).cloned().map(|etag| (url, etag));
            return Ok(Some(card));
        }
        Err(last)
    }

    fn accept(&self, card: Option<Card>) {
        let known = match card {
            Some(card) => Some(Arc::new(self.known_agent(card))),
            None => self.agent(),
        };
        let is_changed = *self.known.borrow() != known;
        self.known.send_replace(known.clone());
        if let Some(KnownAgent { card, .. }) = known.as_deref() {
            let Card { name, interface, .. } = card;
            let (protocol, binding) = (interface.generation.as_str(), interface.transport.as_str());
            let message = format!("Successfully discovered agent `{name}`, which speaks A2A {protocol} over {binding}");
            self.enter(ServerPhase::Ready, message);
        }
        if is_changed {
            self.changed.notify_one();
        }
    }

    fn fail(&self, message: String) {
        let (namespace, server) = (&self.manifest().namespace, &self.manifest().name);
        tracing::warn!(%namespace, server, reason = message, "the card of an A2A server cannot be used");
        self.enter(ServerPhase::Failed, message);
    }

    fn enter(&self, phase: ServerPhase, message: String) {
        let mut state = self.state();
        if state.phase != phase {
            state.since = self.clock.now();
        }
        (state.phase, state.message) = (phase, message);
    }

    fn known_agent(&self, card: Card) -> KnownAgent {
        let manifest = self.manifest();
        let name = announced_name::in_catalogue(&manifest.name, &[&card.name]).pop().unwrap_or_default();
        let input = json!({"type": "string", "description": "What it is asked"});
        let parameters = json!({"type": "object", "properties": {"input": input}, "required": ["input"]});
        let binding = Binding::A2a { server: manifest.name.clone(), agent: card.name.clone() };
        let mut tool = Tool::new(name, described(&card, manifest), parameters, binding);
        tool.display_name = Some(card.name.clone());
        tool.origin = ToolOrigin::Server;
        tool.confirm = manifest.confirm;
        tool.labels.insert("a2a/server".to_owned(), manifest.name.clone());
        KnownAgent { card, tool }
    }
}

/// What a model reads of an agent: its description, and its skills.
fn described(card: &Card, manifest: &A2aServerManifest) -> String {
    let mut text = match (card.description.trim(), &manifest.description) {
        ("", Some(own)) => own.clone(),
        ("", None) => format!("Asks the agent `{}` behind the A2A server `{}`", card.name, manifest.name),
        (description, _) => description.to_owned(),
    };
    let skill = |skill: &AgentSkill| match skill.description.trim() {
        "" => skill.name.clone(),
        description => format!("{}: {description}", skill.name),
    };
    // A skill that repeats the agent says nothing new.
    let skills: Vec<_> = card.skills.iter().filter(|one| one.description.trim() != text).map(skill).collect();
    if !skills.is_empty() {
        text.push_str("\nSkills:\n- ");
        text.push_str(&skills.join("\n- "));
    }
    text.truncate(text.floor_char_boundary(TOOL_DESCRIPTION_BYTES));
    text
}

/// An address without what may be a key.
fn shown(address: &Url) -> String {
    let mut url = address.clone();
    // Only a URL without a host refuses these.
    let _ = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.to_string()
}

/// Where the card of an address may be: the address itself if it names a document, else below it.
fn card_urls(address: &Url) -> Vec<Url> {
    let is_document = std::path::Path::new(address.path()).extension().is_some_and(|extension| extension == "json");
    if is_document {
        return vec![address.clone()];
    }
    let below = |path: &str| {
        let mut url = address.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(path.split('/'));
        Some(url)
    };
    [CARD_PATH, OLDER_CARD_PATH].into_iter().filter_map(below).collect()
}
