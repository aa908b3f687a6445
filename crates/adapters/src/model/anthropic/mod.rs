//! Anthropic's messages.
//!
//! What a model says there is a list of blocks. Text and calls are what everybody knows; all other
//! blocks (signed thoughts, above all) are kept with the turn and go back unchanged, in their places:
//! the API refuses a conversation in which a signature does not fit. `layout` has the form in which
//! they are kept.

mod assembly;
mod layout;
mod request;
mod wire;

use bosun_engine::model::Deltas;
use url::Url;

use self::assembly::Assembly;
use super::remote::{Answer, Failure, Reader, Streamed, Turn, Wire};

/// Under which name a turn keeps what only this API understands.
const WIRE: &str = "anthropic";

/// Where the API is.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The version of the API that this module speaks; sent where a manifest names none.
pub const VERSION: &str = "2023-06-01";
/// How long an answer may be where a manifest does not say: the API wants to be told.
pub const MAX_TOKENS: u32 = 8_192;

/// Parameters of a request that belong to this module; a manifest cannot set them.
pub const OWN_PROPERTIES: &[&str] = &["model", "messages", "system", "tools", "tool_choice"];

/// The messages API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Whether to mark what the API may keep in its prompt cache.
    pub cache: bool,
}

impl Wire for Messages {
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

    fn body(&self, turn: &Turn<'_>) -> Result<String, serde_json::Error> {
        request::body(turn, self.cache)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Streamed::<Assembly>::default())
    }

    fn plain(&self, body: &[u8], deltas: &dyn Deltas) -> Result<Answer, Failure> {
        assembly::plain(body, deltas)
    }
}

#[cfg(test)]
mod tests;
