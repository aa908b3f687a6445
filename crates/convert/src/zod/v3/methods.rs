//! The methods of Zod 3's schemas.

use std::rc::Rc;

use super::{
    super::{
        fault::{Problem, Read},
        library::Call,
        value::{MOST_NODES, Member, Record, SchemaId, Value, too_large},
    },
    BigIntCheck, Effect, Kind, NumberCheck, Shape, UnknownKeys, Zod3, strings,
};

const SMALLEST_SAFE: f64 = -9_007_199_254_740_991.0;

impl<'a> Zod3<'a> {
    pub(super) fn apply(&mut self, receiver: SchemaId, call: &Call<'_, 'a>) -> Read<Value<'a>> {
        if let Some(schema) = self.apply_to_any(receiver, call)? {
            return Ok(Value::Schema(schema));
        }
        let (id, node) = self.node(receiver)?;
        let description = node.description.clone();
        let kind = node.kind.clone();
        let changed = match &kind {
            Kind::String { checks, coerce } => strings::check(call)?.map(|check| {
                let checks = checks.iter().cloned().chain([check]).collect();
                Kind::String { checks, coerce: *coerce }
            }),
            Kind::Number { checks, coerce } => number_checks(call)?.map(|more| {
                let checks = checks.iter().copied().chain(more).collect();
                Kind::Number { checks, coerce: *coerce }
            }),
            Kind::BigInt { checks, coerce } => bigint_check(call)?.map(|check| {
                let checks = checks.iter().copied().chain([check]).collect();
                Kind::BigInt { checks, coerce: *coerce }
            }),
            // The limits of a date do not appear in its JSON Schema.
            Kind::Date { .. } => matches!(call.name, "min" | "max").then(|| kind.clone()),
            Kind::Array { .. } => array_limit(kind.clone(), call)?,
            Kind::Set { .. } => set_limit(kind.clone(), call)?,
            Kind::Tuple { items, .. } if call.name == "rest" => {
                Some(Kind::Tuple { items: items.clone(), rest: Some(call.schema(0)?) })
            }
            Kind::Enum(values) => match call.name {
                "extract" => Some(Kind::Enum(Self::enum_values(call, 0)?)),
                "exclude" => {
                    let without = Self::enum_values(call, 0)?;
                    Some(Kind::Enum(values.iter().filter(|value| !without.contains(value)).cloned().collect()))
                }
                _ => None,
            },
            Kind::Function => matches!(call.name, "args" | "returns").then_some(Kind::Function),
            Kind::Object { .. } => return self.apply_to_object(id, kind, description, call),
            _ => None,
        };
        if let Some(kind) = changed {
            return Ok(Value::Schema(self.add(kind, description, call.offset)));
        }
        match (&kind, call.name) {
            (
                Kind::Optional(inner)
                | Kind::Nullable(inner)
                | Kind::Branded(inner)
                | Kind::Readonly(inner)
                | Kind::Promise(inner),
                "unwrap",
            )
            | (Kind::Default { inner, .. }, "removeDefault")
            | (Kind::Catch { inner, .. }, "removeCatch")
            | (Kind::Effects { inner, .. }, "innerType") => Ok(Value::Schema(*inner)),
            (Kind::Effects { inner, .. }, "sourceType") => {
                let mut source = *inner;
                while let Kind::Effects { inner, .. } = &self.node(source)?.1.kind {
                    source = *inner;
                }
                Ok(Value::Schema(source))
            }
            _ => Err(unknown_method(&kind, call)),
        }
    }

    /// The methods that every schema has.
    fn apply_to_any(&mut self, receiver: SchemaId, call: &Call<'_, 'a>) -> Read<Option<SchemaId>> {
        let inherited = self.description_of(receiver);
        let (kind, description) = match call.name {
            "describe" => {
                let (_, node) = self.node(receiver)?;
                let kind = node.kind.clone();
                let description = match call.argument(0) {
                    Value::Text(text) => Some(Rc::clone(text)),
                    Value::Undefined => None,
                    _ => return Err(call.wrong(0, "a string")),
                };
                (kind, description)
            }
            "optional" => (Kind::Optional(receiver), inherited),
            "nullable" => (Kind::Nullable(receiver), inherited),
            "nullish" => {
                let nullable = self.add(Kind::Nullable(receiver), inherited.clone(), call.offset);
                (Kind::Optional(nullable), inherited)
            }
            "array" => (Kind::Array { element: receiver, min: None, max: None, exact: None }, None),
            "promise" => (Kind::Promise(receiver), inherited),
            "or" => (Kind::Union(vec![receiver, call.schema(0)?]), inherited),
            "and" => (Kind::Intersection(receiver, call.schema(0)?), inherited),
            "transform" => {
                let effect = Effect::Transform(call.function(0).ok());
                (Kind::Effects { inner: receiver, effect }, inherited)
            }
            "refine" | "refinement" => {
                let effect = Effect::Refinement { function: call.function(0).ok(), is_fatal: false };
                (Kind::Effects { inner: receiver, effect }, None)
            }
            "superRefine" | "_refinement" => {
                let effect = Effect::SuperRefinement(call.function(0).ok());
                (Kind::Effects { inner: receiver, effect }, None)
            }
            "default" => match call.argument(0) {
                Value::Unreadable(problems) => return Err(problems.clone()),
                value => (Kind::Default { inner: receiver, value: value.clone() }, inherited),
            },
            "catch" => {
                let value = match call.argument(0) {
                    Value::Unreadable(_) => None,
                    value => Some(value.clone()),
                };
                (Kind::Catch { inner: receiver, value }, inherited)
            }
            "brand" => (Kind::Branded(receiver), inherited),
            "pipe" => (Kind::Pipeline(receiver, call.schema(0)?), None),
            "readonly" => (Kind::Readonly(receiver), None),
            _ => return Ok(None),
        };
        Ok(Some(self.add(kind, description, call.offset)))
    }

    fn apply_to_object(
        &mut self,
        id: SchemaId,
        kind: Kind<'a>,
        description: Option<Rc<str>>,
        call: &Call<'_, 'a>,
    ) -> Read<Value<'a>> {
        let Kind::Object { shape, unknown_keys, catchall } = kind.clone() else {
            return Err(unknown_method(&kind, call));
        };
        let (shape, unknown_keys, catchall, description) = match call.name {
            "strict" => (shape, UnknownKeys::Strict, catchall, description),
            "strip" => (shape, UnknownKeys::Strip, catchall, description),
            "passthrough" | "nonstrict" => (shape, UnknownKeys::Passthrough, catchall, description),
            "extend" | "augment" => {
                let more = self.shape_argument(call, 0)?;
                (merged(shape, more), unknown_keys, catchall, description)
            }
            "setKey" => {
                let more = Shape::from_iter([(call.text(0)?.to_owned(), call.schema(1)?)]);
                (merged(shape, more), unknown_keys, catchall, description)
            }
            "merge" => {
                let (_, other) = self.node(call.schema(0)?)?;
                let Kind::Object { shape: more, unknown_keys, catchall } = other.kind.clone() else {
                    return Err(call.wrong(0, "an object schema"));
                };
                (merged(shape, more), unknown_keys, catchall, None)
            }
            "catchall" => {
                let schema = call.schema(0)?;
                let never = matches!(self.node(schema)?.1.kind, Kind::Never);
                (shape, unknown_keys, (!never).then_some(schema), description)
            }
            "pick" => {
                let mask = call.record(0)?;
                let mut picked = Shape::new();
                for (key, member) in mask.iter() {
                    if chosen(member)?
                        && let Some(schema) = shape.get(key)
                    {
                        picked.insert(key.to_owned(), *schema);
                    }
                }
                (ordered(picked), unknown_keys, catchall, description)
            }
            "omit" => {
                let mask = call.record(0)?;
                let mut kept = Shape::new();
                for (key, schema) in &shape {
                    if !masked(mask, key)? {
                        kept.insert(key.clone(), *schema);
                    }
                }
                (kept, unknown_keys, catchall, description)
            }
            "partial" => {
                let mut partial = Shape::new();
                for (key, schema) in &shape {
                    let touched = self.touches(call, key)?;
                    let schema = if touched { self.optional_of(*schema, call.offset) } else { *schema };
                    partial.insert(key.clone(), schema);
                }
                (partial, unknown_keys, catchall, description)
            }
            "required" => {
                let mut required = Shape::new();
                for (key, schema) in &shape {
                    let mut schema = *schema;
                    if self.touches(call, key)? {
                        while let Kind::Optional(inner) = self.node(schema)?.1.kind {
                            schema = inner;
                        }
                    }
                    required.insert(key.clone(), schema);
                }
                (required, unknown_keys, catchall, description)
            }
            "deepPartial" => return Ok(Value::Schema(self.deep_partial(id, call.offset, 0)?)),
            "keyof" => {
                let keys = shape.keys().map(|key| Rc::from(key.as_str())).collect();
                return Ok(Value::Schema(self.add(Kind::Enum(keys), None, call.offset)));
            }
            _ => return Err(unknown_method(&kind, call)),
        };
        Ok(Value::Schema(self.add(Kind::Object { shape, unknown_keys, catchall }, description, call.offset)))
    }

    /// Whether `partial(mask)` or `required(mask)` changes `key`.
    fn touches(&self, call: &Call<'_, 'a>, key: &str) -> Read<bool> {
        match call.argument(0) {
            Value::Undefined => Ok(true),
            _ => masked(call.record(0)?, key),
        }
    }

    fn optional_of(&mut self, schema: SchemaId, offset: u32) -> SchemaId {
        let description = self.description_of(schema);
        self.add(Kind::Optional(schema), description, offset)
    }

    fn deep_partial(&mut self, schema: SchemaId, offset: u32, depth: usize) -> Read<SchemaId> {
        const DEEPEST: usize = 200;
        if depth > DEEPEST {
            return Err(Problem::new(offset, "nested_too_deeply", "`deepPartial` goes too deep").into());
        }
        // Every schema below is copied, and constants that use constants make many of them.
        if self.nodes.len() > 4 * MOST_NODES {
            return Err(too_large(offset));
        }
        let (_, node) = self.node(schema)?;
        let description = node.description.clone();
        Ok(match node.kind.clone() {
            Kind::Object { shape, unknown_keys, catchall } => {
                let mut partial = Shape::new();
                for (key, field) in shape {
                    let field = self.deep_partial(field, offset, depth + 1)?;
                    let field = self.add(Kind::Optional(field), None, offset);
                    partial.insert(key, field);
                }
                self.add(Kind::Object { shape: partial, unknown_keys, catchall }, description, offset)
            }
            Kind::Array { element, min, max, exact } => {
                let element = self.deep_partial(element, offset, depth + 1)?;
                self.add(Kind::Array { element, min, max, exact }, description, offset)
            }
            Kind::Optional(inner) => {
                let inner = self.deep_partial(inner, offset, depth + 1)?;
                self.add(Kind::Optional(inner), None, offset)
            }
            Kind::Nullable(inner) => {
                let inner = self.deep_partial(inner, offset, depth + 1)?;
                self.add(Kind::Nullable(inner), None, offset)
            }
            Kind::Tuple { items, .. } => {
                let items =
                    items.iter().map(|item| self.deep_partial(*item, offset, depth + 1)).collect::<Read<_>>()?;
                self.add(Kind::Tuple { items, rest: None }, None, offset)
            }
            _ => schema,
        })
    }

    pub(super) fn member(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<Value<'a>> {
        let (_, node) = self.node(receiver).ok()?;
        let texts = |values: &[Rc<str>]| values.iter().map(|value| Value::Text(Rc::clone(value))).collect();
        let record = |members: Vec<(String, Value<'a>)>| {
            let member = |(key, value)| (key, Member { value, offset, getter: false });
            Value::Record(Rc::new(Record::new(offset, members.into_iter().map(member))))
        };
        match (&node.kind, name) {
            (_, "description") => Some(node.description.clone().map_or(Value::Undefined, Value::Text)),
            (Kind::Object { shape, .. }, "shape") => {
                Some(record(shape.iter().map(|(key, schema)| (key.clone(), Value::Schema(*schema))).collect()))
            }
            (Kind::Array { element, .. }, "element")
            | (Kind::Record { value: element, .. }, "element" | "valueSchema")
            | (Kind::Record { key: element, .. }, "keySchema")
            | (Kind::Lazy(element), "schema") => Some(Value::Schema(*element)),
            (Kind::Enum(values), "options") => Some(Value::list(texts(values))),
            (Kind::Enum(values), "enum" | "Enum" | "Values") => Some(record(
                values.iter().map(|value| (value.as_ref().to_owned(), Value::Text(Rc::clone(value)))).collect(),
            )),
            (Kind::NativeEnum(values), "enum") => Some(Value::Record(Rc::clone(values))),
            (Kind::Union(options) | Kind::DiscriminatedUnion { options, .. }, "options")
            | (Kind::Tuple { items: options, .. }, "items") => {
                Some(Value::list(options.iter().copied().map(Value::Schema).collect()))
            }
            (Kind::Literal(value), "value") => Some(value.clone()),
            _ => None,
        }
    }
}

/// `{...shape, ...more}`.
fn merged(mut shape: Shape, more: Shape) -> Shape {
    shape.extend(more);
    ordered(shape)
}

/// The order in which JavaScript lists the keys.
fn ordered(mut shape: Shape) -> Shape {
    shape.sort_by_cached_key(|key, _| super::super::value::array_index(key).map_or(u64::MAX, u64::from));
    shape
}

fn chosen(member: &Member<'_>) -> Read<bool> {
    match &member.value {
        Value::Unreadable(problems) => Err(problems.clone()),
        value => Ok(value.truthy().unwrap_or(true)),
    }
}

/// `mask[key]`, which for the names of `Object.prototype` is a function, and so true.
fn masked(mask: &Record<'_>, key: &str) -> Read<bool> {
    match mask.get(key) {
        Some(member) => chosen(member),
        None => Ok(matches!(
            key,
            "constructor"
                | "toString"
                | "toLocaleString"
                | "valueOf"
                | "hasOwnProperty"
                | "isPrototypeOf"
                | "propertyIsEnumerable"
                | "__proto__"
                | "__defineGetter__"
                | "__defineSetter__"
                | "__lookupGetter__"
                | "__lookupSetter__"
        )),
    }
}

fn number_checks(call: &Call<'_, '_>) -> Read<Option<Vec<NumberCheck>>> {
    use NumberCheck::{Finite, Int, Max, Min, MultipleOf};
    Ok(Some(match call.name {
        "min" | "gte" => vec![Min { value: call.number(0)?, inclusive: true }],
        "gt" => vec![Min { value: call.number(0)?, inclusive: false }],
        "max" | "lte" => vec![Max { value: call.number(0)?, inclusive: true }],
        "lt" => vec![Max { value: call.number(0)?, inclusive: false }],
        "int" => vec![Int],
        "positive" => vec![Min { value: 0.0, inclusive: false }],
        "negative" => vec![Max { value: 0.0, inclusive: false }],
        "nonpositive" => vec![Max { value: 0.0, inclusive: true }],
        "nonnegative" => vec![Min { value: 0.0, inclusive: true }],
        "multipleOf" | "step" => vec![MultipleOf(call.number(0)?)],
        "finite" => vec![Finite],
        "safe" => vec![Min { value: SMALLEST_SAFE, inclusive: true }, Max { value: -SMALLEST_SAFE, inclusive: true }],
        _ => return Ok(None),
    }))
}

fn bigint_check(call: &Call<'_, '_>) -> Read<Option<BigIntCheck>> {
    use BigIntCheck::{Max, Min, MultipleOf};
    let value = || match call.argument(0) {
        Value::BigInt(value) => Ok(*value),
        _ => Err(call.wrong(0, "a bigint")),
    };
    Ok(Some(match call.name {
        "min" | "gte" => Min { value: value()?, inclusive: true },
        "gt" => Min { value: value()?, inclusive: false },
        "max" | "lte" => Max { value: value()?, inclusive: true },
        "lt" => Max { value: value()?, inclusive: false },
        "positive" => Min { value: 0, inclusive: false },
        "negative" => Max { value: 0, inclusive: false },
        "nonpositive" => Max { value: 0, inclusive: true },
        "nonnegative" => Min { value: 0, inclusive: true },
        "multipleOf" => MultipleOf(value()?),
        _ => return Ok(None),
    }))
}

fn array_limit<'a>(kind: Kind<'a>, call: &Call<'_, 'a>) -> Read<Option<Kind<'a>>> {
    let Kind::Array { element, min, max, exact } = kind else { return Ok(None) };
    Ok(Some(match call.name {
        "min" => Kind::Array { element, min: Some(call.number(0)?), max, exact },
        "max" => Kind::Array { element, min, max: Some(call.number(0)?), exact },
        "length" => Kind::Array { element, min, max, exact: Some(call.number(0)?) },
        "nonempty" => Kind::Array { element, min: Some(1.0), max, exact },
        _ => return Ok(None),
    }))
}

fn set_limit<'a>(kind: Kind<'a>, call: &Call<'_, 'a>) -> Read<Option<Kind<'a>>> {
    let Kind::Set { value, min, max } = kind else { return Ok(None) };
    Ok(Some(match call.name {
        "min" => Kind::Set { value, min: Some(call.number(0)?), max },
        "max" => Kind::Set { value, min, max: Some(call.number(0)?) },
        "size" => Kind::Set { value, min: Some(call.number(0)?), max: Some(call.number(0)?) },
        "nonempty" => Kind::Set { value, min: Some(1.0), max },
        _ => return Ok(None),
    }))
}

fn unknown_method(kind: &Kind<'_>, call: &Call<'_, '_>) -> super::super::fault::Problems {
    let schema = match kind {
        Kind::String { .. } => "string",
        Kind::Number { .. } => "number",
        Kind::BigInt { .. } => "bigint",
        Kind::Date { .. } => "date",
        Kind::Array { .. } => "array",
        Kind::Object { .. } => "object",
        Kind::Enum(_) => "enum",
        Kind::Set { .. } => "set",
        Kind::Tuple { .. } => "tuple",
        Kind::Effects { .. } => "effects",
        Kind::Optional(_) => "optional",
        Kind::Nullable(_) => "nullable",
        Kind::Deferred => "lazy",
        _ => "this",
    };
    let message = format!("`.{}()` is not a method that gives a schema of Zod 3's {schema} schema", call.name);
    Problem::new(call.offset, "unknown_method", message)
        .hint("is this a source for Zod 4? then convert it with `--zod 4`")
        .into()
}
