//! Properties that Zod 4 derives from a schema without parsing anything.

use std::collections::{HashMap, HashSet};

use super::{
    super::{
        fault::ReadSchema,
        library::ZodCall,
        value::{SchemaId, ZodRecord, ZodValue, too_large},
    },
    Zod4, Zod4Kind, Zod4Node,
    checks::{Check, escape},
    regexes,
};

/// Maximum number of schemas that one derivation may visit.
pub(super) const MOST_STEPS: usize = 2_000;

impl<'a> Zod4<'a> {
    /// Whether the key of a field may be missing from the output. A recursive occurrence is `false`, and every result
    /// is memoised, as in Zod.
    pub(super) fn optional_output(&self, schema: SchemaId, asked: &mut HashMap<SchemaId, bool>) -> ReadSchema<bool> {
        let (id, node) = self.node(schema)?;
        if let Some(answer) = asked.get(&id) {
            return Ok(*answer);
        }
        asked.insert(id, false);
        let optional = match &node.kind {
            Zod4Kind::Optional { .. } => true,
            Zod4Kind::Nullable(inner)
            | Zod4Kind::Catch { inner, .. }
            | Zod4Kind::Readonly(inner)
            | Zod4Kind::Lazy(inner) => self.optional_output(*inner, asked)?,
            Zod4Kind::Pipe { output, .. } => self.optional_output(*output, asked)?,
            Zod4Kind::Union { options, .. } => {
                let mut any = false;
                for option in options {
                    any = any || self.optional_output(*option, asked)?;
                }
                any
            }
            _ => false,
        };
        asked.insert(id, optional);
        Ok(optional)
    }

    /// Whether the key of a field may be missing from the declared input. A transformation and a `catch` accept that at
    /// run time, but their declared input does not; wrapped in another schema, they count as they run.
    pub(super) fn optional_input(&self, schema: SchemaId, asked: &mut HashMap<SchemaId, bool>) -> ReadSchema<bool> {
        let (_, mut node) = self.node(schema)?;
        let mut schema = schema;
        for _ in 0..MOST_STEPS {
            schema = match &node.kind {
                Zod4Kind::Catch { inner, .. } => *inner,
                Zod4Kind::Pipe { input, output, .. } if matches!(self.node(*input)?.1.kind, Zod4Kind::Transform) => {
                    *output
                }
                _ => return self.accepts_absence(schema, asked),
            };
            node = self.node(schema)?.1;
        }
        Err(too_large(node.offset))
    }

    /// Whether parsing accepts that a key is missing.
    fn accepts_absence(&self, schema: SchemaId, asked: &mut HashMap<SchemaId, bool>) -> ReadSchema<bool> {
        let (id, node) = self.node(schema)?;
        if let Some(answer) = asked.get(&id) {
            return Ok(*answer);
        }
        asked.insert(id, false);
        let optional = match &node.kind {
            Zod4Kind::Optional { .. }
            | Zod4Kind::Default { .. }
            | Zod4Kind::Prefault { .. }
            | Zod4Kind::Catch { .. }
            | Zod4Kind::Transform => true,
            Zod4Kind::Nullable(inner) | Zod4Kind::Readonly(inner) | Zod4Kind::Lazy(inner) => {
                self.accepts_absence(*inner, asked)?
            }
            Zod4Kind::Pipe { input, .. } => self.accepts_absence(*input, asked)?,
            Zod4Kind::Union { options, .. } => {
                let mut any = false;
                for option in options {
                    any = any || self.accepts_absence(*option, asked)?;
                }
                any
            }
            _ => false,
        };
        asked.insert(id, optional);
        Ok(optional)
    }

    /// Whether parsing makes another value of its input, here or anywhere inside.
    pub(super) fn is_transforming(&self, schema: SchemaId, seen: &mut HashSet<SchemaId>) -> ReadSchema<bool> {
        let (id, node) = self.node(schema)?;
        if !seen.insert(id) {
            return Ok(false);
        }
        let inside: Vec<SchemaId> = match &node.kind {
            Zod4Kind::Transform | Zod4Kind::Pipe { is_codec: true, .. } => return Ok(true),
            Zod4Kind::Array(inner) => vec![*inner],
            Zod4Kind::Intersection(left, right) => vec![*left, *right],
            Zod4Kind::Record { key, value, .. } => vec![*key, *value],
            Zod4Kind::Pipe { input, output, .. } => vec![*input, *output],
            Zod4Kind::Object { shape, .. } => shape.values().copied().collect(),
            Zod4Kind::Union { options, .. } => options.clone(),
            Zod4Kind::Tuple { items, rest } => items.iter().copied().chain(*rest).collect(),
            kind => kind.wrapped().into_iter().collect(),
        };
        for schema in inside {
            if self.is_transforming(schema, seen)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The finite set of values of a schema, if it has one.
    pub(super) fn values(&self, schema: SchemaId, steps: &mut usize) -> ReadSchema<Option<Vec<ZodValue<'a>>>> {
        let (_, node) = self.node(schema)?;
        *steps = steps.checked_sub(1).ok_or_else(|| too_large(node.offset))?;
        Ok(match &node.kind {
            Zod4Kind::Undefined => Some(vec![ZodValue::Undefined]),
            Zod4Kind::Null => Some(vec![ZodValue::Null]),
            Zod4Kind::Enum(entries) => Some(distinct(enum_values(entries))),
            Zod4Kind::Literal(values) => Some(distinct(values.clone())),
            Zod4Kind::Union { options, .. } => {
                let mut all = Some(Vec::new());
                for option in options {
                    let more = self.values(*option, steps)?;
                    all = all.zip(more).map(|(mut all, more)| {
                        all.extend(more);
                        all
                    });
                }
                all.map(distinct)
            }
            Zod4Kind::Optional { inner, exact } => {
                let also = (!exact).then_some(ZodValue::Undefined);
                self.values(*inner, steps)?.map(|values| distinct(values.into_iter().chain(also).collect()))
            }
            Zod4Kind::Nullable(inner) => {
                self.values(*inner, steps)?.map(|values| distinct(values.into_iter().chain([ZodValue::Null]).collect()))
            }
            Zod4Kind::NonOptional(inner) => self
                .values(*inner, steps)?
                .map(|values| values.into_iter().filter(|value| !matches!(value, ZodValue::Undefined)).collect()),
            Zod4Kind::Default { inner, .. }
            | Zod4Kind::Prefault { inner, .. }
            | Zod4Kind::Catch { inner, .. }
            | Zod4Kind::Readonly(inner) => self.values(*inner, steps)?,
            Zod4Kind::Pipe { input, .. } => self.values(*input, steps)?,
            _ => None,
        })
    }

    /// `z.templateLiteral([…])`: one pattern composed of the patterns of its parts.
    pub(super) fn template_literal(&self, call: &ZodCall<'_, 'a>) -> ReadSchema<Zod4Kind<'a>> {
        let ZodValue::List(parts) = call.argument(0) else { return Err(call.wrong(0, "an array of parts")) };
        let mut source = String::from("^");
        let mut steps = MOST_STEPS;
        for part in parts.iter() {
            match part {
                ZodValue::Schema(schema) => match self.part_pattern(*schema, &mut steps)? {
                    Some(pattern) => source.push_str(clean(&pattern)),
                    None => return Err(call.throws("Invalid template literal part, no pattern found")),
                },
                ZodValue::Unreadable(problems) => return Err(problems.clone()),
                part => match part.to_text() {
                    Some(text) => source.push_str(&escape(&text)),
                    None => return Err(call.throws("Invalid template literal part")),
                },
            }
        }
        source.push('$');
        Ok(Zod4Kind::TemplateLiteral(super::super::globals::regex_source(&source)))
    }

    /// The pattern of a schema inside a template, with its checks taken into account.
    fn part_pattern(&self, schema: SchemaId, steps: &mut usize) -> ReadSchema<Option<String>> {
        let (_, node) = self.node(schema)?;
        let own = self.pattern(schema, steps)?;
        if let Some(inner) = node.kind.wrapped() {
            let before = self.pattern(inner, steps)?;
            let after = self.part_pattern(inner, steps)?;
            return Ok(match (own, before, after) {
                (Some(own), Some(before), Some(after)) if after != before => {
                    Some(own.replacen(clean(&before), clean(&after), 1))
                }
                (own, _, _) => own,
            });
        }
        match &node.kind {
            Zod4Kind::Union { options, .. } => {
                let sources = options
                    .iter()
                    .map(|option| self.part_pattern(*option, steps))
                    .collect::<ReadSchema<Option<Vec<_>>>>()?;
                Ok(sources.map(|sources| alternatives(&sources)).or(own))
            }
            _ => Ok(leaf_pattern(node).or(own)),
        }
    }

    /// The pattern of a schema's text, without its checks.
    fn pattern(&self, schema: SchemaId, steps: &mut usize) -> ReadSchema<Option<String>> {
        let (_, node) = self.node(schema)?;
        *steps = steps.checked_sub(1).ok_or_else(|| too_large(node.offset))?;
        let mut inner = |inner: SchemaId| self.pattern(inner, steps);
        Ok(match &node.kind {
            Zod4Kind::String(format) => Some(match format {
                Some(Check::Text(text)) => {
                    text.pattern.as_ref().map_or(regexes::ANY_TEXT, |pattern| &pattern.source).to_owned()
                }
                _ => regexes::ANY_TEXT.to_owned(),
            }),
            Zod4Kind::Number(_) => Some(regexes::NUMBER.to_owned()),
            Zod4Kind::BigInt => Some(regexes::BIGINT.to_owned()),
            Zod4Kind::Boolean => Some(regexes::BOOLEAN.to_owned()),
            Zod4Kind::Null => Some("^null$".to_owned()),
            Zod4Kind::Undefined => Some("^undefined$".to_owned()),
            Zod4Kind::Enum(entries) => Some(choices(&enum_values(entries))),
            Zod4Kind::Literal(values) => Some(choices(values)),
            Zod4Kind::TemplateLiteral(source) => Some(source.clone()),
            Zod4Kind::Union { options, .. } => {
                let sources = options.iter().map(|option| inner(*option)).collect::<ReadSchema<Option<Vec<_>>>>()?;
                sources.map(|sources| alternatives(&sources))
            }
            Zod4Kind::Optional { inner: schema, exact: true } | Zod4Kind::Lazy(schema) => inner(*schema)?,
            Zod4Kind::Optional { inner: schema, .. } => {
                inner(*schema)?.map(|source| format!("^({})?$", clean(&source)))
            }
            Zod4Kind::Nullable(schema) => inner(*schema)?.map(|source| format!("^({}|null)$", clean(&source))),
            _ => None,
        })
    }
}

/// The checks of a text or number as one pattern: the last pattern wins, else lengths, else integers.
fn leaf_pattern(node: &Zod4Node<'_>) -> Option<String> {
    let own = match &node.kind {
        Zod4Kind::String(own) | Zod4Kind::Number(own) => own.as_ref(),
        _ => None,
    };
    let mut pattern = None;
    let mut is_integer = false;
    let mut least: Option<f64> = None;
    let mut most: Option<f64> = None;
    for check in own.into_iter().chain(&node.checks) {
        match check {
            Check::Text(text) => {
                pattern = text.pattern.as_ref().map(|pattern| pattern.source.clone()).or(pattern);
                is_integer |= text.format.contains("int");
            }
            Check::Number { format, .. } => is_integer |= format.contains("int"),
            Check::Least(value) => least = Some(least.map_or(*value, |least| least.max(*value))),
            Check::Most(value) => most = Some(most.map_or(*value, |most| most.min(*value))),
            Check::Exactly(value) => {
                least = Some(least.map_or(*value, |least| least.max(*value)));
                most = Some(most.map_or(*value, |most| most.min(*value)));
            }
            _ => {}
        }
    }
    if pattern.is_some() {
        return pattern;
    }
    match (least, most) {
        (Some(least), Some(most)) if least > most => Some("(?!)".to_owned()),
        (None, None) => (is_integer && matches!(node.kind, Zod4Kind::Number(_))).then(|| regexes::INTEGER.to_owned()),
        (least, most) => {
            let most = most.map(|most| most.to_string()).unwrap_or_default();
            Some(format!(r"^[\s\S]{{{},{most}}}$", least.unwrap_or(0.0)))
        }
    }
}

fn choices(values: &[ZodValue<'_>]) -> String {
    if values.is_empty() {
        return r"^[^\s\S]$".to_owned();
    }
    let texts: Vec<String> = values.iter().filter_map(ZodValue::to_text).map(|text| escape(&text)).collect();
    format!("^({})$", texts.join("|"))
}

fn alternatives(sources: &[String]) -> String {
    let sources: Vec<&str> = sources.iter().map(|source| clean(source)).collect();
    format!("^({})$", sources.join("|"))
}

/// A pattern without its anchors.
fn clean(source: &str) -> &str {
    let source = source.strip_prefix('^').unwrap_or(source);
    source.strip_suffix('$').unwrap_or(source)
}

/// The values of an enum without the names that TypeScript adds for its numbers.
pub(super) fn enum_values<'a>(entries: &ZodRecord<'a>) -> Vec<ZodValue<'a>> {
    let numbers: Vec<f64> = entries
        .iter()
        .filter_map(|(_, member)| if let ZodValue::Number(number) = member.value { Some(number) } else { None })
        .collect();
    let is_reverse = |key: &str| key.trim().parse::<f64>().is_ok_and(|number| numbers.contains(&number));
    entries.iter().filter(|(key, _)| !is_reverse(key)).map(|(_, member)| member.value.clone()).collect()
}

fn distinct(values: Vec<ZodValue<'_>>) -> Vec<ZodValue<'_>> {
    let mut result: Vec<ZodValue<'_>> = Vec::with_capacity(values.len());
    for value in values {
        if !result.iter().any(|other| other.same(&value)) {
            result.push(value);
        }
    }
    result
}
