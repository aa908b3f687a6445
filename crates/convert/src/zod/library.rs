//! The interface between the reader of source and a version of Zod.
//!
//! A [`Library`] is Zod itself, reduced to data: it makes schemas from calls and chains, and writes them as JSON
//! Schema. It never sees syntax. The reader does not know the meaning of any method.

use serde_json::Value as Json;

use super::{
    fault::{Gather, Problem, Problems, Read},
    value::{Function, Member, Record, SchemaId, Value},
};

/// One call with its arguments: `z.name(…)` or `schema.name(…)`.
#[derive(Debug)]
pub(super) struct Call<'c, 'a> {
    pub(super) name: &'c str,
    pub(super) arguments: &'c [Value<'a>],
    /// The position of the name in the source.
    pub(super) offset: u32,
}

/// A JSON Schema and the assumptions that were made to write it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) schema: Json,
    pub(super) remarks: Vec<Remark>,
}

/// A warning before it is located.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) offset: u32,
    pub(super) code: &'static str,
    pub(super) message: String,
}

pub(super) trait Library<'a> {
    /// `z.name(…)`, where `name` may be dotted.
    fn construct(&mut self, call: &Call<'_, 'a>) -> Read<Value<'a>>;

    /// `schema.name(…)`.
    fn method(&mut self, receiver: SchemaId, call: &Call<'_, 'a>) -> Read<Value<'a>>;

    /// `schema.name`, if its value can be determined.
    fn property(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<Value<'a>>;

    /// `z.name` that is neither a function nor a namespace, such as `z.regexes.email`.
    fn constant(&mut self, name: &str) -> Option<Value<'a>>;

    /// A schema that still has to be made by calling `Function`, if there is one.
    fn next_deferred(&mut self) -> Option<(SchemaId, Function<'a>)>;

    /// The result of calling the function of a deferred schema.
    fn settle(&mut self, deferred: SchemaId, schema: Read<SchemaId>);

    fn write(&self, root: SchemaId) -> Read<Written>;
}

impl<'a> Call<'_, 'a> {
    pub(super) fn argument(&self, index: usize) -> &Value<'a> {
        self.arguments.get(index).unwrap_or(&Value::Undefined)
    }

    pub(super) fn wrong(&self, index: usize, expected: &str) -> Problems {
        let value = self.argument(index);
        if let Value::Unreadable(problems) = value {
            return problems.clone();
        }
        let message = format!("`{}` takes {expected} as argument {}, not {}", self.name, index + 1, value.kind());
        Problem::new(self.offset, "wrong_argument", message).into()
    }

    pub(super) fn fail(&self, code: &'static str, message: impl Into<String>) -> Problems {
        Problem::new(self.offset, code, message).into()
    }

    /// An error that Zod itself would throw while the module is loaded.
    pub(super) fn throws(&self, message: impl Into<String>) -> Problems {
        let problem = Problem::new(self.offset, "zod_throws", format!("Zod throws here: {}", message.into()));
        problem.hint("the module cannot be loaded as it is").into()
    }

    pub(super) fn schema(&self, index: usize) -> Read<SchemaId> {
        match self.argument(index) {
            Value::Schema(id) => Ok(*id),
            _ => Err(self.wrong(index, "a schema")),
        }
    }

    pub(super) fn schemas(&self, index: usize) -> Read<Vec<SchemaId>> {
        let Value::List(values) = self.argument(index) else { return Err(self.wrong(index, "an array of schemas")) };
        let mut gather = Gather::default();
        let schemas = values.iter().filter_map(|value| gather.take(as_schema(value, self.offset))).collect();
        gather.finish(schemas)
    }

    pub(super) fn number(&self, index: usize) -> Read<f64> {
        match self.argument(index) {
            Value::Number(value) => Ok(*value),
            _ => Err(self.wrong(index, "a number")),
        }
    }

    pub(super) fn text(&self, index: usize) -> Read<&str> {
        match self.argument(index) {
            Value::Text(value) => Ok(value),
            _ => Err(self.wrong(index, "a string")),
        }
    }

    pub(super) fn record(&self, index: usize) -> Read<&Record<'a>> {
        match self.argument(index) {
            Value::Record(record) => Ok(record),
            _ => Err(self.wrong(index, "an object")),
        }
    }

    pub(super) fn function(&self, index: usize) -> Read<Function<'a>> {
        match self.argument(index) {
            Value::Function(function) => Ok(*function),
            Value::Global("String") => Ok(Function::Global("String")),
            Value::Global("Number") => Ok(Function::Global("Number")),
            Value::Global("Boolean") => Ok(Function::Global("Boolean")),
            _ => Err(self.wrong(index, "a function")),
        }
    }

    /// The member of an options object. A string in its place is an error message and has none.
    pub(super) fn option(&self, index: usize, name: &str) -> Read<Option<&Member<'a>>> {
        match self.argument(index) {
            Value::Record(record) => Ok(record.get(name)),
            Value::Unreadable(problems) => Err(problems.clone()),
            _ => Ok(None),
        }
    }
}

pub(super) fn as_schema(value: &Value<'_>, offset: u32) -> Read<SchemaId> {
    match value {
        Value::Schema(id) => Ok(*id),
        Value::Unreadable(problems) => Err(problems.clone()),
        other => {
            Err(Problem::new(offset, "not_a_schema", format!("a schema is expected here, not {}", other.kind())).into())
        }
    }
}
