//! `bosun tools list` and `bosun tools search`.

use std::{collections::BTreeSet, process::ExitCode};

use anstyle::Style;
use bosun_core::{
    Tool, Toolset,
    schema::dialect::Dialect,
    tool::{
        catalog::{Catalog, Selection},
        toolset::ToolSources,
    },
};
use serde_json::json;

use super::{CatalogArguments, run_by};
use crate::commands::report::{count, printable};

/// List tools, all of them or those of a category or provider.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  bosun tools list --catalog tool-config.json --provider google-mail")]
pub(super) struct List {
    #[command(flatten)]
    catalog: CatalogArguments,
    #[command(flatten)]
    filter: Filter,
    /// Print the tools as JSON
    #[arg(long)]
    json: bool,
}

/// Find the tools that a question is about.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  bosun tools search 'send a message to a customer' --limit 3")]
pub(super) struct Search {
    /// Words of names, descriptions and parameters
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    catalog: CatalogArguments,
    #[command(flatten)]
    filter: Filter,
    /// How many to show
    #[arg(long, default_value_t = 10)]
    limit: usize,
    /// Print the tools as JSON, with their scores
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Filter {
    /// Only tools of this category; may be given several times
    #[arg(long)]
    category: Vec<String>,
    /// Only tools of this provider, and those that need none
    #[arg(long)]
    provider: Vec<String>,
    /// Only tools with this label; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Only tools that are declared read-only
    #[arg(long)]
    read_only: bool,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Filter {
    /// What is asked for, with categories as the catalogue spells them. An unknown one is reported with those that exist.
    fn selection(self, catalog: &Catalog) -> Selection {
        let all = catalog.search(&Selection::default());
        let known: BTreeSet<&str> = all.iter().map(|hit| hit.tool.category()).collect();
        let category = |asked: String| match known.iter().find(|known| known.eq_ignore_ascii_case(&asked)) {
            Some(known) => (*known).to_owned(),
            None => {
                let names: Vec<String> = known.iter().map(|name| format!("`{}`", printable(name))).collect();
                let list = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
                anstream::eprintln!("hint: there is no category `{}`; categories: {list}", printable(&asked));
                asked
            }
        };
        Selection {
            categories: self.category.into_iter().map(category).collect(),
            providers: self.provider,
            labels: self.label.into_iter().collect(),
            read_only: self.read_only.then_some(true),
            ..Selection::default()
        }
    }
}

impl List {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = self.catalog.load()?;
        let hits = loaded.catalog.search(&self.filter.selection(&loaded.catalog));
        let tools: Vec<&Tool> = hits.iter().map(|hit| hit.tool).collect();
        if self.json {
            anstream::println!("{:#}", json!(tools));
        } else {
            print_table(&tools);
        }
        warn_of_deprecation(&tools);
        let toolset =
            Toolset::merge(ToolSources::Catalog, tools.iter().map(|tool| (*tool).clone()).collect(), Vec::new());
        let tokens = toolset.declarations(Dialect::OpenAiChat).estimated_tokens();
        anstream::eprintln!("{}, about {} of a model's context", count(tools.len(), "tool"), count(tokens, "token"));
        Ok(loaded.exit_code())
    }
}

impl Search {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = self.catalog.load()?;
        let selection = Selection {
            text: Some(self.words.join(" ")),
            limit: Some(self.limit),
            ..self.filter.selection(&loaded.catalog)
        };
        let hits = loaded.catalog.search(&selection);
        if self.json {
            let entries: Vec<_> = hits.iter().map(|hit| json!({"score": hit.score, "tool": hit.tool})).collect();
            anstream::println!("{:#}", json!(entries));
        } else {
            let tools: Vec<&Tool> = hits.iter().map(|hit| hit.tool).collect();
            print_table(&tools);
            warn_of_deprecation(&tools);
        }
        Ok(loaded.exit_code())
    }
}

fn warn_of_deprecation(tools: &[&Tool]) {
    for warning in tools.iter().filter_map(|tool| tool.deprecation_warning()) {
        anstream::eprintln!("warning: {}", printable(&warning));
    }
}

/// One line for each tool: name, category, binding, and the beginning of its description.
fn print_table(tools: &[&Tool]) {
    const NAME: Style = Style::new().bold();
    const LONGEST: usize = 40;
    let width = |column: fn(&Tool) -> String| {
        tools.iter().map(|tool| column(tool).chars().count()).max().unwrap_or_default().min(LONGEST)
    };
    let name_width = width(|tool| printable(&tool.name));
    let category_width = width(|tool| printable(tool.category()));
    let run_width = width(|tool| printable(&run_by(tool)));
    for tool in tools {
        let name = cut(&tool.name, LONGEST);
        let category = cut(tool.category(), LONGEST);
        let run = cut(&run_by(tool), LONGEST);
        let description = cut(tool.description.lines().next().unwrap_or_default(), 2 * LONGEST);
        let line =
            format!("{NAME}{name:name_width$}{NAME:#}  {category:category_width$}  {run:run_width$}  {description}");
        anstream::println!("{}", line.trim_end());
    }
}

/// At most `longest` characters, without control characters.
fn cut(text: &str, longest: usize) -> String {
    let text = printable(&text.replace('\n', " "));
    if text.chars().count() <= longest {
        return text;
    }
    text.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
}
