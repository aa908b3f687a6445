//! Answers of every shape, and what is not one.

use bosun_engine::model::{ModelCall, ModelError, ModelReply};
use serde_json::{Value, json};

use super::{
    super::assembly::{self, Streamed},
    Kept, config, fixtures, model, reply,
    server::{Canned, End, Server},
};

fn assemble(parts: &[&[u8]]) -> (Result<ModelReply, ModelError>, String) {
    let deltas = Kept::default();
    let mut streamed = Streamed::default();
    let fed = parts.iter().try_for_each(|part| streamed.feed(part, &deltas));
    (fed.and_then(|()| streamed.end()), deltas.text())
}

fn shown(reply: &ModelReply) -> Value {
    let call = |call: &ModelCall| json!({"id": call.provider_id, "name": call.alias, "arguments": call.arguments});
    json!({
        "text": reply.text,
        "calls": reply.calls.iter().map(call).collect::<Vec<_>>(),
        "usage": reply.usage,
    })
}

/// Every file of a directory of the corpus, with the reply that stands beside it.
fn corpus(directory: &str, extension: &str) -> Vec<(String, Vec<u8>, Value)> {
    let mut cases = Vec::new();
    for entry in fixtures().join(directory).read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with(extension) {
            let reply = path.to_str().unwrap().replace(extension, ".reply.json");
            let reply = serde_json::from_slice(&std::fs::read(reply).unwrap()).unwrap();
            cases.push((path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap(), reply));
        }
    }
    cases.sort_by(|left, right| left.0.cmp(&right.0));
    cases
}

#[test]
fn every_stream_of_the_corpus_gives_its_reply() {
    let streams = corpus("streams", ".sse");
    assert!(streams.len() >= 10);
    for (name, stream, expect) in streams {
        let (reply, text) = assemble(&[&stream]);
        let reply = reply.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shown(&reply), expect, "{name}");
        assert_eq!(text, reply.text.unwrap_or_default(), "{name}");
    }
}

#[test]
fn a_stream_means_the_same_however_the_network_cuts_it() {
    for (name, stream, expect) in corpus("streams", ".sse") {
        for cut in 0..stream.len() {
            let (reply, _) = assemble(&[&stream[..cut], &stream[cut..]]);
            assert_eq!(shown(&reply.unwrap()), expect, "{name} cut at {cut}");
        }
        let bytes: Vec<_> = stream.chunks(1).collect();
        assert_eq!(shown(&assemble(&bytes).0.unwrap()), expect, "{name} byte by byte");
    }
}

#[test]
fn a_stream_that_ends_early_is_no_reply_wherever_it_ends() {
    for (name, stream, _) in corpus("streams", ".sse") {
        for cut in 0..stream.len() {
            let (reply, _) = assemble(&[&stream[..cut]]);
            assert!(matches!(reply, Err(ModelError::Incomplete(_))), "{name} ended at {cut}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_ends_early_is_no_reply_wherever_it_ends() {
    let stream = Canned::stream("parallel-calls").body;
    for end in [End::Clean, End::Cut] {
        let parts = (0..stream.len()).map(|cut| Canned::sse(&stream[..cut]).then(end));
        let server = Server::start(parts.collect()).await;
        let model = model(config(&server.url));
        for cut in 0..stream.len() {
            let reply = reply(&model).await;
            assert!(matches!(reply, Err(ModelError::Incomplete(_))), "ended at {cut}: {reply:?}");
        }
        // What has begun is not asked for again.
        assert_eq!(server.requests().len(), stream.len());
    }
    let server = Server::start(vec![Canned::sse(stream.clone()), Canned::sse(stream).then(End::Cut)]).await;
    let model = model(config(&server.url));
    assert_eq!(reply(&model).await.unwrap().calls.len(), 2);
    // Even behind the end mark: the end of the body is part of the answer.
    assert!(matches!(reply(&model).await, Err(ModelError::Incomplete(_))));
}

#[test]
fn plain_answers_are_read_whole_or_not_at_all() {
    let bodies = corpus("plain", ".body.json");
    assert!(bodies.len() >= 2);
    for (name, body, expect) in bodies {
        let deltas = Kept::default();
        let reply = assembly::plain(&body, &deltas).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shown(&reply), expect, "{name}");
        assert_eq!(deltas.text(), reply.text.unwrap_or_default(), "{name}");
        for cut in 0..body.trim_ascii_end().len() {
            let reply = assembly::plain(&body[..cut], &Kept::default());
            assert!(matches!(reply, Err(ModelError::Incomplete(_))), "{name} ended at {cut}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn an_api_that_does_not_stream_is_understood() {
    let body = std::fs::read_to_string(fixtures().join("plain/text-and-call.body.json")).unwrap();
    let server = Server::start(vec![Canned::json(200, &body)]).await;
    let reply = reply(&model(config(&server.url))).await.unwrap();
    assert_eq!(reply.calls.len(), 1);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let text = std::fs::read_to_string(fixtures().join("malformed.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let event =
            |event: &Value| format!("data: {}\n\n", event.as_str().map_or_else(|| event.to_string(), str::to_owned));
        let stream: String = case["events"].as_array().unwrap().iter().map(event).collect();
        let error = match assemble(&[stream.as_bytes()]).0 {
            Err(error) => error,
            Ok(reply) => panic!("{name}: {reply:?}"),
        };
        assert_eq!(error.code(), case["code"].as_str().unwrap(), "{name}: {error}");
        assert!(error.to_string().contains(case["message"].as_str().unwrap()), "{name}: {error}");
    }
}
