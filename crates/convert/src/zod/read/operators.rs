//! Operators on known values.

use oxc_ast::ast::{BinaryOperator, Span, UnaryOperator};

use super::{
    super::{fault::FaultCollector, value::ZodValue},
    computed, into_value,
};

pub(super) fn read_unary<'a>(operator: UnaryOperator, operand: ZodValue<'a>, span: Span) -> ZodValue<'a> {
    match (operator, operand) {
        (_, ZodValue::Unreadable(problems)) => ZodValue::Unreadable(problems),
        (UnaryOperator::UnaryNegation, ZodValue::Number(value)) => ZodValue::Number(-value),
        (UnaryOperator::UnaryNegation, ZodValue::BigInt(value)) => ZodValue::BigInt(-value),
        (UnaryOperator::UnaryPlus, ZodValue::Number(value)) => ZodValue::Number(value),
        (UnaryOperator::LogicalNot, value) => {
            value.truthy().map_or_else(|| computed(span, "the result of `!`"), |truthy| ZodValue::Bool(!truthy))
        }
        (UnaryOperator::Void, _) => ZodValue::Undefined,
        (operator, _) => computed(span, &format!("the result of `{}`", operator.as_str())),
    }
}

pub(super) fn read_binary<'a>(
    operator: BinaryOperator,
    left: ZodValue<'a>,
    right: ZodValue<'a>,
    span: Span,
) -> ZodValue<'a> {
    let (left, right) = match (left, right) {
        (ZodValue::Unreadable(left), ZodValue::Unreadable(right)) => {
            let mut both = FaultCollector::default();
            both.take::<()>(Err(left));
            both.take::<()>(Err(right));
            return into_value(both.finish(ZodValue::Undefined));
        }
        (ZodValue::Unreadable(problems), _) | (_, ZodValue::Unreadable(problems)) => {
            return ZodValue::Unreadable(problems);
        }
        sides => sides,
    };
    match (operator, &left, &right) {
        (BinaryOperator::Addition, ZodValue::Number(left), ZodValue::Number(right)) => ZodValue::Number(left + right),
        (BinaryOperator::Subtraction, ZodValue::Number(left), ZodValue::Number(right)) => {
            ZodValue::Number(left - right)
        }
        (BinaryOperator::Multiplication, ZodValue::Number(left), ZodValue::Number(right)) => {
            ZodValue::Number(left * right)
        }
        (BinaryOperator::Division, ZodValue::Number(left), ZodValue::Number(right)) => ZodValue::Number(left / right),
        (BinaryOperator::Remainder, ZodValue::Number(left), ZodValue::Number(right)) => ZodValue::Number(left % right),
        (BinaryOperator::Exponential, ZodValue::Number(left), ZodValue::Number(right)) => {
            ZodValue::Number(left.powf(*right))
        }
        (BinaryOperator::Addition, ZodValue::Text(_), _) | (BinaryOperator::Addition, _, ZodValue::Text(_)) => {
            match (left.to_text(), right.to_text()) {
                (Some(left), Some(right)) => ZodValue::text(left + &right),
                _ => computed(span, "the text of an object"),
            }
        }
        _ => computed(span, &format!("the result of `{}`", operator.as_str())),
    }
}
