//! Results that race each other, a deadline or a cancellation, over HTTP.
//!
//! The first one wins, every client gets a truthful answer, and the model reads exactly what was recorded. The journals
//! are checked after the server has stopped.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::support::{
    client::{Answer, Client, result},
    oracle::{self, Post, PostVerdict, Record},
    proof::{Proof, scale, seed},
    rng::Rng,
    scenarios::{self, Scenario},
    server::{ProcessExit, Server, World},
    soon,
};

/// The number of simultaneous posts of the same result.
const WAYS: usize = 8;
/// The number of queries that wait for their deadlines at the same time.
const DEADLINES_AT_ONCE: u64 = 16;

/// A server, and a client of it.
struct RaceWorld {
    world: World,
    server: Server,
    client: Client,
}

impl RaceWorld {
    async fn set() -> Self {
        let world = World::new();
        let server = world.start().await;
        let client = Client::of(&server.base);
        Self { world, server, client }
    }

    /// Stops the server and lets the oracle check its files.
    async fn judge(mut self, proof: &mut Proof, records: &[Record]) -> oracle::Figures {
        assert_eq!(self.server.kill().await, ProcessExit::Killed);
        let (figures, violations) = oracle::judge(&self.world, records);
        proof.violations(violations);
        figures
    }
}

/// Creates a query and waits until it waits for its client.
async fn paused(client: &Client, name: &str, scenario: Scenario, external_timeout: Option<Duration>) -> Answer {
    let mut body = scenarios::query(name, scenario);
    if let Some(timeout) = external_timeout {
        body["externalTimeout"] = json!(format!("{}ms", timeout.as_millis()));
    }
    let query = client.post("?wait=20s", &body).await;
    assert_eq!(query.state(), "waiting", "{}", query.body);
    query
}

async fn post(client: &Client, name: &str, call: &str, content: &str) -> Answer {
    client.post(&format!("/{name}/tool-result?wait=0"), &result(call, content)).await
}

fn verdict_of(answer: &Answer) -> Option<PostVerdict> {
    match (answer.status, answer.replayed) {
        (200, false) => Some(PostVerdict::Accepted),
        (200, true) => Some(PostVerdict::Replayed),
        (409, _) if answer.code() == "already_resolved" => Some(PostVerdict::Conflict),
        (410, _) => Some(PostVerdict::Gone),
        _ => None,
    }
}

/// Records how a query ended, which it must do soon.
async fn ended(client: &Client, record: &mut Record) {
    let query = client.get(&format!("/{}?wait=20s&view=rfc", record.name)).await;
    record.ended = Some((query.state().to_owned(), query.body["response"].as_str().map(str::to_owned)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_simultaneous_posts_is_accepted() {
    let (seed, calls) = (seed(), scale("BOSUN_RACE_CALLS", 1_000));
    let name = "races::one_of_eight_simultaneous_posts_is_accepted";
    let mut proof = Proof::begin(name, seed, &[("BOSUN_RACE_CALLS", calls)]);
    let stage = RaceWorld::set().await;
    let mut records = Vec::new();
    let mut verdicts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut raced = 0;
    while raced < calls {
        let mut record = Record { name: format!("race-{raced}"), acknowledged: true, ..Record::default() };
        let query = paused(&stage.client, &record.name, Scenario::Several(10), None).await;
        for (index, (call, _)) in query.waiting_calls().into_iter().enumerate() {
            // Half of the calls get one result eight times, the others eight different ones.
            let content = |way| if index % 2 == 0 { call.clone() } else { format!("{call} {way}") };
            let posts = race(&stage.client, &record.name, (0..WAYS).map(|way| (call.clone(), content(way)))).await;
            let accepted =
                posts.iter().filter(|(_, _, answer)| verdict_of(answer) == Some(PostVerdict::Accepted)).count();
            if accepted != 1 {
                proof.violation(format!("{}: {call} was accepted {accepted} times", record.name));
            }
            for (call, content, answer) in posts {
                let expected = if index % 2 == 0 { PostVerdict::Replayed } else { PostVerdict::Conflict };
                match verdict_of(&answer) {
                    Some(verdict) if verdict == PostVerdict::Accepted || verdict == expected => {
                        *verdicts
                            .entry(if verdict == PostVerdict::Accepted { "accepted" } else { "refused_or_replayed" })
                            .or_default() += 1;
                        record.posts.push(Post { call, content, verdict });
                    }
                    _ => proof.violation(format!("{}: answered {} {}", record.name, answer.status, answer.body)),
                }
            }
            raced += 1;
        }
        ended(&stage.client, &mut record).await;
        records.push(record);
    }
    let figures = stage.judge(&mut proof, &records).await;
    proof.finish(raced, &json!({"ways": WAYS, "verdicts": verdicts, "queries": figures.queries}));
}

/// Posts results at the same moment, each on its own connection.
async fn race(
    client: &Client,
    name: &str,
    results: impl ExactSizeIterator<Item = (String, String)>,
) -> Vec<(String, String, Answer)> {
    let start = Arc::new(Barrier::new(results.len()));
    let mut posts = JoinSet::new();
    for (call, content) in results {
        let (client, name, start) = (client.clone(), name.to_owned(), Arc::clone(&start));
        posts.spawn(async move {
            start.wait().await;
            let answer = post(&client, &name, &call, &content).await;
            (call, content, answer)
        });
    }
    soon("answers to all posts", posts.join_all()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_parallel_calls_resume_the_query_once() {
    let (seed, rounds) = (seed(), scale("BOSUN_PARALLEL_ROUNDS", 50));
    let name = "races::results_of_parallel_calls_resume_the_query_once";
    let mut proof = Proof::begin(name, seed, &[("BOSUN_PARALLEL_ROUNDS", rounds)]);
    let stage = RaceWorld::set().await;
    let mut records = Vec::new();
    for round in 0..rounds {
        let mut record = Record { name: format!("parallel-{round}"), acknowledged: true, ..Record::default() };
        let calls = 2 + u32::try_from(round % 9).expect("a digit");
        let query = paused(&stage.client, &record.name, Scenario::Several(calls), None).await;
        let results: Vec<_> = query.waiting_calls().into_iter().map(|(call, _)| (call.clone(), call)).collect();
        for (call, content, answer) in race(&stage.client, &record.name, results.into_iter()).await {
            match verdict_of(&answer) {
                Some(verdict) => record.posts.push(Post { call, content, verdict }),
                None => proof.violation(format!("{}: answered {} {}", record.name, answer.status, answer.body)),
            }
        }
        ended(&stage.client, &mut record).await;
        records.push(record);
    }
    // That a turn ends once, and that its text has the results in order, is checked for every journal.
    let figures = stage.judge(&mut proof, &records).await;
    if figures.succeeded != rounds {
        proof.violation(format!("{} of {rounds} queries succeeded", figures.succeeded));
    }
    proof.finish(rounds, &json!({"entries": figures.entries}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_and_a_cancellation_agree_on_which_came_first() {
    let (seed, rounds) = (seed(), scale("BOSUN_CANCEL_RACES", 200));
    let name = "races::a_result_and_a_cancellation_agree_on_which_came_first";
    let mut proof = Proof::begin(name, seed, &[("BOSUN_CANCEL_RACES", rounds)]);
    let stage = RaceWorld::set().await;
    let mut records = Vec::new();
    let (mut first, mut ends): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    for round in 0..rounds {
        let mut record =
            Record { name: format!("cancel-{round}"), acknowledged: true, cancelled: true, ..Record::default() };
        let query = paused(&stage.client, &record.name, Scenario::Outside, None).await;
        let (call, _) = query.waiting_calls().remove(0);
        let path = format!("/{}/cancel", record.name);
        let (posted, cancelled) = tokio::join!(
            post(&stage.client, &record.name, &call, "result"),
            stage.client.retry_until_answered(Method::PATCH, &path, None),
        );
        if cancelled.answer.status != 200 {
            proof.violation(format!("{}: cancelling was answered with {}", record.name, cancelled.answer.body));
        }
        match verdict_of(&posted) {
            Some(verdict @ (PostVerdict::Accepted | PostVerdict::Gone)) => {
                *first.entry(format!("{verdict:?}")).or_default() += 1;
                record.posts.push(Post { call, content: "result".into(), verdict });
            }
            _ => proof.violation(format!("{}: answered {} {}", record.name, posted.status, posted.body)),
        }
        ended(&stage.client, &mut record).await;
        let end = record.ended.as_ref().map(|(state, _)| state.clone()).unwrap_or_default();
        *ends.entry(end).or_default() += 1;
        records.push(record);
    }
    stage.judge(&mut proof, &records).await;
    proof.finish(rounds, &json!({"result": first, "ends": ends}));
}

/// A client that knows the next call posts its result while the query is still being created. The post is refused or
/// accepted, never half of both; and a refused one can be posted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_comes_before_the_pause_counts_once_or_not_at_all() {
    let (seed, rounds) = (seed(), scale("BOSUN_EARLY_RESULTS", 200));
    let name = "races::a_result_that_comes_before_the_pause_counts_once_or_not_at_all";
    let mut proof = Proof::begin(name, seed, &[("BOSUN_EARLY_RESULTS", rounds)]);
    let stage = RaceWorld::set().await;
    let (mut records, mut first) = (Vec::new(), BTreeMap::<String, u64>::new());
    for round in 0..rounds {
        let mut record = Record { name: format!("early-{round}"), acknowledged: true, ..Record::default() };
        let mut rng = Rng::new(seed).branch(round);
        let (path, content) = (format!("/{}/tool-result?wait=0", record.name), format!("early {round}"));
        let body = json!({"toolName": "lookup", "toolResult": content});
        let early = async {
            tokio::time::sleep(Duration::from_micros(rng.within(0..4_000))).await;
            stage.client.post(&path, &body).await
        };
        let creation = scenarios::query(&record.name, Scenario::Outside);
        let (created, posted) = tokio::join!(stage.client.post("", &creation), early);
        assert_eq!(created.status, 200, "{}", created.body);
        let word = match (posted.status, posted.code()) {
            (200, _) if !posted.replayed => "accepted",
            (404, "query_not_found") | (409, "call_not_waiting") => "refused",
            (status, code) => {
                proof.violation(format!("{}: an early result was answered with {status} {code}", record.name));
                "neither"
            }
        };
        *first.entry(word.to_owned()).or_default() += 1;
        let query = stage.client.get(&format!("/{}?wait=20s&view=rfc", record.name)).await;
        let waiting = query.waiting_calls();
        if waiting.is_empty() == (word == "refused") {
            proof.violation(format!("{}: the result was {word}, and the query is {}", record.name, query.body));
        }
        for (call, _) in waiting {
            let again = post(&stage.client, &record.name, &call, &content).await;
            if verdict_of(&again) != Some(PostVerdict::Accepted) {
                proof.violation(format!("{}: posted again, answered {}", record.name, again.body));
            }
            record.posts.push(Post { call, content: content.clone(), verdict: PostVerdict::Accepted });
        }
        ended(&stage.client, &mut record).await;
        if record.ended.as_ref().and_then(|(_, answer)| answer.as_deref()) != Some(content.as_str()) {
            proof.violation(format!("{}: the model saw another result: {:?}", record.name, record.ended));
        }
        records.push(record);
    }
    stage.judge(&mut proof, &records).await;
    proof.finish(rounds, &json!({"result": first}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_and_a_deadline_agree_on_which_came_first() {
    let (seed, rounds) = (seed(), scale("BOSUN_DEADLINE_RACES", 200));
    let name = "races::a_result_and_a_deadline_agree_on_which_came_first";
    let mut proof = Proof::begin(name, seed, &[("BOSUN_DEADLINE_RACES", rounds)]);
    let stage = RaceWorld::set().await;
    let mut first: BTreeMap<String, u64> = BTreeMap::new();
    let mut records = Vec::new();
    for batch in 0..rounds.div_ceil(DEADLINES_AT_ONCE) {
        let mut queries = JoinSet::new();
        for round in batch * DEADLINES_AT_ONCE..rounds.min((batch + 1) * DEADLINES_AT_ONCE) {
            queries.spawn(race_deadline(stage.client.clone(), Rng::new(seed).branch(round), round));
        }
        records.extend(soon("the end of every query", queries.join_all()).await);
    }
    for post in records.iter().flat_map(|record| &record.posts) {
        *first.entry(format!("{:?}", post.verdict)).or_default() += 1;
    }
    let figures = stage.judge(&mut proof, &records).await;
    if figures.succeeded != rounds {
        proof.violation(format!("{} of {rounds} queries succeeded", figures.succeeded));
    }
    proof.finish(rounds, &json!({"result": first}));
}

/// Posts a result at about the moment at which it is due.
async fn race_deadline(client: Client, mut rng: Rng, round: u64) -> Record {
    let mut record = Record { name: format!("deadline-{round}"), acknowledged: true, ..Record::default() };
    let query = paused(&client, &record.name, Scenario::Outside, Some(Duration::from_millis(400))).await;
    let (call, _) = query.waiting_calls().remove(0);
    let deadline = query.body["toolCalls"][0]["deadline"].as_str().unwrap_or_default();
    // A post takes a few milliseconds until it is decided.
    let early = Duration::from_micros(rng.within(0..16_000));
    tokio::time::sleep(time_until(deadline).saturating_sub(early)).await;
    let posted = post(&client, &record.name, &call, "result").await;
    match verdict_of(&posted) {
        Some(verdict @ (PostVerdict::Accepted | PostVerdict::Gone)) => {
            record.posts.push(Post { call, content: "result".into(), verdict });
        }
        _ => record.violations.push(format!("answered {} {}", posted.status, posted.body)),
    }
    ended(&client, &mut record).await;
    record
}

/// How long it is until a moment of the near future, such as `2026-11-15T21:36:00.123Z`.
fn time_until(moment: &str) -> Duration {
    const DAY: i64 = 24 * 3_600_000;
    let numbers: Vec<i64> = moment.split(['T', ':', '.', 'Z']).skip(1).flat_map(str::parse).collect();
    let [hour, minute, second, millisecond] = numbers[..] else { panic!("`{moment}` is not a moment") };
    let then = ((hour * 60 + minute) * 60 + second) * 1_000 + millisecond;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    let left = (then - i64::try_from(now).expect("a time") % DAY).rem_euclid(DAY);
    // A moment just in the past is a day ahead on this clock.
    Duration::from_millis(if left > DAY / 2 { 0 } else { left.unsigned_abs() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_has_its_code_and_a_bad_body_leaves_the_call_waiting() {
    let stage = RaceWorld::set().await;
    let client = &stage.client;
    let query = paused(client, "refusals", Scenario::Outside, None).await;
    let (call, tool) = query.waiting_calls().remove(0);
    let other = paused(client, "other", Scenario::Outside, None).await;
    let (foreign, _) = other.waiting_calls().remove(0);
    let unknown = "call_00000000000000000000000000";

    let table: &[(Value, u16, &str)] = &[
        (result(unknown, "x"), 404, "call_not_found"),
        (result(&foreign, "x"), 404, "call_not_found"),
        (result("nonsense", "x"), 404, "call_not_found"),
        (json!({}), 422, "invalid_tool_result"),
        (json!([]), 422, "invalid_request"),
        (json!({"toolCallId": call}), 422, "invalid_tool_result"),
        (json!({"toolCallId": 7, "toolResult": "x"}), 422, "invalid_tool_result"),
        (json!({"toolCallId": call, "toolResult": "x", "success": "yes"}), 422, "invalid_tool_result"),
        (json!({"toolCallId": call, "toolResult": "x", "continueExecution": 1}), 422, "invalid_tool_result"),
        (json!({"toolCallId": call, "toolResult": "x", "success": true, "error": "no"}), 422, "invalid_tool_result"),
        (json!({"toolResults": []}), 422, "invalid_tool_result"),
        (json!({"toolResults": [result(&call, "x"), {"toolCallId": call}]}), 422, "invalid_tool_result"),
        (json!({"toolName": "fetch", "toolResult": "x"}), 409, "call_not_waiting"),
    ];
    let mut mistakes = Vec::new();
    for (body, status, code) in table {
        let answer = client.post("/refusals/tool-result", body).await;
        if (answer.status, answer.code()) != (*status, code) {
            mistakes.push(format!("{body}: {} {}, not {status} {code}", answer.status, answer.code()));
        }
        let state = client.get("/refusals").await.state().to_owned();
        assert_eq!(state, "waiting", "after {body}");
    }
    assert_eq!(mistakes, Vec::<String>::new());
    let missing = client.post("/missing/tool-result", &result(&call, "x")).await;
    assert_eq!((missing.status, missing.code()), (404, "query_not_found"));

    let good = post(client, "refusals", &call, "good").await;
    assert_eq!(verdict_of(&good), Some(PostVerdict::Accepted), "{}", good.body);
    let same = post(client, "refusals", &call, "good").await;
    assert_eq!(verdict_of(&same), Some(PostVerdict::Replayed), "{}", same.body);
    let by_name = client.post("/refusals/tool-result", &json!({"toolName": tool, "toolResult": "good"})).await;
    assert_eq!(verdict_of(&by_name), Some(PostVerdict::Replayed), "{}", by_name.body);
    let different = post(client, "refusals", &call, "better").await;
    assert_eq!(verdict_of(&different), Some(PostVerdict::Conflict), "{}", different.body);
    let answer = client.get("/refusals?wait=20s").await;
    assert_eq!((answer.state(), answer.body["response"].as_str()), ("completed", Some("good")));

    let expiring = paused(client, "late", Scenario::Outside, Some(Duration::from_millis(50))).await;
    let (call, _) = expiring.waiting_calls().remove(0);
    soon("the end of the query", client.all_events("late")).await;
    let late = post(client, "late", &call, "late").await;
    assert_eq!((late.status, late.code()), (410, "call_expired"), "{}", late.body);
    let answer = client.get("/late").await;
    assert_eq!(answer.state(), "completed", "{}", answer.body);

    let (call, _) = paused(client, "cancelled", Scenario::Outside, None).await.waiting_calls().remove(0);
    client.retry_until_answered(Method::PATCH, "/cancelled/cancel", None).await;
    let late = post(client, "cancelled", &call, "late").await;
    assert_eq!((late.status, late.code()), (410, "call_cancelled"), "{}", late.body);
}
