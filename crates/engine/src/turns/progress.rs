//! The progress of a running call: shown to subscribers, and an extension of its timeout.
//!
//! Each report restarts the timeout of the call, up to a multiple of it in total.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bosun_core::{CallId, Tool, text::clip};
use tokio::time::{Instant, error::Elapsed};

use crate::{
    queries::live::LiveQuery,
    runner::{InsideCall, Progress, ProgressSink},
};

/// A call that reports progress may take this many times its timeout.
const LONGEST: u32 = 10;
/// The longest message of a report, in characters.
const MESSAGE: usize = 500;

pub(crate) struct CallProgress {
    live: Arc<LiveQuery>,
    call: CallId,
    tool: Arc<Tool>,
    timeout: Duration,
    began: Instant,
    reported: Mutex<Instant>,
}

impl CallProgress {
    pub(crate) fn new(live: &Arc<LiveQuery>, call: &InsideCall, timeout: Duration) -> Self {
        let began = Instant::now();
        let (live, tool) = (Arc::clone(live), Arc::clone(&call.tool));
        Self { live, call: call.id, tool, timeout, began, reported: Mutex::new(began) }
    }

    fn deadline(&self) -> Instant {
        let reported = *self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        (reported + self.timeout).min(self.began + self.timeout.saturating_mul(LONGEST))
    }

    /// Runs a call until it ends, or has made no progress for its timeout.
    pub(crate) async fn limit<T>(&self, running: impl Future<Output = T>) -> Result<T, Elapsed> {
        let mut running = pin!(running);
        loop {
            let deadline = self.deadline();
            match tokio::time::timeout_at(deadline, running.as_mut()).await {
                Err(_) if self.deadline() > deadline => {}
                ended => return ended,
            }
        }
    }
}

impl ProgressSink for CallProgress {
    fn report(&self, progress: Progress) {
        *self.reported.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let message = progress.message.map(|text| clip(&text, MESSAGE));
        self.live.push_progress(self.call, &self.tool.name, Progress { message, ..progress });
    }
}

impl Drop for CallProgress {
    fn drop(&mut self) {
        self.live.end_progress(self.call);
    }
}
