//! A catalogue of a hundred thousand tools: loaded from text, looked up, searched; and merges.

use std::{hint::black_box, time::Duration};

use anyhow::{Context, ensure};
use bosun_convert::{ConvertOptions, Format, read};
use bosun_core::{
    Binding, Tool,
    tool::{
        catalog::{Catalog, Selection},
        toolset::{ToolSources, Toolset},
    },
};
use serde_json::json;

use crate::{
    clock::{Timed, processor_time},
    cycle::median,
    report::{Report, Verdict, micros},
};

const TOOLS: usize = 100_000;
/// The longest tool in the text.
const TOOL_BYTES: usize = 300;
const MERGED: usize = 10_000;

const GOAL_LOAD: Duration = Duration::from_secs(2);
const GOAL_LOOKUP_NANOS: f64 = 1_000.0;
const GOAL_SEARCH: Duration = Duration::from_millis(5);

const VERBS: [&str; 8] = ["fetch", "create", "update", "delete", "search", "list", "send", "archive"];
const NOUNS: [&str; 12] = [
    "email", "invoice", "contact", "calendar", "ticket", "document", "payment", "message", "report", "customer",
    "meeting", "shipment",
];

pub(crate) fn measure(rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let text = tool_config();
    let catalog = loading(&text, rounds.min(5), report)?;
    lookups(&catalog, rounds, report);
    searches(&catalog, rounds, report);
    merges(rounds, report);
    Ok(())
}

/// A `tool-config.json` of many tools, each a little different.
fn tool_config() -> String {
    let mut text = String::from("{\"tools\": [\n");
    for number in 0..TOOLS {
        let (verb, noun) = (VERBS[number % VERBS.len()], NOUNS[number % NOUNS.len()]);
        let tool = json!({
            "name": name(number),
            "description": format!("{verb} one {noun} of account {number}, by its identifier"),
            "category": noun,
            "providerConfigKey": format!("provider-{}", number % 40),
            "source": "action",
            "parameters": {"type": "object", "properties": {"id": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["id"]},
        });
        if number > 0 {
            text.push_str(",\n");
        }
        text.push_str(&tool.to_string());
    }
    text.push_str("\n]}\n");
    text
}

fn name(number: usize) -> String {
    format!("{}_{}_{number}", VERBS[number % VERBS.len()], NOUNS[number % NOUNS.len()])
}

fn loading(text: &str, rounds: usize, report: &mut Report) -> anyhow::Result<Catalog> {
    ensure!(text.lines().all(|line| line.len() <= TOOL_BYTES), "a tool has more than {TOOL_BYTES} bytes");
    let mut times = Vec::new();
    let mut loaded = None;
    for _ in 0..rounds {
        drop(loaded.take());
        let before = processor_time();
        let conversion = read(text, ConvertOptions { from: Some(Format::ToolConfig), ..ConvertOptions::default() })?;
        ensure!(conversion.faults.is_empty(), "{:?}", conversion.faults.first());
        let tools = conversion.tools.into_iter().map(|found| found.tool).collect();
        let catalog = Catalog::new(1, tools).map_err(|faults| anyhow::anyhow!("{:?}", faults.first()))?;
        times.push((processor_time() - before).as_secs_f64());
        loaded = Some(catalog);
    }
    let seconds = median(&mut times);
    report.line("catalog_load", &json!({"tools": TOOLS, "bytes": text.len(), "seconds": seconds}));
    report.row(
        "loading 100,000 tools from text",
        format!("{seconds:.2} s"),
        String::new(),
        format!("{} MB", text.len() / 1_000_000),
        format!("< {} s", GOAL_LOAD.as_secs()),
        Verdict::of(seconds < GOAL_LOAD.as_secs_f64()),
    );
    loaded.context("at least one round")
}

fn lookups(catalog: &Catalog, rounds: usize, report: &mut Report) {
    // All of them, far apart: adjacent lookups would hit the CPU's cache.
    let names: Vec<String> = (0..TOOLS).map(|number| name(number * 7_919 % TOOLS)).collect();
    let mut next = names.iter().cycle();
    let mut lookup = Timed::new(60, || _ = black_box(next.next().and_then(|name| catalog.find(black_box(name)))));
    let nanos = lookup.median_of(rounds);
    report.line("catalog_lookup", &json!({"tools": TOOLS, "ns": nanos}));
    report.row(
        "finding one of 100,000 by its name",
        format!("{nanos:.0} ns"),
        String::new(),
        String::new(),
        format!("< {:.0} µs", GOAL_LOOKUP_NANOS / 1e3),
        Verdict::of(nanos < GOAL_LOOKUP_NANOS),
    );
}

fn searches(catalog: &Catalog, rounds: usize, report: &mut Report) {
    let mut slowest = Duration::ZERO;
    // The last one is the worst case: words that appear in every tool.
    for text in ["send a message", "archive the invoice of account 4711", "one of account by its identifier limit id"] {
        let selection = Selection { text: Some(text.to_owned()), limit: Some(10), ..Selection::default() };
        let mut search = Timed::new(60, || _ = black_box(catalog.search(black_box(&selection))));
        let took = Duration::from_secs_f64(search.median_of(rounds) / 1e9);
        report.line("catalog_search", &json!({"tools": TOOLS, "text": text, "us": micros(took)}));
        slowest = slowest.max(took);
    }
    report.row(
        "searching 100,000 tools",
        format!("{:.2} ms", slowest.as_secs_f64() * 1e3),
        String::new(),
        "the slowest of three questions".to_owned(),
        format!("< {} ms", GOAL_SEARCH.as_millis()),
        Verdict::of(slowest < GOAL_SEARCH),
    );
}

/// Half of the tools from each side; every second name of the client also exists in the catalogue.
fn merges(rounds: usize, report: &mut Report) {
    let tools = |from: usize| -> Vec<Tool> {
        let range = from..from + MERGED / 2;
        range.map(|number| Tool::new(name(number), "A tool", json!({"type": "object"}), Binding::External)).collect()
    };
    let (ark, client) = (tools(0), tools(MERGED / 4));
    let mut times = Vec::new();
    let mut kept = 0;
    for _ in 0..rounds {
        let (ark, client) = (ark.clone(), client.clone());
        let before = processor_time();
        let toolset = Toolset::merge(ToolSources::Both, ark, client);
        times.push((processor_time() - before).as_secs_f64() * 1e3);
        kept = toolset.tools().len();
    }
    let millis = median(&mut times);
    report.line("merge", &json!({"tools": MERGED, "kept": kept, "ms": millis}));
    report.row(
        "merging 10,000 tools",
        format!("{millis:.2} ms"),
        String::new(),
        format!("{kept} stay; with their aliases"),
        String::new(),
        Verdict::None,
    );
}
