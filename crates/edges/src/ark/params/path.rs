//! What the path of a request names.
//!
//! Names are not validated here: an invalid name is a name that does not exist, and the handler reports that in its
//! turn, after the faults of the body.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use bosun_core::{Namespace, QueryName};
use bosun_engine::QueryKey;

use crate::{
    auth::gate::RequestNamespace,
    http::error::{ApiError, Code, query_not_found},
};

/// `…/queries/{name}`
#[derive(Debug)]
pub(crate) struct QueryPath {
    pub(crate) namespace: Namespace,
    name: String,
}

impl QueryPath {
    /// The name as the path has it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The query. A name that no query can have is a query that does not exist.
    pub(crate) fn key(&self) -> Result<QueryKey, ApiError> {
        match self.name.parse::<QueryName>() {
            Ok(name) => Ok((self.namespace.clone(), name)),
            Err(_) => Err(query_not_found(self.namespace.as_str(), &self.name)),
        }
    }
}

/// `…/queries/{name}/tool-calls/{id}`
#[derive(Debug)]
pub(crate) struct CallPath {
    pub(crate) query: QueryPath,
    pub(crate) call_id: String,
}

/// `…/tool-calls/{id}`
#[derive(Debug)]
pub(crate) struct ClaimedCallPath {
    pub(crate) namespace: Namespace,
    pub(crate) call_id: String,
}

/// `…/agents/{name}`, and the like of all kinds
#[derive(Debug)]
pub(crate) struct ResourcePath {
    pub(crate) namespace: Namespace,
    pub(crate) name: String,
}

/// `…/conversations/{id}`
#[derive(Debug)]
pub(crate) struct ConversationPath {
    pub(crate) namespace: Namespace,
    pub(crate) conversation_id: String,
}

/// `…/conversations/{id}/queries/{name}`
#[derive(Debug)]
pub(crate) struct ConversationQueryPath {
    pub(crate) conversation: ConversationPath,
    pub(crate) query: String,
}

/// `…/memories/{name}/conversations/{id}`
#[derive(Debug)]
pub(crate) struct MemoryConversationPath {
    pub(crate) memory: String,
    pub(crate) conversation: ConversationPath,
}

/// The variable parts of a path.
struct Variables {
    namespace: Namespace,
    values: RawPathParams,
}

impl Variables {
    async fn read<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let values = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::new(Code::InvalidParameter, "the path is not UTF-8"))?;
        let namespace = RequestNamespace::from_request_parts(parts, state).await?;
        Ok(Self { namespace: Namespace::clone(&namespace), values })
    }

    /// The part with this name, which the table of routes gives to the path.
    fn take(&self, name: &str) -> String {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
    }
}

macro_rules! from_path {
    ($($path:ty, $variables:ident => $read:expr;)*) => {$(
        impl<S: Send + Sync> FromRequestParts<S> for $path {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
                let $variables = Variables::read(parts, state).await?;
                Ok($read)
            }
        }
    )*};
}

from_path! {
    QueryPath, path => QueryPath { name: path.take("name"), namespace: path.namespace };
    CallPath, path => CallPath {
        call_id: path.take("id"),
        query: QueryPath { name: path.take("name"), namespace: path.namespace },
    };
    ClaimedCallPath, path => ClaimedCallPath { call_id: path.take("id"), namespace: path.namespace };
    ResourcePath, path => ResourcePath { name: path.take("name"), namespace: path.namespace };
    ConversationPath, path => ConversationPath { conversation_id: path.take("id"), namespace: path.namespace };
    ConversationQueryPath, path => ConversationQueryPath {
        query: path.take("name"),
        conversation: ConversationPath { conversation_id: path.take("id"), namespace: path.namespace },
    };
    MemoryConversationPath, path => MemoryConversationPath {
        memory: path.take("name"),
        conversation: ConversationPath { conversation_id: path.take("id"), namespace: path.namespace },
    };
}
