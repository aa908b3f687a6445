//! Reused connections, HTTP/2, and refused addresses, over real sockets.

use std::{
    convert::Infallible,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
};

use http_body_util::BodyExt as _;
use hyper::{
    Uri, Version,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

mod rebinding;

use super::*;
use crate::outbound::cause;

const REQUEST: &str = "{\"ask\":1}";
const CERTIFICATE: &[u8] = include_bytes!("../../../../../fixtures/tls/localhost.pem");

/// A server on this machine that counts its connections.
struct Server {
    to: Uri,
    opened: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Server {
    async fn start<F: Future<Output = ()> + Send + 'static>(
        scheme: &str,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = format!("{scheme}://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (opened, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&opened), Arc::clone(&closed));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut answering = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counts.0.fetch_add(1, Ordering::SeqCst);
                let (answer, closed) = (serve(stream), Arc::clone(&counts.1));
                answering.spawn(async move {
                    answer.await;
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { to, opened, closed, _serving: serving }
    }

    /// One without TLS that closes a connection after this many answers.
    async fn closing_after(answers: usize) -> Self {
        Self::start("http", move |stream| answer(stream, answers)).await
    }

    /// One with TLS that offers these protocols.
    async fn offering(protocols: &[&str]) -> Self {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
        let key = PrivateKeyDer::from_pem_slice(CERTIFICATE).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::start("https", move |stream| answer_over_tls(acceptor.clone(), stream)).await
    }

    #[track_caller]
    fn check_opened(&self, expect: usize) {
        assert_eq!(self.opened.load(Ordering::SeqCst), expect);
    }
}

async fn answer(mut stream: TcpStream, answers: usize) {
    for _ in 0..answers {
        let mut read = Vec::new();
        while !read.ends_with(REQUEST.as_bytes()) {
            if stream.read_buf(&mut read).await.unwrap() == 0 {
                return;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
    }
}

async fn answer_over_tls(acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(async |_| Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}")))));
    // Ends with an error when the client closes without a TLS alert, as it does when a test is over.
    if is_http2 {
        let mut server = http2::Builder::new(TokioExecutor::new());
        let _ = server.max_concurrent_streams(STREAMS as u32).serve_connection(TokioIo::new(stream), service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

/// A client that trusts the certificate of [`Server::offering`].
fn trusting_client() -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Client::new(&Connector::new(Resolver::new(None), HttpsConnectorBuilder::new().with_tls_config(config)))
}

async fn send(client: &Client, to: &Uri) -> Result<Response<Body>, OutboundError> {
    client.send(Request::post(to).body(REQUEST.into()).unwrap()).await
}

/// Sends a request, reads the whole answer, and lets the tasks of the connection see its end.
async fn ask(client: &Client, server: &Server) -> Version {
    let response = send(client, &server.to).await.unwrap();
    let version = response.version();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
    settle().await;
    version
}

/// All tasks run on this thread: they have done what they can do now.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_is_used_again_when_its_answer_is_read() {
    let (pool, server) = (Pool::default(), Server::closing_after(10).await);
    let client = pool.open(AddressCheck::Free, false).unwrap();
    for _ in 0..3 {
        assert_eq!(ask(client, &server).await, Version::HTTP_11);
    }
    server.check_opened(1);
}

#[tokio::test]
async fn a_connection_whose_answer_was_not_read_is_not_used_again() {
    let half = |mut stream: TcpStream| async move {
        let mut read = Vec::new();
        while !read.ends_with(REQUEST.as_bytes()) {
            if stream.read_buf(&mut read).await.unwrap() == 0 {
                return;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{").await.unwrap();
        let _ = stream.read_buf(&mut read).await;
    };
    let (pool, server) = (Pool::default(), Server::start("http", half).await);
    let client = pool.open(AddressCheck::Free, false).unwrap();
    for expect in 1..=3 {
        drop(send(client, &server.to).await.unwrap());
        server.check_opened(expect);
        while server.closed.load(Ordering::SeqCst) < expect {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_was_idle_loses_no_request() {
    let (pool, server) = (Pool::default(), Server::closing_after(1).await);
    let client = pool.open(AddressCheck::Free, false).unwrap();
    for expect in 1..=3 {
        ask(client, &server).await;
        server.check_opened(expect);
        while server.closed.load(Ordering::SeqCst) < expect {
            tokio::task::yield_now().await;
        }
        settle().await;
    }
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_closed() {
    let (pool, server) = (Pool::default(), Server::closing_after(10).await);
    let client = pool.open(AddressCheck::Free, false).unwrap();
    ask(client, &server).await;
    tokio::time::pause();
    tokio::time::advance(IDLE_TIMEOUT + Duration::from_secs(1)).await;
    tokio::time::resume();
    while server.closed.load(Ordering::SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    ask(client, &server).await;
    server.check_opened(2);
}

#[tokio::test]
async fn http_2_is_spoken_where_the_server_offers_it() {
    for (offered, expect) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (client, server) = (trusting_client(), Server::offering(offered).await);
        for _ in 0..3 {
            assert_eq!(ask(&client, &server).await, expect, "{offered:?}");
        }
        server.check_opened(1);
    }
}

#[tokio::test]
async fn requests_share_an_http_2_connection_until_its_streams_are_taken() {
    let (client, server) = (trusting_client(), Server::offering(&["h2"]).await);
    let mut responses = Vec::new();
    for _ in 0..STREAMS {
        responses.push(send(&client, &server.to).await.unwrap());
    }
    server.check_opened(1);
    responses.push(send(&client, &server.to).await.unwrap());
    server.check_opened(2);
    drop(responses);
    for _ in 0..3 {
        ask(&client, &server).await;
    }
    server.check_opened(2);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_refused() {
    let (pool, server) = (Pool::default(), Server::offering(&["h2"]).await);
    let client = pool.open(AddressCheck::Free, false).unwrap();
    let error = send(client, &server.to).await.unwrap_err();
    assert!(matches!(error, OutboundError::Connect(_)), "{error:?}");
    assert!(cause(&error).contains("UnknownIssuer"), "{error:?}");
}

/// A name that resolves to this machine is refused by the resolver, and not by its spelling: this client has not
/// checked the spelling.
#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_not_called() {
    let server = Server::closing_after(1).await;
    let to: Uri = server.to.to_string().replace("127.0.0.1", "localhost").parse().unwrap();
    let ask = async |exceptions: &[&str], way| {
        let pool = Pool::new(Reachable::new(exceptions.iter().map(|text| text.parse().unwrap())));
        send(pool.open(way, false).unwrap(), &to).await.map(|_| ())
    };
    for exceptions in [&[][..], &["10.0.0.0/8"]] {
        let error = ask(exceptions, AddressCheck::Checked).await.unwrap_err();
        assert!(matches!(error, OutboundError::NotPublic(_)), "{error:?}");
    }
    server.check_opened(0);
    assert!(ask(&["127.0.0.0/8", "::1/128"], AddressCheck::Checked).await.is_ok());
    assert!(ask(&[], AddressCheck::Free).await.is_ok());
    server.check_opened(2);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_not_a_refusal() {
    let pool = Pool::default();
    let to = Uri::from_static("http://does-not-exist.invalid/");
    let error = send(pool.open(AddressCheck::Checked, false).unwrap(), &to).await.unwrap_err();
    assert!(matches!(error, OutboundError::Connect(_)), "{error:?}");
}
