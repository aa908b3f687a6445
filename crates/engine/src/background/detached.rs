//! Work that runs to completion even if its caller goes away.
//!
//! A closed connection drops the future of its request. A change of a query must not be dropped: half of it may have
//! been done. So it runs inside its caller's task, which costs nothing, and is moved to a task of its own if the caller
//! is dropped.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// A future that, once polled, outlives the task that awaits it.
pub(crate) struct DetachedWork<Work: Future<Output: Send> + Send + 'static> {
    work: Option<Pin<Box<Work>>>,
    has_begun: bool,
}

impl<Work: Future<Output: Send> + Send + 'static> DetachedWork<Work> {
    pub(crate) fn new(work: Work) -> Self {
        Self { work: Some(Box::pin(work)), has_begun: false }
    }
}

impl<Work: Future<Output: Send> + Send + 'static> Future for DetachedWork<Work> {
    type Output = Work::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Work::Output> {
        self.has_begun = true;
        // Taken out, so that work that panics is not polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<Work: Future<Output: Send> + Send + 'static> Drop for DetachedWork<Work> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| self.has_begun) else { return };
        // Without a runtime the process is ending, and recovery is up to the next one.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, sync::Arc};

    use tokio::sync::{Notify, oneshot};

    use super::*;

    /// Work that waits once and then reports that it is done.
    fn work() -> (DetachedWork<impl Future<Output = ()> + Send>, Arc<Notify>, oneshot::Receiver<()>) {
        let (resume, (done, is_done)) = (Arc::new(Notify::new()), oneshot::channel());
        let waits_for = Arc::clone(&resume);
        let work = DetachedWork::new(async move {
            waits_for.notified().await;
            let _ = done.send(());
        });
        (work, resume, is_done)
    }

    async fn poll_once(work: &mut (impl Future<Output = ()> + Unpin)) -> Poll<()> {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *work).poll(context))).await
    }

    #[tokio::test]
    async fn started_work_continues_without_its_caller() {
        let (work, resume, is_done) = work();
        let mut work = Box::pin(work);
        assert!(poll_once(&mut work).await.is_pending());
        drop(work);
        resume.notify_one();
        is_done.await.unwrap();
    }

    #[tokio::test]
    async fn dropping_work_that_has_not_started_does_not_start_it() {
        let (work, resume, is_done) = work();
        drop(work);
        resume.notify_one();
        assert!(is_done.await.is_err());
    }

    #[tokio::test]
    async fn a_caller_that_stays_gets_the_output_and_the_panic() {
        assert_eq!(DetachedWork::new(async { 7 }).await, 7);
        let mut broken = pin!(DetachedWork::new(async { panic!("on purpose") }));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            let _: Poll<()> = broken.as_mut().poll(&mut context);
        }));
        assert!(panicked.is_err());
    }

    #[test]
    fn without_a_runtime_it_ends() {
        let (work, _, is_done) = work();
        let mut work = Box::pin(work);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
        drop(work);
        assert!(is_done.blocking_recv().is_err());
    }
}
