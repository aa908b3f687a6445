//! Tokens of OAuth's client credentials grant (RFC 6749, 4.4), cached until shortly before they expire.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bosun_adapters::{
    manifests::McpAuthorization,
    secret::{
        Secret,
        binding::{Destination, HostPart},
    },
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};

use super::{HttpError, Inner, read, sensitive};

/// A token is renewed this long before it expires.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a token is used that does not say when it expires.
const UNSTATED: Duration = Duration::from_secs(300);
const LARGEST: usize = 64 * 1024;
const TIMEOUT: Duration = Duration::from_secs(20);

/// The current token of a server.
#[derive(Debug, Default)]
pub(super) struct TokenCache(Mutex<Option<Token>>);

#[derive(Debug)]
struct Token {
    value: Secret,
    renew_at: Instant,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl TokenCache {
    /// The current token, or a new one; concurrent callers wait for the same.
    pub(super) async fn get(&self, server: &Inner) -> Result<Secret, HttpError> {
        let mut current = self.0.lock().await;
        if let Some(token) = current.as_ref().filter(|token| token.renew_at > Instant::now()) {
            return Ok(token.value.clone());
        }
        let granted = tokio::time::timeout(TIMEOUT, request(server)).await;
        let Granted { access_token, expires_in } = granted.map_err(|_| HttpError::Token("no answer".to_owned()))??;
        let lifetime = expires_in.map_or(UNSTATED, |seconds| Duration::from_secs(seconds).saturating_sub(MARGIN));
        // A lifetime that no clock can represent is treated as none.
        let renew_at = Instant::now().checked_add(lifetime).unwrap_or_else(|| Instant::now() + UNSTATED);
        let token = current.insert(Token { value: Secret::new(access_token), renew_at });
        Ok(token.value.clone())
    }

    /// Drops the current token; whether there was one.
    pub(super) async fn discard(&self) -> bool {
        self.0.lock().await.take().is_some()
    }
}

async fn request(server: &Inner) -> Result<Granted, HttpError> {
    let Some(McpAuthorization::ClientCredentials { token_url, client_id, client_secret, scopes }) =
        &server.endpoint.authorization
    else {
        return Err(HttpError::Token("none is configured".to_owned()));
    };
    let to = Destination { url: token_url, kept_in: None };
    let id = server.resolve(client_id, HostPart::Header, to).await?;
    let secret = server.resolve(client_secret, HostPart::Key, to).await?;
    let (Some(id), Some(secret)) = (id, secret) else {
        return Err(HttpError::Token("its credentials are absent".to_owned()));
    };
    let mut request = Request::new(Full::new(Bytes::from(form(scopes))));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = token_url.as_str().parse().map_err(|_| HttpError::BadAddress)?;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    let basic = sensitive(&basic(id.expose(), secret.expose()));
    headers.insert(AUTHORIZATION, basic.ok_or_else(|| HttpError::BadHeader(AUTHORIZATION.to_string()))?);
    let response = server.pool.client(token_url, &server.server.reach)?.send(request).await?;
    let status = response.status();
    let body = read(response.into_body(), LARGEST).await?;
    if !status.is_success() {
        return Err(HttpError::Token(format!("it answered with HTTP {}", status.as_u16())));
    }
    serde_json::from_slice(&body).map_err(|_| HttpError::Token("its answer has no `access_token`".to_owned()))
}

fn form(scopes: &[String]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    form.finish()
}

/// The value of `authorization`: both halves are form-encoded first (RFC 6749, 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret))))
}
