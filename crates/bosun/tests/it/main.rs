//! The program, driven from outside.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of this is test code, helpers included: a panic is how a test fails"
)]

mod a2a;
mod a2a_push;
mod a2a_servers;
mod access;
mod agent_tools;
mod approvals;
mod architecture;
mod attack;
mod audit;
mod audit_coverage;
mod canaries;
mod chaos;
mod chat;
mod cli_convert;
mod cli_tools;
mod client;
mod commits;
mod config;
mod conversations;
mod demo;
mod dependencies;
mod deploy;
mod disasters;
mod environment;
mod grpc;
mod hostile_files;
mod http_tools;
mod init;
mod large;
mod limits;
mod logs;
mod makefile;
mod mcp;
mod models;
mod nango;
mod nodes;
mod overload;
mod parameters;
mod private_addresses;
mod program;
mod query;
mod races;
mod readme;
mod recovery;
mod reload;
mod resources;
mod routes;
mod scripted;
mod scripts;
mod secret_hosts;
mod serve;
mod shown;
mod shutdown;
mod sse;
mod store_files;
mod support;
mod teams;
mod terminal;
mod timeline;
mod tool_calls;
mod traces;
mod transports;
mod trees;
mod upgrades;
mod workers;
