//! Which integrations an end user can use: some tools act with a login of the user's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use bosun_core::{Actor, Namespace};

use crate::Registry;

/// Knows the connections of end users.
#[async_trait]
pub trait UserConnections: Send + Sync + 'static {
    /// Of these integrations, those that the end user of `actor` cannot use, each with what the user has to do.
    ///
    /// # Errors
    /// If that cannot be determined; with the reason.
    async fn unconnected(
        &self,
        namespace: &Namespace,
        actor: &Actor,
        providers: BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, String>;
}

impl Registry {
    /// Sets what knows the connections of end users.
    pub fn set_user_connections(&mut self, connections: Arc<dyn UserConnections>) {
        self.user_connections = Some(connections);
    }

    /// What knows the connections of end users; `None` if no tool needs any.
    #[must_use]
    pub fn user_connections(&self) -> Option<&Arc<dyn UserConnections>> {
        self.user_connections.as_ref()
    }
}
