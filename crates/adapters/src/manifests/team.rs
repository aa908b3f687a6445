//! Teams: agents and teams that work on a query together.
//!
//! They are read and checked here; the engine runs them.

use bosun_core::{
    query::TargetKind,
    team::{Edge, Strategy},
    template::Template,
};
use bosun_engine::registry::{Team, TeamMember};

use super::{
    document::{Document, LocatedManifest, ManifestMetadata},
    reference::{Reference, Referrer},
};
use bosun_reading::{Fields, Text, spec};

const PROMPT_NAMES: &str = "it may use `{{.Participants}}`, `{{.Roles}}` and `{{.History}}`";
const STRATEGIES: &str = "strategies are `sequential`, `round-robin`, `selector` and `graph`";

/// A team, with the places of its references.
#[derive(Debug)]
pub(super) struct TeamDraft {
    pub(super) team: Team,
    references: Vec<Reference>,
}

impl TeamDraft {
    pub(super) fn referrer(&self) -> Referrer {
        let Team { namespace, name, .. } = &self.team;
        let (namespace, name) = (namespace.clone(), name.clone());
        Referrer { kind: Document::Team, namespace, name, references: self.references.clone() }
    }
}

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<TeamDraft>> {
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
    let edges = graph(metadata, &spec, strategy, is_member);
    let members = references.iter().map(|member| TeamMember {
        name: member.name.clone(),
        kind: if member.kind == Document::Team { TargetKind::Team } else { TargetKind::Agent },
    });
    let members: Vec<_> = members.collect();
    let (selector, selector_prompt) = selector(&spec, strategy);
    references.extend(selector.clone());
    let (max_turns, loops) = turns(metadata, &spec, strategy);
    let description = spec.text("description").map(|text| text.value.to_owned());
    spec.text("prompt");
    if let Some(leader) = spec.text("leader").filter(|leader| !is_member_of(&references, leader.value)) {
        let message = format!("the leader `{}` of Team `{}` is not one of its members", leader.value, metadata.name);
        spec.fault(leader.place, "bad_value", message, "");
    }
    spec.finish();
    let strategy = match strategy?.value {
        "sequential" if !loops => Strategy::Sequential,
        "sequential" | "round-robin" => Strategy::RoundRobin,
        "graph" => Strategy::Graph,
        "selector" => Strategy::Selector,
        // It has been reported.
        _ => return None,
    };
    let team = Team {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        description,
        members,
        strategy,
        max_turns,
        edges,
        selector: selector.map(|selector| selector.name),
        selector_prompt,
    };
    Some(metadata.located(fields, TeamDraft { team, references }))
}

fn is_member_of(members: &[Reference], name: &str) -> bool {
    members.iter().any(|member| member.name == name)
}

fn graph(
    metadata: &ManifestMetadata,
    spec: &Fields<'_>,
    strategy: Option<Text<'_>>,
    is_member: impl Fn(&str) -> bool,
) -> Vec<Edge> {
    let graph = spec.fields("graph");
    if strategy.is_some_and(|strategy| strategy.value == "graph") && graph.is_none() {
        spec.require("graph", "write `graph: {edges: [{from: …, to: …}]}`");
    }
    let Some(graph) = graph.map(|graph| graph.with_table(spec::GRAPH)) else { return Vec::new() };
    let mut edges = Vec::new();
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
        if let Some(to) = ends[1] {
            edges.push(Edge { from: from.value.to_owned(), to: to.value.to_owned() });
        }
    }
    graph.finish();
    edges
}

fn selector(spec: &Fields<'_>, strategy: Option<Text<'_>>) -> (Option<Reference>, Option<String>) {
    let is_wanted = strategy.is_some_and(|strategy| strategy.value == "selector");
    let Some(selector) = spec.fields("selector") else {
        if is_wanted {
            spec.require("selector", "write `selector: {agent: …}`");
        }
        return (None, None);
    };
    let selector = selector.with_table(spec::SELECTOR);
    let agent = if is_wanted {
        selector.required_text("agent", "the name of the agent that chooses the next member")
    } else {
        selector.text("agent")
    };
    let prompt = selector.text("selectorPrompt");
    if let Some(text) = prompt
        && let Err(fault) = Template::parse(text.value)
    {
        let message = format!("`selectorPrompt` is not a valid template: {fault}");
        selector.fault(text.place, "bad_value", message, PROMPT_NAMES);
    } else if let Some(text) = prompt
        && let Ok(template) = Template::parse(text.value)
        && let Some(other) = template.names().find(|name| !matches!(*name, "Participants" | "Roles" | "History"))
    {
        selector.fault(text.place, "bad_value", format!("`selectorPrompt` uses `{other}`"), PROMPT_NAMES);
    }
    selector.unserved(&["model"], "newer versions of ARK have an agent choose; write `agent`");
    selector.finish();
    (agent.map(|agent| Reference::new(Document::Agent, agent)), prompt.map(|text| text.value.to_owned()))
}

fn turns(metadata: &ManifestMetadata, spec: &Fields<'_>, strategy: Option<Text<'_>>) -> (Option<u32>, bool) {
    let turns = spec.whole_number("maxTurns");
    let loops = spec.bool("loops").unwrap_or_default();
    let limit = turns.map(|turns| u32::try_from(turns).unwrap_or(u32::MAX));
    let Some(strategy) = strategy else { return (limit, loops) };
    if !spec::STRATEGIES.contains(&strategy.value) {
        let message = format!("there is no strategy `{}`", strategy.value);
        spec.fault(strategy.place, "bad_value", message, STRATEGIES);
        return (limit, loops);
    }
    let place = spec.get("maxTurns").map_or(strategy.place, |node| node.place);
    let problem = match (strategy.value, turns) {
        (_, Some(0)) => "must be at least 1",
        ("selector" | "graph", None) => "is missing: it would never end",
        ("sequential", Some(_)) if !loops => "has no meaning without `loops: true`: each member speaks once",
        _ => return (limit, loops),
    };
    spec.fault(place, "bad_value", format!("`spec.maxTurns` of Team `{}` {problem}", metadata.name), "");
    (limit, loops)
}
