//! `bosun keys`: the keys of a server.
//!
//! The secret of a key is shown when it is created, and never again: the file has only its hash. A running server
//! applies changes of the file within seconds.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use bosun_core::{Namespace, Timestamp};
use bosun_edges::auth::{EndUsers, Namespaces};
use bosun_engine::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::{
    access::{
        edit::{self, Wanted},
        file::{self, Listed, parse_right},
    },
    config::duration,
};

/// Create, list and revoke the keys of a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Keys {
    /// The file of keys
    #[arg(long, value_name = "FILE", env = "BOSUN_AUTH", default_value = "./keys.toml", global = true)]
    auth: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a key; its secret is shown once
    Create(Create),
    /// Show all keys, without their secrets
    List(List),
    /// Revoke a key
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
struct Create {
    /// The id of the key in journals and audit records
    id: String,
    /// A namespace that it may use, the first being its own; `*` for all
    #[arg(long = "namespace", value_name = "NAME", default_value = "default", value_parser = namespace)]
    namespaces: Vec<String>,
    /// What it may do: read, run, deliver, approve, manage, audit
    #[arg(long = "right", value_name = "RIGHT", default_values = ["read", "run", "deliver"], value_parser = right)]
    rights: Vec<String>,
    /// An end user for whom it may act; `*` for any
    #[arg(long, value_name = "USER")]
    may_act_for: Vec<String>,
    /// How long it is valid, for instance 2160h; without it, until it is revoked
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Revoke {
    /// The id of the key
    id: String,
}

fn namespace(text: &str) -> Result<String, String> {
    match text {
        "*" => Ok(text.to_owned()),
        name => name.parse::<Namespace>().map(String::from).map_err(|error| error.to_string()),
    }
}

fn right(text: &str) -> Result<String, &'static str> {
    parse_right(text).map(|_| text.to_owned()).ok_or("rights are read, run, deliver, approve, manage, audit")
}

impl Keys {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let now = SystemClock.now();
        let mut output = anstream::stdout().lock();
        match self.command {
            Command::Create(create) => create.run(&self.auth, now, &mut output)?,
            Command::List(list) => list.run(&self.auth, now, &mut output)?,
            Command::Revoke(Revoke { id }) => {
                edit::revoke(&self.auth, &id, now)?;
                writeln!(output, "key {id} is revoked; running servers refuse it within seconds")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Create {
    fn run(self, path: &Path, now: Timestamp, output: &mut impl Write) -> anyhow::Result<()> {
        let expires = self.expires.map(|lifetime| now.after(lifetime));
        let Self { id, namespaces, rights, may_act_for, json, .. } = self;
        let wanted = Wanted { id, namespaces, rights, may_act_for, expires };
        let key = edit::create(path, &wanted, now)?;
        if json {
            let shown = json!({"id": wanted.id, "public_key": key.public, "secret_key": key.secret});
            return Ok(writeln!(output, "{shown}")?);
        }
        writeln!(output, "key {} in {}", wanted.id, path.display())?;
        writeln!(output, "  public  {}", key.public)?;
        writeln!(output, "  secret  {}", key.secret)?;
        writeln!(output, "\nThe secret is shown only now: the file has only its hash. Send it as")?;
        Ok(writeln!(output, "  Authorization: Bearer {}", key.secret)?)
    }
}

impl List {
    fn run(self, path: &Path, now: Timestamp, output: &mut impl Write) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let file = file::parse(path, &text)?;
        if self.json {
            let shown: Vec<_> = file.keys.iter().map(|key| describe(key, now)).collect();
            return Ok(writeln!(output, "{:#}", Value::from(shown))?);
        }
        for key in &file.keys {
            let shown = describe(key, now);
            let words = |name: &str| {
                let words = shown[name].as_array().into_iter().flatten().filter_map(Value::as_str);
                words.collect::<Vec<_>>().join(",")
            };
            let state = shown["state"].as_str().unwrap_or_default();
            let (namespaces, rights) = (words("namespaces"), words("rights"));
            let id = &key.id;
            writeln!(output, "{id:<20} {:<24} {state:<8} {namespaces:<20} {rights}", key.key.public)?;
        }
        Ok(())
    }
}

fn describe(listed: &Listed, now: Timestamp) -> Value {
    let grant = &listed.key.grant;
    let state = match grant.expires {
        _ if listed.revoked.is_some() => "revoked",
        Some(expires) if expires <= now => "expired",
        _ => "active",
    };
    let namespaces = match &grant.namespaces {
        Namespaces::All => vec!["*".to_owned()],
        Namespaces::Listed(names) => names.iter().map(ToString::to_string).collect(),
    };
    let may_act_for = match &grant.may_act_for {
        EndUsers::Any => vec!["*".to_owned()],
        EndUsers::Listed(users) => users.clone(),
    };
    let moment = |moment: Option<Timestamp>| moment.map(Timestamp::to_rfc3339);
    json!({
        "id": listed.id,
        "public_key": listed.key.public,
        "state": state,
        "namespaces": namespaces,
        "rights": grant.rights.iter().map(|right| right.as_str()).collect::<Vec<_>>(),
        "may_act_for": may_act_for,
        "created_at": moment(listed.created),
        "expires_at": moment(grant.expires),
        "revoked_at": moment(listed.revoked),
    })
}
