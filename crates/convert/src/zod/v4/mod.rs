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
    fault::{Gather, Problem, Read},
    library::{Call, Library, Written, as_schema},
    value::{CheckId, Function, MOST_WEIGHT, Member, Record, Regex, SchemaId, Value, too_large},
};
use checks::{Check, Pattern};

/// Every schema that a source made.
#[derive(Debug, Default)]
pub(super) struct Zod4<'a> {
    nodes: Vec<Node<'a>>,
    checks: Vec<Check>,
    deferred: VecDeque<(SchemaId, Function<'a>)>,
    /// The function behind every deferred schema.
    getters: HashMap<SchemaId, Function<'a>>,
    /// The weight of all schemas together: a chain of constants copies a little more every time.
    weight: usize,
    /// Zod's own regular expressions, each of which exists once.
    patterns: HashMap<&'static str, Pattern>,
}

#[derive(Clone, Debug)]
struct Node<'a> {
    kind: Kind<'a>,
    checks: Vec<Check>,
    parent: Option<SchemaId>,
    /// The metadata that `.meta()` and `.describe()` registered for this very schema. `None` is `undefined`.
    meta: Option<Meta>,
    offset: u32,
}

type Meta = IndexMap<String, Option<Json>>;
type Shape = IndexMap<String, SchemaId>;

#[derive(Clone, Debug)]
enum Kind<'a> {
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
    Enum(Rc<Record<'a>>),
    Literal(Vec<Value<'a>>),
    TemplateLiteral(String),
    Array(SchemaId),
    Object {
        shape: Shape,
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
        value: Value<'a>,
    },
    Prefault(SchemaId),
    Catch {
        inner: SchemaId,
        value: Value<'a>,
    },
    Pipe {
        input: SchemaId,
        output: SchemaId,
    },
    Readonly(SchemaId),
    Promise(SchemaId),
    Lazy(SchemaId),
    /// The future result of the function of a `z.lazy` or a getter.
    Deferred,
    /// Its result.
    Alias(Read<SchemaId>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordMode {
    Strict,
    Partial,
    Loose,
}

impl<'a> Zod4<'a> {
    fn add(&mut self, kind: Kind<'a>, offset: u32) -> SchemaId {
        self.add_with(kind, Vec::new(), offset)
    }

    fn add_with(&mut self, kind: Kind<'a>, checks: Vec<Check>, offset: u32) -> SchemaId {
        self.weight += 1 + checks.len() + weight(&kind);
        self.nodes.push(Node { kind, checks, parent: None, meta: None, offset });
        SchemaId(self.nodes.len() - 1)
    }

    /// The schema behind an id, with deferred ones resolved.
    fn node(&self, id: SchemaId) -> Read<(SchemaId, &Node<'a>)> {
        let mut id = id;
        for _ in 0..=self.nodes.len() {
            let Some(node) = self.nodes.get(id.0) else { break };
            match &node.kind {
                Kind::Alias(target) => id = target.clone()?,
                _ => return Ok((id, node)),
            }
        }
        Err(Problem::new(0, "recursive_value", "a schema is defined only by itself").into())
    }

    /// The metadata of a schema in the registry: its own over its parent's, whose `id` is not inherited.
    fn meta(&self, id: SchemaId) -> Read<Meta> {
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
    fn defer(&mut self, function: Function<'a>, offset: u32) -> SchemaId {
        let id = self.add(Kind::Deferred, offset);
        self.deferred.push_back((id, function));
        self.getters.insert(id, function);
        id
    }

    fn shape(&mut self, record: &Record<'a>) -> Read<Shape> {
        let mut gather = Gather::default();
        let mut shape = Shape::new();
        for (key, member) in record.iter() {
            let schema = match &member.value {
                Value::Function(function) if member.getter => Ok(self.defer(*function, member.offset)),
                value => as_schema(value, member.offset),
            };
            if let Some(schema) = gather.take(schema) {
                shape.insert(key.to_owned(), schema);
            }
        }
        gather.finish(shape)
    }

    fn shape_argument(&mut self, call: &Call<'_, 'a>, index: usize) -> Read<Shape> {
        match call.argument(index) {
            Value::Record(record) => {
                let record = Rc::clone(record);
                self.shape(&record)
            }
            _ => Err(call.wrong(index, "an object of schemas")),
        }
    }

    fn make(&mut self, call: &Call<'_, 'a>) -> Read<Kind<'a>> {
        if let Some(check) = self.string_format(call)? {
            return Ok(Kind::String(Some(check)));
        }
        Ok(match call.name {
            "string" | "coerce.string" => Kind::String(None),
            "number" | "coerce.number" => Kind::Number(None),
            "int" | "float32" | "float64" | "int32" | "uint32" => Kind::Number(checks::number_format(call.name)),
            "bigint" | "coerce.bigint" | "int64" | "uint64" => Kind::BigInt,
            "boolean" | "coerce.boolean" => Kind::Boolean,
            "date" | "coerce.date" => Kind::Date,
            "symbol" => Kind::Symbol,
            "undefined" => Kind::Undefined,
            "null" => Kind::Null,
            "any" => Kind::Any,
            "unknown" => Kind::Unknown,
            "never" => Kind::Never,
            "void" => Kind::Void,
            "nan" => Kind::NaN,
            "file" => Kind::File,
            "custom" | "instanceof" => Kind::Custom,
            "function" => Kind::Function,
            "transform" => Kind::Transform,
            "map" => Kind::Map,
            "set" => Kind::Set,
            "enum" => Kind::Enum(enum_entries(call)?),
            "nativeEnum" => match call.argument(0) {
                Value::Record(record) => Kind::Enum(Rc::clone(record)),
                _ => return Err(call.wrong(0, "an enum")),
            },
            "literal" => match call.argument(0) {
                Value::List(values) => Kind::Literal(values.as_ref().clone()),
                Value::Unreadable(problems) => return Err(problems.clone()),
                value => Kind::Literal(vec![value.clone()]),
            },
            "templateLiteral" => self.template_literal(call)?,
            "array" => Kind::Array(call.schema(0)?),
            "object" if matches!(call.argument(0), Value::Undefined) => {
                Kind::Object { shape: Shape::new(), catchall: None }
            }
            "object" => Kind::Object { shape: self.shape_argument(call, 0)?, catchall: None },
            "strictObject" | "looseObject" => {
                let shape = self.shape_argument(call, 0)?;
                let catchall = if call.name == "strictObject" { Kind::Never } else { Kind::Unknown };
                Kind::Object { shape, catchall: Some(self.add(catchall, call.offset)) }
            }
            "keyof" => match &self.node(call.schema(0)?)?.1.kind {
                Kind::Object { shape, .. } => Kind::Enum(keys_as_enum(shape, call.offset)),
                _ => return Err(call.wrong(0, "an object schema")),
            },
            "union" => Kind::Union { options: call.schemas(0)?, exclusive: false },
            "xor" => Kind::Union { options: call.schemas(0)?, exclusive: true },
            "discriminatedUnion" => self.discriminated_union(call)?,
            "intersection" => Kind::Intersection(call.schema(0)?, call.schema(1)?),
            "tuple" => {
                let rest = match call.argument(1) {
                    Value::Schema(rest) => Some(*rest),
                    Value::Unreadable(problems) => return Err(problems.clone()),
                    _ => None,
                };
                Kind::Tuple { items: call.schemas(0)?, rest }
            }
            "record" | "partialRecord" | "looseRecord" => self.record(call)?,
            "nullable" => Kind::Nullable(call.schema(0)?),
            "optional" => Kind::Optional { inner: call.schema(0)?, exact: false },
            "exactOptional" => Kind::Optional { inner: call.schema(0)?, exact: true },
            "nullish" => {
                let nullable = self.add(Kind::Nullable(call.schema(0)?), call.offset);
                Kind::Optional { inner: nullable, exact: false }
            }
            "nonoptional" => Kind::NonOptional(call.schema(0)?),
            "success" => Kind::Success,
            "_default" => Kind::Default { inner: call.schema(0)?, value: known(call, 1)? },
            "prefault" => Kind::Prefault(call.schema(0)?),
            "catch" => Kind::Catch { inner: call.schema(0)?, value: call.argument(1).clone() },
            "pipe" => Kind::Pipe { input: call.schema(0)?, output: call.schema(1)? },
            "codec" => Kind::Pipe { input: call.schema(0)?, output: call.schema(1)? },
            "preprocess" => {
                let output = call.schema(1)?;
                Kind::Pipe { input: self.add(Kind::Transform, call.offset), output }
            }
            "stringbool" => {
                let input = self.add(Kind::String(None), call.offset);
                Kind::Pipe { input, output: self.add(Kind::Boolean, call.offset) }
            }
            "readonly" => Kind::Readonly(call.schema(0)?),
            "promise" => Kind::Promise(call.schema(0)?),
            "lazy" => {
                let function = call.function(0)?;
                Kind::Lazy(self.defer(function, call.offset))
            }
            name => {
                let problem = Problem::new(
                    call.offset,
                    "unknown_function",
                    format!("Zod 4 has no `z.{name}` that is understood here"),
                );
                return Err(problem.into());
            }
        })
    }

    fn record(&mut self, call: &Call<'_, 'a>) -> Read<Kind<'a>> {
        let mode = match call.name {
            "partialRecord" => RecordMode::Partial,
            "looseRecord" => RecordMode::Loose,
            _ => RecordMode::Strict,
        };
        match call.argument(1) {
            Value::Schema(value) => Ok(Kind::Record { key: call.schema(0)?, value: *value, mode }),
            Value::Unreadable(problems) => Err(problems.clone()),
            // A single schema is that of the values, as in Zod 3.
            _ if mode == RecordMode::Strict => {
                let value = call.schema(0)?;
                Ok(Kind::Record { key: self.add(Kind::String(None), call.offset), value, mode })
            }
            _ => Err(call.wrong(1, "a schema")),
        }
    }

    fn discriminated_union(&self, call: &Call<'_, 'a>) -> Read<Kind<'a>> {
        let discriminator = call.text(0)?;
        let options = call.schemas(1)?;
        for (index, option) in options.iter().enumerate() {
            if let Kind::Object { shape, .. } = &self.node(*option)?.1.kind
                && !shape.contains_key(discriminator)
            {
                return Err(call.throws(format!("Invalid discriminated union option at index \"{index}\"")));
            }
        }
        Ok(Kind::Union { options, exclusive: true })
    }

    /// `z.json()`, which is recursive by itself.
    fn json(&mut self, offset: u32) -> SchemaId {
        let deferred = self.add(Kind::Deferred, offset);
        let lazy = self.add(Kind::Lazy(deferred), offset);
        let text = self.add(Kind::String(None), offset);
        let number = self.add(Kind::Number(None), offset);
        let boolean = self.add(Kind::Boolean, offset);
        let null = self.add(Kind::Null, offset);
        let array = self.add(Kind::Array(lazy), offset);
        let key = self.add(Kind::String(None), offset);
        let record = self.add(Kind::Record { key, value: lazy, mode: RecordMode::Strict }, offset);
        let options = vec![text, number, boolean, null, array, record];
        let union = self.add(Kind::Union { options, exclusive: false }, offset);
        self.settle(deferred, Ok(union));
        lazy
    }
}

/// A value that is required now.
fn known<'a>(call: &Call<'_, 'a>, index: usize) -> Read<Value<'a>> {
    match call.argument(index) {
        Value::Unreadable(problems) => Err(problems.clone()),
        value => Ok(value.clone()),
    }
}

fn keys_as_enum<'a>(shape: &Shape, offset: u32) -> Rc<Record<'a>> {
    let member = |key: &String| (key.clone(), Member { value: Value::text(key.as_str()), offset, getter: false });
    Rc::new(Record::new(offset, shape.keys().map(member)))
}

/// An array of names, or an object as TypeScript's `enum` makes it.
fn enum_entries<'a>(call: &Call<'_, 'a>) -> Read<Rc<Record<'a>>> {
    match call.argument(0) {
        Value::Record(record) => Ok(Rc::clone(record)),
        Value::List(values) => {
            let mut gather = Gather::default();
            let entry = |value: &Value<'a>| match (value, value.to_text()) {
                (Value::Unreadable(problems), _) => Err(problems.clone()),
                (value, Some(key)) => Ok((key, Member { value: value.clone(), offset: call.offset, getter: false })),
                (value, None) => {
                    Err(call.fail("wrong_argument", format!("an enum is made of strings, not of {}", value.kind())))
                }
            };
            let entries: Vec<_> = values.iter().filter_map(|value| gather.take(entry(value))).collect();
            gather.finish(Rc::new(Record::new(call.offset, entries)))
        }
        _ => Err(call.wrong(0, "an array of strings or an enum")),
    }
}

/// The weight of a schema's content.
fn weight(kind: &Kind<'_>) -> usize {
    match kind {
        Kind::Object { shape, .. } => 2 * shape.len(),
        Kind::Union { options, .. } | Kind::Tuple { items: options, .. } => options.len(),
        Kind::Literal(values) => values.len(),
        Kind::TemplateLiteral(source) => source.len() / 64,
        _ => 0,
    }
}

impl<'a> Library<'a> for Zod4<'a> {
    fn construct(&mut self, call: &Call<'_, 'a>) -> Read<Value<'a>> {
        if self.weight > MOST_WEIGHT {
            return Err(too_large(call.offset));
        }
        if call.name == "json" {
            return Ok(Value::Schema(self.json(call.offset)));
        }
        if let Some(check) = self.free_check(call)? {
            self.checks.push(check);
            return Ok(Value::Check(CheckId(self.checks.len() - 1)));
        }
        let kind = self.make(call)?;
        Ok(Value::Schema(self.add(kind, call.offset)))
    }

    fn method(&mut self, receiver: SchemaId, call: &Call<'_, 'a>) -> Read<Value<'a>> {
        if self.weight > MOST_WEIGHT {
            return Err(too_large(call.offset));
        }
        self.apply(receiver, call)
    }

    fn property(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<Value<'a>> {
        self.member(receiver, name, offset)
    }

    fn constant(&mut self, name: &str) -> Option<Value<'a>> {
        if let Some(name) = name.strip_prefix("regexes.") {
            let (name, source) = regexes::named(name)?;
            let pattern = self.shared(name, source);
            return Some(Value::Regex(pattern));
        }
        match name {
            "TimePrecision.Any" => Some(Value::Null),
            "TimePrecision.Minute" => Some(Value::Number(-1.0)),
            "TimePrecision.Second" => Some(Value::Number(0.0)),
            "TimePrecision.Millisecond" => Some(Value::Number(3.0)),
            "TimePrecision.Microsecond" => Some(Value::Number(6.0)),
            _ => None,
        }
    }

    fn next_deferred(&mut self) -> Option<(SchemaId, Function<'a>)> {
        self.deferred.pop_front()
    }

    fn settle(&mut self, deferred: SchemaId, schema: Read<SchemaId>) {
        if let Some(node) = self.nodes.get_mut(deferred.0) {
            node.kind = Kind::Alias(schema);
        }
    }

    fn write(&self, root: SchemaId) -> Read<Written> {
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
