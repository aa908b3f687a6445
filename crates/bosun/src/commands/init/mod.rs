//! `bosun init`: writes a folder to start from.
//!
//! It has one agent with one tool inside the server, one tool for the client to run, and a model; the commands that it
//! prints work as printed. No file is overwritten: if one is in the way, none is written. A key is never asked for: the
//! output says where it goes.

mod model;

use std::{
    fmt::Write as _,
    fs::{DirBuilder, File},
    io::{self, BufRead, IsTerminal, Write as _},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anstream::{stderr, stdout};
use anstyle::{AnsiColor, Style};
use anyhow::Context;

use model::ModelChoice;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const CODE: Style = AnsiColor::Cyan.on_default();

const AGENT: &str = "agents/assistant.yaml";
const MODEL: &str = "agents/model.yaml";
const SCRIPT: &str = "agents/model.script.yaml";
const TOOLS: &str = "tools.json";

/// Asks for both tools of the folder, and is what its script knows an answer to.
const QUESTION: &str = "How much disk space is free here?";
const WITH_TOOLS: &str = "--tools tools.json --run disk_space='df -h .'";

/// Write a folder to start from: an agent, its model and two tools.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun init my-agents
  bosun init my-agents --model anthropic
  bosun init my-agents --model http://127.0.0.1:11434/v1 --model-name qwen3:8b

Existing files are never overwritten. The API key is not an option: it goes into a file below secrets/, and the command
to put it there is printed. A key is sent to https URLs only.")]
pub(crate) struct Init {
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// scripted (no key, no network), openai, anthropic, or the base URL of an API like OpenAI's; default: asked for on
    /// a terminal, otherwise scripted
    #[arg(long)]
    model: Option<ModelChoice>,
    /// Name of the model in the API; default: a common one of the provider
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
}

/// One file of the folder.
struct Written {
    path: &'static str,
    about: &'static str,
    content: String,
}

impl Init {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let is_asking = self.model.is_none() && io::stdin().is_terminal() && stderr().is_terminal();
        let model = match self.model {
            Some(model) => model,
            None if is_asking => ask_for_model()?,
            None => ModelChoice::Scripted,
        };
        let name = match (self.model_name, model.usual_name()) {
            (None, None) if is_asking => Some(ask("What does the API call the model? ")?),
            (name, _) => name,
        };
        let files = files(&model, name.as_deref());
        write(&self.directory, &files, model.secret())?;
        let is_unnamed = name.is_none() && model.usual_name().is_none();
        Ok(report(&self.directory, &files, model.secret(), is_unnamed)?)
    }
}

/// Asks until the answer names a model.
fn ask_for_model() -> anyhow::Result<ModelChoice> {
    loop {
        let answer = ask("Which model? scripted (needs no key), openai, anthropic, or a base URL [scripted] ")?;
        if answer.is_empty() {
            return Ok(ModelChoice::Scripted);
        }
        match ModelChoice::from_str(&answer) {
            Ok(model) => return Ok(model),
            Err(error) => writeln!(stderr(), "{error}")?,
        }
    }
}

fn ask(question: &str) -> anyhow::Result<String> {
    write!(stderr(), "{question}")?;
    let mut answer = String::new();
    anyhow::ensure!(io::stdin().lock().read_line(&mut answer)? > 0, "there was no answer, and nothing was written");
    Ok(answer.trim().to_owned())
}

fn files(model: &ModelChoice, name: Option<&str>) -> Vec<Written> {
    let file = |path, about, content: &str| Written { path, about, content: content.to_owned() };
    let mut files = vec![
        file(AGENT, "the agent, with a tool that runs inside the server", include_str!("files/assistant.yaml")),
        file(MODEL, "its model", &model.manifest(name)),
    ];
    if *model == ModelChoice::Scripted {
        files.push(file(SCRIPT, "what the model says", include_str!("files/model.script.yaml")));
    }
    files.extend([
        file(TOOLS, "a tool that you run yourself", include_str!("files/tools.json")),
        file("bosun.toml", "settings of the server", include_str!("files/bosun.toml")),
        file(".gitignore", "keeps data and keys out of Git", include_str!("files/gitignore")),
    ]);
    files
}

/// Writes all of the files, or none if one of them is there already.
fn write(directory: &Path, files: &[Written], secret: Option<&str>) -> anyhow::Result<()> {
    // A dangling symbolic link is in the way as well.
    let is_there = |file: &&Written| directory.join(file.path).symlink_metadata().is_ok();
    let in_the_way: Vec<_> = files.iter().filter(is_there).map(|file| file.path).collect();
    anyhow::ensure!(
        in_the_way.is_empty(),
        "{} already has {}; nothing was written, choose another folder",
        directory.display(),
        in_the_way.join(", ")
    );
    for file in files {
        let path = directory.join(file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        let written = File::create_new(&path).and_then(|mut created| created.write_all(file.content.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(secret) = secret {
        let folder = directory.join("secrets/default").join(secret);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(())
}

/// Prints what was written, and the next commands.
fn report(directory: &Path, files: &[Written], secret: Option<&str>, is_unnamed: bool) -> io::Result<ExitCode> {
    let bosun = program();
    let mut text = String::new();
    let is_here = directory == Path::new(".");
    let place = if is_here { "this folder".to_owned() } else { quoted(&directory.to_string_lossy()) };
    // Once in each terminal.
    let enter = if is_here { String::new() } else { format!("    {CODE}cd {place}{CODE:#}\n") };
    let mut first = enter.as_str();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{BOLD}An agent to start from is in {place}{BOLD:#}\n");
    for Written { path, about, .. } in files {
        let _ = writeln!(text, "  {path:<26}{DIM}{about}{DIM:#}");
    }
    if let Some(secret) = secret {
        let path = format!("secrets/default/{secret}/api-key");
        let _ = write!(
            text,
            "\nPut the key of the model into a file that only you can read: paste it, Enter, Ctrl-D.\n\n{first}    \
             {CODE}(umask 077; cat > {path}){CODE:#}\n"
        );
        first = "";
    }
    if is_unnamed {
        let _ = writeln!(text, "\nIf the API serves more than one model, name yours in {MODEL}, instead of `default`.");
    }
    let _ = write!(
        text,
        "
Check it, and serve it:

{first}    {CODE}{bosun} check agents tools.json{CODE:#}
    {CODE}{bosun} serve{CODE:#}

In another terminal, ask the agent, or talk to it; the tool runs where you are:

{enter}    {CODE}{bosun} query --agent assistant '{QUESTION}' {WITH_TOOLS}{CODE:#}
    {CODE}{bosun} chat --agent assistant {WITH_TOOLS}{CODE:#}
"
    );
    write!(stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// The command that runs this program from another folder.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_else(|| "bosun".into());
    let path = std::env::current_exe().ok().filter(|_| called.contains('/'));
    quoted(&path.map_or(called, |path| path.to_string_lossy().into_owned()))
}

/// The word, quoted for a shell where necessary.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expect) in
            [("my-agents", "my-agents"), ("", "''"), ("my agents", "'my agents'"), ("a'b", r"'a'\''b'")]
        {
            assert_eq!(quoted(word), expect);
        }
    }
}
