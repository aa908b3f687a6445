//! Workers against the whole program: the protocol, `bosun worker`, and kills around every commit of a claim.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::{
    program::{bosun, run, stdout},
    resources::{Answer, api},
    support::{
        server::{ProcessExit, Server, Started, World},
        soon,
    },
};

const MANIFESTS: &str = r"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: model.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: painter}
spec:
  tools: [{type: external, name: resize-image}, {type: external, name: send-image}]
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: resize-image}
spec:
  type: external
  description: Resizes an image
  annotations: {idempotentHint: true}
  inputSchema: {type: object, properties: {width: {type: integer}}, required: [width]}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: send-image}
spec: {type: external, description: Sends an image}
";

const SCRIPT: &str = r#"
scenes:
  - when: resize
    turns:
      - call: [{tool: resize-image, arguments: {width: 300}}]
      - say: "it is {{ result[0] }}"
  - when: send
    turns:
      - call: [{tool: send-image, arguments: {}}]
      - say: "sent: {{ result[0] }}"
"#;

fn world() -> World {
    let world = World::new();
    let manifests = world.path("manifests");
    std::fs::remove_dir_all(&manifests).unwrap();
    std::fs::create_dir_all(&manifests).unwrap();
    std::fs::write(manifests.join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.join("model.script.yaml"), SCRIPT).unwrap();
    world
}

fn query(name: &str, input: &str) -> Value {
    json!({"name": name, "input": input, "target": {"type": "agent", "name": "painter"}})
}

async fn ask(server: &Server, name: &str, input: &str) -> Value {
    api(server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&query(name, input))).await.body
}

async fn claim(server: &Server, parameters: &str) -> Value {
    let path = format!("/v1/namespaces/default/tool-calls?tools=resize-image,send-image{parameters}");
    let answer = api(server, "GET", &path, None).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

async fn post(server: &Server, call: &Value, what: &str, body: &Value) -> Answer {
    let id = call["id"].as_str().unwrap_or_default();
    api(server, "POST", &format!("/v1/namespaces/default/tool-calls/{id}/{what}"), Some(body)).await
}

#[track_caller]
fn check(answer: &Answer, status: u16, code: &str) {
    let found = answer.body["error"]["code"].as_str().unwrap_or_default();
    assert_eq!((answer.status, found), (status, code), "{}", answer.text);
}

#[tokio::test]
async fn a_call_is_claimed_kept_and_resolved_over_http() {
    let world = world();
    let server = world.start().await;
    let waiting = ask(&server, "q", "resize").await;
    assert_eq!((&waiting["status"], &waiting["toolCall"]["workers"]), (&json!("tool_call_required"), &json!(true)));
    let claimed = claim(&server, "&limit=5&lease=30s").await;
    let call = &claimed["items"][0];
    assert_eq!((&claimed["count"], &call["queryName"], &call["attempt"]), (&json!(1), &json!("q"), &json!(1)));
    assert_eq!((&call["name"], &call["arguments"]), (&json!("resize-image"), &json!({"width": 300})));
    assert_eq!(claim(&server, "").await["count"], 0);
    let lease = &call["lease"];
    let beat = post(&server, call, "heartbeat", &json!({"lease": lease, "for": "2m"})).await;
    assert_eq!(beat.status, 200, "{}", beat.text);
    assert!(beat.body["leasedUntil"].as_str() > call["leasedUntil"].as_str(), "{}", beat.text);
    check(&post(&server, call, "result", &json!({"lease": lease})).await, 422, "invalid_tool_result");
    check(&post(&server, call, "result", &json!({"result": 1})).await, 422, "invalid_tool_result");
    let foreign = json!({"lease": format!("{}.q", "0".repeat(32)), "result": 1});
    check(&post(&server, call, "result", &foreign).await, 409, "lease_lost");
    for lease in ["", "x.q", &format!("{}.nothing", "0".repeat(32))] {
        check(&post(&server, call, "result", &json!({"lease": lease, "result": 1})).await, 404, "call_not_found");
        check(&post(&server, call, "heartbeat", &json!({"lease": lease})).await, 404, "call_not_found");
    }
    let result = json!({"lease": lease, "result": "small.png"});
    let accepted = post(&server, call, "result", &result).await;
    assert_eq!((accepted.status, &accepted.body["status"]), (200, &json!("accepted")));
    assert_eq!(post(&server, call, "result", &result).await.body["status"], "replayed");
    check(&post(&server, call, "result", &json!({"lease": lease, "result": 2})).await, 409, "already_resolved");
    let done = api(&server, "GET", "/v1/queries/q?wait=20s&view=rfc", None).await.body;
    assert_eq!(done["response"], "it is small.png", "{done:#}");
}

#[tokio::test]
async fn what_a_worker_asks_for_has_ceilings() {
    use bosun_core::ceiling::{CALLS_CLAIMED, LEASE_SECONDS, WORKER_TOOLS};
    let world = world();
    let server = world.start().await;
    let get = async |parameters: &str| api(&server, "GET", &format!("/v1/tool-calls?{parameters}"), None).await;
    let tools = |count: usize| format!("tools={}", vec!["t"; count].join(","));
    assert_eq!(get(&tools(WORKER_TOOLS)).await.status, 200);
    check(&get(&tools(WORKER_TOOLS + 1)).await, 400, "invalid_parameter");
    assert_eq!(get(&format!("tools=t&limit={CALLS_CLAIMED}")).await.status, 200);
    check(&get(&format!("tools=t&limit={}", CALLS_CLAIMED + 1)).await, 400, "invalid_parameter");
    assert!(get(&format!("tools=t&lease={LEASE_SECONDS}s")).await.warnings.is_empty());
    let longer = get(&format!("tools=t&lease={}s", LEASE_SECONDS + 1)).await;
    assert!(longer.warnings.join(" ").contains("was shortened"), "{longer:?}");
    for faulty in ["", "tools=", "tools=t&limit=0", "tools=t&lease=soon"] {
        check(&get(faulty).await, 400, "invalid_parameter");
    }
}

#[tokio::test]
async fn bosun_worker_serves_the_tool_of_a_bosun_query() {
    let world = world();
    let server = world.start().await;
    let worker = |run: &str| {
        let mut command = bosun();
        command.args(["worker", "--run", run, "--server", &server.base]).stderr(Stdio::null()).kill_on_drop(true);
        command.spawn().expect("a worker")
    };
    let mut resizes = worker("resize-image=tr -dc 0-9");
    let answer =
        soon("an answer", run(bosun().args(["query", "--agent", "painter", "resize", "--server", &server.base]))).await;
    assert_eq!(stdout(&answer), "it is 300\n", "{answer:?}");
    let mut fails = worker("send-image=echo no stamp >&2; exit 3");
    let answer =
        soon("an answer", run(bosun().args(["query", "--agent", "painter", "send", "--server", &server.base]))).await;
    assert!(stdout(&answer).contains("no stamp"), "{answer:?}");
    resizes.kill().await.expect("it runs until it is stopped");
    fails.kill().await.expect("it runs until it is stopped");
    for faulty in [["--run", "a=y"], ["--lease", "601s"], ["--lease", "999ms"], ["--parallel", "33"]] {
        let mut command = bosun();
        command.args(["worker", "--run", "a=x", "--server", &server.base]).args(faulty);
        let refused = soon("a refusal", run(&mut command)).await;
        assert_eq!(refused.status.code(), Some(2), "{faulty:?}");
    }
}

#[tokio::test]
async fn a_large_result_of_a_worker_is_uploaded_under_its_lease() {
    let world = world();
    let server = world.start().await;
    ask(&server, "q", "send").await;
    let call = &claim(&server, "").await["items"][0];
    let (id, own) = (call["id"].as_str().unwrap(), call["lease"].as_str().unwrap());
    let upload = async |lease: &str, letter: &str| {
        let path = format!("/v1/queries/q/tool-calls/{id}/result?wait=0&lease={lease}");
        api(&server, "PUT", &path, Some(&json!(letter.repeat(2_000_000)))).await
    };
    check(&upload("garbage", "x").await, 400, "invalid_parameter");
    check(&upload(&format!("{}.q", "0".repeat(32)), "x").await, 409, "lease_lost");
    assert_eq!(upload(own, "x").await.status, 200);
    assert_eq!(upload(own, "x").await.status, 200, "the same again is a replay");
    check(&upload(own, "y").await, 409, "already_resolved");

    let mut command = bosun();
    let run_tool = "resize-image=head -c 3000000 /dev/zero | tr '\\0' y";
    command.args(["worker", "--run", run_tool, "--server", &server.base]).stderr(Stdio::null()).kill_on_drop(true);
    let mut worker = command.spawn().expect("a worker");
    let done = soon("the end", async {
        loop {
            let now = api(&server, "POST", "/v1/queries?wait=5s&view=rfc", Some(&query("p", "resize"))).await.body;
            if now["state"] == "completed" {
                return now;
            }
        }
    })
    .await;
    let [ran] = &done["toolExecutionHistory"].as_array().unwrap()[..] else { panic!("{done}") };
    assert_eq!((&ran["success"], &ran["largeResult"]["size"]), (&json!(true), &json!(3_000_000)), "{ran}");
    worker.kill().await.expect("it runs until it is stopped");
}

/// Kills the server around every commit of a claim. A call that was handed out stays with its worker, one that was
/// not is handed out later, and a call that must not run twice is never handed out twice.
#[tokio::test]
async fn claims_survive_kill_9_at_every_point() {
    for point in ["claim.appended", "claim.durable", "store.commit:4", "store.committed:4"] {
        for input in ["resize", "send"] {
            let world = world();
            let name = "q";
            let server = match soon("a start", world.spawn(Some(point)).ready()).await {
                Started::Ready(server) => *server,
                Started::Exited(exit) => panic!("{point}: {exit:?}"),
            };
            let mut server = server;
            let client = async |server: &Server, method: &str, path: &str, body: Option<&Value>| {
                crate::resources::send(server, method, path, body, &[]).await.ok()
            };
            client(&server, "POST", "/v1/queries?wait=5s", Some(&query(name, input))).await;
            let claim_path = "/v1/tool-calls?tools=resize-image,send-image&lease=2s";
            let handed_out = client(&server, "GET", claim_path, None).await.filter(|answer| answer.status == 200);
            let handed_out = handed_out.and_then(|answer| answer.body["items"].get(0).cloned());
            // A point that was not passed, or was passed later: the test kills.
            let _: ProcessExit = server.kill().await;
            let server = world.start().await;
            // A retry of the creation, in case it was not acknowledged.
            api(&server, "POST", "/v1/queries?wait=20s", Some(&query(name, input))).await;
            if let Some(call) = &handed_out {
                let delivered = post(&server, call, "result", &json!({"lease": call["lease"], "result": "kept"})).await;
                assert!(matches!(delivered.status, 200 | 409), "{point} {input}: {}", delivered.text);
            }
            let done = soon("the end", async {
                loop {
                    let now = api(&server, "GET", "/v1/queries/q?wait=1s&view=rfc", None).await.body;
                    if now["state"] == "completed" {
                        return now;
                    }
                    let claimed = api(&server, "GET", claim_path, None).await.body["items"].get(0).cloned();
                    if let Some(call) = claimed {
                        let attempt = call["attempt"].as_u64();
                        assert!(input == "resize" || attempt == Some(1), "{point}: handed out twice: {call}");
                        post(&server, &call, "result", &json!({"lease": call["lease"], "result": "again"})).await;
                    }
                }
            })
            .await;
            let history = done["toolExecutionHistory"].as_array().unwrap();
            assert_eq!(history.len(), 1, "{point} {input}: {done:#}");
            let succeeded = history[0]["success"] == true;
            assert!(succeeded || history[0]["error"]["code"] == "outcome_unknown", "{point} {input}: {done:#}");
        }
    }
}
