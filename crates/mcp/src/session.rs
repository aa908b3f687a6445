//! One session with a server: opened, asked for its tools, asked to call them, closed.
//!
//! rmcp has no default timeout, so every request here has one. The answers are read from rmcp's types where they fit
//! and from the JSON where they do not: its union of results has no tags, and one odd field would lose a whole list.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bosun_adapters::{
    manifests::{ElicitationPolicy, McpEndpoint, McpServerManifest, McpTransport, NO_SSE},
    outbound::Pool,
    secret::{SecretSource, Secrets},
};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ListToolsRequest,
        PaginatedRequestParams, ProtocolVersion, RequestId, RequestMetaObject, ServerResult, SubscriptionFilter,
    },
    service::{
        Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError, serve_client_with_lifecycle_and_ct,
    },
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};
use tokio::{
    sync::{Mutex, Notify, OnceCell},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    content::ToolResult,
    elicitation,
    error::McpError,
    failure,
    http::HttpClient,
    listener::{Listener, ProgressSink, ProgressSinks},
    negotiation::{self, NegotiationError, Opening},
    reaper::Reaper,
    redact::Redactor,
    stdio::{self, Pipes, Program},
};

/// How long a server may take until it has answered the first request: a program may have to be downloaded first.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(90);
/// The largest message of a program. Larger ones are discarded as they arrive.
const LARGEST_LINE: usize = 16 * 1024 * 1024;
/// How many pages, and how many tools, a server may announce.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = bosun_core::ceiling::TOOLS;
/// How often one call may ask for input and be repeated with it; rmcp has the same bound.
const MOST_ROUNDS: usize = 10;
/// How long a cancellation may take to be sent.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// What the program provides to its sessions.
#[derive(Debug)]
pub(crate) struct SessionContext {
    pub(crate) pool: Arc<Pool>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) tasks: TaskTracker,
    pub(crate) reaper: Arc<Reaper>,
}

/// A session with a server that has answered.
#[derive(Debug)]
pub(crate) struct Session {
    peer: Peer<RoleClient>,
    progress: Arc<ProgressSinks>,
    program: Mutex<Option<Program>>,
    /// What the program said when the session broke.
    exit_report: OnceCell<String>,
    redactor: Arc<Redactor>,
    elicitation: ElicitationPolicy,
    /// Cancelled to end the session; rmcp cancels it too, when the session has ended by itself.
    stop: CancellationToken,
    is_retired: AtomicBool,
    /// Cancelled when the session has ended.
    pub(crate) closed: CancellationToken,
    /// The server's name of itself, its version, and the revision of the protocol.
    pub(crate) description: String,
    tasks: TaskTracker,
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// Without a sign of progress.
    pub(crate) silent: Duration,
    pub(crate) total: Duration,
}

impl Session {
    /// Connects to a server. `headers` are sent in addition to those that are the same in all sessions. `is_older` remembers
    /// that it speaks a revision with `initialize`, so that a server which ignores the newer protocol's first request costs
    /// ten seconds only once.
    pub(crate) async fn open(
        means: &SessionContext,
        server: &Arc<McpServerManifest>,
        headers: &[(String, String)],
        is_older: &AtomicBool,
        list_changed: &Arc<Notify>,
    ) -> Result<Self, McpError> {
        let began_older = is_older.load(Ordering::Relaxed);
        let opening = if began_older { Opening::Older } else { Opening::Either };
        let opened = Self::open_as(opening, means, server, headers, list_changed).await;
        let (session, version) = match opened {
            // Some servers answer a request that they do not know with a message that is not a response.
            Err(McpError::Unreadable(_)) if !began_older => {
                Self::open_as(Opening::Older, means, server, headers, list_changed).await?
            }
            Err(McpError::AnsweredLate) => Self::open_as(Opening::Newer, means, server, headers, list_changed).await?,
            opened => opened?,
        };
        let speaks_older = version.is_some_and(|version| version <= ProtocolVersion::LATEST_WITH_INITIALIZE);
        is_older.store(speaks_older, Ordering::Relaxed);
        Ok(session)
    }

    async fn open_as(
        opening: Opening,
        means: &SessionContext,
        server: &Arc<McpServerManifest>,
        headers: &[(String, String)],
        list_changed: &Arc<Notify>,
    ) -> Result<(Self, Option<ProtocolVersion>), McpError> {
        let mut connecting = Connecting {
            listener: Listener {
                progress: Arc::default(),
                list_changed: Arc::clone(list_changed),
                elicitation: server.elicitation,
            },
            opening,
            stop: CancellationToken::new(),
            redactor: Arc::default(),
            program: None,
        };
        let progress = Arc::clone(&connecting.listener.progress);
        let stop = connecting.stop.clone();
        let (service, program, redactor) = match &server.transport {
            McpTransport::Stdio(command) => {
                let (mut env, mut given) = (Vec::new(), Vec::new());
                for (name, source) in &command.env {
                    let resolved = means.secrets.resolve(&server.namespace, source).await;
                    let resolved = resolved.map_err(|error| McpError::Unavailable(error.to_string()))?;
                    if matches!(source, SecretSource::Reference(_)) {
                        given.extend(resolved.clone());
                    }
                    env.extend(resolved.map(|value| (name.clone(), value)));
                }
                connecting.redactor = Arc::new(Redactor::new(given));
                let (program, pipes) =
                    stdio::start(command, &env, &connecting.redactor, &means.tasks, &means.reaper).await?;
                connecting.program = Some(program);
                connecting.serve_program(pipes).await?
            }
            McpTransport::Http(endpoint) => {
                let client = HttpClient::new(
                    Arc::clone(server),
                    McpEndpoint::clone(endpoint),
                    headers,
                    Arc::clone(&means.pool),
                    Arc::clone(&means.secrets),
                    Arc::clone(&connecting.redactor),
                )?;
                // The client resolves the address for each request, since it may be a secret.
                let config = StreamableHttpClientTransportConfig::with_uri("mcp:");
                connecting.serve_http(StreamableHttpClientTransport::with_client(client, config)).await?
            }
            McpTransport::Sse => return Err(McpError::Unsupported(NO_SSE.to_owned())),
        };
        let (description, version) = describe(&service, &redactor);
        let (peer, closed) = (service.peer().clone(), CancellationToken::new());
        let ended = closed.clone();
        means.tasks.spawn(async move {
            // Returns when the transport is closed, by either side.
            let _ = service.waiting().await;
            ended.cancel();
        });
        if version.as_ref().is_some_and(|version| *version > ProtocolVersion::LATEST_WITH_INITIALIZE) {
            means.tasks.spawn(listen(peer.clone(), closed.clone(), Arc::clone(list_changed)));
        }
        let session = Self {
            peer,
            progress,
            program: Mutex::new(program),
            exit_report: OnceCell::new(),
            redactor,
            elicitation: server.elicitation,
            stop,
            is_retired: AtomicBool::new(false),
            closed,
            description,
            tasks: means.tasks.clone(),
        };
        Ok((session, version))
    }

    /// Whether the session can still be used.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.is_cancelled() && !self.stop.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Whether the session was given up by this side.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// Ends the session without waiting for it.
    pub(crate) fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
        self.stop.cancel();
    }

    /// Ends the session, and the program behind it.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        let program = self.program.lock().await.take();
        if let Some(program) = program {
            program.stop().await;
        }
    }

    /// All tools that the server announces, page after page.
    pub(crate) async fn list_tools(&self, timeout: Duration) -> Result<Vec<Value>, McpError> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
            let options = PeerRequestOptions::with_timeout(timeout);
            let answer = self.request(ClientRequest::ListToolsRequest(request), options, None).await?;
            let (page, next) = match answer {
                ServerResult::ListToolsResult(list) => {
                    let page = list.tools.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
                    (page.map_err(|error| McpError::Unreadable(error.to_string()))?, list.next_cursor)
                }
                other => read_page(other).ok_or_else(|| {
                    McpError::Unreadable("the answer to `tools/list` has no list of tools".to_owned())
                })?,
            };
            tools.extend(page);
            if tools.len() > MOST_TOOLS {
                return Err(McpError::Unreadable(format!("it announces more than {MOST_TOOLS} tools")));
            }
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(tools),
                Some(next) if cursor.as_ref() == Some(&next) => {
                    return Err(McpError::Unreadable("its list of tools has a page that leads to itself".to_owned()));
                }
                next => cursor = next,
            }
        }
        Err(McpError::Unreadable(format!("its list of tools has more than {MOST_PAGES} pages")))
    }

    /// Calls a tool by the server's own name of it, with the arguments exactly as the model gave them: parameters are
    /// never renamed. A gateway that spelled them in camel case broke every call of servers that use snake case, and
    /// the adapter that was said to do so does not (`docs/decisions/018-mcp-parameter-names.md`).
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limits: CallLimits,
        meta: Option<RequestMetaObject>,
        on_progress: ProgressSink,
    ) -> Result<ToolResult, McpError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let began = Instant::now();
        for _ in 0..MOST_ROUNDS {
            let mut options = PeerRequestOptions::with_timeout(limits.silent)
                .reset_timeout_on_progress()
                .with_max_total_timeout(limits.total.saturating_sub(began.elapsed()));
            options.meta.clone_from(&meta);
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self.request(request, options, Some(Arc::clone(&on_progress))).await? {
                // The call is not done: it is repeated with what it asks for, and with its own state as it was.
                ServerResult::InputRequiredResult(required) => {
                    let asked = required.input_requests.unwrap_or_default();
                    params.input_responses = Some(elicitation::answer_all(self.elicitation, &asked)?);
                    params.request_state = required.request_state;
                }
                answer => return read_result(answer),
            }
        }
        Err(McpError::Unsupported(format!("the tool asked for more input {MOST_ROUNDS} times")))
    }

    async fn request(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
        on_progress: Option<ProgressSink>,
    ) -> Result<ServerResult, McpError> {
        let limits = (options.timeout, options.max_total_timeout);
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.explain(&error, limits).await),
        };
        let token = handle.progress_token.clone();
        let _subscribed = on_progress.map(|sink| self.progress.subscribe(token, sink));
        let mut abandoned = Abandoned { session: self, request: Some(handle.id.clone()) };
        let answered = RequestHandle::await_response(handle).await;
        abandoned.request = None;
        match answered {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.explain(&error, limits).await),
        }
    }

    async fn explain(&self, error: &ServiceError, limits: (Option<Duration>, Option<Duration>)) -> McpError {
        match failure::of_request(error, limits, &self.redactor) {
            McpError::Broken(reason) => McpError::Broken(self.with_program(reason).await),
            other => other,
        }
    }

    /// The reason, with how the program ended and its last output. Cached: several callers may ask at once, and one of them
    /// is about to stop the program.
    async fn with_program(&self, reason: String) -> String {
        let ask = async || match self.program.lock().await.as_mut() {
            Some(program) => program.exit_report().await,
            None => String::new(),
        };
        reason + self.exit_report.get_or_init(ask).await
    }

    pub(crate) async fn why_closed(&self) -> String {
        self.with_program("the server closed it".to_owned()).await
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

/// Cancels a request at the server when its caller is dropped.
struct Abandoned<'a> {
    session: &'a Session,
    request: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let peer = self.session.peer.clone();
        let reason = Some("the call was cancelled".to_owned());
        self.session.tasks.spawn(async move {
            let cancelled = peer.notify_cancelled(CancelledNotificationParam::new(Some(request), reason));
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, cancelled).await;
        });
    }
}

type Service = RunningService<RoleClient, Listener>;

/// The parts of a session whose server has not answered yet.
struct Connecting {
    listener: Listener,
    opening: Opening,
    stop: CancellationToken,
    redactor: Arc<Redactor>,
    program: Option<Program>,
}

impl Connecting {
    async fn serve_program(self, pipes: Pipes) -> Result<(Service, Option<Program>, Arc<Redactor>), McpError> {
        let is_unread = pipes.is_unread();
        let transport = AsyncRwTransport::new(pipes.output, pipes.input).with_max_line_length(LARGEST_LINE);
        let (listener, opening, stop) = (self.listener.clone(), self.opening, self.stop.clone());
        self.conclude(negotiation::begin(opening, &listener, transport, is_unread, &stop)).await
    }

    async fn serve_http<T, E, A>(self, transport: T) -> Result<(Service, Option<Program>, Arc<Redactor>), McpError>
    where
        T: rmcp::transport::IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let (listener, stop) = (self.listener.clone(), self.stop.clone());
        let served = serve_client_with_lifecycle_and_ct(listener, transport, self.opening.lifecycle(), stop);
        self.conclude(async { Ok(served.await?) }).await
    }

    async fn conclude(
        self,
        served: impl Future<Output = Result<Service, NegotiationError>>,
    ) -> Result<(Service, Option<Program>, Arc<Redactor>), McpError> {
        let Self { redactor, mut program, .. } = self;
        let error = match tokio::time::timeout(CONNECT_TIMEOUT, served).await {
            Ok(Ok(service)) => return Ok((service, program, redactor)),
            Ok(Err(NegotiationError::Failed(error))) => failure::of_connecting(&error, &redactor),
            Ok(Err(NegotiationError::AnsweredLate)) => McpError::AnsweredLate,
            Err(_) => McpError::Unavailable(format!("it has not answered within {CONNECT_TIMEOUT:?}")),
        };
        match (error, program.as_mut()) {
            (McpError::Unavailable(reason), Some(program)) => {
                Err(McpError::Unavailable(reason + &program.exit_report().await))
            }
            (error, _) => Err(error),
        }
    }
}

/// Subscribes to changes of the list of tools, which the newer protocol sends to subscribers only, if the server has any.
async fn listen(peer: Peer<RoleClient>, closed: CancellationToken, list_changed: Arc<Notify>) {
    let announces = peer.peer_info().and_then(|info| info.capabilities.tools.as_ref()?.list_changed);
    if announces != Some(true) {
        return;
    }
    let listening = async {
        // Without a subscription, the poll finds what has changed.
        let Ok(mut changes) = peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await else {
            return;
        };
        while let Ok(Some(_)) = changes.next().await {
            list_changed.notify_one();
        }
    };
    let _ = closed.run_until_cancelled(listening).await;
}

fn describe(service: &Service, redactor: &Redactor) -> (String, Option<ProtocolVersion>) {
    let Some(info) = service.peer_info() else { return ("a server that does not name itself".to_owned(), None) };
    let own = info.server_info.as_ref().map(|own| format!("{} {}", own.name, own.version));
    let own = own.unwrap_or_else(|| "a server that does not name itself".to_owned());
    let description = format!("{own}, MCP {}", info.protocol_version);
    (redactor.clean_to(&description, 200), Some(info.protocol_version.clone()))
}

/// The result of a call that is done.
fn read_result(answer: ServerResult) -> Result<ToolResult, McpError> {
    match answer {
        ServerResult::CallToolResult(result) => {
            let result = serde_json::to_value(result).map_err(|error| McpError::Unreadable(error.to_string()))?;
            Ok(ToolResult::read(result).unwrap_or_default())
        }
        ServerResult::CreateTaskResult(_) => {
            Err(McpError::Unsupported("the tool runs as a task, which was not asked for".to_owned()))
        }
        // A block of a type that is newer than rmcp.
        other => serde_json::to_value(other)
            .ok()
            .and_then(ToolResult::read)
            .ok_or_else(|| McpError::Unreadable("the answer to `tools/call` is not a result".to_owned())),
    }
}

/// The tools and the next cursor of an answer that rmcp could not read as a whole.
fn read_page(answer: ServerResult) -> Option<(Vec<Value>, Option<String>)> {
    let mut answer = serde_json::to_value(answer).ok()?;
    let next = answer.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    match answer.get_mut("tools").map(Value::take) {
        Some(Value::Array(tools)) => Some((tools, next)),
        _ => None,
    }
}
