//! DNS rebinding: names that resolve to something else the next time. All addresses are loopback ones: 127.0.0.1 stands for the
//! public address, which may be called, and 127.0.0.2 the private one, where a trap counts connections.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Mutex,
};

use async_trait::async_trait;

use super::*;
use crate::{address::Exception, outbound::resolver::LookUp};

const ALLOWED: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const REFUSED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A name server whose next answers are given, and which counts its lookups. The last answer is repeated.
#[derive(Debug)]
struct ScriptedNames {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    lookups: AtomicUsize,
}

impl ScriptedNames {
    fn new(answers: &[&[IpAddr]]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Arc::new(Self { answers: Mutex::new(answers), lookups: AtomicUsize::new(0) })
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl LookUp for ScriptedNames {
    async fn look_up(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        assert_eq!(name, "rebound.test");
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Ok(next.unwrap().into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

/// A server at the allowed address, and a trap at the refused one, on the same port.
struct Hosts {
    server: Server,
    trap: TcpListener,
    to: Uri,
}

impl Hosts {
    async fn start() -> Self {
        loop {
            // Each answer ends its connection, so that each request needs another one.
            let server = Server::closing_after(1).await;
            let port = server.to.port_u16().unwrap();
            // Another process may have the port at the other address.
            if let Ok(trap) = TcpListener::bind((REFUSED, port)).await {
                let to = format!("http://rebound.test:{port}/").parse().unwrap();
                return Self { server, trap, to };
            }
        }
    }

    fn client(names: &Arc<ScriptedNames>) -> Client {
        let reachable = Reachable::new(["127.0.0.1/32".parse::<Exception>().unwrap()]);
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let resolver = Resolver::asking(Arc::clone(names) as Arc<dyn LookUp>, reachable);
        Client::new(&Connector::new(resolver, HttpsConnectorBuilder::new().with_tls_config(tls)))
    }

    /// Sends one request; whether it was refused.
    async fn ask(&self, client: &Client) -> Result<(), OutboundError> {
        let request = Request::post(self.to.clone()).body(Full::new(Bytes::from_static(REQUEST.as_bytes()))).unwrap();
        let response = client.send(request).await?;
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
        Ok(())
    }

    /// That nothing has connected to the trap: the kernel completes a connection before it is accepted.
    #[track_caller]
    fn check_trap(self) {
        let trap = self.trap.into_std().unwrap();
        trap.set_nonblocking(true).unwrap();
        assert_eq!(trap.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "a connection to a refused address");
    }
}

#[tokio::test]
async fn a_name_that_is_rebound_to_a_refused_address_is_refused_by_the_next_connection() {
    let hosts = Hosts::start().await;
    let names = ScriptedNames::new(&[&[ALLOWED], &[REFUSED]]);
    let client = Hosts::client(&names);
    hosts.ask(&client).await.unwrap();
    assert_eq!(names.lookups(), 1, "the address that was checked is the one that was connected to");
    let refused = hosts.ask(&client).await.unwrap_err();
    assert!(matches!(refused, OutboundError::NotPublic(_)), "{refused:?}");
    assert_eq!(names.lookups(), 2);
    hosts.server.check_opened(1);
    hosts.check_trap();
}

#[tokio::test]
async fn of_a_name_with_both_addresses_only_the_allowed_one_is_connected_to() {
    for answer in [[REFUSED, ALLOWED], [ALLOWED, REFUSED]] {
        let hosts = Hosts::start().await;
        let names = ScriptedNames::new(&[&answer]);
        hosts.ask(&Hosts::client(&names)).await.unwrap();
        assert_eq!(names.lookups(), 1);
        hosts.server.check_opened(1);
        hosts.check_trap();
    }
}

#[tokio::test]
async fn an_allowed_address_that_does_not_answer_is_not_replaced_by_a_refused_one() {
    let Hosts { server, trap, to } = Hosts::start().await;
    drop(server);
    let names = ScriptedNames::new(&[&[ALLOWED, REFUSED]]);
    let hosts = Hosts { server: Server::closing_after(1).await, trap, to };
    let failed = hosts.ask(&Hosts::client(&names)).await.unwrap_err();
    assert!(!matches!(failed, OutboundError::NotPublic(_)), "{failed:?}");
    assert_eq!(names.lookups(), 1);
    hosts.check_trap();
}

#[tokio::test]
async fn an_address_that_embeds_a_refused_one_is_refused() {
    let hosts = Hosts::start().await;
    let names = ScriptedNames::new(&[&[IpAddr::V6(Ipv4Addr::new(127, 0, 0, 2).to_ipv6_mapped())]]);
    let refused = hosts.ask(&Hosts::client(&names)).await.unwrap_err();
    assert!(matches!(refused, OutboundError::NotPublic(_)), "{refused:?}");
    hosts.check_trap();
}
