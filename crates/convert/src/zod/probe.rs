//! Evaluates small functions for the argument `undefined`.
//!
//! Zod 3 finds out whether a key is optional by parsing `undefined`, which runs refinements and preprocessors. Most of
//! them are one expression over their parameter, or a few `if`s and `return`s, and for `undefined` a handful of rules
//! decides them. Where the rules do not suffice, the result is [`Outcome::Unknown`] and the caller reports its
//! assumption.

use oxc_ast::ast::{
    ArrowFunctionBody, BinaryOperator, BindingPattern, CallExpression, CatchClause, Expression, FormalParameters,
    FunctionBody, LogicalOperator, Statement, UnaryOperator,
};

use super::value::{ZodFunction, ZodValue};

#[derive(Clone, Debug)]
pub(super) enum Outcome<'a> {
    Returns(ZodValue<'a>),
    Throws,
    Unknown,
}

use Outcome::{Returns, Throws, Unknown};

pub(super) fn call_with_undefined(function: ZodFunction<'_>) -> Outcome<'_> {
    match function {
        ZodFunction::Global("String") => Returns(ZodValue::text("undefined")),
        ZodFunction::Global("Number") => Returns(ZodValue::Number(f64::NAN)),
        ZodFunction::Global("Boolean") => Returns(ZodValue::Bool(false)),
        ZodFunction::Global(_) => Unknown,
        ZodFunction::Arrow(arrow) if arrow.r#async => Unknown,
        ZodFunction::Arrow(arrow) => match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => run(&arrow.params, Body::Block(body)),
            body => body.as_expression().map_or(Unknown, |expression| run(&arrow.params, Body::Expression(expression))),
        },
        ZodFunction::Full(full) if full.r#async || full.generator => Unknown,
        ZodFunction::Full(full) => full.body.as_deref().map_or(Unknown, |body| run(&full.params, Body::Block(body))),
    }
}

/// Whether the body is nothing but a `throw`.
pub(super) fn throws(function: ZodFunction<'_>) -> bool {
    matches!(call_with_undefined(function), Throws)
}

enum Body<'a> {
    Expression(&'a Expression<'a>),
    Block(&'a FunctionBody<'a>),
}

fn run<'a>(parameters: &'a FormalParameters<'a>, body: Body<'a>) -> Outcome<'a> {
    let parameter = match parameters.items.first() {
        None => None,
        Some(first) => match (&first.pattern, &first.initializer) {
            (BindingPattern::BindingIdentifier(name), None) => Some(name.name.as_str()),
            (_, None) => return Throws,
            (_, Some(_)) => return Unknown,
        },
    };
    let scope = Scope { parameter };
    match body {
        Body::Expression(expression) => scope.evaluate(expression),
        Body::Block(body) => scope.run(&body.statements).unwrap_or(Returns(ZodValue::Undefined)),
    }
}

struct Scope<'a> {
    parameter: Option<&'a str>,
}

impl<'a> Scope<'a> {
    /// What statements end in; `None` if control reaches the end of them.
    fn run(&self, statements: &'a [Statement<'a>]) -> Option<Outcome<'a>> {
        statements.iter().find_map(|statement| self.step(statement))
    }

    fn step(&self, statement: &'a Statement<'a>) -> Option<Outcome<'a>> {
        match statement {
            Statement::EmptyStatement(_) => None,
            Statement::BlockStatement(block) => self.run(&block.body),
            Statement::ReturnStatement(statement) => Some(
                statement.argument.as_ref().map_or(Returns(ZodValue::Undefined), |argument| self.evaluate(argument)),
            ),
            Statement::ThrowStatement(_) => Some(Throws),
            Statement::IfStatement(branch) => match self.evaluate(&branch.test) {
                Returns(value) => match value.truthy() {
                    Some(true) => self.step(&branch.consequent),
                    Some(false) => branch.alternate.as_ref().and_then(|statement| self.step(statement)),
                    None => Some(Unknown),
                },
                other => Some(other),
            },
            Statement::TryStatement(attempt) if attempt.finalizer.is_none() => match self.run(&attempt.block.body) {
                Some(Throws) => match &attempt.handler {
                    Some(handler) if !self.is_hidden(handler) => self.run(&handler.body.body),
                    _ => Some(Unknown),
                },
                other => other,
            },
            _ => Some(Unknown),
        }
    }

    /// Whether a handler names its error as the parameter is named, or takes it apart.
    fn is_hidden(&self, handler: &CatchClause<'a>) -> bool {
        match handler.param.as_ref().map(|param| &param.pattern) {
            None => false,
            Some(BindingPattern::BindingIdentifier(name)) => self.parameter == Some(name.name.as_str()),
            Some(_) => true,
        }
    }

    fn evaluate(&self, expression: &'a Expression<'a>) -> Outcome<'a> {
        match expression {
            Expression::NullLiteral(_) => Returns(ZodValue::Null),
            Expression::BooleanLiteral(literal) => Returns(ZodValue::Bool(literal.value)),
            Expression::NumericLiteral(literal) => Returns(ZodValue::Number(literal.value)),
            Expression::StringLiteral(literal) if !literal.lone_surrogates => {
                Returns(ZodValue::text(literal.value.as_str()))
            }
            Expression::ArrayExpression(array) if array.elements.is_empty() => Returns(ZodValue::list(Vec::new())),
            Expression::Identifier(name) if self.parameter == Some(name.name.as_str()) => Returns(ZodValue::Undefined),
            Expression::Identifier(name) if name.name == "undefined" => Returns(ZodValue::Undefined),
            Expression::ParenthesizedExpression(inner) => self.evaluate(&inner.expression),
            Expression::TSAsExpression(inner) => self.evaluate(&inner.expression),
            Expression::TSNonNullExpression(inner) => self.evaluate(&inner.expression),
            Expression::UnaryExpression(unary) => match (unary.operator, self.evaluate(&unary.argument)) {
                (_, Throws) => Throws,
                (UnaryOperator::Typeof, Returns(value)) => {
                    type_of(&value).map_or(Unknown, |name| Returns(ZodValue::text(name)))
                }
                (UnaryOperator::LogicalNot, Returns(value)) => {
                    value.truthy().map_or(Unknown, |truthy| Returns(ZodValue::Bool(!truthy)))
                }
                (UnaryOperator::UnaryPlus, Returns(ZodValue::Undefined)) => Returns(ZodValue::Number(f64::NAN)),
                _ => Unknown,
            },
            Expression::LogicalExpression(logical) => {
                let left = self.evaluate(&logical.left);
                let Returns(value) = &left else { return left };
                let keeps_left = match logical.operator {
                    LogicalOperator::And => value.truthy().map(|truthy| !truthy),
                    LogicalOperator::Or => value.truthy(),
                    LogicalOperator::Coalesce => Some(!matches!(value, ZodValue::Undefined | ZodValue::Null)),
                };
                match keeps_left {
                    Some(true) => left,
                    Some(false) => self.evaluate(&logical.right),
                    None => Unknown,
                }
            }
            Expression::ConditionalExpression(conditional) => match self.evaluate(&conditional.test) {
                Returns(value) => match value.truthy() {
                    Some(true) => self.evaluate(&conditional.consequent),
                    Some(false) => self.evaluate(&conditional.alternate),
                    None => Unknown,
                },
                other => other,
            },
            Expression::BinaryExpression(binary) => self.compare(binary.operator, &binary.left, &binary.right),
            Expression::StaticMemberExpression(member) => self.member_of(&member.object),
            Expression::ComputedMemberExpression(member) => self.member_of(&member.object),
            // `v?.x` is undefined when `v` is.
            Expression::ChainExpression(chain) => match chain.expression.as_member_expression() {
                Some(member)
                    if member.optional() && matches!(self.evaluate(member.object()), Returns(ZodValue::Undefined)) =>
                {
                    Returns(ZodValue::Undefined)
                }
                _ => Unknown,
            },
            Expression::CallExpression(call) => self.call(call),
            _ => Unknown,
        }
    }

    /// Reading a member of `undefined` throws; of anything else it is not evaluated.
    fn member_of(&self, object: &'a Expression<'a>) -> Outcome<'a> {
        match self.evaluate(object) {
            Returns(ZodValue::Undefined | ZodValue::Null) | Throws => Throws,
            _ => Unknown,
        }
    }

    fn call(&self, call: &'a CallExpression<'a>) -> Outcome<'a> {
        let argument = call.arguments.first().and_then(|argument| argument.as_expression());
        match &call.callee {
            Expression::Identifier(name) if matches!(name.name.as_str(), "String" | "Number" | "Boolean") => {
                match argument.map(|argument| self.evaluate(argument)) {
                    Some(Returns(ZodValue::Undefined)) => match name.name.as_str() {
                        "String" => Returns(ZodValue::text("undefined")),
                        "Number" => Returns(ZodValue::Number(f64::NAN)),
                        _ => Returns(ZodValue::Bool(false)),
                    },
                    Some(Throws) => Throws,
                    _ => Unknown,
                }
            }
            Expression::Identifier(name) if matches!(name.name.as_str(), "parseInt" | "parseFloat") => {
                match argument.map(|argument| self.evaluate(argument)) {
                    Some(Returns(ZodValue::Undefined)) => Returns(ZodValue::Number(f64::NAN)),
                    Some(Throws) => Throws,
                    _ => Unknown,
                }
            }
            Expression::StaticMemberExpression(callee) => {
                let is = |object: &str, method: &str| {
                    matches!(&callee.object, Expression::Identifier(name) if name.name == object)
                        && callee.property.name == method
                };
                let on_undefined =
                    matches!(argument.map(|argument| self.evaluate(argument)), Some(Returns(ZodValue::Undefined)));
                if on_undefined && (is("Array", "isArray") || is("Number", "isInteger")) {
                    return Returns(ZodValue::Bool(false));
                }
                if is("JSON", "parse") && on_undefined {
                    return Throws;
                }
                self.member_of(&callee.object)
            }
            _ => Unknown,
        }
    }

    fn compare(&self, operator: BinaryOperator, left: &'a Expression<'a>, right: &'a Expression<'a>) -> Outcome<'a> {
        let left = match self.evaluate(left) {
            Returns(value) => value,
            other => return other,
        };
        if operator == BinaryOperator::Instanceof {
            let is_primitive = type_of(&left).is_some_and(|name| name != "object" || matches!(left, ZodValue::Null));
            return if is_primitive { Returns(ZodValue::Bool(false)) } else { Unknown };
        }
        let right = match self.evaluate(right) {
            Returns(value) => value,
            other => return other,
        };
        let nullish = |value: &ZodValue<'_>| matches!(value, ZodValue::Undefined | ZodValue::Null);
        let equal = left.same(&right);
        let loosely = equal || (nullish(&left) && nullish(&right));
        let undecided = !loosely && !nullish(&left) && !nullish(&right) && type_of(&left) != type_of(&right);
        Returns(ZodValue::Bool(match operator {
            BinaryOperator::StrictEquality => equal,
            BinaryOperator::StrictInequality => !equal,
            BinaryOperator::Equality if !undecided => loosely,
            BinaryOperator::Inequality if !undecided => !loosely,
            // `undefined` compares as NaN.
            BinaryOperator::LessThan
            | BinaryOperator::LessEqualThan
            | BinaryOperator::GreaterThan
            | BinaryOperator::GreaterEqualThan
                if matches!(left, ZodValue::Undefined) || matches!(right, ZodValue::Undefined) =>
            {
                false
            }
            _ => return Unknown,
        }))
    }
}

/// `typeof value`, for the values that reading can produce.
fn type_of(value: &ZodValue<'_>) -> Option<&'static str> {
    Some(match value {
        ZodValue::Undefined => "undefined",
        ZodValue::Null | ZodValue::List(_) | ZodValue::Record(_) | ZodValue::Regex(_) => "object",
        ZodValue::Bool(_) => "boolean",
        ZodValue::Number(_) => "number",
        ZodValue::BigInt(_) => "bigint",
        ZodValue::Text(_) => "string",
        ZodValue::Function(_) => "function",
        _ => return None,
    })
}
