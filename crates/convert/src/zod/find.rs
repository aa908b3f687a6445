//! Finds the tools of a source.
//!
//! Three forms are certain: `new DynamicStructuredTool({…})` and `new DynamicTool({…})`, `tool(fn, {…})`, and a class
//! that extends `StructuredTool` or `Tool`. A plain object counts if it has a `name`, a `description` and either a
//! `schema` or a function. A certain form must be readable; a plain object with a computed name is only reported,
//! because it may not be a tool at all.

use std::collections::{HashMap, HashSet};

use bosun_core::{Binding, Tool};
use oxc_ast::ast::{Argument, Class, ClassElement, Expression, ObjectExpression, ObjectPropertyKind, Span};
use oxc_span::GetSpan;
use serde_json::{Value as Json, json};

use super::{
    fault::{FaultGather, Problems, ReadSchema, ZodProblem},
    library::ZodRemark,
    module::{Candidate, Meaning, Module, ThroughCalls, root_name},
    read::ZodReader,
    value::{ZodRecord, ZodValue},
};

/// The form in which a tool was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolForm {
    /// `new DynamicStructuredTool({…})`
    DynamicStructuredTool,
    /// `new DynamicTool({…})`, which takes one string as `input`
    DynamicTool,
    /// `tool(fn, {…})`
    ToolFunction,
    /// `class … extends StructuredTool`
    Class,
    /// `{name, description, schema, call}`
    Object,
}

/// A tool with its byte offset, before line and column are known.
pub(super) struct FoundSchema {
    pub(super) tool: Tool,
    pub(super) offset: u32,
    pub(super) form: ToolForm,
}

#[derive(Default)]
pub(super) struct FoundSchemas {
    pub(super) tools: Vec<FoundSchema>,
    pub(super) problems: Vec<ZodProblem>,
    pub(super) remarks: Vec<ZodRemark>,
}

pub(super) fn find<'a>(module: &Module<'a>, reader: &mut ZodReader<'_, 'a>) -> FoundSchemas {
    let mut finder = Finder {
        module,
        reader,
        findings: FoundSchemas::default(),
        claimed: HashSet::new(),
        made_by_zod: HashMap::new(),
        inside_zod: Vec::new(),
    };
    // Options written as a constant look like a plain object, so the certain forms go first.
    for candidate in &module.candidates {
        finder.certain(*candidate);
    }
    for candidate in &module.candidates {
        if let Candidate::Object(object) = candidate {
            finder.plain(object);
        }
    }
    let mut findings = finder.findings;
    findings.tools.sort_by_key(|found| found.offset);
    findings.problems.sort_by_key(|problem| problem.offset);
    findings.problems.dedup();
    findings
}

struct Finder<'f, 'm, 'a> {
    module: &'f Module<'a>,
    reader: &'f mut ZodReader<'m, 'a>,
    findings: FoundSchemas,
    /// Object literals that are the options of a tool.
    claimed: HashSet<u32>,
    /// Which declarations hold Zod or a value that Zod made, as far as they were resolved.
    made_by_zod: HashMap<usize, bool>,
    /// The outermost calls of Zod: an object in their arguments is a shape, not a tool.
    inside_zod: Vec<Span>,
}

impl<'a> Finder<'_, '_, 'a> {
    fn certain(&mut self, candidate: Candidate<'a>) {
        match candidate {
            Candidate::New(new) => {
                let form = match self.imported_name(&new.callee) {
                    Some("DynamicStructuredTool") => ToolForm::DynamicStructuredTool,
                    Some("DynamicTool") => ToolForm::DynamicTool,
                    _ => return,
                };
                self.options(new.arguments.first(), new.span, form);
            }
            Candidate::Call(call) => {
                if self.is_zod(&call.callee) {
                    // Candidates come in the order in which they begin, so the outermost comes first.
                    if self.inside_zod.last().is_none_or(|last| last.end <= call.span.start) {
                        self.inside_zod.push(call.span);
                    }
                } else if self.imported_name(&call.callee) == Some("tool") {
                    match call.arguments.as_slice() {
                        [_, options, ..] => self.options(Some(options), call.span, ToolForm::ToolFunction),
                        _ => self.remark(
                            call.span,
                            "tool_not_read",
                            "`tool(…)` with one argument names no tool and is not read",
                        ),
                    }
                }
            }
            Candidate::Class(class) => self.class(class),
            Candidate::Object(_) => {}
        }
    }

    fn remark(&mut self, span: Span, code: &'static str, message: impl Into<String>) {
        self.findings.remarks.push(ZodRemark { offset: span.start, code, message: message.into() });
    }

    /// The original name of a callee: `import { tool as t }` makes `t` mean `tool`.
    fn imported_name(&self, callee: &Expression<'a>) -> Option<&'a str> {
        match callee {
            Expression::Identifier(name) => match self.module.meaning(name.name.as_str(), name.span.start) {
                Some(Meaning::Import { imported, .. }) => Some(imported),
                None => Some(name.name.as_str()),
                Some(_) => None,
            },
            Expression::StaticMemberExpression(member) => match &member.object {
                // `tools.DynamicTool` of a namespace import, but not a method of any other object.
                Expression::Identifier(object) => match self.module.meaning(object.name.as_str(), object.span.start) {
                    Some(Meaning::Import { imported: "*" | "default", .. }) => Some(member.property.name.as_str()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a call is one of Zod or of a value that Zod made.
    fn is_zod(&mut self, callee: &Expression<'a>) -> bool {
        let Some((name, offset)) = root_name(callee, ThroughCalls::Yes) else { return false };
        let Some(index) = self.module.index_of(name, offset) else { return name == "z" };
        if let Some(known) = self.made_by_zod.get(&index) {
            return *known;
        }
        // A name that is defined by itself is not Zod's.
        self.made_by_zod.insert(index, false);
        let by_zod = match self.module.declaration(index).map(|declaration| declaration.meaning) {
            Some(Meaning::Import { module, .. }) => module == "zod" || module.starts_with("zod/"),
            Some(
                Meaning::Value(Expression::CallExpression(call)) | Meaning::Member(Expression::CallExpression(call), _),
            ) => {
                matches!(&call.callee, Expression::Identifier(name) if name.name == "require")
                    || self.is_zod(&call.callee)
            }
            _ => false,
        };
        self.made_by_zod.insert(index, by_zod);
        by_zod
    }

    fn options(&mut self, argument: Option<&'a Argument<'a>>, span: Span, form: ToolForm) {
        let value =
            argument.and_then(|argument| argument.as_expression()).map(|expression| self.reader.read(expression));
        match value {
            Some(ZodValue::Record(record)) => {
                self.claimed.insert(record.offset);
                let found = self.tool(&record, span, form);
                self.keep(found);
            }
            Some(ZodValue::Unreadable(problems)) => self.keep(Err(problems)),
            _ => {
                let problem = ZodProblem::new(
                    span.start,
                    "options_missing",
                    "a tool is made from an object with `name` and `description`",
                );
                self.keep(Err(problem.into()));
            }
        }
    }

    fn keep(&mut self, found: ReadSchema<FoundSchema>) {
        match found {
            Ok(found) => self.findings.tools.push(found),
            Err(problems) => self.findings.problems.extend(problems.iter().cloned()),
        }
    }

    fn tool(&mut self, record: &ZodRecord<'a>, span: Span, form: ToolForm) -> ReadSchema<FoundSchema> {
        let member = |name: &str| record.get(name).filter(|member| !member.getter);
        let mut gather = FaultGather::default();
        let name = gather.take(match member("name").map(|member| &member.value) {
            Some(ZodValue::Text(name)) => Ok(name.as_ref().to_owned()),
            Some(ZodValue::Unreadable(problems)) => Err(problems.clone()),
            Some(other) => Err(ZodProblem::new(
                span.start,
                "name_unreadable",
                format!("the name of a tool is a string, not {}", other.kind()),
            )
            .into()),
            None => Err(ZodProblem::new(span.start, "name_missing", "the tool has no `name`").into()),
        });
        let description = gather.take(match member("description").map(|member| &member.value) {
            Some(ZodValue::Text(description)) => Ok(Some(description.as_ref().to_owned())),
            Some(ZodValue::Undefined) | None => Ok(None),
            Some(ZodValue::Unreadable(problems)) => Err(problems.clone()),
            Some(other) => {
                let message = format!("the description of a tool is a string, not {}", other.kind());
                Err(ZodProblem::new(span.start, "description_unreadable", message).into())
            }
        });
        let schema = member("schema").map(|member| (member.value.clone(), member.offset));
        let parameters = self.parameters(schema, form);
        let parameters = gather.take(parameters);
        let (Some(name), Some(description), Some(parameters)) = (name, description, parameters) else {
            return gather.finish(()).and_then(|()| Err(unread(span)));
        };
        if description.is_none() {
            self.remark(span, "description_missing", format!("the tool `{name}` has no description"));
        }
        let tool = Tool::new(name, description.unwrap_or_default(), parameters, Binding::External);
        Ok(FoundSchema { tool, offset: span.start, form })
    }

    fn parameters(&mut self, schema: Option<(ZodValue<'a>, u32)>, form: ToolForm) -> ReadSchema<Json> {
        match schema {
            None | Some((ZodValue::Undefined | ZodValue::Null, _)) => Ok(match form {
                // LangChain gives these a schema of their own: one optional string.
                ToolForm::DynamicTool | ToolForm::ToolFunction => {
                    json!({ "type": "object", "properties": { "input": { "type": "string" } } })
                }
                _ => json!({ "type": "object", "properties": {} }),
            }),
            Some((ZodValue::Schema(schema), offset)) => {
                let written = self.reader.write(schema)?;
                self.findings.remarks.extend(written.remarks);
                if written.schema.get("type") != Some(&json!("object")) {
                    let message = "the schema is not an object, which the parameters of a tool must be";
                    self.findings.remarks.push(ZodRemark {
                        offset,
                        code: "parameters_not_object",
                        message: message.to_owned(),
                    });
                }
                Ok(written.schema)
            }
            Some((ZodValue::Unreadable(problems), _)) => Err(problems),
            // LangChain also accepts a JSON Schema as it is.
            Some((value @ ZodValue::Record(_), offset)) => Ok(value.to_json(offset)?.unwrap_or_else(|| json!({}))),
            Some((other, offset)) => {
                let message = format!("a Zod schema or a JSON Schema is expected, not {}", other.kind());
                Err(ZodProblem::new(offset, "schema_unreadable", message).into())
            }
        }
    }

    fn plain(&mut self, object: &'a ObjectExpression<'a>) {
        let has = |name: &str| {
            object.properties.iter().any(|property| match property {
                ObjectPropertyKind::ObjectProperty(property) => {
                    !property.computed && property.key.is_specific_static_name(name)
                }
                ObjectPropertyKind::SpreadProperty(_) => false,
            })
        };
        let callable = ["schema", "call", "func", "invoke"].into_iter().any(has);
        let before = self.inside_zod.partition_point(|call| call.start <= object.span.start);
        let inside_zod = before
            .checked_sub(1)
            .and_then(|last| self.inside_zod.get(last))
            .is_some_and(|call| object.span.end <= call.end);
        if !(has("name") && has("description") && callable) || inside_zod || self.claimed.contains(&object.span.start) {
            return;
        }
        match self.reader.read_object_literal(object) {
            ZodValue::Record(record) => match record.get("name").map(|member| &member.value) {
                Some(ZodValue::Text(_)) => {
                    let found = self.tool(&record, object.span, ToolForm::Object);
                    self.keep(found);
                }
                Some(ZodValue::Unreadable(_)) => {
                    self.remark(
                        object.span,
                        "tool_not_read",
                        "an object that looks like a tool has a computed name and is left out",
                    );
                }
                _ => {}
            },
            ZodValue::Unreadable(_) => {
                self.remark(
                    object.span,
                    "tool_not_read",
                    "an object that looks like a tool has computed members and is left out",
                );
            }
            _ => {}
        }
    }

    /// `class X extends StructuredTool { name = "x"; … }`
    fn class(&mut self, class: &'a Class<'a>) {
        let Some(heritage) = &class.heritage else { return };
        if !matches!(self.imported_name(&heritage.expression), Some("StructuredTool" | "Tool")) {
            return;
        }
        let mut members = Vec::new();
        for element in &class.body.body {
            let ClassElement::PropertyDefinition(property) = element else { continue };
            let (Ok(key), false) = (self.reader.read_key(&property.key, property.computed), property.r#static) else {
                continue;
            };
            if let Some(value) = &property.value
                && matches!(key.as_str(), "name" | "description" | "schema")
            {
                let value = self.reader.read(value);
                members.push((key, super::value::ZodMember { value, offset: property.span.start, getter: false }));
            }
        }
        let is_string_tool = self.imported_name(&heritage.expression) == Some("Tool");
        // An abstract base class, or one whose name comes from its constructor, defines no tool by itself.
        if !members.iter().any(|(key, _)| key == "name") {
            self.remark(class.span, "tool_not_read", "a tool class without a constant `name` is left out");
            return;
        }
        let record = ZodRecord::new(class.span.start, members);
        let form = if is_string_tool { ToolForm::DynamicTool } else { ToolForm::Class };
        let found = self.tool(&record, class.span(), form).map(|found| FoundSchema { form: ToolForm::Class, ..found });
        self.keep(found);
    }
}

fn unread(span: Span) -> Problems {
    ZodProblem::new(span.start, "tool_unreadable", "the tool cannot be read").into()
}
