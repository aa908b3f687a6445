//! HTTP connections, what is known of the addresses behind them, and who may reach which.
//!
//! What an operator writes into a file may call any address. What a client has stored may call what is public and what
//! was excepted: its connections are apart, and the name server's answer is looked at by what connects, so that no
//! second answer can lead elsewhere. Neither follows redirects or the environment's proxies.

use std::{
    error::Error,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bosun_engine::model::ModelError;
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::connect::{HttpConnector, dns::Name},
    rt::TokioIo,
};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::{Service, ServiceExt as _};
use url::Url;

use super::client::{Client, SendError};
use crate::{
    address::{NotPublic, Reachable, Way},
    model::health::Endpoints,
    secret::binding::Reach,
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an idle connection is asked for a sign of life, and how long what was sent may stay unanswered by the
/// other side's kernel: an API that has vanished must not hold a turn until its own time is over.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_RETRIES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// HTTP connections, shared by all models of a server.
///
/// Several clients, each made when it is first needed: reading the machine's certificates takes longer
/// than starting the server, and a machine without any can still use a model next door.
#[derive(Debug, Default)]
pub struct Connections {
    free: Clients,
    checked: Clients,
    /// What the models of clients may call.
    reachable: Arc<Reachable>,
    pub(super) endpoints: Endpoints,
}

#[derive(Debug, Default)]
struct Clients {
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
}

impl Connections {
    /// Connections on which the models of clients reach what is public, and these exceptions.
    #[must_use]
    pub fn new(reachable: Reachable) -> Self {
        Self { reachable: Arc::new(reachable), ..Self::default() }
    }

    /// Whether a model may call an address, as far as its URL says.
    pub(crate) fn way_to(&self, url: &Url, reach: &Reach) -> Result<Way, NotPublic> {
        match reach {
            Reach::File => Ok(Way::Free),
            Reach::Stored { .. } => self.reachable.way_to(url),
        }
    }

    pub(super) fn client(&self, url: &Url, reach: &Reach) -> Result<&Client, ModelError> {
        let way = self.way_to(url, reach).map_err(not_allowed)?;
        self.open(way, url.scheme() == "https")
    }

    fn open(&self, way: Way, is_secure: bool) -> Result<&Client, ModelError> {
        let clients = match way {
            Way::Free => &self.free,
            Way::Checked => &self.checked,
        };
        let slot = if is_secure { &clients.secure } else { &clients.plain };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let names = match way {
            Way::Free => Names::Any,
            Way::Checked => Names::Checked(Arc::clone(&self.reachable)),
        };
        let connector = Connector::open(names, is_secure).map_err(|error| {
            ModelError::Misconfigured(format!("this machine cannot open secure connections: {}", cause(&error)))
        })?;
        Ok(slot.get_or_init(|| Client::new(connector)))
    }
}

/// Connects, over TLS where the address says so, and gives up in time.
#[derive(Clone, Debug)]
pub(super) struct Connector(HttpsConnector<HttpConnector<Names>>);

impl Connector {
    fn open(names: Names, is_secure: bool) -> Result<Self, rustls::Error> {
        // Fails if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut sockets = HttpConnector::new_with_resolver(names);
        sockets.enforce_http(false);
        sockets.set_nodelay(true);
        sockets.set_keepalive(Some(KEEP_ALIVE));
        sockets.set_keepalive_interval(Some(KEEP_ALIVE));
        sockets.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        sockets.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let builder = HttpsConnectorBuilder::new();
        let builder = if is_secure {
            builder.try_with_platform_verifier()?
        } else {
            let trusting_nobody = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            builder.with_tls_config(trusting_nobody.with_no_client_auth())
        };
        Ok(Self(builder.https_or_http().enable_http1().wrap_connector(sockets)))
    }

    pub(super) async fn connect(&self, to: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, BoxError> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.0.clone().oneshot(to)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }
}

/// Asks the machine's name server, and passes on only what may be called.
#[derive(Clone, Debug)]
enum Names {
    Any,
    Checked(Arc<Reachable>),
}

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let names = self.clone();
        Box::pin(async move {
            let mut found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Self::Checked(reachable) = names {
                let had_any = !found.is_empty();
                found.retain(|address| reachable.includes(address.ip()));
                if had_any && found.is_empty() {
                    return Err(NotPublic.into());
                }
            }
            Ok(found.into_iter())
        })
    }
}

/// Why a request was not sent, if it is because its name leads to where it may not go.
pub(super) fn refused(error: &SendError) -> Option<ModelError> {
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref::<NotPublic>()).map(|refused| not_allowed(*refused)).next()
}

fn not_allowed(refused: NotPublic) -> ModelError {
    ModelError::AddressNotAllowed(format!("`baseUrl`: {refused}"))
}

/// The innermost cause, which says what happened; the outer ones say where.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hyper::Request;

    use super::*;
    use crate::model::{
        scripted::Script,
        standin::{Plays, StandIn},
    };

    /// A name that leads to this machine is refused by what connects, and not by how it is spelled: with this client,
    /// the spelling has not been looked at.
    #[tokio::test]
    async fn a_name_that_leads_to_a_private_address_is_not_called() {
        let script = Script::parse(Path::new("script.yaml"), "otherwise: [{say: Hello.}]").unwrap();
        let api = StandIn::recording(Plays::Script(Arc::new(script))).await.unwrap();
        let address = api.url().replace("127.0.0.1", "localhost");
        let ask = async |exceptions: &[&str], way| {
            let connections = Connections::new(Reachable::new(exceptions.iter().map(|text| text.parse().unwrap())));
            let client = connections.open(way, false).unwrap();
            let request = Request::post("/v1/chat/completions").body("{}".into()).unwrap();
            let to: Uri = address.parse().unwrap();
            client.send(&to, request).await.map(|_| ())
        };
        let error = ask(&[], Way::Checked).await.unwrap_err();
        assert_eq!(refused(&error).map(|refused| refused.code()), Some("address_not_allowed"), "{error:?}");
        assert!(ask(&["10.0.0.0/8"], Way::Checked).await.is_err());
        assert_eq!(api.requests().len(), 0, "nothing arrived");
        assert!(ask(&["127.0.0.0/8", "::1/128"], Way::Checked).await.is_ok());
        assert!(ask(&[], Way::Free).await.is_ok());
        assert_eq!(api.requests().len(), 2);
    }

    #[tokio::test]
    async fn an_error_of_another_kind_is_no_refusal() {
        let connections = Connections::default();
        let client = connections.open(Way::Checked, false).unwrap();
        let to = Uri::from_static("http://does-not-exist.invalid/");
        let error = client.send(&to, Request::new("".into())).await.map(|_| ()).unwrap_err();
        assert!(refused(&error).is_none(), "{error:?}");
    }
}
