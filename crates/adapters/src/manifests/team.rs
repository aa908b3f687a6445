//! Teams: agents and teams that work on a query together.
//!
//! They are read and checked, so that files that contain them can be used. This version does not run them.

use super::{
    document::{Document, LocatedManifest, ManifestMetadata},
    reference::{Reference, Referrer},
};
use bosun_reading::{Fields, Text, spec};

const STRATEGIES: &str = "strategies are `sequential`, `round-robin`, `selector` and `graph`";

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<Referrer>> {
    let spec = fields.required_fields("spec", "a team has `members` and a `strategy`")?.with_table(spec::TEAM);
    let mut references = Vec::new();
    spec.require("members", "a list of `{name: …, type: agent}`");
    for member in spec.entries("members") {
        let member = member.with_table(spec::TEAM_MEMBER);
        let name = member.required_text("name", "the name of an agent or a team");
        let kind = member.text("type");
        member.finish();
        let kind = match kind.map(|kind| kind.value) {
            None | Some("agent") => Document::Agent,
            Some("team") => Document::Team,
            Some(other) => {
                let place = kind.map_or(member.place(), |kind| kind.place);
                member.fault(place, "bad_value", format!("a member is an agent or a team, not `{other}`"), "");
                continue;
            }
        };
        let Some(name) = name else { continue };
        if references.iter().any(|earlier: &Reference| earlier.name == name.value) {
            let message = format!("Team `{}` has member `{}` twice", metadata.name, name.value);
            spec.fault(name.place, "duplicate_name", message, "leave one of them out");
        } else if kind == Document::Team && name.value == metadata.name {
            let message = format!("Team `{}` is a member of itself", metadata.name);
            spec.fault(name.place, "bad_value", message, "leave it out");
        } else {
            references.push(Reference::new(kind, name));
        }
    }
    if references.is_empty() && spec.get("members").is_some() {
        spec.fault(spec.place(), "bad_value", format!("Team `{}` has no members", metadata.name), "");
    }
    let strategy = spec.required_text("strategy", STRATEGIES);
    let is_member = |name: &str| references.iter().any(|member| member.name == name);
    graph(metadata, &spec, strategy, is_member);
    references.extend(selector(&spec, strategy));
    turns(metadata, &spec, strategy);
    for text in ["description", "prompt"] {
        spec.text(text);
    }
    if let Some(leader) = spec.text("leader").filter(|leader| !is_member_of(&references, leader.value)) {
        let message = format!("the leader `{}` of Team `{}` is not one of its members", leader.value, metadata.name);
        spec.fault(leader.place, "bad_value", message, "");
    }
    spec.finish();
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    Some(metadata.located(fields, Referrer { kind: Document::Team, namespace, name, references }))
}

fn is_member_of(members: &[Reference], name: &str) -> bool {
    members.iter().any(|member| member.name == name)
}

fn graph(metadata: &ManifestMetadata, spec: &Fields<'_>, strategy: Option<Text<'_>>, is_member: impl Fn(&str) -> bool) {
    let graph = spec.fields("graph");
    if strategy.is_some_and(|strategy| strategy.value == "graph") && graph.is_none() {
        spec.require("graph", "write `graph: {edges: [{from: …, to: …}]}`");
    }
    let Some(graph) = graph.map(|graph| graph.with_table(spec::GRAPH)) else { return };
    let mut left: Vec<&str> = Vec::new();
    for edge in graph.entries("edges") {
        let edge = edge.with_table(spec::EDGE);
        let ends = ["from", "to"].map(|end| edge.required_text(end, "the name of a member"));
        edge.finish();
        for end in ends.into_iter().flatten().filter(|end| !is_member(end.value)) {
            let message = format!("`{}` is not a member of Team `{}`", end.value, metadata.name);
            graph.fault(end.place, "bad_value", message, "an edge goes from one member to another");
        }
        let Some(from) = ends[0] else { continue };
        let is_plain = strategy.is_some_and(|strategy| strategy.value == "graph");
        if is_plain && left.contains(&from.value) {
            let message = format!("member `{}` has two edges that begin at it", from.value);
            graph.fault(from.place, "bad_value", message, "only a `selector` can choose between several");
        }
        left.push(from.value);
    }
    graph.finish();
}

fn selector(spec: &Fields<'_>, strategy: Option<Text<'_>>) -> Option<Reference> {
    let is_wanted = strategy.is_some_and(|strategy| strategy.value == "selector");
    let Some(selector) = spec.fields("selector") else {
        if is_wanted {
            spec.require("selector", "write `selector: {agent: …}`");
        }
        return None;
    };
    let selector = selector.with_table(spec::SELECTOR);
    let agent = if is_wanted {
        selector.required_text("agent", "the name of the agent that chooses the next member")
    } else {
        selector.text("agent")
    };
    selector.text("selectorPrompt");
    selector.unserved(&["model"], "newer versions of ARK have an agent choose; write `agent`");
    selector.finish();
    agent.map(|agent| Reference::new(Document::Agent, agent))
}

fn turns(metadata: &ManifestMetadata, spec: &Fields<'_>, strategy: Option<Text<'_>>) {
    let turns = spec.whole_number("maxTurns");
    let loops = spec.bool("loops").unwrap_or_default();
    let Some(strategy) = strategy else { return };
    if !spec::STRATEGIES.contains(&strategy.value) {
        let message = format!("there is no strategy `{}`", strategy.value);
        return spec.fault(strategy.place, "bad_value", message, STRATEGIES);
    }
    let place = spec.get("maxTurns").map_or(strategy.place, |node| node.place);
    let problem = match (strategy.value, turns) {
        (_, Some(0)) => "must be at least 1",
        ("selector" | "graph", None) => "is missing: it would never end",
        ("sequential", Some(_)) if !loops => "has no meaning without `loops: true`: each member speaks once",
        _ => return,
    };
    spec.fault(place, "bad_value", format!("`spec.maxTurns` of Team `{}` {problem}", metadata.name), "");
}
