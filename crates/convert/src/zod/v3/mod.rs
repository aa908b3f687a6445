//! Zod 3 as data: its schemas, its functions, and the description of each schema.
//!
//! Zod 3 passes the description of a schema to most wrappers around it, and a change of a schema is a new schema. Both
//! appear in the JSON Schema, so both are modelled here. Error messages, parsers and transformations do not, and are
//! not.

mod methods;
mod optional;
mod strings;
mod write;

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use indexmap::IndexMap;

use super::{
    fault::{Gather, Read},
    library::{Call, Library, Written, as_schema},
    value::{Function, MOST_WEIGHT, Record, SchemaId, Value, too_large},
};

pub(super) use strings::StringCheck;

/// Every schema that a source made.
#[derive(Debug, Default)]
pub(super) struct Zod3<'a> {
    nodes: Vec<Node<'a>>,
    deferred: VecDeque<(SchemaId, Function<'a>)>,
    /// The weight of all schemas together: a chain of constants copies a little more every time.
    weight: usize,
    /// The number of steps taken to find out which keys are optional.
    steps: Cell<usize>,
}

#[derive(Clone, Debug)]
struct Node<'a> {
    kind: Kind<'a>,
    description: Option<Rc<str>>,
    offset: u32,
}

#[derive(Clone, Debug)]
enum Kind<'a> {
    String {
        checks: Vec<StringCheck>,
        coerce: bool,
    },
    Number {
        checks: Vec<NumberCheck>,
        coerce: bool,
    },
    BigInt {
        checks: Vec<BigIntCheck>,
        coerce: bool,
    },
    Boolean {
        coerce: bool,
    },
    Date {
        coerce: bool,
    },
    Symbol,
    Undefined,
    Null,
    Any,
    Unknown,
    Never,
    Void,
    NaN,
    Function,
    Array {
        element: SchemaId,
        min: Option<f64>,
        max: Option<f64>,
        exact: Option<f64>,
    },
    Object {
        shape: Shape,
        unknown_keys: UnknownKeys,
        catchall: Option<SchemaId>,
    },
    Union(Vec<SchemaId>),
    DiscriminatedUnion {
        discriminator: Rc<str>,
        options: Vec<SchemaId>,
    },
    Intersection(SchemaId, SchemaId),
    Tuple {
        items: Vec<SchemaId>,
        rest: Option<SchemaId>,
    },
    Record {
        key: SchemaId,
        value: SchemaId,
    },
    Map {
        key: SchemaId,
        value: SchemaId,
    },
    Set {
        value: SchemaId,
        min: Option<f64>,
        max: Option<f64>,
    },
    Lazy(SchemaId),
    Literal(Value<'a>),
    Enum(Vec<Rc<str>>),
    NativeEnum(Rc<Record<'a>>),
    Promise(SchemaId),
    Effects {
        inner: SchemaId,
        effect: Effect<'a>,
    },
    Optional(SchemaId),
    Nullable(SchemaId),
    Default {
        inner: SchemaId,
        value: Value<'a>,
    },
    /// The value is `None` if only the program knows it.
    Catch {
        inner: SchemaId,
        value: Option<Value<'a>>,
    },
    Branded(SchemaId),
    Pipeline(SchemaId, SchemaId),
    Readonly(SchemaId),
    /// The future result of the function of a `z.lazy` or a getter.
    Deferred,
    /// Its result.
    Alias(Read<SchemaId>),
}

type Shape = IndexMap<String, SchemaId>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownKeys {
    Strip,
    Strict,
    Passthrough,
}

#[derive(Clone, Copy, Debug)]
enum Effect<'a> {
    Transform(Option<Function<'a>>),
    /// The function's result is the verdict. `None` if the function is not in this file.
    Refinement {
        function: Option<Function<'a>>,
        is_fatal: bool,
    },
    /// The function reports to its context, and its result is ignored.
    SuperRefinement(Option<Function<'a>>),
    /// `value instanceof Class`, which no plain value satisfies.
    InstanceOf,
    Preprocess(Option<Function<'a>>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum NumberCheck {
    Int,
    Finite,
    Min { value: f64, inclusive: bool },
    Max { value: f64, inclusive: bool },
    MultipleOf(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BigIntCheck {
    Min { value: i128, inclusive: bool },
    Max { value: i128, inclusive: bool },
    MultipleOf(i128),
}

impl<'a> Zod3<'a> {
    fn add(&mut self, kind: Kind<'a>, description: Option<Rc<str>>, offset: u32) -> SchemaId {
        self.weight += 1 + weight(&kind);
        self.nodes.push(Node { kind, description, offset });
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
        Err(super::fault::Problem::new(0, "recursive_value", "a schema is defined only by itself").into())
    }

    fn description_of(&self, id: SchemaId) -> Option<Rc<str>> {
        self.node(id).ok().and_then(|(_, node)| node.description.clone())
    }

    /// A schema that a function will make once everything around it is known.
    fn defer(&mut self, function: Function<'a>, offset: u32) -> SchemaId {
        let id = self.add(Kind::Deferred, None, offset);
        self.deferred.push_back((id, function));
        id
    }

    fn shape(&mut self, record: &Record<'a>) -> Read<Shape> {
        let mut gather = Gather::default();
        let mut shape = Shape::new();
        for (key, member) in record.iter() {
            let schema = match &member.value {
                Value::Function(function) if member.getter => Ok(self.defer(*function, member.offset)),
                // Zod 3 skips keys without a schema; `undefined` disables a key.
                Value::Undefined => continue,
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

    /// `{ description }` among the parameters of a constructor.
    fn parameters(call: &Call<'_, 'a>, index: usize) -> Read<Option<Rc<str>>> {
        match call.option(index, "description")?.map(|member| &member.value) {
            Some(Value::Text(text)) => Ok(Some(Rc::clone(text))),
            Some(Value::Undefined) | None => Ok(None),
            Some(Value::Unreadable(problems)) => Err(problems.clone()),
            Some(_) => Err(call.wrong(index, "a description that is a string")),
        }
    }

    fn enum_values(call: &Call<'_, 'a>, index: usize) -> Read<Vec<Rc<str>>> {
        let Value::List(values) = call.argument(index) else { return Err(call.wrong(index, "an array of strings")) };
        let mut gather = Gather::default();
        let texts = values.iter().filter_map(|value| {
            gather.take(match value {
                Value::Text(text) => Ok(Rc::clone(text)),
                Value::Unreadable(problems) => Err(problems.clone()),
                other => {
                    Err(call.fail("wrong_argument", format!("an enum is made of strings, not of {}", other.kind())))
                }
            })
        });
        let texts = texts.collect();
        gather.finish(texts)
    }

    fn make(&mut self, call: &Call<'_, 'a>) -> Read<(Kind<'a>, Option<Rc<str>>)> {
        let first = || Self::parameters(call, 0);
        let second = || Self::parameters(call, 1);
        let third = || Self::parameters(call, 2);
        let coerces = || match call.option(0, "coerce")?.map(|member| &member.value) {
            Some(Value::Unreadable(problems)) => Err(problems.clone()),
            Some(value) => Ok(value.truthy().unwrap_or(false)),
            None => Ok(false),
        };
        Ok(match call.name {
            "string" => (Kind::String { checks: Vec::new(), coerce: coerces()? }, first()?),
            "number" => (Kind::Number { checks: Vec::new(), coerce: coerces()? }, first()?),
            "bigint" => (Kind::BigInt { checks: Vec::new(), coerce: coerces()? }, first()?),
            "boolean" => (Kind::Boolean { coerce: coerces()? }, first()?),
            "date" => (Kind::Date { coerce: coerces()? }, first()?),
            "coerce.string" => (Kind::String { checks: Vec::new(), coerce: true }, first()?),
            "coerce.number" => (Kind::Number { checks: Vec::new(), coerce: true }, first()?),
            "coerce.bigint" => (Kind::BigInt { checks: Vec::new(), coerce: true }, first()?),
            "coerce.boolean" => (Kind::Boolean { coerce: true }, first()?),
            "coerce.date" => (Kind::Date { coerce: true }, first()?),
            "symbol" => (Kind::Symbol, first()?),
            "undefined" => (Kind::Undefined, first()?),
            "null" => (Kind::Null, first()?),
            "any" => (Kind::Any, first()?),
            "unknown" => (Kind::Unknown, first()?),
            "never" => (Kind::Never, first()?),
            "void" => (Kind::Void, first()?),
            "nan" => (Kind::NaN, first()?),
            "function" => (Kind::Function, third()?),
            "array" => (Kind::Array { element: call.schema(0)?, min: None, max: None, exact: None }, second()?),
            "object" => (self.object(call, UnknownKeys::Strip)?, second()?),
            "strictObject" => (self.object(call, UnknownKeys::Strict)?, second()?),
            "late.object" => return Err(call.fail("computed_value", "the shape of `z.late.object` is not read")),
            "union" => (Kind::Union(call.schemas(0)?), second()?),
            "discriminatedUnion" => (self.discriminated_union(call)?, third()?),
            "intersection" => (Kind::Intersection(call.schema(0)?, call.schema(1)?), third()?),
            "tuple" => (Kind::Tuple { items: call.schemas(0)?, rest: None }, second()?),
            "record" => match call.argument(1) {
                Value::Schema(value) => (Kind::Record { key: call.schema(0)?, value: *value }, third()?),
                Value::Unreadable(problems) => return Err(problems.clone()),
                _ => {
                    let value = call.schema(0)?;
                    let key = self.add(Kind::String { checks: Vec::new(), coerce: false }, None, call.offset);
                    (Kind::Record { key, value }, second()?)
                }
            },
            "map" => (Kind::Map { key: call.schema(0)?, value: call.schema(1)? }, third()?),
            "set" => (Kind::Set { value: call.schema(0)?, min: None, max: None }, second()?),
            "lazy" => {
                let function = call.function(0)?;
                (Kind::Lazy(self.defer(function, call.offset)), second()?)
            }
            "literal" => match call.argument(0) {
                Value::Unreadable(problems) => return Err(problems.clone()),
                value => (Kind::Literal(value.clone()), second()?),
            },
            "enum" => (Kind::Enum(Self::enum_values(call, 0)?), second()?),
            "nativeEnum" => match call.argument(0) {
                Value::Record(record) => (Kind::NativeEnum(Rc::clone(record)), second()?),
                _ => return Err(call.wrong(0, "an enum")),
            },
            "promise" => (Kind::Promise(call.schema(0)?), second()?),
            "preprocess" => {
                let effect = Effect::Preprocess(call.function(0).ok());
                (Kind::Effects { inner: call.schema(1)?, effect }, third()?)
            }
            "optional" => (Kind::Optional(call.schema(0)?), second()?),
            "nullable" => (Kind::Nullable(call.schema(0)?), second()?),
            "pipeline" => (Kind::Pipeline(call.schema(0)?, call.schema(1)?), None),
            "custom" => {
                let any = self.add(Kind::Any, None, call.offset);
                match call.argument(0) {
                    Value::Undefined => (Kind::Any, None),
                    _ => (
                        Kind::Effects {
                            inner: any,
                            effect: Effect::Refinement { function: call.function(0).ok(), is_fatal: true },
                        },
                        None,
                    ),
                }
            }
            "instanceof" => {
                let any = self.add(Kind::Any, None, call.offset);
                (Kind::Effects { inner: any, effect: Effect::InstanceOf }, None)
            }
            "ostring" | "onumber" | "oboolean" => {
                let inner = match call.name {
                    "ostring" => Kind::String { checks: Vec::new(), coerce: false },
                    "onumber" => Kind::Number { checks: Vec::new(), coerce: false },
                    _ => Kind::Boolean { coerce: false },
                };
                (Kind::Optional(self.add(inner, None, call.offset)), None)
            }
            name => {
                let problem =
                    super::fault::Problem::new(call.offset, "unknown_function", format!("Zod 3 has no `z.{name}`"));
                return Err(problem.hint("is this a source for Zod 4? then convert it with `--zod 4`").into());
            }
        })
    }

    fn object(&mut self, call: &Call<'_, 'a>, unknown_keys: UnknownKeys) -> Read<Kind<'a>> {
        Ok(Kind::Object { shape: self.shape_argument(call, 0)?, unknown_keys, catchall: None })
    }

    fn discriminated_union(&self, call: &Call<'_, 'a>) -> Read<Kind<'a>> {
        let discriminator = call.text(0)?;
        let options = call.schemas(1)?;
        let mut seen: Vec<Value<'a>> = Vec::new();
        for option in &options {
            if !matches!(self.node(*option)?.1.kind, Kind::Object { .. }) {
                return Err(call.throws("an option of a discriminated union is not an object"));
            }
            let values = self.tags(*option, discriminator);
            if values.is_empty() {
                return Err(call.throws(format!(
                    "A discriminator value for key `{discriminator}` could not be extracted from all schema options"
                )));
            }
            for value in values {
                if seen.iter().any(|other| other.same(&value)) {
                    let value = value.to_text().unwrap_or_default();
                    return Err(
                        call.throws(format!("Discriminator property {discriminator} has duplicate value {value}"))
                    );
                }
                seen.push(value);
            }
        }
        Ok(Kind::DiscriminatedUnion { discriminator: discriminator.into(), options })
    }

    /// The values by which an option of a discriminated union is distinguished from the others.
    fn tags(&self, option: SchemaId, discriminator: &str) -> Vec<Value<'a>> {
        match self.node(option).map(|(_, node)| &node.kind) {
            Ok(Kind::Object { shape, .. }) => {
                shape.get(discriminator).map_or_else(Vec::new, |field| self.discriminator_values(*field))
            }
            _ => Vec::new(),
        }
    }

    fn discriminator_values(&self, schema: SchemaId) -> Vec<Value<'a>> {
        let mut prefix = Vec::new();
        let mut schema = schema;
        for _ in 0..=self.nodes.len() {
            let Ok((_, node)) = self.node(schema) else { return prefix };
            schema = match &node.kind {
                Kind::Lazy(inner)
                | Kind::Effects { inner, .. }
                | Kind::Default { inner, .. }
                | Kind::Branded(inner)
                | Kind::Readonly(inner)
                | Kind::Catch { inner, .. } => *inner,
                Kind::Optional(inner) => {
                    prefix.push(Value::Undefined);
                    *inner
                }
                Kind::Nullable(inner) => {
                    prefix.push(Value::Null);
                    *inner
                }
                Kind::Literal(value) => {
                    prefix.push(value.clone());
                    return prefix;
                }
                Kind::Enum(values) => {
                    prefix.extend(values.iter().map(|value| Value::Text(Rc::clone(value))));
                    return prefix;
                }
                Kind::NativeEnum(record) => {
                    prefix.extend(record.iter().map(|(_, member)| member.value.clone()));
                    return prefix;
                }
                Kind::Undefined => {
                    prefix.push(Value::Undefined);
                    return prefix;
                }
                Kind::Null => {
                    prefix.push(Value::Null);
                    return prefix;
                }
                // A getter is resolved later; Zod would have called it by now, and its value is some literal.
                Kind::Deferred => return vec![Value::Instance("deferred")],
                _ => return prefix,
            };
        }
        prefix
    }
}

/// The weight of a schema's content.
fn weight(kind: &Kind<'_>) -> usize {
    match kind {
        Kind::String { checks, .. } => checks.len(),
        Kind::Number { checks, .. } => checks.len(),
        Kind::BigInt { checks, .. } => checks.len(),
        Kind::Object { shape, .. } => 2 * shape.len(),
        Kind::Union(options) | Kind::DiscriminatedUnion { options, .. } | Kind::Tuple { items: options, .. } => {
            options.len()
        }
        Kind::Enum(values) => values.len(),
        _ => 0,
    }
}

impl<'a> Library<'a> for Zod3<'a> {
    fn construct(&mut self, call: &Call<'_, 'a>) -> Read<Value<'a>> {
        if self.weight > MOST_WEIGHT {
            return Err(too_large(call.offset));
        }
        let (kind, description) = self.make(call)?;
        Ok(Value::Schema(self.add(kind, description, call.offset)))
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

    fn constant(&mut self, _: &str) -> Option<Value<'a>> {
        None
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
        write::write(self, root)
    }
}
