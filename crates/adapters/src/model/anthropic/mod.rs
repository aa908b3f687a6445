//! Anthropic's messages.
//!
//! An answer is a list of blocks. Text and calls are common to all APIs; all other blocks (signed thinking above all)
//! are stored with the turn and sent back unchanged, in their positions: the API rejects a conversation in which a
//! signature does not match. `block_layout` defines how they are stored.

mod assembly;
mod block_layout;
mod request;
mod wire;

use bosun_engine::model::Deltas;
use url::Url;

use self::assembly::MessagesAssembly;
use super::remote::{Failure, RemoteAnswer, RemoteTurn, ReplyReader, Streamed, Wire};

/// The name under which a turn stores provider-specific fields of this API.
const WIRE: &str = "anthropic";

/// The address of the API.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The default version of the API; sent where a manifest names none.
pub const VERSION: &str = "2023-06-01";
/// The default maximum length of an answer: the API requires one.
pub const MAX_TOKENS: u32 = 8_192;

/// Request parameters that this module sets; a manifest cannot.
pub const OWN_PROPERTIES: &[&str] = &["model", "messages", "system", "tools", "tool_choice"];

/// The messages API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagesApi {
    /// Whether to mark prefixes for the API's prompt cache.
    pub cache: bool,
}

impl Wire for MessagesApi {
    fn provider(&self) -> &'static str {
        "anthropic"
    }

    fn address(&self, mut url: Url, _: &str, _: Option<&str>) -> Result<Url, &'static str> {
        let has_version = url.path().ends_with("/v1");
        let mut path = url.path_segments_mut().map_err(|()| "has no path")?;
        path.extend((!has_version).then_some("v1")).push("messages");
        drop(path);
        Ok(url)
    }

    fn headers(&self, key: Option<&str>, version: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", version.unwrap_or(VERSION).to_owned())];
        headers.extend(key.map(|key| ("x-api-key", key.to_owned())));
        headers
    }

    fn body(&self, turn: &RemoteTurn<'_>) -> Result<String, serde_json::Error> {
        request::body(turn, self.cache)
    }

    fn reader(&self) -> Box<dyn ReplyReader> {
        Box::new(Streamed::<MessagesAssembly>::default())
    }

    fn plain(&self, body: &[u8], deltas: &dyn Deltas) -> Result<RemoteAnswer, Failure> {
        assembly::plain(body, deltas)
    }
}

#[cfg(test)]
mod tests;
