//! `bosun mcp add`: writes the manifest of an MCP server.

use std::{
    fmt::Write as _,
    fs::File,
    io::{ErrorKind, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use bosun_core::QueryName;
use serde_json::Value;

use crate::commands::Usage;

/// Write the manifest of an MCP server: a local program, or a server behind a URL.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A header or variable with a secret is written as NAME=@SECRET/KEY: the manifest then refers to the
secret, and its value goes into <secrets>/<namespace>/SECRET/KEY."
)]
pub(super) struct Add {
    /// The name: its tools are called NAME-TOOL
    name: String,
    /// The folder of manifests
    #[arg(long, value_name = "DIR", default_value = "./agents")]
    dir: PathBuf,
    /// The address of a server behind streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    url: Option<String>,
    /// A header of every request, as NAME=VALUE
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "url")]
    headers: Vec<String>,
    /// The secret with the server's token, as SECRET/KEY
    #[arg(long, value_name = "SECRET/KEY", requires = "url")]
    bearer: Option<String>,
    /// A variable of the program's environment, as NAME=VALUE
    #[arg(long = "env", value_name = "NAME=VALUE", requires = "command")]
    env: Vec<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Add {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if let Err(error) = self.name.parse::<QueryName>() {
            return Err(Usage(format!("`{}` cannot be the name of an MCP server: {error}", self.name)).into());
        }
        let manifest = self.manifest()?;
        std::fs::create_dir_all(&self.dir).with_context(|| format!("{} cannot be created", self.dir.display()))?;
        let path = self.dir.join(format!("{}.mcp.yaml", self.name));
        let mut file = match File::create_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                anyhow::bail!("{} exists already: remove it first, or choose another name", path.display());
            }
            Err(error) => return Err(error).with_context(|| format!("{} cannot be written", path.display())),
        };
        file.write_all(manifest.as_bytes()).with_context(|| format!("{} cannot be written", path.display()))?;
        let name = &self.name;
        writeln!(
            anstream::stdout(),
            "wrote {}\n\nAgents use its tools as `{name}-<tool>`; `bosun mcp show {name}` lists them once the server runs.",
            path.display()
        )?;
        Ok(ExitCode::SUCCESS)
    }

    fn manifest(&self) -> anyhow::Result<String> {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut text = format!(
            "apiVersion: ark.mckinsey.com/v1alpha1\nkind: MCPServer\nmetadata: {{name: {}}}\nspec:\n",
            quoted(&self.name)
        );
        match (&self.url, self.command.split_first()) {
            (Some(url), _) => {
                write!(text, "  transport: http\n  address: {{value: {}}}\n", quoted(url))?;
                if let Some(reference) = &self.bearer {
                    writeln!(text, "  authorization: {{bearer: {}}}", secret(reference)?)?;
                }
                write_values(&mut text, "  ", "headers", &self.headers)?;
            }
            (None, Some((program, arguments))) => {
                let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
                write!(text, "  transport: stdio\n  stdio:\n    command: {}\n", quoted(program))?;
                writeln!(text, "    args: [{}]", arguments.join(", "))?;
                write_values(&mut text, "    ", "env", &self.env)?;
            }
            (None, None) => {
                return Err(Usage("name a program after `--`, or an address with `--url`".to_owned()).into());
            }
        }
        Ok(text)
    }
}

fn write_values(text: &mut String, indent: &str, field: &str, values: &[String]) -> anyhow::Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    writeln!(text, "{indent}{field}:")?;
    for value in values {
        let Some((name, value)) = value.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Usage(format!("`{value}` is not of the form NAME=VALUE")).into());
        };
        let name = Value::from(name);
        let source = match value.strip_prefix('@') {
            Some(reference) => secret(reference)?,
            None => format!("{{value: {}}}", Value::from(value)),
        };
        writeln!(text, "{indent}  - {{name: {name}, value: {source}}}")?;
    }
    Ok(())
}

fn secret(reference: &str) -> anyhow::Result<String> {
    let Some((name, key)) = reference.split_once('/').filter(|(name, key)| !name.is_empty() && !key.is_empty()) else {
        return Err(Usage(format!("`{reference}` is not of the form SECRET/KEY")).into());
    };
    Ok(format!("{{valueFrom: {{secretKeyRef: {{name: {}, key: {}}}}}}}", Value::from(name), Value::from(key)))
}
