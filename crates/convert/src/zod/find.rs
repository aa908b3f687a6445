//! Finds the tools of a source.
//!
//! The forms that are certain: `new DynamicStructuredTool({…})` and `new DynamicTool({…})`, `tool(fn, {…})` and a class
//! that extends `StructuredTool` or `Tool` (LangChain); `server.registerTool(name, {…}, fn)` and `server.tool(name, …,
//! fn)` (MCP); `tool({…})` (the Vercel AI SDK); `createTool({…})` (Mastra). A plain object counts if it has a `name`, a `description` and either a
//! `schema` or a function. A certain form must be readable; a plain object with a computed name is only reported,
//! because it may not be a tool at all.

use std::collections::{HashMap, HashSet};

use bosun_core::{Binding, Tool, tool::Annotations};
use oxc_ast::ast::{
    Argument, CallExpression, Class, ClassElement, Expression, ObjectExpression, ObjectPropertyKind, Span,
};
use oxc_span::GetSpan;
use serde_json::{Value as Json, json};

use super::{
    fault::{FaultCollector, Problems, ReadSchema, ZodProblem},
    library::ZodRemark,
    module::{Candidate, Module, NameBinding, ThroughCalls, root_name},
    read::{OTHER_VERSION, ZodReader},
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
    /// `server.registerTool("name", {…}, fn)`
    RegisterTool,
    /// `server.tool("name", "description", {…}, fn)`
    ServerTool,
    /// `tool({description, inputSchema, execute})`, named after the member or variable that holds it
    ToolObject,
    /// `createTool({id, description, inputSchema, execute})`
    CreateTool,
}

impl ToolForm {
    /// The members that may hold the schema of the arguments.
    fn schema_keys(self) -> &'static [&'static str] {
        match self {
            Self::RegisterTool | Self::ServerTool | Self::CreateTool => &["inputSchema"],
            Self::ToolObject => &["inputSchema", "parameters", "schema"],
            _ => &["schema"],
        }
    }

    /// Whether an object of schemas is taken as `z.object` of it.
    fn takes_shapes(self) -> bool {
        matches!(self, Self::RegisterTool | Self::ServerTool)
    }
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

impl FoundSchemas {
    /// Adds what was found with another version of Zod: a tool is read by the version that its schema is made with. If
    /// that version cannot read it either, the problems that count are those of that version.
    pub(super) fn merge(&mut self, mut other: Self) {
        let (ours, theirs) = (self.version_faults(), other.version_faults());
        let keep = |is_other: &HashMap<u32, bool>, elsewhere: &HashMap<u32, bool>, problem: &ZodProblem| {
            let tool = problem.tool.as_ref();
            !tool.is_some_and(|tool| is_other.get(tool) == Some(&true) && elsewhere.get(tool) == Some(&false))
        };
        self.problems.retain(|problem| keep(&ours, &theirs, problem));
        other.problems.retain(|problem| keep(&theirs, &ours, problem));
        for tool in other.tools {
            if !self.tools.iter().any(|known| known.offset == tool.offset) {
                self.tools.push(tool);
            }
        }
        self.problems.extend(other.problems);
        self.remarks.extend(other.remarks);
    }

    /// The tools that have problems, and whether one of them is that a schema belongs to the other version.
    fn version_faults(&self) -> HashMap<u32, bool> {
        let mut tools = HashMap::new();
        for problem in &self.problems {
            if let Some(tool) = problem.tool {
                *tools.entry(tool).or_default() |= problem.code == OTHER_VERSION;
            }
        }
        tools
    }

    /// Drops the problems of tools that the other version could read.
    pub(super) fn settle(&mut self) {
        self.tools.sort_by_key(|found| found.offset);
        let read: HashSet<u32> = self.tools.iter().map(|found| found.offset).collect();
        self.problems.retain(|problem| problem.tool.is_none_or(|tool| !read.contains(&tool)));
    }
}

/// Finds the tools of a source, which ends at `end`; behind it are the files that it imports.
pub(super) fn find<'a>(module: &Module<'a>, end: usize, reader: &mut ZodReader<'_, 'a>) -> FoundSchemas {
    let mut finder = Finder {
        module,
        reader,
        findings: FoundSchemas::default(),
        claimed: HashSet::new(),
        made_by_zod: HashMap::new(),
        inside_zod: Vec::new(),
    };
    // Options written as a constant look like a plain object, so the certain forms go first.
    let own = || module.candidates.iter().filter(|candidate| (candidate.offset() as usize) < end);
    for candidate in own() {
        finder.certain(*candidate);
    }
    for candidate in own() {
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
                    return;
                }
                // `server.tool("name", …)`, where `server` may be imported.
                let is_named = matches!(
                    call.arguments.first().and_then(|argument| argument.as_expression()),
                    Some(Expression::StringLiteral(_) | Expression::TemplateLiteral(_))
                );
                let callee = if is_named { None } else { self.imported_name(&call.callee) };
                match (callee, call.arguments.as_slice()) {
                    (Some("tool"), [_, options, ..]) => self.options(Some(options), call.span, ToolForm::ToolFunction),
                    (Some("tool"), [options]) => self.options(Some(options), call.span, ToolForm::ToolObject),
                    (Some("createTool"), [options, ..]) => self.options(Some(options), call.span, ToolForm::CreateTool),
                    _ => self.server_call(call),
                }
            }
            Candidate::Class(class) => self.class(class),
            Candidate::Object(_) => {}
        }
    }

    /// `server.registerTool(…)` and `server.tool(…)`, whatever the server is called.
    fn server_call(&mut self, call: &'a CallExpression<'a>) {
        let Expression::StaticMemberExpression(callee) = &call.callee else { return };
        let arguments: Vec<&'a Expression<'a>> =
            call.arguments.iter().filter_map(|argument| argument.as_expression()).collect();
        match (callee.property.name.as_str(), arguments.as_slice()) {
            ("registerTool", [name, options, ..]) => {
                let name = self.reader.read(name);
                match self.reader.read(options) {
                    ZodValue::Record(record) => {
                        self.claimed.insert(record.offset);
                        let found = self.tool_named(&record, call.span, ToolForm::RegisterTool, Some(name));
                        self.keep(found, call.span);
                    }
                    ZodValue::Unreadable(problems) => self.keep(Err(problems), call.span),
                    _ => {}
                }
            }
            // The last argument is the function. A method `tool` of anything else has no name in front.
            ("tool", [name, middle @ .., last]) => {
                let value = self.reader.read(name);
                match value {
                    ZodValue::Text(_) => {}
                    // Without an SDK of MCP, this is a tool only if it ends as one does: with a function.
                    ZodValue::Unreadable(problems) if self.imports_mcp() || is_function(last) => {
                        return self.keep(Err(problems), call.span);
                    }
                    ZodValue::Unreadable(_) => {
                        let message = "a call that looks like a tool of MCP has a computed name and is left out";
                        return self.remark(call.span, "tool_not_read", message);
                    }
                    _ => return,
                }
                let name = value;
                let mut members = Vec::new();
                for (index, argument) in middle.iter().enumerate() {
                    let offset = argument.span().start;
                    let value = self.reader.read(argument);
                    let key = match &value {
                        ZodValue::Text(_) if index == 0 => "description",
                        ZodValue::Record(record) if is_shape(record) => "inputSchema",
                        ZodValue::Record(_) => "annotations",
                        _ => "inputSchema",
                    };
                    if !members.iter().any(|(known, _)| known == key) {
                        members.push((key.to_owned(), super::value::ZodMember { value, offset, getter: false }));
                    }
                }
                let record = ZodRecord::new(call.span.start, members);
                let found = self.tool_named(&record, call.span, ToolForm::ServerTool, Some(name));
                self.keep(found, call.span);
            }
            _ => {}
        }
    }

    /// Whether the source imports an SDK of MCP.
    fn imports_mcp(&self) -> bool {
        self.module.imports.iter().any(|(module, _)| module.starts_with("@modelcontextprotocol/"))
    }

    fn remark(&mut self, span: Span, code: &'static str, message: impl Into<String>) {
        self.findings.remarks.push(ZodRemark { offset: span.start, code, message: message.into() });
    }

    /// The original name of a callee: `import { tool as t }` makes `t` mean `tool`.
    fn imported_name(&self, callee: &Expression<'a>) -> Option<&'a str> {
        match callee {
            Expression::Identifier(name) => match self.module.binding(name.name.as_str(), name.span.start) {
                Some(NameBinding::Import { imported, .. }) => Some(imported),
                None => Some(name.name.as_str()),
                Some(_) => None,
            },
            Expression::StaticMemberExpression(member) => match &member.object {
                // `tools.DynamicTool` of a namespace import, but not a method of any other object.
                Expression::Identifier(object) => match self.module.binding(object.name.as_str(), object.span.start) {
                    Some(NameBinding::Import { imported: "*" | "default", .. }) => Some(member.property.name.as_str()),
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
        let by_zod = match self.module.declaration(index).map(|declaration| declaration.binding) {
            Some(NameBinding::Import { module, .. }) => module == "zod" || module.starts_with("zod/"),
            Some(
                NameBinding::Value(Expression::CallExpression(call))
                | NameBinding::Member(Expression::CallExpression(call), _),
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
                self.keep(found, span);
            }
            Some(ZodValue::Unreadable(problems)) => self.keep(Err(problems), span),
            // `tool(name)` of another library.
            _ if form == ToolForm::ToolObject => {}
            _ => {
                let problem = ZodProblem::new(
                    span.start,
                    "options_missing",
                    "a tool is made from an object with `name` and `description`",
                );
                self.keep(Err(problem.into()), span);
            }
        }
    }

    fn keep(&mut self, found: ReadSchema<FoundSchema>, span: Span) {
        match found {
            Ok(found) => self.findings.tools.push(found),
            Err(problems) => {
                let of_tool = |problem: &ZodProblem| ZodProblem { tool: Some(span.start), ..problem.clone() };
                self.findings.problems.extend(problems.iter().map(of_tool));
            }
        }
    }

    fn tool(&mut self, record: &ZodRecord<'a>, span: Span, form: ToolForm) -> ReadSchema<FoundSchema> {
        let key = if form == ToolForm::CreateTool { "id" } else { "name" };
        let name = record.get(key).filter(|member| !member.getter).map(|member| member.value.clone());
        let name = match (name, self.module.holders.get(&span.start)) {
            (None, Some(holder)) if form == ToolForm::ToolObject => {
                if !holder.is_member {
                    let message = format!("the tool is named `{}` after its variable", holder.name);
                    self.remark(span, "name_assumed", message);
                }
                Some(ZodValue::text(holder.name))
            }
            (name, _) => name,
        };
        self.tool_named(record, span, form, name)
    }

    fn tool_named(
        &mut self,
        record: &ZodRecord<'a>,
        span: Span,
        form: ToolForm,
        name: Option<ZodValue<'a>>,
    ) -> ReadSchema<FoundSchema> {
        let member = |name: &str| record.get(name).filter(|member| !member.getter);
        let mut gather = FaultCollector::default();
        let name = gather.take(match &name {
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
        let schema = form.schema_keys().iter().find_map(|key| member(key));
        let schema = schema.map(|member| (member.value.clone(), member.offset));
        let parameters = self.parameters(schema, form);
        let parameters = gather.take(parameters);
        let (Some(name), Some(description), Some(parameters)) = (name, description, parameters) else {
            return gather.finish(()).and_then(|()| Err(unread(span)));
        };
        if description.is_none() {
            self.remark(span, "description_missing", format!("the tool `{name}` has no description"));
        }
        let mut tool = Tool::new(name, description.unwrap_or_default(), parameters, Binding::External);
        let text = |value: Option<&ZodValue<'a>>| match value {
            Some(ZodValue::Text(text)) => Some(text.as_ref().to_owned()),
            _ => None,
        };
        tool.display_name = text(member("title").map(|member| &member.value));
        if let Some(ZodValue::Record(hints)) = member("annotations").map(|member| &member.value) {
            let hint = |key: &str| match hints.get(key).map(|member| &member.value) {
                Some(ZodValue::Bool(hint)) => Some(*hint),
                _ => None,
            };
            tool.annotations = Annotations {
                read_only_hint: hint("readOnlyHint"),
                destructive_hint: hint("destructiveHint"),
                idempotent_hint: hint("idempotentHint"),
                open_world_hint: hint("openWorldHint"),
            };
            tool.display_name = tool.display_name.or_else(|| text(hints.get("title").map(|member| &member.value)));
        }
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
            Some((ZodValue::Record(record), _)) if form.takes_shapes() && is_shape(&record) => {
                let schema = self.reader.object_of(record)?;
                let written = self.reader.write(schema)?;
                self.findings.remarks.extend(written.remarks);
                Ok(written.schema)
            }
            Some((ZodValue::Schema(schema), offset)) => {
                let written = self.reader.write(schema)?;
                self.findings.remarks.extend(written.remarks);
                if form == ToolForm::ToolFunction && written.schema.get("type") == Some(&json!("string")) {
                    // LangChain makes a tool of one string of it.
                    return Ok(json!({ "type": "object", "properties": { "input": { "type": "string" } } }));
                }
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
                    self.keep(found, object.span);
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
        self.keep(found, class.span());
    }
}

/// Whether an object is the shape of a schema: every member is one, or cannot be read.
fn is_shape(record: &ZodRecord<'_>) -> bool {
    record
        .iter()
        .all(|(_, member)| member.getter || matches!(member.value, ZodValue::Schema(_) | ZodValue::Unreadable(_)))
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(expression, Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_))
}

fn unread(span: Span) -> Problems {
    ZodProblem::new(span.start, "tool_unreadable", "the tool cannot be read").into()
}
