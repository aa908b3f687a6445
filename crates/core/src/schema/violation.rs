//! What is wrong with a value, in sentences.
//!
//! The four sentences for missing, unknown, mistyped and fractional parameters are the ones that
//! clients of the original provider match on. The others follow their form: which parameter, what
//! it must be, what it is.

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
    types::JsonType,
};
use serde_json::Value;

use super::path;
use crate::text::clip;

/// One fault of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where: `address.city`, `tags[1]`; empty for the value as a whole.
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

/// Missing, then unknown, then types, each from the outside in and as the schema lists them; the rest
/// by place.
pub(super) fn sort(violations: &mut [Violation]) {
    let rank = |violation: &Violation| match violation.keyword.as_str() {
        "required" | "dependentRequired" => 0,
        "additionalProperties" | "unevaluatedProperties" => 1,
        "type" => 2,
        _ => 3,
    };
    violations.sort_by(|left, right| {
        let ranks = (rank(left), rank(right));
        let place = |violation: &Violation| match ranks.0 {
            3 => violation.path.clone(),
            _ => parent(&violation.path).to_owned(),
        };
        ranks.0.cmp(&ranks.1).then_with(|| place(left).cmp(&place(right)))
    });
}

fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

/// Adds what one error of the validator says; some say several things.
pub(super) fn describe(error: &ValidationError<'_>, root: &Value, found: &mut Vec<Violation>) {
    let here = path::from_pointer(error.instance_path().as_str(), root);
    let keyword = error.kind().keyword();
    let mut add = |path: String, message: String| {
        let violation = Violation { path, keyword: keyword.to_owned(), message };
        // Two branches of a schema may say the same of the same place.
        if !found.contains(&violation) {
            found.push(violation);
        }
    };
    match error.kind() {
        Kind::Required { property } => {
            let missing = path::with_key(&here, property.as_str().unwrap_or_default());
            let message = format!("Missing required parameter: {missing}");
            add(missing, message);
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            for name in unexpected {
                let unknown = path::with_key(&here, name);
                let message = format!("Unknown parameter: {}", clip(&unknown, 200));
                add(unknown, message);
            }
        }
        kind => {
            let message = sentence(kind, &subject(&here), error.instance(), &|context| closest(context, error, root));
            add(here, message);
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
            format!("{subject} must contain an item that its schema asks for, and has none or the wrong number")
        }
        Kind::UnevaluatedItems { .. } => format!("{subject} has items that its schema does not know"),
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
        Kind::Custom { message, .. } => format!("{subject} is not valid: {}", clip(message, 200)),
        Kind::Referencing(error) => format!("{subject} could not be checked: {}", clip(&error.to_string(), 200)),
        // Told apart in `describe`.
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

/// The type of a value in the words of JavaScript, which the clients of the original know.
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

/// The alternative that came closest, in the words of its faults.
fn closest(context: &Alternatives, whole: &ValidationError<'_>, root: &Value) -> String {
    let best = context.iter().filter(|errors| !errors.is_empty()).min_by_key(|errors| {
        // An alternative for another type of value, or with another tag, is not the one that was meant.
        let other_type = errors
            .iter()
            .any(|error| matches!(error.kind(), Kind::Type { .. }) && error.instance_path() == whole.instance_path());
        let other_tag = errors.iter().any(|error| matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. }));
        (other_type, other_tag, errors.len())
    });
    let mut violations = Vec::new();
    for error in best.into_iter().flatten() {
        describe(error, root, &mut violations);
    }
    sort(&mut violations);
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
