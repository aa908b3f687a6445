//! Which connection a call uses: the end user's own, or the one in the settings for queries without an end user.
//!
//! An end user's connection is found by the tag `end_user_id`, and the answer is compared exactly: a connection of
//! another user is never used, and neither is the shared one for a user who has none. Found connections are cached for a
//! short time; a missing one is looked up again, so that a user who has just connected need not wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bosun_core::{Actor, Namespace, cache::WeightedCache};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    client::{NangoClient, NangoRequest},
    error::NangoError,
};

/// How long a found connection is used without another lookup.
const CACHED_FOR: Duration = Duration::from_secs(60);
const CACHED: usize = 4_096;

/// Finds connections, and caches them.
#[derive(Debug)]
pub(super) struct ConnectionCache {
    found: Mutex<WeightedCache<ConnectionKey, (String, Instant)>>,
}

/// Namespace, end user and integration.
type ConnectionKey = (Namespace, String, String);

impl Default for ConnectionCache {
    fn default() -> Self {
        Self { found: Mutex::new(WeightedCache::new(CACHED)) }
    }
}

impl ConnectionCache {
    /// The id of the connection that a call of `actor` uses for `provider`.
    pub(super) async fn find(
        &self,
        client: &NangoClient,
        namespace: &Namespace,
        actor: &Actor,
        provider: &str,
        time_left: impl Fn() -> Duration,
    ) -> Result<String, NangoError> {
        let Some(user) = actor.user() else {
            let configured = client.settings.connections.get(provider).cloned();
            return configured.ok_or_else(|| {
                let message = format!(
                    "`{provider}` is not connected: the query has no end user, and the server's settings have no \
                     connection for it in `[nango.connections]`"
                );
                NangoError::NotConnected { message, link: None }
            });
        };
        let key = (namespace.clone(), user.to_owned(), provider.to_owned());
        if let Some((id, at)) = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && at.elapsed() < CACHED_FOR
        {
            return Ok(id.clone());
        }
        let id = look_up(client, namespace, user, provider, &time_left).await?;
        drop(self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (id.clone(), Instant::now()), 1));
        Ok(id)
    }

    /// Evicts a connection that Nango no longer knows.
    pub(super) fn evict(&self, namespace: &Namespace, actor: &Actor, provider: &str) {
        if let Some(user) = actor.user() {
            let key = (namespace.clone(), user.to_owned(), provider.to_owned());
            self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }
}

/// Of these integrations, those that a user cannot use, each with what the user has to do.
pub(super) async fn unconnected(
    client: &NangoClient,
    namespace: &Namespace,
    user: &str,
    providers: BTreeSet<String>,
    time_left: impl Fn() -> Duration,
) -> Result<BTreeMap<String, String>, NangoError> {
    let request = NangoRequest::get(&["connections"]).with("tags[end_user_id]", user);
    let answer = client.send(namespace, &request, time_left).await?;
    let listed = answer.body.get("connections").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let reason = |provider: &str| {
        let own = || listed.iter().filter(|connection| is_own(connection, user, provider));
        if own().any(|connection| !has_expired(connection)) {
            return None;
        }
        let (what, link) = match own().next() {
            Some(_) => {
                (format!("the login of user `{user}` at `{provider}` has expired"), "a link to connect it again")
            }
            None => (format!("user `{user}` has not connected `{provider}`"), "a link to connect it"),
        };
        Some(format!("{what}: a call of the tool answers with {link}"))
    };
    Ok(providers.into_iter().filter_map(|provider| reason(&provider).map(|reason| (provider, reason))).collect())
}

/// Whether a connection is one of this user to this provider. What was asked for is compared again: a filter that the server
/// ignores would hand out another user's connection.
fn is_own(connection: &Value, user: &str, provider: &str) -> bool {
    connection.get("provider_config_key").and_then(Value::as_str) == Some(provider)
        && connection.pointer("/tags/end_user_id").and_then(Value::as_str) == Some(user)
}

async fn look_up(
    client: &NangoClient,
    namespace: &Namespace,
    user: &str,
    provider: &str,
    time_left: &impl Fn() -> Duration,
) -> Result<String, NangoError> {
    let request = NangoRequest::get(&["connections"]).with("tags[end_user_id]", user).with("integrationId", provider);
    let answer = client.send(namespace, &request, time_left).await?;
    let listed = answer.body.get("connections").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let created = |connection: &Value| connection.get("created").and_then(Value::as_str).unwrap_or_default().to_owned();
    let own: Vec<_> = listed.iter().filter(|connection| is_own(connection, user, provider)).collect();
    let working = own.iter().filter(|connection| !has_expired(connection)).max_by_key(|connection| created(connection));
    if let Some(id) = working.and_then(|connection| connection.get("connection_id")?.as_str()) {
        return Ok(id.to_owned());
    }
    let (reason, path, body) = match own.first().and_then(|connection| connection.get("connection_id")?.as_str()) {
        Some(id) => (
            format!("the login of user `{user}` at `{provider}` has expired; the user has to connect it again"),
            &["connect", "sessions", "reconnect"][..],
            json!({"connection_id": id, "integration_id": provider}),
        ),
        None => (
            format!("user `{user}` has not connected `{provider}`; the user has to connect it first"),
            &["connect", "sessions"][..],
            json!({"end_user": {"id": user}, "allowed_integrations": [provider]}),
        ),
    };
    // Without the scope for it there is no link, and the reason is given without one.
    let session = client.send(namespace, &NangoRequest::post(path, body), time_left).await.ok();
    let link = session.and_then(|session| {
        let data = session.body.get("data")?;
        Some(json!({"connectLink": data.get("connect_link")?, "expiresAt": data.get("expires_at")}))
    });
    let message = match &link {
        Some(_) => format!("{reason}: show the user the link"),
        None => format!("{reason} at Nango"),
    };
    Err(if own.is_empty() {
        NangoError::NotConnected { message, link }
    } else {
        NangoError::AuthExpired { message, link }
    })
}

/// Whether Nango has seen the provider refuse its credentials.
fn has_expired(connection: &Value) -> bool {
    let errors = connection.get("errors").and_then(Value::as_array).into_iter().flatten();
    errors.filter_map(|error| error.get("type")?.as_str()).any(|kind| kind == "auth")
}
