//! A tool that records its runs.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{CallId, Content, Outcome, Timestamp, content::Blocks};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::runner::{InsideCall, Progress, RunContext, RunReply, Runner};

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
    gives: Option<Content>,
    /// After how many polls a call is done; it is done at once if absent.
    polls: Option<u32>,
    /// The handles of polls and cancellations, in order.
    asked: Mutex<Vec<(LedgerRequest, Value)>>,
    /// How many reports of progress precede the end of a call, one every second.
    reports: u32,
}

/// What was asked of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerRequest {
    Poll,
    Cancel,
}

impl CallLedger {
    #[must_use]
    pub fn open() -> Self {
        Self { runs: Mutex::default(), gate: None, gives: None, polls: None, asked: Mutex::default(), reports: 0 }
    }

    /// Every call is pending until it was polled this often. The ledger is the server that runs it: it outlives engines.
    #[must_use]
    pub fn pending(polls: u32) -> Self {
        Self { polls: Some(polls), ..Self::open() }
    }

    /// Every call reports progress this often, one second apart, before it ends.
    #[must_use]
    pub fn reporting(reports: u32) -> Self {
        Self { reports, ..Self::open() }
    }

    /// All polls and cancellations, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<(LedgerRequest, Value)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records a request and returns how many of its kind there were for this handle.
    fn ask(&self, what: LedgerRequest, handle: &Value) -> usize {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push((what, handle.clone()));
        asked.iter().filter(|(kind, known)| *kind == what && known == handle).count()
    }

    #[must_use]
    pub fn gated() -> Self {
        Self { gate: Some(Semaphore::new(0)), ..Self::open() }
    }

    /// Every call returns this instead of its arguments.
    #[must_use]
    pub fn giving(content: impl Into<Value>) -> Self {
        Self { gives: Some(Content::Inline(content.into())), ..Self::open() }
    }

    /// Every call returns these content blocks.
    #[must_use]
    pub fn giving_blocks(blocks: Blocks) -> Self {
        Self { gives: Some(Content::Blocks(blocks)), ..Self::open() }
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
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
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
        if self.polls.is_some() {
            return RunReply::Pending { handle: json!({"job": call.id}), poll_at: Timestamp(0) };
        }
        for done in 1..=self.reports {
            let total = Some(f64::from(self.reports));
            context.progress(Progress { done: done.into(), total, message: Some(format!("step {done}")) });
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let ran = || json!({"ran": call.tool.name, "attempt": call.attempt}).into();
        Outcome::Success { content: self.gives.clone().unwrap_or_else(ran) }.into()
    }

    async fn poll(&self, call: &InsideCall, handle: &Value, _: &RunContext) -> RunReply {
        let polls = self.ask(LedgerRequest::Poll, handle);
        if self.polls.is_some_and(|wanted| polls < wanted as usize) {
            return RunReply::Pending { handle: handle.clone(), poll_at: Timestamp(0) };
        }
        Outcome::success(json!({"ran": call.tool.name, "polls": polls})).into()
    }

    async fn cancel(&self, _: &InsideCall, handle: &Value) {
        self.ask(LedgerRequest::Cancel, handle);
    }
}
