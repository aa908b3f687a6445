//! Stand-in until the real toolset lands from its branch, so that the engine builds meanwhile.
use crate::{
    ContentHash, Tool, json,
    schema::{Schema, SchemaError},
};
use std::sync::{Arc, OnceLock};
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Ark,
    N8n,
    Hybrid,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    OpenAiChat,
}
#[derive(Debug)]
pub struct Member {
    pub tool: Tool,
    pub alias: String,
    schema: OnceLock<Result<Schema, SchemaError>>,
}
impl Member {
    pub fn schema(&self) -> Result<&Schema, &SchemaError> {
        self.schema.get_or_init(|| Schema::compile(&self.tool.parameters)).as_ref()
    }
}
#[derive(Debug)]
pub struct Toolset {
    members: Vec<Member>,
    hash: ContentHash,
}
impl Toolset {
    pub fn merge(mode: Mode, ark: Vec<Tool>, client: Vec<Tool>) -> Self {
        let mut all = Vec::new();
        if mode != Mode::Ark {
            all.extend(client);
        }
        if mode != Mode::N8n {
            for t in ark {
                all.retain(|x: &Tool| x.name != t.name);
                all.push(t);
            }
        }
        Self::of(all)
    }
    fn of(all: Vec<Tool>) -> Self {
        let hash = ContentHash::of(serde_json::to_string(&all).unwrap_or_default().as_bytes());
        Self {
            members: all
                .into_iter()
                .map(|tool| Member { alias: tool.name.clone(), tool, schema: OnceLock::new() })
                .collect(),
            hash,
        }
    }
    pub fn hash(&self) -> ContentHash {
        self.hash
    }
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.members.iter().find(|m| m.tool.name == name).map(|m| &m.tool)
    }
    pub fn by_alias(&self, alias: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.alias == alias)
    }
    pub fn to_document(&self) -> String {
        serde_json::to_string(&self.members.iter().map(|m| &m.tool).collect::<Vec<_>>()).unwrap_or_default()
    }
    pub fn from_document(t: &str) -> Result<Self, serde_json::Error> {
        Ok(Self::of(serde_json::from_str(t)?))
    }
}
