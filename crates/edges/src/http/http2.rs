//! HTTP/2 connections without TLS, as gRPC uses them.
//!
//! Their number is limited by the accept loop. Here are the limits of each: concurrent streams, headers, the time to
//! begin, and pings that detect clients that are gone. All streams of a connection share its permit.

use std::{
    convert::Infallible,
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, http::header, response::Response};
use bosun_core::ceiling::HEADER_BYTES;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};
use tower::ServiceExt as _;

use super::serve::{ConnectionEnds, HEADER_TIMEOUT, TimedStream, drive_to_end};

/// The preface of every connection (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
/// Concurrent requests of one connection; a client delays further ones.
const MAX_STREAMS: u32 = 128;
/// The interval of pings to an idle client, and the timeout of their answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves one connection to its end.
pub(super) async fn serve_connection(
    stream: TcpStream,
    router: Router,
    ends: ConnectionEnds,
    _permit: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "cannot disable Nagle's algorithm");
    }
    let service = service_fn(move |request: Request<Incoming>| answer(router.clone(), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let stream = BeginningStream {
        stream: TimedStream::new(stream),
        missing: PREFACE_BYTES,
        deadline: Box::pin(sleep(HEADER_TIMEOUT)),
    };
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    drive_to_end(connection, |connection| connection.graceful_shutdown(), ends).await;
}

/// HTTP/2 requests name their host in the target. It is copied to `Host`, so that the same checks apply.
async fn answer(router: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    let authority = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    if let Some(authority) = authority.filter(|_| !request.headers().contains_key(header::HOST)) {
        request.headers_mut().insert(header::HOST, authority);
    }
    router.oneshot(request).await
}

/// A connection that must begin within [`HEADER_TIMEOUT`].
struct BeginningStream {
    stream: TimedStream,
    /// How much of the preface has not arrived.
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl AsyncRead for BeginningStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.missing > 0 && self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.missing = self.missing.saturating_sub(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for BeginningStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
