//! Answers of every shape, and malformed ones.

use bosun_engine::model::ModelError;
use bosun_standin::{self as standin, End};
use serde_json::Value;

use super::{OPENAI, config, fixtures, model, stream};
use crate::model::{
    openai::ChatCompletions,
    remote::Wire,
    testing::{self, corpus::Corpus, reply, stand_in},
};

const CORPUS: Corpus<ChatCompletions> = Corpus { name: "openai", wire: OPENAI };

#[test]
fn every_stream_of_the_corpus_gives_its_reply() {
    CORPUS.check_streams(10);
}

#[test]
fn a_stream_means_the_same_however_the_network_cuts_it() {
    CORPUS.check_cuts();
}

#[test]
fn a_stream_that_ends_early_is_incomplete_at_every_byte() {
    CORPUS.check_early_ends(<[u8]>::len);
}

#[tokio::test]
async fn a_connection_that_ends_early_is_incomplete_at_every_byte() {
    let whole = stream("parallel-calls").body();
    CORPUS.check_early_connections(&whole, |url| model(config(url))).await;
    let server = stand_in(vec![standin::Answer::sse(whole.clone()), standin::Answer::sse(whole).then(End::Cut)]).await;
    let model = model(config(&server.url()));
    assert_eq!(reply(&model).await.unwrap().calls.len(), 2);
    // Even after the end mark: the end of the body is part of the answer.
    assert!(matches!(reply(&model).await, Err(ModelError::Incomplete(_))));
}

#[test]
fn plain_answers_are_read_whole_or_not_at_all() {
    CORPUS.check_plain(2);
}

#[tokio::test]
async fn an_api_that_does_not_stream_is_understood() {
    let body = std::fs::read(fixtures().join("plain/text-and-call.body.json")).unwrap();
    let server = stand_in(vec![standin::Answer::json(200, body)]).await;
    let reply = reply(&model(config(&server.url()))).await.unwrap();
    assert_eq!(reply.calls.len(), 1);
}

#[test]
fn malformed_answers_are_refused() {
    let event =
        |event: &Value| format!("data: {}\n\n", event.as_str().map_or_else(|| event.to_string(), str::to_owned));
    testing::check_malformed("openai", || OPENAI.reader(), event);
}
