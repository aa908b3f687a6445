//! The connection pool, shared by everything that sends requests.
//!
//! `hyper-util` keeps the connections and speaks HTTP/2 where the server offers it. It has one HTTP/2 connection to a
//! host, on which a server allows a limited number of streams (RFC 9113 recommends at least 100); further requests
//! would wait for those, and a model may take minutes. So a [`Client`] is a list of pools with a limited number of
//! requests each, and a request goes to the first with a free permit.

use std::{
    array,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
};
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::{
    OutboundError,
    connector::{Connector, KEEP_ALIVE},
    resolver::Resolver,
};
use crate::{
    address::{AddressCheck, NotPublic, Reachable},
    secret::binding::SecretReach,
};

/// The idle timeout of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum number of concurrent requests on one HTTP/2 connection.
const STREAMS: usize = 100;
/// The maximum number of HTTP/2 connections to a host. Further requests wait for a stream there; HTTP/1.1 has no such
/// limit.
const CONNECTIONS: usize = 16;

/// All connections of a server to others.
///
/// Several clients, each created on first use: reading the machine's certificates takes longer than starting the
/// server, and a machine without any can still call a local model.
#[derive(Debug, Default)]
pub struct Pool {
    unchecked: Clients,
    checked: Clients,
    /// What manifests that clients store may call.
    reachable: Arc<Reachable>,
}

#[derive(Debug, Default)]
struct Clients {
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
}

impl Pool {
    /// A pool in which manifests that clients store reach what is public, and these exceptions.
    #[must_use]
    pub fn new(reachable: Reachable) -> Self {
        Self { reachable: Arc::new(reachable), ..Self::default() }
    }

    /// Whether a manifest may call an address, as far as its URL says.
    ///
    /// # Errors
    /// If it may not.
    pub fn check_of(&self, url: &Url, reach: &SecretReach) -> Result<AddressCheck, NotPublic> {
        match reach {
            SecretReach::File => Ok(AddressCheck::Free),
            SecretReach::Stored { .. } => self.reachable.check_of(url),
        }
    }

    /// The client for requests to `url`, which connects only to what a manifest of this reach may call.
    ///
    /// # Errors
    /// If it may not call that address, or if the machine has no certificates.
    pub fn client(&self, url: &Url, reach: &SecretReach) -> Result<&Client, OutboundError> {
        self.open(self.check_of(url, reach)?, url.scheme() == "https")
    }

    fn open(&self, check: AddressCheck, is_secure: bool) -> Result<&Client, OutboundError> {
        let clients = match check {
            AddressCheck::Free => &self.unchecked,
            AddressCheck::Checked => &self.checked,
        };
        let slot = if is_secure { &clients.secure } else { &clients.plain };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let resolver = match check {
            AddressCheck::Free => Resolver::new(None),
            AddressCheck::Checked => Resolver::new(Some(Arc::clone(&self.reachable))),
        };
        let connector = Connector::open(resolver, is_secure).map_err(OutboundError::Tls)?;
        Ok(slot.get_or_init(|| Client::new(&connector)))
    }
}

/// Sends requests on connections of one kind: checked or not, with TLS or without.
#[derive(Debug)]
pub struct Client([LimitedPool; CONNECTIONS]);

#[derive(Debug)]
struct LimitedPool {
    client: legacy::Client<Connector, Full<Bytes>>,
    permits: Arc<Semaphore>,
}

impl Client {
    fn new(connector: &Connector) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            // A proxy that has lost its server still acknowledges what is sent. On HTTP/1.1 a request that timed out
            // closes its connection; on HTTP/2 the next ones would use the same.
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE);
        let pool =
            |_| LimitedPool { client: builder.build(connector.clone()), permits: Arc::new(Semaphore::new(STREAMS)) };
        Self(array::from_fn(pool))
    }

    /// Sends a request to the host of its URI. It is sent once, and retried only if a connection that was idle turns
    /// out to be closed before it has accepted the request.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Body>, OutboundError> {
        let with_permit = self.0.iter().find_map(|pool| {
            let permit = Arc::clone(&pool.permits).try_acquire_owned().ok()?;
            Some((&pool.client, Some(permit)))
        });
        let [first, ..] = &self.0;
        let (client, permit) = with_permit.unwrap_or((&first.client, None));
        let response = client.request(request).await?;
        Ok(response.map(|incoming| Body { incoming, _permit: permit }))
    }
}

/// The body of a response. Its request holds its permit until the body is read or dropped.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    _permit: Option<OwnedSemaphorePermit>,
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests;
