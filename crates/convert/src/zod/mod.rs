//! Zod schemas and tools in TypeScript or JavaScript source: those of LangChain, of MCP servers, of the Vercel AI SDK
//! and of Mastra.
//!
//! [`convert`] reads a file and returns its tools; [`schema_to_json`] does the same for one
//! expression. The source is parsed, never run: a schema that only the running program knows is a
//! [`ZodFault`] with line and column, all faults come at once, and the other tools are still found. The JSON Schema is
//! what
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
mod files;
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

use crate::{FolderFiles, Warning, format::clip};
use fault::ZodProblem;
use files::SourceFiles;
use find::FoundSchemas;
use library::{ZodLibrary, ZodRemark, as_schema};
use module::Module;
use read::{OneVersion, ZodReader};

pub use crate::{ZodIo, ZodVersion};
pub use fault::ZodFault;
pub use find::ToolForm;

/// How to read a source.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZodOptions<'a> {
    /// The version that everything is read as. Without it, an import from `zod/v3` or `zod/v4` says so itself.
    pub version: Option<ZodVersion>,
    /// The version that `import … from "zod"` means; without it, Zod 3.
    pub installed: Option<ZodVersion>,
    /// What is asked for in place of a version, such as `latest`.
    pub unclear: Option<&'a str>,
    /// The side of a schema that is described. It matters for Zod 4 only: `zod-to-json-schema` describes the input.
    pub io: ZodIo,
    /// The files that relative imports may name.
    pub files: Option<&'a dyn FolderFiles>,
}

/// The tools of a source, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Converted {
    pub tools: Vec<FoundTool>,
    /// Why other tools could not be read.
    pub faults: Vec<ZodFault>,
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
/// When the source cannot be parsed. A tool that cannot be read is a fault of the result.
pub fn convert(source: &str, file_name: &str, options: ZodOptions<'_>) -> Result<Converted, Vec<ZodFault>> {
    read_file(source, options, |file| {
        let mut found = FoundSchemas::default();
        let mut remarks = file.remarks;
        for version in &file.versions {
            let only = OneVersion { read: *version, bare: bare_version(options) };
            let only = (file.versions.len() > 1).then_some(only);
            let mut reader = ZodReader::new(file.module, library(*version, options.io), only);
            let more = find::find(file.module, file.files.source_end, &mut reader);
            remarks.extend(reader.assumed_zod.map(|offset| not_imported(offset, *version)));
            found.merge(more);
        }
        found.settle();
        remarks.extend(found.remarks);
        let remarks: Vec<_> = remarks.into_iter().map(|remark| file.files.remark_in_source(remark)).collect();
        let tools = found.tools.into_iter().map(|found| {
            let place = file.locator.place(found.offset as usize);
            FoundTool { tool: found.tool, line: place.line, column: place.column, form: found.form }
        });
        let problems = found.problems.into_iter().map(|problem| file.files.in_source(problem)).collect();
        Ok(Converted {
            tools: tools.collect(),
            faults: fault::locate_all(problems, file.locator),
            warnings: warnings(&remarks, file.locator, file_name),
        })
    })
}

/// The JSON Schema of one expression. Statements may precede it, and `z` need not be imported.
///
/// # Errors
/// Every fault of the source, in its order, if there is one.
pub fn schema_to_json(source: &str, version: ZodVersion, io: ZodIo) -> Result<ConvertedSchema, Vec<ZodFault>> {
    read_file(source, ZodOptions { version: Some(version), io, ..ZodOptions::default() }, |file| {
        let mut reader = ZodReader::new(file.module, library(version, io), None);
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

fn library<'a>(version: ZodVersion, io: ZodIo) -> Box<dyn ZodLibrary<'a> + 'a> {
    match version {
        ZodVersion::V3 => Box::new(v3::Zod3::default()),
        ZodVersion::V4 => Box::new(v4::Zod4::new(io)),
    }
}

/// A source that could be parsed.
struct ZodFile<'f, 'a> {
    module: &'f Module<'a>,
    program: &'a Program<'a>,
    files: &'f SourceFiles<'a>,
    /// One, or both if the source imports both.
    versions: Vec<ZodVersion>,
    remarks: Vec<ZodRemark>,
    locator: &'f Locator<'f>,
}

/// Parses a source within its [`limits`] and does `work` on it, on a stack that fits the deepest
/// source that they allow.
fn read_file<T: Send>(
    source: &str,
    options: ZodOptions<'_>,
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
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(vec![ZodProblem::new(0, "parser_failed", "the parser failed on this source")])),
            Err(_) => Err(vec![ZodProblem::new(0, "no_thread", "no thread could be started to read this source")]),
        }
    });
    result.map_err(|problems| problems.iter().map(|problem| problem.locate(&locator)).collect())
}

fn parse<T>(
    source: &str,
    options: ZodOptions<'_>,
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
    let files = &SourceFiles::new(&allocator, source, program, options.files);
    let module = &Module::new(&files.parsed);
    if let Some(offset) = module.too_deep {
        return Err(vec![ZodProblem::new(offset, "nested_too_deeply", "blocks and functions are nested too deeply")]);
    }
    let (versions, remarks) = choose_versions(module, options);
    work(ZodFile { module, program, files, versions, remarks, locator })
}

/// An import path that names a version decides for what is imported by it; the caller determines what `zod` alone
/// means.
fn choose_versions(module: &Module<'_>, options: ZodOptions<'_>) -> (Vec<ZodVersion>, Vec<ZodRemark>) {
    let imported = |path: &str| module.imports.iter().find(|(module, _)| *module == path).map(|(_, offset)| *offset);
    let by_path: Vec<(ZodVersion, u32)> = [("zod/v3", ZodVersion::V3), ("zod/v4", ZodVersion::V4)]
        .into_iter()
        .filter_map(|(path, version)| Some((version, imported(path)?)))
        .collect();
    if let Some(asked) = options.version {
        let differs = by_path.iter().filter(|(by_path, _)| *by_path != asked).map(|(by_path, offset)| {
            let message = format!("the import says Zod {}, but Zod {} was asked for", name(*by_path), name(asked));
            ZodRemark { offset: *offset, code: "zod_version_differs", message }
        });
        return (vec![asked], differs.collect());
    }
    let bare = bare_version(options);
    let mut versions: Vec<ZodVersion> = by_path.into_iter().map(|(version, _)| version).collect();
    if versions.is_empty() || (imported("zod").is_some() && !versions.contains(&bare)) {
        versions.push(bare);
    }
    let assumed = options.unclear.filter(|_| options.installed.is_none()).and_then(|unclear| {
        let version = name(bare);
        let message = format!(
            "the package.json asks for zod `{}`, which names no version: it is read as Zod {version} (`--zod` names one)",
            clip(unclear)
        );
        Some(ZodRemark { offset: imported("zod")?, code: "zod_version_assumed", message })
    });
    (versions, assumed.into_iter().collect())
}

/// The version that `zod` alone means.
fn bare_version(options: ZodOptions<'_>) -> ZodVersion {
    options.installed.unwrap_or(ZodVersion::V3)
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
