//! Results that are too large for a journal.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Content, Namespace, Outcome, QueryUid, Status,
    content::{INLINE_BYTES, LARGEST_BYTES, Large, MediaType},
    machine::{Delivery, DeliveryState, DeliveryTarget, DeliveryVerdict},
    transcript::Message,
};
use bytes::Bytes;
use serde_json::{Value, json};

use super::world::{EngineWorld, PATIENCE, accepted, assert_completed, call, key, outside, submission};
use crate::{
    BLOB_GRACE, Blobs as _, DeliverReport, EngineError, PageError, Results, Snapshot, Store as _, StoreError, Upload,
    UploadError,
    blob::MemoryBlobs,
    engine::large_results::LargeResults,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

fn asking() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("thanks")])
}

/// A query that waits for one outside call.
async fn paused() -> (EngineWorld, CallId) {
    let world = EngineWorld::new(asking()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let id = call(&paused, 0);
    (world, id)
}

fn long_text() -> String {
    "wörter ".repeat(INLINE_BYTES / 4)
}

async fn deliver(world: &EngineWorld, call: CallId, outcome: Outcome) -> Result<DeliverReport, EngineError> {
    let delivery = Delivery { target: DeliveryTarget::Call(call), outcome, took: None };
    world.engine.deliver(Actor::local(), key("q"), vec![delivery], false, PATIENCE).await
}

fn recorded(snapshot: &Snapshot) -> &Outcome {
    &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome
}

async fn blob(world: &EngineWorld, large: &Large) -> Option<Bytes> {
    world.blobs.read(large.hash, 0, usize::MAX).await.unwrap()
}

/// What the model was sent as the result of the first call.
fn result_shown(world: &EngineWorld) -> String {
    let requests = world.model.requests();
    let mut messages = requests.last().unwrap().messages.iter();
    messages
        .find_map(|message| match message {
            Message::Tool { content, .. } => Some(content.clone()),
            _ => None,
        })
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_kept_as_a_blob_and_the_journal_refers_to_it() {
    let (world, id) = paused().await;
    let text = long_text();
    let report = deliver(&world, id, Outcome::success(text.as_str())).await.unwrap();
    assert!(accepted(&report));
    assert_completed(&report.snapshot, "thanks");
    let large = recorded(&report.snapshot).large().unwrap();
    assert_eq!(large, &Large::of(&json!(text)).0);
    assert_eq!(blob(&world, large).await.as_deref(), Some(text.as_bytes()));
    let stored = world.store.load(&key("q").0, &key("q").1).await.unwrap().unwrap();
    let longest = stored.entries.iter().map(|entry| entry.event.encode().unwrap().len()).max().unwrap();
    assert!(longest < 8 * 1024, "an entry has {longest} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_result_of_just_the_size_stays_in_the_journal() {
    let (world, id) = paused().await;
    let text = "x".repeat(INLINE_BYTES);
    let report = deliver(&world, id, Outcome::success(text.as_str())).await.unwrap();
    assert_eq!(recorded(&report.snapshot), &Outcome::success(text.as_str()));
    assert_eq!(world.blobs.older_than(Duration::ZERO).await.unwrap(), []);
    assert_eq!(result_shown(&world), text);
}

#[tokio::test(start_paused = true)]
async fn the_same_large_result_is_a_replay_and_another_one_is_refused_and_not_kept() {
    let (world, id) = paused().await;
    let outcome = Outcome::success(long_text());
    assert!(accepted(&deliver(&world, id, outcome.clone()).await.unwrap()));
    assert_eq!(deliver(&world, id, outcome).await.unwrap().verdicts, [DeliveryVerdict::Replayed(id)]);
    for other in [long_text() + "!", "small".to_owned()] {
        let report = deliver(&world, id, Outcome::success(other)).await.unwrap();
        assert_eq!(report.verdicts, [DeliveryVerdict::AlreadyResolved(id)]);
    }
    assert_eq!(world.blobs.older_than(Duration::ZERO).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn large_results_of_a_failure_and_of_a_batch_are_stored_too() {
    let turn = ScriptedTurn::call("ask", &json!({"n": 1})).and_call("ask", r#"{"n":2}"#);
    let world = EngineWorld::new(ScriptedModel::always(vec![turn, ScriptedTurn::say("done")])).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let rows: Vec<Value> = (0..60_000).map(|row| json!({"id": row})).collect();
    let failed = Outcome::Failure { code: "c".into(), message: "no".into(), content: Some(json!(long_text()).into()) };
    let deliveries = [failed, Outcome::success(rows.clone())].into_iter().enumerate();
    let deliveries = deliveries
        .map(|(index, outcome)| Delivery { target: DeliveryTarget::Call(call(&paused, index)), outcome, took: None })
        .collect();
    let report = world.engine.deliver(Actor::local(), key("q"), deliveries, false, PATIENCE).await.unwrap();
    let kept: Vec<_> =
        report.snapshot.transcript.calls().filter_map(|call| call.result.as_ref()?.outcome.large()).collect();
    assert_eq!(kept.len(), 2);
    assert_eq!(blob(&world, kept[0]).await.as_deref(), Some(long_text().as_bytes()));
    assert_eq!(serde_json::from_slice::<Value>(&blob(&world, kept[1]).await.unwrap()).unwrap(), Value::from(rows));
    assert!(result_shown(&world).starts_with("Error: no\nwörter "));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_cannot_page_gets_what_fits_and_its_size() {
    let (world, id) = paused().await;
    let text = long_text();
    deliver(&world, id, Outcome::success(text.as_str())).await.unwrap();
    let shown_text = result_shown(&world);
    let (shown, mark) = shown_text.rsplit_once('\n').unwrap();
    assert!(text.starts_with(shown));
    assert!(shown.len() > INLINE_BYTES - 4 && shown.len() <= INLINE_BYTES);
    let (shown, size) = (shown.len(), text.len());
    assert_eq!(mark, format!("[truncated: the first {shown} of {size} bytes are shown; the rest cannot be read]"));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_can_page_gets_the_beginning_and_the_handle() {
    let world = EngineWorld::new(asking()).await;
    let mut submission = submission("q", vec![outside("ask")]);
    submission.target = "pager".into();
    let paused = world.engine.submit(submission, PATIENCE).await.unwrap().snapshot;
    let id = call(&paused, 0);
    let text = long_text();
    deliver(&world, id, Outcome::success(text.as_str())).await.unwrap();
    let shown_text = result_shown(&world);
    let (shown, mark) = shown_text.rsplit_once('\n').unwrap();
    assert!(text.starts_with(shown) && shown.len() <= 4_096);
    let expect = format!("to read on, call read_result with handle \"{id}\" and offset {}]", shown.len());
    assert!(mark.ends_with(&expect), "{mark}");
}

#[tokio::test(start_paused = true)]
async fn an_inside_call_may_return_a_large_result() {
    let text = long_text();
    let script = ScriptedModel::always(vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("done")]);
    let world = EngineWorld::with(script, CallLedger::giving(text.as_str())).await;
    let snapshot = world.submit(vec![]).await;
    assert_completed(&snapshot, "done");
    assert_eq!(blob(&world, recorded(&snapshot).large().unwrap()).await.as_deref(), Some(text.as_bytes()));
    let world = world.crash().await;
    let read = world.engine.result(&key("q"), call(&snapshot, 0)).await.unwrap();
    assert_eq!(read.read(0..read.size).await.unwrap(), text.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn an_inside_result_that_is_too_large_becomes_a_failure() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("done")]);
    let world = EngineWorld::with(script, CallLedger::giving("x".repeat(LARGEST_BYTES as usize + 1))).await;
    let snapshot = world.submit(vec![]).await;
    let outcome = recorded(&snapshot);
    assert!(matches!(outcome, Outcome::Failure { code, .. } if code == "result_too_large"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_a_missing_blob_is_never_recorded() {
    let (world, id) = paused().await;
    let outcome = Outcome::Success { content: Content::Large(Large::of(&json!("gone")).0) };
    let refused = deliver(&world, id, outcome).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::MissingBlob(_)))), "{refused:?}");
    assert_eq!(world.get().await.head.status(), Status::Waiting);
}

fn some_call() -> CallId {
    "call_00000000000000000000000000".parse().unwrap()
}

async fn upload(
    world: &EngineWorld,
    delivery_state: DeliveryState,
    media_type: MediaType,
    pieces: &[&[u8]],
) -> Result<Large, UploadError> {
    let mut upload: Upload =
        world.engine.upload(&Namespace::default(), some_call(), delivery_state, media_type).await.unwrap();
    for piece in pieces {
        upload.write(Bytes::copy_from_slice(piece)).await?;
    }
    upload.finish().await
}

#[tokio::test(start_paused = true)]
async fn an_upload_is_the_same_result_as_its_text() {
    let (world, id) = paused().await;
    let text = long_text();
    let delivery_state = world.engine.delivery_state(&key("q"), id).await.unwrap();
    assert_eq!(delivery_state, DeliveryState::Open);
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(10_007).collect();
    let large = upload(&world, delivery_state, MediaType::plain_text(), &pieces).await.unwrap();
    let uploaded = Outcome::Success { content: Content::Large(large) };
    assert!(accepted(&deliver(&world, id, uploaded.clone()).await.unwrap()));
    let report = deliver(&world, id, Outcome::success(text)).await.unwrap();
    assert_eq!(report.verdicts, [DeliveryVerdict::Replayed(id)]);
    assert_eq!(recorded(&report.snapshot), &uploaded);
    assert_eq!(world.engine.delivery_state(&key("q"), id).await.unwrap(), DeliveryState::Resolved);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_only_compared_is_not_stored() {
    let (world, _) = paused().await;
    upload(&world, DeliveryState::Resolved, MediaType::plain_text(), &[b"text"]).await.unwrap();
    assert_eq!(world.blobs.older_than(Duration::ZERO).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_invalid_for_its_media_type_is_refused() {
    let (world, _) = paused().await;
    let refused = async |media_type, pieces: &[&[u8]]| upload(&world, DeliveryState::Open, media_type, pieces).await;
    assert!(matches!(refused(MediaType::json(), &[b"{\"a\":", b"}"]).await, Err(UploadError::Bad(_))));
    assert!(matches!(refused(MediaType::json(), &[b"{\"a\":"]).await, Err(UploadError::Bad(_))));
    assert!(matches!(refused(MediaType::plain_text(), &[b"\xff"]).await, Err(UploadError::Bad(_))));
    let piece = vec![b'x'; 1 << 20];
    let pieces = vec![&piece[..]; 65];
    assert!(matches!(refused(MediaType::plain_text(), &pieces).await, Err(UploadError::TooLarge)));
    assert!(refused(MediaType::plain_text(), &pieces[..64]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_sweep_removes_unreferenced_blobs_and_nothing_else() {
    let (world, id) = paused().await;
    // A crash between blob and entry leaves an unreferenced blob.
    let orphan = upload(&world, DeliveryState::Open, MediaType::plain_text(), &[b"orphan"]).await.unwrap();
    let world = world.crash().await;
    let report = deliver(&world, id, Outcome::success(long_text())).await.unwrap();
    let large = recorded(&report.snapshot).large().unwrap();
    assert_eq!(world.engine.sweep_blobs().await.unwrap(), 0, "its reference may be under way");
    tokio::time::advance(BLOB_GRACE).await;
    world.engine.sweep_blobs().await.unwrap();
    assert_eq!(blob(&world, &orphan).await, None);
    assert!(blob(&world, large).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn blobs_are_swept_periodically() {
    let (world, _) = paused().await;
    let orphan = upload(&world, DeliveryState::Open, MediaType::plain_text(), &[b"orphan"]).await.unwrap();
    tokio::time::sleep(2 * BLOB_GRACE + Duration::from_secs(1)).await;
    assert_eq!(blob(&world, &orphan).await, None);
}

#[tokio::test(start_paused = true)]
async fn pages_add_up_to_the_result_and_only_of_the_same_query() {
    let (world, id) = paused().await;
    let text = long_text();
    let report = deliver(&world, id, Outcome::success(text.as_str())).await.unwrap();
    let results = Results::of(Arc::clone(&report.snapshot.transcript), Arc::new(world.blobs.clone()));
    let (mut whole, mut offset) = (String::new(), 0);
    loop {
        let page = results.page(&id.to_string(), offset, 100_000).await.unwrap();
        assert_eq!((page.start, page.size), (offset, text.len() as u64));
        whole.push_str(&page.text);
        offset = page.end();
        if offset == page.size {
            break;
        }
    }
    assert!(whole == text);
    let other = world.engine.submit(submission("other", vec![outside("ask")]), PATIENCE).await.unwrap().snapshot;
    for unknown in [
        call(&other, 0).to_string(),
        "call_1".into(),
        String::new(),
        recorded(&report.snapshot).content_hash().to_string(),
    ] {
        let refused = results.page(&unknown, 0, 10).await;
        assert!(matches!(refused, Err(PageError::Unknown(_))), "{unknown}: {refused:?}");
    }
    let foreign = Results::of(other.transcript, Arc::new(world.blobs.clone()));
    assert!(matches!(foreign.page(&id.to_string(), 0, 10).await, Err(PageError::Unknown(_))));
}

#[tokio::test(start_paused = true)]
async fn a_result_is_found_by_its_call() {
    let (world, id) = paused().await;
    let other = CallId::derive(call_owner(&world).await, 9, 9);
    assert!(matches!(world.engine.result(&key("q"), other).await, Err(EngineError::CallNotFound(_))));
    assert!(matches!(world.engine.result(&key("q"), id).await, Err(EngineError::NoResult(_))));
    assert!(matches!(world.engine.result(&key("gone"), id).await, Err(EngineError::QueryNotFound(..))));
    deliver(&world, id, Outcome::success(json!({"b": 1, "a": 2}))).await.unwrap();
    let result = world.engine.result(&key("q"), id).await.unwrap();
    assert_eq!(result.media_type, MediaType::json());
    assert_eq!(result.read(0..result.size).await.unwrap(), &br#"{"b":1,"a":2}"#[..]);
    assert_eq!(result.read(1..4).await.unwrap(), &br#""b""#[..]);
}

async fn call_owner(world: &EngineWorld) -> QueryUid {
    world.get().await.head.uid
}

#[tokio::test]
async fn a_result_that_is_first_refused_and_then_accepted_is_sealed_first() {
    let blobs = MemoryBlobs::new();
    let id = CallId::derive(QueryUid::new(1, [0; 10]), 1, 0);
    let outcome = Outcome::success(long_text());
    let mut deliveries = vec![Delivery { target: DeliveryTarget::Call(id), outcome, took: None }];
    let mut large = LargeResults::extract_large(&mut deliveries);
    let hash = deliveries[0].outcome.large().unwrap().hash;
    // A cancellation precedes it.
    assert!(large.are_kept(&[DeliveryVerdict::Cancelled(id)]));
    large.keep(&blobs, &[DeliveryVerdict::Cancelled(id)]).await.unwrap();
    assert_eq!(blobs.size(hash).await.unwrap(), None, "a refused result is not written");
    // The cancellation was not kept.
    assert!(!large.are_kept(&[DeliveryVerdict::Accepted(id)]), "it must be sealed first");
    large.keep(&blobs, &[DeliveryVerdict::Accepted(id)]).await.unwrap();
    assert!(large.are_kept(&[DeliveryVerdict::Accepted(id)]));
    assert!(blobs.size(hash).await.unwrap().is_some());
}
