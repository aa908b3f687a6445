//! A model with others that stand in for it.
//!
//! They are asked in order, each only if the one before it is out of reach: it did not answer after all
//! its attempts, it is being left alone, or its quota is spent. Whoever refuses a request for what it
//! says would be right to, and the next one might do what the first would not. Nobody is asked after
//! text was shown: that attempt belongs to the model that began it, and the engine begins a new one,
//! which readers are told of.

use std::sync::Arc;

use async_trait::async_trait;
use bosun_engine::{
    Model,
    model::{Deltas, ModelError, ModelReply, ModelRequest},
};

use super::shown::Shown;

/// A model and its stand-ins.
pub struct Fallback {
    first: Arc<dyn Model>,
    others: Vec<(String, Arc<dyn Model>)>,
}

impl Fallback {
    /// `others` have names, since one that answers is told.
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
        let shown = Shown::new(deltas);
        let mut error = match self.first.reply(request, &shown).await {
            Err(error) => error,
            reply => return reply,
        };
        for (name, model) in &self.others {
            if !is_out_of_reach(&error) || shown.any() {
                return Err(error);
            }
            tracing::warn!(code = error.code(), fallback = name, "model is out of reach, asking another one");
            match model.reply(request, &shown).await {
                Ok(reply) => return Ok(ModelReply { answered_by: Some(name.clone()), ..reply }),
                Err(next) => error = next,
            }
        }
        Err(error)
    }
}

fn is_out_of_reach(error: &ModelError) -> bool {
    match error {
        ModelError::Unavailable { .. } | ModelError::CircuitOpen { .. } => true,
        // What is left of a 429 that is no passing load: the quota is spent.
        ModelError::Refused { status, .. } => *status == 429,
        ModelError::Incomplete(_)
        | ModelError::TooLong(_)
        | ModelError::Malformed(_)
        | ModelError::Misconfigured(_) => false,
    }
}
