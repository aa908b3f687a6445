//! Which conversations, and whose messages in them.

use bosun_core::QueryName;
use serde_json::json;

use super::{ParamGroup, QueryParameter, non_empty, text_schema};

/// `memory`
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryFilter {
    pub(crate) memory: Option<String>,
}

impl ParamGroup for MemoryFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["memory"],
        description: "Only of this memory",
        schema: text_schema,
        read: |this, value, _| {
            this.memory = non_empty(value);
            Ok(())
        },
    }];
}

/// `conversation`
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationFilter {
    pub(crate) conversation: Option<String>,
}

impl ParamGroup for ConversationFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["conversation"],
        description: "Only this conversation",
        schema: text_schema,
        read: |this, value, _| {
            this.conversation = non_empty(value);
            Ok(())
        },
    }];
}

/// `query`
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageFilter {
    pub(crate) query: Option<String>,
}

impl ParamGroup for MessageFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["query"],
        description: "Only the messages of this query, by name or uid",
        schema: || json!({"type": "string", "minLength": 1}),
        read: |this, value, _| {
            let query: QueryName = value.parse().map_err(|_| "the name of a query")?;
            this.query = Some(query.to_string());
            Ok(())
        },
    }];
}
