//! Large results through the real program: streamed, bounded in memory, and safe against kill -9.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bosun_adapters::{blob::BlobDirectory, runner::builtin::Builtins, store::sqlite::Sqlite};
use bosun_core::{
    Actor, CallId, ContentHash, Namespace, Outcome, QueryLimits, QueryUid,
    hash::Hashing,
    machine::{Delivery, DeliveryTarget},
    query::{AskedLimits, EdgeNote},
    tool::{Binding, BindingKind, Tool},
    transcript::Message,
};
use bosun_engine::{
    Agent, BLOB_GRACE, Blobs, Engine, EngineSettings, Model, QueryKey, Registry, Store, Submission, SystemClock,
    blob::MemoryBlobs,
    memory::MemoryStore,
    model::{Deltas, ModelCall, ModelError, ModelReply, ModelRequest},
    registry::AgentTool,
};
use futures_util::{StreamExt, stream};
use reqwest::{Body, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};

use crate::{
    program::{bosun, run, stderr, stdout},
    support::{
        client::{Client, result},
        scenarios::{self, Scenario},
        server::{ProcessExit, Server, Started, World},
        soon, until,
        volume::Volume,
    },
};

const MIB: usize = 1 << 20;
const LARGEST: usize = 64 * MIB;

/// A mebibyte of text that no other number has.
fn piece(number: usize) -> String {
    let mut text = format!("{number:08}, ").repeat(MIB / 10 + 1);
    text.truncate(MIB);
    text
}

/// This many mebibytes, generated while they are sent.
fn mebibytes(count: usize) -> Body {
    Body::wrap_stream(stream::iter(0..count).map(|number| Ok::<_, std::io::Error>(piece(number))))
}

fn hash_of(count: usize) -> ContentHash {
    let mut hashing = Hashing::default();
    (0..count).for_each(|number| hashing.push(piece(number).as_bytes()));
    hashing.finish()
}

struct Paused {
    http: reqwest::Client,
    url: String,
    call: String,
}

impl Paused {
    fn result(&self) -> String {
        format!("{}/tool-calls/{}/result", self.url, self.call)
    }

    fn put(&self, body: Body) -> RequestBuilder {
        self.http.put(self.result()).header("content-type", "text/plain").body(body)
    }

    async fn get(&self) -> Value {
        read(self.http.get(format!("{}?wait=20s", self.url)).send().await.unwrap()).await
    }
}

async fn read(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

/// A query that waits for one outside call.
async fn pause(server: &Server, name: &str) -> Paused {
    let client = Client::of(&server.base);
    let waiting = client.post("?wait=20s", &scenarios::query(name, Scenario::Quick)).await;
    let (call, _) = waiting.waiting_calls().remove(0);
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(120)).build().unwrap();
    Paused { http, url: format!("{}/v1/namespaces/default/queries/{name}", server.base), call }
}

/// The most memory that a process has ever had, in bytes.
fn peak_memory(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

fn blobs(world: &World) -> BTreeSet<String> {
    let names = fs::read_dir(world.data().join("blobs")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn drafts(world: &World) -> usize {
    blobs(world).iter().filter(|name| name.ends_with(".new")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_mebibytes_are_uploaded_and_downloaded_in_bounded_memory() {
    let world = World::new();
    let server = world.start().await;
    // Something small first, so that what a cycle costs anyway is not counted.
    let small = pause(&server, "small").await;
    small.put("small".into()).send().await.unwrap().error_for_status().unwrap();
    let before = peak_memory(&server);

    let paused = pause(&server, "large").await;
    let answer = soon("the upload", paused.put(mebibytes(64)).send()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer = read(answer).await;
    assert_eq!(answer["status"], "completed");
    let hash = hash_of(64);
    let expect = json!({
        "handle": paused.call, "size": LARGEST, "mediaType": "text/plain", "sha256": hash,
    });
    assert_eq!(answer["toolExecutionHistory"][0]["largeResult"], expect);
    let response = answer["response"].as_str().unwrap();
    let mark = format!(
        "[truncated: the first 4096 of {LARGEST} bytes are shown; \
         to read on, call read_result with handle \"{}\" and offset 4096]",
        paused.call
    );
    assert_eq!(response, format!("{}\n{mark}", &piece(0)[..4_096]));
    assert_eq!(blobs(&world), BTreeSet::from([hash.to_string()]));

    let again = soon("the upload", paused.put(mebibytes(64)).send()).await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    let other = soon("the upload", paused.put(mebibytes(63)).send()).await.unwrap();
    assert_eq!(read(other).await["error"]["code"], "already_resolved");

    let response = paused.http.get(paused.result()).send().await.unwrap();
    assert_eq!(response.headers()["content-length"], LARGEST.to_string().as_str());
    let (mut stream, mut hashing, mut size) = (response.bytes_stream(), Hashing::default(), 0);
    while let Some(bytes) = soon("more of the result", stream.next()).await {
        let bytes = bytes.unwrap();
        size += bytes.len();
        hashing.push(&bytes);
    }
    assert_eq!((size, hashing.finish()), (LARGEST, hash));
    let part = paused.http.get(paused.result()).header("range", "bytes=1048570-1048581").send().await.unwrap();
    assert_eq!(part.text().await.unwrap(), format!("{}{}", &piece(0)[MIB - 6..], &piece(1)[..6]));

    let grown = peak_memory(&server).saturating_sub(before);
    // The allocator keeps what it has got for a while; a whole copy of the content would be more.
    assert!(grown < 40 * MIB, "memory grew by {grown} bytes");
    assert_eq!(drafts(&world), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_blob_and_entry_loses_nothing_but_the_upload() {
    for (point, left) in [
        ("blob.written", "a draft"),
        ("blob.named", "a blob"),
        ("blob.sealed", "a blob"),
        ("deliver.appended", "a blob"),
    ] {
        let world = World::new();
        let starting = world.spawn(Some(point));
        let Started::Ready(mut server) = soon("the start of the server", starting.ready()).await else {
            panic!("the server died at its start")
        };
        let paused = pause(&server, "q").await;
        let lost = paused.put(mebibytes(2)).send().await;
        assert!(lost.is_err(), "{point}: {lost:?}");
        assert_eq!(server.exit().await, ProcessExit::AtFaultPoint, "{point}");
        let hash = hash_of(2).to_string();
        assert_eq!(drafts(&world), usize::from(left == "a draft"), "{point}");
        assert_eq!(blobs(&world).contains(&hash), left == "a blob", "{point}");

        let server = world.start().await;
        assert_eq!(drafts(&world), 0, "a new process clears away what was left");
        let paused = Paused { url: format!("{}/v1/namespaces/default/queries/q", server.base), ..paused };
        assert_eq!(paused.get().await["status"], "tool_call_required", "{point}");
        let answer = paused.put(mebibytes(2)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().get("idempotent-replayed").is_none(), "{point}");
        assert_eq!(read(answer).await["status"], "completed", "{point}");
        assert_eq!(blobs(&world), BTreeSet::from([hash]));
        let whole = paused.http.get(paused.result()).send().await.unwrap().bytes().await.unwrap();
        assert!(whole == piece(0) + &piece(1), "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let world = World::new();
    let mut server = world.start().await;
    let paused = pause(&server, "q").await;
    let url = format!("{}?wait=0", paused.result());
    let answer = paused.http.put(url).header("content-type", "text/plain").body(mebibytes(3)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(server.kill().await, ProcessExit::Killed);
    let server = world.start().await;
    let paused = Paused { url: format!("{}/v1/namespaces/default/queries/q", server.base), ..paused };
    assert_eq!(paused.get().await["status"], "completed");
    let whole = paused.http.get(paused.result()).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(ContentHash::of(&whole), hash_of(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_a_waiting_call_is_answered_before_it_is_sent() {
    let world = World::new();
    let server = world.start().await;
    let paused = pause(&server, "q").await;
    // The client has more to send and does not: waiting for the rest would never end.
    let begun = stream::iter(0..4).map(|number| Ok::<_, std::io::Error>(piece(number))).chain(stream::pending());
    let unknown = Paused { call: CallId::derive(QueryUid::new(0, [0; 10]), 1, 0).to_string(), ..paused };
    let answer = soon("the refusal", unknown.put(Body::wrap_stream(begun)).send()).await.unwrap();
    assert_eq!(answer.status(), 404);
    assert_eq!(read(answer).await["error"]["code"], "call_not_found");
    assert_eq!(blobs(&world), BTreeSet::new());
}

/// Sends a request with its headers and `body`, and reads what comes back first.
async fn exchange(server: &Server, path: &str, length: usize, body: &[u8]) -> TcpStream {
    let address = server.base.strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body).await.unwrap();
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_or_cut_off_leaves_nothing() {
    let world = World::new();
    let server = world.start().await;
    let paused = pause(&server, "q").await;
    let path = format!("/v1/queries/q/tool-calls/{}/result", paused.call);
    let mut too_large = exchange(&server, &path, LARGEST + 1, b"").await;
    let mut answer = [0; 12];
    soon("the refusal", too_large.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");

    // Without a length, it is found out on the way.
    let answer = soon("the refusal", paused.put(mebibytes(65)).send()).await.unwrap();
    assert_eq!(answer.status(), 413);
    assert_eq!(read(answer).await["error"]["code"], "payload_too_large");

    let cut = exchange(&server, &path, 8 * MIB, piece(0).repeat(4).as_bytes()).await;
    until("a draft", || drafts(&world) > 0).await;
    drop(cut);
    until("the end of all drafts", || drafts(&world) == 0).await;
    assert_eq!(blobs(&world), BTreeSet::new());
    assert_eq!(paused.get().await["status"], "tool_call_required");
    assert_eq!(paused.put(mebibytes(2)).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_a_large_result_and_keeps_nothing_of_it() {
    let mut world = World::new();
    let volume = Volume::under(&mut world);
    let server = world.start().await;
    let paused = pause(&server, "q").await;
    volume.fill(&server, 2 << 20);
    let refused = soon("the refusal", paused.put(mebibytes(32)).send()).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(read(refused).await["error"]["code"], "store_unavailable");
    until("the end of all drafts", || drafts(&world) == 0).await;
    assert_eq!(paused.get().await["status"], "tool_call_required");
    volume.free(&server);
    let answer = soon("the upload", paused.put(mebibytes(32)).send()).await.unwrap();
    assert_eq!(read(answer).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_requests_are_served_during_an_upload() {
    let world = World::new();
    let server = world.start().await;
    let paused = pause(&server, "slow").await;
    let resume = Arc::new(Notify::new());
    let body = {
        let resume = Arc::clone(&resume);
        Body::wrap_stream(stream::iter(0..16).then(move |number| {
            let resume = Arc::clone(&resume);
            async move {
                if number == 8 {
                    resume.notified().await;
                }
                Ok::<_, std::io::Error>(piece(number))
            }
        }))
    };
    let others = async {
        let client = Client::of(&server.base);
        for number in 0..20 {
            let name = format!("quick-{number}");
            let waiting = client.post("?wait=20s", &scenarios::query(&name, Scenario::Quick)).await;
            let (call, _) = waiting.waiting_calls().remove(0);
            let done = client.post(&format!("/{name}/tool-result"), &result(&call, "small")).await;
            assert_eq!(done.state(), "completed");
        }
        resume.notify_one();
    };
    let (uploaded, ()) = tokio::join!(soon("the upload", paused.put(body).send()), others);
    assert_eq!(read(uploaded.unwrap()).await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_that_is_damaged_is_an_error_and_found_by_check() {
    let world = World::new();
    let mut server = world.start().await;
    let paused = pause(&server, "q").await;
    assert_eq!(paused.put(mebibytes(2)).send().await.unwrap().status(), 200);
    assert_eq!(server.kill().await, ProcessExit::Killed);
    let file = world.data().join("blobs").join(hash_of(2).to_string());
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();

    let mut server = world.start().await;
    let url = format!("{}/v1/namespaces/default/queries/q/tool-calls/{}/result", server.base, paused.call);
    for range in ["bytes=0-9", "bytes=0-"] {
        let response = paused.http.get(&url).header("range", range).send().await.unwrap();
        assert_eq!(response.status(), 500);
        let body = read(response).await;
        assert_eq!(body["error"]["code"], "result_lost", "{body}");
        assert!(body["detail"].as_str().unwrap().contains("damaged"), "{body}");
    }
    assert_eq!(server.kill().await, ProcessExit::Killed);
    let output = run(bosun().args(["check", "--data"]).arg(world.data())).await;
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_large_results_too() {
    let world = World::new();
    let server = world.start().await;
    let paused = pause(&server, "q").await;
    assert_eq!(paused.put(mebibytes(2)).send().await.unwrap().status(), 200);
    let copy = world.path("copy");
    for arguments in [["backup", "--data"], ["check", "--data"]] {
        let (from, to) = match arguments[0] {
            "backup" => (world.data(), Some(&copy)),
            _ => (copy.clone(), None),
        };
        let output = run(bosun().args(arguments).arg(from).args(to)).await;
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).contains("1 query, 8 entries, 1 blob, ok"), "{}", stdout(&output));
    }
    let kept = fs::read(copy.join("blobs").join(hash_of(2).to_string())).unwrap();
    assert_eq!(ContentHash::of(&kept), hash_of(2));
}

#[tokio::test]
async fn blobs_are_deleted_with_the_last_query_that_refers_to_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(directory.path()).unwrap());
    let blobs = directory.path().join("blobs");
    let engine = reading_engine(store, Arc::new(BlobDirectory::open(&blobs).unwrap())).await;
    let text = piece(0);
    let mut keys = Vec::new();
    for _ in 0..2 {
        keys.push(deliver(&engine, &text).await);
    }
    let names = || fs::read_dir(&blobs).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let [blob] = &names()[..] else { panic!("one text is one blob: {:?}", names()) };
    fs::File::options().write(true).open(blob).unwrap().set_modified(SystemTime::now() - BLOB_GRACE).unwrap();
    for (key, left) in keys.into_iter().zip([1, 0]) {
        engine.delete(Actor::local(), key).await.unwrap();
        engine.sweep_blobs().await.unwrap();
        assert_eq!(names().len(), left);
    }
}

/// A model that follows the marker of a truncated result, page by page, and answers with the hash of all that it has
/// read.
#[derive(Debug, Default)]
struct Reader {
    read: Mutex<HashMap<QueryUid, String>>,
}

impl Reader {
    /// What to do after this result.
    fn next(&self, query: QueryUid, content: &str) -> Result<Value, String> {
        let mut read = self.read.lock().unwrap();
        let read = read.entry(query).or_default();
        let (text, mark) = content.rsplit_once('\n').expect("a mark");
        read.push_str(text);
        let number = |after: &str| {
            let (_, rest) = mark.split_once(after)?;
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        match number("and offset ").or_else(|| number("use offset ")) {
            Some(offset) => Ok(json!({"offset": offset, "limit": 131_072})),
            None => Err(ContentHash::of(read.as_bytes()).to_string()),
        }
    }
}

#[async_trait]
impl Model for Reader {
    async fn reply(&self, request: &ModelRequest, _: &dyn Deltas) -> Result<ModelReply, ModelError> {
        let call = |tool: &str, arguments: Value| ModelReply {
            calls: vec![ModelCall {
                provider_id: format!("id-{}", request.turn),
                alias: tool.into(),
                arguments: arguments.to_string(),
            }],
            ..ModelReply::default()
        };
        let results: Vec<_> = request
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::Tool { content, .. } => Some(content),
                _ => None,
            })
            .collect();
        let Some(last) = results.last() else { return Ok(call("fetch", json!({}))) };
        let (_, handle) = results[0].rsplit_once("handle \"").expect("a handle");
        let handle = handle.split('"').next().unwrap_or_default();
        Ok(match self.next(request.query, last) {
            Ok(mut arguments) => {
                arguments["handle"] = json!(handle);
                call("read_result", arguments)
            }
            Err(answer) => ModelReply { text: Some(answer), ..ModelReply::default() },
        })
    }
}

/// An engine whose agent has nothing but the tool that pages.
async fn reading_engine(store: Arc<dyn Store>, blobs: Arc<dyn Blobs>) -> Engine {
    let builtins = Builtins::new(Arc::new(SystemClock));
    let namespace = Namespace::default();
    let mut registry = Registry::default();
    registry.add_tool(namespace.clone(), builtins.tool("read_result").unwrap());
    registry.add_model(namespace.clone(), "default", Arc::new(Reader::default()));
    registry.add_agent(Agent {
        namespace,
        name: "reader".into(),
        description: None,
        prompt: None,
        parameters: Vec::new(),
        output_schema: None,
        model: "default".into(),
        remote: None,
        tools: vec![AgentTool { name: "read_result".into(), ..AgentTool::default() }],
        selected_tools: Vec::new(),
        confirm: None,
        limits: AskedLimits::default(),
        labels: Default::default(),
        annotations: Default::default(),
    });
    registry.set_runner(BindingKind::Builtin, Arc::new(builtins));
    let settings = EngineSettings {
        limits: QueryLimits { max_tool_calls: 100, ..QueryLimits::default() },
        ..EngineSettings::default()
    };
    Engine::start(store, blobs, registry, Arc::new(SystemClock), settings).await.unwrap()
}

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(25));

/// Delivers `text` as the result of the one outside call of a new query, and returns its key.
async fn deliver(engine: &Engine, text: &str) -> QueryKey {
    let submission = Submission {
        client_tools: vec![Tool::new("fetch", "Fetches", json!({"type": "object"}), Binding::External)],
        edge_note: EdgeNote::new("rfc"),
        ..Submission::to_agent(Actor::local(), Namespace::default(), "reader", "read")
    };
    let paused = engine.submit(submission, TIMEOUT).await.unwrap().snapshot;
    let delivery =
        Delivery { target: DeliveryTarget::Call(paused.head.calls[0].id), outcome: Outcome::success(text), took: None };
    let key = (paused.head.namespace.clone(), paused.head.name.clone());
    engine.deliver(Actor::local(), key.clone(), vec![delivery], false, TIMEOUT).await.unwrap();
    key
}

#[tokio::test]
async fn a_model_that_follows_the_mark_reads_the_whole_result() {
    let text = "Zeile 待って 😀 mit\nvielen\n\nZeichen\n".repeat(40_000);
    let engine = reading_engine(Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::new())).await;
    let key = deliver(&engine, &text).await;
    let query = engine.get(&key, TIMEOUT).await.unwrap();
    let expect = ContentHash::of(text.as_bytes()).to_string();
    assert_eq!(query.transcript.response(), Some(expect.as_str()));
    assert!(query.head.calls.len() > text.len() / 131_072);
}
