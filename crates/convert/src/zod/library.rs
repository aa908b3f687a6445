//! The interface between the reader of source and a version of Zod.
//!
//! A [`ZodLibrary`] is Zod itself, reduced to data: it makes schemas from calls and chains, and writes them as JSON
//! Schema. It never sees syntax. The reader does not know the meaning of any method.

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::{
    fault::{FaultCollector, Problems, ReadSchema, ZodProblem},
    value::{SchemaId, ZodFunction, ZodMember, ZodRecord, ZodValue},
};

/// One call with its arguments: `z.name(…)` or `schema.name(…)`.
#[derive(Debug)]
pub(super) struct ZodCall<'c, 'a> {
    pub(super) name: &'c str,
    pub(super) arguments: &'c [ZodValue<'a>],
    /// The position of the name in the source.
    pub(super) offset: u32,
}

/// A JSON Schema and the assumptions that were made to write it.
#[derive(Debug)]
pub(super) struct WrittenCall {
    pub(super) schema: Json,
    pub(super) remarks: Vec<ZodRemark>,
}

/// A warning before it is located.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZodRemark {
    pub(super) offset: u32,
    pub(super) code: &'static str,
    pub(super) message: String,
}

pub(super) trait ZodLibrary<'a> {
    /// `z.name(…)`, where `name` may be dotted.
    fn construct(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>>;

    /// `schema.name(…)`.
    fn method(&mut self, receiver: SchemaId, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>>;

    /// `schema.name`, if its value can be determined.
    fn property(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<ZodValue<'a>>;

    /// `z.name` that is neither a function nor a namespace, such as `z.regexes.email`.
    fn constant(&mut self, name: &str) -> Option<ZodValue<'a>>;

    /// A schema that still has to be made by calling `Function`, if there is one.
    fn next_deferred(&mut self) -> Option<(SchemaId, ZodFunction<'a>)>;

    /// The result of calling the function of a deferred schema.
    fn settle(&mut self, deferred: SchemaId, schema: ReadSchema<SchemaId>);

    fn write(&self, root: SchemaId) -> ReadSchema<WrittenCall>;
}

impl<'a> ZodCall<'_, 'a> {
    pub(super) fn argument(&self, index: usize) -> &ZodValue<'a> {
        self.arguments.get(index).unwrap_or(&ZodValue::Undefined)
    }

    pub(super) fn wrong(&self, index: usize, expected: &str) -> Problems {
        let value = self.argument(index);
        if let ZodValue::Unreadable(problems) = value {
            return problems.clone();
        }
        let message = format!("`{}` takes {expected} as argument {}, not {}", self.name, index + 1, value.kind());
        ZodProblem::new(self.offset, "wrong_argument", message).into()
    }

    pub(super) fn fail(&self, code: &'static str, message: impl Into<String>) -> Problems {
        ZodProblem::new(self.offset, code, message).into()
    }

    /// An error that Zod itself would throw while the module is loaded.
    pub(super) fn throws(&self, message: impl Into<String>) -> Problems {
        let problem = ZodProblem::new(self.offset, "zod_throws", format!("Zod throws here: {}", message.into()));
        problem.hint("the module cannot be loaded as it is").into()
    }

    pub(super) fn schema(&self, index: usize) -> ReadSchema<SchemaId> {
        match self.argument(index) {
            ZodValue::Schema(id) => Ok(*id),
            _ => Err(self.wrong(index, "a schema")),
        }
    }

    pub(super) fn schemas(&self, index: usize) -> ReadSchema<Vec<SchemaId>> {
        let ZodValue::List(values) = self.argument(index) else { return Err(self.wrong(index, "an array of schemas")) };
        let mut gather = FaultCollector::default();
        let schemas = values.iter().filter_map(|value| gather.take(as_schema(value, self.offset))).collect();
        gather.finish(schemas)
    }

    pub(super) fn number(&self, index: usize) -> ReadSchema<f64> {
        match self.argument(index) {
            ZodValue::Number(value) => Ok(*value),
            _ => Err(self.wrong(index, "a number")),
        }
    }

    pub(super) fn text(&self, index: usize) -> ReadSchema<&str> {
        match self.argument(index) {
            ZodValue::Text(value) => Ok(value),
            _ => Err(self.wrong(index, "a string")),
        }
    }

    pub(super) fn record(&self, index: usize) -> ReadSchema<&ZodRecord<'a>> {
        match self.argument(index) {
            ZodValue::Record(record) => Ok(record),
            _ => Err(self.wrong(index, "an object")),
        }
    }

    pub(super) fn function(&self, index: usize) -> ReadSchema<ZodFunction<'a>> {
        match self.argument(index) {
            ZodValue::Function(function) => Ok(*function),
            ZodValue::Global("String") => Ok(ZodFunction::Global("String")),
            ZodValue::Global("Number") => Ok(ZodFunction::Global("Number")),
            ZodValue::Global("Boolean") => Ok(ZodFunction::Global("Boolean")),
            _ => Err(self.wrong(index, "a function")),
        }
    }

    /// The member of an options object. A string in its place is an error message and has none.
    pub(super) fn option(&self, index: usize, name: &str) -> ReadSchema<Option<&ZodMember<'a>>> {
        match self.argument(index) {
            ZodValue::Record(record) => Ok(record.get(name)),
            ZodValue::Unreadable(problems) => Err(problems.clone()),
            _ => Ok(None),
        }
    }
}

pub(super) fn as_schema(value: &ZodValue<'_>, offset: u32) -> ReadSchema<SchemaId> {
    match value {
        ZodValue::Schema(id) => Ok(*id),
        ZodValue::Unreadable(problems) => Err(problems.clone()),
        other => {
            Err(ZodProblem::new(offset, "not_a_schema", format!("a schema is expected here, not {}", other.kind()))
                .into())
        }
    }
}

/// The keys of an object, and their schemas.
pub(super) type ZodShape = IndexMap<String, SchemaId>;

/// The argument at `index`, read as the keys of an object. The schema of a getter is made by `defer`.
pub(super) fn shape_argument<'a>(
    call: &ZodCall<'_, 'a>,
    index: usize,
    skips_undefined: bool,
    mut defer: impl FnMut(ZodFunction<'a>, u32) -> SchemaId,
) -> ReadSchema<ZodShape> {
    let ZodValue::Record(record) = call.argument(index) else {
        return Err(call.wrong(index, "an object of schemas"));
    };
    let mut gather = FaultCollector::default();
    let mut shape = ZodShape::new();
    for (key, member) in record.iter() {
        let schema = match &member.value {
            ZodValue::Function(function) if member.getter => Ok(defer(*function, member.offset)),
            ZodValue::Undefined if skips_undefined => continue,
            value => as_schema(value, member.offset),
        };
        if let Some(schema) = gather.take(schema) {
            shape.insert(key.to_owned(), schema);
        }
    }
    gather.finish(shape)
}
