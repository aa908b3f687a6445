//! HTTP connections, what is known of the addresses behind them, and who may reach which.
//!
//! What an operator writes into a file may call any address. What a client has stored may call what is public and what
//! was excepted: its connections are apart, and the name server's answer is looked at by what connects, so that no
//! second answer can lead elsewhere. Neither follows redirects or the environment's proxies.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bosun_engine::model::ModelError;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};

use crate::{
    address::{NotPublic, Reachable, Way},
    model::health::Endpoints,
    secret::binding::Reach,
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
        // Fails if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let builder = if is_secure { builder } else { builder.tls_certs_only([]) };
        let builder = match way {
            Way::Free => builder,
            Way::Checked => builder.dns_resolver(Arc::new(CheckedNames(Arc::clone(&self.reachable)))),
        };
        let client = builder.build().map_err(|error| {
            ModelError::Misconfigured(format!("this machine cannot open secure connections: {}", cause(error)))
        })?;
        Ok(slot.get_or_init(|| client))
    }
}

/// Asks the machine's name server, and passes on only what may be called.
#[derive(Debug)]
struct CheckedNames(Arc<Reachable>);

impl Resolve for CheckedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let reachable = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let had_any = !found.is_empty();
            let allowed: Vec<_> = found.into_iter().filter(|address| reachable.includes(address.ip())).collect();
            if had_any && allowed.is_empty() {
                return Err(NotPublic.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Why a request was not sent, if it is because its name leads to where it may not go.
pub(super) fn refused(error: &reqwest::Error) -> Option<ModelError> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(refused) = error.downcast_ref::<NotPublic>() {
            return Some(not_allowed(*refused));
        }
        source = error.source();
    }
    None
}

fn not_allowed(refused: NotPublic) -> ModelError {
    ModelError::AddressNotAllowed(format!("`baseUrl`: {refused}"))
}

/// The innermost cause, which says what happened; the outer ones say where, and the URL is not told.
pub(super) fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
            client.post(format!("{address}/v1/chat/completions")).body("{}").send().await
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
        let error = client.get("http://does-not-exist.invalid/").send().await.unwrap_err();
        assert!(refused(&error).is_none(), "{error:?}");
    }
}
