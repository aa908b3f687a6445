//! Operators on known values.

use oxc_ast::ast::{BinaryOperator, Span, UnaryOperator};

use super::{
    super::{fault::Gather, value::Value},
    computed, into_value,
};

pub(super) fn read_unary<'a>(operator: UnaryOperator, operand: Value<'a>, span: Span) -> Value<'a> {
    match (operator, operand) {
        (_, Value::Unreadable(problems)) => Value::Unreadable(problems),
        (UnaryOperator::UnaryNegation, Value::Number(value)) => Value::Number(-value),
        (UnaryOperator::UnaryNegation, Value::BigInt(value)) => Value::BigInt(-value),
        (UnaryOperator::UnaryPlus, Value::Number(value)) => Value::Number(value),
        (UnaryOperator::LogicalNot, value) => {
            value.truthy().map_or_else(|| computed(span, "the result of `!`"), |truthy| Value::Bool(!truthy))
        }
        (UnaryOperator::Void, _) => Value::Undefined,
        (operator, _) => computed(span, &format!("the result of `{}`", operator.as_str())),
    }
}

pub(super) fn read_binary<'a>(operator: BinaryOperator, left: Value<'a>, right: Value<'a>, span: Span) -> Value<'a> {
    let (left, right) = match (left, right) {
        (Value::Unreadable(left), Value::Unreadable(right)) => {
            let mut both = Gather::default();
            both.take::<()>(Err(left));
            both.take::<()>(Err(right));
            return into_value(both.finish(Value::Undefined));
        }
        (Value::Unreadable(problems), _) | (_, Value::Unreadable(problems)) => return Value::Unreadable(problems),
        sides => sides,
    };
    match (operator, &left, &right) {
        (BinaryOperator::Addition, Value::Number(left), Value::Number(right)) => Value::Number(left + right),
        (BinaryOperator::Subtraction, Value::Number(left), Value::Number(right)) => Value::Number(left - right),
        (BinaryOperator::Multiplication, Value::Number(left), Value::Number(right)) => Value::Number(left * right),
        (BinaryOperator::Division, Value::Number(left), Value::Number(right)) => Value::Number(left / right),
        (BinaryOperator::Remainder, Value::Number(left), Value::Number(right)) => Value::Number(left % right),
        (BinaryOperator::Exponential, Value::Number(left), Value::Number(right)) => Value::Number(left.powf(*right)),
        (BinaryOperator::Addition, Value::Text(_), _) | (BinaryOperator::Addition, _, Value::Text(_)) => {
            match (left.to_text(), right.to_text()) {
                (Some(left), Some(right)) => Value::text(left + &right),
                _ => computed(span, "the text of an object"),
            }
        }
        _ => computed(span, &format!("the result of `{}`", operator.as_str())),
    }
}
