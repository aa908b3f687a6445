//! Fan-out of durable entries to the subscribers of a query.
//!
//! Subscribers see entries only once they are durable. If each of ten thousand woke for every append and then waited
//! for the disk, the query itself would queue behind them. So one task per query does it for all of them: it waits for
//! a change, then for the disk, and broadcasts the same entries to everyone. It runs while there are subscribers.

use std::sync::Arc;

use bosun_core::{Entry, Event, Seq};
use tokio::sync::watch;

use crate::{StoreError, engine::Inner, queries::live::LiveQuery};

/// The newest entries of a query, all of them durable.
#[derive(Debug, Default)]
pub(crate) struct Broadcast {
    /// The newest sequence number; a subscriber that has seen it has seen all. `None` if it could not be read.
    newest: Option<Seq>,
    entries: Vec<Arc<Entry>>,
}

/// What a broadcast means for one subscriber.
pub(crate) enum Unseen<'a> {
    Nothing,
    Entries(&'a [Arc<Entry>]),
    /// There is a gap between the broadcast and what the subscriber has seen: it reads the journal.
    Gap,
}

impl Broadcast {
    /// What is new for a subscriber that has seen the entries up to `seen`.
    pub(crate) fn after(&self, seen: Seq) -> Unseen<'_> {
        if self.newest.is_some_and(|newest| newest <= seen) {
            return Unseen::Nothing;
        }
        let unseen = self.entries.partition_point(|entry| entry.seq <= seen);
        match &self.entries[unseen..] {
            entries @ [first, ..] if first.seq == seen + 1 => Unseen::Entries(entries),
            _ => Unseen::Gap,
        }
    }
}

/// Makes sure that the fan-out of `live` runs. The caller has subscribed already.
pub(crate) fn ensure_running(inner: &Arc<Inner>, live: &Arc<LiveQuery>) {
    if live.claim_fan_out() {
        // Before the task starts, so that no later change is missed.
        let changes = live.subscribe();
        inner.tasks.spawn(run(Arc::clone(inner), Arc::clone(live), changes));
    }
}

async fn run(inner: Arc<Inner>, live: Arc<LiveQuery>, mut changes: watch::Receiver<u64>) {
    // The position of earlier subscribers is not known.
    let mut sent = None;
    loop {
        tokio::select! {
            // The sender lives as long as `live`.
            _ = changes.changed() => {}
            () = live.broadcast().closed() => if live.release_fan_out() { return } else { continue },
            // Subscribers see the drain too, and there are no new ones.
            () = inner.draining.cancelled() => return,
        }
        // A store error is found, and reported, by each subscriber itself.
        let (newest, entries) = unsent(&inner, &live, sent).await.unwrap_or_default();
        if entries.as_ref().is_some_and(|entries| !entries.iter().any(|entry| is_visible(&entry.event))) {
            continue;
        }
        sent = newest;
        live.broadcast().send_replace(Arc::new(Broadcast { newest, entries: entries.unwrap_or_default() }));
    }
}

/// The sequence number of the newest entry, and the entries after `sent` where they are in memory; all durable.
async fn unsent(
    inner: &Inner,
    live: &LiveQuery,
    sent: Option<Seq>,
) -> Result<(Option<Seq>, Option<Vec<Arc<Entry>>>), StoreError> {
    let locked = live.lock(&*inner.store).await?;
    let Some(state) = locked.state() else { return Ok((None, None)) };
    let (newest, entries) = (state.head.seq, sent.and_then(|sent| state.recent_after(sent)));
    let position = state.position;
    drop(locked);
    inner.make_durable(live, position).await?;
    Ok((Some(newest), entries))
}

/// Whether an entry is broadcast on its own. One that carries nothing a client shows is sent with the next visible
/// entry or delta, so that subscribers are not woken twice.
fn is_visible(event: &Event) -> bool {
    !matches!(
        event,
        Event::Continued { .. }
            | Event::Changed(_)
            | Event::TurnStarted { turn: 2.., attempt: 1, .. }
            | Event::LoopNoticed { .. }
            | Event::CallPending { .. }
            | Event::CallDue { .. }
            | Event::Settled
            | Event::CallClaimed { .. }
            | Event::CallExtended { .. }
            | Event::CallReleased { .. }
    )
}
