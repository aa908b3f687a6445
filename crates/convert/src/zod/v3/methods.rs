//! The methods of Zod 3's schemas.

use std::rc::Rc;

use super::{
    super::{
        fault::{ReadSchema, ZodProblem},
        library::ZodCall,
        value::{MOST_NODES, SchemaId, ZodMember, ZodRecord, ZodValue, too_large},
    },
    BigIntCheck, Effect, NumberCheck, UnknownKeys, Zod3, Zod3Kind, ZodShape, strings,
};

const SMALLEST_SAFE: f64 = -9_007_199_254_740_991.0;

impl<'a> Zod3<'a> {
    pub(super) fn apply(&mut self, receiver: SchemaId, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>> {
        if let Some(schema) = self.apply_to_any(receiver, call)? {
            return Ok(ZodValue::Schema(schema));
        }
        let (id, node) = self.node(receiver)?;
        let description = node.description.clone();
        let kind = node.kind.clone();
        let changed = match &kind {
            Zod3Kind::String { checks, coerce } => strings::check(call)?.map(|check| {
                let checks = checks.iter().cloned().chain([check]).collect();
                Zod3Kind::String { checks, coerce: *coerce }
            }),
            Zod3Kind::Number { checks, coerce } => number_checks(call)?.map(|more| {
                let checks = checks.iter().copied().chain(more).collect();
                Zod3Kind::Number { checks, coerce: *coerce }
            }),
            Zod3Kind::BigInt { checks, coerce } => bigint_check(call)?.map(|check| {
                let checks = checks.iter().copied().chain([check]).collect();
                Zod3Kind::BigInt { checks, coerce: *coerce }
            }),
            // The limits of a date do not appear in its JSON Schema.
            Zod3Kind::Date { .. } => matches!(call.name, "min" | "max").then(|| kind.clone()),
            Zod3Kind::Array { .. } => array_limit(kind.clone(), call)?,
            Zod3Kind::Set { .. } => set_limit(kind.clone(), call)?,
            Zod3Kind::Tuple { items, .. } if call.name == "rest" => {
                Some(Zod3Kind::Tuple { items: items.clone(), rest: Some(call.schema(0)?) })
            }
            Zod3Kind::Enum(values) => match call.name {
                "extract" => Some(Zod3Kind::Enum(Self::enum_values(call, 0)?)),
                "exclude" => {
                    let without = Self::enum_values(call, 0)?;
                    Some(Zod3Kind::Enum(values.iter().filter(|value| !without.contains(value)).cloned().collect()))
                }
                _ => None,
            },
            Zod3Kind::Function => matches!(call.name, "args" | "returns").then_some(Zod3Kind::Function),
            Zod3Kind::Object { .. } => return self.apply_to_object(id, kind, description, call),
            _ => None,
        };
        if let Some(kind) = changed {
            return Ok(ZodValue::Schema(self.add(kind, description, call.offset)));
        }
        match (&kind, call.name) {
            (
                Zod3Kind::Optional(inner)
                | Zod3Kind::Nullable(inner)
                | Zod3Kind::Branded(inner)
                | Zod3Kind::Readonly(inner)
                | Zod3Kind::Promise(inner),
                "unwrap",
            )
            | (Zod3Kind::Default { inner, .. }, "removeDefault")
            | (Zod3Kind::Catch { inner, .. }, "removeCatch")
            | (Zod3Kind::Effects { inner, .. }, "innerType") => Ok(ZodValue::Schema(*inner)),
            (Zod3Kind::Effects { inner, .. }, "sourceType") => {
                let mut source = *inner;
                while let Zod3Kind::Effects { inner, .. } = &self.node(source)?.1.kind {
                    source = *inner;
                }
                Ok(ZodValue::Schema(source))
            }
            _ => Err(unknown_method(&kind, call)),
        }
    }

    /// The methods that every schema has.
    fn apply_to_any(&mut self, receiver: SchemaId, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<SchemaId>> {
        let inherited = self.description_of(receiver);
        let (kind, description) = match call.name {
            "describe" => {
                let (_, node) = self.node(receiver)?;
                let kind = node.kind.clone();
                let description = match call.argument(0) {
                    ZodValue::Text(text) => Some(Rc::clone(text)),
                    ZodValue::Undefined => None,
                    _ => return Err(call.wrong(0, "a string")),
                };
                (kind, description)
            }
            "optional" => (Zod3Kind::Optional(receiver), inherited),
            "nullable" => (Zod3Kind::Nullable(receiver), inherited),
            "nullish" => {
                let nullable = self.add(Zod3Kind::Nullable(receiver), inherited.clone(), call.offset);
                (Zod3Kind::Optional(nullable), inherited)
            }
            "array" => (Zod3Kind::Array { element: receiver, min: None, max: None, exact: None }, None),
            "promise" => (Zod3Kind::Promise(receiver), inherited),
            "or" => (Zod3Kind::Union(vec![receiver, call.schema(0)?]), inherited),
            "and" => (Zod3Kind::Intersection(receiver, call.schema(0)?), inherited),
            "transform" => {
                let effect = Effect::Transform(call.function(0).ok());
                (Zod3Kind::Effects { inner: receiver, effect }, inherited)
            }
            "refine" | "refinement" => {
                let effect = Effect::Refinement { function: call.function(0).ok(), is_fatal: false };
                (Zod3Kind::Effects { inner: receiver, effect }, None)
            }
            "superRefine" | "_refinement" => {
                let effect = Effect::SuperRefinement(call.function(0).ok());
                (Zod3Kind::Effects { inner: receiver, effect }, None)
            }
            "default" => match call.argument(0) {
                ZodValue::Unreadable(problems) => return Err(problems.clone()),
                value => (Zod3Kind::Default { inner: receiver, value: value.clone() }, inherited),
            },
            "catch" => {
                let value = match call.argument(0) {
                    ZodValue::Unreadable(_) => None,
                    value => Some(value.clone()),
                };
                (Zod3Kind::Catch { inner: receiver, value }, inherited)
            }
            "brand" => (Zod3Kind::Branded(receiver), inherited),
            "pipe" => (Zod3Kind::Pipeline(receiver, call.schema(0)?), None),
            "readonly" => (Zod3Kind::Readonly(receiver), None),
            _ => return Ok(None),
        };
        Ok(Some(self.add(kind, description, call.offset)))
    }

    fn apply_to_object(
        &mut self,
        id: SchemaId,
        kind: Zod3Kind<'a>,
        description: Option<Rc<str>>,
        call: &ZodCall<'_, 'a>,
    ) -> ReadSchema<ZodValue<'a>> {
        let Zod3Kind::Object { shape, unknown_keys, catchall } = kind.clone() else {
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
                let more = ZodShape::from_iter([(call.text(0)?.to_owned(), call.schema(1)?)]);
                (merged(shape, more), unknown_keys, catchall, description)
            }
            "merge" => {
                let (_, other) = self.node(call.schema(0)?)?;
                let Zod3Kind::Object { shape: more, unknown_keys, catchall } = other.kind.clone() else {
                    return Err(call.wrong(0, "an object schema"));
                };
                (merged(shape, more), unknown_keys, catchall, None)
            }
            "catchall" => {
                let schema = call.schema(0)?;
                let never = matches!(self.node(schema)?.1.kind, Zod3Kind::Never);
                (shape, unknown_keys, (!never).then_some(schema), description)
            }
            "pick" => {
                let mask = call.record(0)?;
                let mut picked = ZodShape::new();
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
                let mut kept = ZodShape::new();
                for (key, schema) in &shape {
                    if !masked(mask, key)? {
                        kept.insert(key.clone(), *schema);
                    }
                }
                (kept, unknown_keys, catchall, description)
            }
            "partial" => {
                let mut partial = ZodShape::new();
                for (key, schema) in &shape {
                    let touched = self.touches(call, key)?;
                    let schema = if touched { self.optional_of(*schema, call.offset) } else { *schema };
                    partial.insert(key.clone(), schema);
                }
                (partial, unknown_keys, catchall, description)
            }
            "required" => {
                let mut required = ZodShape::new();
                for (key, schema) in &shape {
                    let mut schema = *schema;
                    if self.touches(call, key)? {
                        while let Zod3Kind::Optional(inner) = self.node(schema)?.1.kind {
                            schema = inner;
                        }
                    }
                    required.insert(key.clone(), schema);
                }
                (required, unknown_keys, catchall, description)
            }
            "deepPartial" => return Ok(ZodValue::Schema(self.deep_partial(id, call.offset, 0)?)),
            "keyof" => {
                let keys = shape.keys().map(|key| Rc::from(key.as_str())).collect();
                return Ok(ZodValue::Schema(self.add(Zod3Kind::Enum(keys), None, call.offset)));
            }
            _ => return Err(unknown_method(&kind, call)),
        };
        Ok(ZodValue::Schema(self.add(Zod3Kind::Object { shape, unknown_keys, catchall }, description, call.offset)))
    }

    /// Whether `partial(mask)` or `required(mask)` changes `key`.
    fn touches(&self, call: &ZodCall<'_, 'a>, key: &str) -> ReadSchema<bool> {
        match call.argument(0) {
            ZodValue::Undefined => Ok(true),
            _ => masked(call.record(0)?, key),
        }
    }

    fn optional_of(&mut self, schema: SchemaId, offset: u32) -> SchemaId {
        let description = self.description_of(schema);
        self.add(Zod3Kind::Optional(schema), description, offset)
    }

    fn deep_partial(&mut self, schema: SchemaId, offset: u32, depth: usize) -> ReadSchema<SchemaId> {
        const DEEPEST: usize = 200;
        if depth > DEEPEST {
            return Err(ZodProblem::new(offset, "nested_too_deeply", "`deepPartial` goes too deep").into());
        }
        // Every schema below is copied, and constants that use constants make many of them.
        if self.nodes.len() > 4 * MOST_NODES {
            return Err(too_large(offset));
        }
        let (_, node) = self.node(schema)?;
        let description = node.description.clone();
        Ok(match node.kind.clone() {
            Zod3Kind::Object { shape, unknown_keys, catchall } => {
                let mut partial = ZodShape::new();
                for (key, field) in shape {
                    let field = self.deep_partial(field, offset, depth + 1)?;
                    let field = self.add(Zod3Kind::Optional(field), None, offset);
                    partial.insert(key, field);
                }
                self.add(Zod3Kind::Object { shape: partial, unknown_keys, catchall }, description, offset)
            }
            Zod3Kind::Array { element, min, max, exact } => {
                let element = self.deep_partial(element, offset, depth + 1)?;
                self.add(Zod3Kind::Array { element, min, max, exact }, description, offset)
            }
            Zod3Kind::Optional(inner) => {
                let inner = self.deep_partial(inner, offset, depth + 1)?;
                self.add(Zod3Kind::Optional(inner), None, offset)
            }
            Zod3Kind::Nullable(inner) => {
                let inner = self.deep_partial(inner, offset, depth + 1)?;
                self.add(Zod3Kind::Nullable(inner), None, offset)
            }
            Zod3Kind::Tuple { items, .. } => {
                let items =
                    items.iter().map(|item| self.deep_partial(*item, offset, depth + 1)).collect::<ReadSchema<_>>()?;
                self.add(Zod3Kind::Tuple { items, rest: None }, None, offset)
            }
            _ => schema,
        })
    }

    pub(super) fn member(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<ZodValue<'a>> {
        let (_, node) = self.node(receiver).ok()?;
        let texts = |values: &[Rc<str>]| values.iter().map(|value| ZodValue::Text(Rc::clone(value))).collect();
        let record = |members: Vec<(String, ZodValue<'a>)>| {
            let member = |(key, value)| (key, ZodMember { value, offset, getter: false });
            ZodValue::Record(Rc::new(ZodRecord::new(offset, members.into_iter().map(member))))
        };
        match (&node.kind, name) {
            (_, "description") => Some(node.description.clone().map_or(ZodValue::Undefined, ZodValue::Text)),
            (Zod3Kind::Object { shape, .. }, "shape") => {
                Some(record(shape.iter().map(|(key, schema)| (key.clone(), ZodValue::Schema(*schema))).collect()))
            }
            (Zod3Kind::Array { element, .. }, "element")
            | (Zod3Kind::Record { value: element, .. }, "element" | "valueSchema")
            | (Zod3Kind::Record { key: element, .. }, "keySchema")
            | (Zod3Kind::Lazy(element), "schema") => Some(ZodValue::Schema(*element)),
            (Zod3Kind::Enum(values), "options") => Some(ZodValue::list(texts(values))),
            (Zod3Kind::Enum(values), "enum" | "Enum" | "Values") => Some(record(
                values.iter().map(|value| (value.as_ref().to_owned(), ZodValue::Text(Rc::clone(value)))).collect(),
            )),
            (Zod3Kind::NativeEnum(values), "enum") => Some(ZodValue::Record(Rc::clone(values))),
            (Zod3Kind::Union(options) | Zod3Kind::DiscriminatedUnion { options, .. }, "options")
            | (Zod3Kind::Tuple { items: options, .. }, "items") => {
                Some(ZodValue::list(options.iter().copied().map(ZodValue::Schema).collect()))
            }
            (Zod3Kind::Literal(value), "value") => Some(value.clone()),
            _ => None,
        }
    }
}

/// `{...shape, ...more}`.
fn merged(mut shape: ZodShape, more: ZodShape) -> ZodShape {
    shape.extend(more);
    ordered(shape)
}

/// The order in which JavaScript lists the keys.
fn ordered(mut shape: ZodShape) -> ZodShape {
    shape.sort_by_cached_key(|key, _| super::super::value::array_index(key).map_or(u64::MAX, u64::from));
    shape
}

fn chosen(member: &ZodMember<'_>) -> ReadSchema<bool> {
    match &member.value {
        ZodValue::Unreadable(problems) => Err(problems.clone()),
        value => Ok(value.truthy().unwrap_or(true)),
    }
}

/// `mask[key]`, which for the names of `Object.prototype` is a function, and so true.
fn masked(mask: &ZodRecord<'_>, key: &str) -> ReadSchema<bool> {
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

fn number_checks(call: &ZodCall<'_, '_>) -> ReadSchema<Option<Vec<NumberCheck>>> {
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

fn bigint_check(call: &ZodCall<'_, '_>) -> ReadSchema<Option<BigIntCheck>> {
    use BigIntCheck::{Max, Min, MultipleOf};
    let value = || match call.argument(0) {
        ZodValue::BigInt(value) => Ok(*value),
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

fn array_limit<'a>(kind: Zod3Kind<'a>, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<Zod3Kind<'a>>> {
    let Zod3Kind::Array { element, min, max, exact } = kind else { return Ok(None) };
    Ok(Some(match call.name {
        "min" => Zod3Kind::Array { element, min: Some(call.number(0)?), max, exact },
        "max" => Zod3Kind::Array { element, min, max: Some(call.number(0)?), exact },
        "length" => Zod3Kind::Array { element, min, max, exact: Some(call.number(0)?) },
        "nonempty" => Zod3Kind::Array { element, min: Some(1.0), max, exact },
        _ => return Ok(None),
    }))
}

fn set_limit<'a>(kind: Zod3Kind<'a>, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<Zod3Kind<'a>>> {
    let Zod3Kind::Set { value, min, max } = kind else { return Ok(None) };
    Ok(Some(match call.name {
        "min" => Zod3Kind::Set { value, min: Some(call.number(0)?), max },
        "max" => Zod3Kind::Set { value, min, max: Some(call.number(0)?) },
        "size" => Zod3Kind::Set { value, min: Some(call.number(0)?), max: Some(call.number(0)?) },
        "nonempty" => Zod3Kind::Set { value, min: Some(1.0), max },
        _ => return Ok(None),
    }))
}

fn unknown_method(kind: &Zod3Kind<'_>, call: &ZodCall<'_, '_>) -> super::super::fault::Problems {
    let schema = match kind {
        Zod3Kind::String { .. } => "string",
        Zod3Kind::Number { .. } => "number",
        Zod3Kind::BigInt { .. } => "bigint",
        Zod3Kind::Date { .. } => "date",
        Zod3Kind::Array { .. } => "array",
        Zod3Kind::Object { .. } => "object",
        Zod3Kind::Enum(_) => "enum",
        Zod3Kind::Set { .. } => "set",
        Zod3Kind::Tuple { .. } => "tuple",
        Zod3Kind::Effects { .. } => "effects",
        Zod3Kind::Optional(_) => "optional",
        Zod3Kind::Nullable(_) => "nullable",
        Zod3Kind::Deferred => "lazy",
        _ => "this",
    };
    let message = format!("`.{}()` is not a method that gives a schema of Zod 3's {schema} schema", call.name);
    ZodProblem::new(call.offset, "unknown_method", message)
        .hint("is this a source for Zod 4? then convert it with `--zod 4`")
        .into()
}
