//! The validation of arguments, from text to verdict, compared with ajv and Zod on the same bytes.
//!
//! Both sides run in turns, in many short rounds, and are measured in CPU time: other work of the machine then affects
//! both, or neither. All faults are collected on every side. Ours also refuses what `JSON.parse` accepts (duplicate
//! keys, excessive depth), in the same pass.

use std::{
    fs,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, ensure};
use bosun_convert::zod::{ZodOptions, ZodVersion, convert};
use bosun_core::Schema;
use serde_json::{Value, json};

use crate::{
    clock::{Rounds, Timed, spread},
    cycle::median,
    report::{Report, Verdict},
};

/// CPU time of one round of one case.
const ROUND_MILLIS: u64 = 60;

/// One tool with its arguments, and the goals relative to ajv and Zod 4.
struct Goal {
    tool: &'static str,
    ajv: Option<f64>,
    zod: Option<f64>,
}

const GOALS: [Goal; 3] = [
    Goal { tool: "calculator", ajv: None, zod: None },
    Goal { tool: "http_request", ajv: Some(1.0), zod: Some(2.0) },
    Goal { tool: "create_order", ajv: Some(1.0), zod: Some(2.0) },
];

/// Measures everything about schemas.
pub(crate) fn measure(root: &Path, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let fixtures = root.join("fixtures/validation");
    let fixture = |file: &str| fs::read_to_string(fixtures.join(file)).with_context(|| file.to_owned());
    let schemas: Value = serde_json::from_str(&fixture("tools.json")?)?;
    let texts: Value = serde_json::from_str(&fixture("args.json")?)?;
    let mut peers = Peers::start(root, &fixtures)?;
    for goal in &GOALS {
        let schema = Schema::compile(&Arc::new(schemas[goal.tool].clone()))?;
        for verdict in ["valid", "invalid"] {
            let text = texts[goal.tool][verdict].as_str().context("arguments are text")?;
            ensure!(schema.check_arguments(text).is_ok() == (verdict == "valid"), "{} {verdict}", goal.tool);
            let mut ours = Timed::new(ROUND_MILLIS, || _ = black_box(schema.check_arguments(black_box(text))));
            compare(goal, verdict, &mut ours, &mut peers, rounds, report)?;
        }
    }
    compiling(&schemas, rounds, report)?;
    converting(&fixture("tools.ts")?, &mut peers, rounds, report)?;
    peers.stop()
}

fn compare(
    goal: &Goal,
    verdict: &str,
    ours: &mut dyn Rounds,
    peers: &mut Peers,
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let tool = goal.tool;
    let mut own = Vec::new();
    let (mut ajv, mut zod3, mut zod4) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        own.push(ours.round());
        ajv.push(peers.round(&format!("{tool} {verdict} ajv"))?);
        zod4.push(peers.round(&format!("{tool} {verdict} zod4"))?);
        zod3.push(peers.round(&format!("{tool} {verdict} zod3"))?);
    }
    // Per round, so that a slow minute of the machine counts on both sides.
    let times_faster =
        |peer: &[f64]| median(&mut own.iter().zip(peer).map(|(own, peer)| peer / own).collect::<Vec<_>>());
    let (than_ajv, than_zod3, than_zod4) = (times_faster(&ajv), times_faster(&zod3), times_faster(&zod4));
    report.line(
        "arguments",
        &json!({
            "tool": tool, "arguments": verdict, "rounds": rounds,
            "bosun_ns": median(&mut own), "ajv_ns": median(&mut ajv), "zod3_ns": median(&mut zod3), "zod4_ns": median(&mut zod4),
            "spread": spread(&own), "ajv_spread": spread(&ajv),
            "times_ajv": than_ajv, "times_zod3": than_zod3, "times_zod4": than_zod4,
        }),
    );
    let goals = [("ajv", than_ajv, goal.ajv), ("Zod 4", than_zod4, goal.zod)];
    let goals: Vec<_> = goals.into_iter().filter_map(|(peer, is, goal)| Some((peer, is, goal?))).collect();
    let (wanted, reached) = if verdict == "valid" && !goals.is_empty() {
        let wanted: Vec<_> = goals.iter().map(|(peer, _, goal)| format!("≥ {goal:.1} × {peer}")).collect();
        (wanted.join(", "), Verdict::of(goals.iter().all(|(_, is, goal)| is >= goal)))
    } else {
        (String::new(), Verdict::None)
    };
    report.row(
        &format!("arguments of {tool}, {verdict}"),
        format!("{:.2} µs", median(&mut own) / 1e3),
        format!("ajv {:.2} µs", median(&mut ajv) / 1e3),
        format!("{than_ajv:.2} × ajv, {than_zod4:.1} × Zod 4, {than_zod3:.1} × Zod 3"),
        wanted,
        reached,
    );
    Ok(())
}

/// The cost of compiling, which a tool pays once.
fn compiling(schemas: &Value, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    for goal in &GOALS {
        let source = Arc::new(schemas[goal.tool].clone());
        let mut compile = Timed::new(ROUND_MILLIS, || _ = black_box(Schema::compile(black_box(&source))));
        let nanos = compile.median_of(rounds);
        report.line("compile", &json!({"tool": goal.tool, "bosun_ns": nanos}));
        if goal.tool == "create_order" {
            let once = "once a tool and content".to_owned();
            report.row(
                "compiling its schema",
                format!("{:.0} µs", nanos / 1e3),
                String::new(),
                once,
                String::new(),
                Verdict::None,
            );
        }
    }
    Ok(())
}

/// From the source of three tools to their JSON Schemas. The packages get schemas that are constructed anew by running
/// the same source; ours has to parse it as text.
fn converting(source: &str, peers: &mut Peers, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    for (version, peer, name) in [(ZodVersion::V3, "zod3", "Zod 3"), (ZodVersion::V4, "zod4", "Zod 4")] {
        let options = ZodOptions { version: Some(version), ..ZodOptions::default() };
        ensure!(convert(source, "tools.ts", options).is_ok_and(|converted| converted.tools.len() == 3), "tools.ts");
        let mut ours = Timed::new(ROUND_MILLIS, || _ = black_box(convert(black_box(source), "tools.ts", options)));
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            own.push(ours.round());
            theirs.push(peers.round(&format!("tools convert {peer}"))?);
        }
        let times = median(&mut own.iter().zip(&theirs).map(|(own, peer)| peer / own).collect::<Vec<_>>());
        report.line(
            "convert",
            &json!({"peer": peer, "bosun_ns": median(&mut own), "peer_ns": median(&mut theirs), "times": times}),
        );
        report.row(
            &format!("three tools from {name} source"),
            format!("{:.0} µs", median(&mut own) / 1e3),
            format!("{:.0} µs", median(&mut theirs) / 1e3),
            format!("{times:.1} × the package that runs it"),
            String::new(),
            Verdict::None,
        );
    }
    Ok(())
}

/// The process of the peers.
struct Peers {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peers {
    fn start(root: &Path, fixtures: &Path) -> anyhow::Result<Self> {
        let script = root.join("bench/peers/validate.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(fixtures)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the peers need Node.js")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, answers })
    }

    /// CPU time of one run of a case, in nanoseconds.
    fn round(&mut self, name: &str) -> anyhow::Result<f64> {
        let input = self.child.stdin.as_mut().context("a pipe")?;
        writeln!(input, "{}", json!({"name": name, "millis": ROUND_MILLIS}))?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("the peers said nothing on {name}"))?;
        answer["nanos"].as_f64().context("a number")
    }

    fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the peers ended with {status}");
        Ok(())
    }
}
