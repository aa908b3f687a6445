//! Conversion of tools as `bosun convert` does it, from text to text, against parsing the same text alone.
//!
//! Both sides run in turns and are measured in CPU time. Descriptions of real APIs are not part of the project: the
//! variable `BOSUN_BENCH_OPENAPI` lists files, separated by colons.

use std::{fs, hint::black_box, path::Path};

use anyhow::{Context, ensure};
use bosun_convert::{ConvertOptions, Format, check, document::Document, write};
use serde_json::{Value, json};

use crate::{
    clock::{Rounds, Timed},
    cycle::median,
    report::{Figure, Goal, Report},
};

/// CPU time of one round of one case.
const ROUND_MILLIS: u64 = 60;

/// Positions on one line may not cost much more than over many.
const GOAL_ONE_LINE: f64 = 1.5;

/// Bytes of the texts that are written on one line.
const LINE_BYTES: usize = 1_000_000;

/// Tools of these texts: fewer than the problems that are told of one text.
const LINE_TOOLS: usize = 900;

/// Letters of the description of each tool.
const DESCRIPTION_LETTERS: usize = 1_000;

pub(crate) fn measure(rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    one_line("an MCP list", &mcp_list(), rounds, report)?;
    one_line("an n8n export", &n8n_export(), rounds, report)?;
    let listed = std::env::var("BOSUN_BENCH_OPENAPI").unwrap_or_default();
    for file in listed.split(':').filter(|file| !file.is_empty()) {
        description(Path::new(file), rounds, report).with_context(|| file.to_owned())?;
    }
    Ok(())
}

/// The number of tools and of problems; the written text is dropped.
fn convert(text: &str, target: Format) -> anyhow::Result<(usize, usize)> {
    let checked = check(text, ConvertOptions::default());
    let written = write(&checked.tools, target)?;
    black_box(written.documents.to_json());
    let warnings = written.warnings.into_iter().map(|warning| black_box(checked.placed(warning))).count();
    Ok((checked.tools.len(), checked.problems.len() + warnings))
}

/// A text of a megabyte on one line, every tool of which has a warning with its position, against the same data over
/// many lines.
fn one_line(what: &str, value: &Value, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let (line, pretty) = (value.to_string(), format!("{value:#}"));
    ensure!(line.len() > LINE_BYTES && !line.contains('\n'), "{what} is one line of a megabyte");
    let (tools, problems) = convert(&line, Format::ExternalTools)?;
    ensure!(tools > 0 && problems >= tools, "{what} has a problem for each of its {tools} tools, not {problems}");
    ensure!(convert(&pretty, Format::ExternalTools)? == (tools, problems), "{what} reads the same on many lines");
    let mut one = Timed::new(ROUND_MILLIS, || _ = black_box(convert(black_box(&line), Format::ExternalTools)));
    let mut many = Timed::new(ROUND_MILLIS, || _ = black_box(convert(black_box(&pretty), Format::ExternalTools)));
    let (one, many) = in_turns(rounds, &mut one, &mut many);
    report.figure(&Figure {
        what: &format!("{what} of {tools} tools on one line"),
        value: median(&mut one.clone()) / 1e6,
        unit: "ms",
        floor: Some(median(&mut many.clone()) / 1e6),
        ratio: Some(ratio(&one, &many)),
        goal: Goal::RatioAtMost(GOAL_ONE_LINE),
        n: rounds,
        note: "floor: pretty-printed".to_owned(),
        details: json!({"bytes": line.len(), "pretty_bytes": pretty.len(), "problems": problems}),
    });
    Ok(())
}

/// A description from a file, as the manifests of its operations, against the parser of its syntax.
fn description(file: &Path, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let text = fs::read_to_string(file)?;
    let (tools, problems) = convert(&text, Format::ArkManifest)?;
    let is_json = text.trim_start().starts_with('{');
    let parse = || if is_json { serde_json::from_str::<Value>(&text).is_ok() } else { parses_as_yaml(&text) };
    ensure!(parse(), "the parser alone refuses it");
    let mut ours = Timed::new(ROUND_MILLIS, || _ = black_box(convert(black_box(&text), Format::ArkManifest)));
    let mut parsing = Timed::new(ROUND_MILLIS, || _ = black_box(parse()));
    let mut document = Timed::new(ROUND_MILLIS, || _ = black_box(Document::read(black_box(&text)).is_ok()));
    let document_millis = document.median_of(rounds) / 1e6;
    let (ours, parsing) = in_turns(rounds, &mut ours, &mut parsing);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let parser = if is_json { "serde_json" } else { "serde-saphyr" };
    report.figure(&Figure {
        what: &format!("{tools} tools of {name}"),
        value: median(&mut ours.clone()) / 1e6,
        unit: "ms",
        floor: Some(median(&mut parsing.clone()) / 1e6),
        ratio: Some(ratio(&ours, &parsing)),
        n: rounds,
        note: format!("floor: {parser} alone; {document_millis:.0} ms with our own ceilings"),
        details: json!({"bytes": text.len(), "tools": tools, "problems": problems, "document_ms": document_millis}),
        ..Figure::default()
    });
    Ok(())
}

/// Into values, without the ceilings for texts that are not trusted.
fn parses_as_yaml(text: &str) -> bool {
    let budget =
        serde_saphyr::budget! { max_events: usize::MAX, max_nodes: usize::MAX, max_total_scalar_bytes: usize::MAX };
    serde_saphyr::from_str_with_options::<Value>(text, serde_saphyr::options! { budget: budget }).is_ok()
}

fn in_turns(rounds: usize, ours: &mut dyn Rounds, floor: &mut dyn Rounds) -> (Vec<f64>, Vec<f64>) {
    (0..rounds).map(|_| (ours.round(), floor.round())).unzip()
}

/// The median of the ratios of the rounds: a slow minute of the machine counts on both sides.
fn ratio(ours: &[f64], floor: &[f64]) -> f64 {
    median(&mut ours.iter().zip(floor).map(|(ours, floor)| ours / floor).collect::<Vec<_>>())
}

fn long_description() -> String {
    "Größe ".chars().cycle().take(DESCRIPTION_LETTERS).collect()
}

/// Tools with a keyword that is misspelt.
fn mcp_list() -> Value {
    let tool = |number: usize| {
        let property = json!({"type": "string", "description": long_description(), "requried": true});
        json!({"name": format!("tool_{number}"), "inputSchema": {"type": "object", "properties": {"p": property}}})
    };
    json!({"tools": (0..LINE_TOOLS).map(tool).collect::<Vec<_>>()})
}

/// Nodes whose descriptions only n8n knows.
fn n8n_export() -> Value {
    let name = |number: usize| format!("Größe {number}");
    let limit = format!("={{{{ $fromAI('limit', '{}', 'number') }}}}", long_description());
    let node = |number: usize| {
        json!({
            "name": name(number), "type": "n8n-nodes-base.gmailTool", "typeVersion": 2.1, "position": [number, 0],
            "parameters": {"operation": "getAll", "limit": limit},
        })
    };
    let wire = |number: usize| (name(number), json!({"ai_tool": [[{"node": "Agent", "type": "ai_tool", "index": 0}]]}));
    let agent = json!({"name": "Agent", "type": "@n8n/n8n-nodes-langchain.agent", "typeVersion": 2, "parameters": {}});
    let nodes: Vec<Value> = std::iter::once(agent).chain((0..LINE_TOOLS).map(node)).collect();
    json!({"nodes": nodes, "connections": (0..LINE_TOOLS).map(wire).collect::<serde_json::Map<_, _>>()})
}
