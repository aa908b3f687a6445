//! Whether a key may be left out, which Zod 3 finds out by parsing `undefined`.
//!
//! The parse is followed as far as source tells: defaults are parsed by their schema, small functions
//! are probed, and a function that throws makes the key optional, because zod-to-json-schema catches
//! the exception and says so. Where only running the program would tell, the answer is
//! [`Parsed::Unknown`].

use std::cell::Cell;

use super::{
    super::{
        probe::{self, Outcome},
        value::{Function, SchemaId, Value},
    },
    BigIntCheck, Effect, Kind, NumberCheck, UnknownKeys, Zod3, strings,
};

/// What parsing a value gives.
#[derive(Clone, Debug)]
pub(super) enum Parsed<'a> {
    /// `None` is a value that only the program knows.
    Valid(Option<Value<'a>>),
    Invalid,
    Throws,
    Unknown,
}

use Parsed::{Invalid, Throws, Unknown, Valid};

/// One parse. Schemas that contain each other would run JavaScript out of stack, which throws.
pub(super) struct Parse<'z, 'a> {
    zod: &'z Zod3<'a>,
    steps: Cell<usize>,
}

impl<'z, 'a> Parse<'z, 'a> {
    pub(super) fn undefined(zod: &'z Zod3<'a>, schema: SchemaId) -> Parsed<'a> {
        const MOST_STEPS: usize = 20_000;
        let parse = Self { zod, steps: Cell::new(MOST_STEPS) };
        parse.parse(schema, &Value::Undefined, 0)
    }

    fn parse(&self, schema: SchemaId, value: &Value<'a>, depth: usize) -> Parsed<'a> {
        const DEEPEST: usize = 200;
        if depth > DEEPEST {
            return Throws;
        }
        let Some(steps) = self.steps.get().checked_sub(1) else { return Unknown };
        self.steps.set(steps);
        let Ok((_, node)) = self.zod.node(schema) else { return Unknown };
        let inside = |inner: SchemaId, value: &Value<'a>| self.parse(inner, value, depth + 1);
        let is = |yes: bool| if yes { Valid(Some(value.clone())) } else { Invalid };
        match &node.kind {
            Kind::String { checks, coerce } => match (value, coerce) {
                (Value::Text(text), _) => decided(strings::accepts(checks, text), value),
                (value, true) => match value.to_text() {
                    Some(text) => decided(strings::accepts(checks, &text), &Value::text(text)),
                    None => Unknown,
                },
                _ => Invalid,
            },
            Kind::Number { checks, coerce } => match (value, coerce) {
                (Value::Number(number), _) => decided(number_passes(checks, *number), value),
                (Value::Undefined, true) => Invalid,
                (_, true) => Unknown,
                _ => Invalid,
            },
            Kind::BigInt { checks, coerce } => match (value, coerce) {
                (Value::BigInt(number), _) => is(checks.iter().all(|check| bigint_passes(*check, *number))),
                (Value::Undefined, _) | (_, false) => Invalid,
                _ => Unknown,
            },
            Kind::Boolean { coerce: true } => value.truthy().map_or(Unknown, |truthy| Valid(Some(Value::Bool(truthy)))),
            Kind::Boolean { coerce: false } => is(matches!(value, Value::Bool(_))),
            Kind::Date { coerce } => match value {
                Value::Instance("Date") => Valid(None),
                Value::Undefined => Invalid,
                _ if *coerce => Unknown,
                _ => Invalid,
            },
            Kind::Undefined | Kind::Void => is(matches!(value, Value::Undefined)),
            Kind::Null => is(matches!(value, Value::Null)),
            Kind::Any | Kind::Unknown => Valid(Some(value.clone())),
            Kind::Never | Kind::Promise(_) => Invalid,
            Kind::NaN => is(matches!(value, Value::Number(number) if number.is_nan())),
            Kind::Symbol => is(matches!(value, Value::Instance("Symbol"))),
            Kind::Function => is(matches!(value, Value::Function(_))),
            Kind::Array { element, min, max, exact } => match value {
                Value::List(values) => {
                    #[expect(clippy::cast_precision_loss, reason = "lengths of literals are far below 2^53")]
                    let length = values.len() as f64;
                    let fits = min.is_none_or(|min| length >= min)
                        && max.is_none_or(|max| length <= max)
                        && exact.is_none_or(|exact| length == exact);
                    if fits { all(values.iter().map(|value| inside(*element, value)), value) } else { Invalid }
                }
                _ => Invalid,
            },
            Kind::Tuple { items, rest } => match value {
                Value::List(values)
                    if values.len() == items.len() || (values.len() > items.len() && rest.is_some()) =>
                {
                    all(items.iter().zip(values.iter()).map(|(item, value)| inside(*item, value)), value)
                }
                _ => Invalid,
            },
            Kind::Object { shape, unknown_keys, catchall } => match value {
                Value::Record(record) => {
                    let extra = record.keys().any(|key| !shape.contains_key(key));
                    if extra && *unknown_keys == UnknownKeys::Strict && catchall.is_none() {
                        return Invalid;
                    }
                    let field = |(key, schema): (&String, &SchemaId)| match record.get(key) {
                        Some(member) if member.getter => Unknown,
                        Some(member) => inside(*schema, &member.value),
                        None => inside(*schema, &Value::Undefined),
                    };
                    all(shape.iter().map(field), value)
                }
                _ => Invalid,
            },
            Kind::Record { .. } | Kind::Map { .. } | Kind::Set { .. } | Kind::DiscriminatedUnion(_) => match value {
                Value::Record(_) | Value::Instance(_) => Unknown,
                _ => Invalid,
            },
            Kind::Union(options) => {
                let mut undecided = false;
                for option in options {
                    match inside(*option, value) {
                        Invalid => {}
                        Unknown => undecided = true,
                        decided if !undecided => return decided,
                        _ => return Unknown,
                    }
                }
                if undecided { Unknown } else { Invalid }
            }
            Kind::Intersection(left, right) => all([*left, *right].into_iter().map(|side| inside(side, value)), value),
            Kind::Lazy(inner) | Kind::Branded(inner) | Kind::Readonly(inner) => inside(*inner, value),
            Kind::Literal(literal) => is(literal.same(value)),
            Kind::Enum(values) => is(matches!(value, Value::Text(text) if values.contains(text))),
            Kind::NativeEnum(record) => match value {
                Value::Text(_) | Value::Number(_) => is(record.iter().any(|(_, member)| member.value.same(value))),
                _ => Invalid,
            },
            Kind::Optional(_) if matches!(value, Value::Undefined) => Valid(Some(Value::Undefined)),
            Kind::Nullable(_) if matches!(value, Value::Null) => Valid(Some(Value::Null)),
            Kind::Optional(inner) | Kind::Nullable(inner) => inside(*inner, value),
            Kind::Default { inner, value: default } if matches!(value, Value::Undefined) => {
                match inside(*inner, default) {
                    // An author's default is taken to satisfy the author's schema.
                    Unknown => Valid(None),
                    parsed => parsed,
                }
            }
            Kind::Default { inner, .. } => inside(*inner, value),
            Kind::Catch(inner) => match inside(*inner, value) {
                Invalid | Unknown => Valid(None),
                parsed => parsed,
            },
            Kind::Pipeline(first, second) => match inside(*first, value) {
                Valid(Some(value)) => inside(*second, &value),
                Valid(None) => Unknown,
                parsed => parsed,
            },
            Kind::Effects { inner, effect: Effect::Preprocess(function) } => match (value, function) {
                (Value::Undefined, Some(function)) => match probe::call_with_undefined(*function) {
                    Outcome::Returns(value) => inside(*inner, &value),
                    Outcome::Throws => Throws,
                    Outcome::Unknown => Unknown,
                },
                _ => Unknown,
            },
            Kind::Effects { inner, effect } => after(effect, inside(*inner, value)),
            Kind::Deferred | Kind::Alias(_) => Unknown,
        }
    }
}

/// What a refinement or transformation makes of the value that its schema let through.
fn after<'a>(effect: &Effect<'a>, parsed: Parsed<'a>) -> Parsed<'a> {
    let Valid(value) = parsed else { return parsed };
    let is_undefined = matches!(value, Some(Value::Undefined));
    match effect {
        Effect::InstanceOf if is_undefined => Invalid,
        Effect::Refinement(Some(function)) if is_async(*function) => Throws,
        Effect::Refinement(Some(function)) if is_undefined => match probe::call_with_undefined(*function) {
            Outcome::Returns(verdict) => match verdict.truthy() {
                Some(true) => Valid(value),
                Some(false) => Invalid,
                None => Unknown,
            },
            Outcome::Throws => Throws,
            Outcome::Unknown => Unknown,
        },
        Effect::SuperRefinement(Some(function)) if is_async(*function) => Throws,
        Effect::SuperRefinement(Some(function)) if is_undefined && probe::throws(*function) => Throws,
        // With a second parameter it may report a fault; otherwise it returns or throws.
        Effect::Transform(Some(function)) if arity(*function) < 2 => match probe::call_with_undefined(*function) {
            Outcome::Returns(result) if is_undefined => Valid(Some(result)),
            Outcome::Throws if is_undefined => Throws,
            _ => Valid(None),
        },
        _ => Unknown,
    }
}

fn is_async(function: Function<'_>) -> bool {
    match function {
        Function::Arrow(arrow) => arrow.r#async,
        Function::Full(full) => full.r#async,
        Function::Global(_) => false,
    }
}

fn arity(function: Function<'_>) -> usize {
    match function {
        Function::Arrow(arrow) => arrow.params.items.len() + usize::from(arrow.params.rest.is_some()),
        Function::Full(full) => full.params.items.len() + usize::from(full.params.rest.is_some()),
        Function::Global(_) => 1,
    }
}

fn decided<'a>(verdict: Option<bool>, value: &Value<'a>) -> Parsed<'a> {
    match verdict {
        Some(true) => Valid(Some(value.clone())),
        Some(false) => Invalid,
        None => Unknown,
    }
}

/// Valid only if every part is; the first exception wins over everything after it.
fn all<'a>(parts: impl Iterator<Item = Parsed<'a>>, whole: &Value<'a>) -> Parsed<'a> {
    let mut result = Valid(Some(whole.clone()));
    for part in parts {
        match (part, &result) {
            (Throws, Valid(_) | Invalid) => return Throws,
            (Invalid, Valid(_)) => result = Invalid,
            (Unknown, _) => result = Unknown,
            _ => {}
        }
    }
    result
}

fn number_passes(checks: &[NumberCheck], number: f64) -> Option<bool> {
    if number.is_nan() {
        return Some(false);
    }
    Some(checks.iter().all(|check| match *check {
        NumberCheck::Int => number.fract() == 0.0,
        NumberCheck::Finite => number.is_finite(),
        NumberCheck::Min { value, inclusive } => {
            if inclusive {
                number >= value
            } else {
                number > value
            }
        }
        NumberCheck::Max { value, inclusive } => {
            if inclusive {
                number <= value
            } else {
                number < value
            }
        }
        // Zod scales away the digits after the point; a rounding error must not decide.
        NumberCheck::MultipleOf(step) => {
            let quotient = number / step;
            (quotient - quotient.round()).abs() < 1e-9
        }
    }))
}

fn bigint_passes(check: BigIntCheck, number: i128) -> bool {
    match check {
        BigIntCheck::Min { value, inclusive } => {
            if inclusive {
                number >= value
            } else {
                number > value
            }
        }
        BigIntCheck::Max { value, inclusive } => {
            if inclusive {
                number <= value
            } else {
                number < value
            }
        }
        BigIntCheck::MultipleOf(step) => step != 0 && number % step == 0,
    }
}
