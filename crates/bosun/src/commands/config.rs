//! `bosun config`: the settings in force, and the source of each value.

use std::{io::Write, path::PathBuf, process::ExitCode};

use bosun_reading::SourcePlace;
use serde_json::{Value, json};

use crate::{
    config::Config,
    settings::{Layers, Resolved, Source, default_file},
};

/// Show the settings that `bosun serve` would have, and where each comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// File of settings; default: `bosun.toml` in this directory, if it exists
    #[arg(long = "config", value_name = "FILE", env = "BOSUN_CONFIG")]
    _file: Option<PathBuf>,
    /// Print the default file, which is the manual of all settings
    #[arg(long)]
    default: bool,
    /// Print the settings as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: Config,
}

impl Show {
    pub(crate) fn run(self, layers: &Layers) -> anyhow::Result<ExitCode> {
        let mut output = anstream::stdout().lock();
        if self.default {
            write!(output, "{}", default_file(&layers.settings))?;
            return Ok(ExitCode::SUCCESS);
        }
        self.config.check()?;
        if self.json {
            let shown: serde_json::Map<String, Value> = layers.resolved.iter().map(describe).collect();
            writeln!(output, "{:#}", Value::from(shown))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut section: Option<&str> = None;
        for resolved in &layers.resolved {
            let setting = &resolved.setting;
            if setting.section.as_deref() != section {
                section = setting.section.as_deref();
                writeln!(output, "\n[{}]", section.unwrap_or_default())?;
            }
            let line = match resolved.values.as_slice() {
                [] => format!("# {} is not set", setting.name),
                values => format!("{} = {}", setting.name, setting.write(values)),
            };
            writeln!(output, "{line:<40} # {}", origin(&resolved.source))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn origin(source: &Source) -> String {
    match source {
        Source::Default => "default".into(),
        Source::File { file, place: SourcePlace { line, column } } => format!("{}:{line}:{column}", file.display()),
        Source::Environment(variable) => variable.clone(),
        Source::Flag(flag) => flag.clone(),
    }
}

fn describe(resolved: &Resolved) -> (String, Value) {
    let setting = &resolved.setting;
    let name = match &setting.section {
        Some(section) => format!("{section}.{}", setting.name),
        None => setting.name.clone(),
    };
    (name, json!({"value": setting.to_json(&resolved.values), "from": origin(&resolved.source)}))
}
