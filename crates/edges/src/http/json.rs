//! Reading a JSON object field by field.
//!
//! Each field is taken out once, by name and type; what is left at the end is unknown, and said so.
//! Reading does not stop at the first fault: all are reported at once, up to
//! [`FAULTS_LISTED`]; further ones are counted, and lists are not read on then. A `null` is an absent
//! field everywhere but where a value of any kind is asked for.

use std::{borrow::Cow, collections::BTreeMap};

use bosun_core::{
    ceiling::FAULTS_LISTED,
    schema::path::{with_index, with_key},
};
use serde_json::{Map, Value};

use super::{
    error::{ApiError, Code, clip},
    warning::Warnings,
};

/// The most bytes that are shown of a fault's path and of its message: each is in the answer three times.
const LONGEST_PATH: usize = 1_024;
const LONGEST_MESSAGE: usize = 1_024;
/// The most bytes that all faults of an answer have together; further ones are only counted.
const LISTED_BYTES: usize = 64 * 1_024;

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldFault {
    /// Where: `spec.tools[0].name`, as [`bosun_core::schema::path`] writes it.
    pub(crate) path: String,
    /// What kind of request error it makes.
    pub(crate) class: Code,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
}

/// What reading found out beside the values themselves.
#[derive(Debug)]
pub(crate) struct RequestFindings {
    /// The request error that an ordinary fault makes.
    class: Code,
    faults: Vec<FieldFault>,
    /// How many bytes the faults have.
    listed: usize,
    /// Faults that are not listed, and items of lists that were not read.
    omitted: usize,
    warnings: Warnings,
}

impl RequestFindings {
    pub(crate) fn new(class: Code, warnings: Vec<String>) -> Self {
        Self { class, faults: Vec::new(), listed: 0, omitted: 0, warnings: warnings.into() }
    }

    /// Notes a fault of the ordinary kind.
    pub(crate) fn fault(&mut self, path: impl Into<String>, code: &'static str, message: impl Into<String>) {
        self.refuse(self.class, path, code, message);
    }

    pub(crate) fn refuse(
        &mut self,
        class: Code,
        path: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let (path, message) = (cut(path.into(), LONGEST_PATH), cut(message.into(), LONGEST_MESSAGE));
        self.listed += path.len() + message.len();
        self.faults.push(FieldFault { path, class, code: code.into(), message });
    }

    /// No further fault would be listed, so there is no point in reading on.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() >= FAULTS_LISTED || self.listed >= LISTED_BYTES
    }

    /// Counts faults, or items that were not read, without listing them.
    pub(crate) fn omit(&mut self, count: usize) {
        self.omitted += count;
    }

    /// Reads the items of a list, each with its place, until there are more faults than are listed.
    pub(crate) fn each(&mut self, path: &str, items: Vec<Value>, mut read: impl FnMut(&mut Self, String, Value)) {
        let mut items = items.into_iter().enumerate();
        while let Some((index, item)) = items.next() {
            if self.is_full() {
                self.omit(1 + items.len());
                return;
            }
            read(self, with_index(path, index), item);
        }
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.add(warning);
    }

    /// Warns of each of these, as long as warnings are kept; the others are only counted.
    pub(crate) fn warn_of_each<'a>(
        &mut self,
        mut names: impl Iterator<Item = &'a String>,
        warning: impl Fn(&str) -> String,
    ) {
        while !self.warnings.is_full() {
            let Some(name) = names.next() else { return };
            self.warn(warning(name));
        }
        self.omit_warnings(names.count());
    }

    /// Counts warnings without keeping them.
    pub(crate) fn omit_warnings(&mut self, count: usize) {
        self.warnings.omit(count);
    }

    /// The error that lists all faults, if there are any so far.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        self.error().map_or(Ok(()), Err)
    }

    /// The warnings, if there is no fault; else the error that lists all faults. If they are of several
    /// kinds, those that no better spelling would cure give it its code.
    pub(crate) fn conclude(self) -> Result<Vec<String>, ApiError> {
        match self.error() {
            Some(error) => Err(error),
            None => Ok(self.warnings.into()),
        }
    }

    fn error(&self) -> Option<ApiError> {
        let first = self.faults.first()?;
        let of_class = |class: Code| self.faults.iter().any(|fault| fault.class == class).then_some(class);
        let class = of_class(Code::UnsupportedField)
            .or_else(|| of_class(Code::UnsupportedTarget))
            .or_else(|| of_class(self.class))
            .unwrap_or(first.class);
        let details = self.faults.iter().map(FieldFault::to_detail).collect();
        Some(ApiError::of_fields(class, self.sentence(), details).omitting(self.omitted))
    }
}

impl RequestFindings {
    /// The first faults in words; all of them are in the details.
    fn sentence(&self) -> String {
        const SHOWN: usize = 10;
        let mut parts: Vec<_> =
            self.faults.iter().take(SHOWN).map(|fault| format!("{}: {}", fault.path, fault.message)).collect();
        if let Some(more) = self.faults.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            parts.push(format!("and {more} more"));
        }
        if self.omitted > 0 {
            parts.push(format!("{} further faults or unread entries are not listed", self.omitted));
        }
        parts.join("; ")
    }
}

impl FieldFault {
    fn to_detail(&self) -> Value {
        serde_json::json!({ "path": self.path, "code": self.code, "message": self.message })
    }
}

/// At most `most` bytes of a text; an ellipsis marks what was truncated.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Up to this many names are compared one by one.
const FEW: usize = 16;

/// A field that a reader takes, and the schema that describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyField {
    pub(crate) name: &'static str,
    pub(crate) schema: fn() -> Value,
}

/// All fields that the reader of an object takes.
pub(crate) type FieldTable = &'static [BodyField];

/// An object whose fields are being taken out.
#[derive(Debug)]
pub(crate) struct Object {
    path: String,
    members: Map<String, Value>,
    /// Where absorbed fields come from.
    origins: BTreeMap<String, String>,
    /// The fields that may be read, where they are declared.
    fields: Option<FieldTable>,
}

impl Object {
    /// The body itself.
    pub(crate) fn body(value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(members) => Ok(Self { path: String::new(), members, origins: BTreeMap::new(), fields: None }),
            other => Err(ApiError::new(
                Code::InvalidRequest,
                format!("the body must be a JSON object, not {}", kind_of(&other)),
            )),
        }
    }

    /// The object at `path`; anything else is a fault.
    pub(crate) fn at(path: impl Into<String>, value: Value, findings: &mut RequestFindings) -> Option<Self> {
        match value {
            Value::Object(members) => Some(Self { path: path.into(), members, origins: BTreeMap::new(), fields: None }),
            other => {
                findings.fault(path, "wrong_type", format!("must be an object, not {}", kind_of(&other)));
                None
            }
        }
    }

    /// Declares the fields that are going to be read. To read another one is a bug, which debug builds report: it
    /// would be missing from the description of the API.
    pub(crate) fn with_fields(self, fields: FieldTable) -> Self {
        Self { fields: Some(fields), ..self }
    }

    /// Removes a field that is accepted and has no effect, or that is refused.
    pub(crate) fn discard(&mut self, name: &str) -> Option<Value> {
        self.members.shift_remove(name)
    }

    /// The path of the field `name`. Asked of every field, needed for those that are at fault.
    pub(crate) fn path_of<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match self.origins.get(name) {
            Some(origin) => Cow::Owned(origin.clone()),
            // Most names are asked for by the program, and are as plain as can be.
            None if self.path.is_empty() && is_plain(name) => Cow::Borrowed(name),
            None => Cow::Owned(with_key(&self.path, name)),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_null())
    }

    /// Most fields that are asked for are absent, and of a few names to compare all is cheaper than to hash one.
    fn get(&self, name: &str) -> Option<&Value> {
        debug_assert!(
            self.fields.is_none_or(|fields| fields.iter().any(|field| field.name == name)),
            "field `{name}` is read and not declared"
        );
        if self.members.len() > FEW {
            return self.members.get(name);
        }
        self.members.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The field, unless it is absent or `null`.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.take_any(name).filter(|value| !value.is_null())
    }

    /// The field, `null` included.
    pub(crate) fn take_any(&mut self, name: &str) -> Option<Value> {
        self.get(name)?;
        self.members.shift_remove(name)
    }

    pub(crate) fn text(&mut self, name: &str, findings: &mut RequestFindings) -> Option<String> {
        self.typed(name, "a string", findings, |value| match value {
            Value::String(text) => Ok(text),
            other => Err(other),
        })
    }

    pub(crate) fn flag(&mut self, name: &str, findings: &mut RequestFindings) -> Option<bool> {
        self.typed(name, "true or false", findings, |value| value.as_bool().ok_or(value))
    }

    pub(crate) fn list(&mut self, name: &str, findings: &mut RequestFindings) -> Option<Vec<Value>> {
        self.typed(name, "an array", findings, |value| match value {
            Value::Array(items) => Ok(items),
            other => Err(other),
        })
    }

    pub(crate) fn object(&mut self, name: &str, findings: &mut RequestFindings) -> Option<Self> {
        let path = self.path_of(name);
        self.take(name).and_then(|value| Self::at(path, value, findings))
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        findings: &mut RequestFindings,
        convert: impl FnOnce(Value) -> Result<T, Value>,
    ) -> Option<T> {
        let value = self.take(name)?;
        convert(value)
            .map_err(|other| {
                let message = format!("must be {expected}, not {}", kind_of(&other));
                findings.fault(self.path_of(name), "wrong_type", message);
            })
            .ok()
    }

    /// Moves the fields of `inner` up into this object; a field that is in both is a fault.
    pub(crate) fn absorb(&mut self, inner: Self, findings: &mut RequestFindings) {
        let Self { path, members, .. } = inner;
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
            let origin = with_key(&path, &name);
            if self.members.get(&name).is_some_and(|value| !value.is_null()) {
                let message = format!("appears twice: here and as `{}`", clip(&self.path_of(&name)));
                findings.fault(origin, "duplicate_field", message);
            } else {
                self.origins.insert(name.clone(), origin);
                self.members.insert(name, value);
            }
        }
    }

    /// Warns of every field that was not taken as unknown.
    pub(crate) fn finish(self, findings: &mut RequestFindings) {
        let unknown = self.members.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
        let is_at_top = |name: &str| self.path.is_empty() && !self.origins.contains_key(name);
        // A name alone needs no quotes to be understood.
        let shown = |name: &str| if is_at_top(name) { clip(name) } else { clip(&self.path_of(name)) };
        findings.warn_of_each(unknown, |name| format!("unknown field `{}` was ignored", shown(name)));
    }

    /// All fields, by name: for objects whose keys are data.
    pub(crate) fn into_members(self) -> Map<String, Value> {
        self.members
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// What a value is, in JSON's words.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
