//! A tool that records its runs.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bosun_core::{CallId, Outcome};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::runner::{InsideCall, Runner};

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRun {
    pub call: CallId,
    pub tool: String,
    pub attempt: u32,
    pub arguments: Value,
}

/// Runs every builtin call and records it. A gated ledger ends a call only when it is let through, so that a test can
/// inspect the world while calls are running.
#[derive(Debug)]
pub struct CallLedger {
    runs: Mutex<Vec<LedgerRun>>,
    gate: Option<Semaphore>,
    gives: Option<Value>,
}

impl CallLedger {
    #[must_use]
    pub fn open() -> Self {
        Self { runs: Mutex::default(), gate: None, gives: None }
    }

    #[must_use]
    pub fn gated() -> Self {
        Self { gate: Some(Semaphore::new(0)), ..Self::open() }
    }

    /// Every call returns this instead of its arguments.
    #[must_use]
    pub fn giving(content: impl Into<Value>) -> Self {
        Self { gives: Some(content.into()), ..Self::open() }
    }

    /// Lets `count` calls through.
    pub fn let_through(&self, count: usize) {
        if let Some(gate) = &self.gate {
            gate.add_permits(count);
        }
    }

    /// All runs, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<LedgerRun> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Runner for CallLedger {
    async fn run(&self, call: &InsideCall) -> Outcome {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(LedgerRun {
            call: call.id,
            tool: call.tool.name.clone(),
            attempt: call.attempt,
            arguments: Value::clone(&call.arguments),
        });
        if let Some(gate) = &self.gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
        let ran = || json!({"ran": call.tool.name, "attempt": call.attempt});
        Outcome::success(self.gives.clone().unwrap_or_else(ran))
    }
}
