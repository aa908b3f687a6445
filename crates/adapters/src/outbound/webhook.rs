//! Posts to webhooks that clients name.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_engine::webhook::{PostWebhooks, WebhookPost};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, header::USER_AGENT};
use url::Url;

use super::{Pool, cause};
use crate::secret::binding::{Grants, SecretReach};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts on connections that reach what is public, and what the operator excepts.
#[derive(Debug)]
pub struct WebhookClient {
    pool: Pool,
    /// As manifests that came through the API.
    reach: SecretReach,
}

impl WebhookClient {
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        let grants = Arc::new(Grants::default());
        Self { pool, reach: SecretReach::Stored { grants, own: None } }
    }

    fn read(url: &str) -> Result<Url, String> {
        let url = Url::parse(url).map_err(|_| "it is not a URL".to_owned())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("it must begin with `http://` or `https://`".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("credentials belong in `authentication`, not in the URL".to_owned());
        }
        Ok(url)
    }
}

#[async_trait]
impl PostWebhooks for WebhookClient {
    fn check(&self, url: &str) -> Result<(), String> {
        let url = Self::read(url)?;
        let private = "the address is private; the operator can list it in `allow_private`";
        self.pool.check_of(&url, &self.reach).map(drop).map_err(|_| private.to_owned())
    }

    async fn post(&self, post: &WebhookPost) -> Result<u16, String> {
        let url = Self::read(&post.url)?;
        let mut request = Request::post(url.as_str()).header(USER_AGENT, concat!("bosun/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &post.headers {
            request = request.header(*name, value);
        }
        let body = Full::new(Bytes::from(post.body.clone()));
        let request = request.body(body).map_err(|_| "it is not a usable request".to_owned())?;
        let client = self.pool.client(&url, &self.reach).map_err(|error| cause(&error))?;
        match tokio::time::timeout(TIMEOUT, client.send(request)).await {
            Ok(Ok(response)) => Ok(response.status().as_u16()),
            Ok(Err(error)) => Err(cause(&error)),
            Err(_) => Err(format!("it did not answer within {} s", TIMEOUT.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Reachable;

    #[track_caller]
    fn check(url: &str, expect: Option<&str>) {
        let client = WebhookClient::new(Pool::new(Reachable::default()));
        match (client.check(url), expect) {
            (Ok(()), None) => {}
            (Err(why), Some(part)) => assert!(why.contains(part), "{url}: {why}"),
            (found, _) => panic!("{url}: {found:?}"),
        }
    }

    #[test]
    fn a_client_names_public_addresses_only() {
        check("https://hooks.example/x", None);
        check("http://hooks.example:8080/x", None);
        for private in ["http://127.0.0.1/x", "http://localhost:1/x", "http://[::1]/x", "http://169.254.169.254/x"] {
            check(private, Some("private"));
        }
        check("ftp://hooks.example/x", Some("http"));
        check("hooks.example", Some("URL"));
        check("https://user:secret@hooks.example/x", Some("authentication"));
    }
}
