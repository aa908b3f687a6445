//! Makes schemas of a description self-contained.

use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
};

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use super::{OpenApiDocument, OpenApiVersion, reference};
use crate::{
    document::{LazyPath, Path},
    found::Report,
};

/// Keywords whose value is one schema, or a list of them.
const ONE: [&str; 14] = [
    "items",
    "not",
    "if",
    "then",
    "else",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "additionalItems",
    "allOf",
    "anyOf",
];
const LISTS: [&str; 2] = ["oneOf", "prefixItems"];
/// Keywords whose value has a schema for each of its keys.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// OpenAPI's own keywords, which mean nothing to a model or a validator.
const FOREIGN: [&str; 4] = ["discriminator", "xml", "externalDocs", "$recursiveAnchor"];
/// Maximum depth of inlining: a deeper schema would only be hard to read.
const DEEPEST_INLINING: usize = 24;

/// The schemas that one tool copies out of the document.
pub(super) struct Definitions<'a> {
    root: &'a Value,
    version: OpenApiVersion,
    budget: &'a Cell<usize>,
    /// By reference: the name under `$defs`, and the copy.
    copied: IndexMap<String, (String, Value)>,
    waiting: VecDeque<String>,
    /// How often each name was requested.
    wanted: HashMap<String, usize>,
    dropped: IndexSet<String>,
    read_only: IndexSet<String>,
}

impl<'a> Definitions<'a> {
    pub(super) fn new(api: &OpenApiDocument<'a>) -> Self {
        Self {
            root: api.root,
            version: api.version,
            budget: api.budget,
            copied: IndexMap::new(),
            waiting: VecDeque::new(),
            wanted: HashMap::new(),
            dropped: IndexSet::new(),
            read_only: IndexSet::new(),
        }
    }

    /// A copy of a schema whose references point into `$defs`. `None` after a fault.
    pub(super) fn copy(&mut self, schema: &Value, path: &Path, report: &Report) -> Option<Value> {
        let faults = report.fault_count();
        let copy = self.schema(schema, &LazyPath::At(path), report);
        (report.fault_count() == faults).then_some(copy)
    }

    /// `parameters` with all definitions that it refers to.
    pub(super) fn finish(mut self, mut parameters: Value, path: &Path, report: &Report) -> Option<Value> {
        let faults = report.fault_count();
        while let Some(reference) = self.waiting.pop_front() {
            match reference::resolve(self.root, &reference) {
                Ok(target) => {
                    let copy = self.schema(target, &LazyPath::At(path), report);
                    if let Some((_, definition)) = self.copied.get_mut(&reference) {
                        *definition = copy;
                    }
                }
                Err((code, message)) => report.fault(path, code, message),
            }
            if self.budget.get() == 0 {
                break;
            }
        }
        if self.budget.get() == 0 {
            report.fault(path, "too_large", "the schemas of this operation, and those before it, are too large");
        }
        if report.fault_count() != faults {
            return None;
        }
        for (what, names, why) in [
            ("keyword_dropped", &self.dropped, "has no meaning outside of OpenAPI"),
            ("read_only_dropped", &self.read_only, "is read-only and never sent"),
        ] {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                report.warn(path, what, format!("left out, since it {why}: {}", names.join(", ")));
            }
        }
        let mut definitions: IndexMap<String, Value> = self.copied.into_values().collect();
        let counts = count_references(&parameters, &definitions);
        inline(&mut parameters, &mut definitions, &counts, 0);
        let names: Vec<String> = definitions.keys().cloned().collect();
        for name in names {
            if let Some(mut definition) = definitions.get_mut(&name).map(Value::take) {
                inline(&mut definition, &mut definitions, &counts, 0);
                definitions.insert(name, definition);
            }
        }
        // Inlined definitions are removed.
        let kept: Map<String, Value> =
            definitions.into_iter().filter(|(_, definition)| !definition.is_null()).collect();
        if !kept.is_empty() {
            parameters["$defs"] = kept.into();
        }
        Some(parameters)
    }

    fn spend(&self, values: usize) {
        self.budget.set(self.budget.get().saturating_sub(values));
    }

    fn schema(&mut self, schema: &Value, trail: &LazyPath<'_>, report: &Report) -> Value {
        self.spend(1);
        let Value::Object(schema) = schema else { return schema.clone() };
        if self.budget.get() == 0 {
            return Value::Null;
        }
        if let Some(Value::String(reference)) = schema.get("$ref") {
            return self.reference(reference, schema, trail, report);
        }
        let mut copy = Map::new();
        for (key, value) in schema {
            let here = LazyPath::Key(trail, key);
            self.spend(key.len() / 64);
            let value = match value {
                Value::Array(items) if ONE.contains(&key.as_str()) || LISTS.contains(&key.as_str()) => items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.schema(item, &LazyPath::Index(&here, index), report))
                    .collect(),
                Value::Object(_) if ONE.contains(&key.as_str()) => self.schema(value, &here, report),
                Value::Object(members) if MAPS.contains(&key.as_str()) => {
                    let members =
                        members.iter().filter(|(name, member)| key != "properties" || !self.is_read_only(name, member));
                    let members: Vec<_> = members.collect();
                    let copies = members
                        .into_iter()
                        .map(|(name, member)| (name.clone(), self.schema(member, &LazyPath::Key(&here, name), report)));
                    Value::Object(copies.collect())
                }
                _ if FOREIGN.contains(&key.as_str()) => {
                    self.dropped.insert(key.clone());
                    continue;
                }
                _ if key == "$schema" || key == "$id" => continue,
                other => {
                    self.spend(size_of(other));
                    other.clone()
                }
            };
            copy.insert(key.clone(), value);
        }
        if let (Some(Value::Array(required)), Some(Value::Object(properties))) =
            (schema.get("required"), schema.get("properties"))
        {
            let is_sent = |name: &&Value| {
                let property = name.as_str().and_then(|name| properties.get(name));
                !property.is_some_and(|property| is_read_only(self.root, property))
            };
            copy.insert("required".to_owned(), required.iter().filter(is_sent).cloned().collect());
        }
        if self.version == OpenApiVersion::V3_0 {
            from_3_0(&mut copy);
        }
        // Descriptions that say 3.1 have them, too.
        exclusive_bounds(&mut copy);
        Value::Object(copy)
    }

    fn is_read_only(&mut self, name: &str, property: &Value) -> bool {
        let is_read_only = is_read_only(self.root, property);
        if is_read_only {
            self.read_only.insert(name.to_owned());
        }
        is_read_only
    }

    fn reference(
        &mut self,
        reference: &str,
        schema: &Map<String, Value>,
        trail: &LazyPath<'_>,
        report: &Report,
    ) -> Value {
        self.spend(reference.len() / 16);
        if let Err((code, message)) = reference::resolve(self.root, reference) {
            report.fault_on_trail(&LazyPath::Key(trail, "$ref"), code, message);
            return Value::Null;
        }
        let name = match self.copied.get(reference) {
            Some((name, _)) => name.clone(),
            None => {
                let name = self.free_name(reference);
                self.copied.insert(reference.to_owned(), (name.clone(), Value::Null));
                self.waiting.push_back(reference.to_owned());
                name
            }
        };
        let mut copy = Map::new();
        copy.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
        for (key, value) in schema.iter().filter(|(key, _)| *key != "$ref") {
            // 3.0 ignores keywords next to a reference; a description there still helps.
            if self.version == OpenApiVersion::V3_1 || matches!(key.as_str(), "description" | "title") {
                copy.insert(key.clone(), value.clone());
            } else {
                report.warn_on_trail(
                    &LazyPath::Key(trail, key),
                    "ref_sibling_dropped",
                    format!("OpenAPI 3.0 ignores `{key}` next to `$ref`"),
                );
            }
        }
        Value::Object(copy)
    }

    /// The last segment of a reference, with a number if another one has the same.
    fn free_name(&mut self, reference: &str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        let plain: String = last.chars().take(64).map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        let count = self.wanted.entry(plain.clone()).or_default();
        *count += 1;
        // The number follows a character that no plain name has, so that it cannot collide with another name.
        if *count == 1 && !plain.is_empty() { plain } else { format!("{plain}.{count}") }
    }
}

/// Whether a member of an object is only returned and never sent; it may say so behind a reference.
pub(super) fn is_read_only(root: &Value, member: &Value) -> bool {
    reference::any_in_chain(root, member, |schema| schema.get("readOnly") == Some(&Value::Bool(true)))
}

/// Rewrites the dialect of 3.0 as JSON Schema.
fn from_3_0(schema: &mut Map<String, Value>) {
    if schema.remove("nullable") == Some(Value::Bool(true)) {
        if let Some(kind @ Value::String(_)) = schema.get_mut("type") {
            *kind = json!([kind.take(), "null"]);
        }
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
    }
    if let Some(example) = schema.remove("example") {
        schema.insert("examples".to_owned(), json!([example]));
    }
}

/// Bounds that are booleans next to a limit, as limits of their own.
fn exclusive_bounds(schema: &mut Map<String, Value>) {
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => match schema.remove(limit) {
                Some(limit) => {
                    schema.insert(exclusive.to_owned(), limit);
                }
                None => {
                    schema.remove(exclusive);
                }
            },
            Some(Value::Bool(false)) => {
                schema.remove(exclusive);
            }
            _ => {}
        }
    }
}

/// The number of values in one, including itself.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size_of).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(key, value)| key.len() / 64 + size_of(value)).sum::<usize>(),
        Value::String(text) => 1 + text.len() / 64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// The name of the definition, if a schema is nothing but a reference.
fn bare_reference(value: &Value) -> Option<&str> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn count_references(parameters: &Value, definitions: &IndexMap<String, Value>) -> IndexMap<String, usize> {
    fn count(value: &Value, counts: &mut IndexMap<String, usize>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| count(item, counts)),
            Value::Object(members) => {
                if let Some(name) =
                    value.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/"))
                {
                    *counts.entry(name.to_owned()).or_default() += 1;
                }
                members.values().for_each(|member| count(member, counts));
            }
            _ => {}
        }
    }
    let mut counts = IndexMap::new();
    count(parameters, &mut counts);
    definitions.values().for_each(|definition| count(definition, &mut counts));
    counts
}

/// Inlines a definition at its only reference. Such a definition is in no cycle: a reachable cycle has a second
/// reference into it.
fn inline(
    value: &mut Value,
    definitions: &mut IndexMap<String, Value>,
    counts: &IndexMap<String, usize>,
    depth: usize,
) {
    if depth < DEEPEST_INLINING
        && let Some(name) = bare_reference(value)
        && counts.get(name) == Some(&1)
        && let Some(definition) = definitions.get_mut(name).filter(|definition| definition.is_object())
    {
        *value = definition.take();
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| inline(item, definitions, counts, depth + 1)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| inline(member, definitions, counts, depth + 1));
        }
        _ => {}
    }
}
