//! JSON Schema validation of arguments, with schemas compiled once.
//!
//! A [`Schema`] comes from an untrusted client, so compiling inspects it first: it is bounded in size, no reference
//! leaves it, every pattern is matched in linear time. [`Schema::check_arguments`] takes the model's text and returns
//! either valid arguments or every [`Violation`] at once, in a stable order, in sentences that a model can act on.
//! Nothing is repaired except for what [`CheckedArguments::dropped`] records.
//!
//! ```
//! use bosun_core::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile(&json!({
//!     "type": "object",
//!     "properties": {
//!         "query": {"type": "string"},
//!         "limit": {"type": "integer", "minimum": 1, "maximum": 100},
//!         "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
//!     },
//!     "required": ["query"],
//! }).into())?;
//!
//! let violations = schema.check_arguments(r#"{"limit": 2.5, "address": {}}"#).unwrap_err();
//! let messages: Vec<&str> = violations.iter().map(|violation| violation.message.as_str()).collect();
//! assert_eq!(messages, [
//!     "Missing required parameter: query",
//!     "Missing required parameter: address.city",
//!     "Parameter limit must be an integer, got: 2.5",
//! ]);
//!
//! // Models write null for optional parameters that they omit.
//! let arguments = schema.check_arguments(r#"{"query": "x", "limit": null}"#).unwrap();
//! assert_eq!(arguments.dropped, ["limit"]);
//! assert_eq!(arguments.into_value(), json!({"query": "x"}));
//! # Ok::<(), bosun_core::schema::SchemaError>(())
//! ```

use std::{fmt, sync::Arc};

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::{
    ceiling,
    json::{self, JsonLimits},
};
use inspect::SchemaInspection;

pub use cache::SchemaCache;
pub use error::{SchemaError, SchemaFault, SchemaRefusal};
pub(crate) use inspect::measure;
pub use normalize::{Guidance, Normalized, SchemaWarning, normalize};
pub use violation::Violation;
pub(crate) use violation::type_name;

mod cache;
mod cost;
pub mod dialect;
mod draft;
mod error;
mod inspect;
pub(crate) mod keyword;
mod normalize;
pub mod path;
mod pattern;
pub mod reference;
mod violation;

/// A compiled JSON Schema: of the draft that `$schema` names, or else of the one that its shape suggests, 2020-12 or 7.
pub struct Schema {
    source: Arc<Value>,
    normalized: Normalized,
    validator: Validator,
    cost: cost::Cost,
    backtracking: u64,
    pattern_bytes: usize,
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Schema").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Arguments that are valid for their schema.
#[derive(Debug)]
pub struct CheckedArguments {
    value: Value,
    /// Paths of explicit `null`s that were dropped, because the parameter is optional and not nullable.
    pub dropped: Vec<String>,
}

impl CheckedArguments {
    /// The arguments themselves.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value
    }
}

/// Every fault of a schema that can be found without compiling it, each with its path.
#[must_use]
pub fn faults(source: &Value) -> Vec<SchemaError> {
    let mut faults = inspect::inspect(source).err().map(|refusal| refusal.faults).unwrap_or_default();
    add_faults_of_extensions(source, &mut faults);
    faults
}

fn add_faults_of_extensions(source: &Value, faults: &mut Vec<SchemaError>) {
    if let Err(more) = normalize::normalize_value(source) {
        faults.extend(more.into_iter().filter(|fault| !faults.contains(fault)).collect::<Vec<_>>());
    }
}

/// Whether a schema is so small and plain that compiling it takes microseconds. Others are compiled off the async
/// worker threads.
#[must_use]
pub fn is_light(source: &Value) -> bool {
    inspect::is_light(source)
}

/// Above this estimated cost, the faults of a value are not listed in full: there could be millions.
const LISTED: u64 = 200_000;

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The first fault; [`faults`] returns all of them.
    pub fn compile(source: &Arc<Value>) -> Result<Self, SchemaError> {
        Self::compile_or_refuse(source).map_err(|refusal| refusal.first())
    }

    /// The same, with all faults.
    fn compile_or_refuse(source: &Arc<Value>) -> Result<Self, SchemaRefusal> {
        let inspection = inspect::inspect(source).map_err(|mut refusal| {
            add_faults_of_extensions(source, &mut refusal.faults);
            refusal
        })?;
        let pattern_bytes = inspection.patterns.bytes();
        let normalized = normalize(source).map_err(|faults| SchemaRefusal { faults, pattern_bytes })?;
        let mut options = jsonschema::options()
            .with_draft(inspection.draft)
            .offline()
            .should_validate_formats(true)
            // Newer than draft 7, and used in half of the schemas that claim to follow it.
            .with_format("uuid", is_uuid)
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(ceiling::PATTERN_COMPILED_BYTES)
                    .dfa_size_limit(ceiling::PATTERN_COMPILED_BYTES),
            );
        if inspection.backtracking > 0 {
            options = options.with_keyword("pattern", pattern::keyword(inspection.patterns));
        }
        let validator = options.build(&normalized.clean).map_err(|error| SchemaRefusal {
            faults: vec![SchemaError {
                path: path::from_pointer(error.instance_path().as_str(), source),
                fault: SchemaFault::Invalid(crate::text::clip(&error.to_string(), 200)),
            }],
            pattern_bytes,
        })?;
        let SchemaInspection { cost, backtracking, .. } = inspection;
        Ok(Self { source: Arc::clone(source), normalized, validator, cost, backtracking, pattern_bytes })
    }

    /// An estimate of the memory of its patterns.
    #[must_use]
    pub fn pattern_bytes(&self) -> usize {
        self.pattern_bytes
    }

    /// An estimate of its total memory: measured, the validator and the clean copy are each as large as the source.
    #[must_use]
    pub fn weight(&self) -> usize {
        3 * json::memory(&self.source) + self.pattern_bytes
    }

    /// An upper estimate of the cost of validating a text of this many bytes, in applications of subschemas.
    #[must_use]
    pub fn effort(&self, bytes: usize) -> u64 {
        /// Steps of a backtracking match for each byte of its text.
        const STEPS: u64 = 16;
        (bytes as u64).saturating_mul(1 + self.cost.highest().saturating_add(STEPS * self.backtracking))
    }

    /// The schema as its owner wrote it.
    #[must_use]
    pub fn source(&self) -> &Arc<Value> {
        &self.source
    }

    /// The schema without extensions, and what they said.
    #[must_use]
    pub fn normalized(&self) -> &Normalized {
        &self.normalized
    }

    /// Everything that is wrong with `value`: missing members, then unknown ones, then wrong types, then the rest by
    /// path.
    #[must_use]
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        if let Some(violation) = too_deep(value) {
            return vec![violation];
        }
        match self.judge(value) {
            SchemaVerdict::Fits => Vec::new(),
            SchemaVerdict::Fails { violations, .. } => violations,
        }
    }

    /// Validates the arguments of a call, as the model wrote them.
    ///
    /// An empty text means no arguments. An explicit `null` for a parameter that is not nullable counts as absent: an
    /// optional one is dropped, a required one is missing.
    ///
    /// # Errors
    /// Every fault at once, in the order of [`Schema::validate`].
    pub fn check_arguments(&self, text: &str) -> Result<CheckedArguments, Vec<Violation>> {
        let text = if text.trim().is_empty() { "{}" } else { text };
        let value = json::parse(text, JsonLimits::ARGUMENTS)
            .map_err(|error| vec![Violation::whole("json", format!("Invalid tool arguments JSON: {error}"))])?;
        refuse_other_than_object(value.is_object())?;
        self.judge_arguments(value)
    }

    /// [`Schema::check_arguments`] for arguments that are already a value.
    ///
    /// # Errors
    /// As there.
    pub fn check_value(&self, value: Value) -> Result<CheckedArguments, Vec<Violation>> {
        refuse_other_than_object(value.is_object())?;
        if let Some(violation) = too_deep(&value) {
            return Err(vec![violation]);
        }
        self.judge_arguments(value)
    }

    fn judge_arguments(&self, value: Value) -> Result<CheckedArguments, Vec<Violation>> {
        match self.judge(&value) {
            SchemaVerdict::Fits => Ok(CheckedArguments { value, dropped: Vec::new() }),
            SchemaVerdict::Fails { violations, nulls } => self.without_nulls(value, violations, &nulls),
        }
    }

    /// Drops the nulls that are at fault, and validates again. A parameter that is then missing was required.
    fn without_nulls(
        &self,
        mut value: Value,
        mut violations: Vec<Violation>,
        nulls: &violation::Nulls,
    ) -> Result<CheckedArguments, Vec<Violation>> {
        let mut dropped = Vec::new();
        // Nulls inside an alternative are dropped only if that makes the value valid: the alternative may not be the
        // one that was meant.
        for (pointers, in_alternative) in [(&nulls.plain, false), (&nulls.in_alternatives, true)] {
            let pointers: Vec<&String> = pointers.iter().filter(|pointer| is_member(&value, pointer)).collect();
            if pointers.is_empty() {
                continue;
            }
            dropped.extend(pointers.iter().map(|pointer| path::from_pointer(pointer, &value)));
            for pointer in pointers {
                remove_member(&mut value, pointer);
            }
            match self.judge(&value) {
                SchemaVerdict::Fits => return Ok(CheckedArguments { value, dropped }),
                SchemaVerdict::Fails { violations: remaining, .. } if !in_alternative => violations = remaining,
                SchemaVerdict::Fails { .. } => {}
            }
        }
        Err(violations)
    }

    /// Validates a value whose depth is bounded.
    fn judge(&self, value: &Value) -> SchemaVerdict {
        // The validator has no timeout, so this comes first.
        if !self.cost.allows(value) {
            let message = "Arguments are too large and too deep for a schema with so many alternatives";
            let violations = vec![Violation::whole("cost", message.to_owned())];
            return SchemaVerdict::Fails { violations, nulls: violation::Nulls::default() };
        }
        pattern::begin_value();
        if self.validator.is_valid(value) {
            return SchemaVerdict::Fits;
        }
        pattern::begin_value();
        let errors: Vec<ValidationError<'_>> = if self.cost.of(value) > LISTED {
            self.validator.validate(value).err().into_iter().collect()
        } else {
            self.validator.iter_errors(value).collect()
        };
        let violations = violation::describe_all(&errors, value);
        SchemaVerdict::Fails { violations, nulls: violation::nulls(&errors) }
    }
}

enum SchemaVerdict {
    Fits,
    Fails { violations: Vec<Violation>, nulls: violation::Nulls },
}

fn refuse_other_than_object(is_object: bool) -> Result<(), Vec<Violation>> {
    let refusal = || vec![Violation::whole("type", "Arguments are not valid: must be an object.".to_owned())];
    is_object.then_some(()).ok_or_else(refusal)
}

/// The validator recurses, and so does everything else here.
fn too_deep(value: &Value) -> Option<Violation> {
    let deepest = JsonLimits::ARGUMENTS.depth;
    let message = || format!("Arguments are nested deeper than {deepest} levels");
    is_deeper_than(value, deepest).then(|| Violation::whole("depth", message()))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// Depth without recursion: the value may come from code, where it is unbounded.
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

/// The pointer to the parent object, and the key there.
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
