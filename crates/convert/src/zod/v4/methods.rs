//! The methods of Zod 4's schemas.

use std::rc::Rc;

use super::{
    super::{
        fault::{FaultCollector, Problems, ReadSchema, ZodProblem},
        library::ZodCall,
        value::{SchemaId, ZodMember, ZodRecord, ZodValue, array_index},
    },
    Meta, Zod4, Zod4Kind, Zod4Node, ZodShape,
    checks::{self, Check},
    keys_as_enum, known,
    traits::enum_values,
};

impl<'a> Zod4<'a> {
    pub(super) fn apply(&mut self, receiver: SchemaId, call: &ZodCall<'_, 'a>) -> ReadSchema<ZodValue<'a>> {
        if let Some(schema) = self.apply_to_any(receiver, call)? {
            return Ok(ZodValue::Schema(schema));
        }
        let (_, node) = self.node(receiver)?;
        let kind = node.kind.clone();
        let check = match &kind {
            Zod4Kind::String(_) => self.string_check(call)?,
            Zod4Kind::Number(_) if call.name == "finite" => return Ok(ZodValue::Schema(receiver)),
            Zod4Kind::Number(_) => checks::number_check(call)?,
            Zod4Kind::BigInt => bigint_check(call),
            Zod4Kind::Date => matches!(call.name, "min" | "max").then_some(Check::Silent),
            Zod4Kind::Map | Zod4Kind::Set => {
                matches!(call.name, "min" | "max" | "size" | "nonempty").then_some(Check::Silent)
            }
            Zod4Kind::Array(_) => match call.name {
                "min" => Some(Check::Least(call.number(0)?)),
                "max" => Some(Check::Most(call.number(0)?)),
                "length" => Some(Check::Exactly(call.number(0)?)),
                "nonempty" => Some(Check::Least(1.0)),
                _ => None,
            },
            Zod4Kind::File => match call.name {
                "min" => Some(Check::Least(call.number(0)?)),
                "max" => Some(Check::Most(call.number(0)?)),
                "mime" => Some(checks::mime(call)?),
                _ => None,
            },
            _ => None,
        };
        if let Some(check) = check {
            return Ok(ZodValue::Schema(self.with_checks(receiver, [check], call.offset)?));
        }
        if call.name == "unwrap"
            && let Some(inner) = kind.wrapped()
        {
            return Ok(ZodValue::Schema(inner));
        }
        match (&kind, call.name) {
            (Zod4Kind::Array(inner), "unwrap")
            | (Zod4Kind::Default { inner, .. }, "removeDefault")
            | (Zod4Kind::Catch { inner, .. }, "removeCatch") => Ok(ZodValue::Schema(*inner)),
            (Zod4Kind::Tuple { items, .. }, "rest") => {
                let kind = Zod4Kind::Tuple { items: items.clone(), rest: Some(call.schema(0)?) };
                Ok(ZodValue::Schema(self.changed(receiver, kind, call.offset)?))
            }
            (Zod4Kind::Tuple { items, rest }, "partial") => {
                if !self.node(receiver)?.1.checks.is_empty() {
                    return Err(call.throws(".partial() cannot be used on tuple schemas containing refinements"));
                }
                let (items, rest) = (items.clone(), *rest);
                let items = items
                    .into_iter()
                    .map(|inner| self.add(Zod4Kind::Optional { inner, exact: false }, call.offset))
                    .collect();
                Ok(ZodValue::Schema(self.changed(receiver, Zod4Kind::Tuple { items, rest }, call.offset)?))
            }
            (Zod4Kind::Enum(entries), "extract" | "exclude") => {
                let kind = Zod4Kind::Enum(select(entries, call)?);
                Ok(ZodValue::Schema(self.add(kind, call.offset)))
            }
            (Zod4Kind::Function, "input" | "output" | "implement") => Ok(ZodValue::Schema(receiver)),
            (Zod4Kind::Object { shape, catchall }, _) => {
                let (shape, catchall) = (shape.clone(), *catchall);
                self.apply_to_object(receiver, shape, catchall, call)
            }
            _ => Err(unknown_method(&kind, call)),
        }
    }

    /// The methods that every schema has.
    fn apply_to_any(&mut self, receiver: SchemaId, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<SchemaId>> {
        let kind = match call.name {
            "describe" => {
                let description = known(call, 0)?.to_json(call.offset)?;
                return Ok(Some(self.registered(
                    receiver,
                    Meta::from_iter([("description".to_owned(), description)]),
                    call.offset,
                )?));
            }
            "meta" => {
                let meta = meta(call, 0)?;
                return Ok(Some(self.registered(receiver, meta, call.offset)?));
            }
            "register" => {
                if matches!(call.argument(0), ZodValue::Zod(path) if &**path == "globalRegistry") {
                    let meta = meta(call, 1)?;
                    let (id, _) = self.node(receiver)?;
                    if let Some(node) = self.nodes.get_mut(id.0) {
                        node.meta = Some(meta);
                    }
                }
                return Ok(Some(receiver));
            }
            "brand" => return Ok(Some(receiver)),
            "clone" => return Ok(Some(self.clone_of(receiver, call.offset)?)),
            "refine" | "superRefine" | "overwrite" => {
                return Ok(Some(self.with_checks(receiver, [Check::Silent], call.offset)?));
            }
            "check" | "with" => {
                let checks = self.given_checks(call)?;
                return Ok(Some(self.with_checks(receiver, checks, call.offset)?));
            }
            "optional" => Zod4Kind::Optional { inner: receiver, exact: false },
            "exactOptional" => Zod4Kind::Optional { inner: receiver, exact: true },
            "nullable" => Zod4Kind::Nullable(receiver),
            "nullish" => {
                let nullable = self.add(Zod4Kind::Nullable(receiver), call.offset);
                Zod4Kind::Optional { inner: nullable, exact: false }
            }
            "nonoptional" => Zod4Kind::NonOptional(receiver),
            "array" => Zod4Kind::Array(receiver),
            "or" => Zod4Kind::Union { options: vec![receiver, call.schema(0)?], exclusive: false },
            "and" => Zod4Kind::Intersection(receiver, call.schema(0)?),
            "transform" => {
                let output = self.add(Zod4Kind::Transform, call.offset);
                Zod4Kind::Pipe { input: receiver, output, is_codec: false }
            }
            "pipe" => Zod4Kind::Pipe { input: receiver, output: call.schema(0)?, is_codec: false },
            "default" => Zod4Kind::Default { inner: receiver, value: known(call, 0)? },
            "prefault" => Zod4Kind::Prefault { inner: receiver, value: call.argument(0).clone() },
            "catch" => Zod4Kind::Catch { inner: receiver, value: call.argument(0).clone() },
            "readonly" => Zod4Kind::Readonly(receiver),
            _ => return Ok(None),
        };
        Ok(Some(self.add(kind, call.offset)))
    }

    fn given_checks(&self, call: &ZodCall<'_, 'a>) -> ReadSchema<Vec<Check>> {
        let mut gather = FaultCollector::default();
        let given = call.arguments.iter().filter_map(|argument| {
            gather.take(match argument {
                ZodValue::Check(id) => Ok(self.checks.get(id.0).cloned().unwrap_or(Check::Silent)),
                ZodValue::Function(_) => Ok(Check::Silent),
                // A format is a schema and a check at once: `z.string().check(z.email())`.
                ZodValue::Schema(schema) => match self.node(*schema) {
                    Ok((_, Zod4Node { kind: Zod4Kind::String(Some(check)) | Zod4Kind::Number(Some(check)), .. })) => {
                        Ok(check.clone())
                    }
                    Ok(_) => Ok(Check::Silent),
                    Err(problems) => Err(problems),
                },
                ZodValue::Unreadable(problems) => Err(problems.clone()),
                other => {
                    Err(call.fail("wrong_argument", format!("`{}` takes checks, not {}", call.name, other.kind())))
                }
            })
        });
        let given = given.collect();
        gather.finish(given)
    }

    /// A refined schema, which inherits the metadata of the one it refines.
    fn with_checks(
        &mut self,
        receiver: SchemaId,
        more: impl IntoIterator<Item = Check>,
        offset: u32,
    ) -> ReadSchema<SchemaId> {
        let (id, node) = self.node(receiver)?;
        let mut checks = node.checks.clone();
        checks.extend(more);
        let mut kind = node.kind.clone();
        // A clone shares the result of its getter, but a refined schema has a definition of its own.
        if let Zod4Kind::Lazy(inner) = &kind
            && checks.len() > node.checks.len()
            && let Some(function) = self.getters.get(inner).copied()
        {
            kind = Zod4Kind::Lazy(self.defer(function, offset));
        }
        let refined = self.add_with(kind, checks, offset);
        if let Some(node) = self.nodes.get_mut(refined.0) {
            node.parent = Some(id);
        }
        Ok(refined)
    }

    fn clone_of(&mut self, receiver: SchemaId, offset: u32) -> ReadSchema<SchemaId> {
        self.with_checks(receiver, [], offset)
    }

    fn registered(&mut self, receiver: SchemaId, meta: Meta, offset: u32) -> ReadSchema<SchemaId> {
        let clone = self.clone_of(receiver, offset)?;
        if let Some(node) = self.nodes.get_mut(clone.0) {
            node.meta = Some(meta);
        }
        Ok(clone)
    }

    /// A schema with the same checks but another definition: it has no parent.
    fn changed(&mut self, receiver: SchemaId, kind: Zod4Kind<'a>, offset: u32) -> ReadSchema<SchemaId> {
        let checks = self.node(receiver)?.1.checks.clone();
        Ok(self.add_with(kind, checks, offset))
    }

    fn apply_to_object(
        &mut self,
        receiver: SchemaId,
        shape: ZodShape,
        catchall: Option<SchemaId>,
        call: &ZodCall<'_, 'a>,
    ) -> ReadSchema<ZodValue<'a>> {
        let offset = call.offset;
        let refined = !self.node(receiver)?.1.checks.is_empty();
        let unrefined = |name: &str| {
            if refined {
                Err(call.throws(format!(".{name}() cannot be used on object schemas containing refinements")))
            } else {
                Ok(())
            }
        };
        let (shape, catchall) = match call.name {
            "strict" => (shape, Some(self.add(Zod4Kind::Never, offset))),
            "passthrough" | "loose" => (shape, Some(self.add(Zod4Kind::Unknown, offset))),
            "strip" => (shape, None),
            "catchall" => (shape, Some(call.schema(0)?)),
            "keyof" => {
                let kind = Zod4Kind::Enum(keys_as_enum(&shape, offset));
                return Ok(ZodValue::Schema(self.add(kind, offset)));
            }
            "extend" | "safeExtend" => {
                let more = self.shape_argument(call, 0)?;
                if refined && call.name == "extend" && more.keys().any(|key| shape.contains_key(key)) {
                    return Err(call.throws(
                        "Cannot overwrite keys on object schemas containing refinements. Use `.safeExtend()` instead.",
                    ));
                }
                (merged(shape, more), catchall)
            }
            "merge" => {
                let (_, other) = self.node(call.schema(0)?)?;
                let Zod4Kind::Object { shape: more, catchall } = &other.kind else {
                    return Err(call.wrong(0, "an object schema"));
                };
                if refined {
                    return Err(call.throws(
                        ".merge() cannot be used on object schemas containing refinements. Use .safeExtend() instead.",
                    ));
                }
                let kind = Zod4Kind::Object { shape: merged(shape, more.clone()), catchall: *catchall };
                let checks = other.checks.clone();
                return Ok(ZodValue::Schema(self.add_with(kind, checks, offset)));
            }
            "pick" => {
                unrefined("pick")?;
                let keys = masked_keys(&shape, call)?;
                (
                    ordered(
                        keys.iter()
                            .filter_map(|key| shape.get_key_value(key))
                            .map(|(key, id)| (key.clone(), *id))
                            .collect(),
                    ),
                    catchall,
                )
            }
            "omit" => {
                unrefined("omit")?;
                let keys = masked_keys(&shape, call)?;
                (shape.into_iter().filter(|(key, _)| !keys.contains(key)).collect(), catchall)
            }
            "partial" | "exactPartial" => {
                unrefined(call.name)?;
                let exact = call.name == "exactPartial";
                (self.wrapped(shape, call, |inner| Zod4Kind::Optional { inner, exact })?, catchall)
            }
            "required" => (self.wrapped(shape, call, Zod4Kind::NonOptional)?, catchall),
            _ => return Err(unknown_method(&Zod4Kind::Object { shape, catchall }, call)),
        };
        Ok(ZodValue::Schema(self.changed(receiver, Zod4Kind::Object { shape, catchall }, offset)?))
    }

    /// The fields that the mask names, or all of them, each inside a wrapper of its own.
    fn wrapped(
        &mut self,
        shape: ZodShape,
        call: &ZodCall<'_, 'a>,
        wrapper: impl Fn(SchemaId) -> Zod4Kind<'a>,
    ) -> ReadSchema<ZodShape> {
        let keys = match call.argument(0) {
            ZodValue::Undefined => None,
            _ => Some(masked_keys(&shape, call)?),
        };
        let wrap = |(key, inner): (String, SchemaId)| {
            let touched = keys.as_ref().is_none_or(|keys| keys.contains(&key));
            let schema = if touched { self.add(wrapper(inner), call.offset) } else { inner };
            (key, schema)
        };
        Ok(shape.into_iter().map(wrap).collect())
    }

    pub(super) fn member(&mut self, receiver: SchemaId, name: &str, offset: u32) -> Option<ZodValue<'a>> {
        if name == "description" {
            let description = self.meta(receiver).ok()?.shift_remove("description")??;
            return description.as_str().map(ZodValue::text);
        }
        let (_, node) = self.node(receiver).ok()?;
        let record = |members: Vec<(String, ZodValue<'a>)>| {
            let member = |(key, value)| (key, ZodMember { value, offset, getter: false });
            ZodValue::Record(Rc::new(ZodRecord::new(offset, members.into_iter().map(member))))
        };
        match (&node.kind, name) {
            (Zod4Kind::Object { shape, .. }, "shape") => {
                Some(record(shape.iter().map(|(key, schema)| (key.clone(), ZodValue::Schema(*schema))).collect()))
            }
            (Zod4Kind::Array(schema), "element")
            | (Zod4Kind::Record { key: schema, .. }, "keyType")
            | (Zod4Kind::Record { value: schema, .. }, "valueType")
            | (Zod4Kind::Pipe { input: schema, .. }, "in")
            | (Zod4Kind::Pipe { output: schema, .. }, "out") => Some(ZodValue::Schema(*schema)),
            (Zod4Kind::Enum(entries), "enum") => Some(ZodValue::Record(Rc::clone(entries))),
            (Zod4Kind::Enum(entries), "options") => Some(ZodValue::list(enum_values(entries))),
            (Zod4Kind::Union { options, .. }, "options") => {
                Some(ZodValue::list(options.iter().copied().map(ZodValue::Schema).collect()))
            }
            (Zod4Kind::Literal(values), "value") => match values.as_slice() {
                [value] => Some(value.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}

fn meta(call: &ZodCall<'_, '_>, index: usize) -> ReadSchema<Meta> {
    let record = call.record(index)?;
    let mut gather = FaultCollector::default();
    let mut meta = Meta::new();
    for (key, member) in record.iter() {
        if let Some(value) = gather.take(member.value.to_json(member.offset)) {
            meta.insert(key.to_owned(), value);
        }
    }
    gather.finish(meta)
}

fn merged(mut shape: ZodShape, more: ZodShape) -> ZodShape {
    shape.extend(more);
    ordered(shape)
}

/// The order in which JavaScript lists the keys.
fn ordered(mut shape: ZodShape) -> ZodShape {
    shape.sort_by_cached_key(|key, _| array_index(key).map_or(u64::MAX, u64::from));
    shape
}

fn masked_keys(shape: &ZodShape, call: &ZodCall<'_, '_>) -> ReadSchema<Vec<String>> {
    let mut gather = FaultCollector::default();
    let mut keys = Vec::new();
    for (key, member) in call.record(0)?.iter() {
        let chosen = match &member.value {
            ZodValue::Unreadable(problems) => Err(problems.clone()),
            _ if !shape.contains_key(key) => Err(call.throws(format!("Unrecognized key: \"{key}\""))),
            value => Ok(value.truthy().unwrap_or(true)),
        };
        if gather.take(chosen) == Some(true) {
            keys.push(key.to_owned());
        }
    }
    gather.finish(keys)
}

/// `extract` and `exclude` of an enum.
fn select<'a>(entries: &ZodRecord<'a>, call: &ZodCall<'_, 'a>) -> ReadSchema<Rc<ZodRecord<'a>>> {
    let ZodValue::List(names) = call.argument(0) else { return Err(call.wrong(0, "an array of names")) };
    let mut gather = FaultCollector::default();
    let name = |value: &ZodValue<'a>| match value.to_text() {
        Some(name) if entries.get(&name).is_some() => Ok(name),
        Some(name) => Err(call.throws(format!("Key {name} not found in enum"))),
        None => Err(call.wrong(0, "an array of names")),
    };
    let names: Vec<String> = names.iter().filter_map(|value| gather.take(name(value))).collect();
    let names = gather.finish(names)?;
    let copy = |key: &str| entries.get(key).map(|member| (key.to_owned(), member.clone()));
    let kept: Vec<(String, ZodMember<'a>)> = if call.name == "extract" {
        names.iter().filter_map(|key| copy(key)).collect()
    } else {
        entries.keys().filter(|key| !names.iter().any(|name| name == key)).filter_map(copy).collect()
    };
    Ok(Rc::new(ZodRecord::new(call.offset, kept)))
}

fn bigint_check(call: &ZodCall<'_, '_>) -> Option<Check> {
    let known =
        ["min", "gte", "gt", "max", "lte", "lt", "positive", "negative", "nonpositive", "nonnegative", "multipleOf"];
    known.contains(&call.name).then_some(Check::Silent)
}

fn unknown_method(kind: &Zod4Kind<'_>, call: &ZodCall<'_, '_>) -> Problems {
    let schema = match kind {
        Zod4Kind::String(_) => "string",
        Zod4Kind::Number(_) => "number",
        Zod4Kind::BigInt => "bigint",
        Zod4Kind::Array(_) => "array",
        Zod4Kind::Object { .. } => "object",
        Zod4Kind::Enum(_) => "enum",
        Zod4Kind::Tuple { .. } => "tuple",
        Zod4Kind::Optional { .. } => "optional",
        Zod4Kind::Nullable(_) => "nullable",
        Zod4Kind::Pipe { .. } => "pipe",
        _ => "this",
    };
    let message = format!("`.{}()` is not a method that gives a schema of Zod 4's {schema} schema", call.name);
    ZodProblem::new(call.offset, "unknown_method", message)
        .hint("is this a source for Zod 3? then convert it with `--zod 3`")
        .into()
}
