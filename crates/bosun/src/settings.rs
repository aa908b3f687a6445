//! Settings from three sources: `bosun.toml`, then the environment, then the command line.
//!
//! The options of `bosun serve` are the one table: each visible one is also a key of the file (its heading is the
//! section) and a variable `BOSUN_…`. The file's values become defaults of the options, so all three are parsed by the
//! same parser and mean the same. Faults of the file are reported with line and column, all at once.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use bosun_reading::{Data, Faults, Fields, Node, Report, SourcePlace, Syntax, toml};
use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};
use serde_json::Value;

/// The default file of settings.
const FILE: &str = "bosun.toml";
/// The commands that have settings.
const WITH_SETTINGS: &[&str] = &["serve", "config"];

/// The table, and the values of each source.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) settings: Vec<Setting>,
    /// The values in force, in the order of the table. Empty for commands without settings.
    pub(crate) resolved: Vec<Resolved>,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    id: String,
    pub(crate) section: Option<String>,
    pub(crate) name: String,
    /// The name of the option, without its dashes.
    long: String,
    pub(crate) variable: String,
    kind: Kind,
    value_name: String,
    pub(crate) default: Vec<String>,
    pub(crate) help: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Texts,
    /// Texts of the form `NAME=VALUE`, which are a table in the file.
    Table,
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) setting: Setting,
    pub(crate) values: Vec<String>,
    pub(crate) source: Source,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File { file: PathBuf, place: SourcePlace },
    Environment(String),
    Flag(String),
}

impl Setting {
    fn of(arg: &Arg) -> Option<Self> {
        let long = arg.get_long().filter(|long| !arg.is_hide_set() && !matches!(*long, "help" | "config"))?;
        let name = long.replace('-', "_");
        let value_name =
            arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
        let is_number = value_name == "NUMBER";
        let kind = match arg.get_action() {
            ArgAction::Append if value_name.contains('=') => Kind::Table,
            ArgAction::Append => Kind::Texts,
            ArgAction::Set if is_number => Kind::Number,
            ArgAction::Set => Kind::Text,
            // A flag without a value is for a single invocation, and not a setting.
            _ => return None,
        };
        let section = arg.get_help_heading().map(str::to_lowercase);
        Some(Self {
            id: arg.get_id().to_string(),
            variable: format!("BOSUN_{}", name.to_uppercase()),
            name: key_in(section.as_deref(), &name).to_owned(),
            long: long.to_owned(),
            section,
            kind,
            value_name,
            default: arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect(),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        })
    }

    /// As TOML; without a value, an example of one.
    pub(crate) fn write(&self, values: &[String]) -> String {
        let quoted = |text: &String| Value::from(text.as_str()).to_string();
        match (self.kind, values) {
            (Kind::Texts, values) => format!("[{}]", values.iter().map(quoted).collect::<Vec<_>>().join(", ")),
            (Kind::Table, []) => "{ integration = \"connection\" }".into(),
            (Kind::Table, values) => {
                let pairs = values.iter().filter_map(|value| value.split_once('='));
                let pairs =
                    pairs.map(|(name, value)| format!("{} = {}", quoted(&name.to_owned()), quoted(&value.to_owned())));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
            (Kind::Number, [number]) => number.clone(),
            (Kind::Text, [text]) => quoted(text),
            (Kind::Number, _) => "100000".into(),
            (Kind::Text, _) => quoted(&self.value_name),
        }
    }

    pub(crate) fn to_json(&self, values: &[String]) -> Value {
        match (self.kind, values) {
            (Kind::Texts, values) => Value::from(values),
            (Kind::Table, values) => {
                let pairs = values.iter().filter_map(|value| value.split_once('='));
                Value::Object(pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect())
            }
            (_, [value]) => match (self.kind, value.parse::<u64>()) {
                (Kind::Number, Ok(number)) => Value::from(number),
                _ => Value::from(value.as_str()),
            },
            (_, _) => Value::Null,
        }
    }

    fn expected(&self) -> &'static str {
        match self.kind {
            Kind::Number => "a number",
            Kind::Text => "a string",
            Kind::Texts => "a list of strings",
            Kind::Table => "a table of strings",
        }
    }

    /// The values as the option would receive them.
    fn read(&self, node: &Node) -> Option<Vec<String>> {
        match (self.kind, &node.data) {
            (Kind::Number, Data::Number(number)) => Some(vec![number.to_string()]),
            (Kind::Text, Data::Text(text)) => Some(vec![text.clone()]),
            (Kind::Texts, Data::List(items)) => items
                .iter()
                .map(|item| if let Data::Text(text) = &item.data { Some(text.clone()) } else { None })
                .collect(),
            (Kind::Table, Data::Map(members)) => members
                .iter()
                .map(|member| match &member.value.data {
                    Data::Text(text) => Some(format!("{}={text}", member.name)),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }
}

/// The key of an option in its section. A section that is named like its options does not repeat the name, except for
/// the older `audit`.
fn key_in<'n>(section: Option<&str>, name: &'n str) -> &'n str {
    let prefix = section.filter(|section| *section == "nango").and_then(|section| name.strip_prefix(section));
    prefix.and_then(|rest| rest.strip_prefix('_')).unwrap_or(name)
}

/// The settings of `command`.
fn table(command: &Command) -> Vec<Setting> {
    command.get_arguments().filter_map(Setting::of).collect()
}

/// Every setting can be set in the environment.
fn with_variables(command: Command) -> Command {
    let settings = table(&command);
    settings
        .into_iter()
        .fold(command, |command, setting| command.mut_arg(setting.id, |arg| arg.env(setting.variable).hide_env(true)))
}

/// Parses the command line of this process, with the other sources as defaults.
pub(crate) fn parse_layered(command: Command) -> anyhow::Result<(ArgMatches, Layers)> {
    let command = WITH_SETTINGS.iter().fold(command, |command, name| command.mut_subcommand(name, with_variables));
    let matches = command.clone().get_matches();
    let Some((name, chosen)) = matches.subcommand().filter(|(name, _)| WITH_SETTINGS.contains(name)) else {
        return Ok((matches, Layers { settings: Vec::new(), resolved: Vec::new() }));
    };
    let settings = command.find_subcommand(name).map(table).unwrap_or_default();
    let asked = chosen.get_one::<PathBuf>("_file");
    let file = asked.cloned().or_else(|| Some(PathBuf::from(FILE)).filter(|file| file.exists()));
    let found = match &file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
            read(file, &text, &settings, &command, name).context("the settings cannot be used")?
        }
        None => BTreeMap::new(),
    };
    let command = command.mut_subcommand(name, |mut command| {
        for (id, (values, _)) in &found {
            command = command.mut_arg(id, |arg| arg.default_values(values.clone()));
        }
        command
    });
    let matches = command.get_matches();
    let file = file.unwrap_or_default();
    let resolved =
        matches.subcommand().map(|(_, chosen)| resolve(chosen, &settings, &file, &found)).unwrap_or_default();
    Ok((matches, Layers { settings, resolved }))
}

type Found = BTreeMap<String, (Vec<String>, SourcePlace)>;

/// The values of the file, each parsed by the parser of its option.
fn read(file: &Path, text: &str, settings: &[Setting], command: &Command, name: &str) -> Result<Found, Faults> {
    let root = toml::parse(file, text)?;
    let report = Report::of_file(file, Syntax::Toml);
    let mut found = Found::new();
    if let Some(root) = report.fields(&root, "") {
        let mut sections: Vec<&str> = settings.iter().filter_map(|setting| setting.section.as_deref()).collect();
        sections.dedup();
        for section in sections {
            if let Some(fields) = root.fields(section) {
                read_section(&fields, Some(section), settings, command, name, &mut found);
            }
        }
        read_section(&root, None, settings, command, name, &mut found);
    }
    Faults::none_or(report.into_faults(), found)
}

fn read_section(
    fields: &Fields<'_>,
    section: Option<&str>,
    settings: &[Setting],
    command: &Command,
    name: &str,
    found: &mut Found,
) {
    for setting in settings.iter().filter(|setting| setting.section.as_deref() == section) {
        let Some(node) = fields.get(&setting.name) else { continue };
        let Some(values) = setting.read(node) else {
            fields.wrong_field(&setting.name, node, setting.expected(), &setting.help);
            continue;
        };
        match try_option(command, name, setting, &values) {
            Ok(()) => {
                let place = fields.place_of_key(&setting.name);
                found.insert(setting.id.clone(), (values, place));
            }
            Err(message) => fields.fault_of(&setting.name, "invalid_setting", message, &*setting.help),
        }
    }
    fields.finish();
}

/// Whether the option accepts these values.
fn try_option(command: &Command, name: &str, setting: &Setting, values: &[String]) -> Result<(), String> {
    let long = &setting.long;
    let options = values.iter().map(|value| format!("--{long}={value}"));
    let line = ["bosun".to_owned(), name.to_owned()].into_iter().chain(options);
    match command.clone().try_get_matches_from(line) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
            let reason = first.split_once("': ").or_else(|| first.split_once(": ")).map_or(first, |(_, reason)| reason);
            Err(format!("`{}` is invalid: {reason}", setting.name))
        }
    }
}

/// The values in force, and their sources.
fn resolve(matches: &ArgMatches, settings: &[Setting], file: &Path, found: &Found) -> Vec<Resolved> {
    let of = |setting: &Setting| {
        let raw = matches.get_raw(&setting.id).into_iter().flatten();
        let values = raw.map(|value| value.to_string_lossy().into_owned()).collect();
        let source = match matches.value_source(&setting.id) {
            Some(ValueSource::CommandLine) => Source::Flag(format!("--{}", setting.long)),
            Some(ValueSource::EnvVariable) => Source::Environment(setting.variable.clone()),
            _ => match found.get(&setting.id) {
                Some((_, place)) => Source::File { file: file.to_owned(), place: *place },
                None => Source::Default,
            },
        };
        Resolved { setting: setting.clone(), values, source }
    };
    settings.iter().map(of).collect()
}

/// The default file, every setting with its description: the manual.
pub(crate) fn default_file(settings: &[Setting]) -> String {
    let mut text = String::from(
        "# The settings of `bosun serve`, with their defaults. Remove the `#` of a line to change it.\n\
         #\n\
         # Each can also be set in the environment (`BOSUN_QUERY_TIMEOUT=1m`), which overrides this file, and on the\n\
         # command line (`--query-timeout 1m`), which overrides both. `bosun config` shows what is in force, and why.\n",
    );
    let mut section: Option<&str> = None;
    for setting in settings {
        if setting.section.as_deref() != section {
            section = setting.section.as_deref();
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[{}]\n", section.unwrap_or_default());
        }
        let unset = if setting.default.is_empty() { "; not set by default" } else { "" };
        let _ = write!(text, "\n# {}{unset}\n#{} = {}\n", setting.help, setting.name, setting.write(&setting.default));
    }
    text
}
