//! HTTP connections, and what is known of the addresses behind them.

use std::{sync::OnceLock, time::Duration};

use bosun_engine::model::ModelError;
use reqwest::{Client, redirect::Policy};

use crate::model::health::Endpoints;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP connections, shared by all models of a server.
///
/// Two clients, each made when it is first needed: reading the machine's certificates takes longer
/// than starting the server, and a machine without any can still use a model next door.
#[derive(Debug, Default)]
pub struct Connections {
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
    pub(super) endpoints: Endpoints,
}

impl Connections {
    pub(super) fn client(&self, scheme: &str) -> Result<&Client, ModelError> {
        let is_secure = scheme == "https";
        let slot = if is_secure { &self.secure } else { &self.plain };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        // Fails if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let builder = if is_secure { builder } else { builder.tls_certs_only([]) };
        let client = builder.build().map_err(|error| {
            ModelError::Misconfigured(format!("this machine cannot open secure connections: {}", cause(error)))
        })?;
        Ok(slot.get_or_init(|| client))
    }
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
