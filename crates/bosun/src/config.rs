//! The settings of a server, in one table.
//!
//! Each field is an option of `bosun serve`, a variable `BOSUN_…` and a key of `bosun.toml`;
//! [`settings`](crate::settings) derives the last two from the first, and merges the three. The first line of a field's
//! documentation is its manual, everywhere.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use bosun_adapters::{address::Exception, runner::nango::NangoSettings, store::sqlite::audit::Audit};
use bosun_core::{QueryLimits, audit::ArgumentsInAudit, duration, tool::Confirm};
use bosun_edges::ErrorMapping;
use bosun_engine::EngineSettings;
use url::Url;

use crate::{commands::Usage, reload::collection::ToolSource, telemetry::LogFormat};

/// Where a server listens, what it serves, and what a query may use.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Config {
    /// Address and port to listen on; port 0 picks a free one; addresses other than loopback need `auth`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Address and port of A2A over gRPC, without TLS, in a build with the feature `grpc`; none without it
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) grpc_listen: Option<SocketAddr>,
    /// Directory of the store; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub(crate) data: PathBuf,
    /// Directory of agents, models and tools as YAML; may be given several times
    #[arg(long, value_name = "DIR", default_value = "./agents")]
    pub(crate) manifests: Vec<PathBuf>,
    /// File, folder or https URL of tools, in any format of `bosun convert`; may be given several times
    #[arg(long, value_name = "PATH|URL")]
    pub(crate) tools: Vec<ToolSource>,
    /// Directory of secrets, as NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR", default_value = "./secrets")]
    pub(crate) secrets: PathBuf,
    /// File of keys; without it, every client on this machine may do everything
    #[arg(long, value_name = "FILE")]
    pub(crate) auth: Option<PathBuf>,
    /// Host name that clients may use, in addition to the server's addresses; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Private host, HOST:PORT or network that models stored by clients may call; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) allow_private: Vec<Exception>,
    /// Log format on standard error: text, or json for machines; RUST_LOG sets the level
    #[arg(long, alias = "log-format", value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) log: LogFormat,

    /// Running time of a query that asks for none; waiting outside does not count
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, help_heading = "Limits")]
    query_timeout: Duration,
    /// Running time that a query may ask for
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration, help_heading = "Limits")]
    query_timeout_ceiling: Duration,
    /// Time for one call of an inside tool
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, help_heading = "Limits")]
    tool_timeout: Duration,
    /// Time that a query or a tool may ask for, for one call of an inside tool
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration, help_heading = "Limits")]
    tool_timeout_ceiling: Duration,
    /// How long a call waits for its client
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, help_heading = "Limits")]
    external_timeout: Duration,
    /// Time that a query or a tool may ask for, for one call that waits for its client
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = duration, help_heading = "Limits")]
    external_timeout_ceiling: Duration,
    /// How long a call waits for a person: for an approval, or for the values of parameters
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration, help_heading = "Limits")]
    approval_timeout: Duration,
    /// Time that a query or a tool may ask for, for one call that waits for a person
    #[arg(long, value_name = "DURATION", default_value = "168h", value_parser = duration, help_heading = "Limits")]
    approval_timeout_ceiling: Duration,
    /// Tool calls of one query
    #[arg(long, value_name = "NUMBER", default_value_t = 10, help_heading = "Limits")]
    max_tool_calls: u32,
    /// Tool calls that a query may ask for
    #[arg(long, value_name = "NUMBER", default_value_t = 100, help_heading = "Limits")]
    max_tool_calls_ceiling: u32,
    /// Tokens of one query, over all its turns; without it, unlimited
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    max_tokens: Option<u64>,
    /// How long a query is kept after it has ended
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = duration, help_heading = "Limits")]
    ttl: Duration,
    /// Retention that a query may ask for
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration, help_heading = "Limits")]
    ttl_ceiling: Duration,
    /// Queries that run concurrently; the others are queued
    #[arg(long, value_name = "NUMBER", default_value_t = 256, help_heading = "Limits",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    max_running: usize,
    /// Length of the queue; when it is full, new queries are refused with 503
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, help_heading = "Limits",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000_000))]
    max_queued: usize,
    /// Percentage of the capacity left by other namespaces that one namespace may use, running and queued
    #[arg(long, value_name = "PERCENT", default_value_t = 90, help_heading = "Limits",
        value_parser = clap::value_parser!(u8).range(1..=100))]
    namespace_share: u8,
    /// Concurrent connections; further clients are refused with 503
    #[arg(long, value_name = "NUMBER", default_value_t = 16_384, help_heading = "Limits",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub(crate) max_connections: usize,

    /// Whether calls wait for a person's approval: never, always, or auto for those of tools that write
    #[arg(
        long,
        value_name = "POLICY",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Approvals"
    )]
    confirm: ApprovalPolicy,

    /// Whether to keep an audit log
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = switch, action = clap::ArgAction::Set,
        help_heading = "Audit")]
    audit: bool,
    /// How the audit log stores the arguments of calls: redacted, full, or only their hash
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, hide_possible_values = true, help_heading = "Audit")]
    audit_arguments: AuditedArguments,
    /// File of the keys that seal the audit log; if unset, audit.key next to the store
    #[arg(long, value_name = "FILE", help_heading = "Audit")]
    audit_key_file: Option<PathBuf>,
    /// File that the heads of the audit log are appended to every minute; if unset, audit.heads next to the store
    #[arg(long, value_name = "FILE", help_heading = "Audit")]
    audit_heads_file: Option<PathBuf>,
    /// Retention of audit records; forever without it
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Audit")]
    audit_retention: Option<Duration>,

    /// Address of Nango, whose integrations run tools of `tool-config.json`; its key is the secret `nango`, key `key`
    #[arg(long, value_name = "URL", value_parser = nango_url, help_heading = "Nango")]
    nango_url: Option<Url>,
    /// Connection of an integration for queries without an end user; may be given several times
    #[arg(long, value_name = "PROVIDER=CONNECTION", value_parser = connection, help_heading = "Nango")]
    nango_connections: Vec<(String, String)>,

    /// Which edition of A2A 1.0 decides the HTTP status of its errors: 1.0.1, or 1.0.0 as the compatibility kit has it
    #[arg(long, value_name = "EDITION", value_parser = error_mapping, hide = true)]
    pub(crate) a2a_errors: Option<ErrorMapping>,
    /// Die at a named point, as if killed: POINT or POINT:N for the Nth pass
    #[arg(long, value_name = "POINT", hide = true)]
    pub(crate) fault: Option<String>,
    /// Offer tools that write each run into this file, so that effects can be counted
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) ledger: Option<PathBuf>,
    /// Stop when standard input ends, so that a server ends with the program that started it
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

fn error_mapping(text: &str) -> Result<ErrorMapping, &'static str> {
    match text {
        "1.0.0" => Ok(ErrorMapping::V1_0_0),
        "1.0.1" => Ok(ErrorMapping::V1_0_1),
        _ => Err("must be 1.0.0 or 1.0.1"),
    }
}

#[cfg(feature = "grpc")]
fn check_grpc() -> Result<(), Usage> {
    Ok(())
}

#[cfg(not(feature = "grpc"))]
fn check_grpc() -> Result<(), Usage> {
    Err(crate::features::not_built("`--grpc-listen`", "grpc"))
}

impl Config {
    /// Without keys every client may do everything, so only this machine may connect.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.grpc_listen.is_some() {
            check_grpc()?;
        }
        let addresses = [Some(self.listen), self.grpc_listen];
        let mut others = addresses.into_iter().flatten().map(|address| address.ip()).filter(|ip| !ip.is_loopback());
        let Some(address) = others.next().filter(|_| self.auth.is_none()) else { return Ok(()) };
        Err(Usage(format!(
            "{address} can be reached from other machines, and the server has no keys: make one with \
             `bosun keys create` and start with `--auth keys.toml`, or listen on 127.0.0.1"
        )))
    }

    pub(crate) fn settings(&self) -> EngineSettings {
        let limits = QueryLimits {
            query_timeout: self.query_timeout,
            tool_timeout: self.tool_timeout,
            external_timeout: self.external_timeout,
            approval_timeout: self.approval_timeout,
            max_tool_calls: self.max_tool_calls,
            max_tokens: self.max_tokens,
            ttl: self.ttl,
        };
        EngineSettings {
            limits,
            // A default above its ceiling is the operator's word, too.
            ceilings: QueryLimits {
                query_timeout: self.query_timeout_ceiling.max(limits.query_timeout),
                tool_timeout: self.tool_timeout_ceiling.max(limits.tool_timeout),
                external_timeout: self.external_timeout_ceiling.max(limits.external_timeout),
                approval_timeout: self.approval_timeout_ceiling.max(limits.approval_timeout),
                max_tool_calls: self.max_tool_calls_ceiling.max(limits.max_tool_calls),
                max_tokens: limits.max_tokens,
                ttl: self.ttl_ceiling.max(limits.ttl),
            },
            max_running: self.max_running,
            max_queued: self.max_queued,
            namespace_share: self.namespace_share,
            confirm: match self.confirm {
                ApprovalPolicy::Never => Confirm::Never,
                ApprovalPolicy::Always => Confirm::Always,
                ApprovalPolicy::Auto => Confirm::Auto,
            },
            audited_arguments: match self.audit_arguments {
                AuditedArguments::Hash => ArgumentsInAudit::Hash,
                AuditedArguments::Redacted => ArgumentsInAudit::Redacted,
                AuditedArguments::Full => ArgumentsInAudit::Full,
            },
            exports_spans: false,
        }
    }

    /// Where Nango is, if the server uses one.
    pub(crate) fn nango(&self) -> Option<NangoSettings> {
        let connections = self.nango_connections.iter().cloned().collect();
        self.nango_url.clone().map(|url| NangoSettings { url, connections })
    }

    pub(crate) fn audit(&self) -> Audit {
        let (key_file, heads_file) = (self.audit_key_file.clone(), self.audit_heads_file.clone());
        Audit { on: self.audit, key_file, heads_file, retention: self.audit_retention }
    }
}

/// Whether calls wait for approval, where neither the tool nor its agent says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ApprovalPolicy {
    Never,
    Always,
    #[default]
    Auto,
}

/// What the audit log says about the arguments of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum AuditedArguments {
    Hash,
    #[default]
    Redacted,
    Full,
}

fn switch(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("write on or off"),
    }
}

pub(crate) fn nango_url(text: &str) -> Result<Url, &'static str> {
    let url: Url = text.parse().map_err(|_| "write it as https://HOST")?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let has_more = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
    if is_web && !has_more { Ok(url) } else { Err("write it as https://HOST, without a user, a password or a query") }
}

pub(crate) fn connection(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((provider, connection)) if !provider.is_empty() && !connection.is_empty() => {
            Ok((provider.to_owned(), connection.to_owned()))
        }
        _ => Err("write it as PROVIDER=CONNECTION"),
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    match text.strip_prefix("localhost:").map(str::parse) {
        Some(Ok(port)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        _ => text.parse().map_err(|_| "write it as ADDRESS:PORT, for instance 127.0.0.1:8080"),
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    duration::parse_positive(text).ok_or(duration::HINT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        config: Config,
    }

    #[test]
    fn only_this_machine_may_reach_a_server_without_keys() {
        let config = |listen: &str| <Line as clap::Parser>::try_parse_from(["bosun", "--listen", listen]);
        for text in ["127.0.0.1:8080", "127.0.0.2:0", "[::1]:80", "localhost:8080"] {
            assert!(config(text).unwrap().config.check().is_ok(), "{text}");
        }
        for text in ["0.0.0.0:8080", "[::]:8080", "192.168.1.5:80", "10.0.0.1:80"] {
            let mut config = config(text).unwrap().config;
            assert!(config.check().unwrap_err().to_string().contains("`--auth keys.toml`"), "{text}");
            config.auth = Some("keys.toml".into());
            assert!(config.check().is_ok(), "{text}");
        }
        for text in ["", "8080", "127.0.0.1", "localhost", "example.com:80", "localhost:99999"] {
            assert!(config(text).unwrap_err().to_string().contains("write it as"), "{text}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let line = <Line as clap::Parser>::parse_from(["bosun"]);
        let (ours, engines) = (line.config.settings(), EngineSettings::default());
        // An engine without configuration grants no more than its defaults.
        assert_eq!(EngineSettings { ceilings: engines.ceilings, ..ours }, engines);
        let ceilings = ours.ceilings;
        assert!(ceilings.query_timeout >= ours.limits.query_timeout && ceilings.ttl >= ours.limits.ttl);
        assert!(ceilings.approval_timeout >= ours.limits.approval_timeout);
    }
}
