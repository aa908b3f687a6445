//! For each route that takes a body: what is the worst that 1 MiB of it can do?
//!
//! It must not make the answer, the memory of the server or its work larger than in proportion to the body, and no
//! other client may notice: `/health` answers within a second.

use serde_json::{Value, json};

use super::{Attack, bodies, mib, target::Target};
use crate::support::{
    proof::{scale, seed},
    scenarios::{self, Scenario},
};

/// The maximum size of a refusal, and of what an answer repeats of a body.
const REFUSAL: u64 = 256 << 10;
const REPEATED: u64 = 4;
/// The limit of memory for one body: this, and a multiple of its own size.
const MEMORY: u64 = 64 << 20;
const TIMES: u64 = 24;
/// What one body may cost in processor time, in seconds, in a build without optimisation.
const CPU: f64 = 20.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_body_costs_more_than_a_small_multiple_of_itself() {
    let mut attack = Attack::begin("worst_bodies");
    let count = usize::try_from(scale("BOSUN_ATTACK_SHAPES", 72)).expect("a count");
    let mut target = Target::start(&[]).await;
    prepare(&target).await;
    let text = target.request("GET", "/openapi.json").send().await.expect("an answer").text().await.expect("a text");
    let description: Value = serde_json::from_str(&text).expect("a description");
    let shapes = bodies::shapes(&description, count, seed());
    let mut watch = target.watch();
    let at_rest = target.process().memory();
    let mut worst = WorstFigures::default();
    let (mut refused, mut taken) = (0, 0);
    for shape in &shapes {
        let body = shape.body();
        let length = body.len() as u64;
        assert!(length <= 1 << 20, "{} has {length} bytes", shape.name);
        let measure = target.measure();
        watch.take();
        let reply = target.send(&shape.method, &shape.path, shape.kind, body).await;
        // A query that was accepted is part of the cost of the body.
        if let Some(name) = reply.as_ref().and_then(created) {
            let ended = target.end_of(&format!("/v1/queries/{name}")).await;
            attack.expect(ended.length <= REFUSAL + REPEATED * length, || {
                format!("{}: shown in {} bytes", shape.name, ended.length)
            });
        }
        let (grown, cpu, latency) = (measure.grown(), measure.cpu(), watch.take());
        let name = &shape.name;
        let Some(reply) = reply.filter(|_| target.lives()) else {
            attack.violation(format!("{name}: no answer; {}", target.log()));
            target.restart().await;
            watch = target.watch();
            prepare(&target).await;
            continue;
        };
        let limit = if reply.status < 400 { REFUSAL + REPEATED * length } else { REFUSAL };
        attack.expect(reply.status < 500 || reply.status == 503, || format!("{name}: {}", reply.status));
        attack.expect(reply.length <= limit, || {
            format!("{name}: {} was answered with {} bytes", reply.status, reply.length)
        });
        attack.expect(grown <= MEMORY + TIMES * length, || format!("{name}: memory grew by {} MiB", mib(grown)));
        attack.expect(cpu <= CPU, || format!("{name}: {cpu} seconds of work"));
        attack.expect(!latency.is_too_long(), || format!("{name}: `/health` took {:?}", latency.attacked));
        *(if reply.status < 400 { &mut taken } else { &mut refused }) += 1;
        worst.answer.at_least(reply.length, name);
        worst.memory.at_least(grown, name);
        worst.health.at_least(latency.attacked.as_millis() as u64, name);
        worst.control.at_least(latency.control.as_millis() as u64, name);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
        worst.cpu.at_least((cpu * 1_000.0) as u64, name);
    }
    let kept = target.process().memory().saturating_sub(at_rest);
    attack.figure("shapes", shapes.len());
    attack.figure("taken", taken);
    attack.figure("refused", refused);
    attack.figure("memory_kept_mib", mib(kept));
    attack.figure("worst", worst.shown());
    attack.finish();
}

/// Creates what the paths of the shapes refer to.
async fn prepare(target: &Target) {
    let query = scenarios::query("victim-query", Scenario::Quick);
    // They may exist already.
    let _ = target.json("POST", "/v1/queries?wait=20s", &query).await;
    for (path, body) in [
        ("agents", json!({"name": "victim", "prompt": "p", "modelRef": {"name": "scripted"}})),
        ("memories", json!({"name": "victim"})),
        ("tools", json!({"name": "victim", "type": "external", "description": "d"})),
    ] {
        let _ = target.json("POST", &format!("/v1/{path}"), &body).await;
    }
}

/// The name of the query that was created, or the id of the task.
fn created(reply: &super::target::Reply) -> Option<String> {
    let task = ["/task/id", "/result/task/id"].iter().find_map(|path| reply.body.pointer(path)?.as_str());
    if let Some(task) = task {
        return Some(task.to_owned());
    }
    let name = reply.body["name"].as_str().or_else(|| reply.body.pointer("/metadata/name").and_then(Value::as_str))?;
    (reply.status == 200 && reply.body.get("state").is_some()).then(|| name.to_owned())
}

#[derive(Debug, Default)]
struct Figure {
    value: u64,
    shape: String,
}

impl Figure {
    fn at_least(&mut self, value: u64, shape: &str) {
        if value > self.value {
            *self = Self { value, shape: shape.to_owned() };
        }
    }

    fn shown(&self) -> Value {
        json!([self.value, self.shape])
    }
}

/// The worst of each figure, and the shape that it belongs to.
#[derive(Debug, Default)]
struct WorstFigures {
    answer: Figure,
    memory: Figure,
    cpu: Figure,
    health: Figure,
    control: Figure,
}

impl WorstFigures {
    fn shown(&self) -> Value {
        json!({
            "answer_bytes": self.answer.shown(), "memory_bytes": self.memory.shown(), "cpu_ms": self.cpu.shown(),
            "health_ms": self.health.shown(), "control_ms": self.control.shown(),
        })
    }
}
