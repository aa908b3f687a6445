//! The older HTTP Request tool, whose values are `{placeholders}` with separate definitions.

use bosun_core::{Binding, Tool};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{
    N8nNode,
    from_ai::{Argument, FromAiKind, object_schema},
    http::{HttpTarget, HttpToolDraft},
    kinds,
    template::{self, TemplatePart},
    tool_name,
};
use crate::{
    document::Path,
    found::{Found, InsideTool, Report, RequestTool, ToolOrigin},
};

/// What the workflow says about a placeholder.
struct PlaceholderDefinition {
    argument: Argument,
    /// A placeholder without a type is a text, and the first version of the node says so in its own words.
    has_type: bool,
    path: Path,
}

/// A value that the model fills in.
struct PlaceholderParameter {
    argument: Argument,
    has_type: bool,
    required: bool,
    /// The model fills in all of the query, headers or body as one object.
    is_record: bool,
}

pub(super) fn describe(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    let definitions = definitions(node, report);
    let draft = HttpToolDraft::new(node);
    let mut reader = PlaceholderReader { definitions, parameters: IndexMap::new(), draft, has_expression: false };
    let parts = reader.slots("URL", node.text("url").unwrap_or_default());
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
    reader.unused(node, report);
    let description = kinds::description(node, "toolDescription", "Makes an HTTP request.", report);
    let parameters = schema(&reader.parameters);
    // The first version gives the model one text, which is to be JSON, and describes its members. A request takes the
    // members themselves.
    if node.version >= 1.1 {
        return Some(found(node, description, parameters, reader.draft.finish()));
    }
    let input = json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]});
    let described = describe_members(&description, &reader.parameters);
    let mut inside = reader.draft.finish();
    if let InsideTool::AsRequest(request) = &mut inside {
        request.takes = Some(Box::new(RequestTool { description, parameters }));
    }
    Some(found(node, described, input, inside))
}

fn found(node: &N8nNode<'_>, description: String, parameters: Value, inside: InsideTool) -> Found {
    let tool = Tool::new(tool_name(node.name), description, parameters, Binding::External);
    Found { inside, ..Found::new(tool, ToolOrigin { path: node.path.clone(), parameters: None }) }
}

/// The description that the first version of the node gives to its tool, in n8n's own words.
fn describe_members(description: &str, parameters: &IndexMap<String, PlaceholderParameter>) -> String {
    if parameters.is_empty() {
        return description.to_owned();
    }
    let member = |PlaceholderParameter { argument, required, has_type, .. }: &PlaceholderParameter| {
        let kind = match argument.kind {
            FromAiKind::String if !has_type => "not specified",
            FromAiKind::String => "string",
            FromAiKind::Number => "number",
            FromAiKind::Boolean => "boolean",
            FromAiKind::Json => "json",
        };
        let about = argument.description.as_deref().unwrap_or_default();
        format!("{}: (description: {about}, type: {kind}, required: {required})", argument.key)
    };
    let members: Vec<String> = parameters.values().map(member).collect();
    format!(
        "{description}\n\tTool expects valid stringified JSON object with {} properties.\n\tProperty names with \
         description, type and required status:\n\t{}\n\tALL parameters marked as required must be provided",
        members.len(),
        members.join(",\n ")
    )
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
        if let Some(description) = argument.description.as_deref().filter(|text| !text.trim().is_empty()) {
            property.insert("description".to_owned(), description.into());
        }
        properties.insert(argument.key.clone(), property.into());
        if parameter.required {
            required.push(argument.key.as_str());
        }
    }
    object_schema(properties, &required)
}

/// `placeholderDefinitions.values`: the definitions of the placeholders.
fn definitions(node: &N8nNode<'_>, report: &Report) -> IndexMap<String, PlaceholderDefinition> {
    let path = node.path_of("placeholderDefinitions").key("values");
    let values = node.parameter("placeholderDefinitions").and_then(|definitions| definitions.get("values"));
    let mut definitions = IndexMap::new();
    for (index, value) in values.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = path.index(index);
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(fixed).filter(|text| !text.is_empty());
        let Some(name) = text("name") else {
            report.fault(&path, "placeholder_unreadable", "a placeholder has no `name`");
            continue;
        };
        if has_expression(value, "name") {
            let message =
                format!("the name of a placeholder of `{}` is an expression, which only n8n evaluates", node.name);
            report.fault(&path, "placeholder_unreadable", message);
            continue;
        }
        let kind = match text("type") {
            None | Some("not specified" | "string") => FromAiKind::String,
            Some("number") => FromAiKind::Number,
            Some("boolean") => FromAiKind::Boolean,
            Some("json") => FromAiKind::Json,
            Some(other) => {
                report.fault(&path, "placeholder_unreadable", format!("`{other}` is not a type of a placeholder"));
                continue;
            }
        };
        let key = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name).to_owned();
        if has_expression(value, "description") {
            let message =
                format!("the description of `{key}` of `{}` has expressions, which only n8n evaluates", node.name);
            report.warn(&path.key("description"), "description_expression", message);
        }
        let description = text("description").map(str::to_owned);
        let argument = Argument { key: key.clone(), description, kind, default: None };
        let has_type = text("type").is_some_and(|kind| kind != "not specified");
        definitions.entry(key).or_insert(PlaceholderDefinition { argument, has_type, path });
    }
    definitions
}

/// A value without the `=` of those that n8n evaluates.
fn fixed(value: &str) -> &str {
    value.strip_prefix('=').unwrap_or(value)
}

/// Whether the text of a value is known to n8n only.
fn has_expression(value: &Value, key: &str) -> bool {
    let text = value.get(key).and_then(Value::as_str).unwrap_or_default();
    text.starts_with('=') && text.contains("{{")
}

struct PlaceholderReader<'n> {
    definitions: IndexMap<String, PlaceholderDefinition>,
    parameters: IndexMap<String, PlaceholderParameter>,
    draft: HttpToolDraft<'n>,
    /// Whether a value has an expression that only n8n evaluates, and in which placeholders may be.
    has_expression: bool,
}

impl PlaceholderReader<'_> {
    fn argument(&self, key: &str) -> Argument {
        self.definitions.get(key).map_or_else(
            || Argument { key: key.to_owned(), description: None, kind: FromAiKind::String, default: None },
            |definition| definition.argument.clone(),
        )
    }

    fn add(&mut self, argument: Argument, required: bool, is_record: bool) {
        let has_type = self.definitions.get(&argument.key).is_none_or(|definition| definition.has_type);
        let new = PlaceholderParameter { argument: argument.clone(), has_type, required: false, is_record };
        self.parameters.entry(argument.key).or_insert(new).required |= required;
    }

    /// A value with its placeholders, each of which the model must fill in. One that begins with `=` may have
    /// expressions, too.
    fn slots(&mut self, what: &str, value: &str) -> Vec<TemplatePart> {
        let mut parts = Vec::new();
        let read = self.draft.parts(what, value);
        if read.is_empty() {
            // Only n8n evaluates an expression; the placeholders around it are still parameters.
            self.has_expression |= value.contains("{{");
            for text in template::around_expressions(value) {
                self.placeholders(text, &mut parts);
            }
            return Vec::new();
        }
        for part in read {
            match part {
                TemplatePart::Text(text) => self.placeholders(&text, &mut parts),
                TemplatePart::Slot(argument) => {
                    self.add(argument.clone(), argument.default.is_none(), false);
                    parts.push(TemplatePart::Slot(argument));
                }
            }
        }
        parts
    }

    fn placeholders(&mut self, text: &str, parts: &mut Vec<TemplatePart>) {
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
    }

    /// The query, the headers or the body.
    fn part(&mut self, node: &N8nNode<'_>, specify: &str, list: &str, json: &str, target: HttpTarget) {
        match node.text(specify).unwrap_or("keypair") {
            "model" => {
                let (key, what) = match target {
                    HttpTarget::Query => ("qs", "Query"),
                    HttpTarget::Header => ("headers", "Headers"),
                    HttpTarget::Body | HttpTarget::Form => ("body", "Body"),
                };
                let description = Some(format!("{what} parameters for request as key value pairs"));
                let argument = Argument { key: key.to_owned(), description, kind: FromAiKind::Json, default: None };
                self.draft.whole(target, &argument);
                self.add(argument, true, true);
            }
            "json" => {
                let text = node.text(json).unwrap_or_default();
                let parts = quote_texts(self.slots("JSON", text));
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
        let Some(written) = text("name") else { return };
        let Some(name) = self.draft.fixed_name(target, written) else {
            self.has_expression |= written.contains("{{");
            return;
        };
        let name = name.as_str();
        match text("valueProvider").unwrap_or("modelRequired") {
            "fieldValue" => {
                let parts = self.slots(&format!("value of `{name}`"), text("value").unwrap_or_default());
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

    /// Placeholders that no value has. n8n refuses a tool with such a placeholder, so in a tool that works, an expression
    /// has it.
    fn unused(&mut self, node: &N8nNode<'_>, report: &Report) {
        let is_used = |key: &str| self.parameters.get(key).is_some_and(|parameter| !parameter.is_record);
        let unused: Vec<String> = self.definitions.keys().filter(|key| !is_used(key)).cloned().collect();
        for key in unused {
            let path = self.definitions[&key].path.clone();
            if self.has_expression && !self.parameters.contains_key(&key) {
                let message = format!(
                    "the placeholder `{key}` of `{}` is in no value but those of expressions, which only n8n evaluates; it is a parameter",
                    node.name
                );
                report.warn(&path, "placeholder_assumed", message);
                self.add(self.argument(&key), true, false);
            } else {
                let message = format!("the placeholder `{key}` of `{}` is used nowhere", node.name);
                report.fault(&path, "placeholder_unused", message);
            }
        }
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
