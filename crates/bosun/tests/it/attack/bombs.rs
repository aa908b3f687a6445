//! Small requests that expand: templates (H3), compiled patterns (H4), lists of faults (H6).

use serde_json::{Value, json};

use super::{Attack, schemas, target::Target};
use crate::support::proof::scale;

/// The maximum size of a refusal.
const REFUSAL: u64 = 256 << 10;
/// What one such request may cost: 64 MiB, and 24 times itself.
fn memory(body: usize) -> u64 {
    (64 << 20) + 24 * body as u64
}

fn query(fields: &Value) -> Value {
    let mut query = json!({"input": "text", "target": {"type": "agent", "name": "prover"}});
    for (name, value) in fields.as_object().expect("fields") {
        query[name] = value.clone();
    }
    query
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_expands_to_gigabytes_is_refused() {
    let mut attack = Attack::begin("h3_template_bombs");
    // Less than the report's 980 KB: its expansion kills an unfixed server, but not the machine.
    let kib = usize::try_from(scale("BOSUN_ATTACK_TEMPLATE", 100)).expect("a size");
    let (text, value) = ("{{.a}}".repeat(kib * 1024 / 6), "x".repeat(kib * 1024));
    let parameters = json!([{"name": "a", "value": value}]);
    let bodies = [
        ("/v1/queries", query(&json!({"input": text, "parameters": parameters}))),
        (
            "/v1/queries",
            query(&json!({"type": "messages", "input": [{"role": "user", "content": text}], "parameters": parameters})),
        ),
        (
            "/v1/agents",
            json!({"name": "bomb", "prompt": text, "modelRef": {"name": "scripted"}, "parameters": parameters}),
        ),
    ];
    let mut target = Target::start(&[]).await;
    let mut watch = target.watch();
    for (path, body) in &bodies {
        let measure = target.measure();
        let length = body.to_string().len();
        let reply = target.json("POST", path, body).await;
        let Some(reply) = reply else {
            attack.violation(format!("{path}: no answer to {length} bytes; {}", target.log()));
            target.restart().await;
            watch = target.watch();
            continue;
        };
        if body["type"] == "messages" {
            // Messages are not templates: they may be accepted as they are.
            attack.expect(reply.status < 500, || format!("{path}: {} {}", reply.status, reply.code()));
        } else if *path == "/v1/queries" {
            let refused = (reply.status, reply.code()) == (422, "input_too_large");
            attack.expect(refused || reply.status == 413, || format!("{path}: {} {}", reply.status, reply.code()));
        } else if reply.status == 200 {
            // The prompt is filled in when it is used.
            let asked = json!({"name": "of-bomb", "input": "text", "target": {"type": "agent", "name": "bomb"}});
            let reply = target.json("POST", "/v1/queries", &asked).await.unwrap_or_default();
            let ended = if reply.status == 200 { target.end_of("/v1/queries/of-bomb").await } else { reply };
            attack.expect(ended.state() != "completed", || "the prompt was filled in".to_owned());
        }
        // An accepted resource is shown again, in two views.
        let shown = if reply.status == 200 { 4 * length as u64 } else { 0 };
        attack.expect(reply.length <= REFUSAL + shown, || format!("{path}: {} bytes answered", reply.length));
        measure.judge(&mut attack, &watch, memory(length));
    }
    attack.expect(target.lives(), || "the server has ended".to_owned());
    attack.figure("template_kib", kib);
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_that_compile_to_gigabytes_are_refused() {
    let mut attack = Attack::begin("h4_pattern_bombs");
    let mut target = Target::start(&[]).await;
    let mut watch = target.watch();
    let most = usize::try_from(scale("BOSUN_ATTACK_PATTERNS", 700)).expect("a count");
    // No two rounds share a pattern: the cache of the first one does not help the second.
    for (round, count) in [most / 4, most, most].into_iter().enumerate() {
        let tools = schemas::pattern_bomb(count, &format!("[^{round}]{{500}}"));
        let body = query(&json!({"externalTools": tools}));
        let (length, measure) = (body.to_string().len(), target.measure());
        match target.json("POST", "/v1/queries", &body).await {
            None => {
                attack.violation(format!("{count} patterns: no answer; {}", target.log()));
                target.restart().await;
                watch = target.watch();
            }
            Some(reply) => {
                attack.expect(reply.status < 500, || format!("{count} patterns: {}", reply.status));
                attack.expect(reply.length <= REFUSAL + 4 * length as u64, || format!("{} bytes", reply.length));
            }
        }
        measure.judge(&mut attack, &watch, memory(length));
    }
    attack.figure("patterns", most);
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_a_request_are_counted_and_not_all_listed() {
    let mut attack = Attack::begin("h6_lists_of_faults");
    let mut target = Target::start(&[]).await;
    let mut watch = target.watch();
    let items = usize::try_from(scale("BOSUN_ATTACK_FAULTS", 200_000)).expect("a count");
    let at_once = scale("BOSUN_ATTACK_FAULTS_AT_ONCE", 4);
    let zeros = format!("[{}0]", "0,".repeat(items));
    let result = "/v1/queries/none/tool-result";
    for (path, field) in [
        ("/v1/queries", "tools"),
        ("/v1/queries", "externalTools"),
        ("/v1/queries", "parameters"),
        (result, "toolResults"),
        ("/v1/agents", "tools"),
        ("/v1/teams", "members"),
    ] {
        let body =
            format!(r#"{{"input":"text","target":{{"type":"agent","name":"prover"}},"name":"f","{field}":{zeros}}}"#);
        let measure = target.measure();
        let requests = (0..at_once).map(|_| target.send("POST", path, "application/json", body.clone().into_bytes()));
        for reply in futures_util::future::join_all(requests).await {
            match reply {
                None => attack.violation(format!("{path} {field}: no answer; {}", target.log())),
                Some(reply) => {
                    let (status, length) = (reply.status, reply.length);
                    attack.expect((400..500).contains(&status), || format!("{path} {field}: {status}"));
                    attack.expect(length <= REFUSAL, || format!("{path} {field}: {length} bytes"));
                }
            }
        }
        measure.judge(&mut attack, &watch, at_once * memory(body.len()));
        if !target.lives() {
            target.restart().await;
            watch = target.watch();
        }
    }
    attack.figure("faults", items);
    attack.figure("at_once", at_once);
    attack.finish();
}
