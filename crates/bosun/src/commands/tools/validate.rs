//! `bosun tools validate`.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::{Context, anyhow};
use bosun_core::{
    Schema, Tool,
    json::JsonLimits,
    tool::{missing::missing_parameters, wrapper},
};

use super::CatalogArguments;
use crate::commands::report::{count, printable};

/// Check the arguments of one call, as the server would.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun tools validate calculator '{\"expression\": \"1 + 1\"}'
  jq -c .arguments call.json | bosun tools validate calculator -

What the tool would be given goes to standard output. Exit code 1 means that the arguments do not fit.")]
pub(super) struct Validate {
    /// The name of the tool
    name: String,
    /// The arguments as JSON; `-` reads them from standard input
    arguments: String,
    #[command(flatten)]
    catalog: CatalogArguments,
}

impl Validate {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = self.catalog.load()?;
        let tool = loaded.tool(&self.name)?;
        let text = if self.arguments == "-" { read_stdin()? } else { self.arguments };
        let parameters = tool.checked_parameters();
        let schema = Schema::compile(&parameters)
            .map_err(|error| anyhow!("the parameters of `{}` are not a schema: {error}", tool.name))?;
        match schema.check_arguments(&text) {
            Ok(arguments) => {
                for path in &arguments.dropped {
                    anstream::eprintln!("warning: `{}` is null, which counts as left out", printable(path));
                }
                anstream::println!("{:#}", wrapper::unwrap(&parameters, arguments.into_value()));
                Ok(ExitCode::SUCCESS)
            }
            Err(violations) => {
                for violation in &violations {
                    anstream::eprintln!("{}", printable(&violation.message));
                }
                print_missing(tool, &schema, &text);
                anstream::eprintln!(
                    "{} in the arguments of `{}`",
                    count(violations.len(), "fault"),
                    printable(&tool.name)
                );
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// The missing parameters that a user would have to be asked for.
fn print_missing(tool: &Tool, schema: &Schema, text: &str) {
    let Ok(value) = bosun_core::json::parse(text, JsonLimits::ARGUMENTS) else { return };
    for missing in missing_parameters(schema, &value) {
        let question = missing.prompt.or(missing.description).map(|text| format!(": {text}")).unwrap_or_default();
        let options = missing.options.map(|options| format!(", one of {options}")).unwrap_or_default();
        let line = format!("    {} of `{}` is needed{options}{question}", missing.path, tool.name);
        anstream::eprintln!("{}", printable(&line));
    }
}

pub(super) fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    // One byte more than the limit of arguments, so that longer ones are refused and not cut.
    let limit = JsonLimits::ARGUMENTS.bytes as u64 + 1;
    io::stdin().lock().take(limit).read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}
