//! Teams, and agents and teams as tools.

use std::sync::Arc;

use bosun_core::{
    Binding, Namespace, Tool,
    query::TargetKind,
    team::{Edge, Strategy},
    tool::ToolOrigin,
};
use serde_json::json;

use super::{AgentTool, Registry, frozen};

/// A team as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    pub namespace: Namespace,
    pub name: String,
    pub description: Option<String>,
    pub members: Vec<TeamMember>,
    pub strategy: Strategy,
    pub max_turns: Option<u32>,
    pub edges: Vec<Edge>,
    /// The agent whose model and prompt choose the next member.
    pub selector: Option<String>,
    pub selector_prompt: Option<String>,
}

/// A member of a team: an agent or another team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamMember {
    pub name: String,
    pub kind: TargetKind,
}

impl Registry {
    /// Adds a team; an earlier one of the same name is replaced.
    pub fn add_team(&mut self, team: Team) {
        self.configured_mut(team.namespace.clone()).teams.insert(team.name.clone(), Arc::new(team));
    }

    #[must_use]
    pub fn team(&self, namespace: &Namespace, name: &str) -> Option<&Arc<Team>> {
        self.configured(namespace)?.teams.get(name)
    }

    /// An agent or a team as a tool.
    pub(crate) fn as_tool(&self, namespace: &Namespace, kind: TargetKind, name: &str) -> Option<Tool> {
        let (description, binding) = match kind {
            TargetKind::Agent => {
                (self.agent(namespace, name)?.description.clone(), Binding::Agent { name: name.to_owned() })
            }
            TargetKind::Team => {
                (self.team(namespace, name)?.description.clone(), Binding::Team { name: name.to_owned() })
            }
            TargetKind::Model | TargetKind::Tool => return None,
        };
        let description = description.unwrap_or_else(|| format!("Asks the {} `{name}`", kind.as_str()));
        let input = json!({"type": "string", "description": "What it is asked"});
        let parameters = json!({"type": "object", "properties": {"input": input}, "required": ["input"]});
        Some(Tool { origin: ToolOrigin::Operator, ..Tool::new(name, description, parameters, binding) })
    }

    /// The tool that an entry of an agent names.
    pub(super) fn tool_of(&self, namespace: &Namespace, entry: &AgentTool) -> Option<Tool> {
        let declared = self.tool(namespace, entry.tool()).map(frozen);
        declared.or_else(|| self.as_tool(namespace, entry.asks?, entry.tool()))
    }
}
