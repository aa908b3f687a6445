//! A model that plays a script: for demonstrations, tests and benchmarks, with no key and no network.
//!
//! Its answers depend on the request alone: the user's input selects the scene, and the number of answers given so far
//! selects the turn. So it has no state, survives every restart, and is deterministic. It invents nothing: an input
//! without a scene is an error, unless the script defines `otherwise`.

mod read;
mod script;
mod template;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::transcript::Message;
use bosun_engine::{
    Model,
    model::{Deltas, ModelCall, ModelError, ModelReply, ModelRequest},
};

pub use script::{Script, ScriptError, ScriptLine, ScriptedReply, WireFailure, WireFaults};

/// Answers from a script.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Arc<Script>,
}

impl Scripted {
    #[must_use]
    pub fn new(script: Arc<Script>) -> Self {
        Self { script }
    }
}

#[async_trait]
impl Model for Scripted {
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
        let toolset = &request.toolset;
        let alias = |tool: &str| toolset.get(tool).map_or(tool, |member| &member.alias).to_owned();
        let played = self.script.play(&lines(&request.messages), alias)?;
        pause(played.delay).await;
        for (index, part) in played.parts().enumerate() {
            if index > 0 {
                pause(played.pace).await;
            }
            deltas.push(part);
        }
        // The end of the id is its random part: earlier queries of a conversation have different ones.
        let [.., a, b, c, d, e, f] = request.query.as_bytes().map(u64::from);
        let random = a << 40 | b << 32 | c << 24 | d << 16 | e << 8 | f;
        let calls = played.calls.into_iter().enumerate().map(|(index, (alias, arguments))| ModelCall {
            provider_id: format!("scripted-{random:012x}-{}-{index}", request.turn),
            alias,
            arguments: arguments.to_string(),
        });
        Ok(ModelReply { text: played.text, calls: calls.collect(), usage: played.usage, ..ModelReply::default() })
    }
}

/// Does not even yield without a pause: benchmarks play such scripts.
async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

fn lines(messages: &[Message]) -> Vec<ScriptLine<'_>> {
    let mut lines = Vec::with_capacity(messages.len());
    lines.extend(messages.iter().filter_map(|message| match message {
        Message::System(_) => None,
        Message::User(text) => Some(ScriptLine::User(text)),
        Message::Assistant { .. } => Some(ScriptLine::Assistant),
        Message::Tool { alias, content, .. } => Some(ScriptLine::Result { alias, content }),
    }));
    lines
}

impl From<ScriptError> for ModelError {
    fn from(error: ScriptError) -> Self {
        match error {
            ScriptError::Failed { status, message } if status == 429 || status >= 500 => {
                Self::Unavailable { attempts: 1, message, retry_after: None }
            }
            ScriptError::Failed { status, message } => Self::Refused { status, message },
            other => Self::Misconfigured(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
