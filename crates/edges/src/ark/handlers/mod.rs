//! The handlers of routes: read the request, call the engine, answer.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod capabilities;
pub(crate) mod conversations;
pub(crate) mod events;
pub(crate) mod mcp_servers;
pub(crate) mod model_query;
pub(crate) mod namespaces;
pub(crate) mod openapi;
pub(crate) mod queries;
pub(crate) mod reload;
pub(crate) mod tool_cache;
pub(crate) mod tool_calls;
