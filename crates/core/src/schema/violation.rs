//! Validation errors of a value, in sentences.
//!
//! The four sentences for missing, unknown, mistyped and fractional parameters are the ones that clients of the
//! original provider match on. The others follow their form: which parameter, what it must be, what it is.

use std::collections::{BTreeSet, HashSet};

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
    types::JsonType,
};
use serde_json::Value;

use super::path;
use crate::text::clip;

/// One fault of a value.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// Its path: `address.city`, `tags[1]`; empty for the value as a whole.
    pub path: String,
    /// The keyword of the schema that was violated.
    pub keyword: String,
    /// One sentence, complete in itself.
    pub message: String,
}

impl Violation {
    pub(super) fn whole(keyword: &str, message: String) -> Self {
        Self { path: String::new(), keyword: keyword.to_owned(), message }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Maximum number of faults that are listed; the rest is counted.
const MOST_REPORTED: usize = 100;

/// The validator's errors, in sentences: missing, then unknown, then types, each from the outside in and in the order
/// of the schema; then the rest by path.
pub(super) fn describe_all(errors: &[ValidationError<'_>], root: &Value) -> Vec<Violation> {
    let mut reported = ReportedViolations::default();
    for rank in 0..=LAST_RANK {
        for error in errors.iter().filter(|error| rank_of(error.kind()) == rank) {
            describe(error, root, &mut reported);
        }
    }
    let mut violations = reported.violations;
    violations.sort_by(|left, right| {
        let rank = |violation: &Violation| rank_of_keyword(&violation.keyword);
        rank(left).cmp(&rank(right)).then_with(|| place(left).cmp(place(right)))
    });
    if reported.omitted > 0 {
        violations.push(Violation::whole("more", format!("Arguments have {} more faults", reported.omitted)));
    }
    violations
}

const LAST_RANK: u8 = 3;

fn rank_of(kind: &Kind) -> u8 {
    rank_of_keyword(kind.keyword())
}

fn rank_of_keyword(keyword: &str) -> u8 {
    match keyword {
        "required" => 0,
        "additionalProperties" | "unevaluatedProperties" => 1,
        "type" => 2,
        _ => LAST_RANK,
    }
}

/// The sort key of a fault within its rank: the path of its object, or its own.
fn place(violation: &Violation) -> &str {
    let path = violation.path.as_str();
    if rank_of_keyword(&violation.keyword) == LAST_RANK {
        return path;
    }
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

#[derive(Default)]
struct ReportedViolations {
    violations: Vec<Violation>,
    seen: HashSet<(String, String)>,
    omitted: usize,
}

impl ReportedViolations {
    fn add(&mut self, path: String, keyword: &str, message: String) {
        if self.violations.len() >= MOST_REPORTED {
            self.omitted += 1;
            return;
        }
        // Two branches of a schema may report the same fault at the same path.
        if self.seen.insert((path.clone(), message.clone())) {
            self.violations.push(Violation { path, keyword: keyword.to_owned(), message });
        }
    }
}

/// Describes one error of the validator; some contain several faults.
fn describe(error: &ValidationError<'_>, root: &Value, reported: &mut ReportedViolations) {
    let here = path::from_pointer(error.instance_path().as_str(), root);
    let keyword = error.kind().keyword();
    match error.kind() {
        Kind::Required { property } => {
            let missing = path::with_key(&here, property.as_str().unwrap_or_default());
            let message = format!("Missing required parameter: {missing}");
            reported.add(missing, keyword, message);
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            for name in unexpected {
                let unknown = path::with_key(&here, name);
                let message = format!("Unknown parameter: {}", clip(&unknown, 200));
                reported.add(unknown, keyword, message);
            }
        }
        kind => {
            let message = sentence(kind, &subject(&here), error.instance(), &|context| closest(context, error, root));
            reported.add(here, keyword, message);
        }
    }
}

/// Pointers to the nulls that an error is about.
#[derive(Debug, Default)]
pub(super) struct Nulls {
    pub(super) plain: BTreeSet<String>,
    /// About which only some alternative of `anyOf` or `oneOf` complains.
    pub(super) in_alternatives: BTreeSet<String>,
}

pub(super) fn nulls(errors: &[ValidationError<'_>]) -> Nulls {
    let mut nulls = Nulls::default();
    for error in errors {
        if error.instance().is_null() {
            nulls.plain.insert(error.instance_path().as_str().to_owned());
        } else if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind() {
            nulls_within(context, &mut nulls.in_alternatives);
        }
    }
    nulls
}

fn nulls_within(context: &Alternatives, found: &mut BTreeSet<String>) {
    for error in context.iter().flatten() {
        if error.instance().is_null() {
            found.insert(error.instance_path().as_str().to_owned());
        } else if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind() {
            nulls_within(context, found);
        }
    }
}

fn subject(path: &str) -> String {
    if path.is_empty() { "Arguments".to_owned() } else { format!("Parameter {}", clip(path, 200)) }
}

/// The alternatives of `anyOf` and `oneOf`, each with its errors.
type Alternatives = [Vec<ValidationError<'static>>];

fn sentence(kind: &Kind, subject: &str, instance: &Value, closest: &dyn Fn(&Alternatives) -> String) -> String {
    let got = || shown(instance);
    match kind {
        Kind::Type { kind } => type_sentence(kind, subject, instance),
        Kind::Enum { options } => format!("{subject} must be one of {}, got: {}", listed(options), got()),
        Kind::Constant { expected_value } => format!("{subject} must be {}, got: {}", shown(expected_value), got()),
        Kind::Minimum { limit } => format!("{subject} must be at least {limit}, got: {}", got()),
        Kind::Maximum { limit } => format!("{subject} must be at most {limit}, got: {}", got()),
        Kind::ExclusiveMinimum { limit } => format!("{subject} must be greater than {limit}, got: {}", got()),
        Kind::ExclusiveMaximum { limit } => format!("{subject} must be less than {limit}, got: {}", got()),
        Kind::MultipleOf { multiple_of } => format!("{subject} must be a multiple of {multiple_of}, got: {}", got()),
        Kind::MinLength { limit } => {
            format!("{subject} must have at least {}, got: {}", counted(*limit, "character"), length(instance))
        }
        Kind::MaxLength { limit } => {
            format!("{subject} must have at most {}, got: {}", counted(*limit, "character"), length(instance))
        }
        Kind::MinItems { limit } => {
            format!("{subject} must have at least {}, got: {}", counted(*limit, "item"), length(instance))
        }
        Kind::MaxItems { limit } => {
            format!("{subject} must have at most {}, got: {}", counted(*limit, "item"), length(instance))
        }
        Kind::AdditionalItems { limit } => {
            format!("{subject} must have at most {}, got: {}", counted(*limit as u64, "item"), length(instance))
        }
        Kind::MinProperties { limit } => {
            format!("{subject} must have at least {}, got: {}", counted(*limit, "member"), length(instance))
        }
        Kind::MaxProperties { limit } => {
            format!("{subject} must have at most {}, got: {}", counted(*limit, "member"), length(instance))
        }
        Kind::Pattern { pattern } => format!("{subject} must match the pattern {}, got: {}", clip(pattern, 200), got()),
        Kind::Format { format } => format!("{subject} must be in the format {}, got: {}", clip(format, 40), got()),
        Kind::UniqueItems => format!("{subject} must not have the same item twice"),
        Kind::Contains => {
            format!("{subject} must contain an item that its schema requires, and has none or the wrong number")
        }
        Kind::UnevaluatedItems { .. } => format!("{subject} has items that its schema does not allow"),
        Kind::Not { schema } => format!("{subject} must not match {}, got: {}", shown(schema), got()),
        Kind::FalseSchema => format!("{subject} is not allowed"),
        Kind::PropertyNames { error } => {
            let name = shown(error.instance());
            format!(
                "{subject} has a name that is not allowed: {}",
                sentence(error.kind(), &name, error.instance(), closest)
            )
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            format!("{subject} matches none of its {} alternatives{}", context.len(), closest(context))
        }
        Kind::OneOfMultipleValid { context } => {
            format!("{subject} must match exactly one of its {} alternatives, and matches several", context.len())
        }
        Kind::ContentEncoding { content_encoding } => {
            format!("{subject} must be encoded as {}", clip(content_encoding, 40))
        }
        Kind::ContentMediaType { content_media_type } => {
            format!("{subject} must hold {}", clip(content_media_type, 80))
        }
        Kind::FromUtf8 { .. } => format!("{subject} must hold UTF-8 text"),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            format!("{subject} could not be matched with its pattern")
        }
        // The only keyword of our own, which provides the rest of the sentence.
        Kind::Custom { message, .. } => format!("{subject} {}, got: {}", clip(message, 300), got()),
        Kind::Referencing(error) => format!("{subject} could not be checked: {}", clip(&error.to_string(), 200)),
        // Handled in `describe`.
        Kind::Required { .. } | Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            format!("{subject} is not valid")
        }
    }
}

fn type_sentence(kind: &TypeKind, subject: &str, instance: &Value) -> String {
    let expected: Vec<JsonType> = match kind {
        TypeKind::Single(single) => vec![*single],
        TypeKind::Multiple(several) => several.iter().collect(),
    };
    let whole_only = expected.contains(&JsonType::Integer) && !expected.contains(&JsonType::Number);
    if whole_only && instance.is_number() {
        return format!("{subject} must be an integer, got: {instance}");
    }
    let names: Vec<&str> = expected.iter().map(|kind| kind.as_str()).collect();
    format!("{subject} has wrong type: expected {}, got {}", names.join(" or "), type_name(instance))
}

/// The JavaScript name of a value's type, which clients of the original expect.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The closest alternative, described by its faults.
fn closest(context: &Alternatives, whole: &ValidationError<'_>, root: &Value) -> String {
    let best = context.iter().filter(|errors| !errors.is_empty()).min_by_key(|errors| {
        // An alternative for another type of value, or with another tag, is not the one that was meant.
        let other_type = errors
            .iter()
            .any(|error| matches!(error.kind(), Kind::Type { .. }) && error.instance_path() == whole.instance_path());
        let other_tag = errors.iter().any(|error| matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. }));
        (other_type, other_tag, errors.len())
    });
    let violations = describe_all(best.map(Vec::as_slice).unwrap_or_default(), root);
    let messages: Vec<&str> = violations.iter().map(|violation| violation.message.as_str()).collect();
    if messages.is_empty() { String::new() } else { format!("; closest: {}", clip(&messages.join("; "), 300)) }
}

fn shown(value: &Value) -> String {
    clip(&value.to_string(), 80)
}

fn listed(options: &Value) -> String {
    const SHOWN: usize = 20;
    let Some(options) = options.as_array() else { return shown(options) };
    let mut names: Vec<String> = options.iter().take(SHOWN).map(shown).collect();
    if options.len() > SHOWN {
        names.push(format!("{} more", options.len() - SHOWN));
    }
    names.join(", ")
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
