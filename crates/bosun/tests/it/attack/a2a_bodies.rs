//! The worst bodies of A2A, over JSON-RPC and HTTP+JSON.
//!
//! A2A is not in the description of ARK's API. Its routes come from the table in `docs/security.md`, which a test of the
//! edges generates from the tables that the router is built of.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    bodies::{FILLINGS, SIZE, Shape, deep, dense, list, object, text},
    schemas,
};

/// The agent that is attacked: the default agent of the namespace, and one by its name.
const AGENTS: [&str; 2] = ["/a2a", "/a2a/agents/default/prover"];
const VERSION: &str = "?A2A-Version=1.0";
const CLIENT_TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";
/// A message of 1.0, without its closing brace.
const MESSAGE: &str = r#"{"messageId":"attack","role":"ROLE_USER","parts":[{"text":"Hi"}]"#;
const METHODS: &[&str] =
    &["SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"];

/// The shapes that are always sent, and the others.
pub(super) fn shapes() -> (Vec<Shape>, Vec<Shape>) {
    let posts = posts();
    assert!(posts.len() >= 10, "{posts:?}");
    let (mut known, mut more) = (known(), Vec::new());
    for (number, path) in posts.iter().enumerate() {
        let path = format!("{}{path}", AGENTS[number % AGENTS.len()]).replace("{task}", "victim-query:cancel");
        let mut of_route = Shape::of_any_route("POST", &path, base(&path));
        known.push(of_route.remove(number % of_route.len()));
        more.extend(of_route);
    }
    for &(name, fill) in FILLINGS {
        more.extend(in_every_place(name, fill));
    }
    (known, more)
}

/// The paths below an agent that take a body.
fn posts() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = std::fs::read_to_string(page).expect("the page of security");
    let paths = page.lines().filter_map(|line| line.strip_prefix("| `POST {agent}")?.split('`').next());
    paths.map(|path| path.replace("{config}", "config")).collect()
}

/// A valid body of the route, without its closing brace.
fn base(path: &str) -> &'static str {
    if path.contains("message:") {
        r#"{"message":{"messageId":"attack","role":"ROLE_USER","parts":[{"text":"Hi"}]}"#
    } else {
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage""#
    }
}

/// Gives the message an id of its own: the same id again would be the same task.
fn fresh(body: &str) -> Vec<u8> {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let number = SENT.fetch_add(1, Ordering::Relaxed);
    body.replacen(r#""attack""#, &format!(r#""attack-{number}""#), 1).into_bytes()
}

fn rpc(name: impl AsRef<str>, method: &'static str, make: impl Fn() -> String + 'static) -> Shape {
    let name = format!("A2A {method}: {}", name.as_ref());
    Shape::raw(name, "POST", format!("/a2a{VERSION}"), move || {
        fresh(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{}}}"#, make()))
    })
}

fn rest(name: impl AsRef<str>, make: impl Fn() -> String + 'static) -> Shape {
    let name = format!("A2A message:send: {}", name.as_ref());
    Shape::raw(name, "POST", "/a2a/message:send".to_owned(), move || fresh(&make()))
}

fn get(path: String) -> Shape {
    let name = format!("A2A GET {path:.60}");
    Shape::raw(name, "GET", path, Vec::new)
}

/// One value in each place of a request that a client chooses.
fn in_every_place(name: &'static str, fill: fn() -> String) -> Vec<Shape> {
    let at = |place: &str| format!("{place}: {name}");
    let mut shapes = vec![
        rpc(at("params"), "SendMessage", fill),
        rpc(at("message"), "SendMessage", move || format!(r#"{{"message":{}}}"#, fill())),
        rpc(at("messageId"), "SendMessage", move || {
            format!(r#"{{"message":{{"messageId":{},"role":"ROLE_USER","parts":[{{"text":"Hi"}}]}}}}"#, fill())
        }),
        rpc(at("contextId"), "SendMessage", move || format!(r#"{{"message":{MESSAGE},"contextId":{}}}}}"#, fill())),
        rpc(at("taskId"), "SendMessage", move || format!(r#"{{"message":{MESSAGE},"taskId":{}}}}}"#, fill())),
        rpc(at("message.metadata"), "SendMessage", move || {
            format!(r#"{{"message":{MESSAGE},"metadata":{}}}}}"#, fill())
        }),
        rpc(at("metadata"), "SendMessage", move || format!(r#"{{"message":{MESSAGE}}},"metadata":{}}}"#, fill())),
        rpc(at("configuration"), "SendMessage", move || {
            format!(r#"{{"message":{MESSAGE}}},"configuration":{}}}"#, fill())
        }),
        rpc(at("acceptedOutputModes"), "SendMessage", move || {
            format!(r#"{{"message":{MESSAGE}}},"configuration":{{"acceptedOutputModes":{}}}}}"#, fill())
        }),
        rpc(at("tools"), "SendMessage", move || format!(r#"{{"message":{MESSAGE}}},"tools":{}}}"#, fill())),
        rpc(at("parts"), "SendStreamingMessage", move || {
            format!(r#"{{"message":{{"messageId":"attack","role":"ROLE_USER","parts":{}}}}}"#, fill())
        }),
        rpc(at("toolResults"), "tasks/resume", move || {
            format!(r#"{{"taskId":"victim-query","toolResults":{}}}"#, fill())
        }),
        rest(at("parts"), move || {
            format!(r#"{{"message":{{"messageId":"attack","role":"ROLE_USER","parts":{}}}}}"#, fill())
        }),
        rest(at("a data part"), move || {
            format!(r#"{{"message":{{"messageId":"attack","role":"ROLE_USER","parts":[{{"data":{}}}]}}}}"#, fill())
        }),
    ];
    for member in ["id", "method", "jsonrpc"] {
        shapes.push(Shape::raw(format!("A2A `{member}`: {name}"), "POST", format!("/a2a{VERSION}"), move || {
            let params = format!(r#""params":{{"message":{MESSAGE}}}}}"#);
            let others = [("jsonrpc", r#""2.0""#), ("id", "1"), ("method", r#""SendStreamingMessage""#)];
            let others = others.iter().filter(|(other, _)| *other != member);
            let others: String = others.map(|(other, value)| format!(r#""{other}":{value},"#)).collect();
            fresh(&format!(r#"{{{others}"{member}":{},{params}}}"#, fill()))
        }));
    }
    for &method in METHODS {
        shapes.push(rpc(at("id of the task"), method, move || format!(r#"{{"id":{},"pageToken":{}}}"#, fill(), 1)));
    }
    shapes
}

/// What an operation does something costly with.
fn known() -> Vec<Shape> {
    let tools = |(name, tools): (&str, fn() -> serde_json::Value)| {
        rpc(format!("tools: {name}"), "SendMessage", move || {
            format!(r#"{{"message":{MESSAGE}}},"metadata":{{"{CLIENT_TOOLS}":{{"tools":{}}}}}}}"#, tools())
        })
    };
    let mut shapes: Vec<Shape> = schemas::ALL.iter().copied().step_by(6).map(tools).collect();
    shapes.extend([
        // Its id is in every event of a stream.
        Shape::raw("A2A a long id".to_owned(), "POST", format!("/a2a{VERSION}"), || {
            let params = format!(r#"{{"message":{MESSAGE}}}}}"#);
            format!(r#"{{"jsonrpc":"2.0","method":"SendStreamingMessage","params":{params},"id":{}}}"#, text("i"))
                .into_bytes()
        }),
        rpc("a long text", "SendStreamingMessage", || {
            format!(r#"{{"message":{{"messageId":"long","role":"ROLE_USER","parts":[{{"text":{}}}]}}}}"#, text("x"))
        }),
        rest("results in many parts", || {
            let results = format!(r#"{{"data":{{"toolResults":[{{"toolCallId":"call_{}"}}]}}}}"#, "0".repeat(26));
            format!(
                r#"{{"message":{{"taskId":"victim-query","messageId":"r","role":"ROLE_USER","parts":{}}}}}"#,
                dense(&results)
            )
        }),
        rest("parts without content", || {
            format!(r#"{{"message":{{"messageId":"p","role":"ROLE_USER","parts":{}}}}}"#, list("{}"))
        }),
        rest("a data part that is deep", || {
            format!(
                r#"{{"message":{{"messageId":"d","role":"ROLE_USER","parts":[{{"data":{}}}]}}}}"#,
                deep("[", "", "]", 58)
            )
        }),
        rest("metadata", || format!(r#"{{"message":{MESSAGE},"metadata":{}}}}}"#, object("\"v\""))),
        rest("both kinds of tools", || {
            let tools = list(r#"{"name":"t"}"#);
            format!(r#"{{"message":{MESSAGE}}},"tools":{tools}}}"#)
        }),
        rpc("results that are zeros", "tasks/resume", || {
            format!(r#"{{"taskId":"victim-query","toolResults":{}}}"#, list("0"))
        }),
        rpc("a batch", "SendMessage", || dense(r#"{"jsonrpc":"2.0"}"#)),
        get(format!("/a2a/tasks?pageSize={}", "9".repeat(20_000))),
        get("/a2a/tasks?pageSize=4294967296&historyLength=18446744073709551615&includeArtifacts=true".to_owned()),
        get(format!("/a2a/tasks?pageToken={}", "9.".repeat(10_000))),
        get(format!("/a2a/tasks/{}", "t".repeat(20_000))),
        get(format!("/a2a/tasks?{}", "contextId=c&".repeat(2_000))),
        rpc("a page of everything", "ListTasks", || {
            format!(r#"{{"pageSize":100,"includeArtifacts":true,"pageToken":{}}}"#, text("0"))
        }),
        Shape::raw("A2A `jsonrpc` of another version".to_owned(), "POST", "/a2a".to_owned(), || {
            format!(r#"{{"jsonrpc":"{}"}}"#, "2".repeat(SIZE)).into_bytes()
        }),
    ]);
    shapes
}
