//! Calls: of Zod, of the few globals that constants need, and of functions that only return a value.

use oxc_ast::ast::{
    Argument, ArrowFunctionBody, CallExpression, Expression, FunctionBody, IdentifierReference, NewExpression, Span,
    Statement,
};
use oxc_span::GetSpan;

use super::{
    super::{
        fault::{ReadSchema, ZodProblem},
        globals,
        library::ZodCall,
        module::NameBinding,
        probe,
        value::{LONGEST_LIST, ZodFunction, ZodValue},
    },
    ZodReader, computed, computed_problem, into_value,
};

impl<'a> ZodReader<'_, 'a> {
    pub(super) fn read_arguments(&mut self, arguments: &'a [Argument<'a>]) -> ReadSchema<Vec<ZodValue<'a>>> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            if values.len() > LONGEST_LIST {
                return Err(ZodProblem::new(argument.span().start, "value_too_large", "too many arguments").into());
            }
            match argument {
                Argument::SpreadElement(spread) => match self.read(&spread.argument) {
                    ZodValue::List(more) => values.extend(more.iter().cloned()),
                    ZodValue::Unreadable(problems) => return Err(problems),
                    _ => return Err(computed_problem(spread.span, "the arguments of this spread").into()),
                },
                other => {
                    if let Some(expression) = other.as_expression() {
                        values.push(self.read(expression));
                    }
                }
            }
        }
        Ok(values)
    }

    pub(super) fn read_call(&mut self, call: &'a CallExpression<'a>) -> ZodValue<'a> {
        let (receiver, name, offset) = match &call.callee {
            Expression::StaticMemberExpression(callee) => {
                (Some(self.read(&callee.object)), callee.property.name.as_str(), callee.property.span.start)
            }
            Expression::Identifier(callee)
                if callee.name == "require" && self.module.index_of("require", call.span.start).is_none() =>
            {
                return self.read_require(call);
            }
            Expression::Identifier(callee) if self.is_schema_of_ai_sdk(callee) => {
                return match self.read_arguments(&call.arguments) {
                    Ok(arguments) => arguments.into_iter().next().unwrap_or(ZodValue::Undefined),
                    Err(problems) => ZodValue::Unreadable(problems),
                };
            }
            callee => (None, "", callee.span().start),
        };
        let receiver = match receiver {
            Some(ZodValue::Unreadable(problems)) => return ZodValue::Unreadable(problems),
            Some(ZodValue::Zod(path)) => match self.zod_member(&path, name) {
                ZodValue::Zod(path) => ZodValue::Zod(path),
                other => return computed(call.span, &format!("a call of {}", other.kind())),
            },
            Some(receiver) => receiver,
            None => self.read(&call.callee),
        };
        let arguments = match self.read_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(problems) => return ZodValue::Unreadable(problems),
        };
        match receiver {
            ZodValue::Unreadable(problems) => ZodValue::Unreadable(problems),
            ZodValue::Zod(path) => {
                into_value(self.library.construct(&ZodCall { name: &path, arguments: &arguments, offset }))
            }
            ZodValue::Schema(schema) => {
                let arguments = self.called_arguments(name, arguments);
                into_value(self.library.method(schema, &ZodCall { name, arguments: &arguments, offset }))
            }
            ZodValue::Global(path) => {
                let path = if name.is_empty() { path.to_owned() } else { format!("{path}.{name}") };
                globals::call(&path, &arguments)
                    .unwrap_or_else(|| computed(call.span, &format!("the result of `{path}`")))
            }
            ZodValue::Function(_) | ZodValue::Record(_) => {
                let called =
                    if name.is_empty() { "a function of this program".to_owned() } else { format!("`{name}`") };
                into_value(Err(computed_problem(call.span, &format!("the result of {called}"))
                    .hint("write the value in place, or name it with `const`")
                    .into()))
            }
            receiver => globals::method(&receiver, name, &arguments)
                .unwrap_or_else(|| computed(call.span, &format!("the result of `{name}`"))),
        }
    }

    /// `jsonSchema(…)` and `zodSchema(…)` of the Vercel AI SDK, which give their argument a type.
    fn is_schema_of_ai_sdk(&self, callee: &IdentifierReference<'a>) -> bool {
        matches!(
            self.module.binding(callee.name.as_str(), callee.span.start),
            Some(NameBinding::Import { module: "ai" | "@ai-sdk/provider-utils", imported: "jsonSchema" | "zodSchema" })
        )
    }

    /// Zod calls the argument of these if it is a function, to get the value.
    fn called_arguments(&mut self, method: &str, mut arguments: Vec<ZodValue<'a>>) -> Vec<ZodValue<'a>> {
        if matches!(method, "default" | "prefault" | "catch" | "_default")
            && let Some(first) = arguments.first_mut()
            && let ZodValue::Function(function) = *first
        {
            *first = self.call_function(function);
        }
        arguments
    }

    pub(super) fn read_new(&mut self, new: &'a NewExpression<'a>) -> ZodValue<'a> {
        let Expression::Identifier(class) = &new.callee else { return computed(new.span, "a new object") };
        match class.name.as_str() {
            "RegExp" => match self.read_arguments(&new.arguments) {
                Ok(arguments) => {
                    globals::call("RegExp", &arguments).unwrap_or_else(|| computed(new.span, "this regular expression"))
                }
                Err(problems) => ZodValue::Unreadable(problems),
            },
            "Date" => ZodValue::Instance("Date"),
            "Map" => ZodValue::Instance("Map"),
            "Set" => ZodValue::Instance("Set"),
            _ => computed(new.span, "a new object"),
        }
    }

    /// The return value of a function that is called without arguments, if it can be determined.
    pub(in super::super) fn call_function(&mut self, function: ZodFunction<'a>) -> ZodValue<'a> {
        let result = match function {
            ZodFunction::Global(_) => None,
            ZodFunction::Arrow(arrow) if arrow.r#async => None,
            ZodFunction::Arrow(arrow) => match &arrow.body {
                ArrowFunctionBody::FunctionBody(body) => single_return(body),
                body => body.as_expression(),
            },
            ZodFunction::Full(full) if full.r#async || full.generator => None,
            ZodFunction::Full(full) => full.body.as_deref().and_then(single_return),
        };
        match result {
            Some(expression) => self.read(expression),
            None if probe::throws(function) => {
                into_value(Err(
                    ZodProblem::new(function_offset(function), "function_throws", "the function throws").into()
                ))
            }
            None => {
                let span = Span::new(function_offset(function), function_offset(function));
                into_value(Err(computed_problem(span, "what this function returns")
                    .hint("only a function that is a single expression or `return` is read")
                    .into()))
            }
        }
    }
}

/// The result of a body that only declares constants and returns.
fn single_return<'a>(body: &'a FunctionBody<'a>) -> Option<&'a Expression<'a>> {
    let (last, before) = body.statements.split_last()?;
    let declares = |statement: &Statement<'a>| matches!(statement, Statement::VariableDeclaration(_));
    match last {
        Statement::ReturnStatement(statement) if before.iter().all(declares) => statement.argument.as_ref(),
        _ => None,
    }
}

pub(super) fn function_offset(function: ZodFunction<'_>) -> u32 {
    match function {
        ZodFunction::Arrow(arrow) => arrow.span.start,
        ZodFunction::Full(full) => full.span.start,
        ZodFunction::Global(_) => 0,
    }
}
