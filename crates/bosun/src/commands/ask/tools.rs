//! Local tools: definitions from a file, and a command for each.
//!
//! A command gets the arguments as JSON on its standard input, runs in a shell, and answers on its
//! standard output. When it fails, the model reads why. Everything is checked before a query is sent.

use std::{collections::BTreeMap, path::Path, process::Stdio, str::FromStr};

use anyhow::Context;
use bosun_client::ClientTools;
use bosun_core::json::{self, JsonLimits};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use crate::commands::Usage;

/// The server's limit for a result.
const LONGEST_RESULT: usize = 64 * 1024 * 1024;
/// The maximum length of a failed command's error output that is sent to the model.
const LONGEST_ERROR: usize = 4 * 1024;

/// `calculator='bc -l'`: which command runs which tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) struct Run {
    pub(in crate::commands) tool: String,
    pub(in crate::commands) command: String,
}

impl FromStr for Run {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((tool, command)) if !tool.is_empty() && !command.trim().is_empty() => {
                Ok(Self { tool: tool.to_owned(), command: command.to_owned() })
            }
            _ => Err("write it as TOOL='COMMAND', for instance calculator='jq -r .expression | bc -l'"),
        }
    }
}

/// Reads the definitions, and gives each tool its command.
pub(super) fn load(file: Option<&Path>, runs: Vec<Run>) -> anyhow::Result<ClientTools> {
    let definitions = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            definitions(&text).map_err(|message| Usage(format!("{}{message}", file.display())))?
        }
        None => Vec::new(),
    };
    let commands = match_commands(&definitions, runs)?;
    let mut tools = ClientTools::new();
    // As they are in the file; the server checks them.
    for definition in definitions {
        let command = definition["name"].as_str().and_then(|name| commands.get(name)).cloned().unwrap_or_default();
        tools.define(definition, move |call| {
            let command = command.clone();
            async move { run_command(&command, &call.arguments).await }
        })?;
    }
    Ok(tools)
}

/// The command of each tool. Every tool has one command, and every command a tool.
fn match_commands(definitions: &[Value], runs: Vec<Run>) -> Result<BTreeMap<String, String>, Usage> {
    let names: Vec<&str> = definitions.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let mut commands = BTreeMap::new();
    let mut faults = Vec::new();
    for Run { tool, command } in runs {
        if !names.contains(&tool.as_str()) {
            faults.push(match names.as_slice() {
                [] => format!("`--run {tool}=…` needs the definition of `{tool}`: give it with `--tools FILE`"),
                _ => format!("`--run {tool}=…` names no tool of the file, which has: {}", names.join(", ")),
            });
        } else if commands.insert(tool.clone(), command).is_some() {
            faults.push(format!("tool `{tool}` has two commands"));
        }
    }
    let idle = names.iter().filter(|name| !commands.contains_key(**name));
    faults.extend(idle.map(|name| format!("tool `{name}` has no command: add --run {name}='COMMAND'")));
    if faults.is_empty() { Ok(commands) } else { Err(Usage(faults.join("\n       "))) }
}

/// The tools of a file: an array of definitions, or an object with the array under `tools`.
fn definitions(text: &str) -> Result<Vec<Value>, String> {
    let value = json::parse(text, JsonLimits::BODY).map_err(|error| {
        let place = error.position().map_or(String::new(), |(line, column)| format!(":{line}:{column}"));
        format!("{place}: {error}")
    })?;
    let tools = match value {
        Value::Array(tools) => tools,
        Value::Object(mut object) => match object.remove("tools").or_else(|| object.remove("externalTools")) {
            Some(Value::Array(tools)) => tools,
            _ => return Err(": there is no array `tools` in it".into()),
        },
        _ => return Err(": expected an array of tool definitions".into()),
    };
    match tools.iter().position(|tool| !tool["name"].is_string()) {
        None => Ok(tools),
        Some(index) => Err(format!(": entry {} has no `name`", index + 1)),
    }
}

/// Runs a command with these arguments. `Err` is what the model reads when it failed.
pub(in crate::commands) async fn run_command(command: &str, arguments: &Value) -> Result<String, String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the command cannot be started: {error}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = format!("{arguments}\n");
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command need not read its input; then the pipe breaks, which is not an error.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let ((), answer, standard_error) = tokio::join!(feed, read(stdout, LONGEST_RESULT), read(stderr, LONGEST_ERROR));
    let status =
        child.wait().await.map_err(|error| format!("the exit status of the command cannot be read: {error}"))?;
    if !status.success() {
        let standard_error = String::from_utf8_lossy(&standard_error.bytes).trim().to_owned();
        let detail = if standard_error.is_empty() { String::new() } else { format!(": {standard_error}") };
        return Err(format!("the command ended with {status}{detail}"));
    }
    if answer.is_cut {
        return Err(format!("the command answered with more than {LONGEST_RESULT} bytes"));
    }
    let answer = String::from_utf8(answer.bytes).map_err(|_| "the command's answer is not UTF-8".to_owned())?;
    Ok(answer.trim().to_owned())
}

struct Output {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// Reads to the end, so that the command never blocks on a full pipe, and keeps the first `limit` bytes.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Output {
    let mut output = Output { bytes: Vec::new(), is_cut: false };
    let Some(mut pipe) = pipe else { return output };
    let mut buffer = vec![0; 16 * 1024];
    // A broken pipe ends the output; the exit status tells whether that was intended.
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        let kept = length.min(limit - output.bytes.len());
        output.bytes.extend_from_slice(&buffer[..kept]);
        output.is_cut |= kept < length;
    }
    output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runs(texts: &[&str]) -> Vec<Run> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[track_caller]
    fn check(tools: &[&str], run: &[&str], expect: Result<(), &str>) {
        let definitions: Vec<_> = tools.iter().map(|name| json!({ "name": name })).collect();
        let found = match_commands(&definitions, runs(run)).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned));
    }

    #[test]
    fn every_tool_has_one_command_and_every_command_a_tool() {
        check(&[], &[], Ok(()));
        check(&["a", "b"], &["b=x", "a=y"], Ok(()));
        check(&["a"], &[], Err("tool `a` has no command: add --run a='COMMAND'"));
        check(&[], &["a=x"], Err("`--run a=…` needs the definition of `a`: give it with `--tools FILE`"));
        check(&["a"], &["a=x", "a=y"], Err("tool `a` has two commands"));
        check(
            &["a", "b"],
            &["c=x", "a=y"],
            Err(
                "`--run c=…` names no tool of the file, which has: a, b\n       tool `b` has no command: add --run b='COMMAND'",
            ),
        );
    }

    #[test]
    fn a_command_may_hold_an_equals_sign() {
        assert_eq!("t=A=1 cmd".parse(), Ok(Run { tool: "t".into(), command: "A=1 cmd".into() }));
        for text in ["", "t", "t=", "=cmd", "t= "] {
            assert!(text.parse::<Run>().is_err(), "{text}");
        }
    }

    #[test]
    fn definitions_are_an_array_or_a_field_tools() {
        for text in [r#"[{"name":"a"}]"#, r#"{"tools":[{"name":"a"}]}"#, r#"{"externalTools":[{"name":"a"}]}"#] {
            assert_eq!(definitions(text).unwrap().len(), 1, "{text}");
        }
        for (text, expect) in [
            ("{}", ": there is no array `tools` in it"),
            ("1", ": expected an array of tool definitions"),
            (r#"[{"name":"a"},{}]"#, ": entry 2 has no `name`"),
        ] {
            assert_eq!(definitions(text).unwrap_err(), expect);
        }
        assert!(definitions("[\n  {,}\n]").unwrap_err().starts_with(":2:"), "{:?}", definitions("[\n  {,}\n]"));
    }

    #[tokio::test]
    async fn a_command_reads_arguments_and_answers_trimmed() {
        assert_eq!(run_command("cat", &json!({ "a": 1 })).await, Ok(r#"{"a":1}"#.into()));
        assert_eq!(run_command("echo; echo '  2108 '", &json!({})).await, Ok("2108".into()));
        assert_eq!(
            run_command("exec <&-; echo unread", &json!({ "a": "x".repeat(200_000) })).await,
            Ok("unread".into())
        );
    }

    #[tokio::test]
    async fn a_failing_command_says_why() {
        assert_eq!(
            run_command("echo no such thing >&2; exit 3", &json!({})).await,
            Err("the command ended with exit status: 3: no such thing".into())
        );
        assert_eq!(run_command("exit 1", &json!({})).await, Err("the command ended with exit status: 1".into()));
        assert_eq!(run_command(r"printf '\377'", &json!({})).await, Err("the command's answer is not UTF-8".into()));
    }

    #[tokio::test]
    async fn an_endless_answer_is_an_error_and_not_a_hang() {
        let outcome = run_command("head -c 70000000 /dev/zero", &json!({})).await;
        assert_eq!(outcome, Err("the command answered with more than 67108864 bytes".into()));
        let outcome = run_command("head -c 3000000 /dev/zero >&2; exit 1", &json!({})).await;
        assert!(outcome.unwrap_err().len() < 5000);
    }
}
