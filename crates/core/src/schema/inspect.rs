//! Inspection of a schema before it is compiled.
//!
//! A schema is untrusted. Whatever could hang or exhaust the validator, or reach out of the process, is rejected here,
//! with its path: size, depth, counts, remote references, patterns that need backtracking, endless references,
//! multiplying alternatives. All faults are reported, not only the first.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{
    cost::{self, Graph},
    draft,
    error::{SchemaError, SchemaFault, SchemaRefusal},
    keyword::{self, Reach},
    path,
    pattern::Patterns,
};
use crate::ceiling::{ENUM_VALUES, FAULTS_LISTED, SCHEMA_BYTES, SCHEMA_DEPTH, SUBSCHEMAS};

/// Maximum size of a [light](is_light) schema.
const LIGHT_BYTES: usize = 16 * 1024;
/// Maximum number of backtracking patterns that may be applied to one and the same text; each may take a second for all
/// texts that fit into one set of arguments.
const MAX_BACKTRACKING: u64 = 8;

/// What compiling needs to know of a valid schema.
#[derive(Debug)]
pub(super) struct SchemaInspection {
    pub(super) draft: Draft,
    pub(super) cost: cost::Cost,
    /// How many patterns with look-around or a back-reference may be applied to one and the same text.
    pub(super) backtracking: u64,
    pub(super) patterns: Patterns,
}

pub(super) fn inspect(source: &Value) -> Result<SchemaInspection, SchemaRefusal> {
    // Everything below recurses, and may do so only after this check.
    measure(source).map_err(|fault| SchemaError { path: String::new(), fault })?;
    let draft = draft::of(source).map_err(|fault| SchemaError { path: "$schema".to_owned(), fault })?;
    let settled = draft::settled(source, draft);
    let source = settled.as_ref().unwrap_or(source);
    let mut walk = SchemaWalk {
        root: source,
        draft,
        nodes: HashMap::new(),
        graph: Graph::default(),
        anchors: HashMap::new(),
        references: Vec::new(),
        backtracking: Vec::new(),
        patterns: Patterns::default(),
        faults: Vec::new(),
    };
    walk.visit(source, "");
    walk.follow_references();
    walk.faults.extend(violations_of_meta_schema(source, walk.draft));
    let cost = match walk.graph.cost() {
        Ok(cost) => cost,
        Err(fault) => {
            walk.faults.push(SchemaError { path: String::new(), fault });
            cost::Cost::default()
        }
    };
    let backtracking = walk.graph.most_at_one_place(&walk.backtracking);
    if backtracking > MAX_BACKTRACKING {
        walk.faults.push(SchemaError { path: String::new(), fault: SchemaFault::TooCostly });
    }
    let SchemaWalk { draft, patterns, faults, .. } = walk;
    if faults.is_empty() {
        // A pattern in a part that is never applied still has to be compiled.
        let backtracking = if walk.backtracking.is_empty() { 0 } else { backtracking.max(1) };
        Ok(SchemaInspection { draft, cost, backtracking, patterns })
    } else {
        Err(SchemaRefusal { faults, pattern_bytes: patterns.bytes() })
    }
}

/// Whether a schema is so small and plain that compiling it takes microseconds.
pub(super) fn is_light(source: &Value) -> bool {
    let mut bytes = 0;
    let mut pending = vec![source];
    while let Some(value) = pending.pop() {
        bytes += 8;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => {
                bytes += members.keys().map(String::len).sum::<usize>();
                // As a keyword; a property of that name is rare enough.
                if members.contains_key("pattern") || members.contains_key("patternProperties") {
                    return false;
                }
                pending.extend(members.values());
            }
        }
        if bytes > LIGHT_BYTES {
            return false;
        }
    }
    true
}

/// Depth and size, without recursion.
pub(crate) fn measure(source: &Value) -> Result<(), SchemaFault> {
    let mut bytes = 0;
    let mut pending = vec![(source, 1)];
    while let Some((value, depth)) = pending.pop() {
        bytes += match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 4,
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                pending.extend(items.iter().map(|item| (item, depth + 1)));
                2 + items.len()
            }
            Value::Object(members) => {
                pending.extend(members.values().map(|member| (member, depth + 1)));
                2 + members.keys().map(|key| key.len() + 4).sum::<usize>()
            }
        };
        if depth > SCHEMA_DEPTH + 1 {
            return Err(SchemaFault::TooDeep(SCHEMA_DEPTH));
        }
        if bytes > SCHEMA_BYTES {
            return Err(SchemaFault::TooLarge(SCHEMA_BYTES));
        }
    }
    Ok(())
}

struct SchemaWalk<'a> {
    root: &'a Value,
    draft: Draft,
    /// A subschema is identified by its address: the source is borrowed and does not move.
    nodes: HashMap<*const Value, usize>,
    graph: Graph<'a>,
    anchors: HashMap<&'a str, usize>,
    /// Node, path and text of every reference; resolved once all nodes are known.
    references: Vec<(usize, String, &'a str)>,
    /// Nodes with a pattern that backtracks.
    backtracking: Vec<usize>,
    patterns: Patterns,
    faults: Vec<SchemaError>,
}

impl<'a> SchemaWalk<'a> {
    fn fault(&mut self, path: String, fault: SchemaFault) {
        self.faults.push(SchemaError { path, fault });
    }

    /// Reports once that there are too many patterns: every later one would be reported, too.
    fn pattern_fault(&mut self, path: String, fault: SchemaFault) {
        let is_of_all = |fault: &SchemaFault| matches!(fault, SchemaFault::PatternsTooLarge(_));
        if !is_of_all(&fault) || !self.faults.iter().any(|earlier| is_of_all(&earlier.fault)) {
            self.fault(path, fault);
        }
    }

    fn visit(&mut self, value: &'a Value, here: &str) -> usize {
        if let Some(&node) = self.nodes.get(&std::ptr::from_ref(value)) {
            return node;
        }
        let node = self.graph.add();
        self.nodes.insert(std::ptr::from_ref(value), node);
        if node == SUBSCHEMAS {
            self.fault(String::new(), SchemaFault::TooManySubschemas(SUBSCHEMAS));
        }
        let (Value::Object(schema), true) = (value, node < SUBSCHEMAS) else { return node };
        self.check_keywords(schema, node, here);
        for (place, reach, subschema) in keyword::subschemas(schema) {
            let below = self.visit(subschema, &place.below(here));
            if reach != Reach::Nothing {
                self.graph.connect(node, reach, below);
            }
        }
        node
    }

    fn check_keywords(&mut self, schema: &'a Map<String, Value>, node: usize, here: &str) {
        if let Some(Value::Array(values)) = schema.get("enum")
            && values.len() > ENUM_VALUES
        {
            let fault = SchemaFault::EnumTooLong { count: values.len(), limit: ENUM_VALUES };
            self.fault(path::with_key(here, "enum"), fault);
        }
        if let Some(Value::String(text)) = schema.get("pattern") {
            match self.patterns.add(text) {
                Ok(false) => {}
                Ok(true) => self.backtracking.push(node),
                Err(fault) => self.pattern_fault(path::with_key(here, "pattern"), fault),
            }
        }
        if let Some(Value::Object(members)) = schema.get("patternProperties") {
            for text in members.keys() {
                if let Err(fault) = self.patterns.add_linear(text) {
                    self.pattern_fault(path::with_key(&path::with_key(here, "patternProperties"), text), fault);
                }
            }
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(name)) = schema.get(keyword) {
                self.anchors.insert(name, node);
            }
        }
        if let Some(Value::String(id)) = schema.get("$id")
            && !here.is_empty()
        {
            match id.strip_prefix('#') {
                Some(name) => _ = self.anchors.insert(name, node),
                None => self.fault(path::with_key(here, "$id"), SchemaFault::NestedId(crate::text::clip(id, 120))),
            }
        }
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(Value::String(reference)) = schema.get(keyword) {
                self.references.push((node, path::with_key(here, keyword), reference));
            }
        }
    }

    fn follow_references(&mut self) {
        // A reference may lead into a part that no keyword reaches; its own references then follow.
        while let Some((node, here, reference)) = self.references.pop() {
            match self.resolve(reference) {
                Ok(target) => self.graph.connect(node, Reach::Same, target),
                Err(fault) => self.fault(here, fault),
            }
        }
    }

    fn resolve(&mut self, text: &str) -> Result<usize, SchemaFault> {
        let shown = || crate::text::clip(text, 120);
        let Some(fragment) = text.strip_prefix('#') else {
            return Err(SchemaFault::RemoteReference(shown()));
        };
        let fragment = crate::percent::decode(fragment).ok_or_else(|| SchemaFault::UnknownReference(shown()))?;
        if fragment.is_empty() || fragment.starts_with('/') {
            let target = self.root.pointer(&fragment).ok_or_else(|| SchemaFault::UnknownReference(shown()))?;
            return Ok(self.visit(target, &path::from_pointer(&fragment, self.root)));
        }
        self.anchors.get(fragment.as_str()).copied().ok_or_else(|| SchemaFault::UnknownReference(shown()))
    }
}

fn violations_of_meta_schema(source: &Value, draft: Draft) -> Vec<SchemaError> {
    let meta = match draft {
        Draft::Draft4 => jsonschema::draft4::meta::validator(),
        Draft::Draft6 => jsonschema::draft6::meta::validator(),
        Draft::Draft7 => jsonschema::draft7::meta::validator(),
        Draft::Draft201909 => jsonschema::draft201909::meta::validator(),
        _ => jsonschema::draft202012::meta::validator(),
    };
    let errors = meta.iter_errors(source).map(|error| SchemaError {
        path: path::from_pointer(error.instance_path().as_str(), source),
        fault: SchemaFault::Invalid(meta_sentence(&error)),
    });
    let mut faults: Vec<SchemaError> = Vec::new();
    for fault in errors {
        // The meta-schema reaches the same keyword through several vocabularies.
        if !faults.contains(&fault) {
            faults.push(fault);
        }
        // Formatting thousands of them would take longer than everything else.
        if faults.len() > FAULTS_LISTED {
            break;
        }
    }
    faults
}

fn meta_sentence(error: &jsonschema::ValidationError<'_>) -> String {
    let got = crate::text::clip(&error.instance().to_string(), 80);
    if error.instance_path().as_str().ends_with("/type") || error.instance_path().as_str() == "/type" {
        return format!(
            "`type` must be one of string, number, integer, boolean, array, object, null, or a list of them, got: {got}"
        );
    }
    crate::text::clip(&error.to_string(), 200)
}
