//! Agents: their prompt, their model, their tools and their limits.

use std::{collections::BTreeMap, sync::Arc};

use bosun_core::{
    Namespace, Tool, duration,
    query::{AskedLimits, LimitFault, TargetKind},
    schema,
    tool::Confirm,
};
use bosun_engine::{
    Agent,
    registry::{AgentTool, RemoteAgent},
};
use bosun_reading::{
    Data, Fault, Fields, SourcePlace,
    a2a_options::{A2aOptionFault, A2aOptions, OWN_ANNOTATIONS, SKILLS},
    spec,
};
use bosun_wire::a2a::AgentSkill;
use serde_json::Value;

use super::{
    ModelManifest,
    agent_tool::{self, ToolEntry, ToolReference},
    config_map::ConfigMap,
    document::{Document, LocatedManifest, ManifestMetadata},
    parameter::{self, ParameterDraft},
    reference::{Reference, Referrer},
};
use crate::runner::builtin::Builtins;

/// The annotation that sets the agent's policy of approval.
const CONFIRM: &str = "confirm";
/// The model of an agent that names none.
pub(super) const DEFAULT_MODEL: &str = "default";

/// ARK's engine of agents behind A2A servers.
pub(super) const A2A_ENGINE: &str = "a2a";
/// ARK's annotation that names the A2A server of an agent.
pub(super) const A2A_SERVER_NAME: &str = "ark.mckinsey.com/a2a-server-name";

/// An agent with the places of its references.
#[derive(Debug)]
pub(super) struct AgentDraft {
    pub(super) agent: Agent,
    model_place: SourcePlace,
    tools: Vec<ToolReference>,
    parameters: Vec<ParameterDraft>,
    /// The A2A server that the agent is behind.
    server: Option<Reference>,
}

impl AgentDraft {
    /// Its references to servers; those to models and tools have checks of their own.
    pub(super) fn referrer(&self) -> Referrer {
        let (namespace, name) = (self.agent.namespace.clone(), self.agent.name.clone());
        Referrer { kind: Document::Agent, namespace, name, references: self.server.iter().cloned().collect() }
    }
}

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<AgentDraft>> {
    let spec = fields.required_fields("spec", "an agent has at least a `prompt`")?.with_table(spec::AGENT);
    let limits = limits(metadata, fields);
    check_skills(metadata, fields);
    let model = spec
        .fields("modelRef")
        .and_then(|reference| named_reference(&metadata.namespace, &reference.with_table(spec::MODEL_REF), "model"));
    let server = server(metadata, fields, &spec);
    let mut tools: Vec<(AgentTool, ToolReference)> = Vec::new();
    let mut selected_tools = Vec::new();
    for entry in spec.entries("tools") {
        match agent_tool::read(&entry.with_table(spec::AGENT_TOOL)) {
            Some(ToolEntry::Named(tool, reference)) if tools.iter().any(|(earlier, _)| earlier.name == tool.name) => {
                let message = format!("Agent `{}` lists tool `{}` twice", metadata.name, tool.name);
                fields.fault(reference.place, "duplicate_name", message, "leave one of them out");
            }
            Some(ToolEntry::Named(tool, reference)) => tools.push((tool, reference)),
            Some(ToolEntry::Selected(selected)) => selected_tools.push(selected),
            None => {}
        }
    }
    let (tools, references) = tools.into_iter().unzip();
    let prompt = spec.text("prompt");
    let parameters = parameter::read(&spec, prompt);
    let agent = Agent {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        description: spec.text("description").map(|text| text.value.to_owned()),
        prompt: prompt.map(|text| text.value.to_owned()),
        // Resolved once all manifests have been read.
        parameters: Vec::new(),
        output_schema: output_schema(&spec).map(Arc::new),
        model: model.as_ref().map_or(DEFAULT_MODEL, |(name, _)| name).to_owned(),
        // The tool that asks it is known once the server has answered.
        remote: server.as_ref().map(|server| RemoteAgent { server: server.name.clone(), tool: None }),
        tools,
        selected_tools,
        confirm: confirm(metadata, fields),
        limits,
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
    };
    spec.unserved(&["overrides"], "leave it out");
    spec.finish();
    let model_place = model.map_or(metadata.place, |(_, place)| place);
    Some(metadata.located(fields, AgentDraft { agent, model_place, tools: references, parameters, server }))
}

/// The A2A server of an agent with `executionEngine: {name: a2a}`, which an annotation names, as in ARK.
fn server(metadata: &ManifestMetadata, fields: &Fields<'_>, spec: &Fields<'_>) -> Option<Reference> {
    let engine = spec.fields("executionEngine")?.with_table(spec::MODEL_REF);
    let (name, place) = named_reference(&metadata.namespace, &engine, "execution engine")?;
    if name != A2A_ENGINE {
        let message = format!("this version does not serve the execution engine `{name}`");
        spec.fault(place, "unsupported_field", message, "it serves `a2a`, for agents behind A2A servers");
        return None;
    }
    let Some(server) = metadata.annotations.get(A2A_SERVER_NAME) else {
        let message = "an agent with the execution engine `a2a` names its A2A server in an annotation";
        fields.fault(
            place,
            "missing_field",
            message,
            format!("write `{A2A_SERVER_NAME}: …` in `metadata.annotations`"),
        );
        return None;
    };
    let place = metadata.annotation_places.get(A2A_SERVER_NAME).copied().unwrap_or(metadata.place);
    Some(Reference { kind: Document::A2aServer, name: server.clone(), place })
}

/// The JSON Schema of the agent's answers.
fn output_schema(spec: &Fields<'_>) -> Option<Value> {
    let node = spec.get("outputSchema")?;
    let source = node.to_json();
    if matches!(node.data, Data::Map(_)) {
        for fault in schema::faults(&source) {
            spec.fault(node.place, "bad_schema", fault.to_string(), "");
        }
    } else {
        spec.fields("outputSchema");
    }
    Some(source)
}

fn named_reference(own: &Namespace, fields: &Fields<'_>, what: &str) -> Option<(String, SourcePlace)> {
    let name = fields.required_text("name", &format!("the name of the {what}"));
    if let Some(namespace) = fields.text("namespace").filter(|namespace| namespace.value != own.as_str()) {
        let message = format!("the {what} is in namespace `{}`, and the agent in `{own}`", namespace.value);
        fields.fault(namespace.place, "unsupported_field", message, "an agent uses what is in its own namespace");
    }
    fields.finish();
    name.map(|name| (name.value.to_owned(), name.place))
}

/// Whether calls of the agent's tools wait for approval, where a tool does not say so.
fn confirm(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<Confirm> {
    let annotation = format!("{OWN_ANNOTATIONS}{CONFIRM}");
    let value = metadata.annotations.get(&annotation)?;
    let confirm = Confirm::parse(value);
    if confirm.is_none() {
        let place = metadata.annotation_places.get(&annotation).copied().unwrap_or(metadata.place);
        let message = format!("annotation `{annotation}` is `{value}`, which is not a policy");
        fields.fault(place, "bad_value", message, "policies are `never`, `always` and `auto`");
    } else if fields.report().is_of_client() && confirm != Some(Confirm::Always) {
        let place = metadata.annotation_places.get(&annotation).copied().unwrap_or(metadata.place);
        let message = format!("annotation `{annotation}` is `{value}`: only the operator waives approvals");
        fields.fault(place, "approval_required", message, "write `always`, or leave it out");
    }
    confirm
}

/// Reports skills of which a card could not be made.
fn check_skills(metadata: &ManifestMetadata, fields: &Fields<'_>) {
    let Some(value) = metadata.annotations.get(SKILLS) else { return };
    if let Err(error) = serde_json::from_str::<Vec<AgentSkill>>(value) {
        let place = metadata.annotation_places.get(SKILLS).copied().unwrap_or(metadata.place);
        let message = format!("annotation `{SKILLS}` is not a list of skills: {error}");
        let hint =
            r#"write JSON such as `[{"id": "sum", "name": "Sum", "description": "Adds numbers", "tags": ["math"]}]`"#;
        fields.fault(place, "bad_value", message, hint);
    }
}

fn limits(metadata: &ManifestMetadata, fields: &Fields<'_>) -> AskedLimits {
    let mut limits = AskedLimits::default();
    for (annotation, value) in &metadata.annotations {
        let Some(name) = annotation.strip_prefix(OWN_ANNOTATIONS).filter(|name| *name != CONFIRM) else { continue };
        let place = metadata.annotation_places.get(annotation).copied().unwrap_or(metadata.place);
        match A2aOptions::default().ask(name, value) {
            Ok(()) => continue,
            Err(A2aOptionFault::BadValue(values)) => {
                let message = format!("annotation `{annotation}` is `{value}`, which is not a value of it");
                fields.fault(place, "bad_value", message, format!("write {values}"));
                continue;
            }
            Err(A2aOptionFault::UnknownName) => {}
        }
        let Err(fault) = limits.ask(name, value) else { continue };
        let (code, problem, hint) = match fault {
            LimitFault::NotADuration => {
                ("bad_value", format!("is `{value}`, which is not a time limit"), duration::HINT.to_owned())
            }
            LimitFault::NotANumber => {
                ("bad_value", format!("is `{value}`, which is not a whole number"), "write it like `\"10\"`".to_owned())
            }
            LimitFault::UnknownName => {
                let options = AskedLimits::OPTIONS.iter().chain(&[CONFIRM]).chain(&A2aOptions::NAMES);
                let known: Vec<_> = options.map(|name| format!("`{name}`")).collect();
                ("unknown_field", "is not recognized".to_owned(), format!("write one of {}", known.join(", ")))
            }
        };
        fields.fault(place, code, format!("annotation `{annotation}` {problem}"), hint);
    }
    limits
}

fn fault(
    draft: &LocatedManifest<AgentDraft>,
    place: SourcePlace,
    code: &'static str,
    message: String,
    hint: String,
) -> Fault {
    Fault::of_file(&draft.file, code, message).at(place).hint(hint)
}

/// The agent's model must exist in its namespace.
pub(super) fn check_model(
    draft: &LocatedManifest<AgentDraft>,
    models: &[ModelManifest],
    is_faulty: impl Fn(Document, &Namespace, &str) -> bool,
) -> Option<Fault> {
    let AgentDraft { agent, model_place, .. } = &draft.value;
    if agent.remote.is_some() {
        return None;
    }
    let (name, namespace) = (&agent.model, &agent.namespace);
    let here: Vec<_> = models.iter().filter(|model| model.namespace == *namespace).collect();
    if here.iter().any(|model| model.name == *name) || is_faulty(Document::Model, namespace, name) {
        return None;
    }
    let message =
        format!("Agent `{}` uses Model `{name}`, which does not exist in namespace `{namespace}`", agent.name);
    let names: Vec<_> = here.iter().map(|model| format!("`{}`", model.name)).collect();
    let hint = if names.is_empty() {
        format!("add a Model manifest with the name `{name}`")
    } else {
        format!("set `spec.modelRef.name` to one of {}, or add a Model manifest", names.join(", "))
    };
    Some(fault(draft, *model_place, "unknown_model", message, hint))
}

/// Replaces LangChain's names of the namespace's tools by the tools' own names.
pub(super) fn resolve_lc_names(draft: &mut LocatedManifest<AgentDraft>, tools: &BTreeMap<(Namespace, String), Tool>) {
    let AgentDraft { agent, .. } = &mut draft.value;
    for used in &mut agent.tools {
        if tools.contains_key(&(agent.namespace.clone(), used.name.clone())) {
            continue;
        }
        let is_meant = |tool: &&Tool| tool.lc_name.as_ref() == Some(&used.name);
        let mut here = tools.iter().filter(|((namespace, _), _)| *namespace == agent.namespace).map(|(_, tool)| tool);
        if let Some(tool) = here.find(is_meant) {
            used.name.clone_from(&tool.name);
        }
    }
}

/// Every tool of the agent must be declared, be builtin or be one that `may_come` from an MCP server; builtin ones that
/// are not declared are added to the tools of the namespace.
pub(super) fn check_tools(
    draft: &LocatedManifest<AgentDraft>,
    tools: &mut BTreeMap<(Namespace, String), Tool>,
    builtins: &Builtins,
    may_come: impl Fn(&AgentTool, &Namespace) -> bool,
) -> Vec<Fault> {
    let agent = &draft.value.agent;
    let mut faults = Vec::new();
    for (tool, reference) in agent.tools.iter().zip(&draft.value.tools) {
        let name = tool.tool();
        let key = (agent.namespace.clone(), name.to_owned());
        if tools.contains_key(&key) || may_come(tool, &agent.namespace) {
            continue;
        }
        let hint = match (builtins.tool(name), reference.is_builtin) {
            (Some(definition), true) => {
                tools.insert(key, definition);
                continue;
            }
            (Some(_), false) => format!("for the builtin tool `{name}` write `type: builtin`"),
            (None, true) => format!("the builtin tools are {}", builtins.names()),
            (None, false) => match tool.asks {
                Some(TargetKind::Team) => format!("add a manifest of kind Team or Tool with the name `{name}`"),
                Some(_) => format!("add a manifest of kind Agent or Tool with the name `{name}`"),
                None => format!("add a Tool manifest with the name `{name}`"),
            },
        };
        let message = format!(
            "Agent `{}` uses tool `{name}`, which does not exist in namespace `{}`",
            agent.name, agent.namespace
        );
        faults.push(fault(draft, reference.place, "unknown_tool", message, hint));
    }
    faults
}

/// Resolves the agent's parameters; those without a value are faults.
pub(super) fn resolve_parameters(
    draft: &mut LocatedManifest<AgentDraft>,
    config_maps: &BTreeMap<(Namespace, String), ConfigMap>,
) -> Vec<Fault> {
    let AgentDraft { agent, parameters, tools, .. } = &mut draft.value;
    let (resolved, mut unresolved) = parameter::resolve(parameters, &agent.namespace, config_maps);
    agent.parameters = resolved;
    for (tool, reference) in agent.tools.iter_mut().zip(tools) {
        let Some(partial) = &mut tool.partial else { continue };
        let (presets, more) = parameter::resolve_presets(&reference.presets, &agent.namespace, config_maps);
        partial.parameters = presets;
        unresolved.extend(more);
    }
    let hint = "add a ConfigMap manifest with this key, or mark the reference `optional: true`";
    let unresolved = unresolved.into_iter();
    unresolved.map(|one| fault(draft, one.place, "unknown_config_map", one.message, hint.to_owned())).collect()
}
