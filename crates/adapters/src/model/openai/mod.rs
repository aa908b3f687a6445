//! OpenAI's chat completions, every server that is compatible with them, and Azure, which has other addresses.

mod assembly;
mod message;
mod request;

use bosun_engine::model::Deltas;
use url::Url;

use self::assembly::ChatAssembly;
use super::remote::{Failure, RemoteAnswer, RemoteTurn, ReplyReader, Streamed, Wire};

/// The name under which a turn stores provider-specific fields of these APIs.
const WIRE: &str = "openai";

/// OpenAI's own API.
pub const BASE_URL: &str = "https://api.openai.com";

/// The default version of Azure's API, where a manifest names none.
pub const AZURE_VERSION: &str = "2024-10-21";

/// Request parameters that this module sets; a manifest cannot.
pub const OWN_PROPERTIES: &[&str] =
    &["model", "messages", "tools", "tool_choice", "stream_options", "n", "functions", "function_call"];

/// Chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatCompletions {
    pub host: Host,
    /// Whether the API gets its provider-specific fields back. Some require them, and a few that send such fields
    /// reject them.
    pub echo: bool,
}

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// OpenAI, and servers with the same paths.
    OpenAi,
    /// Azure: the model is a deployment in the path, and the key has a header of its own.
    Azure,
}

impl Wire for ChatCompletions {
    fn provider(&self) -> &'static str {
        match self.host {
            Host::OpenAi => "openai",
            Host::Azure => "azure.ai.openai",
        }
    }

    fn address(&self, mut url: Url, model: &str, version: Option<&str>) -> Result<Url, &'static str> {
        let deployment = match self.host {
            Host::OpenAi => None,
            // Azure's newer addresses are OpenAI's; and some manifests include the deployment in the base URL.
            Host::Azure if url.path().ends_with("/openai/v1") || url.path().contains("/deployments/") => None,
            Host::Azure => Some(model),
        };
        let has_openai = url.path().ends_with("/openai");
        let mut path = url.path_segments_mut().map_err(|()| "has no path")?;
        if let Some(deployment) = deployment {
            path.extend((!has_openai).then_some("openai")).extend(["deployments", deployment]);
        }
        path.extend(["chat", "completions"]);
        drop(path);
        let is_versioned = url.query_pairs().any(|(name, _)| name == "api-version") || url.path().contains("/v1/");
        if self.host == Host::Azure && (version.is_some() || !is_versioned) {
            url.query_pairs_mut().append_pair("api-version", version.unwrap_or(AZURE_VERSION));
        }
        Ok(url)
    }

    fn headers(&self, key: Option<&str>, _: Option<&str>) -> Vec<(&'static str, String)> {
        let header = |key: &str| match self.host {
            Host::OpenAi => ("authorization", format!("Bearer {key}")),
            Host::Azure => ("api-key", key.to_owned()),
        };
        key.map(header).into_iter().collect()
    }

    fn body(&self, turn: &RemoteTurn<'_>) -> Result<String, serde_json::Error> {
        request::body(turn, self.echo)
    }

    fn reader(&self) -> Box<dyn ReplyReader> {
        Box::new(Streamed::<ChatAssembly>::default())
    }

    fn plain(&self, body: &[u8], deltas: &dyn Deltas) -> Result<RemoteAnswer, Failure> {
        Ok(RemoteAnswer::Whole(assembly::plain(body, deltas)?))
    }
}

#[cfg(test)]
mod tests;
