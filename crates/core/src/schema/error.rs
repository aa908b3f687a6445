//! Why a schema is rejected.

/// One fault of a schema, and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// The path in the schema: `properties.limit.type`. Empty for the schema as a whole.
    pub path: String,
    pub fault: SchemaFault,
}

impl std::error::Error for SchemaError {}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            write!(formatter, "{}", self.fault)
        } else {
            write!(formatter, "{}: {}", self.path, self.fault)
        }
    }
}

/// The faults of a rejected schema, as far as they can be found at once; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaRefusal {
    pub faults: Vec<SchemaError>,
    /// Memory of its patterns, as far as they were compiled before it was rejected.
    pub pattern_bytes: usize,
}

impl SchemaRefusal {
    /// The first fault.
    #[must_use]
    pub fn first(&self) -> SchemaError {
        let invalid = || SchemaFault::Invalid("schema is not valid".to_owned());
        self.faults.first().cloned().unwrap_or_else(|| SchemaError { path: String::new(), fault: invalid() })
    }
}

impl From<SchemaError> for SchemaRefusal {
    fn from(fault: SchemaError) -> Self {
        Self { faults: vec![fault], pattern_bytes: 0 }
    }
}

/// The kind of fault. [`SchemaFault::code`] is its stable name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    #[error("schema is nested deeper than {0} levels")]
    TooDeep(usize),
    #[error("schema is larger than {0} bytes")]
    TooLarge(usize),
    #[error("schema has more than {0} subschemas")]
    TooManySubschemas(usize),
    #[error("`enum` has {count} values, and at most {limit} are allowed")]
    EnumTooLong { count: usize, limit: usize },
    #[error("pattern is longer than {0} bytes")]
    PatternTooLong(usize),
    #[error(
        "pattern `{pattern}` uses {feature}, which cannot be matched in linear time; write it without, or use `format`"
    )]
    PatternNotLinear { pattern: String, feature: &'static str },
    #[error("pattern `{pattern}` is not a regular expression{reason}")]
    BadPattern { pattern: String, reason: String },
    #[error("the patterns of one schema are too large together: compiled, they may have at most {0} bytes")]
    PatternsTooLarge(usize),
    #[error("reference `{0}` leads out of the schema; only `#…` is followed")]
    RemoteReference(String),
    #[error("reference `{0}` has no target in the schema")]
    UnknownReference(String),
    #[error("reference leads back to itself without descending into the value")]
    EndlessReference,
    #[error("`$id` `{0}` below the root would change what the references next to it resolve to")]
    NestedId(String),
    #[error("`$schema` `{0}` is not a supported draft")]
    UnknownDraft(String),
    #[error("schema could take too long to check: its alternatives multiply")]
    TooCostly,
    /// `optional`, `nullable`, `prompt` or `hint` with an invalid value.
    #[error("{0}")]
    Extension(String),
    #[error("{0}")]
    Invalid(String),
}

impl SchemaFault {
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooDeep(_) => "schema_too_deep",
            Self::TooLarge(_) => "schema_too_large",
            Self::TooManySubschemas(_) => "schema_too_many_subschemas",
            Self::EnumTooLong { .. } => "enum_too_long",
            Self::PatternTooLong(_) => "pattern_too_long",
            Self::PatternNotLinear { .. } => "pattern_not_linear",
            Self::BadPattern { .. } => "pattern_invalid",
            Self::PatternsTooLarge(_) => "patterns_too_large",
            Self::RemoteReference(_) => "reference_remote",
            Self::UnknownReference(_) => "reference_unknown",
            Self::EndlessReference => "reference_endless",
            Self::NestedId(_) => "schema_id_nested",
            Self::UnknownDraft(_) => "schema_draft_unknown",
            Self::TooCostly => "schema_too_costly",
            Self::Extension(_) => "schema_extension_invalid",
            Self::Invalid(_) => "schema_invalid",
        }
    }
}
