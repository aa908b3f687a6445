//! Imported values: Zod itself, and the files next to the source.

use std::{
    collections::{HashSet, VecDeque},
    rc::Rc,
};

use oxc_ast::ast::{CallExpression, Expression, Span};

use super::{
    super::{
        ZodVersion,
        fault::{ReadSchema, ZodProblem},
        module::Export,
        value::{ZodMember, ZodRecord, ZodValue},
    },
    ZodReader, computed, into_value,
};

/// The code of an import of the version that is not being read.
pub(in super::super) const OTHER_VERSION: &str = "mixed_zod_versions";

/// Maximum number of files that one value is handed through.
const MOST_HOPS: usize = 16;

/// Maximum number of files that are searched for one name.
const MOST_FILES_ASKED: usize = 128;

impl<'a> ZodReader<'_, 'a> {
    pub(super) fn read_require(&mut self, call: &CallExpression<'a>) -> ZodValue<'a> {
        match call.arguments.first().and_then(|argument| argument.as_expression()) {
            Some(Expression::StringLiteral(module)) => {
                let module = module.value.as_str();
                self.read_import(module, "*", module, call.span)
            }
            _ => computed(call.span, "a required module"),
        }
    }

    /// The value of an import: Zod is known, and files that were given are read.
    pub(super) fn read_import(&mut self, module: &str, imported: &str, name: &str, used: Span) -> ZodValue<'a> {
        match module {
            "zod" | "zod/v3" | "zod/v4" | "zod/index.js" if self.is_other_version(module) => {
                other_version(module, used)
            }
            "zod" | "zod/v3" | "zod/v4" | "zod/index.js" => match imported {
                "*" | "default" | "z" => ZodValue::Zod("".into()),
                imported => ZodValue::Zod(imported.into()),
            },
            "zod/mini" | "zod/v4-mini" | "zod/v4/mini" | "zod/v4/core" => {
                let problem = ZodProblem::new(used.start, "unsupported_zod", format!("`{module}` is not read"));
                into_value(Err(problem.hint("import from `zod`, `zod/v3` or `zod/v4`").into()))
            }
            module => match self.module.file(module, used.start) {
                Some(file) => into_value(self.read_export(file, imported, used, 0)),
                None => {
                    let message = format!("`{name}` is imported from `{module}`, which is not read");
                    let hint = "define it in this file, or import it from a file of the same folder";
                    into_value(Err(ZodProblem::new(used.start, "imported_value", message).hint(hint).into()))
                }
            },
        }
    }

    /// Whether an import of Zod is of the version that is not being read.
    fn is_other_version(&self, module: &str) -> bool {
        self.only.is_some_and(|only| {
            let imported = match module {
                "zod/v3" => ZodVersion::V3,
                "zod/v4" => ZodVersion::V4,
                _ => only.bare,
            };
            imported != only.read
        })
    }

    fn read_export(&mut self, file: usize, name: &str, used: Span, hops: usize) -> ReadSchema<ZodValue<'a>> {
        if name == "*" {
            let names = self.module.exports_of(file);
            let members = names.into_iter().map(|name| {
                let value = into_value(self.read_export(file, name, used, hops + 1));
                (name.to_owned(), ZodMember { value, offset: used.start, getter: false })
            });
            let members: Vec<_> = members.collect();
            return Ok(ZodValue::Record(Rc::new(ZodRecord::new(used.start, members))));
        }
        let found = self.find_export(file, name).filter(|_| hops <= MOST_HOPS);
        let Some((file, export)) = found else {
            let message = format!("the file exports no `{name}`");
            return Err(ZodProblem::new(used.start, "imported_value", message).into());
        };
        let start = self.module.start_of(file);
        let inside = Span::new(start, start);
        Ok(match export {
            Export::Name(local) => self.read_name(local, inside),
            Export::Value(value) => self.read(value),
            Export::From(module, local) => match self.module.file(module, start) {
                Some(file) => return self.read_export(file, local, used, hops + 1),
                None => self.read_import(module, local, name, inside),
            },
        })
    }

    /// What a file exports under a name, itself or from the files all of which it exports. Each is asked once.
    fn find_export(&self, file: usize, name: &str) -> Option<(usize, Export<'a>)> {
        let mut seen = HashSet::new();
        let mut queue = VecDeque::from([file]);
        while let Some(file) = queue.pop_front().filter(|_| seen.len() < MOST_FILES_ASKED) {
            if !seen.insert(file) {
                continue;
            }
            if let Some(export) = self.module.export(file, name) {
                return Some((file, export));
            }
            let start = self.module.start_of(file);
            queue.extend(self.module.all_of(file).filter_map(|module| self.module.file(module, start)));
        }
        None
    }
}

fn other_version<'a>(module: &str, used: Span) -> ZodValue<'a> {
    let message = format!("a schema of `{module}` and one of another version are used together");
    let problem = ZodProblem::new(used.start, OTHER_VERSION, message);
    into_value(Err(problem.hint("a tool's schema must be made by one version of Zod").into()))
}
