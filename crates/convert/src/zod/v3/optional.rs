//! Whether a key is optional, which Zod 3 finds out by parsing `undefined`.
//!
//! The parse is followed as far as the source determines it: defaults are parsed by their schema, small functions are
//! probed, and a function that throws makes the key optional, because zod-to-json-schema catches the exception and
//! reports that. Where only running the program would decide, the result is [`Parsed::Unknown`].

use std::cell::Cell;

use super::{
    super::{
        probe::{self, Outcome},
        value::{SchemaId, ZodFunction, ZodValue},
    },
    BigIntCheck, Effect, NumberCheck, UnknownKeys, Zod3, Zod3Kind, strings,
};

/// The result of parsing a value, in Zod's own terms.
#[derive(Clone, Debug)]
pub(super) enum Parsed<'a> {
    /// `None` is a value that only the program knows.
    Valid(Option<ZodValue<'a>>),
    /// Not valid, but refinements still run on it.
    Dirty(Option<ZodValue<'a>>),
    Aborted,
    Throws,
    Unknown,
}

use Parsed::{Aborted, Dirty, Throws, Unknown, Valid};

/// One parse. Schemas that contain each other would overflow JavaScript's stack, which throws.
pub(super) struct Parse<'z, 'a> {
    zod: &'z Zod3<'a>,
    steps: Cell<usize>,
}

/// The origin of the value that is parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionalOrigin {
    /// `undefined`, or a value derived from it.
    Absence,
    /// A default, which is assumed to be valid for formats such as an email address.
    Default,
}

impl<'z, 'a> Parse<'z, 'a> {
    pub(super) fn undefined(zod: &'z Zod3<'a>, schema: SchemaId) -> Parsed<'a> {
        const MOST_STEPS: usize = 20_000;
        const MOST_STEPS_OF_ALL: usize = 2_000_000;
        let steps = MOST_STEPS.min(MOST_STEPS_OF_ALL.saturating_sub(zod.steps.get()));
        let parse = Self { zod, steps: Cell::new(steps) };
        let parsed = parse.parse(schema, &ZodValue::Undefined, OptionalOrigin::Absence, 0);
        zod.steps.set(zod.steps.get() + steps - parse.steps.get());
        parsed
    }

    fn parse(&self, schema: SchemaId, value: &ZodValue<'a>, origin: OptionalOrigin, depth: usize) -> Parsed<'a> {
        const DEEPEST: usize = 200;
        if depth > DEEPEST {
            return Throws;
        }
        let Some(steps) = self.steps.get().checked_sub(1) else { return Unknown };
        self.steps.set(steps);
        let Ok((_, node)) = self.zod.node(schema) else { return Unknown };
        let inside = |inner: SchemaId, value: &ZodValue<'a>| self.parse(inner, value, origin, depth + 1);
        let is = |yes: bool| if yes { Valid(Some(value.clone())) } else { Aborted };
        match &node.kind {
            Zod3Kind::String { checks, coerce } => {
                let text = if *coerce { value.to_text().map(ZodValue::text) } else { Some(value.clone()) };
                match &text {
                    Some(ZodValue::Text(written)) => {
                        let trusted = (origin == OptionalOrigin::Default).then_some(true);
                        checked(strings::accepts(checks, written).or(trusted), text)
                    }
                    Some(_) => Aborted,
                    None => Unknown,
                }
            }
            Zod3Kind::Number { checks, coerce } => match (value, coerce) {
                (ZodValue::Number(number), _) if number.is_nan() => Aborted,
                (ZodValue::Number(number), _) => {
                    checked(Some(checks.iter().all(|check| number_passes(*check, *number))), Some(value.clone()))
                }
                (ZodValue::Undefined, _) | (_, false) => Aborted,
                _ => Unknown,
            },
            Zod3Kind::BigInt { checks, coerce } => match (value, coerce) {
                (ZodValue::BigInt(number), _) => {
                    checked(Some(checks.iter().all(|check| bigint_passes(*check, *number))), Some(value.clone()))
                }
                (ZodValue::Undefined, _) | (_, false) => Aborted,
                _ => Unknown,
            },
            Zod3Kind::Boolean { coerce: true } => {
                value.truthy().map_or(Unknown, |truthy| Valid(Some(ZodValue::Bool(truthy))))
            }
            Zod3Kind::Boolean { coerce: false } => is(matches!(value, ZodValue::Bool(_))),
            Zod3Kind::Date { coerce } => match value {
                ZodValue::Instance("Date") => Valid(None),
                ZodValue::Undefined => Aborted,
                _ if *coerce => Unknown,
                _ => Aborted,
            },
            Zod3Kind::Undefined | Zod3Kind::Void => is(matches!(value, ZodValue::Undefined)),
            Zod3Kind::Null => is(matches!(value, ZodValue::Null)),
            Zod3Kind::Any | Zod3Kind::Unknown => Valid(Some(value.clone())),
            Zod3Kind::Never | Zod3Kind::Promise(_) => Aborted,
            Zod3Kind::NaN => is(matches!(value, ZodValue::Number(number) if number.is_nan())),
            Zod3Kind::Symbol => is(matches!(value, ZodValue::Instance("Symbol"))),
            Zod3Kind::Function => is(matches!(value, ZodValue::Function(_))),
            Zod3Kind::Array { element, min, max, exact } => match value {
                ZodValue::List(values) => {
                    #[expect(clippy::cast_precision_loss, reason = "lengths of literals are far below 2^53")]
                    let length = values.len() as f64;
                    let fits = min.is_none_or(|min| length >= min)
                        && max.is_none_or(|max| length <= max)
                        && exact.is_none_or(|exact| length == exact);
                    let limits = checked(Some(fits), Some(value.clone()));
                    all([limits].into_iter().chain(values.iter().map(|value| inside(*element, value))), value)
                }
                _ => Aborted,
            },
            Zod3Kind::Tuple { items, rest } => match value {
                ZodValue::List(values) if values.len() >= items.len() => {
                    let limits = checked(Some(rest.is_some() || values.len() == items.len()), Some(value.clone()));
                    let schemas =
                        items.iter().copied().chain(std::iter::repeat_n(*rest, values.len() - items.len()).flatten());
                    all(
                        [limits].into_iter().chain(schemas.zip(values.iter()).map(|(item, value)| inside(item, value))),
                        value,
                    )
                }
                _ => Aborted,
            },
            Zod3Kind::Object { shape, unknown_keys, catchall } => match value {
                ZodValue::Record(record) => {
                    let extra = record.keys().any(|key| !shape.contains_key(key));
                    let refused = extra && *unknown_keys == UnknownKeys::Strict && catchall.is_none();
                    let limits = checked(Some(!refused), Some(value.clone()));
                    let field = |(key, schema): (&String, &SchemaId)| match record.get(key) {
                        Some(member) if member.getter => Unknown,
                        Some(member) => inside(*schema, &member.value),
                        None => inside(*schema, &ZodValue::Undefined),
                    };
                    let extras = catchall.iter().flat_map(|catchall| {
                        record
                            .iter()
                            .filter(|(key, _)| !shape.contains_key(*key))
                            .map(|(_, member)| inside(*catchall, &member.value))
                    });
                    all([limits].into_iter().chain(shape.iter().map(field)).chain(extras), value)
                }
                _ => Aborted,
            },
            Zod3Kind::Record { key: keys, value: values } => match value {
                ZodValue::Record(record) => {
                    let pairs = record.iter().flat_map(|(key, member)| {
                        let value = if member.getter { Unknown } else { inside(*values, &member.value) };
                        [inside(*keys, &ZodValue::text(key)), value]
                    });
                    all(pairs, value)
                }
                _ => Aborted,
            },
            Zod3Kind::Map { .. } | Zod3Kind::Set { .. } => {
                if matches!(value, ZodValue::Instance(_)) {
                    Unknown
                } else {
                    Aborted
                }
            }
            Zod3Kind::DiscriminatedUnion { discriminator, options } => match value {
                ZodValue::Record(record) => {
                    let tag = record.get(discriminator).map_or(ZodValue::Undefined, |member| member.value.clone());
                    let matching = options
                        .iter()
                        .find(|option| self.zod.tags(**option, discriminator).iter().any(|value| value.same(&tag)));
                    matching.map_or(Aborted, |option| inside(*option, value))
                }
                _ => Aborted,
            },
            Zod3Kind::Union(options) => first_valid(options.iter().map(|option| inside(*option, value))),
            Zod3Kind::Intersection(left, right) => both(inside(*left, value), inside(*right, value)),
            Zod3Kind::Lazy(inner) | Zod3Kind::Branded(inner) | Zod3Kind::Readonly(inner) => inside(*inner, value),
            Zod3Kind::Literal(literal) => is(literal.same(value)),
            Zod3Kind::Enum(values) => is(matches!(value, ZodValue::Text(text) if values.contains(text))),
            Zod3Kind::NativeEnum(record) => match value {
                ZodValue::Text(_) | ZodValue::Number(_) => {
                    is(record.iter().any(|(_, member)| member.value.same(value)))
                }
                _ => Aborted,
            },
            Zod3Kind::Optional(_) if matches!(value, ZodValue::Undefined) => Valid(Some(ZodValue::Undefined)),
            Zod3Kind::Nullable(_) if matches!(value, ZodValue::Null) => Valid(Some(ZodValue::Null)),
            Zod3Kind::Optional(inner) | Zod3Kind::Nullable(inner) => inside(*inner, value),
            Zod3Kind::Default { inner, value: default } if matches!(value, ZodValue::Undefined) => {
                self.parse(*inner, default, OptionalOrigin::Default, depth + 1)
            }
            Zod3Kind::Default { inner, .. } => inside(*inner, value),
            Zod3Kind::Catch { inner, value: caught } => match inside(*inner, value) {
                Dirty(_) | Aborted => Valid(caught.clone()),
                Unknown => Valid(None),
                parsed => parsed,
            },
            Zod3Kind::Pipeline(first, second) => match inside(*first, value) {
                Valid(Some(value)) => inside(*second, &value),
                Valid(None) => Unknown,
                parsed => parsed,
            },
            Zod3Kind::Effects { inner, effect: Effect::Preprocess(function) } => match (value, function) {
                (ZodValue::Undefined, Some(function)) => match probe::call_with_undefined(*function) {
                    Outcome::Returns(value) => inside(*inner, &value),
                    Outcome::Throws => Throws,
                    Outcome::Unknown => Unknown,
                },
                _ => Unknown,
            },
            Zod3Kind::Effects { inner, effect } => after(effect, inside(*inner, value)),
            Zod3Kind::Deferred | Zod3Kind::Alias(_) => Unknown,
        }
    }
}

/// The result of a refinement or transformation of a value that its schema accepted.
fn after<'a>(effect: &Effect<'a>, parsed: Parsed<'a>) -> Parsed<'a> {
    let (value, is_valid) = match parsed {
        Valid(value) => (value, true),
        Dirty(value) => (value, false),
        other => return other,
    };
    let is_undefined = matches!(value, Some(ZodValue::Undefined));
    // A function without parameters does the same for every value.
    let decides = |function: ZodFunction<'a>| is_undefined || arity(function) == 0;
    match effect {
        Effect::InstanceOf if is_undefined => Aborted,
        Effect::Refinement { function: Some(function), .. } if is_async(*function) => Throws,
        Effect::Refinement { function: Some(function), is_fatal } if decides(*function) => {
            match probe::call_with_undefined(*function) {
                Outcome::Returns(verdict) => match verdict.truthy() {
                    Some(true) if is_valid => Valid(value),
                    Some(false) if *is_fatal => Aborted,
                    Some(_) => Dirty(value),
                    None => Unknown,
                },
                Outcome::Throws => Throws,
                Outcome::Unknown => Unknown,
            }
        }
        Effect::SuperRefinement(Some(function)) if is_async(*function) => Throws,
        Effect::SuperRefinement(Some(function)) if decides(*function) && probe::throws(*function) => Throws,
        Effect::Transform(_) if !is_valid => Aborted,
        // With a second parameter it may report a fault; otherwise it returns or throws.
        Effect::Transform(Some(function)) if arity(*function) < 2 => match probe::call_with_undefined(*function) {
            Outcome::Returns(result) if decides(*function) => Valid(Some(result)),
            Outcome::Throws if decides(*function) => Throws,
            _ => Valid(None),
        },
        _ => Unknown,
    }
}

fn is_async(function: ZodFunction<'_>) -> bool {
    match function {
        ZodFunction::Arrow(arrow) => arrow.r#async,
        ZodFunction::Full(full) => full.r#async,
        ZodFunction::Global(_) => false,
    }
}

fn arity(function: ZodFunction<'_>) -> usize {
    match function {
        ZodFunction::Arrow(arrow) => arrow.params.items.len() + usize::from(arrow.params.rest.is_some()),
        ZodFunction::Full(full) => full.params.items.len() + usize::from(full.params.rest.is_some()),
        ZodFunction::Global(_) => 1,
    }
}

/// The verdict of the checks on a value of the right type.
fn checked<'a>(verdict: Option<bool>, value: Option<ZodValue<'a>>) -> Parsed<'a> {
    match verdict {
        Some(true) => Valid(value),
        Some(false) => Dirty(value),
        None => Unknown,
    }
}

/// All parts are parsed, so an exception in any of them takes precedence; else the worst part decides.
fn all<'a>(parts: impl Iterator<Item = Parsed<'a>>, whole: &ZodValue<'a>) -> Parsed<'a> {
    let mut result = Valid(Some(whole.clone()));
    for part in parts {
        result = match (part, result) {
            (Throws, _) => return Throws,
            (Aborted, _) | (_, Aborted) => Aborted,
            (Unknown, _) | (_, Unknown) => Unknown,
            (Dirty(_), _) | (_, Dirty(_)) => Dirty(Some(whole.clone())),
            // The parts may have changed; only the program then knows the whole.
            (Valid(None), _) => Valid(None),
            (Valid(Some(_)), valid) => valid,
        };
    }
    result
}

/// Options are tried in order until one is valid; a dirty one is the second choice.
fn first_valid<'a>(options: impl Iterator<Item = Parsed<'a>>) -> Parsed<'a> {
    let mut undecided = false;
    let mut dirty = None;
    for option in options {
        match option {
            Valid(_) | Throws if undecided => return Unknown,
            Valid(_) | Throws => return option,
            Dirty(_) => dirty = dirty.or(Some(option)),
            Aborted => {}
            Unknown => undecided = true,
        }
    }
    if undecided { Unknown } else { dirty.unwrap_or(Aborted) }
}

/// Both sides are parsed and their results merged, which works only for results that agree.
fn both<'a>(left: Parsed<'a>, right: Parsed<'a>) -> Parsed<'a> {
    match (left, right) {
        (Throws, _) | (_, Throws) => Throws,
        (Aborted, _) | (_, Aborted) => Aborted,
        (Unknown, _) | (_, Unknown) => Unknown,
        (Valid(Some(left)) | Dirty(Some(left)), Valid(Some(right)) | Dirty(Some(right))) if !merges(&left, &right) => {
            Aborted
        }
        (Valid(left), Valid(Some(_))) => Valid(left),
        (Valid(_), Valid(None)) => Unknown,
        _ => Dirty(None),
    }
}

/// Whether Zod can merge two values: equal ones, and two objects or two lists.
fn merges(left: &ZodValue<'_>, right: &ZodValue<'_>) -> bool {
    let containers =
        matches!((left, right), (ZodValue::List(_), ZodValue::List(_)) | (ZodValue::Record(_), ZodValue::Record(_)));
    containers || left.same(right)
}

fn number_passes(check: NumberCheck, number: f64) -> bool {
    match check {
        NumberCheck::Int => number.fract() == 0.0,
        NumberCheck::Finite => number.is_finite(),
        NumberCheck::Min { value, inclusive: true } => number >= value,
        NumberCheck::Min { value, inclusive: false } => number > value,
        NumberCheck::Max { value, inclusive: true } => number <= value,
        NumberCheck::Max { value, inclusive: false } => number < value,
        // Zod scales away the digits after the point; a rounding error must not decide.
        NumberCheck::MultipleOf(step) => {
            let quotient = number / step;
            (quotient - quotient.round()).abs() < 1e-9
        }
    }
}

fn bigint_passes(check: BigIntCheck, number: i128) -> bool {
    match check {
        BigIntCheck::Min { value, inclusive: true } => number >= value,
        BigIntCheck::Min { value, inclusive: false } => number > value,
        BigIntCheck::Max { value, inclusive: true } => number <= value,
        BigIntCheck::Max { value, inclusive: false } => number < value,
        BigIntCheck::MultipleOf(step) => step != 0 && number % step == 0,
    }
}
