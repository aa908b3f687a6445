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

use super::{
    fault::{FaultCollector, ReadSchema},
    library::{self, WrittenCall, ZodCall, ZodLibrary, ZodShape},
    value::{MOST_WEIGHT, SchemaId, ZodFunction, ZodRecord, ZodValue, too_large},
};

pub(super) use strings::StringCheck;

/// Every schema that a source made.
#[derive(Debug, Default)]
pub(super) struct Zod3<'a> {
    nodes: Vec<Zod3Node<'a>>,
    deferred: VecDeque<(SchemaId, ZodFunction<'a>)>,
    /// The weight of all schemas together: a chain of constants copies a little more every time.
    weight: usize,
    /// The number of steps taken to find out which keys are optional.
    steps: Cell<usize>,
}

#[derive(Clone, Debug)]
struct Zod3Node<'a> {
    kind: Zod3Kind<'a>,
    description: Option<Rc<str>>,
    offset: u32,
}

#[derive(Clone, Debug)]
enum Zod3Kind<'a> {
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
        shape: ZodShape,
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
    Literal(ZodValue<'a>),
    Enum(Vec<Rc<str>>),
    NativeEnum(Rc<ZodRecord<'a>>),
    Promise(SchemaId),
    Effects {
        inner: SchemaId,
        effect: Effect<'a>,
    },
    Optional(SchemaId),
    Nullable(SchemaId),
    Default {
        inner: SchemaId,
        value: ZodValue<'a>,
    },
    /// The value is `None` if only the program knows it.
    Catch {
        inner: SchemaId,
        value: Option<ZodValue<'a>>,
    },
    Branded(SchemaId),
    Pipeline(SchemaId, SchemaId),
    Readonly(SchemaId),
    /// The future result of the function of a `z.lazy` or a getter.
    Deferred,
    /// Its result.
    Alias(ReadSchema<SchemaId>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownKeys {
    Strip,
    Strict,
    Passthrough,
}

#[derive(Clone, Copy, Debug)]
enum Effect<'a> {
    Transform(Option<ZodFunction<'a>>),
    /// The function's result is the verdict. `None` if the function is not in this file.
    Refinement {
        function: Option<ZodFunction<'a>>,
        is_fatal: bool,
    },
    /// The function reports to its context, and its result is ignored.
    SuperRefinement(Option<ZodFunction<'a>>),
    /// `value instanceof Class`, which no plain value satisfies.
    InstanceOf,
    Preprocess(Option<ZodFunction<'a>>),
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
    fn add(&mut self, kind: Zod3Kind<'a>, description: Option<Rc<str>>, offset: u32) -> SchemaId {
        self.weight += 1 + weight(&kind);
        self.nodes.push(Zod3Node { kind, description, offset });
        SchemaId(self.nodes.len() - 1)
    }

    /// The schema behind an id, with deferred ones resolved.
    fn node(&self, id: SchemaId) -> ReadSchema<(SchemaId, &Zod3Node<'a>)> {
        let mut id = id;
        for _ in 0..=self.nodes.len() {
            let Some(node) = self.nodes.get(id.0) else { break };
            match &node.kind {
                Zod3Kind::Alias(target) => id = target.clone()?,
                _ => return Ok((id, node)),
            }
        }
        Err(super::fault::ZodProblem::new(0, "recursive_value", "a schema is defined only by itself").into())
    }

    fn description_of(&self, id: SchemaId) -> Option<Rc<str>> {
        self.node(id).ok().and_then(|(_, node)| node.description.clone())
    }

    /// A schema that a function will make once everything around it is known.
    fn defer(&mut self, function: ZodFunction<'a>, offset: u32) -> SchemaId {
        let id = self.add(Zod3Kind::Deferred, None, offset);
        self.deferred.push_back((id, function));
        id
    }

    fn shape_argument(&mut self, call: &ZodCall<'_, 'a>, index: usize) -> ReadSchema<ZodShape> {
        // Zod 3 skips keys without a schema; `undefined` disables a key.
        library::shape_argument(call, index, true, |function, offset| self.defer(function, offset))
    }

    /// `{ description }` among the parameters of a constructor.
    fn parameters(call: &ZodCall<'_, 'a>, index: usize) -> ReadSchema<Option<Rc<str>>> {
        match call.option(index, "description")?.map(|member| &member.value) {
            Some(ZodValue::Text(text)) => Ok(Some(Rc::clone(text))),
            Some(ZodValue::Undefined) | None => Ok(None),
            Some(ZodValue::Unreadable(problems)) => Err(problems.clone()),
            Some(_) => Err(call.wrong(index, "a description that is a string")),
        }
    }

    fn enum_values(call: &ZodCall<'_, 'a>, index: usize) -> ReadSchema<Vec<Rc<str>>> {
        let ZodValue::List(values) = call.argument(index) else { return Err(call.wrong(index, "an array of strings")) };
        let mut gather = FaultCollector::default();
        let texts = values.iter().filter_map(|value| {
            gather.take(match value {
                ZodValue::Text(text) => Ok(Rc::clone(text)),
                ZodValue::Unreadable(problems) => Err(problems.clone()),
                other => {
                    Err(call.fail("wrong_argument", format!("an enum is made of strings, not of {}", other.kind())))
                }
            })
        });
        let texts = texts.collect();
        gather.finish(texts)
    }

    fn make(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<(Zod3Kind<'a>, Option<Rc<str>>)> {
        let first = || Self::parameters(call, 0);
        let second = || Self::parameters(call, 1);
        let third = || Self::parameters(call, 2);
        let coerces = || match call.option(0, "coerce")?.map(|member| &member.value) {
            Some(ZodValue::Unreadable(problems)) => Err(problems.clone()),
            Some(value) => Ok(value.truthy().unwrap_or(false)),
            None => Ok(false),
        };
        Ok(match call.name {
            "string" => (Zod3Kind::String { checks: Vec::new(), coerce: coerces()? }, first()?),
            "number" => (Zod3Kind::Number { checks: Vec::new(), coerce: coerces()? }, first()?),
            "bigint" => (Zod3Kind::BigInt { checks: Vec::new(), coerce: coerces()? }, first()?),
            "boolean" => (Zod3Kind::Boolean { coerce: coerces()? }, first()?),
            "date" => (Zod3Kind::Date { coerce: coerces()? }, first()?),
            "coerce.string" => (Zod3Kind::String { checks: Vec::new(), coerce: true }, first()?),
            "coerce.number" => (Zod3Kind::Number { checks: Vec::new(), coerce: true }, first()?),
            "coerce.bigint" => (Zod3Kind::BigInt { checks: Vec::new(), coerce: true }, first()?),
            "coerce.boolean" => (Zod3Kind::Boolean { coerce: true }, first()?),
            "coerce.date" => (Zod3Kind::Date { coerce: true }, first()?),
            "symbol" => (Zod3Kind::Symbol, first()?),
            "undefined" => (Zod3Kind::Undefined, first()?),
            "null" => (Zod3Kind::Null, first()?),
            "any" => (Zod3Kind::Any, first()?),
            "unknown" => (Zod3Kind::Unknown, first()?),
            "never" => (Zod3Kind::Never, first()?),
            "void" => (Zod3Kind::Void, first()?),
            "nan" => (Zod3Kind::NaN, first()?),
            "function" => (Zod3Kind::Function, third()?),
            "array" => (Zod3Kind::Array { element: call.schema(0)?, min: None, max: None, exact: None }, second()?),
            "object" => (self.object(call, UnknownKeys::Strip)?, second()?),
            "strictObject" => (self.object(call, UnknownKeys::Strict)?, second()?),
            "late.object" => return Err(call.fail("computed_value", "the shape of `z.late.object` is not read")),
            "union" => (Zod3Kind::Union(call.schemas(0)?), second()?),
            "discriminatedUnion" => (self.discriminated_union(call)?, third()?),
            "intersection" => (Zod3Kind::Intersection(call.schema(0)?, call.schema(1)?), third()?),
            "tuple" => (Zod3Kind::Tuple { items: call.schemas(0)?, rest: None }, second()?),
            "record" => match call.argument(1) {
                ZodValue::Schema(value) => (Zod3Kind::Record { key: call.schema(0)?, value: *value }, third()?),
                ZodValue::Unreadable(problems) => return Err(problems.clone()),
                _ => {
                    let value = call.schema(0)?;
                    let key = self.add(Zod3Kind::String { checks: Vec::new(), coerce: false }, None, call.offset);
                    (Zod3Kind::Record { key, value }, second()?)
                }
            },
            "map" => (Zod3Kind::Map { key: call.schema(0)?, value: call.schema(1)? }, third()?),
            "set" => (Zod3Kind::Set { value: call.schema(0)?, min: None, max: None }, second()?),
            "lazy" => {
                let function = call.function(0)?;
                (Zod3Kind::Lazy(self.defer(function, call.offset)), second()?)
            }
            "literal" => match call.argument(0) {
                ZodValue::Unreadable(problems) => return Err(problems.clone()),
                value => (Zod3Kind::Literal(value.clone()), second()?),
            },
            "enum" => (Zod3Kind::Enum(Self::enum_values(call, 0)?), second()?),
            "nativeEnum" => match call.argument(0) {
                ZodValue::Record(record) => (Zod3Kind::NativeEnum(Rc::clone(record)), second()?),
                _ => return Err(call.wrong(0, "an enum")),
            },
            "promise" => (Zod3Kind::Promise(call.schema(0)?), second()?),
            "preprocess" => {
                let effect = Effect::Preprocess(call.function(0).ok());
                (Zod3Kind::Effects { inner: call.schema(1)?, effect }, third()?)
            }
            "optional" => (Zod3Kind::Optional(call.schema(0)?), second()?),
            "nullable" => (Zod3Kind::Nullable(call.schema(0)?), second()?),
            "pipeline" => (Zod3Kind::Pipeline(call.schema(0)?, call.schema(1)?), None),
            "custom" => {
                let any = self.add(Zod3Kind::Any, None, call.offset);
                match call.argument(0) {
                    ZodValue::Undefined => (Zod3Kind::Any, None),
                    _ => (
                        Zod3Kind::Effects {
                            inner: any,
                            effect: Effect::Refinement { function: call.function(0).ok(), is_fatal: true },
                        },
                        None,
                    ),
                }
            }
            "instanceof" => {
                let any = self.add(Zod3Kind::Any, None, call.offset);
                (Zod3Kind::Effects { inner: any, effect: Effect::InstanceOf }, None)
            }
            "ostring" | "onumber" | "oboolean" => {
                let inner = match call.name {
                    "ostring" => Zod3Kind::String { checks: Vec::new(), coerce: false },
                    "onumber" => Zod3Kind::Number { checks: Vec::new(), coerce: false },
                    _ => Zod3Kind::Boolean { coerce: false },
                };
                (Zod3Kind::Optional(self.add(inner, None, call.offset)), None)
            }
            name => {
                let problem =
                    super::fault::ZodProblem::new(call.offset, "unknown_function", format!("Zod 3 has no `z.{name}`"));
                return Err(problem.hint("is this a source for Zod 4? then convert it with `--zod 4`").into());
            }
        })
    }

    fn object(&mut self, call: &ZodCall<'_, 'a>, unknown_keys: UnknownKeys) -> ReadSchema<Zod3Kind<'a>> {
        Ok(Zod3Kind::Object { shape: self.shape_argument(call, 0)?, unknown_keys, catchall: None })
    }

    fn discriminated_union(&self, call: &ZodCall<'_, 'a>) -> ReadSchema<Zod3Kind<'a>> {
        let discriminator = call.text(0)?;
        let options = call.schemas(1)?;
        let mut seen: Vec<ZodValue<'a>> = Vec::new();
        for option in &options {
            if !matches!(self.node(*option)?.1.kind, Zod3Kind::Object { .. }) {
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
        Ok(Zod3Kind::DiscriminatedUnion { discriminator: discriminator.into(), options })
    }

    /// The values by which an option of a discriminated union is distinguished from the others.
    fn tags(&self, option: SchemaId, discriminator: &str) -> Vec<ZodValue<'a>> {
        match self.node(option).map(|(_, node)| &node.kind) {
            Ok(Zod3Kind::Object { shape, .. }) => {
                shape.get(discriminator).map_or_else(Vec::new, |field| self.discriminator_values(*field))
            }
            _ => Vec::new(),
        }
    }

    fn discriminator_values(&self, schema: SchemaId) -> Vec<ZodValue<'a>> {
        let mut prefix = Vec::new();
        let mut schema = schema;
        for _ in 0..=self.nodes.len() {
            let Ok((_, node)) = self.node(schema) else { return prefix };
            schema = match &node.kind {
                Zod3Kind::Lazy(inner)
                | Zod3Kind::Effects { inner, .. }
                | Zod3Kind::Default { inner, .. }
                | Zod3Kind::Branded(inner)
                | Zod3Kind::Readonly(inner)
                | Zod3Kind::Catch { inner, .. } => *inner,
                Zod3Kind::Optional(inner) => {
                    prefix.push(ZodValue::Undefined);
                    *inner
                }
                Zod3Kind::Nullable(inner) => {
                    prefix.push(ZodValue::Null);
                    *inner
                }
                Zod3Kind::Literal(value) => {
                    prefix.push(value.clone());
                    return prefix;
                }
                Zod3Kind::Enum(values) => {
                    prefix.extend(values.iter().map(|value| ZodValue::Text(Rc::clone(value))));
                    return prefix;
                }
                Zod3Kind::NativeEnum(record) => {
                    prefix.extend(record.iter().map(|(_, member)| member.value.clone()));
                    return prefix;
                }
                Zod3Kind::Undefined => {
                    prefix.push(ZodValue::Undefined);
                    return prefix;
                }
                Zod3Kind::Null => {
                    prefix.push(ZodValue::Null);
                    return prefix;
                }
                // A getter is resolved later; Zod would have called it by now, and its value is some literal.
                Zod3Kind::Deferred => return vec![ZodValue::Instance("deferred")],
                _ => return prefix,
            };
        }
        prefix
    }
}

/// The weight of a schema's content.
fn weight(kind: &Zod3Kind<'_>) -> usize {
    match kind {
        Zod3Kind::String { checks, .. } => checks.len(),
        Zod3Kind::Number { checks, .. } => checks.len(),
        Zod3Kind::BigInt { checks, .. } => checks.len(),
        Zod3Kind::Object { shape, .. } => 2 * shape.len(),
        Zod3Kind::Union(options)
        | Zod3Kind::DiscriminatedUnion { options, .. }
        | Zod3Kind::Tuple { items: options, .. } => options.len(),
        Zod3Kind::Enum(values) => values.len(),
        _ => 0,
    }
}

impl<'a> ZodLibrary<'a> for Zod3<'a> {
    fn construct(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>> {
        if self.weight > MOST_WEIGHT {
            return Err(too_large(call.offset));
        }
        let (kind, description) = self.make(call)?;
        Ok(ZodValue::Schema(self.add(kind, description, call.offset)))
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

    fn constant(&mut self, _: &str) -> Option<ZodValue<'a>> {
        None
    }

    fn next_deferred(&mut self) -> Option<(SchemaId, ZodFunction<'a>)> {
        self.deferred.pop_front()
    }

    fn settle(&mut self, deferred: SchemaId, schema: ReadSchema<SchemaId>) {
        if let Some(node) = self.nodes.get_mut(deferred.0) {
            node.kind = Zod3Kind::Alias(schema);
        }
    }

    fn write(&self, root: SchemaId) -> ReadSchema<WrittenCall> {
        write::write(self, root)
    }
}
