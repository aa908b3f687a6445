//! CPU-heavy work, off the runtime's workers.
//!
//! Compiling a schema or validating large arguments takes milliseconds, during which a worker would serve no other
//! request. Such work goes to the blocking pool, behind a few permits: however much of it there is, the other cores
//! stay available for requests. It is never awaited with a query locked. Small work is done inline, since a thread
//! switch would cost more.

use std::{panic, sync::Arc};

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// How many such jobs run at the same time.
const PERMITS: usize = 2;

pub(crate) struct Offload {
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Offload {
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        Self { permits: Arc::new(Semaphore::new(PERMITS)), tasks }
    }

    /// Runs `work` on the blocking pool, to completion even if the caller goes away, and keeps the permit for as long.
    /// A panic is propagated to the caller.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let done = self.tasks.spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        match done.await {
            Ok(done) => done,
            Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down, and so is the caller.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_work_runs_at_once_than_there_are_permits() {
        let offload = Offload::new(TaskTracker::new());
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = (0..20).map(|number| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            offload.run(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                number
            })
        });
        let done = futures_util::future::join_all(work).await;
        assert_eq!(done, (0..20).collect::<Vec<_>>());
        assert!(most.load(Ordering::SeqCst) <= PERMITS);
    }

    #[tokio::test]
    async fn work_whose_caller_goes_away_keeps_its_permit_until_it_is_done() {
        let offload = Offload::new(TaskTracker::new());
        let (resume, waits) = std::sync::mpsc::channel::<()>();
        {
            let work = offload.run(move || waits.recv());
            tokio::pin!(work);
            assert!(futures_util::poll!(&mut work).is_pending(), "it has begun");
            while offload.permits.available_permits() == PERMITS {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(offload.permits.available_permits(), PERMITS - 1);
        drop(resume);
        offload.tasks.close();
        offload.tasks.wait().await;
        assert_eq!(offload.permits.available_permits(), PERMITS);
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn a_panic_is_propagated_to_the_caller() {
        Offload::new(TaskTracker::new()).run(|| panic!("on purpose")).await;
    }
}
