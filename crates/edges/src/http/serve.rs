//! The server: accepts connections and gives each what it may use.
//!
//! A client that is slow to ask, slow to read or that never goes away costs one connection for a
//! while and nothing else. There is room for so many connections; who comes when all of it is taken is
//! told so at once, and those who are in go on being served. On shutdown no new connection is taken, requests in hand are answered,
//! and what has not ended by then is cut. No request is lost by that: what was answered is durable,
//! and what was not may be repeated.

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

use super::error::{ApiError, Code};

/// A client may take this long to send its headers, also between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that is answered before it has sent its whole body is listened to for so long: until it
/// has noticed. If the connection were closed at once, the answer would be lost on its way.
const HEAR_OUT: Duration = Duration::from_secs(5);
/// A client that takes nothing of what is sent to it for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The request line and all headers together.
const MAX_HEADER_BYTES: usize = bosun_core::ceiling::HEADER_BYTES;
/// So many of those who find no place are told so at the same time; more are only shut out.
const MAX_TURNED_AWAY: usize = 256;
/// How long one who finds no place may take to hear it.
const TURN_AWAY: Duration = Duration::from_secs(1);
/// So long a connection without a request stays when the server stops: what its client is about to send
/// gets an answer, and not a broken connection of which nobody knows what it broke.
const LINGER: Duration = Duration::from_millis(500);
/// The pause after an accept that failed for lack of something, usually file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How a server treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How many there may be at the same time.
    pub max_connections: usize,
    /// How long requests in hand may take when the server is to stop.
    pub grace: Duration,
}

/// Serves `router` until `shutdown` resolves, then lets requests in hand end within their grace. What `router`
/// says to requests that still come in is its own affair.
pub async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()>, terms: Terms) {
    let Terms { max_connections, grace } = terms;
    let connections = TaskTracker::new();
    let (drain, cut) = (CancellationToken::new(), CancellationToken::new());
    let mut room = Room::new(max_connections);
    let mut shutdown = pin!(shutdown);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut shutdown => break,
            stream = accept(&listener) => stream,
        };
        match room.find() {
            Found::Place(place) => {
                connections.spawn(attend(stream, router.clone(), drain.clone(), cut.clone(), place));
            }
            Found::Doorstep(place) => {
                connections.spawn(turn_away(stream, cut.clone(), place));
            }
            // Dropped, and so closed: whoever sends thousands does not read.
            Found::Nothing => {}
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
        tracing::warn!(connections = connections.len(), "cutting connections that did not end in time");
        cut.cancel();
        connections.wait().await;
    }
}

/// The places for connections, and for those who are told that there is none.
struct Room {
    places: Arc<Semaphore>,
    doorstep: Arc<Semaphore>,
    is_full: bool,
}

enum Found {
    Place(OwnedSemaphorePermit),
    Doorstep(OwnedSemaphorePermit),
    Nothing,
}

impl Room {
    fn new(places: usize) -> Self {
        let doorstep = Arc::new(Semaphore::new(MAX_TURNED_AWAY.min(places)));
        Self { places: Arc::new(Semaphore::new(places)), doorstep, is_full: false }
    }

    /// Says it once when the room fills up, and not for everybody who comes then.
    fn find(&mut self) -> Found {
        let place = Arc::clone(&self.places).try_acquire_owned();
        if place.is_err() && !self.is_full {
            tracing::warn!("all places for connections are taken; others are turned away");
        }
        self.is_full = place.is_err();
        match place {
            Ok(place) => Found::Place(place),
            Err(_) => Arc::clone(&self.doorstep).try_acquire_owned().map_or(Found::Nothing, Found::Doorstep),
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

/// Serves one connection to its end.
async fn attend(
    stream: TcpStream,
    router: Router,
    drain: CancellationToken,
    cut: CancellationToken,
    _place: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "connection keeps Nagle's algorithm");
    }
    let sending = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&sending);
    let service =
        service_fn(move |request: Request<Incoming>| router.clone().oneshot(request.map(|body| watch(body, &watched))));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_header_size(MAX_HEADER_BYTES)
            .serve_connection(TokioIo::new(Impatient { stream, stalled: None, sending, hearing_out: None }), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
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

/// Answers one request with the news that there is no place.
async fn turn_away(stream: TcpStream, cut: CancellationToken, _place: OwnedSemaphorePermit) {
    let sending = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&sending);
    let service = service_fn(move |request: Request<Incoming>| {
        drop(watch(request.into_body(), &watched));
        let message = "the server has no place for another connection right now";
        std::future::ready(Ok::<_, Infallible>(ApiError::new(Code::Overloaded, message).into_response()))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TURN_AWAY)
        .max_header_size(MAX_HEADER_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(Impatient { stream, stalled: None, sending, hearing_out: None }), service);
    let ended = tokio::select! {
        ended = connection => ended,
        () = cut.cancelled() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "connection broke");
    }
}

/// A request's body that tells whether there is more of it.
struct Watched {
    body: Incoming,
    sending: Arc<AtomicBool>,
}

fn watch(body: Incoming, sending: &Arc<AtomicBool>) -> Body {
    let is_empty = body.is_end_stream();
    sending.store(!is_empty, Ordering::Relaxed);
    if is_empty { Body::empty() } else { Body::new(Watched { body, sending: Arc::clone(sending) }) }
}

impl HttpBody for Watched {
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

/// A connection that breaks when its reader takes nothing for [`WRITE_TIMEOUT`]: without that, a
/// reader that stops reading would keep its stream open for ever.
struct Impatient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whether the client is in the middle of a body.
    sending: Arc<AtomicBool>,
    hearing_out: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn time<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Takes what still comes, and nothing of it, until the client has closed or its time is over.
    fn hear_out(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.hearing_out.get_or_insert_with(|| Box::pin(tokio::time::sleep(HEAR_OUT)));
        let mut unread = [0; 16 * 1024];
        // The time is looked at first: a client that never stops must not outlast it.
        while over.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut unread);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // It has closed, or is gone.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Impatient {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
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
            ready!(this.hear_out(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_reads_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _reader = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = Impatient { stream, stalled: None, sending: Arc::default(), hearing_out: None };
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
