//! `bosun tools call`: runs one tool by hand.
//!
//! Either way the call is a query of the tool, checked, limited and audited like every other: without `--server` in this
//! process, from the files that a server would read, and with it on the server. The result goes to standard output,
//! everything else to standard error.

mod local;
mod remote;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use bosun_client::Key;
use bosun_core::{
    json::{self, JsonLimits},
    text,
};
use serde_json::{Value, json};
use url::Url;

use super::validate::read_stdin;
use crate::{
    commands::{Usage, block_on, report::printable},
    config::{connection, duration, nango_url},
    reload::collection::ToolSource,
};

/// Run one tool by hand.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun tools call calculator '{\"expression\": \"6 * 7\"}'
  bosun tools call weather '{\"city\": \"Paris\"}' --manifests ./agents
  bosun tools call list-pets --tools tools.yaml
  bosun tools call files-read-text-file '{\"path\": \"docs/answer.txt\"}'
  bosun tools call fetch_emails --tools tool-config.json --nango-url https://api.nango.dev \\
    --nango-connections google-mail=my-connection '{\"input\": {\"operation\": \"fetch\"}}'
  bosun tools call weather '{\"city\": \"Paris\"}' --server http://127.0.0.1:8080
  jq -c .arguments call.json | bosun tools call weather - -o json

Without --server the tool runs in this process: its definition is read from --manifests and --tools and its secrets from
--secrets. An MCP server that it belongs to is started for the call, and a tool of an integration is run through
--nango-url. A call that needs approval is shown first and runs after a `y` on standard input. The audit log of the store in --data gets its
records, if there is one. With --server the call is a query on the server, with the server's limits, journal and audit
log.

The arguments are checked against the tool's parameters before it runs. Exit code 1 means that the call failed; the
reason is on standard error, or with `-o json` on standard output.")]
pub(super) struct Call {
    /// The name of the tool
    name: String,
    /// The arguments as a JSON object; `-` reads them from standard input
    #[arg(default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    local: LocalOptions,
    /// Run it on this server
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Key for the server: its secret, both halves as pk-…:sk-…, or a token
    #[arg(long, value_name = "KEY", env = "BOSUN_KEY", hide_env_values = true)]
    key: Option<Key>,
    /// Namespace of the tool; default: `default`, and on a server the key's own
    #[arg(long)]
    namespace: Option<String>,
    /// How to print the outcome
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: OutputFormat,
}

/// What a run in this process needs.
#[derive(Debug, clap::Args)]
struct LocalOptions {
    /// Directory of agents, tools and MCP servers as YAML; may be given several times; default: ./agents
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    manifests: Vec<PathBuf>,
    /// File, folder or https URL of tools, in any format of `bosun convert`; may be given several times
    #[arg(long, value_name = "PATH|URL", conflicts_with = "server")]
    tools: Vec<ToolSource>,
    /// Directory of secrets, as NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR", default_value = "./secrets", conflicts_with = "server")]
    secrets: PathBuf,
    /// Directory of the store that the call is recorded in, and of pinned definitions
    #[arg(long, value_name = "DIR", default_value = "./data", conflicts_with = "server")]
    data: PathBuf,
    /// Time for the call; a tool may have a shorter one
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, conflicts_with = "server")]
    tool_timeout: Duration,
    /// Address of Nango, whose integrations run tools of `tool-config.json`; its key is the secret `nango`, key `key`
    #[arg(long, value_name = "URL", value_parser = nango_url, env = "BOSUN_NANGO_URL", hide_env = true)]
    nango_url: Option<Url>,
    /// Connection of a Nango integration; may be given several times
    #[arg(long, value_name = "PROVIDER=CONNECTION", value_parser = connection, conflicts_with = "server")]
    nango_connections: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    /// The result: text as it is, anything else as JSON
    #[default]
    Text,
    /// The outcome as one JSON object: `success`, and `result` or `error`
    Json,
}

/// The server's code for arguments that do not match the parameters of the tool.
const INVALID_ARGUMENTS: &str = "invalid_tool_arguments";

/// How a call ended.
enum CallResult {
    Success(Value),
    Failure { code: String, message: String },
}

impl Call {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { name, arguments, local, server, key, namespace, output } = self;
        let arguments = if arguments == "-" { read_stdin()? } else { arguments };
        check_object(&arguments)?;
        let result = match server {
            Some(server) => block_on(remote::call(&server, key.as_ref(), namespace, &name, &arguments))?,
            None => block_on(local.call(namespace, &name, &arguments))?,
        };
        result.print(output)?;
        Ok(if matches!(result, CallResult::Success(_)) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A query of a tool wraps anything but an object as `{"input": …}`, which is not what a caller means here.
fn check_object(arguments: &str) -> Result<(), Usage> {
    match json::parse(arguments, JsonLimits::ARGUMENTS) {
        Ok(Value::Object(_)) => Ok(()),
        Ok(_) => Err(Usage("the arguments of a call are a JSON object, such as '{\"city\": \"Paris\"}'".into())),
        Err(error) => Err(Usage(format!("the arguments are not JSON: {error}"))),
    }
}

impl CallResult {
    fn print(&self, output: OutputFormat) -> io::Result<()> {
        match (self, output) {
            (Self::Success(result), OutputFormat::Json) => print_json(&json!({"success": true, "result": result})),
            (Self::Failure { code, message }, OutputFormat::Json) => {
                print_json(&json!({"success": false, "error": {"code": code, "message": message}}))
            }
            (Self::Success(Value::String(text)), OutputFormat::Text) if io::stdout().is_terminal() => {
                writeln!(io::stdout(), "{}", printable(text))
            }
            (Self::Success(Value::String(text)), OutputFormat::Text) => writeln!(io::stdout(), "{text}"),
            (Self::Success(result), OutputFormat::Text) => print_json(result),
            (Self::Failure { code, message }, OutputFormat::Text) => {
                writeln!(anstream::stderr(), "{} [{code}]", printable(message))
            }
        }
    }
}

/// On several lines for a reader, on one for a program.
fn print_json(value: &Value) -> io::Result<()> {
    // JSON escapes control characters, so it is safe on a terminal.
    if io::stdout().is_terminal() { writeln!(io::stdout(), "{value:#}") } else { writeln!(io::stdout(), "{value}") }
}

/// That there is no such tool, with the name that was probably meant.
fn unknown_tool<'a>(name: &str, place: &str, known: impl Iterator<Item = &'a str> + Clone) -> anyhow::Error {
    let hint = match text::closest(name, known.clone()) {
        Some(closest) => format!("; did you mean `{closest}`?"),
        None => {
            let names: Vec<String> = known.map(|name| format!("`{name}`")).collect();
            format!("; there are {}", names.join(", "))
        }
    };
    anyhow::anyhow!("there is no tool `{}` {place}{}", printable(name), printable(&hint))
}

/// That no server can run the tool.
fn run_by_client(name: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "tool `{}` is of type `external`: the client of a query runs it, and no server can; try it with \
         `bosun query --tools FILE --run {0}='COMMAND'`",
        printable(name)
    )
}
