//! Recovery of what another process left behind: unfinished calls, queries that crash servers, and journals that cannot
//! be read.

use std::fs;

use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{
    client::{Client, Lost, result},
    scenarios::{self, Scenario},
    server::{ProcessExit, Started, World},
    soon,
};

/// Starts a process with a fault at `fault`, gives it `body` to work on, and waits for its crash.
pub(crate) async fn crash_at(world: &World, fault: &str, body: &Value) {
    let mut server = match soon("the start of the server", world.spawn(Some(fault)).ready()).await {
        Started::Ready(server) => server,
        Started::Exited(ProcessExit::AtFaultPoint) => return,
        Started::Exited(exit) => panic!("it exited: {exit:?}"),
    };
    let client = Client::of(&server.base);
    // It is answered or not, depending on the point. Commits are batched, so a commit with a number may be that of a later query.
    let asking = async {
        client.ask(&Method::POST, "", Some(body)).await?;
        let name = body["name"].as_str().expect("a name");
        client.ask(&Method::GET, &format!("/{name}?wait=20s"), None).await?;
        for number in 0.. {
            let later = scenarios::query(&format!("later-{number}"), Scenario::Text);
            client.ask(&Method::POST, "?wait=20s", Some(&later)).await?;
        }
        Ok::<(), Lost>(())
    };
    let (_, exit) = tokio::join!(asking, soon("the exit of the server", server.exit()));
    assert_eq!(exit, ProcessExit::AtFaultPoint, "{fault}");
}

/// How often a tool ran, by the lines that it wrote.
pub(crate) fn runs(world: &World, tool: &str) -> usize {
    let ledger = fs::read_to_string(world.ledger()).unwrap_or_default();
    let lines = ledger.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines.filter(|line| line["tool"] == tool).count()
}

/// Dies in one window of a call that must not run twice.
async fn check_window(fault: &str, runs_once: usize, outcome: &str) {
    let world = World::new();
    crash_at(&world, fault, &scenarios::query("q", Scenario::Once)).await;
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    // A client without an answer retries; it is the same query.
    let ended = client.post("?wait=20s&view=rfc", &scenarios::query("q", Scenario::Once)).await;
    assert_eq!(ended.state(), "completed", "{fault}: {}", ended.body);
    let first = &ended.body["toolExecutionHistory"][0];
    assert_eq!(first["name"].as_str().or(first["toolName"].as_str()), Some("ledger"), "{first}");
    let found = first.pointer("/error/code").and_then(Value::as_str).unwrap_or("written");
    assert_eq!(found, outcome, "{fault}: {first}");
    assert_eq!(runs(&world, "ledger"), runs_once, "{fault}");
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

/// Makes the first task at `point` panic, and checks the query in progress, and the next one.
async fn panic_at(point: &str) -> (Value, Value) {
    let world = World::new();
    let Started::Ready(mut server) = soon("the start", world.spawn(Some(&format!("panic@{point}"))).ready()).await
    else {
        panic!("{point}: the server is not there");
    };
    let client = Client::of(&server.base);
    let body = scenarios::query("hurt", Scenario::Once);
    let affected =
        client.ask(&Method::POST, "?wait=20s&view=rfc", Some(&body)).await.expect("an answer of either kind");
    let next = client.post("?wait=20s&view=rfc", &scenarios::query("next", Scenario::Once)).await;
    assert_eq!(server.kill().await, ProcessExit::Killed, "{point}: it lived until then");
    (affected.body, next.body)
}

#[tokio::test]
async fn a_panic_in_a_turn_fails_its_query_and_no_other() {
    for point in ["turn.started", "turn.replied", "turn.ended"] {
        let (affected, next) = panic_at(point).await;
        assert_eq!(
            (&affected["state"], &affected["error"]["code"]),
            (&json!("failed"), &json!("internal_error")),
            "{point}: {affected}"
        );
        assert_eq!(next["state"], "completed", "{point}: {next}");
    }
}

#[tokio::test]
async fn a_panic_of_the_writer_rejects_its_batch_and_nothing_else() {
    let (affected, next) = panic_at("store.commit").await;
    assert_eq!(affected["error"]["code"], "store_unavailable", "{affected}");
    assert_eq!(next["state"], "completed", "{next}");
}

#[tokio::test]
async fn a_call_in_every_window_runs_at_most_once_and_the_model_learns_of_it() {
    // Nothing had begun: it runs.
    check_window("call.starting:1", 1, "written").await;
    // Its start is on the disk, and the rest is unknown.
    check_window("call.started:1", 0, "outcome_unknown").await;
    check_window("call.ran:1", 1, "outcome_unknown").await;
}

#[tokio::test]
async fn a_pending_call_is_re_attached_after_a_crash_in_every_window() {
    // Before its handle is on the disk, after that, and in the middle of a poll.
    for (fault, outcome) in
        [("call.pending:1", "outcome_unknown"), ("expire.appended:1", "written"), ("call.pending:2", "written")]
    {
        let world = World::new();
        let mut server = match soon("the start", world.spawn(Some(fault)).ready()).await {
            Started::Ready(server) => server,
            Started::Exited(exit) => panic!("it exited: {exit:?}"),
        };
        let query = scenarios::query("q", Scenario::Pending);
        let client = Client::of(&server.base);
        let asked = client.ask(&Method::POST, "", Some(&query));
        let (_, exit) = tokio::join!(asked, soon("the exit of the server", server.exit()));
        assert_eq!(exit, ProcessExit::AtFaultPoint, "{fault}");
        let mut server = world.start().await;
        let ended = Client::of(&server.base).post("?wait=20s&view=rfc", &query).await;
        assert_eq!(ended.state(), "completed", "{fault}: {}", ended.body);
        let first = &ended.body["toolExecutionHistory"][0];
        let found = first.pointer("/error/code").and_then(Value::as_str).unwrap_or("written");
        assert_eq!(found, outcome, "{fault}: {first}");
        assert_eq!(runs(&world, "ledger_pending"), 1, "{fault}");
        assert_eq!(server.kill().await, ProcessExit::Killed);
    }
}

#[tokio::test]
async fn a_query_that_crashes_the_server_is_failed_and_no_other() {
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let innocent = client.post("?wait=20s", &scenarios::query("innocent", Scenario::Outside)).await;
    assert_eq!(innocent.state(), "waiting");
    let poison = scenarios::query("poison", Scenario::Endless);
    assert_eq!(client.post("", &poison).await.status, 200);
    assert_eq!(server.kill().await, ProcessExit::Killed);
    for _ in 0..5 {
        crash_at(&world, "turn.started:1", &poison).await;
    }
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let ended = client.get("/poison?wait=20s&view=rfc").await;
    assert_eq!((ended.state(), &ended.body["error"]["code"]), ("failed", &json!("poisoned")), "{}", ended.body);
    let message = ended.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("stopped 6 times in the middle of this turn"), "{message}");
    let (call, _) = &innocent.waiting_calls()[0];
    let delivered = client.post("/innocent/tool-result", &result(call, "42")).await;
    assert_eq!(delivered.state(), "completed", "{}", delivered.body);
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

#[tokio::test]
async fn graceful_restarts_during_one_long_turn_poison_nothing() {
    let world = World::new();
    let mut server = world.start().await;
    assert_eq!(Client::of(&server.base).post("", &scenarios::query("long", Scenario::Endless)).await.status, 200);
    for _ in 0..7 {
        server.terminate();
        assert_eq!(soon("the end of the server", server.exit()).await, ProcessExit::Exited(0));
        server = world.start().await;
        // A write behind its journal: when it is answered, the turn has begun again.
        assert_eq!(Client::of(&server.base).get("/long?wait=1s").await.state(), "running");
    }
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

/// Journals of a newer version: of a query that waits and is due, of one that was interrupted, and of one that has
/// ended.
#[tokio::test]
async fn an_entry_of_an_unknown_kind_parks_its_query_and_no_other() {
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    for name in ["waiting", "fine"] {
        let mut body = scenarios::query(name, Scenario::Outside);
        body["externalTimeout"] = json!("3s");
        assert_eq!(client.post("?wait=20s", &body).await.state(), "waiting");
    }
    assert_eq!(client.post("", &scenarios::query("running", Scenario::Endless)).await.status, 200);
    assert_eq!(client.post("?wait=20s", &scenarios::query("ended", Scenario::Text)).await.state(), "completed");
    let (call, _) = client.get("/waiting?view=rfc").await.waiting_calls()[0].clone();
    assert_eq!(server.kill().await, ProcessExit::Killed);
    Connection::open(world.data().join("bosun.db"))
        .unwrap()
        .execute_batch(
            "UPDATE journal SET body = json_set(body, '$.kind', 'unheard_of', '$.v', 2)
             WHERE key IN (SELECT id << 24 | 2 FROM queries WHERE name IN ('waiting', 'running', 'ended'))",
        )
        .unwrap();

    let mut server = world.start().await;
    let client = Client::of(&server.base);
    for (method, path, body) in [
        (Method::GET, "/waiting", None),
        (Method::GET, "/running?wait=1s", None),
        (Method::GET, "/ended", None),
        (Method::GET, "/waiting/events", None),
        (Method::POST, "/waiting/tool-result", Some(result(&call, "42"))),
        (Method::POST, "/waiting/cancel", None),
        (Method::POST, "/running/continue", None),
    ] {
        let answer = client.ask(&method, path, body.as_ref()).await.expect("an answer");
        assert_eq!((answer.status, answer.code()), (500, "query_unreadable"), "{path}: {}", answer.body);
        assert!(answer.body["detail"].as_str().unwrap().contains("other queries are not affected"), "{}", answer.body);
    }
    // The others continue: a deadline passes, queries begin and end, and lists are answered.
    let fine = client.get("/fine?view=rfc").await;
    assert_eq!(fine.status, 200, "{}", fine.body);
    let expired = soon("the deadline", async {
        loop {
            let fine = client.get("/fine?wait=20s&view=rfc").await;
            if fine.state() == "completed" {
                return fine;
            }
        }
    })
    .await;
    assert_eq!(expired.body["toolExecutionHistory"][0]["error"]["code"], "call_expired", "{}", expired.body);
    assert_eq!(client.post("?wait=20s", &scenarios::query("new", Scenario::Text)).await.state(), "completed");
    assert_eq!(client.get("").await.status, 200);
    // It is logged, but not repeatedly.
    let log = fs::read_to_string(world.log()).unwrap();
    let times_logged =
        log.lines().filter(|line| line.contains("cannot be read") && line.contains("query=running")).count();
    assert_eq!(times_logged, 1, "{log}");
    assert_eq!(server.kill().await, ProcessExit::Killed);
}
