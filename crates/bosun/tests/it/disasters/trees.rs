//! Trees of queries whose disk fills up, or whose process dies while the root is deleted.
//!
//! Nothing is atomic over two queries, so each commit of a tree is a place where only one side knows of a child.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    recovery::runs,
    support::{
        client::{Address, Client, introduce, result},
        disk::Disk,
        scenarios::{self, Scenario},
        server::{ProcessExit, World},
        soon, until,
    },
};

/// The names of the three queries of a tree, the root first.
fn names(tree: &Value) -> [String; 3] {
    let name = |path: &str| tree.pointer(path).and_then(Value::as_str).expect("three levels").to_owned();
    [name("/name"), name("/children/0/name"), name("/children/0/children/0/name")]
}

/// Leads a tree to its end.
async fn finish(client: &Client, name: &str) -> Value {
    loop {
        let seen = client.get(&format!("/{name}?wait=20s&view=rfc")).await;
        match seen.state() {
            "waiting" => {
                let (id, _) = seen.waiting_calls().pop().expect("an open call");
                client.post(&format!("/{name}/tool-result?wait=0"), &result(&id, "x")).await;
            }
            "running" | "queued" => {}
            _ => return seen.body,
        }
    }
}

/// The disk is full after one commit, after two, and so on until there are enough for the whole tree: so it is full when
/// each child is to be created, recorded and reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_continues_when_a_disk_that_was_full_at_any_of_its_commits_has_space_again() {
    let mut world = World::new();
    let disk = Disk::under(&mut world);
    let (announce, address) = watch::channel(Address::default());
    let client = Client::new(address);
    let mut server = world.start().await;
    introduce(&announce, &server);
    let mut levels_when_full = BTreeSet::new();
    let mut flushes = 1;
    loop {
        let (name, failed, before) = (format!("q-{flushes}"), disk.failures(), runs(&world, "ledger"));
        let query = scenarios::query(&name, Scenario::Tree);
        disk.fill_after_syncs(flushes);
        // While the disk is full, requests that write are repeated in the background.
        let mut tasks = JoinSet::new();
        let asking = tasks.spawn({
            let (client, name) = (client.clone(), name.clone());
            async move {
                client.post("?wait=0", &query).await;
                finish(&client, &name).await
            }
        });
        until("a full disk, or the end of the tree", || disk.failures() > failed || asking.is_finished()).await;
        let is_enough = disk.failures() == failed;
        if !is_enough {
            // Reads are answered. What they show is on the disk.
            let mut tree = client.ask(&Method::GET, &format!("/{name}/tree"), None).await.expect("a server").body;
            let mut levels = 0;
            while let Some(child) = tree.pointer_mut("/children/0") {
                levels += 1;
                tree = child.take();
            }
            levels_when_full.insert(levels);
            if flushes % 2 == 0 {
                assert_eq!(server.kill().await, ProcessExit::Killed);
            }
        }
        disk.repair();
        if !is_enough && flushes % 2 == 0 {
            server = world.start().await;
            introduce(&announce, &server);
        }
        let ended = soon("the end of the tree", tasks.join_next()).await.expect("a task").expect("an end");
        assert_eq!(ended["state"], "completed", "{flushes}: {ended}");
        let tree = client.get(&format!("/{name}/tree")).await.body;
        names(&tree);
        for level in [&tree, &tree["children"][0]] {
            assert_eq!(level["children"].as_array().map(Vec::len), Some(1), "{flushes}: {tree}");
        }
        assert!(runs(&world, "ledger") - before <= 2, "{flushes}: one on the first level and one on the third");
        if is_enough {
            break;
        }
        flushes += 1;
    }
    // Whether the middle of the tree is seen alone depends on which entries are committed together.
    assert!(levels_when_full.is_superset(&BTreeSet::from([0, 2])), "{levels_when_full:?}");
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

#[tokio::test]
async fn a_tree_whose_root_is_deleted_under_a_kill_is_deleted_whole_by_the_next_request() {
    let points = ["delete.appended", "store.remove", "store.removed"];
    let faults = points.iter().flat_map(|point| (1..=3).map(move |pass| format!("{point}:{pass}")));
    for fault in faults.chain(["cancel.appended:1".to_owned(), "settle.appended:1".to_owned()]) {
        let world = World::new();
        let mut server = world.start_dying(&fault).await;
        let client = Client::of(&server.base);
        let paused = client.post("?wait=20s&view=rfc", &scenarios::query("q", Scenario::Tree)).await;
        assert_eq!(paused.state(), "waiting", "{fault}: {}", paused.body);
        let names = names(&client.get("/q/tree").await.body);
        let (_, exit) = tokio::join!(client.ask(&Method::DELETE, "/q", None), soon("the exit", server.exit()));
        assert_eq!(exit, ProcessExit::AtFaultPoint, "{fault}");
        let mut server = world.start().await;
        let client = Client::of(&server.base);
        let deleted = client.ask(&Method::DELETE, "/q", None).await.expect("a server");
        assert!(matches!(deleted.status, 204 | 404), "{fault}: {}", deleted.body);
        for name in &names {
            let seen = client.ask(&Method::GET, &format!("/{name}"), None).await.expect("a server");
            assert_eq!(seen.status, 404, "{fault}: {name}: {}", seen.body);
        }
        assert_eq!(server.kill().await, ProcessExit::Killed);
    }
}
