//! The tools of one query: merged from their sources, frozen, pinned by a hash.
//!
//! A [`Toolset`] is immutable. It is stored as a document with the query, so that after a crash the query has the same
//! tools in the same order under the same aliases, whatever the catalogue contains by then. Schemas are compiled and
//! declarations derived on first use, once.
//!
//! Order: with both sources, the client's tools as they came, with a catalogue tool replacing a client's tool of the
//! same name in its position, then the other catalogue tools as they came.
//!
//! ```
//! use bosun_core::tool::{Binding, Tool, toolset::{ToolSources, Toolset}};
//! use serde_json::json;
//!
//! let catalog = vec![Tool::new("shared_tool", "the catalogue's", json!({}), Binding::Builtin { name: "noop".into() })];
//! let client = vec![
//!     Tool::new("shared_tool", "the client's", json!({}), Binding::External),
//!     Tool::new("tool_with-special.chars", "the client's", json!({}), Binding::External),
//! ];
//! let toolset = Toolset::merge(ToolSources::Both, catalog, client);
//!
//! // The catalogue wins a name conflict.
//! assert_eq!(toolset.get("shared_tool").unwrap().tool.description, "the catalogue's");
//! // A name that models do not accept is replaced by an alias, which leads back to it.
//! let alias = &toolset.get("tool_with-special.chars").unwrap().alias;
//! assert_eq!(toolset.by_alias(alias).unwrap().tool.name, "tool_with-special.chars");
//! // After a crash, it is read back as it was.
//! assert_eq!(Toolset::from_document(&toolset.to_document())?.hash(), toolset.hash());
//! # Ok::<(), bosun_core::tool::toolset::DocumentError>(())
//! ```

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Tool, name};
use crate::{
    ContentHash,
    json::{self, JsonError, JsonLimits},
    schema::{
        self, Schema, SchemaCache, SchemaError,
        dialect::{self, Declarations, Dialect},
    },
};

/// Where the tools of a query come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolSources {
    /// Only the catalogue.
    Catalog,
    /// Only the client.
    Client,
    /// Both; the catalogue wins a name conflict.
    Both,
}

/// One tool of a toolset.
#[derive(Debug)]
pub struct ToolsetMember {
    pub tool: Arc<Tool>,
    /// Its real name, shared with every call of it.
    pub name: Arc<str>,
    /// The name that the model uses.
    pub alias: Arc<str>,
    schemas: Schemas,
}

/// The storage of a tool's compiled parameters.
#[derive(Debug)]
enum Schemas {
    Own(OnceLock<Result<Arc<Schema>, SchemaError>>),
    /// In a cache, which may evict them while the toolset lives: a toolset must not retain memory that the cache does
    /// not count.
    Shared(Arc<SchemaCache>, OnceLock<ContentHash>),
}

impl ToolsetMember {
    fn new(tool: Tool, alias: String) -> Self {
        let name: Arc<str> = tool.name.as_str().into();
        let alias = if alias == tool.name { Arc::clone(&name) } else { alias.into() };
        Self { tool: Arc::new(tool), name, alias, schemas: Schemas::Own(OnceLock::new()) }
    }

    /// The compiled parameters; compiled on first use.
    ///
    /// # Errors
    /// Why the parameters are not a valid schema.
    pub fn schema(&self) -> Result<Arc<Schema>, SchemaError> {
        match &self.schemas {
            Schemas::Own(schema) => {
                schema.get_or_init(|| Schema::compile(&self.tool.checked_parameters()).map(Arc::new)).clone()
            }
            Schemas::Shared(cache, hash) => {
                let hash = self.hash(hash);
                let known = cache.get(hash);
                let compiled = known.unwrap_or_else(|| cache.compile_or_refuse(hash, &self.tool.checked_parameters()));
                compiled.map_err(|refusal| refusal.first())
            }
        }
    }

    /// The cost of validating arguments of this many bytes; `None` if the parameters have to be compiled first and that
    /// takes more than microseconds.
    #[must_use]
    pub fn effort(&self, bytes: usize) -> Option<u64> {
        let known = match &self.schemas {
            Schemas::Own(schema) => schema.get().cloned(),
            Schemas::Shared(cache, hash) => {
                cache.get(self.hash(hash)).map(|known| known.map_err(|refusal| refusal.first()))
            }
        };
        match known {
            Some(Ok(schema)) => Some(schema.effort(bytes)),
            Some(Err(_)) => Some(0),
            None if schema::is_light(&self.tool.parameters) => Some(LIGHT_EFFORT + bytes as u64),
            None => None,
        }
    }

    fn hash(&self, hash: &OnceLock<ContentHash>) -> ContentHash {
        *hash.get_or_init(|| json::content_hash(&self.tool.checked_parameters()))
    }
}

/// The cost of compiling a light schema.
const LIGHT_EFFORT: u64 = 5_000;

/// The frozen tools of one query.
#[derive(Debug)]
pub struct Toolset {
    members: Vec<ToolsetMember>,
    by_name: HashMap<String, usize>,
    /// Only aliases that differ from their names.
    by_alias: HashMap<String, usize>,
    hash: OnceLock<ContentHash>,
    document: OnceLock<Arc<str>>,
    declarations: [OnceLock<Arc<Declarations>>; Dialect::ALL.len()],
}

/// Why a stored toolset could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("stored toolset is not JSON")]
    Json(#[source] JsonError),
    #[error("stored toolset does not have the form of one: {0}")]
    Form(String),
    #[error("stored toolset has two tools under `{0}`")]
    Duplicate(String),
}

/// How a toolset is stored. The aliases are stored, so that a later version of Bosun which derives them differently
/// still knows what the model meant.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsetDocument {
    tools: Vec<ToolsetEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsetEntry {
    alias: String,
    tool: Tool,
}

/// Equal toolsets have the same tools in the same order under the same aliases, and therefore the same hash and an
/// equal document. Comparing costs a fraction of [`Toolset::hash`].
impl PartialEq for Toolset {
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.members.iter().zip(&other.members);
        self.len() == other.len()
            && pairs().all(|(ours, theirs)| ours.alias == theirs.alias && ours.tool == theirs.tool)
    }
}

impl Eq for Toolset {}

impl Hash for Toolset {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for ToolsetMember { tool, .. } in &self.members {
            (&tool.name, &tool.description, &tool.parameters).hash(state);
        }
    }
}

impl Toolset {
    /// The tools that a query sees: the catalogue's, the client's, or both.
    #[must_use]
    pub fn merge(sources: ToolSources, catalog: Vec<Tool>, client: Vec<Tool>) -> Self {
        let (first, then) = match sources {
            ToolSources::Catalog => (Vec::new(), catalog),
            ToolSources::Client => (client, Vec::new()),
            ToolSources::Both => (client, catalog),
        };
        let mut tools: Vec<Tool> = Vec::with_capacity(first.len() + then.len());
        let mut by_name = HashMap::with_capacity(first.len() + then.len());
        for tool in first.into_iter().chain(then) {
            // A later tool of the same name replaces the earlier one in its position.
            match by_name.get(&tool.name) {
                Some(&index) => tools[index] = tool,
                None => {
                    by_name.insert(tool.name.clone(), tools.len());
                    tools.push(tool);
                }
            }
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let aliases = name::aliases(&names);
        let members = tools.into_iter().zip(aliases).map(|(tool, alias)| ToolsetMember::new(tool, alias)).collect();
        Self::from_members(members, by_name)
    }

    fn from_members(members: Vec<ToolsetMember>, by_name: HashMap<String, usize>) -> Self {
        let renamed = members.iter().enumerate().filter(|(_, member)| member.alias != member.name);
        Self {
            by_alias: renamed.map(|(index, member)| (member.alias.to_string(), index)).collect(),
            by_name,
            members,
            hash: OnceLock::new(),
            document: OnceLock::new(),
            declarations: Default::default(),
        }
    }

    /// Compiles through a cache, so that toolsets with tools in common compile those once.
    #[must_use]
    pub fn sharing(mut self, cache: &Arc<SchemaCache>) -> Self {
        for member in &mut self.members {
            member.schemas = Schemas::Shared(Arc::clone(cache), OnceLock::new());
        }
        self
    }

    /// The tools, in the order in which the model sees them.
    #[must_use]
    pub fn tools(&self) -> &[ToolsetMember] {
        &self.members
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The tool with this real name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolsetMember> {
        self.by_name.get(name).map(|index| &self.members[*index])
    }

    /// The tool that the model means by this name.
    #[must_use]
    pub fn by_alias(&self, alias: &str) -> Option<&ToolsetMember> {
        match self.by_alias.get(alias) {
            Some(index) => Some(&self.members[*index]),
            None => self.get(alias).filter(|member| *member.alias == *alias),
        }
    }

    /// The identity of these tools in 32 bytes: the hash of their canonical JSON, in order.
    #[must_use]
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| {
            json::content_hash(&self.members.iter().map(|member| json!(*member.tool)).collect::<Value>())
        })
    }

    /// The stored form, written on first use; [`Toolset::from_document`] reads it back.
    #[must_use]
    pub fn to_document(&self) -> Arc<str> {
        let written = self.document.get_or_init(|| {
            let tools = self.members.iter().map(|member| json!({"alias": member.alias, "tool": *member.tool}));
            json!({"tools": tools.collect::<Value>()}).to_string().into()
        });
        Arc::clone(written)
    }

    /// An estimate of its memory: the tools, the document, and the declarations for two model APIs.
    #[must_use]
    pub fn weight(&self) -> usize {
        let document = self.to_document();
        json::memory_of(&document) + 3 * document.len()
    }

    /// Reads a toolset that was stored: the same tools, order, aliases and hash.
    ///
    /// # Errors
    /// When the text is not what [`Toolset::to_document`] wrote.
    pub fn from_document(text: &str) -> Result<Self, DocumentError> {
        let limits = JsonLimits { bytes: usize::MAX, depth: JsonLimits::DEEPEST, memory: usize::MAX };
        let document = json::parse(text, limits).map_err(DocumentError::Json)?;
        let document: ToolsetDocument =
            serde_json::from_value(document).map_err(|error| DocumentError::Form(error.to_string()))?;
        let members: Vec<ToolsetMember> =
            document.tools.into_iter().map(|entry| ToolsetMember::new(entry.tool, entry.alias)).collect();
        let by_name = members.iter().enumerate().map(|(index, member)| (member.tool.name.clone(), index)).collect();
        let toolset = Self::from_members(members, by_name);
        for member in &toolset.members {
            let alone = |found: Option<&ToolsetMember>| found.is_some_and(|found| std::ptr::eq(found, member));
            if !alone(toolset.get(&member.tool.name)) || !alone(toolset.by_alias(&member.alias)) {
                return Err(DocumentError::Duplicate(member.tool.name.clone()));
            }
        }
        Ok(toolset)
    }

    /// The declarations of these tools for a model API; derived on first use.
    #[must_use]
    pub fn declarations(&self, dialect: Dialect) -> Arc<Declarations> {
        let declarations = self.declarations[dialect.index()].get_or_init(|| {
            let tools = self.members.iter().map(|member| (&*member.tool, &*member.alias));
            Arc::new(dialect::declare(dialect, tools))
        });
        Arc::clone(declarations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Binding;

    fn inside(name: &str, description: &str) -> Tool {
        Tool::new(name, description, json!({}), Binding::Builtin { name: name.to_owned() })
    }

    fn outside(name: &str, description: &str) -> Tool {
        Tool::new(name, description, json!({}), Binding::External)
    }

    fn names(toolset: &Toolset) -> Vec<&str> {
        toolset.tools().iter().map(|member| member.tool.name.as_str()).collect()
    }

    #[test]
    fn the_sources_decide_which_tools_a_query_has() {
        for (sources, expected) in [
            (ToolSources::Catalog, &["inside1", "inside2"][..]),
            (ToolSources::Client, &["outside1", "outside2"]),
            (ToolSources::Both, &["outside1", "outside2", "inside1", "inside2"]),
        ] {
            let catalog = vec![inside("inside1", ""), inside("inside2", "")];
            let client = vec![outside("outside1", ""), outside("outside2", "")];
            assert_eq!(names(&Toolset::merge(sources, catalog, client)), expected, "{sources:?}");
        }
    }

    #[test]
    fn the_catalogue_wins_a_name_conflict() {
        let catalog = vec![inside("shared", "of the catalogue")];
        let toolset = Toolset::merge(ToolSources::Both, catalog, vec![outside("shared", "of the client")]);
        assert_eq!(toolset.len(), 1);
        assert_eq!(toolset.tools()[0].tool.description, "of the catalogue");
        assert!(!toolset.tools()[0].tool.is_external());
    }

    #[test]
    fn a_catalogue_tool_replaces_the_clients_in_its_position() {
        let toolset = Toolset::merge(
            ToolSources::Both,
            vec![inside("z", "catalogue"), inside("b", "catalogue")],
            vec![outside("a", "client"), outside("b", "client"), outside("c", "client")],
        );
        assert_eq!(names(&toolset), ["a", "b", "c", "z"]);
        assert_eq!(toolset.get("b").unwrap().tool.description, "catalogue");
    }

    #[test]
    fn aliases_lead_back_to_the_real_name() {
        let toolset = Toolset::merge(
            ToolSources::Client,
            vec![],
            vec![outside("tool_with-special.chars", ""), outside("plain", "")],
        );
        let alias = toolset.get("tool_with-special.chars").unwrap().alias.clone();
        assert_ne!(*alias, *"tool_with-special.chars");
        assert_eq!(toolset.by_alias(&alias).unwrap().tool.name, "tool_with-special.chars");
        assert!(toolset.by_alias("tool_with-special.chars").is_none());
        assert_eq!(toolset.by_alias("plain").unwrap().tool.name, "plain");
    }

    fn calculator() -> Tool {
        let parameters = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "required": ["expression"],
            "properties": {"expression": {"type": "string"}, "list": {"type": "array"}, "scale": {"type": "number", "maximum": 0.1}},
        });
        let mut tool = Tool::new("calc.ulate", "Calculates", parameters, Binding::External);
        tool.timeout = Some(std::time::Duration::from_secs(5));
        tool
    }

    #[test]
    fn a_toolset_survives_storage() {
        let toolset =
            Toolset::merge(ToolSources::Both, vec![inside("z", "catalogue")], vec![calculator(), outside("a b", "x")]);
        let again = Toolset::from_document(&toolset.to_document()).unwrap();
        assert_eq!(names(&again), names(&toolset));
        assert_eq!(again.hash(), toolset.hash());
        assert_eq!(again.to_document(), toolset.to_document());
        assert_eq!(again.declarations(Dialect::OpenAiChat), toolset.declarations(Dialect::OpenAiChat));
        for (left, right) in again.tools().iter().zip(toolset.tools()) {
            assert_eq!((&left.alias, &left.tool), (&right.alias, &right.tool));
        }
    }

    #[test]
    fn a_damaged_document_is_an_error() {
        let document = Toolset::merge(ToolSources::Client, vec![], vec![calculator()]).to_document();
        assert!(matches!(Toolset::from_document(&document[..50]), Err(DocumentError::Json(_))));
        assert!(matches!(Toolset::from_document("[]"), Err(DocumentError::Form(_))));
        let entry = json!({"alias": "a", "tool": outside("a", "")});
        let twice = json!({"tools": [entry.clone(), entry]}).to_string();
        assert_eq!(Toolset::from_document(&twice).unwrap_err(), DocumentError::Duplicate("a".to_owned()));
    }

    #[test]
    fn the_hash_depends_on_content_and_order_only() {
        let one = Toolset::merge(ToolSources::Client, vec![], vec![outside("a", ""), outside("b", "")]);
        let same = Toolset::merge(ToolSources::Both, vec![], vec![outside("a", ""), outside("b", "")]);
        let swapped = Toolset::merge(ToolSources::Client, vec![], vec![outside("b", ""), outside("a", "")]);
        let changed = Toolset::merge(ToolSources::Client, vec![], vec![outside("a", ""), outside("b", "!")]);
        assert_eq!(one.hash(), same.hash());
        assert_ne!(one.hash(), swapped.hash());
        assert_ne!(one.hash(), changed.hash());
    }

    #[test]
    fn declarations_for_chat_completions_are_stable() {
        let toolset = Toolset::merge(ToolSources::Client, vec![], vec![calculator(), outside("plain", "")]);
        let alias = &toolset.tools()[0].alias;
        let declarations = toolset.declarations(Dialect::OpenAiChat);
        assert_eq!(
            declarations.json,
            format!(
                "[{{\"type\":\"function\",\"function\":{{\"name\":\"{alias}\",\"description\":\"Calculates\",\"parameters\":\
                 {{\"type\":\"object\",\"required\":[\"expression\"],\"properties\":{{\"expression\":{{\"type\":\"string\"}},\
                 \"list\":{{\"type\":\"array\",\"items\":{{}}}},\"scale\":{{\"type\":\"number\",\"maximum\":0.1}}}}}}}}}},\
                 {{\"type\":\"function\",\"function\":{{\"name\":\"plain\",\"parameters\":{{\"type\":\"object\",\"properties\":{{}}}}}}}}]"
            )
        );
        assert!(Arc::ptr_eq(&declarations, &toolset.declarations(Dialect::OpenAiChat)));
    }

    #[test]
    fn a_tool_that_cannot_be_expressed_does_not_stop_the_others() {
        let strange = Tool::new("strange", "", json!({"type": "string"}), Binding::External);
        let toolset = Toolset::merge(ToolSources::Client, vec![], vec![strange, outside("plain", "")]);
        let declarations = toolset.declarations(Dialect::OpenAiChat);
        assert_eq!(declarations.quarantined[0].tool, "strange");
        assert!(declarations.json.contains("plain") && !declarations.json.contains("strange"));
    }

    #[test]
    fn toolsets_share_what_they_have_in_common() {
        let cache = Arc::new(SchemaCache::new(1 << 20));
        let one = Toolset::merge(ToolSources::Client, vec![], vec![calculator()]).sharing(&cache);
        let two = Toolset::merge(ToolSources::Both, vec![inside("x", "")], vec![calculator()]).sharing(&cache);
        let schema = |toolset: &Toolset| toolset.get("calc.ulate").unwrap().schema().unwrap();
        assert!(Arc::ptr_eq(&schema(&one), &schema(&two)));
        let weak = Arc::downgrade(&schema(&one));
        let number = |number: usize| Arc::new(json!({"properties": {"a": {"pattern": format!("{number}[^b]{{50}}")}}}));
        (0..100).for_each(|index| drop(cache.compile(&number(index))));
        assert!(weak.upgrade().is_none(), "a toolset does not retain evicted schemas");
        assert!(schema(&one).check_arguments("{}").is_err(), "and is compiled again");
    }

    #[test]
    fn a_schema_compiles_once_and_only_when_asked() {
        let broken = Tool::new(
            "broken",
            "",
            json!({"type": "object", "properties": {"p": {"pattern": "[a"}}}),
            Binding::External,
        );
        let toolset = Toolset::merge(ToolSources::Client, vec![], vec![broken, calculator()]);
        assert!(toolset.get("broken").unwrap().schema().is_err());
        let member = toolset.get("calc.ulate").unwrap();
        assert!(Arc::ptr_eq(&member.schema().unwrap(), &member.schema().unwrap()));
        assert!(member.schema().unwrap().check_arguments("{}").is_err());
    }
}
