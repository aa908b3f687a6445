//! Which protocol a program speaks: the newer one, or one of those that begin with `initialize`.
//!
//! The first request is the newer protocol's `server/discover`. A program that refuses it is asked with `initialize`, over the
//! same pipes, and so is one that ignores it for ten seconds. These begin when the program has read the request: until
//! then it is still being downloaded or started. A server of the newer protocol that finds both requests at its start refuses
//! the second one, so an answer to the first that comes late is not lost: it says how to begin the next session.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{ClientRequest, ErrorCode, JsonRpcMessage, ProtocolVersion, RequestId},
    service::{
        ClientInitializeError, ClientLifecycleMode, RunningService, RxJsonRpcMessage, TxJsonRpcMessage,
        serve_client_with_lifecycle_and_ct,
    },
    transport::Transport,
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::listener::Listener;

/// How long a program that has read the first request may take to answer it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often is looked whether it has read the request.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Added to the ids of `server/discover`, so that a late answer is not mistaken for that of a request of the second session.
const PROBE_IDS: i64 = 2_000_000_000;

/// How a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// With `server/discover`, and with `initialize` if that is refused or ignored.
    Either,
    /// With `server/discover` alone.
    Newer,
    /// With `initialize`.
    Older,
}

impl Opening {
    /// The same for rmcp, whose own ten seconds begin at once.
    pub(crate) fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::LATEST];
        match self {
            Self::Either => {
                let legacy_version = Some(ProtocolVersion::LATEST_WITH_INITIALIZE);
                ClientLifecycleMode::Auto { preferred_versions, legacy_version }
            }
            Self::Newer => ClientLifecycleMode::Discover { preferred_versions },
            Self::Older => ClientLifecycleMode::Initialize,
        }
    }
}

/// Why a session with a program could not be begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NegotiationError {
    #[error(transparent)]
    Failed(Box<ClientInitializeError>),
    /// It has answered `server/discover` after `initialize` was sent: it speaks the newer protocol.
    #[error("the server answered the first request late")]
    AnsweredLate,
}

impl From<ClientInitializeError> for NegotiationError {
    fn from(error: ClientInitializeError) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// Begins a session with a program. `is_unread` says whether the program has not yet read all that was written to it.
pub(crate) async fn begin<T>(
    opening: Opening,
    listener: &Listener,
    transport: T,
    is_unread: impl Fn() -> bool,
    stop: &CancellationToken,
) -> Result<RunningService<RoleClient, Listener>, NegotiationError>
where
    T: Transport<RoleClient> + 'static,
{
    let serve = |transport: ReturnedTransport<T>, opening: Opening| {
        serve_client_with_lifecycle_and_ct(listener.clone(), transport, opening.lifecycle(), stop.clone())
    };
    if opening == Opening::Older {
        return Ok(serve(ReturnedTransport::new(transport).0, opening).await?);
    }
    let (lent, mut returned) = ReturnedTransport::new(transport);
    let ignoring = async {
        while is_unread() {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        tokio::time::sleep(ANSWER_TIMEOUT).await;
    };
    let refused = tokio::select! {
        served = serve(lent, Opening::Newer) => match served {
            Ok(service) => return Ok(service),
            Err(ClientInitializeError::JsonRpcError(error)) if opening == Opening::Either && !is_newer(error.code) => {
                Some(ClientInitializeError::JsonRpcError(error))
            }
            Err(error) => return Err(error.into()),
        },
        () = ignoring, if opening == Opening::Either => None,
    };
    // It was returned when the first attempt ended.
    let Ok(transport) = returned.try_recv() else {
        return Err(refused.map_or(NegotiationError::AnsweredLate, NegotiationError::from));
    };
    let (mut lent, _) = ReturnedTransport::new(transport);
    let answered_late = Arc::clone(&lent.answered_late);
    lent.is_probing = false;
    match serve(lent, Opening::Older).await {
        Err(_) if answered_late.load(Ordering::Relaxed) => Err(NegotiationError::AnsweredLate),
        served => Ok(served?),
    }
}

/// Whether a server of the newer protocol refuses `server/discover` with this code.
fn is_newer(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY | ErrorCode::HEADER_MISMATCH)
}

/// A transport that is returned when it is dropped, so that a second attempt can use it.
struct ReturnedTransport<T> {
    transport: Option<T>,
    owner: Option<oneshot::Sender<T>>,
    /// Whether an answer to `server/discover` is awaited.
    is_probing: bool,
    /// Set if that answer came when it was no longer awaited, and is not an error.
    answered_late: Arc<AtomicBool>,
}

impl<T> ReturnedTransport<T> {
    fn new(transport: T) -> (Self, oneshot::Receiver<T>) {
        let (owner, returned) = oneshot::channel();
        let lent =
            Self { transport: Some(transport), owner: Some(owner), is_probing: true, answered_late: Arc::default() };
        (lent, returned)
    }
}

impl<T> Drop for ReturnedTransport<T> {
    fn drop(&mut self) {
        if let (Some(transport), Some(owner)) = (self.transport.take(), self.owner.take()) {
            // A session that has begun has no second attempt.
            let _ = owner.send(transport);
        }
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for ReturnedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &mut message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && let RequestId::Number(id) = &mut request.id
        {
            *id += PROBE_IDS;
        }
        let sending = self.transport.as_mut().map(|transport| transport.send(message));
        async move {
            match sending {
                Some(sending) => sending.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let mut message = self.transport.as_mut()?.receive().await?;
            let (id, is_result) = match &mut message {
                JsonRpcMessage::Response(response) => (Some(&mut response.id), true),
                JsonRpcMessage::Error(error) => (error.id.as_mut(), false),
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => (None, false),
            };
            match id {
                Some(RequestId::Number(id)) if *id >= PROBE_IDS => {
                    *id -= PROBE_IDS;
                    if self.is_probing {
                        return Some(message);
                    }
                    self.answered_late.fetch_or(is_result, Ordering::Relaxed);
                }
                _ => return Some(message),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        match self.transport.as_mut() {
            Some(transport) => transport.close().await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use bosun_adapters::manifests::ElicitationPolicy;
    use rmcp::transport::async_rw::AsyncRwTransport;
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
        time::{Instant, sleep},
    };

    use super::*;

    /// A program that reads its input after this long, and answers the methods that it knows as these say, each after a time.
    #[derive(Clone, Copy)]
    struct TestProgram {
        starts_in: u64,
        discover: Option<(u64, bool)>,
        initialize: bool,
    }

    impl TestProgram {
        async fn run(self, pipe: DuplexStream, unread: Arc<AtomicUsize>, asked: Arc<std::sync::Mutex<Vec<String>>>) {
            sleep(Duration::from_secs(self.starts_in)).await;
            unread.store(0, Ordering::Relaxed);
            let (read, mut write) = tokio::io::split(pipe);
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
                asked.lock().unwrap().push(method.to_owned());
                let answer = match (method, self.discover) {
                    ("server/discover", None) => continue,
                    ("server/discover", Some((after, is_known))) => {
                        sleep(Duration::from_secs(after)).await;
                        is_known.then(|| {
                            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0,
                                   "serverInfo": {"name": "test", "version": "1"}, "cacheScope": "private",
                                   "resultType": "complete"})
                        })
                    }
                    ("initialize", _) => self.initialize.then(|| {
                        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "test", "version": "1"}})
                    }),
                    _ => None,
                };
                let refusal = json!({"code": -32_601, "message": "Method not found"});
                let answer = match answer {
                    Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    None => json!({"jsonrpc": "2.0", "id": id, "error": refusal}),
                };
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
    }

    /// Begins a session; returns the protocol or the fault, what the program was asked, and after how many seconds.
    async fn begun(opening: Opening, program: TestProgram) -> (String, Vec<String>, u64) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (unread, asked) = (Arc::new(AtomicUsize::new(1)), Arc::<std::sync::Mutex<Vec<String>>>::default());
        let tasks = tokio_util::task::TaskTracker::new();
        let running = tasks.spawn(program.run(theirs, Arc::clone(&unread), Arc::clone(&asked)));
        let listener =
            Listener { progress: Arc::default(), list_changed: Arc::default(), elicitation: ElicitationPolicy::Refuse };
        let (read, write) = tokio::io::split(ours);
        let began = Instant::now();
        let is_unread = || unread.load(Ordering::Relaxed) > 0;
        let transport = AsyncRwTransport::new(read, write);
        let service = begin(opening, &listener, transport, is_unread, &CancellationToken::new()).await;
        let took = began.elapsed().as_secs();
        let found = match &service {
            Ok(service) => service.peer_info().unwrap().protocol_version.to_string(),
            Err(error) => error.to_string(),
        };
        running.abort();
        let asked = asked.lock().unwrap().clone();
        (found, asked, took)
    }

    #[track_caller]
    fn check(found: &(String, Vec<String>, u64), protocol: &str, asked: &[&str], took: u64) {
        assert_eq!((found.0.as_str(), found.2), (protocol, took), "{found:?}");
        assert_eq!(found.1, asked, "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_starts_slowly_is_asked_once_and_in_its_own_protocol() {
        let newer = TestProgram { starts_in: 60, discover: Some((0, true)), initialize: false };
        check(&begun(Opening::Either, newer).await, "2026-07-28", &["server/discover"], 60);
        let older = TestProgram { starts_in: 60, discover: Some((0, false)), initialize: true };
        check(&begun(Opening::Either, older).await, "2025-11-25", &["server/discover", "initialize"], 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_ignores_the_first_request_costs_ten_seconds() {
        let program = TestProgram { starts_in: 3, discover: None, initialize: true };
        check(&begun(Opening::Either, program).await, "2025-11-25", &["server/discover", "initialize"], 13);
        check(&begun(Opening::Older, program).await, "2025-11-25", &["initialize"], 3);
    }

    /// As of one behind a program that reads its input for it.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_decides_the_protocol() {
        let older = TestProgram { starts_in: 0, discover: Some((15, false)), initialize: true };
        check(&begun(Opening::Either, older).await, "2025-11-25", &["server/discover", "initialize"], 15);
        let newer = TestProgram { starts_in: 0, discover: Some((15, true)), initialize: false };
        let late = "the server answered the first request late";
        check(&begun(Opening::Either, newer).await, late, &["server/discover", "initialize"], 15);
        check(&begun(Opening::Newer, newer).await, "2026-07-28", &["server/discover"], 15);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_knows_neither_request_is_refused_with_its_error() {
        let program = TestProgram { starts_in: 0, discover: Some((0, false)), initialize: false };
        let (found, ..) = begun(Opening::Either, program).await;
        assert!(found.contains("Method not found"), "{found}");
    }
}
