//! The HTTP server: accepts connections, within a limit on their number and with timeouts on each.
//!
//! A client that is slow to send, slow to read or never disconnects costs one connection for a while and
//! nothing else. At most `max_connections` are served; further clients get an immediate 503, and existing
//! connections are unaffected. On shutdown no new connection is accepted, requests in flight are answered,
//! and connections that have not ended within the grace period are closed. No request is lost by that: what
//! was answered is durable, and what was not may be repeated.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::Request,
    response::IntoResponse,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{
    error::{ApiError, Code},
    render,
};

/// A client may take this long to send its headers, also between two requests.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the rest of a body is read and discarded when the client was answered before it had sent all of it.
/// If the connection were closed at once, the client would get a reset instead of the answer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that reads nothing of what is sent to it for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The request line and all headers together.
const MAX_HEADER_BYTES: usize = bosun_core::ceiling::HEADER_BYTES;
/// At most this many clients above the limit are sent a 503 at the same time; further ones are disconnected.
const MAX_REJECTING: usize = 256;
/// How long a client above the limit may take to send the request that is answered with 503.
const REJECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long an idle connection stays open when the server stops: a request that its client is about to send
/// gets an answer, and not a reset that leaves open whether the request was processed.
const LINGER: Duration = Duration::from_millis(500);
/// The pause after an accept that failed for lack of a resource, usually file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// The limits of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// How many connections there may be at the same time.
    pub max_connections: usize,
    /// How long requests in flight may take when the server stops.
    pub grace: Duration,
}

/// Serves `router` until `shutdown` resolves, then lets requests in flight end within the grace period. `router`
/// decides how requests that arrive meanwhile are answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    limits: ConnectionLimits,
) {
    serve_protocol(Protocol::Http1, listener, router, shutdown, limits).await;
}

/// The same over HTTP/2 without TLS, for gRPC. A client above the connection limit is disconnected.
#[cfg(feature = "grpc")]
pub async fn serve_grpc(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    limits: ConnectionLimits,
) {
    serve_protocol(Protocol::Http2, listener, router, shutdown, limits).await;
}

/// The protocol of a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    #[cfg(feature = "grpc")]
    Http2,
}

async fn serve_protocol(
    protocol: Protocol,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    limits: ConnectionLimits,
) {
    let ConnectionLimits { max_connections, grace } = limits;
    let connections = TaskTracker::new();
    let (drain, cut) = (CancellationToken::new(), CancellationToken::new());
    let mut admission = ConnectionAdmission::new(max_connections);
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut shutdown => break,
            stream = accept(&listener) => stream,
        };
        match admission.decide() {
            ConnectionDecision::Serve(permit) => {
                let ends = (drain.clone(), cut.clone());
                match protocol {
                    Protocol::Http1 => connections.spawn(serve_connection(stream, router.clone(), ends, permit)),
                    #[cfg(feature = "grpc")]
                    Protocol::Http2 => {
                        connections.spawn(super::http2::serve_connection(stream, router.clone(), ends, permit))
                    }
                };
            }
            ConnectionDecision::Reject(permit) if protocol == Protocol::Http1 => {
                connections.spawn(reject_connection(stream, cut.clone(), permit));
            }
            // Dropped, and so closed: a client that opens thousands of connections does not read answers.
            ConnectionDecision::Reject(_) | ConnectionDecision::Close => {}
        }
    }
    drop(listener);
    connections.close();
    let linger = LINGER.min(grace);
    if tokio::time::timeout(linger, connections.wait()).await.is_ok() {
        return;
    }
    drain.cancel();
    if tokio::time::timeout(grace - linger, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "closing connections that did not end within the grace period");
        cut.cancel();
        connections.wait().await;
    }
}

/// The permits for connections: those that are served, and those that are rejected with a 503.
struct ConnectionAdmission {
    serving: Arc<Semaphore>,
    rejecting: Arc<Semaphore>,
    is_full: bool,
}

/// What is done with a new connection.
enum ConnectionDecision {
    Serve(OwnedSemaphorePermit),
    Reject(OwnedSemaphorePermit),
    Close,
}

impl ConnectionAdmission {
    fn new(max_connections: usize) -> Self {
        let rejecting = Arc::new(Semaphore::new(MAX_REJECTING.min(max_connections)));
        Self { serving: Arc::new(Semaphore::new(max_connections)), rejecting, is_full: false }
    }

    /// Logs once when the limit is reached, and not for every connection above it.
    fn decide(&mut self) -> ConnectionDecision {
        let permit = Arc::clone(&self.serving).try_acquire_owned();
        if permit.is_err() && !self.is_full {
            tracing::warn!("the connection limit is reached; further connections are rejected");
        }
        self.is_full = permit.is_err();
        match permit {
            Ok(permit) => ConnectionDecision::Serve(permit),
            Err(_) => Arc::clone(&self.rejecting)
                .try_acquire_owned()
                .map_or(ConnectionDecision::Close, ConnectionDecision::Reject),
        }
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// What ends connections: a drain, and then a cut.
pub(super) type ConnectionEnds = (CancellationToken, CancellationToken);

/// Serves one connection to its end.
async fn serve_connection(stream: TcpStream, router: Router, ends: ConnectionEnds, _permit: OwnedSemaphorePermit) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "cannot disable Nagle's algorithm");
    }
    let sending = Arc::new(AtomicBool::new(false));
    let tracked = Arc::clone(&sending);
    let service =
        service_fn(move |request: Request<Incoming>| router.clone().oneshot(request.map(|body| track(body, &tracked))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(TimedStream { stream, stalled: None, sending, draining: None }), service);
    drive_to_end(connection, |connection| connection.graceful_shutdown(), ends).await;
}

/// Drives a connection to its end. A drain lets it end its requests in progress, and a cut drops it.
pub(super) async fn drive_to_end<C>(connection: C, shut_down: impl FnOnce(Pin<&mut C>), (drain, cut): ConnectionEnds)
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = drain.cancelled() => {
            shut_down(connection.as_mut());
            tokio::select! {
                ended = connection => ended,
                () = cut.cancelled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "connection broke");
    }
}

/// Answers one request with 503.
async fn reject_connection(stream: TcpStream, cut: CancellationToken, _permit: OwnedSemaphorePermit) {
    let sending = Arc::new(AtomicBool::new(false));
    let tracked = Arc::clone(&sending);
    let service = service_fn(move |request: Request<Incoming>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        drop(track(request.into_body(), &tracked));
        let message = "the server has reached its connection limit; try again later";
        let refusal = ApiError::new(Code::Overloaded, message).into_response();
        std::future::ready(Ok::<_, Infallible>(render::finish(&method, &path, refusal)))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REJECT_TIMEOUT)
        .max_header_size(MAX_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(TimedStream { stream, stalled: None, sending, draining: None }), service);
    let ended = tokio::select! {
        ended = connection => ended,
        () = cut.cancelled() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "connection broke");
    }
}

/// A request body that records whether more of it is to come.
struct TrackedBody {
    body: Incoming,
    sending: Arc<AtomicBool>,
}

fn track(body: Incoming, sending: &Arc<AtomicBool>) -> Body {
    let is_empty = body.is_end_stream();
    sending.store(!is_empty, Ordering::Relaxed);
    if is_empty { Body::empty() } else { Body::new(TrackedBody { body, sending: Arc::clone(sending) }) }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.sending.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection with a write timeout: it fails when the client reads nothing for [`WRITE_TIMEOUT`]. Without that,
/// a client that stops reading would keep its stream open forever.
pub(super) struct TimedStream {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whether the client is still sending a body.
    sending: Arc<AtomicBool>,
    draining: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    /// A connection whose requests are not followed by a rest that is read and discarded.
    #[cfg(feature = "grpc")]
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, stalled: None, sending: Arc::default(), draining: None }
    }

    fn time<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads and discards what still arrives, until the client closes or [`DRAIN_TIMEOUT`] is over.
    fn drain_input(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.draining.get_or_insert_with(|| Box::pin(tokio::time::sleep(DRAIN_TIMEOUT)));
        let mut unread = [0; 16 * 1024];
        // The timer is polled first: a client that never stops sending must not outlast it.
        while over.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut unread);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // The client has closed, or is gone.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.time(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.time(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        if this.sending.load(Ordering::Relaxed) {
            ready!(this.drain_input(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = TimedStream { stream, stalled: None, sending: Arc::default(), draining: None };
        let before = tokio::time::Instant::now();
        let error = loop {
            if let Err(error) = stream.write_all(&[0; 1024 * 1024]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(before.elapsed(), WRITE_TIMEOUT);
    }
}
