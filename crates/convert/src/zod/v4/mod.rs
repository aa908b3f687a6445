//! Zod 4 as data: its schemas, their checks, their metadata and their parents.
//!
//! A schema of Zod 4 refers to the schema that it refines (`parent`), because metadata is inherited along that line,
//! and schemas are compared by identity when they are written. Both are modelled here; error messages, parsers and
//! transformations are not.

mod checks;
mod document;
mod fold;
mod methods;
mod regexes;
mod traits;
mod write;

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
};

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::{
    fault::{FaultCollector, ReadSchema, ZodProblem},
    library::{self, WrittenCall, ZodCall, ZodLibrary, ZodShape},
    value::{CheckId, MOST_WEIGHT, Regex, SchemaId, ZodFunction, ZodMember, ZodRecord, ZodValue, too_large},
};
use crate::ZodIo;
use checks::{Check, Pattern};

/// Every schema that a source made.
#[derive(Debug, Default)]
pub(super) struct Zod4<'a> {
    io: ZodIo,
    nodes: Vec<Zod4Node<'a>>,
    checks: Vec<Check>,
    deferred: VecDeque<(SchemaId, ZodFunction<'a>)>,
    /// The function behind every deferred schema.
    getters: HashMap<SchemaId, ZodFunction<'a>>,
    /// The weight of all schemas together: a chain of constants copies a little more every time.
    weight: usize,
    /// Zod's own regular expressions, each of which exists once.
    patterns: HashMap<&'static str, Pattern>,
}

#[derive(Clone, Debug)]
struct Zod4Node<'a> {
    kind: Zod4Kind<'a>,
    checks: Vec<Check>,
    parent: Option<SchemaId>,
    /// The metadata that `.meta()` and `.describe()` registered for this very schema. `None` is `undefined`.
    meta: Option<Meta>,
    offset: u32,
}

type Meta = IndexMap<String, Option<Json>>;

#[derive(Clone, Debug)]
enum Zod4Kind<'a> {
    /// A schema such as `z.email()` is its own first check.
    String(Option<Check>),
    Number(Option<Check>),
    BigInt,
    Boolean,
    Symbol,
    Undefined,
    Null,
    Any,
    Unknown,
    Never,
    Void,
    Date,
    NaN,
    File,
    Custom,
    Function,
    Transform,
    Map,
    Set,
    Enum(Rc<ZodRecord<'a>>),
    Literal(Vec<ZodValue<'a>>),
    TemplateLiteral(String),
    Array(SchemaId),
    Object {
        shape: ZodShape,
        catchall: Option<SchemaId>,
    },
    Union {
        options: Vec<SchemaId>,
        exclusive: bool,
    },
    Intersection(SchemaId, SchemaId),
    Tuple {
        items: Vec<SchemaId>,
        rest: Option<SchemaId>,
    },
    Record {
        key: SchemaId,
        value: SchemaId,
        mode: RecordMode,
    },
    Nullable(SchemaId),
    Optional {
        inner: SchemaId,
        exact: bool,
    },
    NonOptional(SchemaId),
    Success,
    Default {
        inner: SchemaId,
        value: ZodValue<'a>,
    },
    Prefault {
        inner: SchemaId,
        value: ZodValue<'a>,
    },
    Catch {
        inner: SchemaId,
        value: ZodValue<'a>,
    },
    Pipe {
        input: SchemaId,
        output: SchemaId,
        is_codec: bool,
    },
    Readonly(SchemaId),
    Promise(SchemaId),
    Lazy(SchemaId),
    /// The future result of the function of a `z.lazy` or a getter.
    Deferred,
    /// Its result.
    Alias(ReadSchema<SchemaId>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordMode {
    Strict,
    Partial,
    Loose,
}

impl Zod4Kind<'_> {
    /// The schema that `unwrap()` returns, of a schema that changes only how another one is used.
    fn wrapped(&self) -> Option<SchemaId> {
        match self {
            Self::Optional { inner, .. }
            | Self::Nullable(inner)
            | Self::Default { inner, .. }
            | Self::Prefault { inner, .. }
            | Self::NonOptional(inner)
            | Self::Catch { inner, .. }
            | Self::Readonly(inner)
            | Self::Promise(inner)
            | Self::Lazy(inner) => Some(*inner),
            _ => None,
        }
    }
}

impl<'a> Zod4<'a> {
    /// Zod 4, describing one side of its schemas.
    pub(super) fn new(io: ZodIo) -> Self {
        Self { io, ..Self::default() }
    }

    fn add(&mut self, kind: Zod4Kind<'a>, offset: u32) -> SchemaId {
        self.add_with(kind, Vec::new(), offset)
    }

    fn add_with(&mut self, kind: Zod4Kind<'a>, checks: Vec<Check>, offset: u32) -> SchemaId {
        self.weight += 1 + checks.len() + weight(&kind);
        self.nodes.push(Zod4Node { kind, checks, parent: None, meta: None, offset });
        SchemaId(self.nodes.len() - 1)
    }

    /// The schema behind an id, with deferred ones resolved.
    fn node(&self, id: SchemaId) -> ReadSchema<(SchemaId, &Zod4Node<'a>)> {
        let mut id = id;
        for _ in 0..=self.nodes.len() {
            let Some(node) = self.nodes.get(id.0) else { break };
            match &node.kind {
                Zod4Kind::Alias(target) => id = target.clone()?,
                _ => return Ok((id, node)),
            }
        }
        Err(ZodProblem::new(0, "recursive_value", "a schema is defined only by itself").into())
    }

    /// The metadata of a schema in the registry: its own over its parent's, whose `id` is not inherited.
    fn meta(&self, id: SchemaId) -> ReadSchema<Meta> {
        let mut line = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            let (_, node) = self.node(id)?;
            line.push(node);
            next = node.parent;
        }
        let mut meta = Meta::new();
        for node in line.into_iter().rev() {
            meta.shift_remove("id");
            meta.extend(node.meta.clone().unwrap_or_default());
        }
        Ok(meta)
    }

    /// A schema that a function will make once everything around it is known.
    fn defer(&mut self, function: ZodFunction<'a>, offset: u32) -> SchemaId {
        let id = self.add(Zod4Kind::Deferred, offset);
        self.deferred.push_back((id, function));
        self.getters.insert(id, function);
        id
    }

    fn shape_argument(&mut self, call: &ZodCall<'_, 'a>, index: usize) -> ReadSchema<ZodShape> {
        library::shape_argument(call, index, false, |function, offset| self.defer(function, offset))
    }

    fn make(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Zod4Kind<'a>> {
        if let Some(check) = self.string_format(call)? {
            return Ok(Zod4Kind::String(Some(check)));
        }
        Ok(match call.name {
            "string" | "coerce.string" => Zod4Kind::String(None),
            "number" | "coerce.number" => Zod4Kind::Number(None),
            "int" | "float32" | "float64" | "int32" | "uint32" => Zod4Kind::Number(checks::number_format(call.name)),
            "bigint" | "coerce.bigint" | "int64" | "uint64" => Zod4Kind::BigInt,
            "boolean" | "coerce.boolean" => Zod4Kind::Boolean,
            "date" | "coerce.date" => Zod4Kind::Date,
            "symbol" => Zod4Kind::Symbol,
            "undefined" => Zod4Kind::Undefined,
            "null" => Zod4Kind::Null,
            "any" => Zod4Kind::Any,
            "unknown" => Zod4Kind::Unknown,
            "never" => Zod4Kind::Never,
            "void" => Zod4Kind::Void,
            "nan" => Zod4Kind::NaN,
            "file" => Zod4Kind::File,
            "custom" | "instanceof" => Zod4Kind::Custom,
            "function" => Zod4Kind::Function,
            "transform" => Zod4Kind::Transform,
            "map" => Zod4Kind::Map,
            "set" => Zod4Kind::Set,
            "enum" => Zod4Kind::Enum(enum_entries(call)?),
            "nativeEnum" => match call.argument(0) {
                ZodValue::Record(record) => Zod4Kind::Enum(Rc::clone(record)),
                _ => return Err(call.wrong(0, "an enum")),
            },
            "literal" => match call.argument(0) {
                ZodValue::List(values) => Zod4Kind::Literal(values.as_ref().clone()),
                ZodValue::Unreadable(problems) => return Err(problems.clone()),
                value => Zod4Kind::Literal(vec![value.clone()]),
            },
            "templateLiteral" => self.template_literal(call)?,
            "array" => Zod4Kind::Array(call.schema(0)?),
            "object" if matches!(call.argument(0), ZodValue::Undefined) => {
                Zod4Kind::Object { shape: ZodShape::new(), catchall: None }
            }
            "object" => Zod4Kind::Object { shape: self.shape_argument(call, 0)?, catchall: None },
            "strictObject" | "looseObject" => {
                let shape = self.shape_argument(call, 0)?;
                let catchall = if call.name == "strictObject" { Zod4Kind::Never } else { Zod4Kind::Unknown };
                Zod4Kind::Object { shape, catchall: Some(self.add(catchall, call.offset)) }
            }
            "keyof" => match &self.node(call.schema(0)?)?.1.kind {
                Zod4Kind::Object { shape, .. } => Zod4Kind::Enum(keys_as_enum(shape, call.offset)),
                _ => return Err(call.wrong(0, "an object schema")),
            },
            "union" => Zod4Kind::Union { options: call.schemas(0)?, exclusive: false },
            "xor" => Zod4Kind::Union { options: call.schemas(0)?, exclusive: true },
            "discriminatedUnion" => self.discriminated_union(call)?,
            "intersection" => Zod4Kind::Intersection(call.schema(0)?, call.schema(1)?),
            "tuple" => {
                let rest = match call.argument(1) {
                    ZodValue::Schema(rest) => Some(*rest),
                    ZodValue::Unreadable(problems) => return Err(problems.clone()),
                    _ => None,
                };
                Zod4Kind::Tuple { items: call.schemas(0)?, rest }
            }
            "record" | "partialRecord" | "looseRecord" => self.record(call)?,
            "nullable" => Zod4Kind::Nullable(call.schema(0)?),
            "optional" => Zod4Kind::Optional { inner: call.schema(0)?, exact: false },
            "exactOptional" => Zod4Kind::Optional { inner: call.schema(0)?, exact: true },
            "nullish" => {
                let nullable = self.add(Zod4Kind::Nullable(call.schema(0)?), call.offset);
                Zod4Kind::Optional { inner: nullable, exact: false }
            }
            "nonoptional" => Zod4Kind::NonOptional(call.schema(0)?),
            "success" => Zod4Kind::Success,
            "_default" => Zod4Kind::Default { inner: call.schema(0)?, value: known(call, 1)? },
            "prefault" => Zod4Kind::Prefault { inner: call.schema(0)?, value: call.argument(1).clone() },
            "catch" => Zod4Kind::Catch { inner: call.schema(0)?, value: call.argument(1).clone() },
            "pipe" => Zod4Kind::Pipe { input: call.schema(0)?, output: call.schema(1)?, is_codec: false },
            "codec" => Zod4Kind::Pipe { input: call.schema(0)?, output: call.schema(1)?, is_codec: true },
            "preprocess" => {
                let output = call.schema(1)?;
                Zod4Kind::Pipe { input: self.add(Zod4Kind::Transform, call.offset), output, is_codec: false }
            }
            "stringbool" => {
                let input = self.add(Zod4Kind::String(None), call.offset);
                Zod4Kind::Pipe { input, output: self.add(Zod4Kind::Boolean, call.offset), is_codec: true }
            }
            "readonly" => Zod4Kind::Readonly(call.schema(0)?),
            "promise" => Zod4Kind::Promise(call.schema(0)?),
            "lazy" => {
                let function = call.function(0)?;
                Zod4Kind::Lazy(self.defer(function, call.offset))
            }
            name => {
                let problem = ZodProblem::new(
                    call.offset,
                    "unknown_function",
                    format!("Zod 4 has no `z.{name}` that is understood here"),
                );
                return Err(problem.into());
            }
        })
    }

    fn record(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Zod4Kind<'a>> {
        let mode = match call.name {
            "partialRecord" => RecordMode::Partial,
            "looseRecord" => RecordMode::Loose,
            _ => RecordMode::Strict,
        };
        match call.argument(1) {
            ZodValue::Schema(value) => Ok(Zod4Kind::Record { key: call.schema(0)?, value: *value, mode }),
            ZodValue::Unreadable(problems) => Err(problems.clone()),
            // A single schema is that of the values, as in Zod 3.
            _ if mode == RecordMode::Strict => {
                let value = call.schema(0)?;
                Ok(Zod4Kind::Record { key: self.add(Zod4Kind::String(None), call.offset), value, mode })
            }
            _ => Err(call.wrong(1, "a schema")),
        }
    }

    fn discriminated_union(&self, call: &ZodCall<'_, 'a>) -> ReadSchema<Zod4Kind<'a>> {
        let discriminator = call.text(0)?;
        let options = call.schemas(1)?;
        for (index, option) in options.iter().enumerate() {
            if let Zod4Kind::Object { shape, .. } = &self.node(*option)?.1.kind
                && !shape.contains_key(discriminator)
            {
                return Err(call.throws(format!("Invalid discriminated union option at index \"{index}\"")));
            }
        }
        Ok(Zod4Kind::Union { options, exclusive: true })
    }

    /// `z.json()`, which is recursive by itself.
    fn json(&mut self, offset: u32) -> SchemaId {
        let deferred = self.add(Zod4Kind::Deferred, offset);
        let lazy = self.add(Zod4Kind::Lazy(deferred), offset);
        let text = self.add(Zod4Kind::String(None), offset);
        let number = self.add(Zod4Kind::Number(None), offset);
        let boolean = self.add(Zod4Kind::Boolean, offset);
        let null = self.add(Zod4Kind::Null, offset);
        let array = self.add(Zod4Kind::Array(lazy), offset);
        let key = self.add(Zod4Kind::String(None), offset);
        let record = self.add(Zod4Kind::Record { key, value: lazy, mode: RecordMode::Strict }, offset);
        let options = vec![text, number, boolean, null, array, record];
        let union = self.add(Zod4Kind::Union { options, exclusive: false }, offset);
        self.settle(deferred, Ok(union));
        lazy
    }
}

/// A value that is required now.
fn known<'a>(call: &ZodCall<'_, 'a>, index: usize) -> ReadSchema<ZodValue<'a>> {
    match call.argument(index) {
        ZodValue::Unreadable(problems) => Err(problems.clone()),
        value => Ok(value.clone()),
    }
}

fn keys_as_enum<'a>(shape: &ZodShape, offset: u32) -> Rc<ZodRecord<'a>> {
    let member = |key: &String| (key.clone(), ZodMember { value: ZodValue::text(key.as_str()), offset, getter: false });
    Rc::new(ZodRecord::new(offset, shape.keys().map(member)))
}

/// An array of names, or an object as TypeScript's `enum` makes it.
fn enum_entries<'a>(call: &ZodCall<'_, 'a>) -> ReadSchema<Rc<ZodRecord<'a>>> {
    match call.argument(0) {
        ZodValue::Record(record) => Ok(Rc::clone(record)),
        ZodValue::List(values) => {
            let mut gather = FaultCollector::default();
            let entry = |value: &ZodValue<'a>| match (value, value.to_text()) {
                (ZodValue::Unreadable(problems), _) => Err(problems.clone()),
                (value, Some(key)) => Ok((key, ZodMember { value: value.clone(), offset: call.offset, getter: false })),
                (value, None) => {
                    Err(call.fail("wrong_argument", format!("an enum is made of strings, not of {}", value.kind())))
                }
            };
            let entries: Vec<_> = values.iter().filter_map(|value| gather.take(entry(value))).collect();
            gather.finish(Rc::new(ZodRecord::new(call.offset, entries)))
        }
        _ => Err(call.wrong(0, "an array of strings or an enum")),
    }
}

/// The weight of a schema's content.
fn weight(kind: &Zod4Kind<'_>) -> usize {
    match kind {
        Zod4Kind::Object { shape, .. } => 2 * shape.len(),
        Zod4Kind::Union { options, .. } | Zod4Kind::Tuple { items: options, .. } => options.len(),
        Zod4Kind::Literal(values) => values.len(),
        Zod4Kind::TemplateLiteral(source) => source.len() / 64,
        _ => 0,
    }
}

impl<'a> ZodLibrary<'a> for Zod4<'a> {
    fn construct(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>> {
        if self.weight > MOST_WEIGHT {
            return Err(too_large(call.offset));
        }
        if call.name == "json" {
            return Ok(ZodValue::Schema(self.json(call.offset)));
        }
        if let Some(check) = self.free_check(call)? {
            self.checks.push(check);
            return Ok(ZodValue::Check(CheckId(self.checks.len() - 1)));
        }
        let kind = self.make(call)?;
        Ok(ZodValue::Schema(self.add(kind, call.offset)))
    }

    fn method(&mut self, receiver: SchemaId, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>> {
        if self.weight > MOST_WEIGHT {
            return Err(too_large(call.offset));
        }
        self.apply(receiver, call)
    }

    fn property(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<ZodValue<'a>> {
        self.member(receiver, name, offset)
    }

    fn constant(&mut self, name: &str) -> Option<ZodValue<'a>> {
        if let Some(name) = name.strip_prefix("regexes.") {
            let (name, source) = regexes::named(name)?;
            let pattern = self.shared(name, source);
            return Some(ZodValue::Regex(pattern));
        }
        match name {
            "TimePrecision.Any" => Some(ZodValue::Null),
            "TimePrecision.Minute" => Some(ZodValue::Number(-1.0)),
            "TimePrecision.Second" => Some(ZodValue::Number(0.0)),
            "TimePrecision.Millisecond" => Some(ZodValue::Number(3.0)),
            "TimePrecision.Microsecond" => Some(ZodValue::Number(6.0)),
            _ => None,
        }
    }

    fn next_deferred(&mut self) -> Option<(SchemaId, ZodFunction<'a>)> {
        self.deferred.pop_front()
    }

    fn settle(&mut self, deferred: SchemaId, schema: ReadSchema<SchemaId>) {
        if let Some(node) = self.nodes.get_mut(deferred.0) {
            node.kind = Zod4Kind::Alias(schema);
        }
    }

    fn write(&self, root: SchemaId) -> ReadSchema<WrittenCall> {
        document::write(self, root)
    }
}

impl Zod4<'_> {
    /// One of Zod's own patterns: always the same object.
    fn shared(&mut self, name: &'static str, source: &str) -> Pattern {
        let make = || Rc::new(Regex { source: source.to_owned(), flags: String::new() });
        Rc::clone(self.patterns.entry(name).or_insert_with(make))
    }
}
