//! Breakers, budgets and time limits, over real connections.

use std::{sync::Arc, time::Duration};

use bosun_core::Namespace;
use bosun_engine::model::ModelError;
use bosun_standin::{Answer, End, Part, StandIn};
use futures_util::FutureExt;

use super::{Connections, Remote, RemoteConfig};
use crate::{
    model::{
        openai::{ChatCompletions, Host},
        testing::{self, failing, reply, stand_in, stream_of},
    },
    outbound::retry::Backoff,
};

const WIRE: ChatCompletions = ChatCompletions { host: Host::OpenAi, echo: true };

fn model_at(url: &str, connections: &Arc<Connections>) -> Remote<ChatCompletions> {
    let config = testing::config(&format!("{url}/v1"));
    let mut model = Remote::new(Namespace::default(), config, WIRE, Arc::default(), Arc::clone(connections));
    model.backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_secs(5) };
    model
}

fn good() -> Answer {
    Answer::sse(stream_of("openai", "one-word"))
}

async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

fn asked(server: &StandIn) -> usize {
    server.requests().len()
}

#[tokio::test]
async fn an_api_that_fails_is_left_alone_and_then_tried_once() {
    let mut answers = vec![failing(500, "down"); 5];
    answers.extend([failing(503, "still down"), good(), good()]);
    let server = stand_in(answers).await;
    let connections = Arc::new(Connections::default());
    let model = model_at(&server.url(), &connections);
    assert!(matches!(reply(&model).await, Err(ModelError::Unavailable { attempts: 3, .. })));
    // The fifth failure opens the breaker in the middle of the second turn.
    match reply(&model).await.unwrap_err() {
        ModelError::Unavailable { attempts: 2, message, retry_after } => {
            assert_eq!(message, "500: down");
            assert!(retry_after.unwrap() <= Duration::from_secs(5));
        }
        other => panic!("{other}"),
    }
    // Another model at the same address knows, and does not ask.
    let error = reply(&model_at(&server.url(), &connections)).await.unwrap_err();
    assert_eq!(error.code(), "model_circuit_open");
    assert!(matches!(error, ModelError::CircuitOpen { failures: 5, .. }), "{error}");
    assert_eq!(asked(&server), 5);

    later(6).await;
    let error = reply(&model).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { attempts: 1, .. }), "{error}");
    assert_eq!(reply(&model).await.unwrap_err().code(), "model_circuit_open");
    assert_eq!(asked(&server), 6);
    later(11).await;
    assert!(reply(&model).await.is_ok());
    assert!(reply(&model).await.is_ok());
    assert_eq!(asked(&server), 8);
}

#[tokio::test]
async fn refusals_of_one_key_do_not_open_the_breaker_for_others() {
    let mut answers = vec![failing(429, "slow down"); 6];
    answers.extend(vec![failing(401, "no such key"); 6]);
    answers.push(good());
    let server = stand_in(answers).await;
    let model = model_at(&server.url(), &Arc::default());
    for expect in ["model_unavailable", "model_unavailable"].into_iter().chain(["model_refused"; 6]) {
        assert_eq!(reply(&model).await.unwrap_err().code(), expect);
    }
    assert!(reply(&model).await.is_ok());
}

#[tokio::test]
async fn retries_are_a_share_of_the_requests() {
    let server = stand_in(vec![failing(429, "slow down"); 60]).await;
    let model = model_at(&server.url(), &Arc::default());
    for _ in 0..20 {
        assert_eq!(reply(&model).await.unwrap_err().code(), "model_unavailable");
    }
    // Twenty requests, the ten retries of the reserve, and one or two that the requests have earned.
    assert!((30..=32).contains(&asked(&server)), "{}", asked(&server));
    let error = reply(&model).await.unwrap_err().to_string();
    assert!(
        error.ends_with("429: slow down; too many requests to it were retried recently to retry this one"),
        "{error}"
    );
    later(60).await;
    let before = asked(&server);
    reply(&model).await.unwrap_err();
    assert_eq!(asked(&server) - before, 3);
}

#[tokio::test]
async fn every_wait_has_its_limit() {
    let whole = stream_of("openai", "one-word");
    let drip = whole.iter().map(|byte| Part { after: Duration::from_millis(5), bytes: vec![*byte] }).collect();
    type Change = fn(&mut RemoteConfig);
    let cases: [(Answer, Change, &str); 3] = [
        (
            Answer::events(drip),
            |config| config.timeouts.total = Duration::from_millis(60),
            "it was not complete within",
        ),
        (
            Answer::sse(&whole[..40]).then(End::Silence),
            |config| config.timeouts.idle = Duration::from_millis(60),
            "nothing arrived for",
        ),
        (
            good().after(Duration::from_secs(60)),
            |config| {
                config.stream = false;
                config.timeouts.idle = Duration::from_millis(60);
            },
            "nothing arrived for",
        ),
    ];
    for (answer, change, expect) in cases {
        let server = stand_in(vec![answer]).await;
        let mut model = model_at(&server.url(), &Arc::default());
        change(&mut model.config);
        let error = reply(&model).await.unwrap_err();
        assert!(matches!(&error, ModelError::Incomplete(message) if message.contains(expect)), "{error}");
    }
}

#[tokio::test]
async fn an_abandoned_probe_allows_another_one() {
    let mut answers = vec![failing(500, "down"); 5];
    answers.extend([good().after(Duration::from_secs(600)), good()]);
    let server = stand_in(answers).await;
    let model = model_at(&server.url(), &Arc::default());
    for _ in 0..2 {
        reply(&model).await.unwrap_err();
    }
    later(6).await;
    for _ in 0..5 {
        server.asked().now_or_never();
    }
    tokio::select! {
        reply = reply(&model) => panic!("{reply:?}"),
        () = server.asked() => {}
    }
    assert!(reply(&model).await.is_ok());
}
