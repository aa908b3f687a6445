//! Manifests and tools that change while the server runs.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use serde_json::{Value, json};

use crate::{
    program::{bosun, run, stderr},
    resources::api,
    support::{
        disk,
        server::{Server, Started, World},
        soon,
    },
};

const MODEL: &str = "
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: play.script.yaml}}}
";
const SCRIPT: &str = "otherwise: [{call: [{tool: lookup, arguments: {}}]}, {say: '{{ result[0] }}'}]\n";

fn agent(tools: &[&str]) -> String {
    let tools: Vec<_> = tools.iter().map(|name| format!("{{type: custom, name: {name}}}")).collect();
    let head = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\nmetadata: {name: seeker}\n";
    format!("{head}spec: {{prompt: Seek., tools: [{}]}}\n", tools.join(", "))
}

fn tool(name: &str, description: &str) -> String {
    let head = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\n";
    format!("{head}metadata: {{name: {name}}}\nspec: {{type: external, description: {description}}}\n")
}

fn write(directory: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(directory).unwrap();
    for (name, text) in files {
        std::fs::write(directory.join(name), text).unwrap();
    }
}

/// A world whose manifests are an agent with the tool `lookup`.
fn world() -> World {
    let world = World::new();
    std::fs::remove_dir_all(world.path("manifests")).unwrap();
    write_all(&world.path("manifests"), "Looks things up");
    world
}

fn write_all(directory: &Path, description: &str) {
    let (agent, tool) = (agent(&["lookup"]), tool("lookup", description));
    let files = [("model.yaml", MODEL), ("play.script.yaml", SCRIPT), ("agent.yaml", &agent), ("lookup.yaml", &tool)];
    write(directory, &files);
}

async fn status(server: &Server) -> Value {
    api(server, "GET", "/v1/reload", None).await.body
}

async fn tools(server: &Server) -> Vec<Value> {
    let listed = api(server, "GET", "/v1/tools", None).await.body;
    let items = listed["items"].as_array().unwrap().iter();
    items.filter(|tool| tool["source"] != "builtin").cloned().collect()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Asks until the tool `lookup` has this description: the server notices a change by itself.
async fn described(server: &Server, description: &str) {
    let looking =
        async { while api(server, "GET", "/v1/tools/lookup", None).await.body["description"] != description {} };
    soon(&format!("the description {description:?}"), looking).await;
}

fn key(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "namespace": "default", "name": name})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_of_a_manifest_without_effect_is_warned_about() {
    let world = world();
    let manifests = world.path("manifests");
    write(&manifests, &[("model.yaml", &MODEL.replace("spec: {", "spec: {pollInterval: 1m, "))]);
    let warning = "model.yaml:5:22: `pollInterval` of Model `default` has no effect: models are not probed";
    let server = world.start().await;
    let warnings = status(&server).await["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{warnings}");
    assert!(warnings[0].as_str().unwrap().ends_with(warning), "{warnings}");
    let log = std::fs::read_to_string(world.log()).unwrap();
    assert!(log.contains("`pollInterval` of Model `default` has no effect"), "{log}");

    let checked = run(bosun().arg("check").arg(&manifests)).await;
    let shown = stderr(&checked);
    assert_eq!(checked.status.code(), Some(0), "{shown}");
    assert!(shown.contains("warning[field_ignored]: `pollInterval` of Model"), "{shown}");
    assert!(shown.contains("0 errors, 1 warning"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_queries_see_a_change_and_running_ones_do_not() {
    let mut world = world();
    // The watcher may reload before the request does: both log what changed.
    world.set("RUST_LOG", "info");
    let server = world.start().await;
    let query = |name: &str| json!({"name": name, "input": "go", "target": {"type": "agent", "name": "seeker"}});
    let waiting = api(&server, "POST", "/v1/queries?wait=30s&view=rfc", Some(&query("before"))).await;
    assert_eq!(waiting.body["toolCall"]["name"], "lookup", "{}", waiting.text);

    write(&world.path("manifests"), &[("agent.yaml", &agent(&[]))]);
    std::fs::remove_file(world.path("manifests").join("lookup.yaml")).unwrap();
    let reloaded = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    let log = std::fs::read_to_string(world.log()).unwrap();
    assert!(log.contains("Tool `lookup` of namespace `default`"), "{log}");
    assert!(log.contains("Agent `seeker` of namespace `default`"), "{log}");

    let result = json!({"toolName": "lookup", "toolResult": "found", "wait": "30s"});
    let done = api(&server, "POST", "/v1/queries/before/tool-result?view=rfc", Some(&result)).await;
    assert_eq!(done.body["response"], "found", "{}", done.text);
    let after = api(&server, "POST", "/v1/queries?wait=30s&view=rfc", Some(&query("after"))).await;
    assert_eq!(after.body["toolCalls"], json!([]), "{}", after.text);
    assert_ne!(after.body["response"], "found", "{}", after.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_changes_nothing_and_is_reported_with_its_place() {
    let world = world();
    let server = world.start().await;
    let manifests = world.path("manifests");
    // The bad one first: files are read at any time.
    write(&manifests, &[("bad.yaml", "a: 1\nb: [\n"), ("lookup.yaml", &tool("lookup", "Looks elsewhere"))]);
    let refused = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (422, &json!("invalid_configuration")));
    let fault = &refused.body["error"]["details"][0];
    assert_eq!(fault["source"], manifests.join("bad.yaml").display().to_string(), "{}", refused.text);
    assert!(fault["line"].as_u64().is_some_and(|line| line >= 2) && fault["column"].is_u64(), "{}", refused.text);

    let status = status(&server).await;
    assert_eq!(status["faults"][0], *fault);
    assert_eq!(api(&server, "GET", "/v1/tools/lookup", None).await.body["description"], "Looks things up");
    let figures = api(&server, "GET", "/metrics", None).await.text;
    assert!(figures.contains("bosun_reload_faults 1\n"), "{figures}");

    std::fs::remove_file(manifests.join("bad.yaml")).unwrap();
    described(&server, "Looks elsewhere").await;
    let reloaded = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!((reloaded.status, &reloaded.body["faults"]), (200, &json!([])), "{}", reloaded.text);
    assert!(reloaded.body["generation"].as_u64() > status["generation"].as_u64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_noticed_however_files_are_replaced() {
    let world = world();
    let manifests = world.path("manifests");
    // The operator's path is a symbolic link to a release.
    let (first, second) = (world.path("first"), world.path("second"));
    std::fs::rename(&manifests, &first).unwrap();
    symlink(&first, &manifests).unwrap();
    let server = world.start().await;

    write(&first, &[("lookup.yaml", &tool("lookup", "written in place"))]);
    described(&server, "written in place").await;

    write(&first, &[("lookup.tmp", &tool("lookup", "renamed"))]);
    std::fs::rename(first.join("lookup.tmp"), first.join("lookup.yaml")).unwrap();
    described(&server, "renamed").await;

    write_all(&second, "another release");
    swap(&second, &manifests);
    described(&server, "another release").await;
    write(&second, &[("lookup.yaml", &tool("lookup", "written in the other release"))]);
    described(&server, "written in the other release").await;
    assert_eq!(status(&server).await["faults"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_found_by_polling_where_the_file_system_reports_none() {
    let checks = ["absent", "refused", "silent"].map(|events| async move {
        let mut world = world();
        let library = world.path("no_events.so");
        disk::compile(&library, "no_events.c");
        world.set("LD_PRELOAD", library);
        world.set("BOSUN_FILE_EVENTS", events);
        let manifests = world.path("manifests");
        let server = world.start().await;
        write(&manifests, &[("lookup.yaml", &tool("lookup", "written in place"))]);
        described(&server, "written in place").await;
        write(&manifests, &[("lookup.tmp", &tool("lookup", "renamed"))]);
        std::fs::rename(manifests.join("lookup.tmp"), manifests.join("lookup.yaml")).unwrap();
        described(&server, "renamed").await;
        let log = std::fs::read_to_string(world.log()).unwrap();
        assert_eq!(log.contains("files are polled"), events != "silent", "{events}: {log}");
    });
    futures_util::future::join_all(checks).await;
}

/// Points a symbolic link elsewhere, in one step.
fn swap(target: &Path, link: &Path) {
    let new = link.with_extension("new");
    symlink(target, &new).unwrap();
    std::fs::rename(new, link).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_map_is_swapped_as_a_whole() {
    let world = world();
    let manifests = world.path("manifests");
    // As the kubelet writes it: `..data` leads to a directory with all files of one version.
    let version = |name: &str| -> PathBuf { manifests.join(format!("..{name}")) };
    std::fs::remove_dir_all(&manifests).unwrap();
    write_all(&version("one"), "version one");
    symlink("..one", manifests.join("..data")).unwrap();
    for file in ["model.yaml", "play.script.yaml", "agent.yaml", "lookup.yaml"] {
        symlink(Path::new("..data").join(file), manifests.join(file)).unwrap();
    }
    let server = world.start().await;
    described(&server, "version one").await;

    write_all(&version("two"), "version two");
    symlink("..two", manifests.join("..data_tmp")).unwrap();
    std::fs::rename(manifests.join("..data_tmp"), manifests.join("..data")).unwrap();
    std::fs::remove_dir_all(version("one")).unwrap();
    described(&server, "version two").await;
}

#[tokio::test]
async fn a_log_in_a_watched_directory_does_not_feed_itself() {
    let mut world = world();
    // The log of a world is next to its manifests, so its directory is watched for swapped links.
    world.set("RUST_LOG", "trace");
    let server = world.start().await;
    write_all(&world.path("manifests"), "Changed");
    described(&server, "Changed").await;
    let log = std::fs::read_to_string(world.log()).unwrap();
    assert!(log.contains("TRACE"), "the level is in effect");
    let events: Vec<_> = log.lines().filter(|line| line.contains("inotify event")).take(3).collect();
    assert_eq!(events, <[&str; 0]>::default(), "the watcher logs the writes of its own log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sighup_reloads_at_once() {
    let world = world();
    let server = world.start().await;
    let before = status(&server).await["generation"].as_u64();
    let sent = std::process::Command::new("kill").args(["-s", "HUP", &server.pid().to_string()]).status();
    assert!(sent.unwrap().success());
    let reloaded = async { while status(&server).await["generation"].as_u64() <= before {} };
    soon("a new generation", reloaded).await;
}

/// A `tool-config.json`.
fn tool_config(names: &[&str]) -> String {
    let tool = |name: &&str| {
        let (description, lc_name) = (format!("Does {name}"), format!("lc_{name}"));
        json!({"name": name, "description": description, "lc_name": lc_name, "category": "Mail", "providerConfigKey": "google-mail"})
    };
    json!({"tools": names.iter().map(tool).collect::<Vec<_>>()}).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_all_sources_form_one_collection() {
    let world = world();
    let (config, folder) = (world.path("tool-config.json"), world.path("folder"));
    std::fs::write(&config, tool_config(&["fetch_emails", "lookup"])).unwrap();
    let openai = json!([{"type": "function", "function": {
        "name": "calculator", "description": "Calculates", "parameters": {"type": "object", "properties": {}},
    }}]);
    write(&folder, &[("openai.json", &openai.to_string()), ("unrelated.json", "{\"a\": 1}")]);
    // An agent names a tool of the collection, by the name that LangChain gave it.
    write(&world.path("manifests"), &[("agent.yaml", &agent(&["lookup", "lc_fetch_emails"]))]);
    let options = ["--tools", config.to_str().unwrap(), "--tools", folder.to_str().unwrap()];
    let world = world.with(&options);
    let server = world.start().await;

    let listed = tools(&server).await;
    assert_eq!(names(&listed), ["calculator", "fetch_emails", "lookup"]);
    let [calculator, emails, lookup] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&emails["source"], &emails["location"]), (&json!("file"), &json!("tool-config.json")), "{emails}");
    assert_eq!((&emails["binding"], &emails["state"]), (&json!("nango"), &json!("no_runner")), "{emails}");
    assert_eq!((&emails["lc_name"], &emails["category"]), (&json!("lc_fetch_emails"), &json!("Mail")), "{emails}");
    assert_eq!(calculator["location"], "openai.json", "{calculator}");
    assert_eq!((&calculator["binding"], &calculator["state"]), (&json!("external"), &json!("ready")), "{calculator}");
    // A manifest takes precedence, and that is reported.
    assert_eq!(lookup["description"], "Looks things up", "{lookup}");
    let warnings = status(&server).await["warnings"].to_string();
    assert!(warnings.contains("tool `lookup` of") && warnings.contains("has no effect"), "{warnings}");
    let found = api(&server, "GET", "/v1/tools/lc_fetch_emails", None).await;
    assert_eq!(found.body["name"], "fetch_emails", "{}", found.text);
    let refused = api(&server, "DELETE", "/v1/tools/fetch_emails", None).await;
    assert_eq!(refused.status, 409, "{}", refused.text);

    // A faulty source keeps its tools and does not hide the others.
    std::fs::write(&config, "{\"tools\": [{\"name\": 1}]}").unwrap();
    write(&folder, &[("more.json", &openai.to_string().replace("calculator", "abacus"))]);
    let refused = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains("tool-config.json:1:"), "{}", refused.text);
    assert_eq!(names(&tools(&server).await), ["abacus", "calculator", "fetch_emails", "lookup"]);

    std::fs::write(&config, tool_config(&["fetch_emails", "send_email"])).unwrap();
    let reloaded = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    assert_eq!(names(&tools(&server).await), ["abacus", "calculator", "fetch_emails", "lookup", "send_email"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_source_of_tools_is_noticed_as_one_of_a_manifest_is() {
    let world = world();
    let (config, folder) = (world.path("tool-config.json"), world.path("folder"));
    std::fs::write(&config, tool_config(&["fetch_emails"])).unwrap();
    write(&folder, &[("more.json", &tool_config(&["archive_email"]))]);
    let options = ["--tools", config.to_str().unwrap(), "--tools", folder.to_str().unwrap()];
    let world = world.with(&options);
    let server = world.start().await;
    assert_eq!(names(&tools(&server).await), ["archive_email", "fetch_emails", "lookup"]);
    for (file, written, is_renamed, expect) in [
        (&config, &["send_email"][..], false, &["archive_email", "lookup", "send_email"][..]),
        (&config, &["delete_email"], true, &["archive_email", "delete_email", "lookup"]),
        (&folder.join("more.json"), &["move_email"], false, &["delete_email", "lookup", "move_email"]),
        (&folder.join("new.json"), &["read_email"], true, &["delete_email", "lookup", "move_email", "read_email"]),
    ] {
        let place = if is_renamed { file.with_extension("tmp") } else { file.clone() };
        std::fs::write(&place, tool_config(written)).unwrap();
        std::fs::rename(&place, file).unwrap();
        let noticed = async { while names(&tools(&server).await) != expect {} };
        soon(&format!("the tools {expect:?}"), noticed).await;
    }
    assert_eq!(status(&server).await["faults"], json!([]));
}

/// A server that has one document, and counts how often it is transferred.
async fn document(text: Arc<Mutex<String>>, transferred: Arc<AtomicUsize>) -> String {
    let answer = move |headers: HeaderMap| async move {
        let text = text.lock().unwrap().clone();
        let tag = format!("\"{}\"", text.len());
        if headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == *tag) {
            return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
        }
        transferred.fetch_add(1, Ordering::SeqCst);
        ([(header::ETAG, tag)], text).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/tools.json", get(answer));
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}/tools.json?key=sk-secret")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_is_fetched_again_only_if_it_has_changed() {
    let (text, transferred) = (Arc::new(Mutex::new(tool_config(&["fetch_emails"]))), Arc::default());
    let url = document(Arc::clone(&text), Arc::clone(&transferred)).await;
    let world = world().with(&["--tools", &url]);
    let server = world.start().await;
    let listed = tools(&server).await;
    assert_eq!(names(&listed), ["fetch_emails", "lookup"]);
    assert_eq!(listed[0]["source"], "url", "{listed:?}");
    assert!(!listed[0].to_string().contains("sk-secret"), "{listed:?}");

    assert_eq!(api(&server, "POST", "/v1/reload", None).await.status, 200);
    assert_eq!(transferred.load(Ordering::SeqCst), 1, "the second request was conditional");
    *text.lock().unwrap() = tool_config(&["fetch_emails", "send_email"]);
    let reloaded = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!(reloaded.body["added"], json!([key("Tool", "send_email")]), "{}", reloaded.text);
    assert_eq!(transferred.load(Ordering::SeqCst), 2);
    *text.lock().unwrap() = tool_config(&["send_email"]).replace("Does send_email", "Sends");
    let reloaded = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!(reloaded.body["removed"], json!([key("Tool", "fetch_emails")]), "{}", reloaded.text);
    assert_eq!(reloaded.body["changed"], json!([key("Tool", "send_email")]), "{}", reloaded.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_cannot_be_fetched_hides_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tools.json", listener.local_addr().unwrap());
    drop(listener);
    let world = world().with(&["--tools", &url]);
    let server = world.start().await;
    assert_eq!(names(&tools(&server).await), ["lookup"]);
    let status = status(&server).await;
    assert_eq!(status["faults"][0]["code"], "source_unavailable", "{status}");
    assert_eq!(status["faults"][0]["source"], url, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_does_not_start_with_a_faulty_file_of_tools() {
    let world = world();
    let config = world.path("tool-config.json");
    std::fs::write(&config, "{\"tools\": [{\"name\": \"a\", \"colour\": 1}]}").unwrap();
    let world = world.with(&["--tools", config.to_str().unwrap()]);
    let started = soon("an end", world.spawn(None).ready()).await;
    assert!(matches!(started, Started::Exited(_)), "{started:?}");
    let log = std::fs::read_to_string(world.log()).unwrap();
    assert!(log.contains("tool-config.json:1:") && log.contains("`colour`"), "{log}");
}

/// A peer that answers at once and then sends a byte at a time, without an end.
fn dripping() -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tools.json", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                // A request fits into one packet here, and is answered after it has arrived.
                let _ = stream.read(&mut [0; 4096]);
                let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{");
                while sent.is_ok() {
                    std::thread::sleep(Duration::from_millis(100));
                    sent = stream.write_all(b" ");
                }
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_sends_too_slowly_is_abandoned_and_hides_nothing() {
    let url = dripping();
    let world = world().with(&["--tools", &url]);
    let began = std::time::Instant::now();
    let server = world.start().await;
    assert!(began.elapsed() < Duration::from_secs(20), "the start took {:?}", began.elapsed());
    assert_eq!(names(&tools(&server).await), ["lookup"]);
    let found = status(&server).await;
    assert_eq!(found["faults"][0]["code"], "source_unavailable", "{found}");
    assert!(found["faults"][0]["message"].as_str().unwrap().contains("did not answer within 10 s"), "{found}");
    // Queries are answered while it is fetched again.
    let reload = api(&server, "POST", "/v1/reload", None);
    let other = async {
        let began = std::time::Instant::now();
        (tools(&server).await, began.elapsed())
    };
    let (_, (listed, took)) = soon("both answers", async { tokio::join!(reload, other) }).await;
    assert_eq!(names(&listed), ["lookup"]);
    assert!(took < Duration::from_secs(5), "a read waited {took:?} for the reload");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_cannot_be_used_is_reported_when_its_file_is_read() {
    let world = world();
    let tools = world.path("tools.yaml");
    let tool = |schema: &str, body: &str| {
        format!(
            "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {{name: fetch}}\nspec:\n  type: http\n{schema}  http:\n    \
             url: https://api.example.com/{{id}}\n    method: POST\n    body: '{body}'\n"
        )
    };
    std::fs::write(&tools, tool("  inputSchema: {type: object, properties: {}}\n", "{oops")).unwrap();
    let world = world.with(&["--tools", tools.to_str().unwrap()]);
    let started = soon("an end", world.spawn(None).ready()).await;
    assert!(matches!(started, Started::Exited(_)), "{started:?}");
    let log = std::fs::read_to_string(world.log()).unwrap();
    assert!(log.contains("tools.yaml:8:10") && log.contains("`inputSchema` has no property `id`"), "{log}");
    assert!(log.contains("tools.yaml:10:11") && log.contains("the body is not JSON"), "{log}");
    // Without a schema, its slots take any argument.
    std::fs::write(&tools, tool("", "{}")).unwrap();
    let server = world.start().await;
    assert_eq!(names(&self::tools(&server).await), ["fetch", "lookup"]);
    std::fs::write(&tools, tool("", "{oops")).unwrap();
    let refused = api(&server, "POST", "/v1/reload", None).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(names(&self::tools(&server).await), ["fetch", "lookup"], "the last good one stays");
}
