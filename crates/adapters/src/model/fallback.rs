//! A model with fallbacks.
//!
//! The models are called in order, each only if the one before it is unavailable: it did not answer after all its
//! attempts, its circuit breaker is open, or its quota is exhausted. A model that refuses a request for its content may
//! be right to do so, and a fallback might do what the first would not. There is no fallback after text was shown: that
//! attempt belongs to the model that began it, and the engine begins a new one, of which readers are notified.

use std::sync::Arc;

use async_trait::async_trait;
use bosun_engine::{
    Model,
    model::{Deltas, ModelError, ModelReply, ModelRequest},
};

use super::delta_tracker::DeltaTracker;

/// A model and its fallbacks.
pub struct Fallback {
    first: Arc<dyn Model>,
    others: Vec<(String, Arc<dyn Model>)>,
}

impl Fallback {
    /// `others` have names, since the one that answers is logged.
    #[must_use]
    pub fn new(first: Arc<dyn Model>, others: Vec<(String, Arc<dyn Model>)>) -> Self {
        Self { first, others }
    }
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.others.iter().map(|(name, _)| name);
        formatter.debug_struct("Fallback").field("others", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Model for Fallback {
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
        let shown = DeltaTracker::new(deltas);
        let mut error = match self.first.reply(request, &shown).await {
            Err(error) => error,
            reply => return reply,
        };
        for (name, model) in &self.others {
            if !is_unavailable(&error) || shown.any() {
                return Err(error);
            }
            tracing::warn!(code = error.code(), fallback = name, "model is unavailable, trying its fallback");
            match model.reply(request, &shown).await {
                Ok(reply) => return Ok(ModelReply { answered_by: Some(name.clone()), ..reply }),
                Err(next) => error = next,
            }
        }
        Err(error)
    }

    fn provider(&self) -> &'static str {
        self.first.provider()
    }
}

fn is_unavailable(error: &ModelError) -> bool {
    match error {
        ModelError::Unavailable { .. } | ModelError::CircuitOpen { .. } => true,
        // A 429 that is not a temporary overload: the quota is exhausted.
        ModelError::Refused { status, .. } => *status == 429,
        ModelError::Incomplete(_)
        | ModelError::TooLong(_)
        | ModelError::Malformed(_)
        | ModelError::Misconfigured(_)
        | ModelError::SecretNotAllowed(_)
        | ModelError::AddressNotAllowed(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bosun_standin::{Answer, End, StandIn};

    use super::*;
    use crate::model::{
        openai::{ChatCompletions, Host},
        scripted::{Script, Scripted},
        testing::{self, KeptDeltas, failing, hello, stand_in, stream_of},
    };

    fn at(server: &StandIn) -> Arc<dyn Model> {
        let wire = ChatCompletions { host: Host::OpenAi, echo: true };
        Arc::new(testing::remote(testing::config(&server.url()), wire))
    }

    fn saying(text: &str) -> Arc<dyn Model> {
        let script = format!("otherwise: [{{say: {text}}}]");
        Arc::new(Scripted::new(Arc::new(Script::parse(Path::new("script.yaml"), &script).unwrap())))
    }

    /// The text of the model that answered, or the error; and what was shown.
    async fn ask(
        first: &StandIn,
        others: Vec<(&str, Arc<dyn Model>)>,
    ) -> (Result<Option<String>, &'static str>, String) {
        let others = others.into_iter().map(|(name, model)| (name.to_owned(), model)).collect();
        let (model, kept) = (Fallback::new(at(first), others), KeptDeltas::default());
        let reply = model.reply(&hello(), &kept).await;
        (reply.map(|reply| reply.answered_by).map_err(|error| error.code()), kept.text())
    }

    #[tokio::test]
    async fn the_first_available_model_answers() {
        let well = stand_in(vec![Answer::sse(stream_of("openai", "one-word"))]).await;
        assert_eq!(ask(&well, vec![("second", saying("two"))]).await, (Ok(None), "Hello".to_owned()));
        let down = stand_in(vec![failing(500, "down"); 3]).await;
        let answered = ask(&down, vec![("second", saying("two")), ("third", saying("three"))]).await;
        assert_eq!(answered, (Ok(Some("second".to_owned())), "two".to_owned()));
        let (down, too) =
            (stand_in(vec![failing(500, "down"); 3]).await, stand_in(vec![failing(529, "down"); 3]).await);
        let answered = ask(&down, vec![("second", at(&too)), ("third", saying("three"))]).await;
        assert_eq!(answered, (Ok(Some("third".to_owned())), "three".to_owned()));
        let (down, too) = (stand_in(vec![failing(500, "down"); 3]).await, stand_in(vec![failing(401, "no")]).await);
        assert_eq!(ask(&down, vec![("second", at(&too)), ("third", saying("three"))]).await.0, Err("model_refused"));
    }

    #[tokio::test]
    async fn an_exhausted_quota_is_unavailable_and_a_refusal_is_not() {
        let quota = r#"{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}"#;
        let spent = stand_in(vec![Answer::json(429, quota)]).await;
        assert_eq!(ask(&spent, vec![("second", saying("two"))]).await.0, Ok(Some("second".to_owned())));
        for (status, expect) in [(400, "model_refused"), (401, "model_refused"), (404, "model_refused")] {
            let server = stand_in(vec![failing(status, "no")]).await;
            assert_eq!(ask(&server, vec![("second", saying("two"))]).await, (Err(expect), String::new()));
        }
        let garbled = stand_in(vec![Answer::sse("data: nonsense\n\n")]).await;
        assert_eq!(ask(&garbled, vec![("second", saying("two"))]).await.0, Err("model_malformed"));
    }

    #[tokio::test]
    async fn there_is_no_fallback_after_text_was_shown() {
        let whole = stream_of("openai", "one-word");
        let cut = whole.len() - 20;
        let server = stand_in(vec![Answer::sse(&whole[..cut]).then(End::Cut)]).await;
        assert_eq!(ask(&server, vec![("second", saying("two"))]).await, (Err("model_incomplete"), "Hello".to_owned()));
    }

    #[tokio::test]
    async fn an_open_breaker_costs_no_request() {
        let server = stand_in(vec![failing(500, "down"); 9]).await;
        let model = Fallback::new(at(&server), vec![("second".to_owned(), saying("two"))]);
        for _ in 0..4 {
            let reply = model.reply(&hello(), &KeptDeltas::default()).await.unwrap();
            assert_eq!(reply.answered_by.as_deref(), Some("second"));
        }
        assert_eq!(server.requests().len(), 5);
    }
}
