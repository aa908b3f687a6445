//! A model that follows a script.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use bosun_core::{query::Usage, transcript::Message};
use serde_json::Value;

use crate::model::{Deltas, Model, ModelCall, ModelError, ModelReply, ModelRequest};

/// One answer of the script.
#[derive(Clone, Debug, Default)]
pub struct ScriptedTurn {
    text: Option<String>,
    deltas: Vec<String>,
    calls: Vec<(String, String)>,
    failure: Option<(u16, String)>,
    breaks_off: bool,
    hangs: bool,
    panics: bool,
}

impl ScriptedTurn {
    /// Answers `text`, not streamed.
    #[must_use]
    pub fn say(text: &str) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Streams these chunks.
    #[must_use]
    pub fn stream(pieces: &[&str]) -> Self {
        Self {
            text: Some(pieces.concat()),
            deltas: pieces.iter().map(|piece| (*piece).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Asks for one call.
    #[must_use]
    pub fn call(tool: &str, arguments: &Value) -> Self {
        Self::default().and_call(tool, &arguments.to_string())
    }

    /// Asks for one more call, with the arguments as the model would write them.
    #[must_use]
    pub fn and_call(mut self, tool: &str, arguments: &str) -> Self {
        self.calls.push((tool.into(), arguments.into()));
        self
    }

    /// The model API refuses.
    #[must_use]
    pub fn refuse(status: u16, message: &str) -> Self {
        Self { failure: Some((status, message.into())), ..Self::default() }
    }

    /// The stream stops before its end, after what was streamed so far.
    #[must_use]
    pub fn disconnecting(mut self) -> Self {
        self.breaks_off = true;
        self
    }

    /// Panics.
    #[must_use]
    pub fn panicking() -> Self {
        Self { panics: true, ..Self::default() }
    }

    /// Never answers, after what was streamed so far.
    #[must_use]
    pub fn hanging(mut self) -> Self {
        self.hangs = true;
        self
    }
}

/// Answers from one script for each input. The turn follows from the request alone, as for a real model, so a restart in the
/// middle changes nothing.
#[derive(Debug, Default)]
pub struct ScriptedModel {
    scripts: HashMap<String, Vec<ScriptedTurn>>,
    otherwise: Vec<ScriptedTurn>,
    /// A turn that broke off once succeeds the next time.
    broken: Mutex<Vec<(bosun_core::QueryUid, u32)>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl ScriptedModel {
    /// Answers with `turns` for every query.
    #[must_use]
    pub fn always(turns: Vec<ScriptedTurn>) -> Self {
        Self { otherwise: turns, ..Self::default() }
    }

    /// Answers with `turns` for queries with this input.
    #[must_use]
    pub fn on(mut self, input: &str, turns: Vec<ScriptedTurn>) -> Self {
        self.scripts.insert(input.into(), turns);
        self
    }

    /// All requests, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn turn(&self, request: &ModelRequest) -> Result<ScriptedTurn, ModelError> {
        let users = request.messages.iter().rev().filter_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            _ => None,
        });
        // Earlier queries of the conversation had their own scripts.
        let input = users.clone().find(|text| self.scripts.contains_key(*text)).or(users.clone().next());
        let turns = input.and_then(|input| self.scripts.get(input)).unwrap_or(&self.otherwise);
        let turn = (request.turn as usize).saturating_sub(1);
        turns
            .get(turn)
            .cloned()
            .ok_or_else(|| ModelError::Misconfigured(format!("the script has no turn {} for {input:?}", turn + 1)))
    }

    fn breaks_off_now(&self, request: &ModelRequest) -> bool {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (request.query, request.turn);
        let first = !broken.contains(&key);
        broken.push(key);
        first
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let turn = self.turn(request)?;
        if let Some((status, message)) = turn.failure {
            return Err(ModelError::Refused { status, message });
        }
        for piece in &turn.deltas {
            deltas.push(piece);
        }
        assert!(!turn.panics, "the script says so");
        if turn.hangs {
            std::future::pending::<()>().await;
        }
        if turn.breaks_off && self.breaks_off_now(request) {
            return Err(ModelError::Incomplete("the stream stopped".into()));
        }
        let calls = turn.calls.into_iter().enumerate().map(|(index, (alias, arguments))| ModelCall {
            provider_id: format!("call-{}-{index}", request.turn),
            alias,
            arguments,
        });
        Ok(ModelReply {
            text: turn.text,
            calls: calls.collect(),
            usage: Usage { prompt_tokens: 10, completion_tokens: 5, ..Usage::default() },
            ..ModelReply::default()
        })
    }
}
