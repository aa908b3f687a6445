//! The usage of tools, as an answer.

use std::sync::Arc;

use bosun_core::usage::{CallTally, Hour, UsageTotals, ratio};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ark::{
    describe::{DescribedAnswer, DescribedBody, Operation, declared, schema},
    params::UsageFilter,
};

pub(crate) const OPERATION: Operation = Operation {
    method: "get",
    path: "/tools/usage",
    id: "getToolUsage",
    summary: "Calls, errors and latencies of tools, by tool, agent and source",
    parameters: declared::<UsageFilter>,
    body: DescribedBody::None,
    answer: DescribedAnswer::Json(schema::<UsageReport>),
    errors: &[],
};

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageReport {
    /// The beginning of the first hour that is counted.
    since: String,
    /// The most used first.
    tools: Vec<ToolUsage>,
    /// The same by agent.
    agents: Vec<OfAgent>,
    sources: Vec<OfSource>,
    queries: Queries,
    coverage: Coverage,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ToolUsage {
    tool: Arc<str>,
    /// `inside`, `outside`, or `refused`: it was not run.
    source: &'static str,
    #[serde(flatten)]
    figures: CallFigures,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OfAgent {
    agent: Arc<str>,
    tool: Arc<str>,
    source: &'static str,
    #[serde(flatten)]
    figures: CallFigures,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OfSource {
    source: &'static str,
    #[serde(flatten)]
    figures: CallFigures,
}

/// Calls that have their outcome. Latencies are in milliseconds, within 6 %: from start to end inside, from
/// hand-out to result outside.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CallFigures {
    calls: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<u64>,
}

impl CallFigures {
    fn of(tally: &CallTally) -> Self {
        let quantile = |share| tally.latency.quantile(share);
        Self { calls: tally.calls, errors: tally.errors, p50_ms: quantile(0.5), p95_ms: quantile(0.95) }
    }
}

/// Queries that have ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Queries {
    count: u64,
    /// Failed or cancelled.
    failed: u64,
    with_inside_tools: u64,
    with_outside_tools: u64,
    /// With tools of both kinds.
    mixed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_with_outside_tools: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_per_query: Option<f64>,
    /// Different tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_per_query: Option<f64>,
}

/// The share of all calls that the most used tools have.
#[derive(Debug, Serialize, JsonSchema)]
struct Coverage {
    top: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
}

pub(crate) fn report(usage: &UsageTotals, since: Hour, top: usize) -> UsageReport {
    let queries = usage.all_queries();
    let tool = |((tool, source), tally): ((Arc<str>, bosun_core::audit::CallSource), CallTally)| ToolUsage {
        tool,
        source: source.as_str(),
        figures: CallFigures::of(&tally),
    };
    UsageReport {
        since: since.begin().to_rfc3339(),
        tools: usage.by_tool().into_iter().map(tool).collect(),
        agents: usage
            .calls
            .iter()
            .map(|(key, tally)| OfAgent {
                agent: key.agent.clone(),
                tool: key.tool.clone(),
                source: key.source.as_str(),
                figures: CallFigures::of(tally),
            })
            .collect(),
        sources: usage
            .by_source()
            .iter()
            .map(|(source, tally)| OfSource { source: source.as_str(), figures: CallFigures::of(tally) })
            .collect(),
        queries: Queries {
            count: queries.queries,
            failed: queries.failed,
            with_inside_tools: queries.with_inside,
            with_outside_tools: queries.with_outside,
            mixed: queries.mixed,
            share_with_outside_tools: ratio(queries.with_outside, queries.queries),
            calls_per_query: ratio(queries.calls, queries.queries),
            tools_per_query: ratio(queries.tools, queries.queries),
        },
        coverage: Coverage { top, share: usage.coverage(top) },
    }
}
