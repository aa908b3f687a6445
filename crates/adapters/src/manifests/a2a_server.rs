//! A2A servers: where they are, and how the agents behind them are asked.
//!
//! `address`, `headers`, `description`, `timeout` and `pollInterval` are ARK's. Ours are `confirm`, as for MCP servers, and
//! `idempotent`: the operator's word that the server recognizes the id of a message that it is sent twice.

use std::{sync::Arc, time::Duration};

use bosun_core::{Namespace, tool::Confirm};
use bosun_reading::{Fault, Fields, spec};
use url::Url;

use super::{
    document::{LocatedManifest, ManifestMetadata},
    endpoint::{self, EndpointHeader},
};
use crate::{
    outbound::Pool,
    secret::{
        SecretSource, Secrets,
        binding::{Grants, HostPart, SecretReach},
    },
};

/// How often the card is fetched again, as in ARK.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// An A2A server as its manifest describes it. Secrets are resolved at each request.
#[derive(Clone, Debug, PartialEq)]
pub struct A2aServerManifest {
    pub namespace: Namespace,
    pub name: String,
    pub address: SecretSource,
    pub headers: Vec<(String, EndpointHeader)>,
    /// Shown for an agent whose card has no description.
    pub description: Option<String>,
    /// How long an agent may work on a task; the query's limit of external calls where absent.
    pub timeout: Option<Duration>,
    /// How often the card is fetched again.
    pub poll_interval: Duration,
    /// Whether a message with the id of an earlier one only repeats the answer.
    pub idempotent: bool,
    /// Whether calls of the agent wait for approval; the calling agent's policy where `None`.
    pub confirm: Option<Confirm>,
    /// Where its secrets may be sent, and what it may call.
    pub reach: SecretReach,
}

impl A2aServerManifest {
    /// Binds the secrets of a stored server to the destinations to which the files send them.
    pub(super) fn bind(&mut self, grants: &Arc<Grants>) {
        self.reach = SecretReach::Stored { grants: Arc::clone(grants), own: None };
    }

    /// Every header that may be a secret, and its destination.
    fn sent(&self) -> Vec<(&str, &SecretSource, Url)> {
        let Some(url) = endpoint::literal_url(&self.address) else { return Vec::new() };
        let fixed = self.headers.iter().filter_map(|(name, value)| match value {
            EndpointHeader::Fixed(source) => Some((name.as_str(), source, url.clone())),
            EndpointHeader::QueryParameter(_) => None,
        });
        fixed.collect()
    }

    /// Everything that keeps this server from being called, as far as that is known before a call.
    pub(super) async fn check_destination(&self, secrets: &Secrets, pool: &Pool) -> Vec<Fault> {
        let url = endpoint::literal_url(&self.address);
        let refused = url.and_then(|url| endpoint::check_address(&self.reach, "address", &url, pool));
        let mut faults: Vec<_> = refused.into_iter().collect();
        for (field, source, url) in self.sent() {
            let (namespace, reach) = (&self.namespace, &self.reach);
            let fault = endpoint::check_secret(namespace, reach, field, HostPart::Header, source, &url, secrets);
            faults.extend(fault.await);
        }
        faults
    }
}

/// Adds where these servers, which are described by files, send which secrets.
pub(super) fn add_grants(servers: &[A2aServerManifest], grants: &mut Grants) {
    for server in servers {
        for (_, source, url) in server.sent() {
            grants.add(&server.namespace, source, &url);
        }
    }
}

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<A2aServerManifest>> {
    let spec = fields.required_fields("spec", "an A2A server has at least an `address`")?;
    let spec = spec.with_table(spec::A2A_SERVER);
    let address = endpoint::address(&spec);
    let headers = endpoint::headers(&spec, "a2a-");
    let description = spec.text("description").map(|text| text.value.to_owned());
    let timeout = spec.positive_duration("timeout");
    let poll_interval = spec.positive_duration("pollInterval").unwrap_or(POLL_INTERVAL);
    let idempotent = endpoint::operators_word(&spec, "idempotent");
    let confirm = endpoint::confirm(&spec);
    spec.finish();
    let server = A2aServerManifest {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        address: address?,
        headers,
        description,
        timeout,
        poll_interval,
        idempotent,
        confirm,
        reach: SecretReach::File,
    };
    Some(metadata.located(fields, server))
}
