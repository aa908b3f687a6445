//! The resolver of the connector, which passes on only the addresses that may be called.
//!
//! What it returns is what is connected to: there is no second lookup between the check and the connection.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

use super::BoxError;
use crate::address::{NotPublic, Reachable};

/// Asks the machine's name server.
#[derive(Clone, Debug)]
pub(super) enum Resolver {
    Any,
    Checked(Arc<Reachable>),
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move {
            let mut found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Self::Checked(reachable) = resolver {
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
