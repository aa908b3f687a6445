//! A server that withholds one tool until it is approved.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bosun_core::{ContentHash, Namespace, Timestamp};

use crate::tool_server::{ApproveError, DefinitionChange, ServerPhase, ServerStatus, ServerTool, ToolServers};

/// One server of this name, in every namespace.
#[derive(Debug)]
pub struct WithheldTool {
    server: &'static str,
    is_approved: AtomicBool,
}

impl WithheldTool {
    #[must_use]
    pub fn of(server: &'static str) -> Self {
        Self { server, is_approved: AtomicBool::new(false) }
    }

    fn tool(&self) -> String {
        format!("{}-tool", self.server)
    }
}

#[async_trait]
impl ToolServers for WithheldTool {
    fn status(&self, _: &Namespace, name: &str) -> Option<ServerStatus> {
        let is_approved = self.is_approved.load(Ordering::Relaxed);
        let change =
            DefinitionChange { field: "title".to_owned(), approved: None, announced: Some("\"x\"".to_owned()) };
        let tool = ServerTool {
            name: self.tool(),
            original: "tool".to_owned(),
            description: "A tool".to_owned(),
            hash: ContentHash::of(b"tool"),
            changes: if is_approved { Vec::new() } else { vec![change] },
        };
        (name == self.server).then(|| ServerStatus {
            phase: if is_approved { ServerPhase::Ready } else { ServerPhase::Quarantined },
            since: Timestamp(0),
            message: String::new(),
            tools: vec![tool],
            peer: None,
        })
    }

    async fn approve(&self, _: &Namespace, name: &str, tools: &[String]) -> Result<Vec<String>, ApproveError> {
        if name != self.server {
            return Err(ApproveError::NotFound(name.to_owned()));
        }
        if let Some(tool) = tools.iter().find(|tool| **tool != self.tool()) {
            return Err(ApproveError::NotWithheld { server: name.to_owned(), tool: tool.clone() });
        }
        let was_approved = self.is_approved.swap(true, Ordering::Relaxed);
        Ok(if was_approved { Vec::new() } else { vec![self.tool()] })
    }
}
