//! What grows with every request: pages of conversations (M5), journals (M6), audit records (L3), drafts of uploads (L5).

use std::{fs, path::Path};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use super::{Attack, hostile_models::HostileModel, mib, target::Target};
use crate::support::{
    proof::scale,
    scenarios::{self, Scenario},
};

/// The size of everything below a directory, in bytes.
fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        // Removed meanwhile.
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// A query that waits for one call; the id of the call.
async fn waiting(target: &Target, name: &str) -> String {
    let body = scenarios::query(name, Scenario::Quick);
    let created = target.json("POST", "/v1/queries?wait=20s&view=rfc", &body).await.expect("an answer");
    assert_eq!(created.state(), "waiting", "{}", created.body);
    created.body["toolCall"]["id"].as_str().expect("a call").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_long_conversation_is_bounded_in_bytes() {
    let mut attack = Attack::begin("m5_conversation_pages");
    let exchanges = scale("BOSUN_ATTACK_EXCHANGES", 40);
    let model = HostileModel::start(|_| json!({"role": "assistant", "content": "Yes."})).await;
    let mut target = model.target().await;
    let memory = json!({"name": "m", "maxMessages": 2});
    let stored = target.json("POST", "/v1/memories", &memory).await.expect("an answer");
    assert_eq!(stored.status, 200, "{}", stored.body);
    let long = "x".repeat(900_000);
    for number in 0..exchanges {
        let name = format!("q{number}");
        let body = json!({
            "name": name, "input": long, "target": {"type": "agent", "name": "victim"},
            "memory": {"name": "m"}, "conversationId": "c",
        });
        let created = target.json("POST", "/v1/queries", &body).await.expect("an answer");
        assert_eq!(created.status, 200, "{}", created.body);
        target.end_of(&format!("/v1/queries/{name}")).await;
    }
    let (measure, watch) = (target.measure(), target.watch());
    // Bytes of one page, and what escapes and names add.
    let page = 24 << 20;
    let mut longest = 0;
    for path in ["/v1/memory-messages?limit=1000", "/v1/conversations/c?limit=1000", "/v1/queries?limit=1000"] {
        let reads = (0..3).map(|_| target.get(path));
        for reply in futures_util::future::join_all(reads).await {
            let length = reply.map(|reply| reply.length).unwrap_or_default();
            attack.expect(length > 0, || format!("{path}: no answer; {}", target.log()));
            attack.expect(length <= page, || format!("{path}: {} MiB", mib(length)));
            longest = longest.max(length);
        }
    }
    measure.judge(&mut attack, &watch, 3 * 6 * page);
    attack.figure("exchanges", exchanges);
    attack.figure("longest_mib", mib(longest));
    target.key = None;
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_query_do_not_grow_its_journal_without_a_bound() {
    let mut attack = Attack::begin("m6_journals");
    let changes = scale("BOSUN_ATTACK_CHANGES", 24);
    let target = Target::start(&[]).await;
    waiting(&target, "q").await;
    let (measure, watch, before) = (target.measure(), target.watch(), size_of(&target.world.data()));
    let (mut refused, mut first, mut last) = (0, 0.0, 0.0);
    for number in 0..changes {
        let cost = target.process().cpu();
        let annotations = json!({"a": format!("{number}{}", "x".repeat(250_000))});
        let labels = json!({"number": number.to_string(), "l": "x".repeat(250_000)});
        let body = json!({"metadata": {"annotations": annotations, "labels": labels}});
        let reply = target.json("PUT", "/v1/queries/q", &body).await.unwrap_or_default();
        match (reply.status, reply.code()) {
            (200, _) => {}
            (409, "journal_full") => refused += 1,
            (status, code) => attack.violation(format!("change {number}: {status} {code}")),
        }
        last = target.process().cpu() - cost;
        if number == 0 {
            first = last;
        }
    }
    let grown = size_of(&target.world.data()).saturating_sub(before);
    attack.expect(grown <= 100 << 20, || format!("the store grew by {} MiB", mib(grown)));
    // A change must not read all the changes before it.
    attack.expect(last <= 4.0 * first + 0.5, || format!("the first change took {first} s, the last {last} s"));
    let seen = target.get("/v1/queries/q").await.unwrap_or_default();
    attack.expect(seen.length <= 2 << 20, || format!("the query is shown in {} bytes", seen.length));
    measure.judge(&mut attack, &watch, 128 << 20);
    attack.figure("changes", changes);
    attack.figure("refused", refused);
    attack.figure("store_grown_mib", mib(grown));
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_thousands_of_results_leaves_one_trace() {
    let mut attack = Attack::begin("l3_batches_of_results");
    let target = Target::start(&[]).await;
    let call = waiting(&target, "q").await;
    let count = 37_000;
    let batches = [
        (0..count).map(|number| json!({"toolCallId": format!("c{number}")})).collect::<Vec<Value>>(),
        (0..count).map(|_| json!({"toolName": "none"})).collect(),
        (0..10_000).map(|_| json!({"toolCallId": call, "toolResult": 1})).collect(),
    ];
    let (watch, log) = (target.watch(), target.world.log());
    for (number, batch) in batches.into_iter().enumerate() {
        let (measure, store, logged) = (target.measure(), size_of(&target.world.data()), size_of_file(&log));
        let body = json!({"toolResults": batch});
        let length = body.to_string().len();
        let reply = target.json("POST", "/v1/queries/q/tool-result?wait=0", &body).await.unwrap_or_default();
        attack.expect((400..500).contains(&reply.status), || format!("batch {number}: {}", reply.status));
        attack.expect(reply.length <= 256 << 10, || format!("batch {number}: {} bytes", reply.length));
        let store = size_of(&target.world.data()).saturating_sub(store);
        attack.expect(store <= 1 << 20, || format!("batch {number}: the store grew by {store} bytes"));
        let logged = size_of_file(&log).saturating_sub(logged);
        attack.expect(logged <= 64 << 10, || format!("batch {number}: {logged} bytes were logged"));
        measure.judge(&mut attack, &watch, (64 << 20) + 24 * length as u64);
    }
    let still = target.get("/v1/queries/q?view=rfc").await.unwrap_or_default();
    attack.expect(still.state() == "waiting", || format!("the query is {}", still.state()));
    attack.finish();
}

fn size_of_file(path: &Path) -> u64 {
    fs::metadata(path).map(|metadata| metadata.len()).unwrap_or_default()
}

/// Sends all but the last part of a result, and waits for the answer.
async fn half_upload(address: String, path: String, megabytes: usize) -> Option<String> {
    let mut connection = TcpStream::connect(&address).await.ok()?;
    let length = (megabytes + 1) << 20;
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.ok()?;
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..megabytes {
        // A refused client may be disconnected before everything is sent; the answer shows which.
        if connection.write_all(&piece).await.is_err() {
            break;
        }
    }
    let mut answer = vec![0; 4096];
    let read = connection.read(&mut answer).await.ok().filter(|read| *read > 0)?;
    Some(String::from_utf8_lossy(&answer[..read]).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_never_end_do_not_fill_the_disk() {
    let mut attack = Attack::begin("l5_half_uploads");
    let (uploads, megabytes) = (12, usize::try_from(scale("BOSUN_ATTACK_UPLOAD_MB", 4)).expect("a size"));
    let target = Target::start(&[]).await;
    let call = waiting(&target, "q").await;
    let (measure, watch, before) = (target.measure(), target.watch(), size_of(&target.world.data()));
    let mut clients = JoinSet::new();
    for _ in 0..uploads {
        let address = target.server.base.trim_start_matches("http://").to_owned();
        clients.spawn(half_upload(address, format!("/v1/queries/q/tool-calls/{call}/result"), megabytes));
    }
    // Refused uploads are answered; the others keep waiting.
    let mut refused = 0;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Ok(Some(ended)) = tokio::time::timeout_at(deadline, clients.join_next()).await {
        match ended.expect("a client") {
            Some(answer) if answer.contains("too_many_uploads") => refused += 1,
            // The server closed the connection before everything was sent, and its answer was lost.
            None => refused += 1,
            Some(answer) => attack.violation(format!("an upload was answered with {answer}")),
        }
        if refused + 2 == uploads {
            break;
        }
    }
    let grown = size_of(&target.world.data()).saturating_sub(before);
    attack.expect(refused >= uploads - 2, || format!("{refused} of {uploads} uploads were refused"));
    attack.expect(grown <= (2 * megabytes as u64 + 8) << 20, || format!("the disk holds {} MiB of them", mib(grown)));
    clients.shutdown().await;
    let posted = json!({"toolCallId": call, "toolResult": "42"});
    let posted = target.json("POST", "/v1/queries/q/tool-result", &posted).await.unwrap_or_default();
    attack.expect(posted.status == 200, || format!("the real result was answered with {}", posted.status));
    measure.judge(&mut attack, &watch, 96 << 20);
    attack.figure("uploads", uploads);
    attack.figure("refused", refused);
    attack.figure("disk_grown_mib", mib(grown));
    attack.finish();
}
