//! Tools of Nango integrations: reads of synced records, and actions.
//!
//! The arguments were validated against the tool's schema, and their `input` wrapper is removed here, once. A call uses
//! the connection of the query's end user. The key and the shared connections are the operator's, so a tool that a client
//! has stored uses only the integrations that the operator names ([`ProviderGrants`]).

mod action;
mod client;
mod condition;
mod connection;
mod error;
mod grant;
mod live;
mod query;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    Actor, Binding, Namespace, Outcome,
    machine::outcome_code,
    tool::{Nango, routing::ToolRoute, wrapper},
};
use bosun_engine::{
    Clock,
    runner::{InsideCall, RunContext, RunReply},
    user_connections::UserConnections,
};
use serde_json::Value;

use self::{
    action::ActionRun, client::NangoClient, connection::ConnectionCache, error::NangoError, query::RecordQuery,
    records::RecordRead,
};
use crate::{outbound::Pool, secret::Secrets};

pub use self::{
    client::{NangoSettings, SECRET_KEY, SECRET_NAME},
    grant::{GrantedNango, ProviderGrants},
    live::{LiveFault, check_live},
};

/// Runs tools with [`Binding::Nango`], for every registry of a server; [`GrantedNango`] is its runner in one.
pub struct NangoRunner {
    client: NangoClient,
    connections: ConnectionCache,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for NangoRunner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NangoRunner").field("client", &self.client).finish_non_exhaustive()
    }
}

impl NangoRunner {
    #[must_use]
    pub fn new(settings: NangoSettings, secrets: Arc<Secrets>, pool: Arc<Pool>, clock: Arc<dyn Clock>) -> Self {
        let client = NangoClient::new(settings, secrets, pool);
        Self { client, connections: ConnectionCache::default(), clock }
    }

    #[must_use]
    pub fn settings(&self) -> &NangoSettings {
        &self.client.settings
    }

    async fn start(&self, call: &InsideCall, nango: &Nango, context: &RunContext) -> Result<RunReply, NangoError> {
        let input = wrapper::unwrap(&call.tool.parameters, Value::clone(&call.arguments));
        let (namespace, provider) = (&call.namespace, nango.provider());
        let time_left = || context.time_left();
        // Before the first request: a call that cannot be answered costs none.
        let asked = match nango {
            Nango::Cache { .. } => Some(self.read_query(call, &input)?),
            Nango::Action { .. } => None,
        };
        let connection = self.connections.find(&self.client, namespace, &context.actor, provider, time_left).await?;
        let result = match (nango, asked) {
            (Nango::Action { action, .. }, _) => {
                let is_idempotent = call.tool.is_safe_to_repeat();
                self.action(call, provider, action).trigger(&connection, input, is_idempotent, time_left).await
            }
            (Nango::Cache { .. }, Some((model, query))) => {
                let (client, now) = (&self.client, self.clock.now());
                let read = RecordRead { client, namespace, provider, connection: &connection, model: &model, now };
                read.run(query, time_left).await.map(|records| RunReply::Done(Outcome::success(records)))
            }
            (Nango::Cache { .. }, None) => Err(NangoError::Misconfigured("the tool has no model".to_owned())),
        };
        if let Err(NangoError::NotConnected { .. }) = &result {
            self.connections.evict(namespace, &context.actor, provider);
        }
        result
    }

    /// The model and the query of a read.
    fn read_query(&self, call: &InsideCall, input: &Value) -> Result<(String, RecordQuery), NangoError> {
        let misconfigured =
            |fault: String| NangoError::Misconfigured(format!("the tool's `cache_model` cannot be used: {fault}"));
        let route = ToolRoute::of(&call.tool).map_err(|fault| misconfigured(fault.to_string()))?;
        let route = route.ok_or_else(|| misconfigured("it has none".to_owned()))?;
        let model = route.model(input).map_err(|fault| NangoError::InvalidArguments(fault.to_string()))?;
        let routing: Vec<_> = route.placeholders().collect();
        let query = RecordQuery::read(input, &routing).map_err(|fault| NangoError::InvalidArguments(fault.0))?;
        Ok((model, query))
    }

    fn action<'a>(&'a self, call: &'a InsideCall, provider: &'a str, action: &'a str) -> ActionRun<'a> {
        ActionRun { client: &self.client, namespace: &call.namespace, provider, action, now: self.clock.now() }
    }

    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        let Binding::Nango(nango) = &call.tool.binding else {
            let message = format!("tool `{}` is not one of a Nango integration", call.tool.name);
            return Outcome::failure(outcome_code::TOOL_FAILED, message).into();
        };
        match self.start(call, nango, context).await {
            Ok(reply) => reply,
            Err(error) => error.into_outcome().into(),
        }
    }

    async fn poll(&self, call: &InsideCall, handle: &Value, context: &RunContext) -> RunReply {
        let Binding::Nango(Nango::Action { provider, action }) = &call.tool.binding else {
            let message = format!("tool `{}` is not an action", call.tool.name);
            return Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message).into();
        };
        self.action(call, provider, action).poll(handle, || context.time_left()).await
    }
}

/// How long a list of tools waits for Nango.
const LISTING_TIMEOUT: Duration = Duration::from_secs(5);

#[async_trait]
impl UserConnections for NangoRunner {
    async fn unconnected(
        &self,
        namespace: &Namespace,
        actor: &Actor,
        providers: BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let Some(user) = actor.user() else { return Ok(BTreeMap::new()) };
        let found = connection::unconnected(&self.client, namespace, user, providers, || LISTING_TIMEOUT);
        match tokio::time::timeout(LISTING_TIMEOUT, found).await {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err("Nango does not answer".to_owned()),
        }
    }
}
