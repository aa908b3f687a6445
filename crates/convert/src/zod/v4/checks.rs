//! The checks of Zod 4, and their combined effect.

use std::rc::Rc;

use super::{
    super::{
        fault::ReadSchema,
        library::ZodCall,
        value::{Regex, ZodMember, ZodValue},
    },
    Zod4, regexes,
};

/// A regular expression; two are equal only if they are the same object.
pub(super) type Pattern = Rc<Regex>;

#[derive(Clone, Debug)]
pub(super) enum Check {
    Min {
        value: f64,
        inclusive: bool,
    },
    Max {
        value: f64,
        inclusive: bool,
    },
    MultipleOf(f64),
    /// `safeint`, `int32` …, with its range.
    Number {
        format: &'static str,
        range: (f64, f64),
    },
    /// The length of a text or a list, or the size of a file.
    Least(f64),
    Most(f64),
    Exactly(f64),
    Text(TextFormat),
    Mime(Vec<Rc<str>>),
    /// A refinement or an overwrite, which JSON Schema cannot express.
    Silent,
}

#[derive(Clone, Debug)]
pub(super) struct TextFormat {
    pub(super) format: String,
    pub(super) pattern: Option<Pattern>,
    /// The format also accepts what its JSON Schema keyword forbids, so the keyword is omitted.
    pub(super) lax: bool,
}

/// The combined effect of all checks of a schema.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_minimum: Option<f64>,
    pub(super) exclusive_maximum: Option<f64>,
    pub(super) multiple_of: Vec<f64>,
    pub(super) format: Option<String>,
    pub(super) is_integer: bool,
    pub(super) patterns: Vec<Pattern>,
    pub(super) content_encoding: Option<String>,
    pub(super) lax: bool,
    pub(super) mime: Option<Vec<Rc<str>>>,
}

impl Sum {
    pub(super) fn of<'c>(checks: impl Iterator<Item = &'c Check>) -> Self {
        let mut sum = Self::default();
        for check in checks {
            sum.add(check);
        }
        sum
    }

    fn add(&mut self, check: &Check) {
        match check {
            Check::Min { value, inclusive: true } | Check::Least(value) => raise(&mut self.minimum, *value),
            Check::Min { value, inclusive: false } => raise(&mut self.exclusive_minimum, *value),
            Check::Max { value, inclusive: true } | Check::Most(value) => lower(&mut self.maximum, *value),
            Check::Max { value, inclusive: false } => lower(&mut self.exclusive_maximum, *value),
            Check::Exactly(value) => {
                raise(&mut self.minimum, *value);
                lower(&mut self.maximum, *value);
            }
            Check::MultipleOf(value) => {
                if !self.multiple_of.contains(value) {
                    self.multiple_of.push(*value);
                }
            }
            Check::Number { format, range: (least, most) } => {
                self.set_format(format);
                raise(&mut self.minimum, *least);
                lower(&mut self.maximum, *most);
            }
            Check::Text(text) => {
                self.set_format(&text.format);
                if let Some(pattern) = &text.pattern
                    && !self.patterns.iter().any(|other| Rc::ptr_eq(other, pattern))
                {
                    self.patterns.push(Rc::clone(pattern));
                }
                if matches!(text.format.as_str(), "base64" | "base64url") {
                    self.content_encoding = Some(text.format.clone());
                }
                self.lax |= text.lax;
            }
            Check::Mime(types) => {
                self.mime = Some(match self.mime.take() {
                    Some(before) => before.into_iter().filter(|mime| types.contains(mime)).collect(),
                    None => types.clone(),
                });
            }
            Check::Silent => {}
        }
    }

    /// The last format wins, but an integer stays one.
    fn set_format(&mut self, format: &str) {
        self.format = Some(format.to_owned());
        self.is_integer |= format.contains("int");
    }
}

fn raise(bound: &mut Option<f64>, value: f64) {
    if bound.is_none_or(|bound| value > bound) {
        *bound = Some(value);
    }
}

fn lower(bound: &mut Option<f64>, value: f64) {
    if bound.is_none_or(|bound| value < bound) {
        *bound = Some(value);
    }
}

pub(super) fn number_format(name: &str) -> Option<Check> {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    const FLOAT32: f64 = 3.402_823_466_385_288_6e38;
    let (format, range) = match name {
        "int" | "safe" => ("safeint", (-SAFE, SAFE)),
        "float32" => ("float32", (-FLOAT32, FLOAT32)),
        "float64" => ("float64", (-f64::MAX, f64::MAX)),
        "int32" => ("int32", (-2_147_483_648.0, 2_147_483_647.0)),
        "uint32" => ("uint32", (0.0, 4_294_967_295.0)),
        _ => return None,
    };
    Some(Check::Number { format, range })
}

/// Zod's escaping for its own patterns.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '.' | '*' | '+' | '?' | '^' | '$' | '{' | '}' | '(' | ')' | '|' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn fresh(source: impl AsRef<str>) -> Pattern {
    let source = super::super::globals::regex_source(source.as_ref());
    Rc::new(Regex { source, flags: String::new() })
}

fn value_of<'c, 'a>(member: Option<&'c ZodMember<'a>>) -> ReadSchema<&'c ZodValue<'a>> {
    match member.map(|member| &member.value) {
        Some(ZodValue::Unreadable(problems)) => Err(problems.clone()),
        Some(value) => Ok(value),
        None => Ok(&ZodValue::Undefined),
    }
}

impl<'a> Zod4<'a> {
    /// `z.email()` and its like, which are also methods of `z.string()`.
    pub(super) fn string_format(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<Check>> {
        self.named_format(call.name, call, 0)
    }

    pub(super) fn named_format(
        &mut self,
        name: &str,
        call: &ZodCall<'_, 'a>,
        options: usize,
    ) -> ReadSchema<Option<Check>> {
        let option = |name: &str| value_of(call.option(options, name)?);
        let format = match name {
            "uuidv4" | "uuidv6" | "uuidv7" => "uuid",
            "httpUrl" => "url",
            "iso.datetime" | "datetime" => "datetime",
            "iso.date" => "date",
            "iso.time" | "time" => "time",
            "iso.duration" | "duration" => "duration",
            "creditCard" => "credit_card",
            "currencyCode" => "currency_code",
            "email" | "guid" | "uuid" | "url" | "emoji" | "nanoid" | "cuid" | "cuid2" | "ulid" | "xid" | "ksuid"
            | "ipv4" | "ipv6" | "mac" | "cidrv4" | "cidrv6" | "base64" | "base64url" | "e164" | "iban" | "jwt"
            | "hostname" | "hex" => name,
            "stringFormat" => return self.custom_format(call).map(Some),
            "hash" => return self.hash_format(call).map(Some),
            _ => return Ok(None),
        };
        let mut lax = false;
        let own = option("pattern")?;
        let pattern = match (own, format) {
            (ZodValue::Regex(pattern), _) => Some(Rc::clone(pattern)),
            (_, "uuid") => {
                let version = match (name, option("version")?) {
                    ("uuidv4", ZodValue::Undefined) => Some("4".to_owned()),
                    ("uuidv6", ZodValue::Undefined) => Some("6".to_owned()),
                    ("uuidv7", ZodValue::Undefined) => Some("7".to_owned()),
                    (_, ZodValue::Text(version)) => match version.strip_prefix('v') {
                        Some(number @ ("1" | "2" | "3" | "4" | "5" | "6" | "7" | "8")) => Some(number.to_owned()),
                        _ => return Err(call.throws(format!("Invalid UUID version: \"{version}\""))),
                    },
                    _ => None,
                };
                Some(fresh(regexes::uuid(version.as_deref())))
            }
            (_, "nanoid") => match option("length")? {
                ZodValue::Number(length) if length.fract() != 0.0 || *length < 1.0 => {
                    return Err(call.throws(format!("Invalid nanoid length: {length}")));
                }
                ZodValue::Number(length) => Some(fresh(format!("^[a-zA-Z0-9_-]{{{length}}}$"))),
                _ => self.by_name("nanoid"),
            },
            (_, "mac") => {
                let delimiter =
                    option("delimiter")?.to_text().filter(|_| !matches!(option("delimiter"), Ok(ZodValue::Undefined)));
                let delimiter = escape(delimiter.as_deref().unwrap_or(":"));
                Some(fresh(format!(
                    "^(?:[0-9A-F]{{2}}{delimiter}){{5}}[0-9A-F]{{2}}$|^(?:[0-9a-f]{{2}}{delimiter}){{5}}[0-9a-f]{{2}}$"
                )))
            }
            (_, "emoji") => Some(fresh(regexes::EMOJI)),
            (_, "datetime") => {
                let precision = precision(option("precision")?);
                let local = option("local")?.truthy().unwrap_or(false);
                lax = local || precision == Some(-1);
                Some(fresh(regexes::datetime(precision, option("offset")?.truthy().unwrap_or(false), local)))
            }
            (_, "time") => {
                let precision = precision(option("precision")?);
                lax = precision == Some(-1);
                Some(fresh(format!("^{}$", regexes::time(precision, false))))
            }
            (_, "url" | "jwt") => None,
            (_, format) => self.by_name(format),
        };
        Ok(Some(Check::Text(TextFormat { format: format.to_owned(), pattern, lax })))
    }

    fn by_name(&mut self, format: &str) -> Option<Pattern> {
        let (name, source) = regexes::named(format)?;
        Some(self.shared(name, source))
    }

    fn custom_format(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Check> {
        let format = call.text(0)?.to_owned();
        let pattern = match call.argument(1) {
            ZodValue::Regex(pattern) => Some(Rc::clone(pattern)),
            ZodValue::Unreadable(problems) => return Err(problems.clone()),
            _ => None,
        };
        Ok(Check::Text(TextFormat { format, pattern, lax: false }))
    }

    fn hash_format(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Check> {
        let algorithm = call.text(0)?;
        let encoding = match value_of(call.option(1, "enc")?)? {
            ZodValue::Text(encoding) => encoding.as_ref().to_owned(),
            _ => "hex".to_owned(),
        };
        let format = format!("{algorithm}_{encoding}");
        let Some(source) = regexes::hash(algorithm, &encoding) else {
            return Err(call.throws(format!("Unrecognized hash format: {format}")));
        };
        Ok(Check::Text(TextFormat { format, pattern: Some(fresh(source)), lax: false }))
    }

    /// A check of a string by the name of its method.
    pub(super) fn string_check(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<Check>> {
        let text_check = |format: &str, pattern: Pattern| {
            Check::Text(TextFormat { format: format.to_owned(), pattern: Some(pattern), lax: false })
        };
        Ok(Some(match call.name {
            "min" | "minLength" => Check::Least(call.number(0)?),
            "max" | "maxLength" => Check::Most(call.number(0)?),
            "length" => Check::Exactly(call.number(0)?),
            "nonempty" => Check::Least(1.0),
            "regex" => match call.argument(0) {
                ZodValue::Regex(pattern) => text_check("regex", Rc::clone(pattern)),
                _ => return Err(call.wrong(0, "a regular expression")),
            },
            "includes" => {
                let text = escape(call.text(0)?);
                let source = match value_of(call.option(1, "position")?)? {
                    ZodValue::Number(position) => format!("^.{{{position},}}{text}"),
                    _ => text,
                };
                text_check("includes", fresh(source))
            }
            "startsWith" => text_check("starts_with", fresh(format!("^{}.*", escape(call.text(0)?)))),
            "endsWith" => text_check("ends_with", fresh(format!(".*{}$", escape(call.text(0)?)))),
            "lowercase" => text_check("lowercase", self.shared("lowercase", "^[^A-Z]*$")),
            "uppercase" => text_check("uppercase", self.shared("uppercase", "^[^a-z]*$")),
            "trim" | "normalize" | "toLowerCase" | "toUpperCase" | "slugify" => Check::Silent,
            "date" => return self.named_format("iso.date", call, 0),
            name @ ("email" | "url" | "jwt" | "emoji" | "guid" | "uuid" | "uuidv4" | "uuidv6" | "uuidv7" | "nanoid"
            | "cuid" | "cuid2" | "ulid" | "base64" | "base64url" | "xid" | "ksuid" | "ipv4" | "ipv6"
            | "cidrv4" | "cidrv6" | "e164" | "datetime" | "time" | "duration") => {
                return self.named_format(name, call, 0);
            }
            _ => return Ok(None),
        }))
    }

    /// `z.minLength(5)` and its like, to be passed to `.check()`.
    pub(super) fn free_check(&mut self, call: &ZodCall<'_, 'a>) -> ReadSchema<Option<Check>> {
        Ok(Some(match call.name {
            "minLength" | "maxLength" | "length" | "regex" | "includes" | "startsWith" | "endsWith" | "lowercase"
            | "uppercase" | "trim" | "normalize" | "toLowerCase" | "toUpperCase" | "slugify" => {
                return self.string_check(call);
            }
            "minSize" => Check::Least(call.number(0)?),
            "maxSize" => Check::Most(call.number(0)?),
            "size" => Check::Exactly(call.number(0)?),
            "mime" => mime(call)?,
            "overwrite" | "refine" | "superRefine" | "check" | "property" => Check::Silent,
            "gt" | "gte" | "lt" | "lte" | "positive" | "negative" | "nonpositive" | "nonnegative" | "multipleOf" => {
                return number_check(call);
            }
            _ => return Ok(None),
        }))
    }
}

pub(super) fn mime(call: &ZodCall<'_, '_>) -> ReadSchema<Check> {
    let text = |value: &ZodValue<'_>| match value {
        ZodValue::Text(text) => Ok(Rc::clone(text)),
        _ => Err(call.wrong(0, "media types")),
    };
    match call.argument(0) {
        ZodValue::List(types) => types.iter().map(text).collect::<ReadSchema<_>>().map(Check::Mime),
        value => Ok(Check::Mime(vec![text(value)?])),
    }
}

pub(super) fn number_check(call: &ZodCall<'_, '_>) -> ReadSchema<Option<Check>> {
    Ok(Some(match call.name {
        "min" | "gte" => Check::Min { value: call.number(0)?, inclusive: true },
        "gt" => Check::Min { value: call.number(0)?, inclusive: false },
        "max" | "lte" => Check::Max { value: call.number(0)?, inclusive: true },
        "lt" => Check::Max { value: call.number(0)?, inclusive: false },
        "positive" => Check::Min { value: 0.0, inclusive: false },
        "nonnegative" => Check::Min { value: 0.0, inclusive: true },
        "negative" => Check::Max { value: 0.0, inclusive: false },
        "nonpositive" => Check::Max { value: 0.0, inclusive: true },
        "multipleOf" | "step" => Check::MultipleOf(call.number(0)?),
        "int" | "safe" => return Ok(number_format("int")),
        _ => return Ok(None),
    }))
}

#[expect(clippy::cast_possible_truncation, reason = "a precision is a small number")]
fn precision(value: &ZodValue<'_>) -> Option<i32> {
    match value {
        ZodValue::Number(precision) => Some(*precision as i32),
        _ => None,
    }
}
