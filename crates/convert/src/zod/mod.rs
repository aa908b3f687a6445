//! Zod schemas and LangChain tools in TypeScript or JavaScript source.
//!
//! [`convert`] reads a file and returns its tools; [`schema_to_json`] does the same for one
//! expression. The source is parsed, never run: a schema that only the running program knows is a
//! [`ZodFault`] with line and column, and all faults come at once. The JSON Schema is what
//! `zod-to-json-schema` gives for Zod 3 (everything inlined, no `$schema`, extra keys mentioned only
//! by `.strict()` and `.catchall()`) and what `z.toJSONSchema` gives for Zod 4, key for key; the
//! corpus in `fixtures/zod` holds both to it.
//!
//! ```
//! use bosun_convert::zod;
//!
//! let source = r#"
//!     import { z } from "zod";
//!     export const calculator = {
//!         name: "calculator",
//!         description: "Perform mathematical calculations",
//!         schema: z.object({ expression: z.string().describe("Mathematical expression to evaluate") }),
//!         call: async (input) => evaluate(input),
//!     };
//! "#;
//! let converted = zod::convert(source, "tools.ts", zod::ZodOptions::default()).unwrap();
//! assert_eq!(converted.tools[0].tool.name, "calculator");
//! assert_eq!(converted.tools[0].tool.parameters["required"][0], "expression");
//! ```

mod fault;
mod find;
mod globals;
mod library;
mod limits;
mod module;
mod probe;
mod read;
mod v3;
mod v4;
mod value;

#[cfg(test)]
mod tests;

use bosun_core::Tool;
use oxc_allocator::Allocator;
use oxc_ast::ast::{Expression, Program, Statement};
use oxc_parser::Parser;
use oxc_span::{GetSpan, SourceType};
use serde_json::Value as Json;

use bosun_reading::Locator;

use crate::Warning;
use fault::ZodProblem;
use find::FoundSchemas;
use library::{ZodLibrary, ZodRemark, as_schema};
use module::Module;
use read::ZodReader;

pub use crate::ZodVersion;
pub use fault::ZodFault;
pub use find::ToolForm;

/// How to read a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZodOptions {
    /// The version behind `import … from "zod"`. Without it, an import from `zod/v4` means Zod 4 and
    /// everything else Zod 3.
    pub version: Option<ZodVersion>,
}

/// The tools of a source, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    pub tools: Vec<FoundTool>,
    pub warnings: Vec<Warning>,
}

/// A tool and where it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundTool {
    pub tool: Tool,
    pub line: usize,
    pub column: usize,
    pub form: ToolForm,
}

/// A JSON Schema and what had to be assumed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertedSchema {
    pub schema: Json,
    pub warnings: Vec<Warning>,
}

/// Reads the tools of a TypeScript or JavaScript file. `file_name` is used in warnings only.
///
/// # Errors
/// Every fault of the source, in its order, if there is one.
pub fn convert(source: &str, file_name: &str, options: ZodOptions) -> Result<Converted, Vec<ZodFault>> {
    read_file(source, options, |file| {
        let mut reader = ZodReader::new(file.module, library(file.version));
        let FoundSchemas { tools, problems, remarks } = find::find(file.module, &mut reader);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut remarks = [file.remarks, remarks].concat();
        remarks.extend(reader.assumed_zod.map(|offset| not_imported(offset, file.version)));
        if tools.is_empty() {
            remarks.push(ZodRemark { offset: 0, code: "no_tools", message: "no tool was found".to_owned() });
        }
        let tools = tools.into_iter().map(|found| {
            let place = file.locator.place(found.offset as usize);
            FoundTool { tool: found.tool, line: place.line, column: place.column, form: found.form }
        });
        Ok(Converted { tools: tools.collect(), warnings: warnings(&remarks, file.locator, file_name) })
    })
}

/// The JSON Schema of one expression. Statements may precede it, and `z` need not be imported.
///
/// # Errors
/// Every fault of the source, in its order, if there is one.
pub fn schema_to_json(source: &str, version: ZodVersion) -> Result<ConvertedSchema, Vec<ZodFault>> {
    read_file(source, ZodOptions { version: Some(version) }, |file| {
        let mut reader = ZodReader::new(file.module, library(file.version));
        let written = last_expression(file.program).and_then(|expression| {
            let value = reader.read(expression);
            let schema = as_schema(&value, expression.span().start)?;
            reader.write(schema)
        });
        let written = written.map_err(|problems| problems.iter().cloned().collect::<Vec<ZodProblem>>())?;
        let remarks = [file.remarks, written.remarks].concat();
        Ok(ConvertedSchema { schema: written.schema, warnings: warnings(&remarks, file.locator, "") })
    })
}

fn library<'a>(version: ZodVersion) -> Box<dyn ZodLibrary<'a> + 'a> {
    match version {
        ZodVersion::V3 => Box::new(v3::Zod3::default()),
        ZodVersion::V4 => Box::new(v4::Zod4::default()),
    }
}

/// A source that could be parsed.
struct ZodFile<'f, 'a> {
    module: &'f Module<'a>,
    program: &'a Program<'a>,
    version: ZodVersion,
    remarks: Vec<ZodRemark>,
    locator: &'f Locator<'f>,
}

/// Parses a source within its [`limits`] and does `work` on it, on a stack that fits the deepest
/// source that they allow.
fn read_file<T: Send>(
    source: &str,
    options: ZodOptions,
    work: impl for<'f, 'a> FnOnce(ZodFile<'f, 'a>) -> Result<T, Vec<ZodProblem>> + Send,
) -> Result<T, Vec<ZodFault>> {
    if let Err(problem) = limits::check(source) {
        // The lines of a source that is too long are not worth counting.
        let text = if source.len() > limits::LONGEST_SOURCE { "" } else { source };
        return Err(vec![problem.locate(&Locator::new(text))]);
    }
    let locator = Locator::new(source);
    let result = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("zod".to_owned()).stack_size(limits::STACK);
        match thread.spawn_scoped(scope, || parse(source, options, &locator, work)) {
            Ok(thread) => thread.join().unwrap_or_else(|_| {
                Err(vec![ZodProblem::new(0, "parser_failed", "the parser gave up on this source")])
            }),
            Err(_) => Err(vec![ZodProblem::new(0, "no_thread", "no thread could be started to read this source")]),
        }
    });
    result.map_err(|problems| problems.iter().map(|problem| problem.locate(&locator)).collect())
}

fn parse<T>(
    source: &str,
    options: ZodOptions,
    locator: &Locator<'_>,
    work: impl for<'f, 'a> FnOnce(ZodFile<'f, 'a>) -> Result<T, Vec<ZodProblem>>,
) -> Result<T, Vec<ZodProblem>> {
    let allocator = Allocator::default();
    // TypeScript is a superset of what JavaScript sources of tools use, and JSX is not read: its text
    // follows other lexical rules than the ones that bound the depth.
    let parsed = Parser::new(&allocator, source, SourceType::ts()).parse();
    let errors = parsed.diagnostics.errors().map(|error| {
        let offset = error.labels.first().map_or(0, |label| label.offset());
        ZodProblem::new(offset, "syntax_error", error.message.to_string())
    });
    let errors: Vec<ZodProblem> = errors.collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let program: &Program<'_> = allocator.alloc(parsed.program);
    let module = &Module::new(program);
    if let Some(offset) = module.too_deep {
        return Err(vec![ZodProblem::new(offset, "nested_too_deeply", "blocks and functions are nested too deeply")]);
    }
    let (version, remarks) = choose_version(module, options).map_err(|problem| vec![problem])?;
    work(ZodFile { module, program, version, remarks, locator })
}

/// Explicit paths speak for themselves; the option decides what `zod` alone means.
fn choose_version(module: &Module<'_>, options: ZodOptions) -> Result<(ZodVersion, Vec<ZodRemark>), ZodProblem> {
    let imported = |path: &str| module.imports.iter().find(|(module, _)| *module == path).map(|(_, offset)| *offset);
    let (three, four) = (imported("zod/v3"), imported("zod/v4"));
    let by_path = match (three, four) {
        (Some(three), Some(four)) => {
            let problem =
                ZodProblem::new(three.max(four), "mixed_zod_versions", "the file imports both `zod/v3` and `zod/v4`");
            return Err(problem.hint("convert the tools of each version from a file of their own"));
        }
        (Some(offset), None) => Some((ZodVersion::V3, offset)),
        (None, Some(offset)) => Some((ZodVersion::V4, offset)),
        (None, None) => None,
    };
    Ok(match (by_path, options.version) {
        (Some((by_path, offset)), Some(asked)) if by_path != asked => {
            let message = format!("the import says Zod {}, but Zod {} was asked for", name(by_path), name(asked));
            (asked, vec![ZodRemark { offset, code: "zod_version_differs", message }])
        }
        (Some((version, _)), _) => (version, Vec::new()),
        (None, asked) => (asked.unwrap_or(ZodVersion::V3), Vec::new()),
    })
}

fn name(version: ZodVersion) -> &'static str {
    match version {
        ZodVersion::V3 => "3",
        ZodVersion::V4 => "4",
    }
}

fn not_imported(offset: u32, version: ZodVersion) -> ZodRemark {
    let message = format!("`z` is not imported; it is read as Zod {}", name(version));
    ZodRemark { offset, code: "zod_not_imported", message }
}

fn last_expression<'a>(program: &'a Program<'a>) -> fault::ReadSchema<&'a Expression<'a>> {
    match program.body.last() {
        Some(Statement::ExpressionStatement(statement)) => Ok(&statement.expression),
        _ => Err(ZodProblem::new(
            program.span.end,
            "schema_missing",
            "the source must end with the expression of a schema",
        )
        .into()),
    }
}

fn warnings(remarks: &[ZodRemark], locator: &Locator<'_>, file_name: &str) -> Vec<Warning> {
    let mut remarks: Vec<&ZodRemark> = remarks.iter().collect();
    remarks.sort_by_key(|remark| remark.offset);
    remarks.dedup();
    let warning = |remark: &ZodRemark| {
        let place = locator.place(remark.offset as usize);
        let path = if file_name.is_empty() { String::new() } else { format!("{file_name}:") };
        Warning {
            path: format!("{path}{}:{}", place.line, place.column),
            code: remark.code,
            message: remark.message.clone(),
        }
    };
    remarks.into_iter().map(warning).collect()
}
