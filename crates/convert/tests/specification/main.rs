//! The examples of the four specifications that the tools were built from, each under its own name: the converter from
//! n8n's tools, the plain collection, the client tool provider, and tools as configuration. What is printed there must
//! hold here, to the letter where it is data.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue should say where and stop")]

mod client_tool_provider;
mod converter;
mod tool_manager;
mod tool_system;
