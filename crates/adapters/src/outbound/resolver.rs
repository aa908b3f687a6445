//! The resolver of the connector, which passes on only the addresses that may be called.
//!
//! A connection is made with one lookup: what it returns is filtered, and what is left is what is connected to. A name
//! that resolves to another address a moment later (DNS rebinding) is looked up and filtered again by the next connection.

use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

use super::BoxError;
use crate::address::{NotPublic, Reachable};

/// Where names are looked up.
#[async_trait]
pub(super) trait LookUp: fmt::Debug + Send + Sync {
    /// All addresses of a name, now.
    async fn look_up(&self, name: &str) -> io::Result<Vec<SocketAddr>>;
}

/// The machine's own resolver.
#[derive(Debug)]
struct SystemNames;

#[async_trait]
impl LookUp for SystemNames {
    async fn look_up(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.collect())
    }
}

/// Resolves names to addresses that may be called.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    names: Arc<dyn LookUp>,
    /// `None` if every address may be called.
    reachable: Option<Arc<Reachable>>,
}

impl Resolver {
    /// One that asks the machine's name server.
    pub(super) fn new(reachable: Option<Arc<Reachable>>) -> Self {
        Self { names: Arc::new(SystemNames), reachable }
    }

    #[cfg(test)]
    pub(super) fn asking(names: Arc<dyn LookUp>, reachable: Reachable) -> Self {
        Self { names, reachable: Some(Arc::new(reachable)) }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { names, reachable } = self.clone();
        Box::pin(async move {
            let mut found = names.look_up(name.as_str()).await?;
            if let Some(reachable) = reachable {
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
