//! The index of one source file: its names, and the candidates for tools.
//!
//! The collector is one traversal of the tree. A name is resolved by the position where it is used: the innermost
//! surrounding scope that declares it wins, as in the language. Names that are assigned or mutated after their
//! declaration are recorded, because their initial value would be a guess. Types are not traversed; they mean nothing
//! at run time.

use std::collections::{HashMap, HashSet};

use oxc_ast::{
    AstKind,
    ast::{
        BindingPattern, CallExpression, Class, Declaration as ExportedDeclaration, ExportSpecifier, Expression,
        Function as FunctionNode, ImportDeclaration, ImportDeclarationSpecifier, NewExpression, ObjectExpression,
        Program, SimpleAssignmentTarget, Span, TSEnumDeclaration, TSInterfaceDeclaration, TSType,
        TSTypeAliasDeclaration, TSTypeAnnotation, TSTypeParameterDeclaration, TSTypeParameterInstantiation,
        VariableDeclarationKind,
    },
};
use oxc_ast_visit::Visit;
use oxc_span::GetSpan;

/// What a name is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameBinding<'a> {
    /// `const name = initial`.
    Value(&'a Expression<'a>),
    /// `const { key: name } = initial`.
    Member(&'a Expression<'a>, &'a str),
    Enum(&'a TSEnumDeclaration<'a>),
    Function(&'a FunctionNode<'a>),
    Class,
    /// `import { imported as name } from module`; `*` and `default` as in the language.
    Import {
        module: &'a str,
        imported: &'a str,
    },
    Parameter,
    /// Declared, but without a known value: `let name;`, an array pattern, a loop variable.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Declaration<'a> {
    pub(super) binding: NameBinding<'a>,
    pub(super) changed: Option<SourceChange>,
}

/// Why the initial value of a name is not its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceChange {
    Assigned,
    Mutated,
}

/// Something that may define a tool.
#[derive(Clone, Copy, Debug)]
pub(super) enum Candidate<'a> {
    New(&'a NewExpression<'a>),
    Call(&'a CallExpression<'a>),
    Object(&'a ObjectExpression<'a>),
    Class(&'a Class<'a>),
}

impl Candidate<'_> {
    pub(super) fn offset(&self) -> u32 {
        match self {
            Self::New(new) => new.span.start,
            Self::Call(call) => call.span.start,
            Self::Object(object) => object.span.start,
            Self::Class(class) => class.span.start,
        }
    }
}

/// Maximum depth of scopes. A name is looked up in all that surround it.
const DEEPEST_SCOPE: usize = 500;

#[derive(Debug)]
struct ModuleScope {
    span: Span,
    parent: Option<usize>,
    is_function: bool,
}

#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    /// In the order of their start.
    scopes: Vec<ModuleScope>,
    names: HashMap<(usize, &'a str), usize>,
    declarations: Vec<Declaration<'a>>,
    /// Where scopes are nested too deeply.
    pub(super) too_deep: Option<u32>,
    /// In the order of the source.
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Every module that is imported, in the order of the source.
    pub(super) imports: Vec<(&'a str, u32)>,
    /// The scopes of whole files: that of the source, and those of the files that it imports.
    roots: Vec<usize>,
    /// By root and name.
    exports: HashMap<(usize, &'a str), Export<'a>>,
    /// `export * from module`, by root.
    all_of: Vec<(usize, &'a str)>,
    /// The root that a module is, by the root that imports it.
    files: HashMap<(usize, String), usize>,
    /// By the start of a call: the name of the variable or of the member that holds its result.
    pub(super) holders: HashMap<u32, CallHolder<'a>>,
}

/// What a file exports under a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Export<'a> {
    /// A name of the file.
    Name(&'a str),
    Value(&'a Expression<'a>),
    /// `export { name } from module`.
    From(&'a str, &'a str),
}

/// Where the result of a call is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallHolder<'a> {
    pub(super) name: &'a str,
    pub(super) is_member: bool,
}

/// A parsed file, and the roots by their position in the list of files that its imports name.
pub(super) struct ParsedFile<'a> {
    pub(super) program: &'a Program<'a>,
    /// The modules that it names, each with the index of its file.
    pub(super) names: Vec<(String, usize)>,
}

impl<'a> Module<'a> {
    /// The index of a source, which is the first file, and of the files that it imports. No position of one file is
    /// one of another.
    pub(super) fn new(files: &[ParsedFile<'a>]) -> Self {
        let mut collector =
            ModuleCollector { module: Module::default(), open: Vec::new(), changes: Vec::new(), loops: HashSet::new() };
        for file in files {
            let root = collector.module.scopes.len();
            collector.module.roots.push(root);
            collector.visit_program(file.program);
        }
        let ModuleCollector { mut module, changes, .. } = collector;
        for (file, root) in files.iter().zip(module.roots.clone()) {
            for (name, target) in &file.names {
                if let Some(target) = module.roots.get(*target) {
                    module.files.insert((root, name.clone()), *target);
                }
            }
        }
        for (name, offset, change) in changes {
            if let Some(index) = module.index_of(name, offset)
                && let Some(declaration) = module.declarations.get_mut(index)
            {
                declaration.changed.get_or_insert(change);
            }
        }
        module
    }

    /// The declaration that `name` refers to when it is used at `offset`.
    pub(super) fn index_of(&self, name: &str, offset: u32) -> Option<usize> {
        let last = self.scopes.partition_point(|scope| scope.span.start <= offset);
        let mut next = last.checked_sub(1);
        while let Some(index) = next {
            let scope = self.scopes.get(index)?;
            if (offset < scope.span.end || scope.parent.is_none())
                && let Some(declaration) = self.names.get(&(index, name))
            {
                return Some(*declaration);
            }
            next = scope.parent;
        }
        None
    }

    pub(super) fn declaration(&self, index: usize) -> Option<&Declaration<'a>> {
        self.declarations.get(index)
    }

    /// The file that a module named at `offset` is, if it was read: the root of its scopes.
    pub(super) fn file(&self, module: &str, offset: u32) -> Option<usize> {
        self.files.get(&(self.root_at(offset)?, module.to_owned())).copied()
    }

    fn root_at(&self, offset: u32) -> Option<usize> {
        let is_before = |root: &&usize| self.scopes.get(**root).is_some_and(|scope| scope.span.start <= offset);
        self.roots.iter().rev().find(is_before).copied()
    }

    /// Where the names of a file can be looked up.
    pub(super) fn start_of(&self, root: usize) -> u32 {
        self.scopes.get(root).map_or(0, |scope| scope.span.start)
    }

    /// What a file exports under a name.
    pub(super) fn export(&self, root: usize, name: &str) -> Option<Export<'a>> {
        self.exports.get(&(root, name)).copied()
    }

    pub(super) fn exports_of(&self, root: usize) -> Vec<&'a str> {
        self.exports.keys().filter(|(owner, _)| *owner == root).map(|(_, name)| *name).collect()
    }

    /// The modules whose exports a file exports too.
    pub(super) fn all_of(&self, root: usize) -> impl Iterator<Item = &'a str> {
        self.all_of.iter().filter(move |(owner, _)| *owner == root).map(|(_, module)| *module)
    }

    pub(super) fn binding(&self, name: &str, offset: u32) -> Option<NameBinding<'a>> {
        self.declaration(self.index_of(name, offset)?).map(|declaration| declaration.binding)
    }
}

struct ModuleCollector<'a> {
    module: Module<'a>,
    /// The scopes around the visited node.
    open: Vec<usize>,
    changes: Vec<(&'a str, u32, SourceChange)>,
    /// Declarations in the head of a `for … of`, whose variable takes many values.
    loops: HashSet<u32>,
}

impl<'a> ModuleCollector<'a> {
    fn enter(&mut self, span: Span, is_function: bool) {
        let scope = self.module.scopes.len();
        self.module.scopes.push(ModuleScope { span, parent: self.open.last().copied(), is_function });
        self.open.push(scope);
        if self.open.len() > DEEPEST_SCOPE {
            self.module.too_deep.get_or_insert(span.start);
        }
    }

    fn declare(&mut self, name: &'a str, scope: usize, binding: NameBinding<'a>) {
        self.module.names.insert((scope, name), self.module.declarations.len());
        self.module.declarations.push(Declaration { binding, changed: None });
    }

    fn block(&self) -> usize {
        self.open.last().copied().unwrap_or_default()
    }

    fn function(&self) -> usize {
        let is_function = |scope: &&usize| self.module.scopes.get(**scope).is_some_and(|scope| scope.is_function);
        self.open.iter().rev().find(is_function).copied().unwrap_or_default()
    }

    fn declare_pattern(&mut self, pattern: &'a BindingPattern<'a>, scope: usize, whole: NameBinding<'a>) {
        match pattern {
            BindingPattern::BindingIdentifier(name) => self.declare(name.name.as_str(), scope, whole),
            BindingPattern::ObjectPattern(object) => {
                for property in &object.properties {
                    let key = property.key.static_name().filter(|_| !property.computed);
                    let part = match (whole, key) {
                        (NameBinding::Value(initial), Some(std::borrow::Cow::Borrowed(key))) => {
                            NameBinding::Member(initial, key)
                        }
                        (NameBinding::Parameter, _) => NameBinding::Parameter,
                        _ => NameBinding::Unknown,
                    };
                    self.declare_pattern(&property.value, scope, part);
                }
                if let Some(rest) = &object.rest {
                    self.declare_pattern(&rest.argument, scope, unknown_or_parameter(whole));
                }
            }
            BindingPattern::ArrayPattern(array) => {
                for element in array.elements.iter().flatten() {
                    self.declare_pattern(element, scope, unknown_or_parameter(whole));
                }
                if let Some(rest) = &array.rest {
                    self.declare_pattern(&rest.argument, scope, unknown_or_parameter(whole));
                }
            }
            BindingPattern::AssignmentPattern(assignment) => {
                self.declare_pattern(&assignment.left, scope, unknown_or_parameter(whole));
            }
        }
    }

    fn declare_imports(&mut self, import: &'a ImportDeclaration<'a>) {
        let module = import.source.value.as_str();
        if import.import_kind.is_type() {
            return;
        }
        self.module.imports.push((module, import.span.start));
        for specifier in import.specifiers.iter().flatten() {
            let (local, imported) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(specifier) if specifier.import_kind.is_type() => continue,
                ImportDeclarationSpecifier::ImportSpecifier(specifier) => {
                    (&specifier.local, specifier.imported.name().as_str())
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(specifier) => (&specifier.local, "default"),
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(specifier) => (&specifier.local, "*"),
            };
            let root = self.root();
            self.declare(local.name.as_str(), root, NameBinding::Import { module, imported });
        }
    }

    /// The scope of the file that is visited.
    fn root(&self) -> usize {
        self.open.first().copied().unwrap_or_default()
    }

    /// `export { local as exported }`, with or without `from module`.
    fn export_names(&mut self, specifiers: &'a [ExportSpecifier<'a>], module: Option<&'a str>) {
        let root = self.root();
        for specifier in specifiers {
            let (local, exported) = (specifier.local.name().as_str(), specifier.exported.name().as_str());
            let export = module.map_or(Export::Name(local), |module| Export::From(module, local));
            self.module.exports.insert((root, exported), export);
        }
    }

    fn export_declaration(&mut self, declaration: &'a ExportedDeclaration<'a>) {
        let root = self.root();
        let mut add = |name: &'a str| {
            self.module.exports.insert((root, name), Export::Name(name));
        };
        match declaration {
            ExportedDeclaration::VariableDeclaration(declaration) => {
                for declarator in &declaration.declarations {
                    if let BindingPattern::BindingIdentifier(name) = &declarator.id {
                        add(name.name.as_str());
                    }
                }
            }
            ExportedDeclaration::FunctionDeclaration(function) => {
                function.id.iter().for_each(|name| add(name.name.as_str()));
            }
            ExportedDeclaration::TSEnumDeclaration(declaration) => add(declaration.id.name.as_str()),
            _ => {}
        }
    }

    /// `name = call(…)` and `{ name: call(…) }`.
    fn holds(&mut self, name: &'a str, value: &'a Expression<'a>, is_member: bool) {
        let mut value = value;
        loop {
            value = match value {
                Expression::CallExpression(call) => {
                    self.module.holders.insert(call.span.start, CallHolder { name, is_member });
                    return;
                }
                Expression::ParenthesizedExpression(inner) => &inner.expression,
                Expression::TSAsExpression(inner) => &inner.expression,
                Expression::TSSatisfiesExpression(inner) => &inner.expression,
                _ => return,
            };
        }
    }

    /// `name.x = …`, `name[x]++`, `delete name.x`: the value of `name` is no longer the initial one.
    fn mutates(&mut self, target: &Expression<'a>) {
        if let Some((name, offset)) = root_name(target, ThroughCalls::No) {
            self.changes.push((name, offset, SourceChange::Mutated));
        }
    }

    fn assigns(&mut self, target: &SimpleAssignmentTarget<'a>) {
        match target {
            SimpleAssignmentTarget::AssignmentTargetIdentifier(name) => {
                self.changes.push((name.name.as_str(), name.span.start, SourceChange::Assigned));
            }
            SimpleAssignmentTarget::StaticMemberExpression(member) => self.mutates(&member.object),
            SimpleAssignmentTarget::ComputedMemberExpression(member) => self.mutates(&member.object),
            _ => {}
        }
    }

    fn calls(&mut self, call: &'a CallExpression<'a>) {
        self.module.candidates.push(Candidate::Call(call));
        if let Expression::StaticMemberExpression(callee) = &call.callee {
            let method = callee.property.name.as_str();
            let is_object = matches!(&callee.object, Expression::Identifier(name) if name.name == "Object");
            if is_object && matches!(method, "assign" | "defineProperty" | "defineProperties" | "setPrototypeOf") {
                if let Some(target) = call.arguments.first().and_then(|argument| argument.as_expression()) {
                    self.mutates(target);
                }
            } else if matches!(
                method,
                "push" | "pop" | "shift" | "unshift" | "splice" | "sort" | "reverse" | "fill" | "copyWithin"
            ) {
                self.mutates(&callee.object);
            }
        }
        if let Expression::Identifier(callee) = &call.callee
            && callee.name == "require"
            && let Some(Expression::StringLiteral(module)) =
                call.arguments.first().and_then(|argument| argument.as_expression())
        {
            self.module.imports.push((module.value.as_str(), call.span.start));
        }
    }
}

impl<'a> Visit<'a> for ModuleCollector<'a> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::Program(program) => self.enter(program.span, true),
            AstKind::Function(function) => {
                let outer = self.block();
                self.enter(function.span, true);
                if let Some(name) = &function.id {
                    // The name of a function expression is visible only inside of it.
                    let scope = if function.is_declaration() { outer } else { self.block() };
                    self.declare(name.name.as_str(), scope, NameBinding::Function(function));
                }
            }
            AstKind::ArrowFunctionExpression(function) => {
                self.enter(function.span, true);
            }
            AstKind::StaticBlock(block) => self.enter(block.span, true),
            AstKind::TSModuleBlock(block) => self.enter(block.span, true),
            AstKind::BlockStatement(block) => self.enter(block.span, false),
            AstKind::ForStatement(statement) => self.enter(statement.span, false),
            AstKind::ForInStatement(statement) => {
                self.loops.insert(statement.left.span().start);
                self.enter(statement.span, false);
            }
            AstKind::ForOfStatement(statement) => {
                self.loops.insert(statement.left.span().start);
                self.enter(statement.span, false);
            }
            AstKind::SwitchStatement(statement) => self.enter(statement.span, false),
            AstKind::CatchClause(clause) => self.enter(clause.span, false),
            AstKind::VariableDeclaration(declaration) => {
                let scope =
                    if declaration.kind == VariableDeclarationKind::Var { self.function() } else { self.block() };
                let in_loop = self.loops.contains(&declaration.span.start);
                for declarator in &declaration.declarations {
                    let whole = match &declarator.init {
                        Some(initial) if !in_loop => NameBinding::Value(initial),
                        _ => NameBinding::Unknown,
                    };
                    self.declare_pattern(&declarator.id, scope, whole);
                    if let (BindingPattern::BindingIdentifier(name), Some(initial)) = (&declarator.id, &declarator.init)
                    {
                        self.holds(name.name.as_str(), initial, false);
                    }
                }
            }
            AstKind::FormalParameter(parameter) => {
                let scope = self.block();
                self.declare_pattern(&parameter.pattern, scope, NameBinding::Parameter);
            }
            AstKind::FormalParameterRest(parameter) => {
                let scope = self.block();
                self.declare_pattern(&parameter.rest.argument, scope, NameBinding::Parameter);
            }
            AstKind::CatchParameter(parameter) => {
                let scope = self.block();
                self.declare_pattern(&parameter.pattern, scope, NameBinding::Parameter);
            }
            AstKind::Class(class) => {
                if let Some(name) = &class.id {
                    let scope = self.block();
                    self.declare(name.name.as_str(), scope, NameBinding::Class);
                }
                self.module.candidates.push(Candidate::Class(class));
            }
            AstKind::TSEnumDeclaration(declaration) => {
                let name = &declaration.id;
                let scope = self.block();
                self.declare(name.name.as_str(), scope, NameBinding::Enum(declaration));
            }
            AstKind::ImportDeclaration(import) => self.declare_imports(import),
            AstKind::ExportDeclaration(export) => self.export_declaration(&export.declaration),
            AstKind::ExportNamedDeclaration(export) => self.export_names(&export.specifiers, None),
            AstKind::ExportFromDeclaration(export) => {
                self.export_names(&export.specifiers, Some(export.source.value.as_str()));
            }
            AstKind::ExportDefaultDeclaration(export) => {
                if let Some(value) = export.declaration.as_expression() {
                    let root = self.root();
                    self.module.exports.insert((root, "default"), Export::Value(value));
                }
            }
            AstKind::ExportAllDeclaration(export) if export.exported.is_none() => {
                let root = self.root();
                self.module.all_of.push((root, export.source.value.as_str()));
            }
            AstKind::ObjectProperty(property) => {
                if let Some(std::borrow::Cow::Borrowed(name)) =
                    property.key.static_name().filter(|_| !property.computed)
                {
                    self.holds(name, &property.value, true);
                }
            }
            AstKind::TSImportEqualsDeclaration(import) => {
                let scope = self.block();
                self.declare(import.id.name.as_str(), scope, NameBinding::Unknown);
            }
            AstKind::AssignmentExpression(assignment) => {
                if let Some(target) = assignment.left.as_simple_assignment_target() {
                    self.assigns(target);
                }
            }
            AstKind::ArrayAssignmentTarget(array) => {
                for element in array.elements.iter().flatten() {
                    let target = element.as_assignment_target().and_then(|target| target.as_simple_assignment_target());
                    if let Some(target) = target {
                        self.assigns(target);
                    }
                }
            }
            AstKind::AssignmentTargetPropertyProperty(property) => {
                let target = property.binding.as_assignment_target();
                if let Some(target) = target.and_then(|target| target.as_simple_assignment_target()) {
                    self.assigns(target);
                }
            }
            AstKind::AssignmentTargetPropertyIdentifier(target) => {
                self.changes.push((target.binding.name.as_str(), target.binding.span.start, SourceChange::Assigned));
            }
            AstKind::UpdateExpression(update) => self.assigns(&update.argument),
            AstKind::UnaryExpression(unary) if unary.operator.is_delete() => self.mutates(&unary.argument),
            AstKind::NewExpression(new) => self.module.candidates.push(Candidate::New(new)),
            AstKind::CallExpression(call) => self.calls(call),
            AstKind::ObjectExpression(object) => self.module.candidates.push(Candidate::Object(object)),
            _ => {}
        }
    }

    fn leave_node(&mut self, kind: AstKind<'a>) {
        if matches!(
            kind,
            AstKind::Program(_)
                | AstKind::Function(_)
                | AstKind::ArrowFunctionExpression(_)
                | AstKind::StaticBlock(_)
                | AstKind::TSModuleBlock(_)
                | AstKind::BlockStatement(_)
                | AstKind::ForStatement(_)
                | AstKind::ForInStatement(_)
                | AstKind::ForOfStatement(_)
                | AstKind::SwitchStatement(_)
                | AstKind::CatchClause(_)
        ) {
            self.open.pop();
        }
    }

    fn visit_ts_type(&mut self, _: &TSType<'a>) {}
    fn visit_ts_type_annotation(&mut self, _: &TSTypeAnnotation<'a>) {}
    fn visit_ts_type_alias_declaration(&mut self, _: &TSTypeAliasDeclaration<'a>) {}
    fn visit_ts_interface_declaration(&mut self, _: &TSInterfaceDeclaration<'a>) {}
    fn visit_ts_type_parameter_declaration(&mut self, _: &TSTypeParameterDeclaration<'a>) {}
    fn visit_ts_type_parameter_instantiation(&mut self, _: &TSTypeParameterInstantiation<'a>) {}
}

fn unknown_or_parameter(whole: NameBinding<'_>) -> NameBinding<'_> {
    match whole {
        NameBinding::Parameter => NameBinding::Parameter,
        _ => NameBinding::Unknown,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ThroughCalls {
    Yes,
    No,
}

/// The name at the root of `name.a[b].c`, and of `name.a(…).b` too if calls are included.
pub(super) fn root_name<'a>(expression: &Expression<'a>, calls: ThroughCalls) -> Option<(&'a str, u32)> {
    let mut expression = expression;
    loop {
        expression = match expression {
            Expression::Identifier(name) => return Some((name.name.as_str(), name.span.start)),
            Expression::StaticMemberExpression(member) => &member.object,
            Expression::ComputedMemberExpression(member) => &member.object,
            Expression::CallExpression(call) if calls == ThroughCalls::Yes => &call.callee,
            Expression::ParenthesizedExpression(inner) => &inner.expression,
            Expression::TSNonNullExpression(inner) => &inner.expression,
            Expression::TSAsExpression(inner) => &inner.expression,
            _ => return None,
        };
    }
}
