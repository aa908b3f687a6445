//! The entries of an agent's `tools`: tools by name, with what the agent makes of them, and tools by their labels.

use bosun_core::{
    query::TargetKind,
    tool::label_selector::{LabelExpression, LabelRequirement, LabelSelector},
};
use bosun_engine::registry::{AgentTool, PartialTool, SelectedTools};
use bosun_reading::{Fields, SourcePlace, approval, spec};

use super::parameter::{self, ParameterDraft};
use crate::jq;

const KNOWN_TYPES: &str =
    "write `builtin`, `agent` or `team`, or for what a Tool manifest declares its type, or `custom`";

/// One entry.
#[derive(Debug)]
pub(super) enum ToolEntry {
    Named(AgentTool, ToolReference),
    Selected(SelectedTools),
}

/// Where an agent names a tool.
#[derive(Debug)]
pub(super) struct ToolReference {
    /// Whether the agent may mean a builtin tool that no manifest declares.
    pub(super) is_builtin: bool,
    pub(super) place: SourcePlace,
    /// The parameters that the agent sets, if it sets any.
    pub(super) presets: Vec<ParameterDraft>,
}

pub(super) fn read(fields: &Fields<'_>) -> Option<ToolEntry> {
    let kind = fields.required_text("type", KNOWN_TYPES);
    let functions = functions(fields);
    let approval = approval::read(fields);
    if fields.report().is_of_client() && approval.is_some_and(|approval| !approval.required) {
        let message = "only the operator waives the approval of a tool's calls";
        fields.fault_of("approval", "approval_required", message, "leave it out, or ask the operator for the agent");
    }
    if let Some(selector) = fields.fields("labelSelector") {
        let selector = label_selector(&selector.with_table(spec::LABEL_SELECTOR));
        for name in
            ["name", "description", "partial", "externalTools"].into_iter().filter(|name| fields.get(name).is_some())
        {
            let message = format!("`{name}` and `labelSelector` exclude each other");
            fields.fault_of(
                name,
                "bad_value",
                message,
                "tools that are selected by labels keep their own; leave it out",
            );
        }
        fields.finish();
        return selector.map(|selector| ToolEntry::Selected(SelectedTools { selector, functions, approval }));
    }
    let name = fields.required_text("name", "the name of the tool, or a `labelSelector`");
    let description = fields.text("description").map(|text| text.value.to_owned());
    let passes = fields.text_list("externalTools");
    let partial = fields.fields("partial").map(|partial| read_partial(&partial.with_table(spec::PARTIAL)));
    fields.finish();
    let (kind, name) = (kind?, name?);
    let is_builtin = spec::is_builtin_type(kind.value);
    if !spec::agent_tool_types().any(|known| known == kind.value) {
        let message = format!("there is no tool type `{}`", kind.value);
        fields.fault(kind.place, "unsupported_kind", message, KNOWN_TYPES);
        return None;
    }
    let asks = match kind.value {
        "agent" => Some(TargetKind::Agent),
        "team" => Some(TargetKind::Team),
        _ => None,
    };
    if let Some(first) = passes.as_ref().and_then(|passes| passes.first()).filter(|_| asks.is_none()) {
        let message = format!("`externalTools` has no meaning for a tool of type `{}`", kind.value);
        fields.fault(first.place, "bad_value", message, "tools are passed on to agents and teams; leave it out");
    }
    let passes = passes.unwrap_or_default().into_iter().map(|name| name.value.to_owned()).collect();
    let (partial, presets) = partial.unzip();
    let tool = AgentTool {
        name: name.value.to_owned(),
        description,
        partial: partial.flatten(),
        functions,
        approval,
        asks,
        passes,
    };
    let reference = ToolReference { is_builtin, place: name.place, presets: presets.unwrap_or_default() };
    Some(ToolEntry::Named(tool, reference))
}

/// The tool whose parameters the agent sets, and the parameters, which are resolved once all manifests have been read.
fn read_partial(fields: &Fields<'_>) -> (Option<PartialTool>, Vec<ParameterDraft>) {
    let name = fields.required_text("name", "the name of the tool whose parameters are set");
    let presets = parameter::read_presets(fields);
    fields.finish();
    (name.map(|name| PartialTool { tool: name.value.to_owned(), parameters: Vec::new() }), presets)
}

/// jq filters, each compiled once to see that it is one.
fn functions(fields: &Fields<'_>) -> Vec<String> {
    let mut filters = Vec::new();
    for function in fields.entries("functions") {
        let function = function.with_table(spec::FUNCTION);
        let name = function.required_text("name", "write `name: jq`");
        let filter = function.required_text("value", "the jq filter, such as `.items[].name`");
        function.finish();
        if let Some(name) = name.filter(|name| name.value != "jq") {
            let message = format!("there is no function `{}`", name.value);
            function.fault(name.place, "bad_value", message, "the only function is `jq`");
            continue;
        }
        let Some(filter) = filter else { continue };
        match jq::check(filter.value) {
            Ok(()) => filters.push(filter.value.to_owned()),
            Err(problem) => {
                let message = format!("`{}` is not a jq filter: {problem}", filter.value.trim());
                function.fault(filter.place, "bad_function", message, "try it with the program `jq` or `jaq`");
            }
        }
    }
    filters
}

fn label_selector(fields: &Fields<'_>) -> Option<LabelSelector> {
    let labels = fields.texts("matchLabels").into_iter();
    let match_labels = labels.map(|(key, value)| (key.to_owned(), value.value.to_owned())).collect();
    let expressions: Vec<_> = fields.entries("matchExpressions");
    let expressions = expressions.into_iter().map(|entry| label_expression(&entry.with_table(spec::LABEL_EXPRESSION)));
    // Each one is read, so that all faults are reported.
    let expressions: Vec<Option<LabelExpression>> = expressions.collect();
    fields.finish();
    Some(LabelSelector { match_labels, match_expressions: expressions.into_iter().collect::<Option<_>>()? })
}

fn label_expression(fields: &Fields<'_>) -> Option<LabelExpression> {
    const OPERATORS: &str = "operators are `In`, `NotIn`, `Exists` and `DoesNotExist`";
    let key = fields.required_text("key", "the name of a label");
    let operator = fields.required_text("operator", OPERATORS);
    let values = fields.text_list("values");
    fields.finish();
    let (key, operator) = (key?.value.to_owned(), operator?);
    let values: Option<Vec<String>> =
        values.map(|values| values.into_iter().map(|value| value.value.to_owned()).collect());
    let requirement = match (operator.value, values.filter(|values| !values.is_empty())) {
        ("In", Some(values)) => LabelRequirement::In(values),
        ("NotIn", Some(values)) => LabelRequirement::NotIn(values),
        ("Exists", None) => LabelRequirement::Exists,
        ("DoesNotExist", None) => LabelRequirement::DoesNotExist,
        ("In" | "NotIn", None) => {
            let message = format!("`{}` needs `values`", operator.value);
            fields.fault(operator.place, "bad_value", message, "write `values: [a, b]`");
            return None;
        }
        ("Exists" | "DoesNotExist", Some(_)) => {
            let message = format!("`{}` takes no `values`", operator.value);
            fields.fault(operator.place, "bad_value", message, "leave them out");
            return None;
        }
        (other, _) => {
            fields.fault(operator.place, "bad_value", format!("there is no operator `{other}`"), OPERATORS);
            return None;
        }
    };
    Some(LabelExpression { key, requirement })
}
