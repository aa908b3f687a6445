//! A store of the first version, opened by this one, which is killed in the middle.

use std::{fs, path::Path};

use rusqlite::Connection;
use serde_json::json;

use crate::{
    program::{bosun, run, stderr, stdout},
    support::{
        client::{Client, result},
        proof::{Proof, scale, seed},
        rng::Rng,
        scenarios::{self, Scenario},
        server::{ProcessExit, Started, World},
        soon,
    },
};

/// The points of a step from one version to the next.
const POINTS: &[&str] = &["upgrade.commit", "upgrade.committed"];
const FIRST_VERSION: &str = include_str!("../../../adapters/src/store/sqlite/schema/1.sql");

/// A store with a query of each kind: one waits, one was interrupted, one has ended, and one cannot be read.
async fn world() -> (World, String) {
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let waiting = client.post("?wait=20s", &scenarios::query("waiting", Scenario::Outside)).await;
    let (call, _) = waiting.waiting_calls()[0].clone();
    assert_eq!(client.post("?wait=20s", &scenarios::query("ended", Scenario::Inside)).await.state(), "completed");
    assert_eq!(client.post("", &scenarios::query("running", Scenario::Endless)).await.status, 200);
    assert_eq!(client.post("?wait=20s", &scenarios::query("broken", Scenario::Text)).await.state(), "completed");
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    (world, call)
}

/// Writes the content of the store at `new` to `old`, as the first version would have.
fn write_as_first_version(new: &Path, old: &Path) {
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    let connection = Connection::open(old).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA application_id = 0x626f736e;").unwrap();
    connection.execute_batch(FIRST_VERSION).unwrap();
    connection.execute("ATTACH ?1 AS new", [new.to_str().unwrap()]).unwrap();
    connection
        .execute_batch(
            "UPDATE writer SET epoch = (SELECT epoch FROM new.writer);
             INSERT INTO queries (id, uid, namespace, name, status, seq, epoch, unfinished, deadline, bytes, head)
                 SELECT id, uid, namespace, name, status, seq, epoch, unfinished, deadline, bytes, head FROM new.queries;
             INSERT INTO journal (key, at, body) SELECT key, at, body FROM new.journal;
             INSERT INTO documents (hash, body) SELECT hash, body FROM new.documents;
             UPDATE queries SET head = 'no JSON' WHERE name = 'broken';
             UPDATE journal SET body = 'no JSON' WHERE query = (SELECT id FROM queries WHERE name = 'broken');
             PRAGMA user_version = 1;",
        )
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_upgrade_is_continued() {
    let (seed, kills) = (seed(), scale("BOSUN_UPGRADE_KILLS", 6));
    let test = "upgrades::a_killed_upgrade_is_continued";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_UPGRADE_KILLS", kills)]);
    let mut rng = Rng::new(seed);
    let (origin, call) = world().await;
    let first = origin.path("first.db");
    write_as_first_version(&origin.data().join("bosun.db"), &first);
    let newest = version(&origin.data().join("bosun.db"));
    assert!(newest > 1);
    let (mut done, mut at_points, mut at_once) = (0, 0, 0);
    while done < kills {
        let world = World::new();
        let database = world.data().join("bosun.db");
        fs::create_dir_all(world.data()).unwrap();
        fs::copy(&first, &database).unwrap();
        // At every point of every step in turn, and at any moment.
        let point = POINTS[usize::try_from(done).unwrap() % POINTS.len()];
        let step = (done / POINTS.len() as u64) % (newest - 1) + 1;
        if done % 3 < 2 {
            match soon("an upgrade", world.spawn(Some(&format!("{point}:{step}"))).ready()).await {
                Started::Exited(ProcessExit::AtFaultPoint) => at_points += 1,
                other => panic!("{point}:{step} was not passed: {other:?}"),
            }
            let expected = if point == "upgrade.commit" { step } else { step + 1 };
            if version(&database) != expected {
                proof.violation(format!("killed at {point}:{step}, it has version {}", version(&database)));
            }
        } else {
            let starting = world.spawn(None);
            tokio::time::sleep(std::time::Duration::from_micros(rng.within(0..40_000))).await;
            assert_eq!(starting.kill().await, ProcessExit::Killed);
            at_once += 1;
        }
        if let Err(fault) = check_that_work_continues(&world, &call).await {
            proof.violation(format!("after {point}:{step}: {fault}"));
        }
        done += 1;
    }
    proof.finish(done, &json!({ "from": 1, "to": newest, "at_points": at_points, "at_any_moment": at_once }));
}

fn version(database: &Path) -> u64 {
    Connection::open(database).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// The next process has everything that the first version had, and continues it.
async fn check_that_work_continues(world: &World, call: &str) -> Result<(), String> {
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let expect = |what: &str, holds: bool| if holds { Ok(()) } else { Err(what.to_owned()) };
    expect("the ended query is not what it was", client.get("/ended").await.state() == "completed")?;
    expect("the running query does not run", client.get("/running").await.state() == "running")?;
    let broken = client.get("/broken").await;
    expect("the broken query is not distinguished", broken.code() == "query_unreadable")?;
    let delivered = client.post("/waiting/tool-result", &result(call, "42")).await;
    expect("the waiting query does not continue", delivered.state() == "completed")?;
    let created = client.post("?wait=20s", &scenarios::query("new", Scenario::Text)).await;
    expect("a new query does not run", created.state() == "completed")?;
    assert_eq!(server.kill().await, ProcessExit::Killed);
    // Of the broken one, and of nothing else.
    let output = run(bosun().args(["check", "--json", "--data"]).arg(world.data())).await;
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).map_err(|_| stderr(&output))?;
    let faults = report["faults"].as_array().cloned().unwrap_or_default();
    let foreign = faults.iter().find(|fault| !fault["message"].as_str().unwrap().contains("default/broken"));
    foreign.map_or(Ok(()), |fault| Err(fault.to_string()))
}
