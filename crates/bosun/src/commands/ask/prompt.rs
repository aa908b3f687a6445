//! Questions to the person at the terminal: whether a call may run, and values that the model does not know.
//!
//! Answers are lines of standard input. When it has ended, nothing is answered: the call continues waiting, and another
//! client can decide. Only `y` and `yes` approve; any other text is a rejection with that reason.

use std::io::{self, BufRead, Write};

use anstream::stderr;
use anstyle::Style;
use bosun_client::{Decider, Decision, OpenCall};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, OnceCell, mpsc};

const BOLD: Style = Style::new().bold();

/// Reads lines of standard input in a thread of its own, since a read of a terminal cannot be cancelled; one line for each
/// question, since what follows may be the next line of a conversation.
#[derive(Debug, Default)]
pub(in crate::commands) struct TerminalPrompt {
    lines: OnceCell<Mutex<Lines>>,
}

#[derive(Debug)]
struct Lines {
    wanted: std::sync::mpsc::Sender<()>,
    read: mpsc::UnboundedReceiver<Option<String>>,
}

impl Lines {
    fn open() -> Self {
        let (wanted, requests) = std::sync::mpsc::channel();
        let (sender, read) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            // Ends when the other side is gone.
            while requests.recv().is_ok() {
                let line = io::stdin().lock().lines().next().and_then(Result::ok);
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { wanted, read }
    }

    /// The next line; `None` at the end of the input.
    async fn next(&mut self) -> Option<String> {
        self.wanted.send(()).ok()?;
        self.read.recv().await.flatten()
    }
}

impl TerminalPrompt {
    /// One question at a time.
    async fn lines(&self) -> tokio::sync::MutexGuard<'_, Lines> {
        self.lines.get_or_init(async || Mutex::new(Lines::open())).await.lock().await
    }

    /// Whether `tool` may run with these arguments; `None` if the input has ended.
    pub(in crate::commands) async fn ask(&self, tool: &str, arguments: &Value) -> io::Result<Option<Decision>> {
        let mut lines = self.lines().await;
        let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
        write!(stderr(), "\n{}\n{BOLD}run {}? [y/N]{BOLD:#} ", printable(&arguments), printable(tool))?;
        stderr().flush()?;
        let Some(line) = lines.next().await else {
            writeln!(stderr())?;
            return Ok(None);
        };
        Ok(Some(decision(&line)))
    }

    async fn ask_for_values(&self, request: &Value) -> io::Result<Option<Map<String, Value>>> {
        let mut lines = self.lines().await;
        writeln!(stderr(), "\n{BOLD}{}{BOLD:#}", printable(text(request, "question")))?;
        let mut values = Map::new();
        for parameter in request["parameters"].as_array().into_iter().flatten() {
            let path = text(parameter, "path");
            write!(stderr(), "{} {}: ", printable(path), printable(&about(parameter)))?;
            stderr().flush()?;
            let Some(line) = lines.next().await else {
                writeln!(stderr())?;
                return Ok(None);
            };
            values.insert(path.to_owned(), value(&line, &parameter["type"]));
        }
        Ok(Some(values))
    }
}

impl Decider for TerminalPrompt {
    fn decide<'a>(&'a self, approval: &'a OpenCall) -> BoxFuture<'a, io::Result<Option<Decision>>> {
        self.ask(&approval.name, &approval.arguments).boxed()
    }

    fn fill_in<'a>(&'a self, request: &'a Value) -> BoxFuture<'a, io::Result<Option<Map<String, Value>>>> {
        self.ask_for_values(request).boxed()
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn about(parameter: &Value) -> String {
    let hint = ["prompt", "description"].into_iter().map(|name| text(parameter, name)).find(|hint| !hint.is_empty());
    let options = parameter.get("enum").map(|options| format!(" {options}")).unwrap_or_default();
    format!("{}{options}", hint.unwrap_or_default())
}

/// An answer to the question whether a call may run.
fn decision(line: &str) -> Decision {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Decision::Approve,
        "" | "n" | "no" => Decision::Reject { reason: None },
        _ => Decision::Reject { reason: Some(line.trim().to_owned()) },
    }
}

/// An answer as a value of its type: a text is taken as it is, anything else as JSON.
fn value(line: &str, kind: &Value) -> Value {
    if kind == "string" {
        return line.into();
    }
    serde_json::from_str(line.trim()).unwrap_or_else(|_| line.into())
}

/// Without control characters: a model may write anything.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_yes_approves() {
        for (line, expect) in [
            ("y", Decision::Approve),
            (" YES ", Decision::Approve),
            ("", Decision::Reject { reason: None }),
            ("No", Decision::Reject { reason: None }),
            ("yes, but only tomorrow", Decision::Reject { reason: Some("yes, but only tomorrow".into()) }),
            ("ok", Decision::Reject { reason: Some("ok".into()) }),
        ] {
            assert_eq!(decision(line), expect, "{line:?}");
        }
    }

    #[test]
    fn values_have_the_type_of_their_parameter() {
        for (line, kind, expect) in [
            ("7", json!("string"), json!("7")),
            ("7", json!("integer"), json!(7)),
            ("true", json!("boolean"), json!(true)),
            ("[1]", json!(null), json!([1])),
            ("seven", json!("integer"), json!("seven")),
        ] {
            assert_eq!(value(line, &kind), expect, "{line:?}");
        }
    }
}
