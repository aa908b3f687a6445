//! The latency of `/health` during an attack, compared with an idle server's.
//!
//! Both are polled from a thread of their own, each on one connection. A stalled machine shows in both.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// The limit of `/health` during an attack.
const LIMIT: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(20);
/// A missing answer counts as this.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    attacked: Arc<Mutex<Slowest>>,
    control: Arc<Mutex<Slowest>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Slowest {
    slowest: Duration,
    /// The start of the pending request.
    begun: Option<Instant>,
}

/// The slowest answers of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    pub(super) attacked: Duration,
    pub(super) control: Duration,
}

impl Latency {
    /// Longer than the limit, and not because the machine was stalled.
    pub(super) fn is_too_long(self) -> bool {
        self.attacked > LIMIT + 2 * self.control
    }
}

impl Watch {
    pub(super) fn begin(attacked: &str, control: &str) -> Self {
        let mut watch = Self { attacked: Arc::default(), control: Arc::default(), over: Arc::default(), thread: None };
        let asked =
            [(attacked.to_owned(), Arc::clone(&watch.attacked)), (control.to_owned(), Arc::clone(&watch.control))];
        let over = Arc::clone(&watch.over);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let [attacked, control] = asked.map(|(base, slowest)| ask(base, slowest, Arc::clone(&over)));
            runtime.block_on(async { tokio::join!(attacked, control) });
        });
        watch.thread = Some(thread);
        watch
    }

    /// The slowest answers since the last call, pending ones included.
    pub(super) fn take(&self) -> Latency {
        let take = |slowest: &Mutex<Slowest>| {
            let mut slowest = slowest.lock().expect("the slowest answer");
            let waiting = slowest.begun.map(|begun| begun.elapsed()).unwrap_or_default();
            std::mem::take(&mut slowest.slowest).max(waiting)
        };
        Latency { attacked: take(&self.attacked), control: take(&self.control) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there is one of this test.
            let _ = thread.join();
        }
    }
}

impl Slowest {
    fn note(&mut self, answered: bool, took: Duration) {
        self.begun = None;
        // A server that has ended refuses at once; its own attack reports that.
        if answered {
            self.slowest = self.slowest.max(took);
        }
    }
}

async fn ask(base: String, slowest: Arc<Mutex<Slowest>>, over: Arc<AtomicBool>) {
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().expect("a client");
    let url = format!("{base}/health");
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        slowest.lock().expect("the slowest answer").begun = Some(begun);
        let answered = match http.get(&url).send().await {
            Ok(response) => response.bytes().await.is_ok(),
            Err(error) => error.is_timeout(),
        };
        slowest.lock().expect("the slowest answer").note(answered, begun.elapsed());
        tokio::time::sleep(BETWEEN).await;
    }
}
