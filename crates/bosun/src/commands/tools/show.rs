//! `bosun tools show`.

use std::process::ExitCode;

use anstyle::Style;
use bosun_convert::dialect::AnyDialect;
use bosun_core::{
    Tool, Toolset, duration,
    tool::{CachePolicy, toolset::ToolSources},
};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::Value;

use super::{CatalogArguments, run_by};
use crate::commands::report::{count, printable};

/// Show a tool, and what each model API receives of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun tools show send_email
  bosun tools show send_email --for gemini      exactly what Gemini is sent")]
pub(super) struct Show {
    /// The name of the tool
    name: String,
    #[command(flatten)]
    catalog: CatalogArguments,
    /// Print what this model API is sent, as JSON
    #[arg(long = "for", value_name = "API", value_parser = dialect_parser())]
    dialect: Option<AnyDialect>,
}

fn dialect_parser() -> impl TypedValueParser<Value = AnyDialect> {
    let names: Vec<&'static str> = AnyDialect::ALL.into_iter().map(AnyDialect::as_str).collect();
    PossibleValuesParser::new(names).try_map(|name| AnyDialect::parse(&name).ok_or("there is no such API"))
}

impl Show {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = self.catalog.load()?;
        let tool = loaded.tool(&self.name)?;
        let toolset = Toolset::merge(ToolSources::Catalog, vec![tool.clone()], Vec::new());
        match self.dialect {
            Some(dialect) => print_declaration(&toolset, dialect)?,
            None => print_tool(tool, &toolset),
        }
        Ok(loaded.exit_code())
    }
}

fn print_declaration(toolset: &Toolset, dialect: AnyDialect) -> anyhow::Result<()> {
    let declarations = dialect.declare_toolset(toolset);
    let json: Value = serde_json::from_str(&declarations.json)?;
    anstream::println!("{json:#}");
    for loss in &declarations.losses {
        anstream::eprintln!("warning: {}", printable(&loss.to_string()));
    }
    for quarantined in &declarations.quarantined {
        anstream::eprintln!(
            "warning: {} does not receive `{}`: {}",
            dialect.as_str(),
            quarantined.tool,
            printable(&quarantined.reason)
        );
    }
    anstream::eprintln!("about {}", count(declarations.estimated_tokens(), "token"));
    Ok(())
}

fn print_tool(tool: &Tool, toolset: &Toolset) {
    const HEAD: Style = Style::new().bold();
    let title = tool.display_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    anstream::println!("{HEAD}{}{HEAD:#}{}", printable(&tool.name), printable(&title));
    anstream::println!("{}\n", printable(&tool.description));
    for (label, text) in facts(tool, toolset) {
        anstream::println!("{label:<12}{}", printable(&text));
    }
    anstream::println!("\n{HEAD}Parameters{HEAD:#}\n{:#}", tool.parameters);
    anstream::println!("\n{HEAD}{:<18}{:>6}  Omitted{HEAD:#}", "Model API", "Tokens");
    for dialect in AnyDialect::ALL {
        let declarations = dialect.declare_toolset(toolset);
        let quarantined = declarations.quarantined.iter().map(|tool| format!("the tool: {}", tool.reason));
        let losses = declarations.losses.iter().map(|loss| match loss.path.as_str() {
            "" => loss.message.clone(),
            path => format!("{path}: {}", loss.message),
        });
        let remarks: Vec<String> = quarantined.chain(losses).map(|remark| printable(&remark)).collect();
        let tokens = if declarations.quarantined.is_empty() { declarations.estimated_tokens() } else { 0 };
        let line = format!("{:<18}{tokens:>6}  {}", dialect.as_str(), remarks.join("; "));
        anstream::println!("{}", line.trim_end());
    }
}

/// The attributes of a tool besides its name, description and parameters.
fn facts(tool: &Tool, toolset: &Toolset) -> Vec<(&'static str, String)> {
    let mut facts = vec![("category", tool.category().to_owned()), ("run by", run_by(tool))];
    let alias = toolset.tools().first().map(|member| member.alias.to_string()).filter(|alias| *alias != tool.name);
    let hints = [
        (tool.annotations.read_only_hint, "read-only", "not read-only"),
        (tool.annotations.destructive_hint, "destructive", "not destructive"),
        (tool.annotations.idempotent_hint, "idempotent", "not idempotent"),
        (tool.annotations.open_world_hint, "open world", "closed world"),
    ];
    let hints: Vec<&str> =
        hints.into_iter().filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no })).collect();
    let labels: Vec<String> = tool.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    facts.extend(alias.map(|alias| ("model sees", alias)));
    facts.extend(tool.version.clone().map(|version| ("version", version)));
    facts.extend(tool.timeout.map(|timeout| ("timeout", duration::format(timeout))));
    facts.extend(tool.written_cache().map(|CachePolicy { ttl, scope }| {
        ("cached for", format!("{}, within a {}", duration::format(ttl), scope.as_str()))
    }));
    facts.extend((!hints.is_empty()).then(|| ("hints", hints.join(", "))));
    facts.extend((!labels.is_empty()).then(|| ("labels", labels.join(", "))));
    facts.extend(tool.deprecation_warning().map(|warning| ("deprecated", warning)));
    facts
}
