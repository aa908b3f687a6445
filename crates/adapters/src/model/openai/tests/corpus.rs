//! Answers of every shape, and what is not one.

use bosun_engine::model::ModelError;
use serde_json::Value;

use super::{OPENAI, config, fixtures, model, stream};
use crate::model::{
    openai::assembly,
    remote::{Answer, Failure, Wire},
    standin::{self, End},
    testing::{self, Kept, corpus, expected, reply, shown, stand_in},
};

fn assemble(parts: &[&[u8]]) -> (Result<Answer, Failure>, String) {
    testing::assemble(OPENAI.reader(), parts)
}

fn is_incomplete<T>(result: &Result<T, Failure>) -> bool {
    matches!(result, Err(Failure::Final(ModelError::Incomplete(_))))
}

#[test]
fn every_stream_of_the_corpus_gives_its_reply() {
    let streams = corpus("openai", "streams", ".sse");
    assert!(streams.len() >= 10);
    for (name, stream, file) in streams {
        let (answer, text) = assemble(&[&stream]);
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let expect = expected(&file);
        assert_eq!(shown(&answer), expect, "{name}");
        assert_eq!(text, expect["text"].as_str().unwrap_or_default(), "{name}");
    }
}

#[test]
fn a_stream_means_the_same_however_the_network_cuts_it() {
    for (name, stream, file) in corpus("openai", "streams", ".sse") {
        let expect = expected(&file);
        for cut in 0..stream.len() {
            let (answer, _) = assemble(&[&stream[..cut], &stream[cut..]]);
            assert_eq!(shown(&answer.unwrap()), expect, "{name} cut at {cut}");
        }
        let bytes: Vec<_> = stream.chunks(1).collect();
        assert_eq!(shown(&assemble(&bytes).0.unwrap()), expect, "{name} byte by byte");
    }
}

#[test]
fn a_stream_that_ends_early_is_no_reply_wherever_it_ends() {
    for (name, stream, _) in corpus("openai", "streams", ".sse") {
        for cut in 0..stream.len() {
            let (answer, _) = assemble(&[&stream[..cut]]);
            assert!(is_incomplete(&answer), "{name} ended at {cut}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_ends_early_is_no_reply_wherever_it_ends() {
    let whole = stream("parallel-calls").body();
    for end in [End::Clean, End::Cut] {
        let parts = (0..whole.len()).map(|cut| standin::Answer::sse(&whole[..cut]).then(end));
        let server = stand_in(parts.collect()).await;
        for cut in 0..whole.len() {
            // A model of its own each time: one that fails so often is left alone.
            let reply = reply(&model(config(&server.url()))).await;
            assert!(matches!(reply, Err(ModelError::Incomplete(_))), "ended at {cut}: {reply:?}");
        }
        // What has begun is not asked for again.
        assert_eq!(server.requests().len(), whole.len());
    }
    let server = stand_in(vec![standin::Answer::sse(whole.clone()), standin::Answer::sse(whole).then(End::Cut)]).await;
    let model = model(config(&server.url()));
    assert_eq!(reply(&model).await.unwrap().calls.len(), 2);
    // Even behind the end mark: the end of the body is part of the answer.
    assert!(matches!(reply(&model).await, Err(ModelError::Incomplete(_))));
}

#[test]
fn plain_answers_are_read_whole_or_not_at_all() {
    let bodies = corpus("openai", "plain", ".body.json");
    assert!(bodies.len() >= 2);
    for (name, body, file) in bodies {
        let deltas = Kept::default();
        let answer = OPENAI.plain(&body, &deltas).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let expect = expected(&file);
        assert_eq!(shown(&answer), expect, "{name}");
        assert_eq!(deltas.text(), expect["text"].as_str().unwrap_or_default(), "{name}");
        for cut in 0..body.trim_ascii_end().len() {
            let reply = assembly::plain(&body[..cut], &Kept::default());
            assert!(matches!(reply, Err(ModelError::Incomplete(_))), "{name} ended at {cut}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn an_api_that_does_not_stream_is_understood() {
    let body = std::fs::read(fixtures().join("plain/text-and-call.body.json")).unwrap();
    let server = stand_in(vec![standin::Answer::json(200, body)]).await;
    let reply = reply(&model(config(&server.url()))).await.unwrap();
    assert_eq!(reply.calls.len(), 1);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let event =
        |event: &Value| format!("data: {}\n\n", event.as_str().map_or_else(|| event.to_string(), str::to_owned));
    testing::check_malformed("openai", || OPENAI.reader(), event);
}
