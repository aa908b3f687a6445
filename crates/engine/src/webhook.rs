//! The trait of what posts to webhooks.
//!
//! Addresses come from clients, so an implementation reaches only what is public and what the operator excepts.

use std::fmt;

use async_trait::async_trait;

/// One request to a webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookPost {
    pub url: String,
    /// They may contain credentials.
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl fmt::Debug for WebhookPost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WebhookPost").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

#[async_trait]
pub trait PostWebhooks: Send + Sync + fmt::Debug {
    /// Whether a client may name this address, as far as its text says; else why not.
    ///
    /// # Errors
    /// If it may not.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Posts, and returns the status of the answer. The body of the answer is not read, and redirects are not followed.
    ///
    /// # Errors
    /// If there is no answer in time: why, without the address.
    async fn post(&self, post: &WebhookPost) -> Result<u16, String>;
}
