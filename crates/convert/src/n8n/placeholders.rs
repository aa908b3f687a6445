//! The older HTTP Request tool, whose values are `{placeholders}` with separate definitions.

use bosun_core::{Binding, Tool};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{
    N8nNode,
    from_ai::{Argument, FromAiKind, object_schema},
    http::{HttpTarget, HttpToolDraft},
    template::TemplatePart,
    tool_name,
};
use crate::{
    document::Path,
    found::{Found, Report, ToolOrigin},
};

/// A value that the model fills in.
struct PlaceholderParameter {
    argument: Argument,
    required: bool,
    /// The model fills in all of the query, headers or body as one object.
    is_record: bool,
}

pub(super) fn describe(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    let definitions = definitions(node, report);
    let mut reader = PlaceholderReader { definitions, parameters: IndexMap::new(), draft: HttpToolDraft::new(node) };
    let url = node.text("url").unwrap_or_default();
    let parts = reader.slots(url);
    reader.draft.url(&parts);
    for (switch, specify, list, json, target) in [
        ("sendQuery", "specifyQuery", "parametersQuery", "jsonQuery", HttpTarget::Query),
        ("sendHeaders", "specifyHeaders", "parametersHeaders", "jsonHeaders", HttpTarget::Header),
        ("sendBody", "specifyBody", "parametersBody", "jsonBody", HttpTarget::Body),
    ] {
        if node.is_on(switch) {
            reader.part(node, specify, list, json, target);
        }
    }
    for (name, path) in reader.unused() {
        report.fault(
            path,
            "placeholder_unused",
            format!("the placeholder `{name}` of `{}` is used nowhere", node.name),
        );
    }
    let description = node.text("toolDescription").map_or_else(
        || {
            report.warn(&node.path, "description_assumed", format!("`{}` has no description", node.name));
            format!("Makes an HTTP {} request to {url}", node.text("method").unwrap_or("GET"))
        },
        str::to_owned,
    );
    // The first version takes one text that contains JSON, and describes that to the model.
    let (description, parameters) = if node.version < 1.1 {
        let input = json!({"input": {"type": "string", "description": "A JSON object"}});
        (
            describe_members(description, &reader.parameters),
            json!({"type": "object", "properties": input, "required": ["input"]}),
        )
    } else {
        (description, schema(&reader.parameters))
    };
    Some(Found {
        tool: Tool::new(tool_name(node.name), description, parameters, Binding::External),
        origin: ToolOrigin { path: node.path.clone(), parameters: None },
        inside: reader.draft.finish(),
    })
}

fn describe_members(mut description: String, parameters: &IndexMap<String, PlaceholderParameter>) -> String {
    if !parameters.is_empty() {
        description.push_str("\nThe input is a JSON object with these members:");
    }
    for PlaceholderParameter { argument, required, .. } in parameters.values() {
        let need = if *required { "required" } else { "optional" };
        let kind = match argument.kind {
            FromAiKind::String => "string",
            FromAiKind::Number => "number",
            FromAiKind::Boolean => "boolean",
            FromAiKind::Json => "object",
        };
        let about = argument.description.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        description.push_str(&format!("\n- {} ({kind}, {need}){about}", argument.key));
    }
    description
}

/// In hand-written JSON, n8n adds the quotes around a text where they are missing.
fn quote_texts(parts: Vec<TemplatePart>) -> Vec<TemplatePart> {
    let mut quoted: Vec<TemplatePart> = Vec::new();
    for part in parts {
        let is_bare = matches!(&part, TemplatePart::Slot(argument) if argument.kind == FromAiKind::String)
            && !matches!(quoted.last(), Some(TemplatePart::Text(text)) if text.ends_with('"'));
        if is_bare {
            quoted.extend([TemplatePart::Text("\"".to_owned()), part, TemplatePart::Text("\"".to_owned())]);
        } else {
            quoted.push(part);
        }
    }
    quoted
}

fn schema(parameters: &IndexMap<String, PlaceholderParameter>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in parameters.values() {
        let argument = &parameter.argument;
        let mut property = match argument.kind {
            // Here, unlike in `$fromAI`, JSON is an object.
            FromAiKind::Json => Map::from_iter([("type".to_owned(), "object".into())]),
            kind => kind.schema(),
        };
        if let Some(description) = &argument.description {
            property.insert("description".to_owned(), description.as_str().into());
        }
        properties.insert(argument.key.clone(), property.into());
        if parameter.required {
            required.push(argument.key.as_str());
        }
    }
    object_schema(properties, &required)
}

/// `placeholderDefinitions.values`: the definitions of the placeholders.
fn definitions(node: &N8nNode<'_>, report: &Report) -> IndexMap<String, (Argument, Path)> {
    let path = node.path_of("placeholderDefinitions").key("values");
    let values = node.parameter("placeholderDefinitions").and_then(|definitions| definitions.get("values"));
    let mut definitions = IndexMap::new();
    for (index, value) in values.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let Some(name) = text("name") else {
            report.fault(&path, "placeholder_unreadable", "a placeholder has no `name`");
            continue;
        };
        let kind = match text("type") {
            None | Some("not specified" | "string") => FromAiKind::String,
            Some("number") => FromAiKind::Number,
            Some("boolean") => FromAiKind::Boolean,
            Some("json") => FromAiKind::Json,
            Some(other) => {
                report.fault(&path, "placeholder_unreadable", format!("`{other}` is no type of a placeholder"));
                continue;
            }
        };
        let key = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name).to_owned();
        let description = text("description").map(str::to_owned);
        let argument = Argument { key: key.clone(), description, kind, default: None, dynamic: None };
        definitions.entry(key).or_insert((argument, path));
    }
    definitions
}

struct PlaceholderReader<'n> {
    definitions: IndexMap<String, (Argument, Path)>,
    parameters: IndexMap<String, PlaceholderParameter>,
    draft: HttpToolDraft<'n>,
}

impl PlaceholderReader<'_> {
    fn argument(&self, key: &str) -> Argument {
        self.definitions.get(key).map_or_else(
            || Argument {
                key: key.to_owned(),
                description: None,
                kind: FromAiKind::String,
                default: None,
                dynamic: None,
            },
            |(argument, _)| argument.clone(),
        )
    }

    fn add(&mut self, argument: Argument, required: bool, is_record: bool) {
        let new = PlaceholderParameter { argument: argument.clone(), required: false, is_record };
        self.parameters.entry(argument.key).or_insert(new).required |= required;
    }

    /// A text with its placeholders, each of which the model must fill in.
    fn slots(&mut self, text: &str) -> Vec<TemplatePart> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, name, after)) = placeholder(rest) {
            if !before.is_empty() {
                parts.push(TemplatePart::Text(before.to_owned()));
            }
            let argument = self.argument(name);
            self.add(argument.clone(), true, false);
            parts.push(TemplatePart::Slot(argument));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(TemplatePart::Text(rest.to_owned()));
        }
        parts
    }

    /// The query, the headers or the body.
    fn part(&mut self, node: &N8nNode<'_>, specify: &str, list: &str, json: &str, target: HttpTarget) {
        match node.text(specify).unwrap_or("keypair") {
            "model" => {
                let (key, what) = match target {
                    HttpTarget::Query => ("qs", "Query"),
                    HttpTarget::Header => ("headers", "Header"),
                    HttpTarget::Body => ("body", "Body"),
                };
                let description = Some(format!("{what} parameters of the request, as names and values"));
                let argument =
                    Argument { key: key.to_owned(), description, kind: FromAiKind::Json, default: None, dynamic: None };
                self.draft.whole(target, &argument);
                self.add(argument, true, true);
            }
            "json" => {
                let text = node.text(json).unwrap_or_default();
                let parts = quote_texts(self.slots(text));
                self.draft.json(target, &parts);
            }
            _ => {
                let values = node.parameter(list).and_then(|list| list.get("values")).and_then(Value::as_array);
                for value in values.into_iter().flatten() {
                    self.pair(value, target);
                }
            }
        }
    }

    fn pair(&mut self, value: &Value, target: HttpTarget) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let Some(name) = text("name") else { return };
        match text("valueProvider").unwrap_or("modelRequired") {
            "fieldValue" => {
                let parts = self.slots(text("value").unwrap_or_default());
                self.draft.pair(target, name, &parts);
            }
            provider => {
                let argument = self.argument(name);
                let required = provider != "modelOptional";
                self.draft.pair(target, name, &[TemplatePart::Slot(argument.clone())]);
                self.add(argument, required, false);
            }
        }
    }

    fn unused(&self) -> impl Iterator<Item = (&str, &Path)> {
        let is_used = |key: &str| self.parameters.get(key).is_some_and(|parameter| !parameter.is_record);
        let unused = self.definitions.iter().filter(move |(key, _)| !is_used(key));
        unused.map(|(key, (_, path))| (key.as_str(), path))
    }
}

/// The first `{name}` of a text, with the text before and after it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|offset| from + offset) {
        let name = &text[open + 1..];
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '-'));
        match end {
            Some(end) if end > 0 && name[end..].starts_with('}') => {
                return Some((&text[..open], &name[..end], &name[end + 1..]));
            }
            _ => from = open + 1,
        }
    }
    None
}
