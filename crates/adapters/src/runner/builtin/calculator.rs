//! `calculator`: arithmetic in the usual notation.
//!
//! `-2^2` is −4 and `2^3^2` is 512; `25% of 8,432` means what it says. An ambiguous expression (`5 % 3`, `100 + 10%`,
//! `log(8)`, `max(1,200)`) is refused with what to write instead, since a model believes every number that it is given.
//! Numbers are 64-bit floats, and 15 digits of the result are shown, which are exact for whole numbers up to that size.
//! There are no variables and no state.

use bosun_core::{Outcome, Tool, machine::outcome_code};
use serde_json::{Value, json};

use super::{Effects, definition};

pub(super) const NAME: &str = "calculator";

/// The longest expression, in characters, and the deepest nesting.
const LONGEST: usize = 1_000;
const DEEPEST: usize = 50;

pub(super) fn tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "expression": {
                "type": "string",
                "description": "The expression to calculate, for instance 0.25 * 8432 or 25% of 8,432. \
                    Operators: + - * / ^ and parentheses. Functions: abs, sqrt, cbrt, round, floor, ceil, exp, ln, \
                    log2, log10, sin, cos, tan, asin, acos, atan (radians), min, max, mod. Constants: pi, e",
            },
        },
        "required": ["expression"],
        "additionalProperties": false,
    });
    definition(NAME, "Calculates an arithmetic expression", parameters, Effects::Pure)
}

pub(super) fn run(arguments: &Value) -> Outcome {
    let Some(expression) = arguments.get("expression").and_then(Value::as_str) else {
        return Outcome::failure(outcome_code::TOOL_FAILED, "`expression` must be text");
    };
    match calculate(expression) {
        Ok(value) => Outcome::success(show(value)),
        Err(RefusedExpression { message, at }) => {
            Outcome::failure(outcome_code::TOOL_FAILED, format!("{message} (at character {})", at + 1))
        }
    }
}

/// Why there is no result, and at which character.
#[derive(Debug)]
struct RefusedExpression {
    message: String,
    at: usize,
}

fn calculate(expression: &str) -> Result<f64, RefusedExpression> {
    if expression.chars().nth(LONGEST).is_some() {
        return Err(RefusedExpression {
            message: format!("the expression is longer than {LONGEST} characters"),
            at: LONGEST,
        });
    }
    let mut parser = ExpressionParser { tokens: tokens(expression)?, next: 0, depth: 0 };
    let value = parser.sum()?;
    match parser.peek() {
        Symbol::End => Ok(value),
        _ => Err(parser.unexpected()),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Symbol {
    Number(f64),
    /// A number with a comma before its last three digits: `8,432`.
    Grouped(f64),
    Name(String),
    Mark(char),
    End,
}

#[derive(Clone, Debug)]
struct Token {
    symbol: Symbol,
    at: usize,
}

fn tokens(expression: &str) -> Result<Vec<Token>, RefusedExpression> {
    let letters: Vec<char> = expression.chars().collect();
    // An estimate: tokens are mostly separated by spaces.
    let mut tokens = Vec::with_capacity(letters.len() / 2 + 2);
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        let start = at;
        let symbol = match letter {
            _ if letter.is_whitespace() => {
                at += 1;
                continue;
            }
            '0'..='9' | '.' => number(&letters, &mut at)?,
            _ if letter.is_alphabetic() => {
                let is_part = |letter: &&char| letter.is_alphanumeric() || **letter == '_';
                at += letters[at..].iter().take_while(is_part).count();
                Symbol::Name(letters[start..at].iter().collect::<String>().to_lowercase())
            }
            '*' if letters.get(at + 1) == Some(&'*') => {
                at += 2;
                Symbol::Mark('^')
            }
            _ => {
                at += 1;
                Symbol::Mark(match letter {
                    '×' | '·' => '*',
                    '÷' => '/',
                    '−' => '-',
                    other => other,
                })
            }
        };
        tokens.push(Token { symbol, at: start });
    }
    tokens.push(Token { symbol: Symbol::End, at });
    Ok(tokens)
}

fn number(letters: &[char], at: &mut usize) -> Result<Symbol, RefusedExpression> {
    let start = *at;
    let digits =
        |from: usize| letters[from.min(letters.len())..].iter().take_while(|letter| letter.is_ascii_digit()).count();
    let whole = digits(start);
    *at += whole;
    let mut text: String = letters[start..*at].iter().collect();
    let mut is_grouped = false;
    while (1..=3).contains(&whole) && letters.get(*at) == Some(&',') && digits(*at + 1) == 3 {
        text.extend(&letters[*at + 1..*at + 4]);
        *at += 4;
        is_grouped = true;
    }
    if letters.get(*at) == Some(&'.') {
        let length = 1 + digits(*at + 1);
        text.extend(&letters[*at..*at + length]);
        *at += length;
    }
    if matches!(letters.get(*at), Some('e' | 'E')) {
        let sign = usize::from(matches!(letters.get(*at + 1), Some('+' | '-')));
        let exponent = digits(*at + 1 + sign);
        if exponent > 0 {
            let length = 1 + sign + exponent;
            text.extend(&letters[*at..*at + length]);
            *at += length;
        }
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && is_grouped => Ok(Symbol::Grouped(value)),
        Ok(value) if value.is_finite() => Ok(Symbol::Number(value)),
        Ok(_) => Err(RefusedExpression { message: format!("`{text}` is too large"), at: start }),
        Err(_) => Err(RefusedExpression { message: format!("`{text}` is not a number"), at: start }),
    }
}

/// A recursive-descent parser that evaluates as it parses.
struct ExpressionParser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl ExpressionParser {
    fn token(&self) -> &Token {
        // The last token is the end, and the parser never goes past it.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> &Symbol {
        &self.token().symbol
    }

    fn take(&mut self, mark: char) -> bool {
        let found = *self.peek() == Symbol::Mark(mark);
        self.next += usize::from(found);
        found
    }

    fn refuse(&self, message: impl Into<String>) -> RefusedExpression {
        RefusedExpression { message: message.into(), at: self.token().at }
    }

    fn unexpected(&self) -> RefusedExpression {
        self.refuse(match self.peek() {
            Symbol::End => "the expression ends too early".to_owned(),
            Symbol::Mark('%') => {
                "`%` is allowed only before `of`, as in `25% of 80`; write 0.25 for 25%, and mod(a, b) for a remainder"
                    .to_owned()
            }
            Symbol::Mark(mark) => format!("`{mark}` does not belong here"),
            Symbol::Name(name) => format!("`{name}` does not belong here"),
            Symbol::Number(value) | Symbol::Grouped(value) => {
                format!("the number {} does not belong here; write `*` to multiply", show(*value))
            }
        })
    }

    fn sum(&mut self) -> Result<f64, RefusedExpression> {
        let mut value = self.product()?;
        loop {
            if self.take('+') {
                value += self.product()?;
            } else if self.take('-') {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
            self.check(value)?;
        }
    }

    fn product(&mut self) -> Result<f64, RefusedExpression> {
        let mut value = self.signed()?;
        loop {
            if self.take('*') {
                value *= self.signed()?;
            } else if self.take('/') {
                let divisor = self.signed()?;
                if divisor == 0.0 {
                    return Err(self.refuse("division by zero"));
                }
                value /= divisor;
            } else if self.take_percent_of() {
                value = value / 100.0 * self.signed()?;
            } else {
                return Ok(value);
            }
            self.check(value)?;
        }
    }

    fn take_percent_of(&mut self) -> bool {
        let is_of = |token: &Token| matches!(&token.symbol, Symbol::Name(name) if name == "of");
        let found = *self.peek() == Symbol::Mark('%') && self.tokens.get(self.next + 1).is_some_and(is_of);
        self.next += if found { 2 } else { 0 };
        found
    }

    /// A sign binds less than a power: `-2^2` is `-(2^2)`.
    fn signed(&mut self) -> Result<f64, RefusedExpression> {
        if self.take('-') {
            Ok(-self.deeper(Self::signed)?)
        } else if self.take('+') {
            self.deeper(Self::signed)
        } else {
            self.power()
        }
    }

    /// Powers bind to the right: `2^3^2` is `2^(3^2)`.
    fn power(&mut self) -> Result<f64, RefusedExpression> {
        let base = self.operand()?;
        if !self.take('^') {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        if base == 0.0 && exponent < 0.0 {
            return Err(self.refuse("division by zero"));
        }
        self.check(base.powf(exponent))
    }

    fn operand(&mut self) -> Result<f64, RefusedExpression> {
        match self.peek().clone() {
            Symbol::Number(value) | Symbol::Grouped(value) => {
                self.next += 1;
                Ok(value)
            }
            Symbol::Mark('(') => {
                self.next += 1;
                let value = self.deeper(Self::sum)?;
                if self.take(')') { Ok(value) } else { Err(self.unexpected()) }
            }
            Symbol::Name(name) => self.named(&name),
            Symbol::Mark(_) | Symbol::End => Err(self.unexpected()),
        }
    }

    fn named(&mut self, name: &str) -> Result<f64, RefusedExpression> {
        match name {
            "pi" | "π" => {
                self.next += 1;
                return Ok(std::f64::consts::PI);
            }
            "e" => {
                self.next += 1;
                return Ok(std::f64::consts::E);
            }
            "log" => return Err(self.refuse("`log` means different things; write ln, log2 or log10")),
            _ => {}
        }
        let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let Some((_, function)) = known else {
            return Err(
                self.refuse(format!("there is nothing called `{name}`; only numbers, pi, e and functions are known"))
            );
        };
        self.next += 1;
        if !self.take('(') {
            return Err(self.refuse(format!("`{name}` is a function: write {name}(…)")));
        }
        let arguments = self.arguments()?;
        let value = match (function, arguments.as_slice()) {
            (MathFunction::One(function), [value]) => function(*value),
            (MathFunction::Two(function), [left, right]) => function(*left, *right),
            (MathFunction::Many(function), [first, rest @ ..]) => rest.iter().copied().fold(*first, function),
            (MathFunction::One(_), _) => {
                return Err(self.refuse(format!("{name} takes one number, and got {}", arguments.len())));
            }
            (MathFunction::Two(_) | MathFunction::Many(_), _) => {
                return Err(self.refuse(format!("{name} does not take {} numbers", arguments.len())));
            }
        };
        self.check(value)
    }

    fn arguments(&mut self) -> Result<Vec<f64>, RefusedExpression> {
        let mut arguments = Vec::new();
        loop {
            if let Symbol::Grouped(_) = self.peek() {
                let message = "inside a function a comma separates numbers; put a space after it, or leave it out";
                return Err(self.refuse(message));
            }
            arguments.push(self.deeper(Self::sum)?);
            if self.take(')') {
                return Ok(arguments);
            }
            if !self.take(',') {
                return Err(self.unexpected());
            }
        }
    }

    fn deeper(&mut self, parse: fn(&mut Self) -> Result<f64, RefusedExpression>) -> Result<f64, RefusedExpression> {
        if self.depth == DEEPEST {
            return Err(self.refuse(format!("the expression is nested deeper than {DEEPEST} levels")));
        }
        self.depth += 1;
        let value = parse(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// An infinity or a not-a-number must not vanish in a later step: `1/(1/0)` is not 0.
    fn check(&self, value: f64) -> Result<f64, RefusedExpression> {
        if value.is_finite() {
            Ok(value)
        } else if value.is_nan() {
            Err(self.refuse("the result is not a real number"))
        } else {
            Err(self.refuse("the result is too large"))
        }
    }
}

#[derive(Clone, Copy)]
enum MathFunction {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
    /// One or more.
    Many(fn(f64, f64) -> f64),
}

const FUNCTIONS: &[(&str, MathFunction)] = &[
    ("abs", MathFunction::One(f64::abs)),
    ("sqrt", MathFunction::One(f64::sqrt)),
    ("cbrt", MathFunction::One(f64::cbrt)),
    ("round", MathFunction::One(f64::round)),
    ("floor", MathFunction::One(f64::floor)),
    ("ceil", MathFunction::One(f64::ceil)),
    ("exp", MathFunction::One(f64::exp)),
    ("ln", MathFunction::One(f64::ln)),
    ("log2", MathFunction::One(f64::log2)),
    ("log10", MathFunction::One(f64::log10)),
    ("sin", MathFunction::One(f64::sin)),
    ("cos", MathFunction::One(f64::cos)),
    ("tan", MathFunction::One(f64::tan)),
    ("asin", MathFunction::One(f64::asin)),
    ("acos", MathFunction::One(f64::acos)),
    ("atan", MathFunction::One(f64::atan)),
    // The Euclidean remainder: that of -1 by 7 is 6.
    ("mod", MathFunction::Two(f64::rem_euclid)),
    ("min", MathFunction::Many(f64::min)),
    ("max", MathFunction::Many(f64::max)),
];

/// The number with at most 15 digits, so that 0.1 + 0.2 is 0.3.
fn show(value: f64) -> String {
    if let Some(whole) = whole(value) {
        return whole.to_string();
    }
    let rounded: f64 = format!("{value:.14e}").parse().unwrap_or(value);
    if rounded == 0.0 {
        return "0".into();
    }
    if (1e-6..1e15).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

/// The value, if it is a whole number of at most 15 digits: those are exact.
fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit is not the same afterwards")]
    let whole = value as i64;
    #[expect(clippy::cast_precision_loss, reason = "up to 15 digits lose nothing")]
    let is_same = whole.unsigned_abs() < 1_000_000_000_000_000 && whole as f64 == value;
    is_same.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expect: &str) {
        assert_eq!(run(&json!({"expression": expression})), Outcome::success(expect), "{expression}");
    }

    #[track_caller]
    fn refused(expression: &str, expect: &str) {
        match run(&json!({"expression": expression})) {
            Outcome::Failure { message, .. } => assert!(message.contains(expect), "{expression}: {message}"),
            Outcome::Success { content } => panic!("{expression} = {content:?}"),
        }
    }

    #[test]
    fn the_example_of_the_rfc() {
        check("0.25 * 8432", "2108");
        check("25% of 8,432", "2108");
        check("8,432 / 4", "2108");
    }

    #[test]
    fn precedence_is_the_usual_one() {
        check("2 + 3 * 4", "14");
        check("(2 + 3) * 4", "20");
        check("2 - 3 - 4", "-5");
        check("8 - 2 + 3", "9");
        check("6 / 2 * 3", "9");
        check("100 / 10 / 2", "5");
        check("-2^2", "-4");
        check("(-2)^2", "4");
        check("2^3^2", "512");
        check("2^-1", "0.5");
        check("2 * -3", "-6");
        check("--5", "5");
        check("10 - -3", "13");
        check("-sqrt(16)^2", "-16");
        check("10% of 50 + 1", "6");
    }

    #[test]
    fn numbers_come_in_many_forms() {
        check("1e3", "1000");
        check("1.5E+3", "1500");
        check("2.5e-3", "0.0025");
        check(".5 + 5.", "5.5");
        check("1,234,567.5 * 2", "2469135");
        check("2 ** 10", "1024");
        check("6 × 7 ÷ 2 − 1", "20");
        check("PI - pi", "0");
        check("e^0", "1");
    }

    #[test]
    fn results_are_shown_as_people_write_them() {
        check("0.1 + 0.2", "0.3");
        check("1/3", "0.333333333333333");
        check("2/3", "0.666666666666667");
        check("10/4", "2.5");
        check("1.10 + 2.20", "3.3");
        check("0 * -1", "0");
        check("999999999999999", "999999999999999");
        check("1 - 10^15", "-999999999999999");
        check("10^15", "1e15");
        check("-(10^15)", "-1e15");
        check("2^53", "9.00719925474099e15");
        check("2^62 * 2", "9.22337203685478e18");
        check("-(2^63)", "-9.22337203685478e18");
        check("2^64", "1.84467440737096e19");
        check("1/1000000000", "1e-9");
        check("123456.789 * 1000", "123456789");
    }

    #[test]
    fn functions() {
        check("sqrt(2)^2", "2");
        check("max(3, 9, 4) + min(1, 2)", "10");
        check("round(2.5) + floor(-1.5) + ceil(1.2) + abs(-4)", "7");
        check("mod(17, 5) + mod(-1, 7)", "8");
        check("ln(e) + log2(8) + log10(1000)", "7");
        check("sin(pi / 2) + cos(0)", "2");
        check("max(8, 432)", "432");
        check("sqrt((1 + 2) * 3)", "3");
    }

    #[test]
    fn an_expression_without_a_value_is_refused() {
        refused("1/0", "division by zero");
        refused("1/(1/0)", "division by zero");
        refused("0^-1", "division by zero");
        refused("mod(1, 0)", "not a real number");
        refused("sqrt(-1)", "not a real number");
        refused("(-8)^(1/3)", "not a real number");
        refused("ln(0)", "too large");
        refused("10^400", "too large");
        refused("1e400", "`1e400` is too large");
        refused("1/(10^300 * 10^300)", "too large");
    }

    #[test]
    fn an_ambiguous_expression_is_refused_with_what_to_write() {
        refused("5 % 3", "mod(a, b)");
        refused("100 + 10%", "write 0.25 for 25%");
        refused("log(100)", "ln, log2 or log10");
        refused("max(1,200)", "put a space after it");
        refused("12,34", "`,` does not belong here (at character 3)");
        refused("1,2345", "`,` does not belong here");
        refused("2(3)", "`(` does not belong here");
        refused("2 pi", "`pi` does not belong here");
        refused("3 4", "write `*` to multiply (at character 3)");
    }

    #[test]
    fn an_invalid_expression_is_refused() {
        refused("", "ends too early");
        refused("1 +", "ends too early (at character 4)");
        refused("(1", "ends too early");
        refused("1)", "`)` does not belong here");
        refused("x + 1", "nothing called `x`");
        refused("system('ls')", "nothing called `system`");
        refused("sqrt 4", "sqrt(…)");
        refused("sqrt(1, 2)", "takes one number, and got 2");
        refused("mod(1)", "does not take 1 numbers");
        refused("1..2", "does not belong here");
        refused(".", "`.` is not a number");
        refused("5!", "`!` does not belong here");
        refused("💥", "`💥` does not belong here");
    }

    #[test]
    fn long_and_deep_expressions_are_refused_before_they_hurt() {
        refused(&"1+".repeat(5_000), "longer than 1000 characters");
        refused(&"(".repeat(900), "nested deeper than 50 levels");
        refused(&"-".repeat(900), "nested deeper than 50 levels");
        refused(&"2^".repeat(450), "nested deeper than 50 levels");
        check(&format!("{}1{}", "(".repeat(45), ")".repeat(45)), "1");
        check(&("1+".repeat(499) + "1"), "500");
    }
}
