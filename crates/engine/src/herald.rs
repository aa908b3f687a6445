//! Who speaks to the readers of a query.
//!
//! Readers are told of entries that are durable. If each of ten thousand woke for every append and then
//! waited for the disk, the query itself would stand in line behind them. So one task does it for all
//! of them: it waits for a change, then for the disk, and hands everybody the same news. It lives as
//! long as somebody reads.

use std::sync::Arc;

use bosun_core::{Entry, Event, Seq};
use tokio::sync::watch;

use crate::{StoreError, desk::Live, engine::Inner};

/// The newest entries of a query, all of them durable.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The number of the newest; whoever has seen it has seen all. `None` if the herald could not tell.
    newest: Option<Seq>,
    entries: Vec<Arc<Entry>>,
}

/// What news mean for one reader.
pub(crate) enum Heard<'a> {
    Nothing,
    Entries(&'a [Arc<Entry>]),
    /// The news do not join what the reader has seen.
    LookYourself,
}

impl News {
    /// What is new for a reader that has seen the entries up to `seen`.
    pub(crate) fn after(&self, seen: Seq) -> Heard<'_> {
        if self.newest.is_some_and(|newest| newest <= seen) {
            return Heard::Nothing;
        }
        let unseen = self.entries.partition_point(|entry| entry.seq <= seen);
        match &self.entries[unseen..] {
            entries @ [first, ..] if first.seq == seen + 1 => Heard::Entries(entries),
            _ => Heard::LookYourself,
        }
    }
}

/// Makes sure that somebody speaks to the readers of `live`. The caller reads already.
pub(crate) fn appoint(inner: &Arc<Inner>, live: &Arc<Live>) {
    if live.claim_herald() {
        // First of all, so that nothing that happens from here on is missed.
        let changes = live.subscribe();
        inner.tasks.spawn(speak(Arc::clone(inner), Arc::clone(live), changes));
    }
}

async fn speak(inner: Arc<Inner>, live: Arc<Live>, mut changes: watch::Receiver<u64>) {
    // What the readers have seen that are there already is not known here.
    let mut told = None;
    loop {
        tokio::select! {
            // The sender lives as long as `live`.
            _ = changes.changed() => {}
            () = live.told().closed() => if live.release_herald() { return } else { continue },
            // The readers see that too, and nobody comes any more.
            () = inner.draining.cancelled() => return,
        }
        // A fault of the store is found by each reader too, who can say so.
        let (newest, entries) = unheard(&inner, &live, told).await.unwrap_or_default();
        if entries.as_ref().is_some_and(|entries| !entries.iter().any(|entry| is_worth_waking(&entry.event))) {
            continue;
        }
        told = newest;
        live.told().send_replace(Arc::new(News { newest, entries: entries.unwrap_or_default() }));
    }
}

/// The number of the newest entry, and the entries after `told` where they are known; all durable.
async fn unheard(
    inner: &Inner,
    live: &Live,
    told: Option<Seq>,
) -> Result<(Option<Seq>, Option<Vec<Arc<Entry>>>), StoreError> {
    let locked = live.lock(&*inner.store).await?;
    let Some(state) = locked.state() else { return Ok((None, None)) };
    let (newest, entries) = (state.head.seq, told.and_then(|told| state.recent_after(told)));
    let position = state.position;
    drop(locked);
    inner.make_durable(live, position).await?;
    Ok((Some(newest), entries))
}

/// What only leads up to something is told with what it leads to, be it a word of text: of the readers,
/// all would wake for nothing.
fn is_worth_waking(event: &Event) -> bool {
    !matches!(
        event,
        Event::Continued { .. }
            | Event::Changed(_)
            | Event::TurnStarted { turn: 2.., attempt: 1, .. }
            | Event::LoopNoticed { .. }
    )
}
