//! The first pass of `z.toJSONSchema`: each schema as its own JSON Schema fragment.
//!
//! Fragments refer to each other by schema, not by value, because later passes (`document`, `fold`) change them in
//! place: a recursive one becomes a `$ref`, a refined one inherits the content of its parent. The order of keys is
//! Zod's.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use indexmap::IndexMap;
use serde_json::{Value as Json, json};

use crate::ZodIo;

use super::{
    super::{
        fault::{Problems, ReadSchema, ZodProblem},
        library::ZodRemark,
        value::{SchemaId, ZodValue, number_json, number_text},
    },
    RecordMode, Zod4, Zod4Kind, Zod4Node,
    checks::Sum,
    regexes,
    traits::{MOST_STEPS, enum_values},
};

/// Maximum nesting of schemas.
const DEEPEST: usize = 300;

/// A fragment of JSON Schema.
#[derive(Clone, Debug)]
pub(super) enum SchemaPart {
    Json(Json),
    Schema(SchemaId),
    List(Rc<Vec<SchemaPart>>),
    Object(Rc<SchemaBody>),
    /// A key whose value is `undefined`: present for inheritance, absent in the output.
    Undefined,
}

pub(super) type SchemaBody = IndexMap<String, SchemaPart>;

/// One visited schema.
#[derive(Debug, Default)]
pub(super) struct SeenSchemas {
    pub(super) body: SchemaBody,
    /// The body, once `body` itself became a `$ref` to it.
    pub(super) definition: Option<SchemaBody>,
    pub(super) definition_id: Option<String>,
    /// The schema whose keywords this one inherits.
    pub(super) reference: Option<SchemaId>,
    pub(super) flattened: bool,
    pub(super) is_cycle: bool,
}

pub(super) struct Zod4Writer<'z, 'a> {
    pub(super) zod: &'z Zod4<'a>,
    /// In the order of their visit.
    pub(super) seen: IndexMap<SchemaId, SeenSchemas>,
    pub(super) intersections: Vec<Rc<Vec<SchemaPart>>>,
    pub(super) records: Vec<SchemaId>,
    pub(super) remarks: Vec<ZodRemark>,
    /// Which schemas may be missing from the output, as far as it was derived.
    optional: HashMap<SchemaId, bool>,
    /// The schemas around the one being written.
    around: Vec<SchemaId>,
}

pub(super) fn text(value: &str) -> SchemaPart {
    SchemaPart::Json(json!(value))
}

fn unrepresentable(node: &Zod4Node<'_>, message: impl Into<String>) -> Problems {
    let problem = ZodProblem::new(node.offset, "not_representable", message);
    problem.hint("`z.toJSONSchema` refuses this schema too").into()
}

impl<'z, 'a> Zod4Writer<'z, 'a> {
    pub(super) fn new(zod: &'z Zod4<'a>) -> Self {
        Self {
            zod,
            seen: IndexMap::new(),
            intersections: Vec::new(),
            records: Vec::new(),
            remarks: Vec::new(),
            optional: HashMap::new(),
            around: Vec::new(),
        }
    }

    pub(super) fn schema(&mut self, id: SchemaId) -> ReadSchema<SchemaId> {
        let (id, node) = self.zod.node(id)?;
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.is_cycle |= self.around.contains(&id);
            return Ok(id);
        }
        if self.around.len() >= DEEPEST {
            return Err(ZodProblem::new(
                node.offset,
                "nested_too_deeply",
                format!("the schema is more than {DEEPEST} levels deep"),
            )
            .into());
        }
        self.seen.insert(id, SeenSchemas::default());
        self.around.push(id);
        let (mut body, mut reference) = self.kind(id, node)?;
        if let Some(parent) = node.parent {
            let parent = self.schema(parent)?;
            reference.get_or_insert(parent);
        }
        self.around.pop();
        for (key, value) in self.zod.meta(id)? {
            body.insert(key, value.map_or(SchemaPart::Undefined, SchemaPart::Json));
        }
        if self.zod.io == ZodIo::Input {
            // Examples and defaults are those of the output of a transformation.
            if self.zod.is_transforming(id, &mut HashSet::new())? {
                body.shift_remove("examples");
                body.shift_remove("default");
            }
            let has_default =
                !matches!(body.get("default"), None | Some(SchemaPart::Undefined | SchemaPart::Json(Json::Null)));
            if let Some(value) = body.shift_remove(PREFAULT)
                && !has_default
            {
                body.insert("default".to_owned(), value);
            }
        }
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.body = body;
            seen.reference = reference;
        }
        Ok(id)
    }

    fn part(&mut self, id: SchemaId) -> ReadSchema<SchemaPart> {
        self.schema(id).map(SchemaPart::Schema)
    }

    fn parts(&mut self, ids: &[SchemaId]) -> ReadSchema<Vec<SchemaPart>> {
        ids.iter().map(|id| self.part(*id)).collect()
    }

    /// The keywords of a schema, and the schema from which it inherits all others.
    fn kind(&mut self, id: SchemaId, node: &Zod4Node<'a>) -> ReadSchema<(SchemaBody, Option<SchemaId>)> {
        let mut body = SchemaBody::new();
        let reference = match &node.kind {
            // It inherits nothing: it is a choice between the inner schema and `null`.
            Zod4Kind::Nullable(_) => None,
            Zod4Kind::Pipe { input, output, .. } => {
                let is_transform = matches!(self.zod.node(*input)?.1.kind, Zod4Kind::Transform);
                let takes_input = self.zod.io == ZodIo::Input && !is_transform;
                Some(self.schema(if takes_input { *input } else { *output })?)
            }
            kind => kind.wrapped().map(|inner| self.schema(inner)).transpose()?,
        };
        match &node.kind {
            Zod4Kind::String(own) => write_text(&mut body, &Sum::of(own.iter().chain(&node.checks))),
            Zod4Kind::Number(own) => write_number(&mut body, node, &Sum::of(own.iter().chain(&node.checks)))?,
            Zod4Kind::File => write_file(&mut body, &Sum::of(node.checks.iter())),
            Zod4Kind::Boolean | Zod4Kind::Success => {
                body.insert("type".to_owned(), text("boolean"));
            }
            Zod4Kind::Null => {
                body.insert("type".to_owned(), text("null"));
            }
            Zod4Kind::Never => {
                body.insert("not".to_owned(), SchemaPart::Json(json!({})));
            }
            Zod4Kind::Any | Zod4Kind::Unknown => {}
            Zod4Kind::BigInt => return Err(unrepresentable(node, "BigInt cannot be represented in JSON Schema")),
            Zod4Kind::Symbol => return Err(unrepresentable(node, "Symbols cannot be represented in JSON Schema")),
            Zod4Kind::Undefined => return Err(unrepresentable(node, "Undefined cannot be represented in JSON Schema")),
            Zod4Kind::Void => return Err(unrepresentable(node, "Void cannot be represented in JSON Schema")),
            Zod4Kind::Date => return Err(unrepresentable(node, "Date cannot be represented in JSON Schema")),
            Zod4Kind::NaN => return Err(unrepresentable(node, "NaN cannot be represented in JSON Schema")),
            Zod4Kind::Custom => return Err(unrepresentable(node, "Custom types cannot be represented in JSON Schema")),
            Zod4Kind::Function => {
                return Err(unrepresentable(node, "Function types cannot be represented in JSON Schema"));
            }
            Zod4Kind::Transform => {
                return Err(unrepresentable(node, "Transforms cannot be represented in JSON Schema"));
            }
            Zod4Kind::Map => return Err(unrepresentable(node, "Map cannot be represented in JSON Schema")),
            Zod4Kind::Set => return Err(unrepresentable(node, "Set cannot be represented in JSON Schema")),
            Zod4Kind::Enum(entries) => write_enum(&mut body, node, &enum_values(entries))?,
            Zod4Kind::Literal(values) => write_literal(&mut body, node, values)?,
            Zod4Kind::TemplateLiteral(source) => {
                body.insert("type".to_owned(), text("string"));
                body.insert("pattern".to_owned(), text(source));
            }
            Zod4Kind::Array(element) => {
                let sum = Sum::of(node.checks.iter());
                insert_number(&mut body, "minItems", sum.minimum);
                insert_number(&mut body, "maxItems", sum.maximum);
                body.insert("type".to_owned(), text("array"));
                body.insert("items".to_owned(), self.part(*element)?);
            }
            Zod4Kind::Object { .. } => self.object(&mut body, node)?,
            Zod4Kind::Union { options, exclusive } => {
                let options = self.parts(options)?;
                body.insert(if *exclusive { "oneOf" } else { "anyOf" }.to_owned(), SchemaPart::List(Rc::new(options)));
            }
            Zod4Kind::Intersection(left, right) => {
                let sides = [self.schema(*left)?, self.schema(*right)?];
                let mut all_of = Vec::new();
                for side in sides {
                    match self.seen.get(&side).map(|seen| &seen.body) {
                        // An intersection without other keywords is merged with this one.
                        Some(body) if body.len() == 1 => match body.get("allOf") {
                            Some(SchemaPart::List(more)) => all_of.extend(more.iter().cloned()),
                            _ => all_of.push(SchemaPart::Schema(side)),
                        },
                        _ => all_of.push(SchemaPart::Schema(side)),
                    }
                }
                let all_of = Rc::new(all_of);
                self.intersections.push(Rc::clone(&all_of));
                body.insert("allOf".to_owned(), SchemaPart::List(all_of));
            }
            Zod4Kind::Tuple { items, rest } => self.tuple(&mut body, node, items, *rest)?,
            Zod4Kind::Record { key, value, mode } => {
                self.record(&mut body, *key, *value, *mode)?;
                if body.contains_key("propertyNames") {
                    self.records.push(id);
                }
            }
            Zod4Kind::Nullable(inner) => {
                let options = vec![self.part(*inner)?, SchemaPart::Json(json!({ "type": "null" }))];
                body.insert("anyOf".to_owned(), SchemaPart::List(Rc::new(options)));
            }
            Zod4Kind::Default { value, .. } => {
                body.insert("default".to_owned(), SchemaPart::Json(default_value(node, value)?));
            }
            // The output has it filled in.
            Zod4Kind::Prefault { value, .. } if self.zod.io == ZodIo::Input => {
                body.insert(PREFAULT.to_owned(), SchemaPart::Json(default_value(node, value)?));
            }
            Zod4Kind::Catch { value, .. } => {
                let value = match value {
                    ZodValue::Unreadable(problems)
                        if problems.iter().any(|problem| problem.code == "function_throws") =>
                    {
                        return Err(unrepresentable(node, "Dynamic catch values are not supported in JSON Schema"));
                    }
                    value => value.to_json(node.offset)?,
                };
                body.insert("default".to_owned(), value.map_or(SchemaPart::Undefined, SchemaPart::Json));
            }
            Zod4Kind::Readonly(_) => {
                body.insert("readOnly".to_owned(), SchemaPart::Json(json!(true)));
            }
            Zod4Kind::Optional { .. }
            | Zod4Kind::NonOptional(_)
            | Zod4Kind::Prefault { .. }
            | Zod4Kind::Promise(_)
            | Zod4Kind::Lazy(_)
            | Zod4Kind::Pipe { .. } => {}
            Zod4Kind::Deferred | Zod4Kind::Alias(_) => {
                return Err(ZodProblem::new(
                    node.offset,
                    "computed_value",
                    "this schema is known only when the program runs",
                )
                .into());
            }
        }
        Ok((body, reference))
    }

    fn object(&mut self, body: &mut SchemaBody, node: &Zod4Node<'a>) -> ReadSchema<()> {
        let Zod4Kind::Object { shape, catchall } = &node.kind else { return Ok(()) };
        body.insert("type".to_owned(), text("object"));
        let mut properties = SchemaBody::new();
        for (key, field) in shape {
            properties.insert(key.clone(), self.part(*field)?);
        }
        body.insert("properties".to_owned(), SchemaPart::Object(Rc::new(properties)));
        let mut required = Vec::new();
        for (key, field) in shape {
            if !self.is_optional(*field)? {
                required.push(json!(key));
                self.remark_on_default(key, *field)?;
            }
        }
        if !required.is_empty() {
            body.insert("required".to_owned(), SchemaPart::Json(Json::Array(required)));
        }
        match catchall {
            // Parsing accepts other keys and drops them.
            None if self.zod.io == ZodIo::Input => {}
            None => {
                body.insert("additionalProperties".to_owned(), SchemaPart::Json(json!(false)));
            }
            Some(catchall) if matches!(self.zod.node(*catchall)?.1.kind, Zod4Kind::Never) => {
                body.insert("additionalProperties".to_owned(), SchemaPart::Json(json!(false)));
            }
            Some(catchall) => {
                body.insert("additionalProperties".to_owned(), self.part(*catchall)?);
            }
        }
        Ok(())
    }

    /// Whether a key or an item may be missing, on the side that is described.
    fn is_optional(&mut self, schema: SchemaId) -> ReadSchema<bool> {
        match self.zod.io {
            ZodIo::Input => self.zod.optional_input(schema, &mut self.optional),
            ZodIo::Output => self.zod.optional_output(schema, &mut self.optional),
        }
    }

    /// The output of parsing has defaults filled in, so `z.toJSONSchema` lists them as required.
    fn remark_on_default(&mut self, key: &str, field: SchemaId) -> ReadSchema<()> {
        let (_, node) = self.zod.node(field)?;
        if matches!(node.kind, Zod4Kind::Default { .. } | Zod4Kind::Prefault { .. }) {
            let message = format!("`{key}` has a default, and `z.toJSONSchema` lists it as required nevertheless");
            self.remarks.push(ZodRemark { offset: node.offset, code: "default_is_required", message });
        }
        Ok(())
    }

    fn tuple(
        &mut self,
        body: &mut SchemaBody,
        node: &Zod4Node<'a>,
        items: &[SchemaId],
        rest: Option<SchemaId>,
    ) -> ReadSchema<()> {
        body.insert("type".to_owned(), text("array"));
        let prefix = self.parts(items)?;
        let rest = rest.map(|rest| self.part(rest)).transpose()?;
        let mut least = items.len();
        while let Some(item) = least.checked_sub(1).and_then(|last| items.get(last)) {
            if !self.is_optional(*item)? {
                break;
            }
            least -= 1;
        }
        body.insert("prefixItems".to_owned(), SchemaPart::List(Rc::new(prefix)));
        let is_closed = rest.is_none();
        body.insert("items".to_owned(), rest.unwrap_or(SchemaPart::Json(json!(false))));
        if least > 0 {
            body.insert("minItems".to_owned(), SchemaPart::Json(json!(least)));
        }
        if is_closed {
            body.insert("maxItems".to_owned(), SchemaPart::Json(json!(items.len())));
        }
        let sum = Sum::of(node.checks.iter());
        insert_number(body, "minItems", sum.minimum);
        insert_number(body, "maxItems", sum.maximum);
        Ok(())
    }

    fn record(&mut self, body: &mut SchemaBody, key: SchemaId, value: SchemaId, mode: RecordMode) -> ReadSchema<()> {
        body.insert("type".to_owned(), text("object"));
        let (_, key_node) = self.zod.node(key)?;
        let patterns = match &key_node.kind {
            Zod4Kind::String(own) => Sum::of(own.iter().chain(&key_node.checks)).patterns,
            _ => Vec::new(),
        };
        if mode == RecordMode::Loose && !patterns.is_empty() {
            let value = self.part(value)?;
            let by_pattern =
                patterns.iter().map(|pattern| (regexes::exact(&pattern.source).to_owned(), value.clone())).collect();
            body.insert("patternProperties".to_owned(), SchemaPart::Object(Rc::new(by_pattern)));
        } else {
            body.insert("propertyNames".to_owned(), self.part(key)?);
            body.insert("additionalProperties".to_owned(), self.part(value)?);
        }
        let mut steps = MOST_STEPS;
        let is_omittable = self.zod.io == ZodIo::Input && self.is_optional(value)?;
        if mode != RecordMode::Partial
            && !is_omittable
            && let Some(keys) = self.zod.values(key, &mut steps)?
        {
            let keys: Vec<Json> = keys
                .iter()
                .filter(|key| matches!(key, ZodValue::Text(_) | ZodValue::Number(_)))
                .filter_map(ZodValue::to_text)
                .map(Json::String)
                .collect();
            if !keys.is_empty() {
                body.insert("required".to_owned(), SchemaPart::Json(Json::Array(keys)));
            }
        }
        Ok(())
    }
}

/// The key under which a prefault waits for the metadata, which may have a default of its own.
const PREFAULT: &str = "_prefault";

fn default_value(node: &Zod4Node<'_>, value: &ZodValue<'_>) -> ReadSchema<Json> {
    match value.to_json(node.offset)? {
        Some(_) if has_bigint(value) => {
            Err(unrepresentable(node, "BigInt defaults cannot be represented in JSON Schema"))
        }
        Some(value) => Ok(value),
        None => Err(unrepresentable(node, "a default that is undefined cannot be represented in JSON Schema")),
    }
}

fn has_bigint(value: &ZodValue<'_>) -> bool {
    match value {
        ZodValue::BigInt(_) => true,
        ZodValue::List(values) => values.iter().any(has_bigint),
        ZodValue::Record(record) => record.iter().any(|(_, member)| has_bigint(&member.value)),
        _ => false,
    }
}

fn insert_number(body: &mut SchemaBody, keyword: &str, value: Option<f64>) {
    if let Some(value) = value {
        body.insert(keyword.to_owned(), SchemaPart::Json(number_json(value)));
    }
}

fn write_text(body: &mut SchemaBody, sum: &Sum) {
    body.insert("type".to_owned(), text("string"));
    insert_number(body, "minLength", sum.minimum);
    insert_number(body, "maxLength", sum.maximum);
    if let Some(format) = &sum.format
        && format != "time"
        && !sum.lax
    {
        let format = match format.as_str() {
            "guid" => "uuid",
            "url" => "uri",
            "datetime" => "date-time",
            "json_string" => "json-string",
            "regex" => "",
            other => other,
        };
        if !format.is_empty() {
            body.insert("format".to_owned(), text(format));
        }
    }
    if let Some(encoding) = &sum.content_encoding {
        body.insert("contentEncoding".to_owned(), text(encoding));
    }
    match sum.patterns.as_slice() {
        [] => {}
        [pattern] => {
            body.insert("pattern".to_owned(), text(regexes::exact(&pattern.source)));
        }
        patterns => {
            let all = patterns
                .iter()
                .map(|pattern| SchemaPart::Json(json!({ "pattern": regexes::exact(&pattern.source) })))
                .collect();
            body.insert("allOf".to_owned(), SchemaPart::List(Rc::new(all)));
        }
    }
}

fn write_number(body: &mut SchemaBody, node: &Zod4Node<'_>, sum: &Sum) -> ReadSchema<()> {
    body.insert("type".to_owned(), text(if sum.is_integer { "integer" } else { "number" }));
    match sum.exclusive_minimum {
        Some(value) if value >= sum.minimum.unwrap_or(f64::NEG_INFINITY) => {
            insert_number(body, "exclusiveMinimum", Some(value));
        }
        _ => insert_number(body, "minimum", sum.minimum),
    }
    match sum.exclusive_maximum {
        Some(value) if value <= sum.maximum.unwrap_or(f64::INFINITY) => {
            insert_number(body, "exclusiveMaximum", Some(value));
        }
        _ => insert_number(body, "maximum", sum.maximum),
    }
    let mut divisors: Vec<f64> = Vec::new();
    for divisor in &sum.multiple_of {
        if !divisor.is_finite() || *divisor == 0.0 {
            let divisor = number_text(*divisor);
            return Err(unrepresentable(
                node,
                format!("A multipleOf divisor of {divisor} cannot be represented in JSON Schema"),
            ));
        }
        if !divisors.contains(&divisor.abs()) {
            divisors.push(divisor.abs());
        }
    }
    if let [first, rest @ ..] = divisors.as_slice() {
        insert_number(body, "multipleOf", Some(*first));
        if !rest.is_empty() {
            let all =
                rest.iter().map(|divisor| SchemaPart::Json(json!({ "multipleOf": number_json(*divisor) }))).collect();
            body.insert("allOf".to_owned(), SchemaPart::List(Rc::new(all)));
        }
    }
    Ok(())
}

fn write_file(body: &mut SchemaBody, sum: &Sum) {
    body.insert("type".to_owned(), text("string"));
    body.insert("format".to_owned(), text("binary"));
    body.insert("contentEncoding".to_owned(), text("binary"));
    insert_number(body, "minLength", sum.minimum);
    insert_number(body, "maxLength", sum.maximum);
    match sum.mime.as_deref() {
        None => {}
        Some([]) => {
            body.insert("not".to_owned(), SchemaPart::Json(json!({})));
        }
        Some([mime]) => {
            body.insert("contentMediaType".to_owned(), text(mime));
        }
        Some(types) => {
            let any = types.iter().map(|mime| SchemaPart::Json(json!({ "contentMediaType": &**mime }))).collect();
            body.insert("anyOf".to_owned(), SchemaPart::List(Rc::new(any)));
        }
    }
}

fn write_enum(body: &mut SchemaBody, node: &Zod4Node<'_>, values: &[ZodValue<'_>]) -> ReadSchema<()> {
    if values.is_empty() {
        body.insert("not".to_owned(), SchemaPart::Json(json!({})));
        return Ok(());
    }
    if values.iter().all(|value| matches!(value, ZodValue::Number(_))) {
        body.insert("type".to_owned(), text("number"));
    }
    if values.iter().all(|value| matches!(value, ZodValue::Text(_))) {
        body.insert("type".to_owned(), text("string"));
    }
    body.insert("enum".to_owned(), SchemaPart::Json(Json::Array(to_json(node, values)?)));
    Ok(())
}

fn to_json(node: &Zod4Node<'_>, values: &[ZodValue<'_>]) -> ReadSchema<Vec<Json>> {
    values.iter().map(|value| Ok(value.to_json(node.offset)?.unwrap_or(Json::Null))).collect()
}

fn write_literal(body: &mut SchemaBody, node: &Zod4Node<'_>, values: &[ZodValue<'_>]) -> ReadSchema<()> {
    for value in values {
        match value {
            ZodValue::Undefined => {
                return Err(unrepresentable(node, "Literal `undefined` cannot be represented in JSON Schema"));
            }
            ZodValue::BigInt(_) => {
                return Err(unrepresentable(node, "BigInt literals cannot be represented in JSON Schema"));
            }
            _ => {}
        }
    }
    let kind = |value: &ZodValue<'_>| match value {
        ZodValue::Null => Some("null"),
        ZodValue::Bool(_) => Some("boolean"),
        ZodValue::Number(_) => Some("number"),
        ZodValue::Text(_) => Some("string"),
        _ => None,
    };
    match values {
        [] => {
            body.insert("not".to_owned(), SchemaPart::Json(json!({})));
        }
        [value] => {
            body.insert("type".to_owned(), text(kind(value).unwrap_or("object")));
            body.insert(
                "const".to_owned(),
                value.to_json(node.offset)?.map_or(SchemaPart::Undefined, SchemaPart::Json),
            );
        }
        values => {
            let first = values.first().and_then(kind);
            if let Some(name) = first.filter(|name| values.iter().all(|value| kind(value) == Some(name))) {
                body.insert("type".to_owned(), text(name));
            }
            body.insert("enum".to_owned(), SchemaPart::Json(Json::Array(to_json(node, values)?)));
        }
    }
    Ok(())
}
