//! Validation of the tool definitions that a client sends.
//!
//! One checker, two rule sets. [`Rules::Strict`] is the client tool provider's: short ASCII names, a description,
//! parameters that spell out `properties`. [`Rules::Open`] accepts what ARK, OpenAI and files send: any printable name,
//! since models see an alias. Both report every fault at once, each with its path, and both keep the parameters
//! verbatim: unknown keywords may have a meaning for the client.
//!
//! ```
//! use bosun_core::tool::definition::{Rules, check};
//! use serde_json::json;
//!
//! let definitions = json!([
//!     {"name": "get weather", "description": "", "parameters": {"type": "object", "properties": {}}},
//! ]);
//! let faults = check(&definitions, Rules::Strict).unwrap_err();
//! assert_eq!(faults.faults.count(), 2);
//! assert_eq!(faults.faults.listed()[1].path.as_str(), "[0].description");
//! assert!(faults.to_string().starts_with("Invalid client tool definitions: [0].name: Tool name must contain only"));
//!
//! // The open rules accept the name; models will see an alias.
//! assert_eq!(check(&definitions, Rules::Open).unwrap()[0].name, "get weather");
//! ```

mod cache;

use std::{collections::HashSet, fmt, sync::Arc};

pub use cache::DefinitionCache;
use serde_json::{Map, Value, json};

use super::{Annotations, Binding, CachePolicy, Deprecation, Tool, name};
use crate::{
    ceiling::{REQUEST_PATTERN_BYTES, TOOL_DESCRIPTION_BYTES, TOOLS},
    duration,
    fault::{Fault, FaultBounds, FaultClass, FaultList},
    json,
    query::ExpiryPolicy,
    schema::{
        self, SchemaCache, SchemaError,
        path::{self, Path},
    },
    text::{clip, closest},
};

/// Which definitions are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Client tools over A2A: names `[a-zA-Z0-9_-]{1,64}`, descriptions of 1 to 1024 characters.
    Strict,
    /// All other clients: printable names up to 128, descriptions up to 16 KiB, parameters may be missing.
    Open,
}

const STRICT_NAME: usize = 64;
const STRICT_DESCRIPTION: usize = 1_024;

/// The faults of a list of definitions, of which there is at least one. Its text is the client tool provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionFaults {
    pub faults: FaultList,
    /// Names that appear more than once, one entry for each repetition.
    pub duplicates: Vec<String>,
}

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

impl std::error::Error for DefinitionFaults {}

impl fmt::Display for DefinitionFaults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_listed = |fault: &&Fault| fault.code != DUPLICATE_NAME;
        for (index, fault) in self.faults.listed().iter().filter(is_listed).enumerate() {
            formatter.write_str(if index == 0 { "Invalid client tool definitions: " } else { "; " })?;
            if !fault.path.is_root() {
                write!(formatter, "{}: ", fault.path)?;
            }
            formatter.write_str(&fault.message)?;
        }
        if !self.duplicates.is_empty() {
            if self.faults.listed().iter().any(|fault| is_listed(&fault)) {
                formatter.write_str("; ")?;
            }
            write!(formatter, "Duplicate tool names: {}", self.duplicates.join(", "))?;
        }
        let omitted = self.faults.omitted();
        if omitted > 0 {
            write!(formatter, "; {omitted} further faults or unread entries")?;
        }
        Ok(())
    }
}

const DUPLICATE_NAME: &str = "duplicate_name";

/// Validates a list of definitions, flat or in OpenAI's `{type: "function", function: {…}}`, and makes tools of it that
/// the client runs.
///
/// # Errors
/// Every fault of every definition.
pub fn check(definitions: &Value, rules: Rules) -> Result<Vec<Tool>, DefinitionFaults> {
    check_all(definitions, rules, None)
}

fn check_all(definitions: &Value, rules: Rules, cache: Option<&SchemaCache>) -> Result<Vec<Tool>, DefinitionFaults> {
    let mut checker = DefinitionChecker { rules, cache, pattern_bytes: 0, faults: FaultList::new(FaultBounds::LISTED) };
    let Value::Array(entries) = definitions else {
        checker.wrong_type(String::new(), "array", Some(definitions));
        return Err(checker.conclude(Vec::new()));
    };
    if entries.len() > TOOLS {
        let message = format!("Too big: expected array to have <={TOOLS} items");
        checker.fault(String::new(), "too_big", message);
        return Err(checker.conclude(Vec::new()));
    }
    let mut tools: Vec<Option<Tool>> = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        if checker.faults.is_full() {
            checker.faults.omit(entries.len() - index);
            break;
        }
        tools.push(checker.entry(index, entry));
    }
    let duplicates = checker.names(&tools);
    if checker.faults.count() == 0 {
        return Ok(tools.into_iter().flatten().collect());
    }
    Err(checker.conclude(duplicates))
}

struct DefinitionChecker<'a> {
    rules: Rules,
    cache: Option<&'a SchemaCache>,
    /// Memory that the patterns of all schemas so far take.
    pattern_bytes: usize,
    faults: FaultList,
}

impl DefinitionChecker<'_> {
    fn fault(&mut self, path: impl Into<Path>, code: &'static str, message: impl Into<String>) {
        let fault = Fault::new(path, code, message);
        self.faults.add(Fault { class: FaultClass::ToolDefinition, ..fault });
    }

    fn conclude(self, duplicates: Vec<String>) -> DefinitionFaults {
        DefinitionFaults { faults: self.faults, duplicates }
    }

    fn wrong_type(&mut self, path: String, expected: &str, received: Option<&Value>) {
        let received = received.map_or("undefined", schema::type_name);
        self.fault(path, "invalid_type", format!("Invalid input: expected {expected}, received {received}"));
    }

    fn entry(&mut self, index: usize, entry: &Value) -> Option<Tool> {
        let before = self.faults.count();
        let here = path::with_index("", index);
        let Value::Object(fields) = entry else {
            self.wrong_type(here, "object", Some(entry));
            return None;
        };
        // OpenAI's envelope holds the definition one level deeper.
        let (fields, here) = match fields.get("function") {
            Some(Value::Object(inner)) => (inner, path::with_key(&here, "function")),
            _ => (fields, here),
        };
        let name = self.name(fields, &here);
        let description = self.description(fields, &here);
        let parameters = self.parameters(fields, &here);
        let mut tool = Tool::new(name, description, parameters, Binding::External);
        if self.rules == Rules::Open {
            self.open_fields(fields, &here, &mut tool);
        }
        (self.faults.count() == before).then_some(tool)
    }

    fn name(&mut self, fields: &Map<String, Value>, here: &str) -> String {
        let here = path::with_key(here, "name");
        let Some(Value::String(name)) = fields.get("name") else {
            self.wrong_type(here, "string", fields.get("name"));
            return String::new();
        };
        match self.rules {
            Rules::Strict => {
                self.length(&here, name, STRICT_NAME);
                if name.is_empty()
                    || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
                {
                    let message = "Tool name must contain only alphanumeric characters, underscores, and hyphens";
                    self.fault(here, "invalid_format", message);
                }
            }
            Rules::Open => {
                if let Err(fault) = name::check_open(name) {
                    let code = match fault {
                        name::NameFault::Empty => "too_small",
                        name::NameFault::TooLong => "too_big",
                        name::NameFault::Padded | name::NameFault::Invisible(_) => "invalid_format",
                        name::NameFault::MixedScript => "confusable_name",
                    };
                    self.fault(here, code, fault.to_string());
                }
            }
        }
        name.clone()
    }

    /// Lengths count as JavaScript counts them, in UTF-16 units.
    fn length(&mut self, here: &str, text: &str, longest: usize) {
        if text.is_empty() {
            self.fault(here.to_owned(), "too_small", "Too small: expected string to have >=1 characters");
        } else if text.encode_utf16().count() > longest {
            self.fault(here.to_owned(), "too_big", format!("Too big: expected string to have <={longest} characters"));
        }
    }

    fn description(&mut self, fields: &Map<String, Value>, here: &str) -> String {
        let here = path::with_key(here, "description");
        if let Some(hidden) = fields.get("description").and_then(Value::as_str).and_then(name::hidden_in_text) {
            let message =
                format!("Description must not contain the control or invisible character U+{:04X}", u32::from(hidden));
            self.fault(here.clone(), "invalid_format", message);
        }
        match (fields.get("description"), self.rules) {
            (Some(Value::String(text)), Rules::Strict) => {
                self.length(&here, text, STRICT_DESCRIPTION);
                text.clone()
            }
            (Some(Value::String(text)), Rules::Open) => {
                if text.len() > TOOL_DESCRIPTION_BYTES {
                    let message = format!("Too big: expected string to have <={TOOL_DESCRIPTION_BYTES} characters");
                    self.fault(here, "too_big", message);
                }
                text.clone()
            }
            (None | Some(Value::Null), Rules::Open) => String::new(),
            (other, _) => {
                self.wrong_type(here, "string", other);
                String::new()
            }
        }
    }

    fn parameters(&mut self, fields: &Map<String, Value>, here: &str) -> Arc<Value> {
        let here = path::with_key(here, "parameters");
        let parameters = match (fields.get("parameters"), self.rules) {
            (Some(value @ Value::Object(_)), _) => value,
            // A tool without a schema has no parameters.
            (None | Some(Value::Null), Rules::Open) => return Arc::new(json!({"type": "object", "properties": {}})),
            (other, _) => {
                self.wrong_type(here, "object", other);
                return Arc::new(Value::Null);
            }
        };
        // Everything that recurses below depends on this check.
        if let Err(fault) = schema::measure(parameters) {
            self.fault(here, fault.code(), fault.to_string());
            return Arc::new(Value::Null);
        }
        if self.pattern_bytes > REQUEST_PATTERN_BYTES {
            // Reported for an earlier schema; no more are compiled.
            return Arc::new(Value::Null);
        }
        let parameters = Arc::new(parameters.clone());
        let schema_faults = match self.cache {
            Some(cache) => self.compile(cache, &parameters, &here),
            None => schema::faults(&parameters),
        };
        let before = self.faults.listed().len();
        match (parameters.get("type"), self.rules) {
            (Some(Value::String(kind)), _) if kind == "object" => {}
            (None, Rules::Open) => {}
            // Reported with all types that JSON Schema does not have.
            (Some(Value::String(kind)), Rules::Open) if !TYPES.contains(&kind.as_str()) => {}
            _ => self.fault(path::with_key(&here, "type"), "invalid_value", "Invalid input: expected \"object\""),
        }
        if self.rules == Rules::Open {
            self.unknown_types(&parameters, &here);
        }
        match (parameters.get("properties"), self.rules) {
            (Some(Value::Object(_)), _) | (None, Rules::Open) => {}
            (other, _) => self.wrong_type(path::with_key(&here, "properties"), "record", other),
        }
        if self.rules == Rules::Strict {
            if let Some(other) = parameters.get("additionalProperties").filter(|value| !value.is_boolean()) {
                self.wrong_type(path::with_key(&here, "additionalProperties"), "boolean", Some(other));
            }
            self.strict_properties(&parameters, &here);
        }
        self.required_names(&parameters, &here);
        // A fault that was reported above in the provider's words is not repeated in the validator's.
        let reported: HashSet<Path> = self.faults.listed()[before..].iter().map(|fault| fault.path.clone()).collect();
        for error in schema_faults {
            let place = Path::from(path::below(&here, &error.path));
            if !reported.contains(&place) {
                self.fault(place, error.fault.code(), error.fault.to_string());
            }
        }
        parameters
    }

    /// Reports types that JSON Schema does not have, which are usually misspelt.
    fn unknown_types(&mut self, schema: &Value, here: &str) {
        let Value::Object(fields) = schema else { return };
        if self.faults.is_full() {
            return;
        }
        if let Some(Value::String(kind)) = fields.get("type")
            && !TYPES.contains(&kind.as_str())
        {
            let shown = clip(kind, 40);
            let message = match closest(kind, TYPES.into_iter()) {
                Some(meant) => format!("`{shown}` is not a type; did you mean `{meant}`?"),
                None => format!("`{shown}` is not a type; types are {}", TYPES.join(", ")),
            };
            self.fault(path::with_key(here, "type"), "invalid_value", message);
        }
        for keyword in ["properties", "patternProperties", "$defs", "definitions"] {
            for (name, inner) in fields.get(keyword).and_then(Value::as_object).into_iter().flatten() {
                self.unknown_types(inner, &path::with_key(&path::with_key(here, keyword), name));
            }
        }
        for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            for (index, inner) in fields.get(keyword).and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.unknown_types(inner, &path::with_index(&path::with_key(here, keyword), index));
            }
        }
        for keyword in ["items", "additionalProperties", "not"] {
            if let Some(inner) = fields.get(keyword) {
                self.unknown_types(inner, &path::with_key(here, keyword));
            }
        }
    }

    /// Compiles a schema, unless the patterns of all of them are too large together. Rejected schemas count, too: they
    /// have been compiled.
    fn compile(&mut self, cache: &SchemaCache, parameters: &Arc<Value>, here: &str) -> Vec<SchemaError> {
        let compiled = cache.compile_or_refuse(json::content_hash(parameters), parameters);
        self.pattern_bytes += match &compiled {
            Ok(schema) => schema.pattern_bytes(),
            Err(refusal) => refusal.pattern_bytes,
        };
        if self.pattern_bytes > REQUEST_PATTERN_BYTES {
            let message = format!(
                "the patterns of all tools are too large together: compiled, they may have at most {REQUEST_PATTERN_BYTES} bytes"
            );
            self.fault(here.to_owned(), "patterns_too_large", message);
        }
        compiled.err().map(|refusal| refusal.faults.clone()).unwrap_or_default()
    }

    /// Requires that every property has a type of JSON Schema.
    fn strict_properties(&mut self, schema: &Value, here: &str) {
        let Some(Value::Object(properties)) = schema.get("properties") else { return };
        let here = path::with_key(here, "properties");
        for (name, property) in properties {
            self.strict_property(property, &path::with_key(&here, name));
        }
    }

    fn strict_property(&mut self, property: &Value, here: &str) {
        /// These describe a value as well as `type` does.
        const INSTEAD_OF_TYPE: [&str; 8] = ["enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref"];
        let Value::Object(fields) = property else {
            self.wrong_type(here.to_owned(), "object", Some(property));
            return;
        };
        let known = match fields.get("type") {
            Some(Value::String(name)) => TYPES.contains(&name.as_str()),
            Some(Value::Array(names)) => {
                !names.is_empty() && names.iter().all(|name| name.as_str().is_some_and(|name| TYPES.contains(&name)))
            }
            Some(_) => false,
            None => INSTEAD_OF_TYPE.iter().any(|keyword| fields.contains_key(*keyword)),
        };
        if !known {
            let options = TYPES.map(|name| format!("\"{name}\"")).join("|");
            let message = format!("Invalid option: expected one of {options}");
            self.fault(path::with_key(here, "type"), "invalid_value", message);
        }
        if let Some(Value::Array(values)) = fields.get("enum") {
            for (index, value) in values.iter().enumerate() {
                if self.faults.is_full() {
                    self.faults.omit(values.len() - index);
                    break;
                }
                if !value.is_string() && !value.is_number() {
                    let here = path::with_index(&path::with_key(here, "enum"), index);
                    self.fault(here, "invalid_union", "Invalid input");
                }
            }
        }
        self.strict_properties(property, here);
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner @ Value::Object(_)) = fields.get(keyword) {
                self.strict_property(inner, &path::with_key(here, keyword));
            }
        }
    }

    /// A required name that is not a property would be indistinguishable from a misspelling.
    fn required_names(&mut self, schema: &Value, here: &str) {
        let here = path::with_key(here, "required");
        let names = match schema.get("required") {
            None => return,
            Some(Value::Array(names)) => names,
            Some(other) => {
                self.wrong_type(here, "array", Some(other));
                return;
            }
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        for (index, name) in names.iter().enumerate() {
            if self.faults.is_full() {
                self.faults.omit(names.len() - index);
                break;
            }
            let here = path::with_index(&here, index);
            match name {
                Value::String(name) => {
                    if properties.is_some_and(|properties| !properties.contains_key(name)) {
                        let message = format!("Required parameter {} is not in properties", clip(name, 80));
                        self.fault(here, "required_unknown", message);
                    }
                }
                other => self.wrong_type(here, "string", Some(other)),
            }
        }
    }

    /// Reports names that appear twice, and names that only look different.
    fn names(&mut self, tools: &[Option<Tool>]) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut duplicates = Vec::new();
        let named: Vec<(usize, &str)> =
            tools.iter().enumerate().filter_map(|(index, tool)| Some((index, tool.as_ref()?.name.as_str()))).collect();
        for &(index, name) in &named {
            if !seen.insert(name) {
                duplicates.push(name.to_owned());
                let here = path::with_key(&path::with_index("", index), "name");
                self.fault(here, DUPLICATE_NAME, format!("Duplicate tool names: {name}"));
            }
        }
        let names: Vec<&str> = named.iter().map(|(_, name)| *name).collect();
        for (later, earlier) in name::lookalikes(&names) {
            let here = path::with_key(&path::with_index("", named[later].0), "name");
            let message = format!("Tool name {} looks like the name of [{}]", names[later], named[earlier].0);
            self.fault(here, "confusable_name", message);
        }
        duplicates
    }

    /// The further fields of an open definition.
    fn open_fields(&mut self, fields: &Map<String, Value>, here: &str, tool: &mut Tool) {
        let at = |key: &str| path::with_key(here, key);
        let present = |key: &str| fields.get(key).filter(|value| !value.is_null());
        for (key, options) in [("type", &["custom", "function"][..]), ("executionMode", &["external"])] {
            if let Some(value) = present(key)
                && !value.as_str().is_some_and(|text| options.contains(&text))
            {
                let options: Vec<String> = options.iter().map(|option| format!("\"{option}\"")).collect();
                let message = format!("Invalid option: expected one of {}", options.join("|"));
                self.fault(at(key), "invalid_value", message);
            }
        }
        if let Some(value) = present("timeout") {
            tool.timeout = duration::positive_from_json(value);
            if tool.timeout.is_none() {
                let message = "Invalid input: expected seconds, or a text such as \"30s\", \"5m\" or \"1h\"";
                self.fault(at("timeout"), "invalid_format", message);
            }
        }
        if let Some(value) = present("onExpired") {
            tool.on_expired = value.as_str().and_then(ExpiryPolicy::parse);
            if tool.on_expired.is_none() {
                let message = "Invalid option: expected one of \"tell\"|\"fail\"";
                self.fault(at("onExpired"), "invalid_value", message);
            }
        }
        match present("cache").map(CachePolicy::from_json) {
            None => {}
            Some(Ok(policy)) => tool.set_cache(Some(policy)),
            Some(Err((member, expected))) => {
                let here = member.map_or_else(|| at("cache"), |member| path::with_key(&at("cache"), member));
                self.fault(here, "invalid_format", format!("Invalid input: {expected}"));
            }
        }
        // Serde would read a list as the fields in their order.
        for key in ["annotations", "deprecated"] {
            if let Some(value @ Value::Array(_)) = present(key) {
                self.wrong_type(at(key), "object", Some(value));
            }
        }
        if let Some(value) = present("annotations").filter(|value| !value.is_array()) {
            match serde_json::from_value::<Annotations>(value.clone()) {
                Ok(annotations) => tool.annotations = annotations,
                Err(error) => self.fault(at("annotations"), "invalid_type", format!("Invalid input: {error}")),
            }
        }
        match present("deprecated") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => tool.deprecated = Some(Deprecation::default()),
            // Reported above.
            Some(Value::Array(_)) => {}
            Some(value) => match serde_json::from_value::<Deprecation>(value.clone()) {
                Ok(deprecation) => tool.deprecated = Some(deprecation),
                Err(error) => self.fault(at("deprecated"), "invalid_type", format!("Invalid input: {error}")),
            },
        }
        for (key, field) in [("version", &mut tool.version), ("displayName", &mut tool.display_name)] {
            match present(key) {
                None => {}
                Some(Value::String(text)) => *field = Some(text.clone()),
                Some(other) => self.wrong_type(at(key), "string", Some(other)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
