//! Zod 3's schemas as JSON Schema, as zod-to-json-schema writes them with `$refStrategy: "none"`,
//! `removeAdditionalStrategy: "strict"` and no `$schema`.
//!
//! Every schema is written in place. A recursive occurrence becomes `{}`, as the package does, with a remark. Keys are
//! in the package's order.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::{
    super::{
        fault::{ReadSchema, ZodProblem},
        library::{WrittenCall, ZodRemark},
        value::{MOST_NODES, SchemaId, ZodValue, bigint_json, number_json, too_large, weight},
    },
    BigIntCheck, NumberCheck, UnknownKeys, Zod3, Zod3Kind, Zod3Node,
    optional::{Parse, Parsed},
    strings,
};

/// Maximum nesting of a JSON Schema.
const DEEPEST: usize = 300;

pub(super) fn write(zod: &Zod3<'_>, root: SchemaId) -> ReadSchema<WrittenCall> {
    let mut writer = Zod3Writer {
        zod,
        path: Vec::new(),
        property: None,
        seen: HashMap::new(),
        remarks: Vec::new(),
        nodes: 0,
        depth: 0,
    };
    let schema = writer.schema(root)?;
    Ok(WrittenCall { schema: Json::Object(schema.unwrap_or_default()), remarks: writer.remarks })
}

struct Zod3Writer<'z, 'a> {
    zod: &'z Zod3<'a>,
    path: Vec<String>,
    /// The length of the path at the innermost property: only directly there is `optional` silent.
    property: Option<usize>,
    /// The path at which each schema was last written.
    seen: HashMap<SchemaId, Vec<String>>,
    remarks: Vec<ZodRemark>,
    nodes: usize,
    depth: usize,
}

type WrittenSchema = Map<String, Json>;

/// An object with these keys, in this order.
fn object<const N: usize>(members: [(&str, Json); N]) -> WrittenSchema {
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

impl<'a> Zod3Writer<'_, 'a> {
    /// `None` for schemas that JSON Schema cannot express: they are omitted.
    fn schema(&mut self, id: SchemaId) -> ReadSchema<Option<WrittenSchema>> {
        let (id, node) = self.zod.node(id)?;
        if let Some(before) = self.seen.get(&id)
            && before.len() < self.path.len()
            && self.path.starts_with(before)
        {
            let message =
                format!("the schema contains itself; at `#/{}` it is written as anything", self.path.join("/"));
            self.remarks.push(ZodRemark { offset: node.offset, code: "recursive_schema", message });
            return Ok(Some(WrittenSchema::new()));
        }
        self.charge(1, node.offset)?;
        if self.depth >= DEEPEST {
            return Err(ZodProblem::new(
                node.offset,
                "nested_too_deeply",
                format!("the schema is more than {DEEPEST} levels deep"),
            )
            .into());
        }
        self.seen.insert(id, self.path.clone());
        self.depth += 1;
        let written = self.kind(node);
        self.depth -= 1;
        let mut schema = written?;
        if let (Some(schema), Some(description)) = (&mut schema, &node.description)
            && !description.is_empty()
        {
            schema.insert("description".to_owned(), json!(&**description));
        }
        // The content below has been charged already; these are the keywords that a schema repeats.
        let repeated = schema.iter().flat_map(|schema| schema.iter()).filter(|(key, _)| {
            matches!(key.as_str(), "description" | "enum" | "const" | "default" | "required" | "pattern")
        });
        let weight = repeated.map(|(_, value)| weight(value)).sum();
        self.charge(weight, node.offset)?;
        Ok(schema)
    }

    fn charge(&mut self, weight: usize, offset: u32) -> ReadSchema<()> {
        self.nodes += weight;
        if self.nodes > MOST_NODES { Err(too_large(offset)) } else { Ok(()) }
    }

    /// The schema at a path below this one.
    fn below(&mut self, steps: &[&str], id: SchemaId) -> ReadSchema<Option<WrittenSchema>> {
        let length = self.path.len();
        self.path.extend(steps.iter().map(|step| (*step).to_owned()));
        let schema = self.schema(id);
        self.path.truncate(length);
        schema
    }

    fn kind(&mut self, node: &Zod3Node<'a>) -> ReadSchema<Option<WrittenSchema>> {
        Ok(Some(match &node.kind {
            Zod3Kind::String { checks, .. } => strings::write(checks),
            Zod3Kind::Number { checks, .. } => write_number(checks, node.offset)?,
            Zod3Kind::BigInt { checks, .. } => write_bigint(checks, node.offset)?,
            Zod3Kind::Boolean { .. } => object([("type", json!("boolean"))]),
            Zod3Kind::Date { .. } => object([("type", json!("string")), ("format", json!("date-time"))]),
            Zod3Kind::Undefined | Zod3Kind::Never | Zod3Kind::NaN => object([("not", json!({}))]),
            Zod3Kind::Null => object([("type", json!("null"))]),
            Zod3Kind::Any | Zod3Kind::Unknown => WrittenSchema::new(),
            Zod3Kind::Symbol | Zod3Kind::Void | Zod3Kind::Function => return Ok(None),
            Zod3Kind::Array { element, min, max, exact } => self.array(*element, *min, *max, *exact)?,
            Zod3Kind::Object { .. } => self.object(node)?,
            Zod3Kind::Union(options) | Zod3Kind::DiscriminatedUnion { options, .. } => return self.union(options),
            Zod3Kind::Intersection(left, right) => return self.intersection(*left, *right),
            Zod3Kind::Tuple { items, rest } => self.tuple(items, *rest)?,
            Zod3Kind::Record { key, value } => self.record(*key, *value)?,
            Zod3Kind::Map { key, value } => {
                let key = self.below(&["items", "items", "0"], *key)?.unwrap_or_default();
                let value = self.below(&["items", "items", "1"], *value)?.unwrap_or_default();
                let pair = json!({ "type": "array", "items": [key, value], "minItems": 2, "maxItems": 2 });
                object([("type", json!("array")), ("maxItems", json!(125)), ("items", pair)])
            }
            Zod3Kind::Set { value, min, max } => {
                let mut schema = object([("type", json!("array")), ("uniqueItems", json!(true))]);
                insert(&mut schema, "items", self.below(&["items"], *value)?);
                insert_number(&mut schema, "minItems", *min);
                insert_number(&mut schema, "maxItems", *max);
                schema
            }
            Zod3Kind::Literal(value) => write_literal(value, node.offset)?,
            Zod3Kind::Enum(values) => {
                let values = values.iter().map(|value| json!(&**value)).collect();
                object([("type", json!("string")), ("enum", Json::Array(values))])
            }
            Zod3Kind::NativeEnum(_) => write_native_enum(node)?,
            Zod3Kind::Optional(inner) if self.property == Some(self.path.len()) => return self.schema(*inner),
            Zod3Kind::Optional(inner) => match self.below(&["anyOf", "1"], *inner)? {
                Some(inner) => object([("anyOf", json!([{ "not": {} }, inner]))]),
                None => WrittenSchema::new(),
            },
            Zod3Kind::Nullable(inner) => return self.nullable(*inner),
            Zod3Kind::Default { inner, value } => {
                let mut schema = self.schema(*inner)?.unwrap_or_default();
                match value.to_json(node.offset)? {
                    Some(value) => schema.insert("default".to_owned(), value),
                    None => schema.shift_remove("default"),
                };
                schema
            }
            Zod3Kind::Lazy(inner)
            | Zod3Kind::Promise(inner)
            | Zod3Kind::Effects { inner, .. }
            | Zod3Kind::Catch { inner, .. }
            | Zod3Kind::Branded(inner)
            | Zod3Kind::Readonly(inner) => return self.schema(*inner),
            Zod3Kind::Pipeline(first, second) => {
                let first = self.below(&["allOf", "0"], *first)?;
                let at = if first.is_some() { "1" } else { "0" };
                let second = self.below(&["allOf", at], *second)?;
                object([("allOf", Json::Array([first, second].into_iter().flatten().map(Json::Object).collect()))])
            }
            Zod3Kind::Deferred | Zod3Kind::Alias(_) => {
                return Err(ZodProblem::new(
                    node.offset,
                    "computed_value",
                    "this schema is known only when the program runs",
                )
                .into());
            }
        }))
    }

    fn array(
        &mut self,
        element: SchemaId,
        min: Option<f64>,
        max: Option<f64>,
        exact: Option<f64>,
    ) -> ReadSchema<WrittenSchema> {
        let mut schema = object([("type", json!("array"))]);
        if !matches!(self.zod.node(element)?.1.kind, Zod3Kind::Any) {
            insert(&mut schema, "items", self.below(&["items"], element)?);
        }
        insert_number(&mut schema, "minItems", min);
        insert_number(&mut schema, "maxItems", max);
        insert_number(&mut schema, "minItems", exact);
        insert_number(&mut schema, "maxItems", exact);
        Ok(schema)
    }

    fn object(&mut self, node: &Zod3Node<'a>) -> ReadSchema<WrittenSchema> {
        let Zod3Kind::Object { shape, unknown_keys, catchall } = &node.kind else { return Ok(WrittenSchema::new()) };
        let mut properties = WrittenSchema::new();
        let mut required = Vec::new();
        for (key, field) in shape {
            let optional = self.is_optional(key, *field);
            let outer = self.property.replace(self.path.len() + 2);
            let written = self.below(&["properties", key], *field);
            self.property = outer;
            if let Some(written) = written? {
                properties.insert(key.clone(), Json::Object(written));
                if !optional {
                    required.push(json!(key));
                }
            }
        }
        let mut schema = object([("type", json!("object")), ("properties", Json::Object(properties))]);
        if !required.is_empty() {
            schema.insert("required".to_owned(), Json::Array(required));
        }
        match (catchall, unknown_keys) {
            (Some(catchall), _) => {
                insert(&mut schema, "additionalProperties", self.below(&["additionalProperties"], *catchall)?);
            }
            (None, UnknownKeys::Strict) => {
                schema.insert("additionalProperties".to_owned(), json!(false));
            }
            (None, UnknownKeys::Strip | UnknownKeys::Passthrough) => {}
        }
        Ok(schema)
    }

    fn is_optional(&mut self, key: &str, field: SchemaId) -> bool {
        match Parse::undefined(self.zod, field) {
            Parsed::Valid(_) | Parsed::Throws => true,
            Parsed::Dirty(_) | Parsed::Aborted => false,
            Parsed::Unknown => {
                let message = format!(
                    "whether `{key}` may be left out depends on a function that was not run; it is assumed to be optional"
                );
                let offset = self.zod.node(field).map_or(0, |(_, node)| node.offset);
                self.remarks.push(ZodRemark { offset, code: "optional_assumed", message });
                true
            }
        }
    }

    fn union(&mut self, options: &[SchemaId]) -> ReadSchema<Option<WrittenSchema>> {
        if options.is_empty() {
            return Ok(Some(WrittenSchema::new()));
        }
        let nodes =
            options.iter().map(|option| Ok(self.zod.node(*option)?.1)).collect::<ReadSchema<Vec<&Zod3Node<'a>>>>()?;
        if let Some(types) = nodes.iter().map(|node| plain_type(&node.kind)).collect::<Option<Vec<&str>>>() {
            return Ok(Some(object([("type", one_or_many(types))])));
        }
        let literal = |node: &&Zod3Node<'a>| match &node.kind {
            Zod3Kind::Literal(value) if node.description.as_ref().is_none_or(|text| text.is_empty()) => {
                Some(value.clone())
            }
            _ => None,
        };
        if let Some(values) = nodes.iter().map(literal).collect::<Option<Vec<ZodValue<'a>>>>() {
            if let Some(types) = values.iter().map(literal_type).collect::<Option<Vec<&str>>>() {
                let mut distinct: Vec<&ZodValue<'a>> = Vec::new();
                for value in &values {
                    if !distinct.iter().any(|other| other.same(value)) {
                        distinct.push(value);
                    }
                }
                let offset = nodes.first().map_or(0, |node| node.offset);
                let values = distinct.into_iter().map(|value| Ok(value.to_json(offset)?.unwrap_or(Json::Null)));
                let values = values.collect::<ReadSchema<Vec<Json>>>()?;
                return Ok(Some(object([("type", one_or_many(types)), ("enum", Json::Array(values))])));
            }
        } else if nodes.iter().all(|node| matches!(node.kind, Zod3Kind::Enum(_))) {
            let mut values: Vec<Json> = Vec::new();
            for node in &nodes {
                if let Zod3Kind::Enum(more) = &node.kind {
                    // A name that one enum repeats stays repeated; only names of other enums are skipped.
                    let new: Vec<Json> =
                        more.iter().map(|value| json!(&**value)).filter(|value| !values.contains(value)).collect();
                    values.extend(new);
                }
            }
            return Ok(Some(object([("type", json!("string")), ("enum", Json::Array(values))])));
        }
        let mut any_of = Vec::new();
        for (index, option) in options.iter().enumerate() {
            any_of.extend(self.below(&["anyOf", &index.to_string()], *option)?.map(Json::Object));
        }
        Ok((!any_of.is_empty()).then(|| object([("anyOf", Json::Array(any_of))])))
    }

    fn intersection(&mut self, left: SchemaId, right: SchemaId) -> ReadSchema<Option<WrittenSchema>> {
        let sides = [self.below(&["allOf", "0"], left)?, self.below(&["allOf", "1"], right)?];
        let mut all_of = Vec::new();
        for mut side in sides.into_iter().flatten() {
            let is_text = side.get("type") == Some(&json!("string"));
            if !is_text && let Some(Json::Array(more)) = side.get("allOf") {
                all_of.extend(more.iter().cloned());
                continue;
            }
            if side.get("additionalProperties") == Some(&json!(false)) {
                side.shift_remove("additionalProperties");
            }
            all_of.push(Json::Object(side));
        }
        Ok((!all_of.is_empty()).then(|| object([("allOf", Json::Array(all_of))])))
    }

    fn tuple(&mut self, items: &[SchemaId], rest: Option<SchemaId>) -> ReadSchema<WrittenSchema> {
        let length = json!(items.len());
        let mut written = Vec::new();
        for (index, item) in items.iter().enumerate() {
            written.extend(self.below(&["items", &index.to_string()], *item)?.map(Json::Object));
        }
        let mut schema = object([("type", json!("array")), ("minItems", length.clone())]);
        if rest.is_none() {
            schema.insert("maxItems".to_owned(), length);
        }
        schema.insert("items".to_owned(), Json::Array(written));
        if let Some(rest) = rest {
            insert(&mut schema, "additionalItems", self.below(&["additionalItems"], rest)?);
        }
        Ok(schema)
    }

    fn record(&mut self, key: SchemaId, value: SchemaId) -> ReadSchema<WrittenSchema> {
        let mut schema = object([("type", json!("object"))]);
        insert(&mut schema, "additionalProperties", self.below(&["additionalProperties"], value)?);
        let (_, key_node) = self.zod.node(key)?;
        let names = match &key_node.kind {
            Zod3Kind::String { checks, .. } if !checks.is_empty() => Some(strings::write(checks)),
            Zod3Kind::Enum(values) => {
                let values = values.iter().map(|value| json!(&**value)).collect();
                Some(object([("enum", Json::Array(values))]))
            }
            Zod3Kind::Branded(inner) => match &self.zod.node(*inner)?.1.kind {
                Zod3Kind::String { checks, .. } if !checks.is_empty() => self.schema(*inner)?,
                _ => None,
            },
            _ => None,
        };
        if let Some(mut names) = names {
            names.shift_remove("type");
            schema.insert("propertyNames".to_owned(), Json::Object(names));
        }
        Ok(schema)
    }

    fn nullable(&mut self, inner: SchemaId) -> ReadSchema<Option<WrittenSchema>> {
        if let Some(name) = plain_type(&self.zod.node(inner)?.1.kind) {
            return Ok(Some(object([("type", json!([name, "null"]))])));
        }
        let inner = self.below(&["anyOf", "0"], inner)?;
        Ok(inner.map(|inner| object([("anyOf", json!([inner, { "type": "null" }]))])))
    }
}

fn insert(schema: &mut WrittenSchema, keyword: &str, value: Option<WrittenSchema>) {
    if let Some(value) = value {
        schema.insert(keyword.to_owned(), Json::Object(value));
    }
}

fn insert_number(schema: &mut WrittenSchema, keyword: &str, value: Option<f64>) {
    if let Some(value) = value {
        schema.insert(keyword.to_owned(), number_json(value));
    }
}

/// The type of a primitive without checks, which needs no schema of its own in a union.
fn plain_type(kind: &Zod3Kind<'_>) -> Option<&'static str> {
    match kind {
        Zod3Kind::String { checks, .. } if checks.is_empty() => Some("string"),
        Zod3Kind::Number { checks, .. } if checks.is_empty() => Some("number"),
        Zod3Kind::BigInt { checks, .. } if checks.is_empty() => Some("integer"),
        Zod3Kind::Boolean { .. } => Some("boolean"),
        Zod3Kind::Null => Some("null"),
        _ => None,
    }
}

fn one_or_many(types: Vec<&str>) -> Json {
    let mut distinct: Vec<&str> = Vec::new();
    for name in types {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    match distinct.as_slice() {
        [one] => json!(one),
        many => json!(many),
    }
}

fn literal_type(value: &ZodValue<'_>) -> Option<&'static str> {
    match value {
        ZodValue::Text(_) => Some("string"),
        ZodValue::Number(_) => Some("number"),
        ZodValue::Bool(_) => Some("boolean"),
        ZodValue::BigInt(_) => Some("integer"),
        ZodValue::Null => Some("null"),
        _ => None,
    }
}

fn write_literal(value: &ZodValue<'_>, offset: u32) -> ReadSchema<WrittenSchema> {
    Ok(match value {
        ZodValue::Text(_) | ZodValue::Number(_) | ZodValue::Bool(_) | ZodValue::BigInt(_) => {
            let name = literal_type(value).unwrap_or_default();
            object([("type", json!(name)), ("const", value.to_json(offset)?.unwrap_or(Json::Null))])
        }
        ZodValue::List(_) => object([("type", json!("array"))]),
        _ => object([("type", json!("object"))]),
    })
}

/// The package writes a divisor that JSON Schema forbids.
fn no_multiple_of_zero(offset: u32) -> ZodProblem {
    ZodProblem::new(offset, "not_representable", "No number is a multiple of 0")
}

fn write_number(checks: &[NumberCheck], offset: u32) -> ReadSchema<WrittenSchema> {
    let mut schema = object([("type", json!("number"))]);
    for check in checks {
        let (keyword, value) = match *check {
            NumberCheck::Int => ("type", json!("integer")),
            NumberCheck::Finite => continue,
            NumberCheck::Min { value, inclusive: true } => ("minimum", number_json(value)),
            NumberCheck::Min { value, inclusive: false } => ("exclusiveMinimum", number_json(value)),
            NumberCheck::Max { value, inclusive: true } => ("maximum", number_json(value)),
            NumberCheck::Max { value, inclusive: false } => ("exclusiveMaximum", number_json(value)),
            NumberCheck::MultipleOf(0.0) => return Err(no_multiple_of_zero(offset).into()),
            NumberCheck::MultipleOf(value) => ("multipleOf", number_json(value)),
        };
        schema.insert(keyword.to_owned(), value);
    }
    Ok(schema)
}

fn write_bigint(checks: &[BigIntCheck], offset: u32) -> ReadSchema<WrittenSchema> {
    let mut schema = object([("type", json!("integer")), ("format", json!("int64"))]);
    for check in checks {
        let (keyword, value) = match *check {
            BigIntCheck::Min { value, inclusive: true } => ("minimum", value),
            BigIntCheck::Min { value, inclusive: false } => ("exclusiveMinimum", value),
            BigIntCheck::Max { value, inclusive: true } => ("maximum", value),
            BigIntCheck::Max { value, inclusive: false } => ("exclusiveMaximum", value),
            BigIntCheck::MultipleOf(0) => return Err(no_multiple_of_zero(offset).into()),
            BigIntCheck::MultipleOf(value) => ("multipleOf", value),
        };
        schema.insert(keyword.to_owned(), bigint_json(value, offset)?);
    }
    Ok(schema)
}

/// The values of an enum without the names that TypeScript adds for its numbers.
fn write_native_enum(node: &Zod3Node<'_>) -> ReadSchema<WrittenSchema> {
    let Zod3Kind::NativeEnum(record) = &node.kind else { return Ok(WrittenSchema::new()) };
    let mut values = Vec::new();
    let mut texts = false;
    let mut others = false;
    for (_, member) in record.iter() {
        let back = member.value.to_text().and_then(|key| record.get(&key));
        if back.is_some_and(|back| matches!(back.value, ZodValue::Number(_))) {
            continue;
        }
        match member.value {
            ZodValue::Text(_) => texts = true,
            _ => others = true,
        }
        values.push(member.value.to_json(node.offset)?.unwrap_or(Json::Null));
    }
    let kind = match (texts, others) {
        (true, false) => json!("string"),
        (false, true) => json!("number"),
        _ => json!(["string", "number"]),
    };
    Ok(object([("type", kind), ("enum", Json::Array(values))]))
}
