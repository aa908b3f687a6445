//! The conditions of a query of records, and their evaluation.
//!
//! A filter is a list of comparisons and an expression over them. Its operators are those of the tool system: `equals`
//! to `between`, combined by `AND`, `OR` or a numbered expression. Text is searched without regard to case; texts that
//! are times are compared as times. A comparison has three results: it holds, it does not, or the values cannot be
//! compared, which never matches. What a record costs is bounded: each comparison is evaluated at most once for it.

use std::{cell::OnceCell, cmp::Ordering};

use bosun_core::{
    Timestamp,
    ceiling::{NANGO_CONDITIONS, NANGO_LOGIC_NUMBERS, NANGO_OPERANDS},
    text::clip,
};
use serde_json::{Map, Value};

use super::query::QueryFault;

/// The nesting of a `logic` expression, at most.
const DEEPEST: usize = 20;

/// Which records are wanted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordFilter {
    comparisons: Vec<Comparison>,
    condition: Condition,
}

/// An expression over the comparisons of a filter.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    /// The index of a comparison, which an expression may name any number of times.
    Compare(usize),
}

/// One field, and what it is compared with.
#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    field: String,
    operator: FilterOperator,
    /// As many as the operator takes.
    operands: Vec<Value>,
}

macro_rules! operators {
    ($($variant:ident = $name:literal, $takes:ident;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum FilterOperator {
            $($variant,)+
        }

        impl FilterOperator {
            const NAMES: &[&str] = &[$($name),+];

            fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            fn takes(self) -> Operands {
                match self {
                    $(Self::$variant => Operands::$takes,)+
                }
            }
        }
    };
}

operators! {
    Equals = "equals", Any;
    NotEquals = "notEquals", Any;
    GreaterThan = "greaterThan", Scalar;
    LessThan = "lessThan", Scalar;
    GreaterOrEqual = "greaterOrEqual", Scalar;
    LessOrEqual = "lessOrEqual", Scalar;
    Contains = "contains", Scalar;
    NotContains = "notContains", Scalar;
    StartsWith = "startsWith", Scalar;
    EndsWith = "endsWith", Scalar;
    In = "in", List;
    NotIn = "notIn", List;
    IsNull = "isNull", Nothing;
    IsNotNull = "isNotNull", Nothing;
    Between = "between", Pair;
}

/// What an operator compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    Nothing,
    Any,
    Scalar,
    List,
    Pair,
}

impl RecordFilter {
    /// Reads `filters`: names with values or operators, or `{conditions, logic}`.
    pub(super) fn read(filters: Option<&Value>) -> Result<Self, QueryFault> {
        let filters = match filters {
            None | Some(Value::Null) => return Self::of(Vec::new(), None),
            Some(Value::Object(filters)) => filters,
            Some(_) => return Err(QueryFault::new("`filters` must be an object")),
        };
        if filters.contains_key("conditions") {
            return Self::read_structured(filters);
        }
        let mut all = Vec::new();
        for (field, value) in filters {
            all.extend(read_plain(field, value)?);
            at_most(all.len())?;
        }
        Self::of(all, None)
    }

    fn read_structured(filters: &Map<String, Value>) -> Result<Self, QueryFault> {
        if let Some(other) = filters.keys().find(|name| !matches!(name.as_str(), "conditions" | "logic")) {
            let message =
                format!("`{}` is not part of `{{conditions, logic}}`; write it as a condition", clip(other, 80));
            return Err(QueryFault::new(message));
        }
        let Some(Value::Array(conditions)) = filters.get("conditions") else {
            return Err(QueryFault::new("`conditions` must be a list of `{field, operator, value}`"));
        };
        at_most(conditions.len())?;
        let comparisons: Vec<_> = conditions.iter().map(read_condition).collect::<Result<_, _>>()?;
        match filters.get("logic") {
            None | Some(Value::Null) => Self::of(comparisons, None),
            Some(Value::String(logic)) => Self::of(comparisons, Some(logic)),
            Some(_) => Err(QueryFault::new("`logic` must be a text: `AND`, `OR`, or such as `1 AND (2 OR 3)`")),
        }
    }

    fn of(mut comparisons: Vec<Comparison>, logic: Option<&str>) -> Result<Self, QueryFault> {
        // Each is compared with every record.
        if comparisons.iter().map(|comparison| comparison.operands.len()).sum::<usize>() > NANGO_OPERANDS {
            return Err(QueryFault::new(format!("`filters` has more than {NANGO_OPERANDS} values to compare with")));
        }
        let condition = Logic::parse(logic.unwrap_or("AND"), comparisons.len())?;
        comparisons.iter_mut().for_each(Comparison::fold_case);
        Ok(Self { comparisons, condition })
    }

    /// The fields that it compares.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.comparisons.iter().map(|comparison| comparison.field.as_str())
    }

    /// Whether a record matches; `None` if that depends on values that cannot be compared.
    pub(super) fn matches(&self, record: &Value) -> Option<bool> {
        let results = vec![OnceCell::new(); self.comparisons.len()];
        self.condition.holds(&|index| {
            let (result, comparison) = (results.get(index)?, self.comparisons.get(index)?);
            *result.get_or_init(|| comparison.matches(record))
        })
    }
}

impl Condition {
    /// Whether it holds, given the results of the comparisons.
    fn holds(&self, result: &impl Fn(usize) -> Option<bool>) -> Option<bool> {
        match self {
            Self::All(conditions) => combine(conditions, result, false),
            Self::Any(conditions) => combine(conditions, result, true),
            Self::Not(condition) => condition.holds(result).map(|holds| !holds),
            Self::Compare(index) => result(*index),
        }
    }
}

/// Three-valued AND (`decisive` is false) and OR (`decisive` is true).
fn combine(conditions: &[Condition], result: &impl Fn(usize) -> Option<bool>, decisive: bool) -> Option<bool> {
    let mut is_known = true;
    for condition in conditions {
        match condition.holds(result) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => is_known = false,
        }
    }
    is_known.then_some(!decisive)
}

fn at_most(conditions: usize) -> Result<(), QueryFault> {
    if conditions <= NANGO_CONDITIONS {
        Ok(())
    } else {
        Err(QueryFault::new(format!("`filters` has more than {NANGO_CONDITIONS} conditions")))
    }
}

fn unknown_operator(name: &str) -> QueryFault {
    let known = FilterOperator::NAMES.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
    QueryFault::new(format!("`{}` is not an operator; use one of {known}", clip(name, 80)))
}

/// A field with a value, a list of values, or an object of operators.
fn read_plain(field: &str, value: &Value) -> Result<Vec<Comparison>, QueryFault> {
    let comparison = |operator, operands| Comparison { field: field.to_owned(), operator, operands };
    match value {
        Value::Null => Ok(vec![comparison(FilterOperator::IsNull, Vec::new())]),
        Value::Array(values) => Ok(vec![comparison(FilterOperator::In, values.clone())]),
        Value::Object(operators) if operators.is_empty() => {
            Err(QueryFault::new(format!("filter `{}` has no operator", clip(field, 80))))
        }
        Value::Object(operators) => {
            let read = |(name, operand): (&String, &Value)| {
                let operator = FilterOperator::parse(name).ok_or_else(|| unknown_operator(name))?;
                let operands = match (operator.takes(), operand) {
                    (Operands::Nothing, Value::Bool(true)) => Vec::new(),
                    (Operands::List | Operands::Pair, Value::Array(values)) => values.clone(),
                    (Operands::List | Operands::Pair, _) => Vec::new(),
                    (_, operand) => vec![operand.clone()],
                };
                check_operands(operator, &operands)?;
                Ok(comparison(operator, operands))
            };
            operators.iter().map(read).collect()
        }
        scalar => Ok(vec![comparison(FilterOperator::Equals, vec![scalar.clone()])]),
    }
}

/// `{field, operator, value | values}`.
fn read_condition(condition: &Value) -> Result<Comparison, QueryFault> {
    let Value::Object(members) = condition else {
        return Err(QueryFault::new("a condition must be `{field, operator, value}`"));
    };
    if let Some(other) = members.keys().find(|name| !matches!(name.as_str(), "field" | "operator" | "value" | "values"))
    {
        return Err(QueryFault::new(format!("a condition has no `{}`", clip(other, 80))));
    }
    let text = |name: &str| {
        let text = members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| QueryFault::new(format!("a condition needs a `{name}`")))
    };
    let (field, name) = (text("field")?, text("operator")?);
    let operator = FilterOperator::parse(name).ok_or_else(|| unknown_operator(name))?;
    let operands = match (members.get("value"), members.get("values"), operator.takes()) {
        (None, Some(Value::Array(values)), Operands::List | Operands::Pair) => values.clone(),
        (Some(Value::Array(values)), None, Operands::List | Operands::Pair) => values.clone(),
        (Some(_), None, Operands::List | Operands::Pair) | (None, None, _) => Vec::new(),
        (Some(value), None, _) => vec![value.clone()],
        _ => return Err(QueryFault::new(format!("`{name}` takes either `value` or `values`"))),
    };
    check_operands(operator, &operands)?;
    Ok(Comparison { field: field.to_owned(), operator, operands })
}

fn check_operands(operator: FilterOperator, operands: &[Value]) -> Result<(), QueryFault> {
    let is_scalar = |value: &Value| matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
    let name = operator.as_str();
    let problem = match (operator.takes(), operands) {
        (Operands::Nothing, []) | (Operands::Any, [_]) => return Ok(()),
        (Operands::Nothing, _) => format!("`{name}` takes no `value`"),
        (Operands::Any | Operands::Scalar, []) => format!("`{name}` needs a `value`"),
        (Operands::Scalar, [value]) if is_scalar(value) => return Ok(()),
        (Operands::Any | Operands::Scalar, _) => format!("`{name}` needs a text, a number or a boolean"),
        (Operands::List, []) => format!("`{name}` needs `values`"),
        (Operands::List, _) => return Ok(()),
        (Operands::Pair, [low, high]) if is_scalar(low) && is_scalar(high) => return Ok(()),
        (Operands::Pair, _) => format!("`{name}` needs two `values`"),
    };
    Err(QueryFault::new(problem))
}

impl Comparison {
    /// Folds the case of the text that is searched for, once and not for each record.
    fn fold_case(&mut self) {
        if matches!(
            self.operator,
            FilterOperator::Contains
                | FilterOperator::NotContains
                | FilterOperator::StartsWith
                | FilterOperator::EndsWith
        ) {
            for operand in &mut self.operands {
                if let Value::String(text) = operand {
                    *text = text.to_lowercase();
                }
            }
        }
    }

    fn matches(&self, record: &Value) -> Option<bool> {
        let value = field_of(record, &self.field).filter(|value| !value.is_null());
        let first = self.operands.first();
        match (self.operator, value, first) {
            (FilterOperator::IsNull, value, _) => Some(value.is_none()),
            (FilterOperator::IsNotNull, value, _) => Some(value.is_some()),
            (FilterOperator::Equals, value, Some(operand)) => Some(is_equal(value, operand)),
            (FilterOperator::NotEquals, value, Some(operand)) => Some(!is_equal(value, operand)),
            (FilterOperator::In, value, _) => Some(self.operands.iter().any(|operand| is_equal(value, operand))),
            (FilterOperator::NotIn, value, _) => Some(!self.operands.iter().any(|operand| is_equal(value, operand))),
            // Of the other operators, only the negative one holds for a value that is absent.
            (FilterOperator::NotContains, None, _) => Some(true),
            (_, None, _) => Some(false),
            (FilterOperator::Contains, Some(value), Some(operand)) => contains(value, operand),
            (FilterOperator::NotContains, Some(value), Some(operand)) => contains(value, operand).map(|found| !found),
            (FilterOperator::StartsWith, Some(value), Some(operand)) => {
                texts(value, operand, |text, part| text.starts_with(part))
            }
            (FilterOperator::EndsWith, Some(value), Some(operand)) => {
                texts(value, operand, |text, part| text.ends_with(part))
            }
            (FilterOperator::GreaterThan, Some(value), Some(operand)) => compare(value, operand).map(Ordering::is_gt),
            (FilterOperator::LessThan, Some(value), Some(operand)) => compare(value, operand).map(Ordering::is_lt),
            (FilterOperator::GreaterOrEqual, Some(value), Some(operand)) => {
                compare(value, operand).map(Ordering::is_ge)
            }
            (FilterOperator::LessOrEqual, Some(value), Some(operand)) => compare(value, operand).map(Ordering::is_le),
            (FilterOperator::Between, Some(value), Some(low)) => {
                let high = self.operands.get(1)?;
                Some(compare(value, low)?.is_ge() && compare(value, high)?.is_le())
            }
            // Operands were counted when the condition was read.
            (_, Some(_), None) => None,
        }
    }
}

/// The value of a field: a member of that name, or else the member that a path such as `from.name` leads to.
pub(super) fn field_of<'r>(record: &'r Value, field: &str) -> Option<&'r Value> {
    if let Some(value) = record.get(field) {
        return Some(value);
    }
    field.split('.').try_fold(record, |value, name| value.get(name))
}

fn is_equal(value: Option<&Value>, operand: &Value) -> bool {
    match (value, operand) {
        (None, operand) => operand.is_null(),
        (Some(Value::Number(left)), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Some(value), operand) => value == operand,
    }
}

/// The order of two values of one type; `None` if they have none.
pub(super) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Some(match (time_of(left), time_of(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.cmp(right),
        }),
        _ => None,
    }
}

/// A time or a date, which is its beginning in UTC.
fn time_of(text: &str) -> Option<Timestamp> {
    let is_date = text.len() == 10 && text.bytes().filter(|byte| *byte == b'-').count() == 2;
    if is_date { Timestamp::from_rfc3339(&format!("{text}T00:00:00Z")) } else { Timestamp::from_rfc3339(text) }
}

/// Searches a text; the case of `operand` was folded.
fn texts(value: &Value, operand: &Value, holds: impl Fn(&str, &str) -> bool) -> Option<bool> {
    match (value, operand) {
        (Value::String(text), Value::String(part)) => Some(holds(&text.to_lowercase(), part)),
        _ => None,
    }
}

fn contains(value: &Value, operand: &Value) -> Option<bool> {
    match value {
        Value::Array(items) => Some(items.iter().any(|item| match (item, operand) {
            (Value::String(item), Value::String(operand)) => item.to_lowercase() == *operand,
            (item, operand) => is_equal(Some(item), operand),
        })),
        value => texts(value, operand, |text, part| text.contains(part)),
    }
}

/// The parser of `1 AND (2 OR 3)`. `AND` binds closer than `OR`, and `NOT` closer than both.
struct Logic<'t> {
    tokens: Vec<&'t str>,
    next: usize,
    depth: usize,
    /// Numbers in the expression so far.
    numbers: usize,
    is_used: Vec<bool>,
}

impl<'t> Logic<'t> {
    fn parse(text: &'t str, comparisons: usize) -> Result<Condition, QueryFault> {
        let each = || (0..comparisons).map(Condition::Compare).collect();
        if text.eq_ignore_ascii_case("and") {
            return Ok(Condition::All(each()));
        }
        if text.eq_ignore_ascii_case("or") {
            return Ok(Condition::Any(each()));
        }
        let mut logic = Self { tokens: tokens(text), next: 0, depth: 0, numbers: 0, is_used: vec![false; comparisons] };
        let parsed = logic.any()?;
        if let Some(token) = logic.tokens.get(logic.next) {
            return Err(logic.unexpected(token));
        }
        match logic.is_used.iter().position(|is_used| !is_used) {
            Some(unused) => Err(QueryFault::new(format!("condition {} is not used in `logic`", unused + 1))),
            None => Ok(parsed),
        }
    }

    fn unexpected(&self, token: &str) -> QueryFault {
        let token = clip(token, 40);
        QueryFault::new(format!("`{token}` is not expected in `logic`; write it such as `1 AND (2 OR 3)`"))
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = self.tokens.get(self.next).is_some_and(|token| token.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<Condition, QueryFault> {
        let mut any = vec![self.all()?];
        while self.takes("or") {
            any.push(self.all()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Any(any) })
    }

    fn all(&mut self) -> Result<Condition, QueryFault> {
        let mut all = vec![self.one()?];
        while self.takes("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn one(&mut self) -> Result<Condition, QueryFault> {
        if self.depth == DEEPEST {
            return Err(QueryFault::new(format!("`logic` is nested deeper than {DEEPEST} levels")));
        }
        self.depth += 1;
        let condition = self.nested();
        self.depth -= 1;
        condition
    }

    fn nested(&mut self) -> Result<Condition, QueryFault> {
        if self.takes("not") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.takes("(") {
            let inner = self.any()?;
            if self.takes(")") {
                return Ok(inner);
            }
            return match self.tokens.get(self.next) {
                Some(token) => Err(self.unexpected(token)),
                None => Err(QueryFault::new("`logic` ends too early")),
            };
        }
        let Some(token) = self.tokens.get(self.next).copied() else {
            return Err(QueryFault::new("`logic` ends too early"));
        };
        let Ok(number) = token.parse::<usize>() else { return Err(self.unexpected(token)) };
        let index = number.checked_sub(1).filter(|index| *index < self.is_used.len());
        let index =
            index.ok_or_else(|| QueryFault::new(format!("there is no condition {number}, which `logic` names")))?;
        self.next += 1;
        self.numbers += 1;
        if self.numbers > NANGO_LOGIC_NUMBERS {
            return Err(QueryFault::new(format!("`logic` has more than {NANGO_LOGIC_NUMBERS} numbers")));
        }
        self.is_used[index] = true;
        Ok(Condition::Compare(index))
    }
}

fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        while let Some(at) = rest.find(['(', ')']) {
            if at > 0 {
                tokens.push(&rest[..at]);
            }
            tokens.push(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() {
            tokens.push(rest);
        }
    }
    tokens
}
