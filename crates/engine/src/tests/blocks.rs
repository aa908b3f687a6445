//! Results of content blocks: kept whole, and shown to the model as text and images.

use bosun_core::{
    Content, Outcome,
    ceiling::{BLOCKS_SHOWN_BYTES, IMAGES_SHOWN, IMAGES_SHOWN_BYTES},
    content::{Blocks, INLINE_BYTES, Images, MediaType},
    result_rendering::ResultRenderer,
    transcript::Message,
};
use serde_json::{Value, json};

use super::world::{EngineWorld, PATIENCE, assert_completed, call, key, submission};
use crate::{
    Blobs as _, Snapshot, Store as _,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

/// A PNG image of this many characters in base64, which is a multiple of four.
fn image(characters: usize) -> Value {
    let signature = "iVBORw0KGgoA";
    json!({"type": "image", "data": format!("{signature}{}", "A".repeat(characters - signature.len())), "mimeType": "image/png"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The model makes these calls in one turn, and each returns the blocks.
async fn calling(calls: usize, blocks: &Blocks) -> EngineWorld {
    let call = |turn: ScriptedTurn, n| turn.and_call("again", &json!({ "n": n }).to_string());
    let turn = (0..calls).fold(ScriptedTurn::default(), call);
    let script = ScriptedModel::always(vec![turn, ScriptedTurn::say("done")]);
    EngineWorld::with(script, CallLedger::giving_blocks(blocks.clone())).await
}

fn recorded(snapshot: &Snapshot) -> &Outcome {
    &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome
}

/// The results in the last request: their texts and images.
fn shown(world: &EngineWorld) -> Vec<(String, Images)> {
    let requests = world.model.requests();
    let results = requests.last().unwrap().messages.iter().filter_map(|message| match message {
        Message::Tool { content, images, .. } => Some((content.clone(), images.clone())),
        _ => None,
    });
    results.collect()
}

async fn written(world: &EngineWorld) -> Vec<String> {
    let stored = world.store.load(&key("q").0, &key("q").1).await.unwrap().unwrap();
    stored.entries.iter().map(|entry| entry.event.encode().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn small_blocks_are_kept_in_the_journal_and_shown_with_their_images() {
    let audio = json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "_meta": {"x": 1}});
    let blocks = Blocks::new(vec![text("a map"), image(400), audio], Some(json!({"places": 3})));
    let world = calling(1, &blocks).await;
    let snapshot = world.submit(vec![]).await;
    assert_completed(&snapshot, "done");
    assert_eq!(recorded(&snapshot), &Outcome::Success { content: Content::Blocks(blocks.clone()) });
    let (content, images) = shown(&world).remove(0);
    assert_eq!(content, "a map\n[image: image/png, 300 bytes]\n[audio: audio/wav, 3 bytes]\n{\"places\":3}");
    assert_eq!((images.len(), images[0].media_type), (1, "image/png"));
    assert!(written(&world).await.iter().any(|entry| entry.starts_with(r#"{"v":6,"kind":"call_finished""#)));
    // Later queries of a conversation read the marks.
    let remembered: Vec<_> = snapshot.transcript.remembered(&ResultRenderer::default());
    assert!(remembered.iter().all(|message| !matches!(message, Message::Tool { images, .. } if !images.is_empty())));
    assert!(
        remembered.iter().any(|message| matches!(message, Message::Tool { content: text, .. } if *text == content))
    );
    let world = world.crash().await;
    let result = world.engine.result(&key("q"), call(&snapshot, 0)).await.unwrap();
    assert_eq!(result.media_type, MediaType::blocks());
    assert_eq!(result.read(0..result.size).await.unwrap(), blocks.to_json().as_bytes());
}

#[tokio::test(start_paused = true)]
async fn large_blocks_are_kept_as_a_blob_and_shown_anyway() {
    let blocks = Blocks::new(vec![text("a map"), image(INLINE_BYTES)], None);
    for target in ["agent", "pager"] {
        let world = calling(1, &blocks).await;
        let mut submission = submission("q", vec![]);
        submission.target = target.into();
        let snapshot = world.engine.submit(submission, PATIENCE).await.unwrap().snapshot;
        assert_completed(&snapshot, "done");
        let large = recorded(&snapshot).large().unwrap();
        assert_eq!(large.media_type, MediaType::blocks());
        let kept = world.blobs.read(large.hash, 0, usize::MAX).await.unwrap().unwrap();
        assert_eq!(kept, blocks.to_json().as_bytes());
        assert!(blocks.to_json().starts_with(&large.head));
        let entries = written(&world).await;
        assert!(entries.iter().any(|entry| entry.starts_with(r#"{"v":6,"kind":"call_finished""#)));
        assert!(entries.iter().all(|entry| entry.len() < 8 * 1024));
        let (content, images) = shown(&world).remove(0);
        assert_eq!(content, "a map\n[image: image/png, 196608 bytes]", "{target}");
        assert_eq!(images[0].data, image(INLINE_BYTES)["data"].as_str().unwrap());
        let world = world.crash().await;
        let result = world.engine.result(&key("q"), call(&snapshot, 0)).await.unwrap();
        assert_eq!((result.media_type, result.size), (MediaType::blocks(), kept.len() as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_are_shown_up_to_their_ceiling_and_mentioned_above() {
    let of_size = |size: usize| {
        let envelope = Blocks::new(vec![text(""), image(12)], None).to_json().len();
        Blocks::new(vec![text(&"x".repeat(size - envelope)), image(12)], None)
    };
    let world = calling(1, &of_size(BLOCKS_SHOWN_BYTES)).await;
    assert_completed(&world.submit(vec![]).await, "done");
    let (content, images) = shown(&world).remove(0);
    assert!(content.starts_with("xxxx") && images.len() == 1);
    let world = calling(1, &of_size(BLOCKS_SHOWN_BYTES + 1)).await;
    assert_completed(&world.submit(vec![]).await, "done");
    let (content, images) = shown(&world).remove(0);
    let mark = "[result: application/vnd.bosun.blocks+json, 8388609 bytes; it cannot be shown]";
    assert_eq!((content.as_str(), images.len()), (mark, 0));
}

/// How many images each result has in the request, if each of `calls` results has these.
async fn images_of(calls: usize, images: usize, characters: usize) -> Vec<usize> {
    let world = calling(calls, &Blocks::new(vec![image(characters); images], None)).await;
    assert_completed(&world.submit(vec![]).await, "done");
    let shown = shown(&world);
    let marks = |text: &str| text.matches("[image: image/png, ").count();
    assert!(shown.iter().all(|(text, _)| marks(text) == images), "each image has its mark");
    shown.into_iter().map(|(_, images)| images.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_has_the_newest_images_up_to_a_number() {
    assert_eq!(images_of(1, IMAGES_SHOWN, 12).await, [IMAGES_SHOWN]);
    assert_eq!(images_of(1, IMAGES_SHOWN + 1, 12).await, [IMAGES_SHOWN]);
    assert_eq!(images_of(2, IMAGES_SHOWN / 2, 12).await, [IMAGES_SHOWN / 2; 2]);
    let more = IMAGES_SHOWN / 2 + 1;
    assert_eq!(images_of(3, more, 12).await, [0, 0, more]);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_the_newest_images_up_to_a_total_size() {
    let quarter = IMAGES_SHOWN_BYTES / 4;
    assert_eq!(images_of(4, 1, quarter).await, [1; 4]);
    assert_eq!(images_of(5, 1, quarter).await, [0, 1, 1, 1, 1]);
    assert_eq!(images_of(4, 1, quarter + 4).await, [0, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn images_stay_in_the_requests_of_later_turns() {
    let calls = [1, 2].map(|n| ScriptedTurn::call("again", &json!({ "n": n })));
    let script = || ScriptedModel::always(calls.iter().cloned().chain([ScriptedTurn::say("done")]).collect());
    for size in [400, INLINE_BYTES] {
        let blocks = Blocks::new(vec![image(size)], None);
        let world = EngineWorld::with(script(), CallLedger::giving_blocks(blocks)).await;
        assert_completed(&world.submit(vec![]).await, "done");
        assert_eq!(shown(&world).iter().map(|(_, images)| images.len()).collect::<Vec<_>>(), [1, 1]);
    }
}
