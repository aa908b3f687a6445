//! Evaluates expressions without running the program.
//!
//! Literals, named constants, spreads, concatenation and calls of Zod are supported; everything else is
//! [`ZodValue::Unreadable`], with the position and the reason. Reading is total: it never fails, never loops (every
//! constant is read once, and depth is bounded) and never guesses.

mod calls;
mod imports;
mod operators;

use std::{collections::HashMap, rc::Rc};

use oxc_ast::ast::{
    ArrayExpressionElement, Expression, ObjectExpression, ObjectPropertyKind, PropertyKey, PropertyKind, Span,
    TSEnumDeclaration, TSEnumMemberName, TemplateLiteral,
};
use oxc_span::GetSpan;

use super::{
    ZodVersion,
    fault::{FaultCollector, Problems, ReadSchema, ZodProblem},
    globals,
    library::{WrittenCall, ZodCall, ZodLibrary, as_schema},
    module::{Module, NameBinding, SourceChange},
    value::{
        LONGEST_LIST, LONGEST_TEXT, MOST_NODES, Regex, SchemaId, ZodFunction, ZodMember, ZodRecord, ZodValue,
        number_text, weight,
    },
};
use calls::function_offset;
pub(super) use imports::OTHER_VERSION;
use operators::{read_binary, read_unary};

/// Maximum depth of a value, counting every call of a chain.
const DEEPEST: usize = 400;

/// Maximum number of calls of functions in `z.lazy` and getters.
const MOST_CALLS: usize = 20_000;

/// Maximum number of bytes of texts, lists and objects that are built while a file is read.
const MOST_BUILT: usize = 64 * 1024 * 1024;

/// Maximum weight of all schemas of a file together.
const MOST_WRITTEN: usize = 5 * MOST_NODES;

pub(super) struct ZodReader<'m, 'a> {
    module: &'m Module<'a>,
    library: Box<dyn ZodLibrary<'a> + 'm>,
    /// The value of each declaration, once it was resolved.
    constants: HashMap<usize, Constant<'a>>,
    depth: usize,
    /// The number of calls of deferred functions.
    called: usize,
    /// Bytes, roughly, of all texts, lists and objects that were built.
    built: usize,
    /// The weight of all JSON Schemas that were written.
    written: usize,
    /// The first use of `z` without an import, which is assumed to be Zod.
    pub(super) assumed_zod: Option<u32>,
    /// The version that is read, in a source that imports both.
    only: Option<OneVersion>,
}

/// One version of a source that imports both.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneVersion {
    pub(super) read: ZodVersion,
    /// What `zod` alone means.
    pub(super) bare: ZodVersion,
}

enum Constant<'a> {
    BeingRead,
    Known(ZodValue<'a>),
}

impl<'m, 'a> ZodReader<'m, 'a> {
    pub(super) fn new(module: &'m Module<'a>, library: Box<dyn ZodLibrary<'a> + 'm>, only: Option<OneVersion>) -> Self {
        Self {
            module,
            library,
            constants: HashMap::new(),
            depth: 0,
            called: 0,
            built: 0,
            written: 0,
            assumed_zod: None,
            only,
        }
    }

    /// The JSON Schema of a schema that was read, with everything it refers to.
    pub(super) fn write(&mut self, schema: SchemaId) -> ReadSchema<WrittenCall> {
        while let Some((deferred, function)) = self.library.next_deferred() {
            self.called += 1;
            if self.called > MOST_CALLS {
                let problem = ZodProblem::new(
                    function_offset(function),
                    "recursive_value",
                    "a schema makes new schemas without end",
                );
                return Err(problem.hint("name the schema with `const` and refer to it").into());
            }
            let value = self.call_function(function);
            let offset = function_offset(function);
            self.library.settle(deferred, as_schema(&value, offset));
        }
        if self.written > MOST_WRITTEN {
            return Err(ZodProblem::new(0, "value_too_large", "the schemas of this file are too large together").into());
        }
        let written = self.library.write(schema)?;
        self.written += weight(&written.schema);
        Ok(written)
    }

    pub(super) fn read(&mut self, expression: &'a Expression<'a>) -> ZodValue<'a> {
        if self.depth >= DEEPEST {
            return unreadable(
                expression.span(),
                "nested_too_deeply",
                format!("a value is made of more than {DEEPEST} others"),
            );
        }
        self.depth += 1;
        let value = self.read_here(expression);
        self.depth -= 1;
        self.charge(value, expression)
    }

    /// Rejects values that are too long, and stops when too much has been built.
    fn charge(&mut self, value: ZodValue<'a>, expression: &Expression<'a>) -> ZodValue<'a> {
        let (length, longest, cost) = match &value {
            ZodValue::Text(text) => (text.len(), LONGEST_TEXT, text.len()),
            ZodValue::List(values) => (values.len(), LONGEST_LIST, 64 * values.len()),
            ZodValue::Record(record) => (record.len(), LONGEST_LIST, 128 * record.len()),
            _ => return value,
        };
        // A literal or a name costs nothing new.
        let is_built = matches!(
            expression,
            Expression::BinaryExpression(_)
                | Expression::TemplateLiteral(_)
                | Expression::CallExpression(_)
                | Expression::ArrayExpression(_)
                | Expression::ObjectExpression(_)
                | Expression::StaticMemberExpression(_)
        );
        if is_built {
            self.built = self.built.saturating_add(cost);
        }
        if length > longest || self.built > MOST_BUILT { too_long(expression.span()) } else { value }
    }

    fn read_here(&mut self, expression: &'a Expression<'a>) -> ZodValue<'a> {
        match expression {
            Expression::NullLiteral(_) => ZodValue::Null,
            Expression::BooleanLiteral(literal) => ZodValue::Bool(literal.value),
            Expression::NumericLiteral(literal) => ZodValue::Number(literal.value),
            Expression::BigIntLiteral(literal) => match literal.value.as_str().parse() {
                Ok(value) => ZodValue::BigInt(value),
                Err(_) => unreadable(literal.span, "number_too_large", "this bigint does not fit into 128 bits"),
            },
            Expression::StringLiteral(literal) if literal.lone_surrogates => lone_surrogate(literal.span),
            Expression::StringLiteral(literal) => ZodValue::text(literal.value.as_str()),
            Expression::RegExpLiteral(literal) => ZodValue::Regex(Rc::new(Regex {
                source: literal.regex.pattern.text.as_str().to_owned(),
                flags: literal.regex.flags.to_string(),
            })),
            Expression::TemplateLiteral(template) => self.read_template(template),
            Expression::Identifier(name) => self.read_name(name.name.as_str(), name.span),
            Expression::ArrayExpression(array) => self.read_list(&array.elements),
            Expression::ObjectExpression(object) => self.read_object(object),
            Expression::ArrowFunctionExpression(function) => ZodValue::Function(ZodFunction::Arrow(function)),
            Expression::FunctionExpression(function) => ZodValue::Function(ZodFunction::Full(function)),
            Expression::ParenthesizedExpression(inner) => self.read(&inner.expression),
            Expression::TSAsExpression(inner) => self.read(&inner.expression),
            Expression::TSSatisfiesExpression(inner) => self.read(&inner.expression),
            Expression::TSTypeAssertion(inner) => self.read(&inner.expression),
            Expression::TSNonNullExpression(inner) => self.read(&inner.expression),
            Expression::TSInstantiationExpression(inner) => self.read(&inner.expression),
            Expression::UnaryExpression(unary) => {
                let operand = self.read(&unary.argument);
                read_unary(unary.operator, operand, unary.span)
            }
            Expression::BinaryExpression(binary) => {
                let left = self.read(&binary.left);
                let right = self.read(&binary.right);
                read_binary(binary.operator, left, right, binary.span)
            }
            Expression::StaticMemberExpression(member) => {
                let object = self.read(&member.object);
                self.read_member(&object, member.property.name.as_str(), member.property.span)
            }
            Expression::ComputedMemberExpression(member) => {
                let object = self.read(&member.object);
                match self.read(&member.expression) {
                    ZodValue::Unreadable(problems) => ZodValue::Unreadable(problems),
                    key => match key.to_text() {
                        Some(key) => self.read_member(&object, &key, member.span),
                        None => computed(member.span, "this member"),
                    },
                }
            }
            Expression::CallExpression(call) => self.read_call(call),
            Expression::NewExpression(new) => self.read_new(new),
            Expression::ConditionalExpression(_) | Expression::LogicalExpression(_) => {
                computed(expression.span(), "which value a condition chooses")
            }
            Expression::ClassExpression(_) => ZodValue::Instance("class"),
            Expression::AwaitExpression(_) => computed(expression.span(), "an awaited value"),
            Expression::ThisExpression(_) => computed(expression.span(), "`this`"),
            Expression::ImportExpression(_) => computed(expression.span(), "an imported module"),
            other => computed(other.span(), "the value of this expression"),
        }
    }

    fn read_template(&mut self, template: &'a TemplateLiteral<'a>) -> ZodValue<'a> {
        let mut text = String::new();
        let mut gather = FaultCollector::default();
        let mut expressions = template.expressions.iter();
        for quasi in &template.quasis {
            match quasi.value.cooked {
                Some(cooked) if !quasi.lone_surrogates => text.push_str(cooked.as_str()),
                _ => return lone_surrogate(quasi.span),
            }
            if let Some(expression) = expressions.next() {
                let value = self.read(expression);
                let part = match (&value, value.to_text()) {
                    (ZodValue::Unreadable(problems), _) => Err(problems.clone()),
                    (_, Some(part)) => Ok(part),
                    (_, None) => Err(computed_problem(expression.span(), "the text of this expression").into()),
                };
                text.push_str(&gather.take(part).unwrap_or_default());
            }
            if text.len() > LONGEST_TEXT {
                return too_long(template.span);
            }
        }
        into_value(gather.finish(ZodValue::text(text)))
    }

    fn read_name(&mut self, name: &'a str, span: Span) -> ZodValue<'a> {
        let Some(index) = self.module.index_of(name, span.start) else {
            return match globals::find(name) {
                Some(value) => value,
                None if name == "z" => {
                    self.assumed_zod.get_or_insert(span.start);
                    ZodValue::Zod("".into())
                }
                None => into_value(Err(ZodProblem::new(
                    span.start,
                    "unknown_name",
                    format!("`{name}` is not declared in this file"),
                )
                .into())),
            };
        };
        match self.constants.get(&index) {
            Some(Constant::Known(value)) => return value.clone(),
            Some(Constant::BeingRead) => {
                let message = format!("`{name}` is used while it is being defined");
                return into_value(Err(ZodProblem::new(span.start, "used_before_definition", message)
                    .hint("wrap a recursive use in `z.lazy(() => …)` or a getter")
                    .into()));
            }
            None => {}
        }
        self.constants.insert(index, Constant::BeingRead);
        let value = self.read_declaration(index, name, span);
        if matches!(value, ZodValue::Unreadable(_)) && self.is_outside(index, span) {
            // Its problem is that of each use, and cheap to find again.
            self.constants.remove(&index);
        } else {
            self.constants.insert(index, Constant::Known(value.clone()));
        }
        value
    }

    /// Whether a name has no value in the files that are read: it is a parameter, or imported from elsewhere.
    fn is_outside(&self, index: usize, used: Span) -> bool {
        match self.module.declaration(index).map(|declaration| declaration.binding) {
            Some(NameBinding::Import { module, .. }) => self.module.file(module, used.start).is_none(),
            Some(NameBinding::Parameter | NameBinding::Unknown) => true,
            _ => false,
        }
    }

    fn read_declaration(&mut self, index: usize, name: &str, used: Span) -> ZodValue<'a> {
        let Some(declaration) = self.module.declaration(index) else { return computed(used, "this name") };
        let value = match declaration.binding {
            NameBinding::Value(initial) => self.read(initial),
            NameBinding::Member(initial, key) => {
                let object = self.read(initial);
                self.read_member(&object, key, initial.span())
            }
            NameBinding::Enum(declaration) => self.read_enum(declaration),
            NameBinding::Function(function) => ZodValue::Function(ZodFunction::Full(function)),
            NameBinding::Class => ZodValue::Instance("class"),
            NameBinding::Import { module, imported } => self.read_import(module, imported, name, used),
            NameBinding::Parameter => computed(used, &format!("the parameter `{name}`")),
            NameBinding::Unknown => computed(used, &format!("`{name}`")),
        };
        let change = match declaration.changed {
            Some(SourceChange::Assigned) => "is assigned after its declaration",
            // A schema is immutable, so only plain objects and arrays can be mutated.
            Some(SourceChange::Mutated) if matches!(value, ZodValue::Record(_) | ZodValue::List(_)) => {
                "is changed after its declaration"
            }
            _ => return value,
        };
        let problem =
            ZodProblem::new(used.start, "changed_value", format!("`{name}` {change}, so its value cannot be read"));
        into_value(Err(problem.hint("make it a constant that is written in one place").into()))
    }

    fn read_list(&mut self, elements: &'a [ArrayExpressionElement<'a>]) -> ZodValue<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            if values.len() > LONGEST_LIST {
                return too_long(element.span());
            }
            match element {
                ArrayExpressionElement::Elision(_) => values.push(ZodValue::Undefined),
                ArrayExpressionElement::SpreadElement(spread) => match self.read(&spread.argument) {
                    ZodValue::List(more) => values.extend(more.iter().cloned()),
                    ZodValue::Unreadable(problems) => return ZodValue::Unreadable(problems),
                    _ => return computed(spread.span, "the elements of this spread"),
                },
                other => {
                    if let Some(expression) = other.as_expression() {
                        values.push(self.read(expression));
                    }
                }
            }
        }
        ZodValue::list(values)
    }

    /// `z.object(shape)`.
    pub(super) fn object_of(&mut self, shape: Rc<ZodRecord<'a>>) -> ReadSchema<SchemaId> {
        let offset = shape.offset;
        let arguments = [ZodValue::Record(shape)];
        let value = self.library.construct(&ZodCall { name: "object", arguments: &arguments, offset })?;
        as_schema(&value, offset)
    }

    pub(super) fn read_object_literal(&mut self, object: &'a ObjectExpression<'a>) -> ZodValue<'a> {
        self.read_object(object)
    }

    fn read_object(&mut self, object: &'a ObjectExpression<'a>) -> ZodValue<'a> {
        let mut members: Vec<(String, ZodMember<'a>)> = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            if members.len() > LONGEST_LIST {
                return too_long(object.span);
            }
            match property {
                ObjectPropertyKind::SpreadProperty(spread) => match self.read(&spread.argument) {
                    ZodValue::Record(more) => {
                        members.extend(more.iter().map(|(key, member)| (key.to_owned(), member.clone())));
                    }
                    ZodValue::Undefined | ZodValue::Null => {}
                    ZodValue::Unreadable(problems) => return ZodValue::Unreadable(problems),
                    _ => return computed(spread.span, "the members of this spread"),
                },
                ObjectPropertyKind::ObjectProperty(property) => {
                    let key = match self.read_key(&property.key, property.computed) {
                        Ok(key) => key,
                        Err(problems) => return ZodValue::Unreadable(problems),
                    };
                    if key == "__proto__" && !property.computed && !property.shorthand && !property.method {
                        let message = "`__proto__: …` sets the prototype of the object; it does not add a key";
                        return into_value(Err(ZodProblem::new(property.span.start, "prototype_key", message)
                            .hint("write `[\"__proto__\"]: …` if a key of that name is meant")
                            .into()));
                    }
                    if property.kind == PropertyKind::Set {
                        continue;
                    }
                    let getter = property.kind == PropertyKind::Get;
                    let value = self.read(&property.value);
                    members.push((key, ZodMember { value, offset: property.span.start, getter }));
                }
            }
        }
        ZodValue::Record(Rc::new(ZodRecord::new(object.span.start, members)))
    }

    pub(super) fn read_key(&mut self, key: &'a PropertyKey<'a>, is_computed: bool) -> ReadSchema<String> {
        match key {
            PropertyKey::StaticIdentifier(name) if !is_computed => Ok(name.name.as_str().to_owned()),
            PropertyKey::NumericLiteral(literal) => Ok(number_text(literal.value)),
            _ => {
                let key_span = key.span();
                let value = key.as_expression().map(|expression| self.read(expression));
                match value {
                    Some(ZodValue::Unreadable(problems)) => Err(problems),
                    Some(value) => value.to_text().ok_or_else(|| computed_problem(key_span, "this key").into()),
                    None => Err(computed_problem(key_span, "this key").into()),
                }
            }
        }
    }

    fn read_enum(&mut self, declaration: &'a TSEnumDeclaration<'a>) -> ZodValue<'a> {
        let mut members: Vec<(String, ZodMember<'a>)> = Vec::new();
        let mut next = Some(0.0);
        for member in &declaration.body.members {
            let name = match &member.id {
                TSEnumMemberName::Identifier(name) => name.name.as_str(),
                TSEnumMemberName::String(literal) | TSEnumMemberName::ComputedString(literal) => literal.value.as_str(),
                TSEnumMemberName::ComputedTemplateString(_) => return computed(member.span, "the name of this member"),
            };
            let value = match &member.initializer {
                None => next.map_or_else(|| computed(member.span, "the value of this member"), ZodValue::Number),
                // A member may refer to an earlier one by its bare name.
                Some(Expression::Identifier(other)) if members.iter().any(|(key, _)| other.name == key.as_str()) => {
                    let earlier = members.iter().rfind(|(key, _)| other.name == key.as_str());
                    earlier.map_or(ZodValue::Undefined, |(_, member)| member.value.clone())
                }
                Some(initializer) => self.read(initializer),
            };
            let offset = member.span.start;
            next = if let ZodValue::Number(number) = value { Some(number + 1.0) } else { None };
            if let ZodValue::Number(number) = value {
                let reverse = ZodMember { value: ZodValue::text(name), offset, getter: false };
                members.push((name.to_owned(), ZodMember { value, offset, getter: false }));
                members.push((number_text(number), reverse));
            } else {
                members.push((name.to_owned(), ZodMember { value, offset, getter: false }));
            }
        }
        ZodValue::Record(Rc::new(ZodRecord::new(declaration.span.start, members)))
    }

    fn read_member(&mut self, object: &ZodValue<'a>, name: &str, span: Span) -> ZodValue<'a> {
        match object {
            ZodValue::Unreadable(problems) => ZodValue::Unreadable(problems.clone()),
            ZodValue::Zod(path) => self.zod_member(path, name),
            ZodValue::Global(path) => {
                globals::member(path, name).unwrap_or_else(|| computed(span, &format!("`{path}.{name}`")))
            }
            ZodValue::Schema(schema) => self
                .library
                .property(*schema, name, span.start)
                .unwrap_or_else(|| computed(span, &format!("`.{name}` of a schema"))),
            ZodValue::Record(record) => match record.get(name) {
                Some(member) if member.getter => match member.value {
                    ZodValue::Function(function) => self.call_function(function),
                    _ => ZodValue::Undefined,
                },
                Some(member) => member.value.clone(),
                None => into_value(Err(ZodProblem::new(
                    span.start,
                    "unknown_member",
                    format!("the object has no member `{name}`"),
                )
                .into())),
            },
            ZodValue::List(values) if name == "length" => ZodValue::Number(count(values.len())),
            ZodValue::List(values) => match name.parse().ok().and_then(|index: usize| values.get(index)) {
                Some(value) => value.clone(),
                None => computed(span, &format!("`.{name}` of an array")),
            },
            ZodValue::Text(text) if name == "length" => ZodValue::Number(count(text.encode_utf16().count())),
            ZodValue::Regex(regex) if name == "source" => ZodValue::text(regex.source.as_str()),
            other => computed(span, &format!("`.{name}` of {}", other.kind())),
        }
    }

    fn zod_member(&mut self, path: &str, name: &str) -> ZodValue<'a> {
        // `import zod from "zod"` also has itself as `zod.z`.
        if path.is_empty() && matches!(name, "z" | "default") {
            return ZodValue::Zod("".into());
        }
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        self.library.constant(&path).unwrap_or_else(|| ZodValue::Zod(path.into()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "lengths of literals are far below 2^53")]
fn count(length: usize) -> f64 {
    length as f64
}

pub(super) fn into_value<'a>(result: ReadSchema<ZodValue<'a>>) -> ZodValue<'a> {
    result.unwrap_or_else(ZodValue::Unreadable)
}

fn unreadable<'a>(span: Span, code: &'static str, message: impl Into<String>) -> ZodValue<'a> {
    ZodValue::Unreadable(Problems::from(ZodProblem::new(span.start, code, message)))
}

fn too_long<'a>(span: Span) -> ZodValue<'a> {
    unreadable(span, "value_too_large", "this text or list is too long to be read")
}

fn lone_surrogate<'a>(span: Span) -> ZodValue<'a> {
    unreadable(span, "lone_surrogate", "half of a surrogate pair cannot be written in JSON")
}

fn computed_problem(span: Span, what: &str) -> ZodProblem {
    ZodProblem::new(span.start, "computed_value", format!("{what} is known only when the program runs"))
}

fn computed<'a>(span: Span, what: &str) -> ZodValue<'a> {
    ZodValue::Unreadable(computed_problem(span, what).into())
}
