//! MCP servers as sources of tools: a client of the Model Context Protocol.
//!
//! A [`Host`] connects to the servers that manifests describe, over streamable HTTP or as programs on this machine,
//! lists their tools in the background and runs calls of them. One server that is slow, dead or hostile affects
//! neither the start nor the tools of the others. Definitions are pinned: a server cannot change a tool that was
//! trusted. Resources, prompts and sampling are deliberately absent.

mod content;
mod definition;
mod elicitation;
mod error;
mod failure;
mod host;
mod http;
mod identity;
mod listener;
mod negotiation;
mod pins;
mod pool;
mod reaper;
mod redact;
mod runner;
mod server;
mod session;
mod stdio;

pub use host::Host;
pub use reaper::{REAP_COMMAND, reap, run_released};
