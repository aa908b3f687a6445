//! Subscribers: they see the journal, with the text in between.

use std::{sync::Arc, time::Duration};

use bosun_core::{Entry, Event};
use serde_json::json;

use super::world::{EngineWorld, call, key, outside, submission};
use crate::{
    Store, Watch, Watched,
    testing::{ScriptedModel, ScriptedTurn},
};

async fn rest(mut watch: Watch) -> Vec<Watched> {
    let mut seen = Vec::new();
    while let Some(watched) = watch.next().await.unwrap() {
        seen.push(watched);
    }
    seen
}

fn entries(seen: &[Watched]) -> Vec<Entry> {
    seen.iter()
        .filter_map(|watched| match watched {
            Watched::Entry(entry) => Some(Entry::clone(entry)),
            Watched::Delta { .. } | Watched::Progress(_) | Watched::Below(_) | Watched::BelowEnded(_) => None,
        })
        .collect()
}

fn text(seen: &[Watched]) -> String {
    seen.iter()
        .filter_map(|watched| match watched {
            Watched::Delta { text, .. } => Some(text.as_str()),
            Watched::Entry(_) | Watched::Progress(_) | Watched::Below(_) | Watched::BelowEnded(_) => None,
        })
        .collect()
}

fn script() -> ScriptedModel {
    ScriptedModel::always(vec![
        ScriptedTurn::stream(&["Let me ", "ask."]).and_call("ask", "{}"),
        ScriptedTurn::stream(&["It is ", "42."]),
    ])
}

async fn journal(world: &EngineWorld) -> Vec<Entry> {
    let (namespace, name) = key("q");
    world.store.load(&namespace, &name).await.unwrap().unwrap().entries
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_the_journal_and_the_text_between_calls() {
    let world = EngineWorld::new(script()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let watch = world.engine.watch(&key("q"), 0).await.unwrap();
    let (seen, _) = tokio::join!(rest(watch), world.deliver(call(&paused, 0), "42"));
    assert_eq!(entries(&seen), journal(&world).await);
    // The last turn ended before it was read: its text is in the journal, and not sent twice.
    assert_eq!(text(&seen), "Let me ask.");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_starts_at_any_entry_sees_exactly_the_rest() {
    let world = EngineWorld::new(script()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    world.deliver(call(&paused, 0), "42").await;
    let whole = journal(&world).await;
    for seen in 0..=whole.len() {
        let watch = world.engine.watch(&key("q"), seen as u64).await.unwrap();
        assert_eq!(entries(&rest(watch).await), whole[seen..]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_below_that_ended_before_the_first_look_is_reported_as_ended() {
    let world = EngineWorld::new(script()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    // The query has none below it, so whatever a snapshot has shown waits no longer.
    let shown = call(&paused, 0);
    let entries = journal(&world).await.len() as u64;
    let mut watch = world.engine.watch(&key("q"), entries).await.unwrap().with_shown_below(&[paused]);
    assert_eq!(watch.next().await.unwrap(), Some(Watched::BelowEnded(shown)));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reconnects_after_a_turn_began_gets_its_text_too() {
    let world = EngineWorld::new(script()).await;
    world.submit(vec![outside("ask")]).await;
    let whole = journal(&world).await;
    let began = whole.iter().find(|entry| matches!(entry.event, Event::TurnStarted { .. })).unwrap();
    let mut watch = world.engine.watch(&key("q"), began.seq).await.unwrap();
    let text = Watched::Delta { turn: 1, attempt: 1, offset: 0, text: "Let me ask.".into() };
    assert_eq!(watch.next().await.unwrap(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_joins_in_the_middle_of_a_turn_gets_its_text_as_one_delta() {
    let script = ScriptedModel::always(vec![ScriptedTurn::stream(&["one ", "two ", "three"]).hanging()]);
    let world = EngineWorld::new(script).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    let entries_so_far = journal(&world).await.len() as u64;
    for seen in [0, entries_so_far] {
        let mut watch = world.engine.watch(&key("q"), seen).await.unwrap();
        let delta = loop {
            match watch.next().await.unwrap().unwrap() {
                Watched::Delta { offset, text, .. } => break (offset, text),
                Watched::Entry(_) | Watched::Progress(_) | Watched::Below(_) | Watched::BelowEnded(_) => {}
            }
        };
        assert_eq!(delta, (0, "one two three".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_turn_makes_its_readers_discard_the_first_attempt() {
    let script = ScriptedModel::always(vec![ScriptedTurn::stream(&["so", "rry"]).disconnecting()]);
    let world = EngineWorld::new(script).await;
    let mut submitted = world.submit(vec![]).await;
    let watch = world.engine.watch(&key("q"), 0).await.unwrap();
    let attempts: Vec<_> = entries(&rest(watch).await)
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::TurnStarted { attempt, .. } => Some(attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(Arc::make_mut(&mut submitted.transcript).response(), Some("sorry"));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_reads_nothing_blocks_no_query() {
    let turns =
        (0..9).map(|n| ScriptedTurn::call("again", &json!({"n": n}))).chain([ScriptedTurn::say("done")]).collect();
    let world = EngineWorld::new(ScriptedModel::always(turns)).await;
    world.engine.submit(submission("q", vec![]), None).await.unwrap();
    let idle = world.engine.watch(&key("q"), 0).await.unwrap();
    super::world::assert_completed(&world.get().await, "done");
    assert_eq!(entries(&rest(idle).await), journal(&world).await);
}
