//! The files that a source imports, parsed with it.
//!
//! Relative imports are followed within the folder of the source and within bounds. Every file is parsed at an offset
//! of its own, behind the source, so that one index of names serves them all and a position identifies its file. A file
//! that cannot be read or parsed is not there: what is imported from it is a fault where it is used.

use std::collections::{HashMap, VecDeque};

use bosun_reading::Locator;
use oxc_allocator::Allocator;
use oxc_ast::ast::{Program, Statement};
use oxc_parser::Parser;
use oxc_span::SourceType;

use super::{ZodRemark, fault::ZodProblem, limits, module::ParsedFile};
use crate::{FolderFiles, openapi::bundle::resolved};

/// Maximum number of imported files, and of their bytes together.
const MOST_FILES: usize = 64;
const MOST_BYTES: usize = 1024 * 1024;

/// An imported file.
struct ImportedFile {
    path: String,
    /// Where its text begins and ends among all positions.
    start: usize,
    end: usize,
    text: String,
    /// Where the source imports it, or the file through which it comes.
    imported_at: u32,
}

/// The source and everything that it imports.
pub(super) struct SourceFiles<'a> {
    pub(super) parsed: Vec<ParsedFile<'a>>,
    imported: Vec<ImportedFile>,
    /// Where the source ends.
    pub(super) source_end: usize,
}

/// A file whose imports have to be followed.
struct PendingImports {
    index: usize,
    path: String,
    imported_at: Option<u32>,
}

impl<'a> SourceFiles<'a> {
    pub(super) fn new(
        allocator: &'a Allocator,
        source: &str,
        program: &'a Program<'a>,
        files: Option<&dyn FolderFiles>,
    ) -> Self {
        let mut all = Self {
            parsed: vec![ParsedFile { program, names: Vec::new() }],
            imported: Vec::new(),
            source_end: source.len(),
        };
        if let Some(files) = files {
            all.follow(allocator, files);
        }
        all
    }

    fn follow(&mut self, allocator: &'a Allocator, files: &dyn FolderFiles) {
        let mut known: HashMap<String, Option<usize>> = HashMap::new();
        let mut bytes = 0;
        let mut queue = VecDeque::from([PendingImports { index: 0, path: String::new(), imported_at: None }]);
        while let Some(pending) = queue.pop_front() {
            let Some(file) = self.parsed.get(pending.index) else { continue };
            for (module, offset) in relative_modules(file.program) {
                let Some(path) = resolved(&pending.path, module) else { continue };
                let imported_at = pending.imported_at.unwrap_or(offset);
                let index = match known.get(&path) {
                    Some(index) => *index,
                    None if self.imported.len() >= MOST_FILES => None,
                    None => {
                        let found =
                            candidates(&path).into_iter().find_map(|path| Some((files.read(&path).ok()?, path)));
                        let index = found.and_then(|(text, path)| {
                            bytes += text.len();
                            if bytes > MOST_BYTES { None } else { self.add(allocator, text, path, imported_at) }
                        });
                        known.insert(path, index);
                        if let Some(index) = index {
                            let path = self.imported.last().map(|file| file.path.clone()).unwrap_or_default();
                            queue.push_back(PendingImports { index, path, imported_at: Some(imported_at) });
                        }
                        index
                    }
                };
                if let (Some(index), Some(file)) = (index, self.parsed.get_mut(pending.index)) {
                    file.names.push((module.to_owned(), index));
                }
            }
        }
    }

    /// Parses a file behind all others; its index, unless it has a fault.
    fn add(&mut self, allocator: &'a Allocator, text: String, path: String, imported_at: u32) -> Option<usize> {
        // A program may begin with its interpreter; behind another file that would not be a comment.
        let text = if text.starts_with("#!") { text.replacen("#!", "//", 1) } else { text };
        limits::check(&text).ok()?;
        let start = self.imported.last().map_or(self.source_end, |file| file.end) + 1;
        // Spaces in front give every node its position, without a second pass over the tree.
        let shifted: &'a str = allocator.alloc_str(&format!("{}{text}", " ".repeat(start)));
        let parsed = Parser::new(allocator, shifted, SourceType::ts()).parse();
        if parsed.diagnostics.errors().next().is_some() {
            return None;
        }
        let mut program = parsed.program;
        program.span.start = u32::try_from(start).ok()?;
        self.imported.push(ImportedFile { path, start, end: shifted.len(), text, imported_at });
        self.parsed.push(ParsedFile { program: allocator.alloc(program), names: Vec::new() });
        Some(self.parsed.len() - 1)
    }

    /// A problem at a position of the source. One of another file is reported where that is imported.
    pub(super) fn in_source(&self, mut problem: ZodProblem) -> ZodProblem {
        if let Some((offset, place)) = self.place(problem.offset) {
            problem.message = format!("{place}: {}", problem.message);
            problem.offset = offset;
        }
        problem
    }

    /// The same for a remark.
    pub(super) fn remark_in_source(&self, mut remark: ZodRemark) -> ZodRemark {
        if let Some((offset, place)) = self.place(remark.offset) {
            remark.message = format!("{place}: {}", remark.message);
            remark.offset = offset;
        }
        remark
    }

    /// The import of the file that a position belongs to, and the position in that file.
    fn place(&self, offset: u32) -> Option<(u32, String)> {
        let offset = offset as usize;
        let file = self.imported.iter().find(|file| (file.start..=file.end).contains(&offset))?;
        let place = Locator::new(&file.text).place(offset - file.start);
        Some((file.imported_at, format!("in `{}`, line {}", file.path, place.line)))
    }
}

/// The relative modules that a file imports from or exports again.
fn relative_modules<'a>(program: &'a Program<'a>) -> Vec<(&'a str, u32)> {
    let module = |statement: &'a Statement<'a>| match statement {
        Statement::ImportDeclaration(import) if !import.import_kind.is_type() => {
            Some((import.source.value.as_str(), import.span.start))
        }
        Statement::ExportFromDeclaration(export) => Some((export.source.value.as_str(), export.span.start)),
        Statement::ExportAllDeclaration(export) => Some((export.source.value.as_str(), export.span.start)),
        _ => None,
    };
    program.body.iter().filter_map(module).filter(|(module, _)| module.starts_with('.')).collect()
}

/// The files that a path may mean: TypeScript names the JavaScript that a file becomes.
fn candidates(path: &str) -> Vec<String> {
    let mut candidates = Vec::new();
    for (javascript, typescript) in [(".js", ".ts"), (".mjs", ".mts"), (".cjs", ".cts")] {
        if let Some(stem) = path.strip_suffix(javascript) {
            candidates.push(format!("{stem}{typescript}"));
        }
    }
    let has_extension =
        [".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs"].iter().any(|extension| path.ends_with(extension));
    if has_extension {
        candidates.push(path.to_owned());
    }
    candidates
        .extend([".ts", ".tsx", ".js", ".mts", ".mjs", "/index.ts", "/index.js"].map(|end| format!("{path}{end}")));
    candidates
}
