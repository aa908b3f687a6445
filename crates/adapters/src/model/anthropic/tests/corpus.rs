//! Answers of every shape, and malformed ones.

use serde_json::Value;

use super::{MESSAGES, config, model, stream};
use crate::model::{
    anthropic::MessagesApi,
    remote::Wire,
    testing::{self, corpus::Corpus},
};

const CORPUS: Corpus<MessagesApi> = Corpus { name: "anthropic", wire: MESSAGES };

#[test]
fn every_stream_of_the_corpus_gives_its_reply() {
    CORPUS.check_streams(20);
}

#[test]
fn a_stream_means_the_same_however_the_network_cuts_it() {
    CORPUS.check_cuts();
}

#[test]
fn a_stream_that_ends_early_is_incomplete_at_every_byte() {
    const END: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    CORPUS.check_early_ends(|stream| str::from_utf8(stream).unwrap().find(END).unwrap() + END.len());
}

#[tokio::test]
async fn a_connection_that_ends_early_is_incomplete_at_every_byte() {
    CORPUS.check_early_connections(&stream("parallel-calls").body(), |url| model(config(url))).await;
}

#[test]
fn plain_answers_are_read_whole_or_not_at_all() {
    CORPUS.check_plain(4);
}

#[test]
fn malformed_answers_are_refused() {
    let event = |event: &Value| match event.as_str() {
        Some(text) => format!("data: {text}\n\n"),
        None => format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()),
    };
    testing::check_malformed("anthropic", || MESSAGES.reader(), event);
}
