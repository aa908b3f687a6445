//! The size limits that the engine enforces: of replies, journals, rendered texts and memory.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{
    Actor, Event, Namespace, Outcome, QueryLimits, Status,
    ceiling::{
        ARGUMENT_BYTES, CALL_NAME_BYTES, CHANGES_BYTES, ENTRY_BYTES, JOURNAL_BYTES, PARAMETERS_BYTES,
        RECENT_ENTRIES_BYTES, RENDERED_BYTES, REPLY_BYTES, REPLY_CALLS, REPLY_TEXT_BYTES, REQUEST_PATTERN_BYTES,
        RESULT_SHOWN_BYTES, WAITING_CACHE_BYTES,
    },
    journal::JournalFault,
    query::{AskedLimits, TargetKind},
    transcript::Message,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::world::{
    EngineWorld, PATIENCE, assert_completed, assert_failed, call, key, limited, outside, registry, submission,
};
use crate::{
    Engine, EngineError, EngineSettings, Model, Registry, Snapshot, Store, StoreError, Submission, Update, Watched,
    blob::MemoryBlobs,
    memory::MemoryStore,
    model::{Deltas, ModelCall, ModelError, ModelReply, ModelRequest},
    parameters::QueryParameter,
    submission::Input,
    testing::{CallLedger, ScriptedModel, ScriptedTurn, TokioClock},
};

/// A stateless model that answers by a function of the turn.
struct Answering<Answer>(Answer);

#[async_trait]
impl<Answer: Fn(u32) -> ModelReply + Send + Sync + 'static> Model for Answering<Answer> {
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
        let reply = (self.0)(request.turn);
        deltas.push(reply.text.as_deref().unwrap_or_default());
        Ok(reply)
    }
}

async fn engine(answer: impl Fn(u32) -> ModelReply + Send + Sync + 'static) -> (Engine, Arc<MemoryStore>) {
    engine_with(answer, |_| {}).await
}

/// The same, with a larger registry.
async fn engine_with(
    answer: impl Fn(u32) -> ModelReply + Send + Sync + 'static,
    describe: impl FnOnce(&mut Registry),
) -> (Engine, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let model: Arc<dyn Model> = Arc::new(Answering(answer));
    let mut registry = registry(&model, &Arc::new(CallLedger::open()));
    describe(&mut registry);
    let (blobs, clock) = (Arc::new(MemoryBlobs::new()), Arc::new(TokioClock::new()));
    let limits = QueryLimits { max_tool_calls: 1_000, ..QueryLimits::default() };
    let settings = EngineSettings { limits, ceilings: limits, ..EngineSettings::default() };
    let engine = Engine::start(Arc::clone(&store) as _, blobs, registry, clock, settings).await.unwrap();
    (engine, store)
}

/// Runs a query whose model answers with `first` in its first turn, and is done in its second.
async fn run(first: ModelReply) -> (Snapshot, Vec<Event>) {
    let done = ModelReply { text: Some("done".into()), ..ModelReply::default() };
    let (engine, store) = engine(move |turn| if turn == 1 { first.clone() } else { done.clone() }).await;
    let limits = AskedLimits { max_tool_calls: Some(1_000), ..AskedLimits::default() };
    let submitted = engine.submit(limited(vec![outside("ask")], limits), PATIENCE).await.unwrap();
    let (namespace, name) = key("q");
    let journal = store.load(&namespace, &name).await.unwrap().unwrap().entries;
    (submitted.snapshot, journal.into_iter().map(|entry| entry.event).collect())
}

fn calling(calls: usize, alias: &str, arguments: impl Into<String>) -> ModelReply {
    let arguments = arguments.into();
    let call = |index| ModelCall {
        provider_id: format!("call-{index}"),
        alias: alias.to_owned(),
        arguments: arguments.clone(),
    };
    ModelReply { calls: (0..calls).map(call).collect(), ..ModelReply::default() }
}

fn reply_of(text: String) -> ModelReply {
    ModelReply { text: Some(text), ..ModelReply::default() }
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_too_many_calls_fails_the_query_and_none_is_journaled() {
    let (paused, _) = run(calling(REPLY_CALLS, "ask", "{}")).await;
    assert_eq!((paused.head.status(), paused.head.calls.len()), (Status::Waiting, REPLY_CALLS));
    let (failed, journal) = run(calling(REPLY_CALLS + 1, "ask", "{}")).await;
    assert_failed(&failed, "model_malformed");
    assert!(!journal.iter().any(|event| matches!(event, Event::CallAsked(_) | Event::TurnEnded { .. })), "{journal:?}");
}

#[tokio::test(start_paused = true)]
async fn the_id_and_the_name_of_a_call_have_a_maximum_length() {
    let named = |bytes: usize| calling(1, &"x".repeat(bytes), "{}");
    assert_completed(&run(named(CALL_NAME_BYTES)).await.0, "done");
    assert_failed(&run(named(CALL_NAME_BYTES + 1)).await.0, "model_malformed");
    let mut reply = calling(1, "ask", "{}");
    reply.calls[0].provider_id = "x".repeat(CALL_NAME_BYTES + 1);
    assert_failed(&run(reply).await.0, "model_malformed");
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_reply_is_counted_as_json_writes_it() {
    for (character, bytes) in [("x", 1), ("\"", 2), ("\n", 2), ("\u{1}", 6), ("ü", 2), ("🌊", 4)] {
        let most = REPLY_TEXT_BYTES / bytes;
        let (completed, _) = run(reply_of(character.repeat(most))).await;
        assert_eq!(completed.transcript.response().map(str::len), Some(most * character.len()), "{character:?}");
        let (failed, journal) = run(reply_of(character.repeat(most + 1))).await;
        assert_failed(&failed, "model_output_limit");
        assert!(!journal.iter().any(|event| matches!(event, Event::TurnEnded { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_sent_no_more_text_than_a_reply_may_have() {
    let piece = "x".repeat(REPLY_TEXT_BYTES / 4);
    let pieces: Vec<&str> = std::iter::repeat_n(piece.as_str(), 6).collect();
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::stream(&pieces)])).await;
    let submitted = world.engine.submit(submission("q", vec![]), None).await.unwrap();
    let mut watch = world.engine.watch(&key("q"), submitted.snapshot.head.seq).await.unwrap();
    let mut received = 0;
    while let Some(watched) = watch.next().await.unwrap() {
        if let Watched::Delta { text, .. } = watched {
            received += text.len();
        }
    }
    assert!(received <= REPLY_TEXT_BYTES, "{received}");
    assert_failed(&world.get().await, "model_output_limit");
}

#[tokio::test(start_paused = true)]
async fn a_reply_has_a_ceiling_as_a_whole() {
    let of_provider = |bytes: usize| {
        let provider = Some(Arc::new(json!("x".repeat(bytes - 2))));
        ModelReply { provider, ..reply_of(String::new()) }
    };
    assert_eq!(run(of_provider(REPLY_BYTES)).await.0.head.status(), Status::Completed);
    assert_failed(&run(of_provider(REPLY_BYTES + 1)).await.0, "model_output_limit");
    let of_arguments = |bytes: usize| calling(bytes / 1024, "ask", format!("{{\"note\":\"{}\"}}", "x".repeat(1_013)));
    assert_failed(&run(of_arguments(REPLY_BYTES + 1024)).await.0, "model_malformed");
    let large = calling(20, "ask", format!("{{\"note\":\"{}\"}}", "x".repeat(REPLY_BYTES / 20)));
    assert_failed(&run(large).await.0, "model_output_limit");
}

/// The outcome of the first call of a query.
fn first_outcome(snapshot: &Snapshot) -> Option<Arc<Outcome>> {
    snapshot.transcript.calls().next()?.result.as_ref().map(|recorded| Arc::clone(&recorded.outcome))
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_too_large_are_reported_to_the_model() {
    let note = |bytes: usize| format!("{{\"note\":\"{}\"}}", "x".repeat(bytes - 11));
    let (paused, _) = run(calling(1, "ask", note(ARGUMENT_BYTES))).await;
    assert_eq!(paused.head.status(), Status::Waiting);
    // As many bytes on the wire, and more when they are serialised again, as in every event that has them.
    let numbers = format!("{{\"n\":1,\"note\":\"\",\"more\":[{}1]}}", "1e15,".repeat(ARGUMENT_BYTES / 5 - 10));
    for arguments in [note(ARGUMENT_BYTES + 1), numbers] {
        let (completed, _) = run(calling(1, "ask", arguments)).await;
        assert_completed(&completed, "done");
        let outcome = first_outcome(&completed).unwrap();
        assert!(matches!(&*outcome, Outcome::Failure { code, .. } if code == "invalid_arguments"), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_message_about_invalid_arguments_is_bounded() {
    let many: serde_json::Map<_, _> =
        (0..90).map(|index| (format!("{index}{}", "x".repeat(2_000)), json!(1))).collect();
    let (completed, _) = run(calling(1, "ask", Value::Object(many).to_string())).await;
    let outcome = first_outcome(&completed).unwrap();
    assert!(matches!(&*outcome, Outcome::Failure { message, .. } if message.len() < 20 * 1024), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn the_model_is_shown_a_result_up_to_its_ceiling() {
    for (bytes, shown) in [(RESULT_SHOWN_BYTES, RESULT_SHOWN_BYTES), (RESULT_SHOWN_BYTES + 1, RESULT_SHOWN_BYTES)] {
        let script = ScriptedModel::always(vec![ScriptedTurn::call("once", &json!({})), ScriptedTurn::say("done")]);
        let world = EngineWorld::with(script, CallLedger::giving("x".repeat(bytes))).await;
        assert_completed(&world.submit(vec![]).await, "done");
        let requests = world.model.requests();
        let Some(Message::Tool { content, .. }) = requests[1].messages.last() else { panic!("a result") };
        assert_eq!(content.bytes().take_while(|byte| *byte == b'x').count(), shown);
        assert_eq!(content.len() > shown, bytes > shown, "with a mark if it was truncated");
    }
}

fn with_parameters(input: &str, parameters: &[(&str, usize)]) -> Submission {
    let parameters =
        parameters.iter().map(|(name, bytes)| ((*name).to_owned(), QueryParameter::Value("x".repeat(*bytes))));
    Submission { input: input.into(), parameters: parameters.collect(), ..submission("q", vec![]) }
}

#[tokio::test(start_paused = true)]
async fn an_input_is_rendered_up_to_its_ceiling_and_nothing_larger_is_built() {
    let half = RENDERED_BYTES / 2;
    for (input, taken) in [
        ("{{.a}}{{.a}}".to_owned(), true),
        ("{{.a}}{{.a}}!".to_owned(), false),
        // 40 GB, if they were rendered.
        ("{{.a}}".repeat(80_000), false),
    ] {
        let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
        let submitted = world.engine.submit(with_parameters(&input, &[("a", half)]), PATIENCE).await;
        match submitted {
            Ok(submitted) => assert!(taken && submitted.snapshot.transcript.spec.input.len() == RENDERED_BYTES),
            Err(EngineError::InputTooLarge(bytes)) => assert!(!taken && bytes > RENDERED_BYTES),
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_values_of_all_parameters_have_a_ceiling() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
    let half = PARAMETERS_BYTES / 2;
    let most = with_parameters("go", &[("a", half), ("b", half)]);
    world.engine.submit(most, PATIENCE).await.unwrap();
    let more = Submission { name: None, ..with_parameters("go", &[("a", half), ("b", half), ("c", 1)]) };
    let refused = world.engine.submit(more, PATIENCE).await.unwrap_err();
    assert!(matches!(refused, EngineError::ParametersTooLarge), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_entry_that_creates_a_query_has_a_ceiling() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
    let noted = |name: &str, bytes: usize| {
        let annotations = BTreeMap::from([("note".to_owned(), "x".repeat(bytes))]);
        Submission { annotations, ..submission(name, vec![]) }
    };
    world.engine.submit(noted("a", 1), PATIENCE).await.unwrap();
    let (namespace, name) = key("a");
    let entries = world.store.load(&namespace, &name).await.unwrap().unwrap().entries;
    let rest = entries[0].event.encode().unwrap().len() - 1;
    world.engine.submit(noted("b", ENTRY_BYTES - rest), PATIENCE).await.unwrap();
    let refused = world.engine.submit(noted("c", ENTRY_BYTES - rest + 1), PATIENCE).await.unwrap_err();
    let fault = JournalFault::EntryTooLarge(ENTRY_BYTES + 1);
    assert!(matches!(refused, EngineError::Store(StoreError::Journal(found)) if found == fault), "{refused}");
    assert!(matches!(world.engine.get(&key("c"), None).await, Err(EngineError::QueryNotFound(..))), "nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn a_query_whose_journal_is_full_fails_and_can_still_be_read_and_deleted() {
    let text = "x".repeat(REPLY_TEXT_BYTES);
    let (engine, store) = engine(move |turn| {
        let arguments = json!({"n": turn}).to_string();
        ModelReply { text: Some(text.clone()), ..calling(1, "again", arguments) }
    })
    .await;
    let limits = AskedLimits { max_tool_calls: Some(1_000), ..AskedLimits::default() };
    let failed = engine.submit(limited(vec![], limits), PATIENCE).await.unwrap().snapshot;
    assert_failed(&failed, "journal_full");
    let (namespace, name) = key("q");
    let size = store.load(&namespace, &name).await.unwrap().unwrap().size;
    assert!((JOURNAL_BYTES - 2 * REPLY_TEXT_BYTES..JOURNAL_BYTES + 1024).contains(&size.bytes), "{size:?}");
    assert_failed(&engine.get(&key("q"), None).await.unwrap(), "journal_full");
    engine.delete(Actor::local(), key("q")).await.unwrap();
}

fn note(bytes: usize, letter: &str) -> Update {
    let annotations = Some(BTreeMap::from([("note".to_owned(), letter.repeat(bytes))]));
    Update { annotations, ..Update::default() }
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_query_have_a_ceiling_below_that_of_its_journal() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({})), ScriptedTurn::say("done")]);
    let world = EngineWorld::new(script).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let bytes = 250 * 1024;
    let mut made = 0;
    let refused = loop {
        let letter = if made % 2 == 0 { "a" } else { "b" };
        match world.engine.update(Actor::local(), key("q"), note(bytes, letter)).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, EngineError::Store(StoreError::Journal(JournalFault::Full))), "{refused}");
    assert!((CHANGES_BYTES / (bytes + 1024)..=CHANGES_BYTES / bytes).contains(&made), "{made}");
    // The query continues as if the change had not been tried.
    assert_eq!(world.get().await.head.status(), Status::Waiting);
    let world = world.crash().await;
    let again = world.engine.update(Actor::local(), key("q"), note(bytes, "c")).await;
    assert!(again.is_err(), "the size of changes is restored after a restart");
    assert_completed(&world.deliver(call(&paused, 0), "42").await.snapshot, "done");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_fit_into_the_journal_is_refused_and_the_query_fails() {
    let text = "x".repeat(REPLY_TEXT_BYTES);
    let (engine, _) = engine(move |turn| {
        let alias = if turn < 64 { "again" } else { "ask" };
        ModelReply { text: Some(text.clone()), ..calling(1, alias, json!({"n": turn}).to_string()) }
    })
    .await;
    let limits = AskedLimits { max_tool_calls: Some(1_000), ..AskedLimits::default() };
    let paused = engine.submit(limited(vec![outside("ask")], limits), PATIENCE).await.unwrap().snapshot;
    assert_eq!(paused.head.status(), Status::Waiting);
    let mut post = None;
    // Changes fill the rest.
    while engine.update(Actor::local(), key("q"), note(64 * 1024, if post.is_some() { "a" } else { "b" })).await.is_ok()
    {
        post = if post.is_some() { None } else { Some(()) };
    }
    let last = paused.head.calls.last().unwrap().id;
    let delivery = super::world::delivery(last, &"x".repeat(200 * 1024));
    let refused = engine.deliver(Actor::local(), key("q"), vec![delivery], false, PATIENCE).await.unwrap_err();
    assert!(matches!(refused, EngineError::Store(StoreError::Journal(JournalFault::Full))), "{refused}");
    assert_failed(&engine.get(&key("q"), PATIENCE).await.unwrap(), "journal_full");
}

#[tokio::test(start_paused = true)]
async fn waiting_queries_are_cached_up_to_a_total_size() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({})), ScriptedTurn::say("done")]);
    let world = EngineWorld::new(script).await;
    let noted = |name: &str| {
        let annotations = BTreeMap::from([("note".to_owned(), "x".repeat(4 << 20))]);
        Submission { annotations, ..submission(name, vec![outside("ask")]) }
    };
    let names: Vec<String> = (0..20).map(|number| format!("q{number}")).collect();
    for name in &names {
        world.engine.submit(noted(name), PATIENCE).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let kept = world.engine.inner.live_queries.cached_waiting();
    let most = WAITING_CACHE_BYTES / (4 << 20);
    assert!((most / 2..=most).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last(), Some(&key("q19")), "the longest waiting went first");
    // A cached query that grows weighs more.
    let last = key(kept.first().unwrap().1.as_str());
    for letter in ["a", "b", "c"] {
        world.engine.update(Actor::local(), last.clone(), note(256 * 1024, letter)).await.unwrap();
    }
    assert!(world.engine.inner.live_queries.weight() <= WAITING_CACHE_BYTES);
    for name in names {
        assert_eq!(world.engine.get(&key(&name), None).await.unwrap().head.status(), Status::Waiting);
    }
}

#[tokio::test(start_paused = true)]
async fn recent_entries_are_cached_up_to_a_total_size_and_all_reach_the_reader() {
    let turns: Vec<ScriptedTurn> =
        (0..8).map(|n| ScriptedTurn::call("again", &json!({"n": n}))).chain([ScriptedTurn::say("done")]).collect();
    let world = EngineWorld::with(ScriptedModel::always(turns), CallLedger::giving("x".repeat(200 * 1024))).await;
    let ended = world.submit(vec![]).await;
    assert_completed(&ended, "done");
    let live = world.engine.inner.live_queries.entry(&key("q"));
    let mut watch = world.engine.watch(&key("q"), 0).await.unwrap();
    let mut seen = 0;
    while let Some(watched) = watch.next().await.unwrap() {
        if let Watched::Entry(entry) = watched {
            seen += 1;
            assert_eq!(entry.seq, seen);
        }
    }
    assert_eq!(seen, ended.head.seq);
    let locked = live.lock(&*world.store).await.unwrap();
    assert!(locked.state().unwrap().recent_bytes() <= RECENT_ENTRIES_BYTES);
}

/// Holds all permits of the blocking pool until it is dropped.
async fn busy_pool(engine: &Engine) -> Vec<std::sync::mpsc::Sender<()>> {
    let mut held = Vec::new();
    for _ in 0..2 {
        let (held_until, dropped) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let inner = Arc::clone(&engine.inner);
        engine.inner.tasks.spawn(async move {
            inner
                .offload
                .run(move || {
                    let _ = begun.send(());
                    let _ = dropped.recv();
                })
                .await;
        });
        has_begun.await.unwrap();
        held.push(held_until);
    }
    held
}

/// Many strings that are checked by a backtracking pattern.
fn many_texts() -> (Value, String) {
    let pattern = "^(?!x)[a-z ]*$";
    let schema = json!({"type": "object", "properties": {"all": {"type": "array", "items": {"pattern": pattern}}}});
    (schema, json!({"all": vec!["a few words of text"; 4_000]}).to_string())
}

#[tokio::test]
async fn the_name_of_a_new_query_is_not_locked_while_the_arguments_of_its_tool_are_checked() {
    let (schema, arguments) = many_texts();
    let tool = bosun_core::Tool { parameters: Arc::new(schema), ..outside("ask") };
    let describe = |registry: &mut Registry| registry.add_tool(Namespace::default(), tool);
    let (engine, _) = engine_with(|_| ModelReply::default(), describe).await;
    let mut asked = submission("q", Vec::new());
    (asked.target_kind, asked.target, asked.input) = (TargetKind::Tool, "ask".to_owned(), Input::Text(arguments));
    let busy = busy_pool(&engine).await;
    let mut submitting = pin!(engine.submit(asked, None));
    for _ in 0..100 {
        assert!(futures_util::poll!(&mut submitting).is_pending(), "its check waits for a permit");
        let looked = tokio::time::timeout(Duration::from_secs(30), engine.get(&key("q"), None)).await;
        assert!(matches!(looked, Ok(Err(_))), "there is no such query yet: {looked:?}");
    }
    drop(busy);
    assert_eq!(submitting.await.unwrap().snapshot.head.name.as_str(), "q");
}

#[tokio::test]
async fn large_arguments_are_checked_on_the_blocking_pool_with_the_query_unlocked() {
    let (schema, arguments) = many_texts();
    let (engine, _) = engine(move |_| calling(1, "ask", arguments.clone())).await;
    let tool = bosun_core::Tool { parameters: Arc::new(schema), ..outside("ask") };
    let busy = busy_pool(&engine).await;
    engine.submit(submission("q", vec![tool]), None).await.unwrap();
    // The model answered long ago; requests are answered nevertheless.
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert_eq!(engine.get(&key("q"), None).await.unwrap().head.status(), Status::Running);
    }
    drop(busy);
    let paused = engine.get(&key("q"), PATIENCE).await.unwrap();
    assert_eq!(paused.head.status(), Status::Waiting);
}

#[tokio::test]
async fn small_arguments_are_checked_inline() {
    let (engine, _) = engine(|_| calling(1, "ask", r#"{"note": "short"}"#)).await;
    let busy = busy_pool(&engine).await;
    let paused = engine.submit(submission("q", vec![outside("ask")]), PATIENCE).await.unwrap().snapshot;
    assert_eq!(paused.head.status(), Status::Waiting);
    drop(busy);
}

fn with_patterns(first: usize, count: usize) -> Arc<Value> {
    let property = |number| (format!("p{number}"), json!({"pattern": format!("z{number}[^b]{{300}}")}));
    let properties: serde_json::Map<_, _> = (first..first + count).map(property).collect();
    Arc::new(json!({"type": "object", "properties": properties}))
}

#[tokio::test]
async fn schemas_with_patterns_are_compiled_on_the_blocking_pool() {
    let (engine, _) = engine(|_| reply_of("{}".into())).await;
    let busy = busy_pool(&engine).await;
    let schema = with_patterns(0, 2);
    let asking = Submission { output_schema: Some(Arc::clone(&schema)), ..submission("heavy", vec![]) };
    let submitting = engine.submit(asking, PATIENCE);
    tokio::pin!(submitting);
    assert!(futures_util::poll!(&mut submitting).is_pending(), "it waits for a permit, and a worker does not");
    // Other requests are served in the meantime, also those with small and simple schemas.
    let plain = Submission { output_schema: Some(Arc::new(json!({"type": "object"}))), ..submission("q", vec![]) };
    assert_completed(&engine.submit(plain, PATIENCE).await.unwrap().snapshot, "{}");
    assert!(!engine.has_compiled(&schema));
    drop(busy);
    assert_completed(&submitting.await.unwrap().snapshot, "{}");
    assert!(engine.has_compiled(&schema));
}

#[tokio::test]
async fn the_patterns_of_an_output_schema_and_of_the_tools_are_counted_together() {
    let (engine, _) = engine(|_| reply_of("{}".into())).await;
    let tools: Vec<_> = (0..4)
        .map(|number| bosun_core::Tool { parameters: with_patterns(100 * number, 8), ..outside(&format!("t{number}")) })
        .collect();
    engine.compile_ahead(tools.iter().map(|tool| Arc::clone(&tool.parameters)).collect()).await;
    let bytes = |source: &Arc<Value>| bosun_core::Schema::compile(source).unwrap().pattern_bytes();
    let of_tools: usize = tools.iter().map(|tool| bytes(&tool.parameters)).sum();
    let fits = (1..7).rev().find(|count| of_tools + bytes(&with_patterns(900, *count)) <= REQUEST_PATTERN_BYTES);
    let fits = fits.expect("one more schema fits");
    for (name, count, taken) in [("fits", fits, true), ("more", fits + 1, false)] {
        let output_schema = Some(with_patterns(900, count));
        let submitted = engine.submit(Submission { output_schema, ..submission(name, tools.clone()) }, PATIENCE).await;
        match submitted {
            Ok(_) => assert!(taken),
            Err(EngineError::InvalidOutputSchema(error)) => {
                assert!(!taken && error.fault.code() == "patterns_too_large", "{error}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
