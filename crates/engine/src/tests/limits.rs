//! Limits: the defaults of the server, and its ceilings for what is asked for.

use std::{sync::Arc, time::Duration};

use bosun_core::{Namespace, QueryLimits, Tool, query::AskedLimits, tool::toolset::ToolSources};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, outside, registry, submission};
use crate::{
    Agent, Engine, EngineSettings, Model, Snapshot, Submission,
    blob::MemoryBlobs,
    memory::MemoryStore,
    testing::{CallLedger, ScriptedModel, ScriptedTurn, TokioClock},
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn ask(limits: AskedLimits, tool: Tool) -> Snapshot {
    let defaults = QueryLimits { external_timeout: seconds(10), max_tool_calls: 10, ..QueryLimits::default() };
    let ceilings = QueryLimits { external_timeout: seconds(1_000), max_tool_calls: 100, ..defaults };
    let settings = EngineSettings { limits: defaults, ceilings, ..EngineSettings::default() };
    let script = ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({})), ScriptedTurn::say("done")]);
    let world = EngineWorld::with_settings(script, CallLedger::open(), settings).await;
    let asked = Submission { limits, ..submission("q", vec![tool]) };
    world.engine.submit(asked, PATIENCE).await.unwrap().snapshot
}

/// How long the call waits, and whether there is a warning about it.
async fn check(asked: Option<u64>, of_tool: Option<u64>, expect: (u64, bool)) {
    let limits = AskedLimits { external_timeout: asked.map(seconds), ..AskedLimits::default() };
    let paused = ask(limits, Tool { timeout: of_tool.map(seconds), ..outside("ask") }).await;
    let waits = paused.head.deadline().unwrap().since(paused.head.updated_at);
    let warned = paused.transcript.spec.warnings.iter().any(|warning| warning.contains("was narrowed"));
    assert_eq!((waits.as_secs(), warned), expect, "asked {asked:?}, tool {of_tool:?}");
}

#[tokio::test(start_paused = true)]
async fn a_query_and_a_tool_get_what_they_ask_for_up_to_the_ceiling() {
    check(None, None, (10, false)).await;
    check(Some(500), None, (500, false)).await;
    // The edge warns of what a request asks for.
    check(Some(5_000), None, (1_000, false)).await;
    check(Some(5), None, (5, false)).await;
    check(None, Some(500), (500, false)).await;
    check(None, Some(5_000), (1_000, true)).await;
    check(None, Some(5), (5, false)).await;
    // What the query has asked for bounds its tools.
    check(Some(5), Some(500), (5, true)).await;
    check(Some(500), Some(20), (20, false)).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_asks_for_more_than_the_ceiling_gets_the_ceiling_and_a_warning() {
    let narrowed = "`external-timeout` of agent `agent`, 1h23m20s, was narrowed to the limit of 16m40s";
    for (asked, expect, warning) in [(500, 500, None), (5_000, 1_000, Some(narrowed))] {
        let model: Arc<dyn Model> = Arc::new(ScriptedModel::always(vec![ScriptedTurn::say("done")]));
        let mut registry = registry(&model, &Arc::new(CallLedger::open()));
        let limits = AskedLimits { external_timeout: Some(seconds(asked)), ..AskedLimits::default() };
        let agent = Agent::clone(registry.agent(&Namespace::default(), "agent").unwrap());
        registry.add_agent(Agent { limits, ..agent });
        let ceilings = QueryLimits { external_timeout: seconds(1_000), ..QueryLimits::default() };
        let settings = EngineSettings { ceilings, ..EngineSettings::default() };
        let (store, blobs, clock) = (MemoryStore::new(), MemoryBlobs::new(), TokioClock::new());
        let engine = Engine::start(Arc::new(store), Arc::new(blobs), registry, Arc::new(clock), settings).await;
        let done = engine.unwrap().submit(submission("q", Vec::new()), PATIENCE).await.unwrap().snapshot;
        let warnings = &done.transcript.spec.warnings;
        let found: Vec<_> = warnings.iter().filter(|warning| warning.contains("was narrowed")).collect();
        assert_eq!(done.head.limits.external_timeout, seconds(expect), "{asked}");
        assert_eq!(found, Vec::from_iter(warning), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_time_has_a_default_and_a_ceiling() {
    let all = |time| QueryLimits {
        query_timeout: time,
        tool_timeout: time,
        external_timeout: time,
        approval_timeout: time,
        ttl: time,
        ..QueryLimits::default()
    };
    let (limits, ceilings) = (all(seconds(10)), all(seconds(1_000)));
    for (asked, expect) in [(None, 10), (Some(5), 5), (Some(500), 500), (Some(5_000), 1_000)] {
        let asked_time = asked.map(seconds);
        let asked_limits = AskedLimits {
            query_timeout: asked_time,
            tool_timeout: asked_time,
            external_timeout: asked_time,
            approval_timeout: asked_time,
            ttl: asked_time,
            ..AskedLimits::default()
        };
        let settings = EngineSettings { limits, ceilings, ..EngineSettings::default() };
        let model = ScriptedModel::always(vec![ScriptedTurn::say("done")]);
        let world = EngineWorld::with_settings(model, CallLedger::open(), settings).await;
        let query = Submission { limits: asked_limits, ..submission("q", Vec::new()) };
        let done = world.engine.submit(query, PATIENCE).await.unwrap().snapshot;
        assert_eq!(done.head.limits, all(seconds(expect)), "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_calls_has_a_default_and_a_ceiling() {
    for (asked, expect) in [(None, 10), (Some(3), 3), (Some(50), 50), (Some(500), 100)] {
        let limits = AskedLimits { max_tool_calls: asked, ..AskedLimits::default() };
        assert_eq!(ask(limits, outside("ask")).await.head.limits.max_tool_calls, expect, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_the_client_that_the_agent_hides_is_warned_about() {
    for (tool_sources, name, warned) in [
        (ToolSources::Both, "once", true),
        (ToolSources::Both, "ask", false),
        (ToolSources::Client, "once", false),
        (ToolSources::Catalog, "once", false),
    ] {
        let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
        let asked = Submission { tool_sources, ..submission("q", vec![outside(name)]) };
        let done = world.engine.submit(asked, PATIENCE).await.unwrap().snapshot;
        let warning = "tool `once` of the client is not used: the agent has a tool of that name";
        assert_eq!(
            done.transcript.spec.warnings.iter().any(|found| found == warning),
            warned,
            "{tool_sources:?} {name}"
        );
    }
}
