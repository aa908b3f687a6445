//! Answers of every shape, and what is not one.

use bosun_engine::model::ModelError;
use serde_json::Value;

use super::{MESSAGES, config, model, stream};
use crate::{
    golden,
    model::{
        remote::{Answer, Failure, Wire},
        standin::{self, End},
        testing::{self, Kept, corpus, expected, reply, shown, stand_in},
    },
};

fn assemble(parts: &[&[u8]]) -> (Result<Answer, Failure>, String) {
    testing::assemble(MESSAGES.reader(), parts)
}

fn is_incomplete(result: &Result<Answer, Failure>) -> bool {
    matches!(result, Err(Failure::Final(ModelError::Incomplete(_))))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[test]
fn every_stream_of_the_corpus_gives_its_reply() {
    let streams = corpus("anthropic", "streams", ".sse");
    assert!(streams.len() >= 20);
    for (name, stream, file) in streams {
        let (answer, text) = assemble(&[&stream]);
        let answer = shown(&answer.unwrap_or_else(|error| panic!("{name}: {error:?}")));
        golden::check(&file, &pretty(&answer));
        assert_eq!(text, answer["text"].as_str().unwrap_or_default(), "{name}");
    }
}

#[test]
fn a_stream_means_the_same_however_the_network_cuts_it() {
    for (name, stream, file) in corpus("anthropic", "streams", ".sse") {
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
    for (name, stream, file) in corpus("anthropic", "streams", ".sse") {
        // What may follow the end of the message is no part of it.
        let end = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        let whole = str::from_utf8(&stream).unwrap().find(end).unwrap() + end.len();
        for cut in 0..whole {
            let (answer, _) = assemble(&[&stream[..cut]]);
            assert!(is_incomplete(&answer), "{name} ended at {cut}: {answer:?}");
        }
        assert_eq!(shown(&assemble(&[&stream[..whole]]).0.unwrap()), expected(&file), "{name}");
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
        assert_eq!(server.requests().len(), whole.len());
    }
}

#[test]
fn plain_answers_are_read_whole_or_not_at_all() {
    let bodies = corpus("anthropic", "plain", ".body.json");
    assert!(bodies.len() >= 4);
    for (name, body, file) in bodies {
        let deltas = Kept::default();
        let answer = MESSAGES.plain(&body, &deltas).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        golden::check(&file, &pretty(&shown(&answer)));
        assert_eq!(deltas.text(), expected(&file)["text"].as_str().unwrap_or_default(), "{name}");
        for cut in 0..body.trim_ascii_end().len() {
            let answer = MESSAGES.plain(&body[..cut], &Kept::default());
            assert!(is_incomplete(&answer), "{name} ended at {cut}: {answer:?}");
        }
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let event = |event: &Value| match event.as_str() {
        Some(text) => format!("data: {text}\n\n"),
        None => format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()),
    };
    testing::check_malformed("anthropic", || MESSAGES.reader(), event);
}
