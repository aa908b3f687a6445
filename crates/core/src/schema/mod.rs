//! JSON Schema: compiled once, then asked about arguments.
//!
//! A [`Schema`] is made from what a stranger wrote, so compiling checks it first: bounded in size,
//! no reference leaves it, every pattern is matched in linear time. [`Schema::check_arguments`] takes
//! the model's text and gives either arguments that fit or every [`Violation`] at once, in a stable
//! order, in sentences that a model can act on. Nothing is repaired but the one thing that
//! [`Arguments::dropped`] records.

use std::{fmt, sync::Arc};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::json::{self, Limits};

pub use error::{SchemaError, SchemaFault};
pub use violation::Violation;
pub(crate) use violation::type_name;

mod cost;
pub mod dialect;
mod error;
mod inspect;
pub(crate) mod keyword;
pub(crate) mod path;
mod pattern;
mod violation;

/// A JSON Schema that is ready to check values: draft 2020-12, or the draft that `$schema` names.
pub struct Schema {
    source: Arc<Value>,
    validator: Validator,
    cost: cost::Cost,
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Schema").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Arguments that fit their schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    pub value: Value,
    /// Where an explicit `null` was left out, because the parameter is optional and takes none.
    pub dropped: Vec<String>,
}

/// Every fault of a schema that can be told without compiling it, each with its place.
#[must_use]
pub fn faults(source: &Value) -> Vec<SchemaError> {
    inspect::inspect(source).err().unwrap_or_default()
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The first fault; [`faults`] has all of them.
    pub fn compile(source: &Arc<Value>) -> Result<Self, SchemaError> {
        let inspection = inspect::inspect(source).map_err(|faults| {
            let invalid = SchemaFault::Invalid("schema is not valid".to_owned());
            faults.into_iter().next().unwrap_or(SchemaError { path: String::new(), fault: invalid })
        })?;
        let validator = jsonschema::options()
            .with_draft(inspection.draft)
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(
                PatternOptions::regex().size_limit(pattern::MAX_COMPILED).dfa_size_limit(pattern::MAX_COMPILED),
            )
            .build(source)
            .map_err(|error| SchemaError {
                path: path::from_pointer(error.instance_path().as_str(), source),
                fault: SchemaFault::Invalid(crate::text::clip(&error.to_string(), 200)),
            })?;
        Ok(Self { source: Arc::clone(source), validator, cost: inspection.cost })
    }

    /// The schema as its owner wrote it.
    #[must_use]
    pub fn source(&self) -> &Arc<Value> {
        &self.source
    }

    /// Everything that is wrong with `value`: what is missing, then what is unknown, then wrong
    /// types, then the rest by place.
    #[must_use]
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        match self.refuse_unread(value) {
            Some(refusal) => vec![refusal],
            None => self.violations(value),
        }
    }

    /// Checks the arguments of a call, as the model wrote them.
    ///
    /// An empty text stands for no arguments. An explicit `null` for a parameter that does not take
    /// it counts as leaving the parameter out: an optional one is dropped, a required one is missing.
    ///
    /// # Errors
    /// Every fault at once, in the order of [`Schema::validate`].
    pub fn check_arguments(&self, text: &str) -> Result<Arguments, Vec<Violation>> {
        let text = if text.trim().is_empty() { "{}" } else { text };
        let value = json::parse(text, Limits::ARGUMENTS)
            .map_err(|error| vec![Violation::whole("json", format!("Invalid tool arguments JSON: {error}"))])?;
        self.check_value(value)
    }

    /// [`Schema::check_arguments`] for arguments that are already a value.
    ///
    /// # Errors
    /// As there.
    pub fn check_value(&self, value: Value) -> Result<Arguments, Vec<Violation>> {
        if !value.is_object() {
            return Err(vec![Violation::whole("type", "Arguments are not valid: must be an object.".to_owned())]);
        }
        if let Some(refusal) = self.refuse_unread(&value) {
            return Err(vec![refusal]);
        }
        let violations = self.violations(&value);
        if violations.is_empty() {
            return Ok(Arguments { value, dropped: Vec::new() });
        }
        self.without_nulls(value, violations)
    }

    /// Leaves out the nulls that are at fault, and checks again. What is then missing was required.
    fn without_nulls(&self, mut value: Value, violations: Vec<Violation>) -> Result<Arguments, Vec<Violation>> {
        let mut pointers: Vec<String> = self
            .validator
            .iter_errors(&value)
            .filter(|error| error.instance().is_null())
            .map(|error| error.instance_path().as_str().to_owned())
            .collect();
        pointers.sort_unstable();
        pointers.dedup();
        pointers.retain(|pointer| is_member(&value, pointer));
        if pointers.is_empty() {
            return Err(violations);
        }
        let dropped = pointers.iter().map(|pointer| path::from_pointer(pointer, &value)).collect();
        for pointer in &pointers {
            remove_member(&mut value, pointer);
        }
        let violations = self.violations(&value);
        if violations.is_empty() { Ok(Arguments { value, dropped }) } else { Err(violations) }
    }

    /// Why a value cannot even be looked at: the validator recurses, and has no clock.
    fn refuse_unread(&self, value: &Value) -> Option<Violation> {
        let depth = Limits::ARGUMENTS.depth;
        if is_deeper_than(value, depth) {
            return Some(Violation::whole("depth", format!("Arguments are nested deeper than {depth} levels")));
        }
        if !self.cost.allows(value) {
            let message = "Arguments are too large and too deep for a schema with so many alternatives";
            return Some(Violation::whole("cost", message.to_owned()));
        }
        None
    }

    fn violations(&self, value: &Value) -> Vec<Violation> {
        let mut violations = Vec::new();
        for error in self.validator.iter_errors(value) {
            violation::describe(&error, value, &mut violations);
        }
        violation::sort(&mut violations);
        violations
    }
}

/// Depth without recursion: the value may come from code, where nothing bounds it.
fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let mut pending = vec![(value, 0)];
    while let Some((value, depth)) = pending.pop() {
        match value {
            Value::Array(_) | Value::Object(_) if depth == limit => return true,
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => pending.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    false
}

/// The object that holds what `pointer` leads to, and its key there.
fn split(pointer: &str) -> Option<(&str, String)> {
    let (parent, _) = pointer.rsplit_once('/')?;
    path::segments(&pointer[parent.len()..]).next().map(|key| (parent, key))
}

fn is_member(value: &Value, pointer: &str) -> bool {
    split(pointer).and_then(|(parent, _)| value.pointer(parent)).is_some_and(Value::is_object)
}

fn remove_member(value: &mut Value, pointer: &str) {
    if let Some((parent, key)) = split(pointer)
        && let Some(Value::Object(members)) = value.pointer_mut(parent)
    {
        // The order of the others is part of what history shows.
        members.shift_remove(&key);
    }
}

#[cfg(test)]
mod tests;
