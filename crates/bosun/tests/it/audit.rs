//! The audit log from an operator's view: verified, exported, tampered with and rotated; and its cost.

use std::{path::Path, process::Output};

use rusqlite::Connection;
use serde_json::Value;

use crate::{
    program::{bosun, run, stderr, stdout},
    resources::api,
    support::{
        client::{Client, result},
        scenarios::{self, Scenario},
        server::{ProcessExit, Started, World},
        soon,
    },
};

async fn cycles(world: &World, names: &[&str]) {
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    for name in names {
        let created = client.post("?wait=20s", &scenarios::query(name, Scenario::Quick)).await;
        let (call, _) = &created.waiting_calls()[0];
        client.post(&format!("/{name}/tool-result"), &result(call, "42")).await;
        client.post(&format!("/{name}/tool-result"), &result(call, "too much")).await;
    }
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
}

async fn verify(data: &Path) -> Output {
    run(bosun().args(["audit", "verify", "--data"]).arg(data)).await
}

#[tokio::test]
async fn a_log_is_verified_exported_and_found_to_be_tampered_with() {
    let world = World::new();
    cycles(&world, &["a", "b"]).await;
    let whole = verify(&world.data()).await;
    assert_eq!(stdout(&whole), "10 records of 1 namespace, 1 exported head: ok\n", "{}", stderr(&whole));

    let exported = run(bosun().args(["audit", "export", "--data"]).arg(world.data())).await;
    let lines: Vec<Value> = stdout(&exported).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| line["record"].is_object()).collect();
    let actions: Vec<_> = lines.iter().take(5).map(|line| line["record"]["action"].as_str().unwrap()).collect();
    let life = ["query.created", "call.handed_out", "call.delivered", "query.completed", "delivery.refused"];
    assert_eq!(actions, life);

    // The file alone shows whether it is what was exported.
    let file = world.path("audit.jsonl");
    let check = async |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(bosun()
            .args(["audit", "verify", "--file"])
            .arg(&file)
            .arg("--key-file")
            .arg(world.data().join("audit.key")))
        .await
    };
    let whole = check(&stdout(&exported)).await;
    assert_eq!(stdout(&whole), "10 records of 1 namespace, 0 exported heads: ok\n", "{}", stderr(&whole));
    let forged = check(&stdout(&exported).replacen("\"actor\":\"local\"", "\"actor\":\"other\"", 1)).await;
    assert_eq!(forged.status.code(), Some(1));
    assert!(stderr(&forged).contains("record 1 is not what was written"), "{}", stderr(&forged));

    let rotated = run(bosun().args(["audit", "rotate", "--data"]).arg(world.data())).await;
    assert!(stdout(&rotated).contains("restart the server"), "{}", stderr(&rotated));
    cycles(&world, &["c"]).await;
    let whole = verify(&world.data()).await;
    assert_eq!(stdout(&whole), "16 records of 1 namespace, 2 exported heads: ok\n", "{}", stderr(&whole));

    let copy = world.path("copy");
    let copied = run(bosun().args(["backup", "--data"]).arg(world.data()).arg(&copy)).await;
    assert_eq!(copied.status.code(), Some(0), "{}", stderr(&copied));
    assert_eq!(verify(&copy).await.status.code(), Some(0), "a copy can be verified too");

    let connection = Connection::open(world.data().join("bosun.db")).unwrap();
    let changed =
        "UPDATE audit SET body = replace(body, '\"actor\":\"local\"', '\"actor\":\"intruder\"') WHERE key & 15 = 3";
    assert_eq!(connection.execute(changed, []), Ok(1));
    drop(connection);
    let broken = verify(&world.data()).await;
    assert_eq!(broken.status.code(), Some(1));
    assert!(stderr(&broken).contains("namespace `default`: record 3 is not what was written"), "{}", stderr(&broken));
}

#[tokio::test]
async fn a_cycle_costs_four_records_and_little_space() {
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    for number in 0..20 {
        let created = client.post("?wait=20s", &scenarios::query(&format!("c{number}"), Scenario::Quick)).await;
        let (call, _) = &created.waiting_calls()[0];
        client.post(&format!("/c{number}/tool-result"), &result(call, "42")).await;
    }
    server.terminate();
    soon("the end", server.exit()).await;
    let connection = Connection::open(world.data().join("bosun.db")).unwrap();
    let (records, bytes): (u64, u64) = connection
        .query_row("SELECT count(*), sum(length(body) + length(mac) + 8) FROM audit", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(records, 20 * 4);
    assert!(bytes < 20 * 1_500, "{} bytes a cycle", bytes / 20);
    let counts: u64 = connection
        .query_row(
            "SELECT (SELECT count(*) FROM usage_of_calls) + (SELECT count(*) FROM usage_of_queries)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(counts <= 4, "one row for each tool and agent of an hour, however many calls: {counts}");
}

#[tokio::test]
async fn a_shortened_log_verifies_whenever_the_server_is_killed() {
    let mut world = World::new();
    let names: Vec<_> = (0..55).map(|number| format!("q{number}")).collect();
    cycles(&world, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.set("BOSUN_AUDIT_RETENTION", "1ms");
    // First the index is built, then the block is deleted, each in a commit.
    for fault in ["store.maintain", "store.maintained", "store.maintain", "store.maintained"] {
        let dead = match soon("the start", world.spawn(Some(fault)).ready()).await {
            Started::Ready(mut server) => soon("the fault", server.exit()).await,
            Started::Exited(exit) => exit,
        };
        assert_eq!(dead, ProcessExit::AtFaultPoint, "{fault}");
        let verified = verify(&world.data()).await;
        assert_eq!(verified.status.code(), Some(0), "{fault}: {}", stderr(&verified));
    }
    let mut server = world.start().await;
    let page = api(&server, "GET", "/v1/audit?limit=1000", None).await.body;
    let items = page["items"].as_array().unwrap();
    assert_eq!((&items[0]["action"], &items[0]["seq"]), (&"audit.shortened".into(), &276.into()), "{}", items[0]);
    assert_eq!(items.last().unwrap()["seq"], 257, "55 cycles of 5 records, a block of which was deleted");
    let found = api(&server, "GET", "/v1/audit?action=audit.shortened", None).await.body;
    assert_eq!(found["count"], 1, "once, however often it was tried");
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    let checked = run(bosun().args(["check", "--data"]).arg(world.data())).await;
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
}

#[tokio::test]
async fn a_server_without_audit_keeps_none() {
    let world = World::new().with(&["--audit", "off"]);
    cycles(&world, &["a"]).await;
    let connection = Connection::open(world.data().join("bosun.db")).unwrap();
    let records: u64 = connection.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap();
    assert_eq!(records, 0);
    assert!(!world.data().join("audit.key").exists());
}
