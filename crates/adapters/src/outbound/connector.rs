//! The connector of the pool: a checked address, TCP with keep-alive, TLS with ALPN, all within a time limit.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream, builderstates::WantsSchemes};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::Service;

use super::{BoxError, resolver::Resolver};

/// The timeout of a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The keep-alive interval of an idle connection, and how long sent data may stay unacknowledged by the peer's kernel:
/// a server that has vanished must not hold a request until its own timeout.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_RETRIES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Connects over TLS where the address says so. By ALPN it offers HTTP/2 and HTTP/1.1, in that order.
#[derive(Clone, Debug)]
pub(super) struct Connector(HttpsConnector<HttpConnector<Resolver>>);

impl Connector {
    /// One that trusts the certificates of the machine, which are read only if it `is_secure`.
    pub(super) fn open(resolver: Resolver, is_secure: bool) -> Result<Self, rustls::Error> {
        // Fails if a crypto provider is already installed, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = HttpsConnectorBuilder::new();
        let tls = if is_secure {
            builder.try_with_platform_verifier()?
        } else {
            let trusts_none = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            builder.with_tls_config(trusts_none.with_no_client_auth())
        };
        Ok(Self::new(resolver, tls))
    }

    pub(super) fn new(resolver: Resolver, tls: HttpsConnectorBuilder<WantsSchemes>) -> Self {
        let mut sockets = HttpConnector::new_with_resolver(resolver);
        sockets.enforce_http(false);
        sockets.set_nodelay(true);
        sockets.set_keepalive(Some(KEEP_ALIVE));
        sockets.set_keepalive_interval(Some(KEEP_ALIVE));
        sockets.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        sockets.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        Self(tls.https_or_http().enable_all_versions().wrap_connector(sockets))
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}
