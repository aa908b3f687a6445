//! The output of a run on the terminal.
//!
//! The answer goes to standard output and everything about how it came about to standard error, so that `answer=$(bosun
//! query …)` is the answer and nothing else. If standard output is a terminal, the answer is streamed there. [`Detail`]
//! sets how much else is shown.

use std::{
    io::{self, IsTerminal, Write},
    time::Instant,
};

use anstream::{stderr, stdout};
use anstyle::{AnsiColor, Style};
use bosun_client::{Client, ClientError, Event, Observer, OpenCall, Undecided, Wanted};
use bosun_core::text::clip;
use serde_json::{Value, json};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const TOOL: Style = AnsiColor::Cyan.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

/// The maximum length of arguments and results that are shown.
const SHOWN: usize = 100;

/// Between the agents on the path to a call.
const PATH_SEPARATOR: &str = " › ";

/// How much is shown besides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Detail {
    /// Every step of the run, with its time.
    Steps,
    /// In a conversation: the calls of tools, and what goes wrong.
    Calls,
    /// The events on standard output as they were received, as JSON, and nothing else.
    Events,
}

#[derive(Debug)]
pub(in crate::commands) struct Screen {
    begun: Instant,
    detail: Detail,
    /// Text is shown as it arrives.
    live: bool,
    /// The cursor is after text of the model.
    in_text: bool,
    /// The cursor is after the progress of a call, which the next output replaces.
    in_progress: bool,
    /// The turn whose text is being streamed, and that text.
    turn: u64,
    streamed: String,
    answer: String,
    /// The server, for commands that another terminal can run.
    client: Option<Client>,
}

impl Screen {
    pub(in crate::commands) fn new(detail: Detail) -> Self {
        let live = detail != Detail::Events && io::stdout().is_terminal();
        Self {
            begun: Instant::now(),
            detail,
            live,
            in_text: false,
            in_progress: false,
            turn: 0,
            streamed: String::new(),
            answer: String::new(),
            client: None,
        }
    }

    /// The same, for queries of this server.
    pub(in crate::commands) fn of_server(detail: Detail, client: &Client) -> Self {
        Self { client: Some(client.clone()), ..Self::new(detail) }
    }

    pub(in crate::commands) fn asking(&self, agent: &str, input: &str) -> io::Result<()> {
        self.print(&format!("{BOLD}{agent}{BOLD:#}  {input}"))
    }

    /// Shows an event of a query.
    pub(in crate::commands) fn show(&mut self, event: &Event, data: &Value) -> io::Result<()> {
        if self.detail == Detail::Events {
            let line = match &event.id {
                Some(id) => json!({ "event": event.name, "id": id, "data": data }),
                None => json!({ "event": event.name, "data": data }),
            };
            return writeln!(stdout(), "{line}");
        }
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // What another agent does is shown with the path to it.
        let path: Vec<_> =
            data["agentPath"].as_array().into_iter().flatten().skip(1).filter_map(Value::as_str).collect();
        if !path.is_empty() && self.show_other(&event.name, &path.join(PATH_SEPARATOR), data)? {
            return Ok(());
        }
        let name = path.iter().copied().chain([text("/name")]).collect::<Vec<_>>().join(PATH_SEPARATOR);
        let name = name.as_str();
        let is_of_calls = self.detail == Detail::Calls;
        match event.name.as_str() {
            "agent_thinking" if data["attempt"].as_u64() > Some(1) => {
                self.streamed.clear();
                self.step(WARN, "↻", "the model is asked again; its text of this turn is discarded")
            }
            "agent_thinking" | "tool_result_received" | "tool_started" if is_of_calls => Ok(()),
            "agent_thinking" => self.step(DIM, "·", "thinking"),
            "agent_response_delta" => self.stream(data["turn"].as_u64().unwrap_or_default(), text("/delta")),
            "tool_call" => self.step(TOOL, "→", &format!("{TOOL}{name}{TOOL:#} {}", brief(&data["arguments"]))),
            "approval_required" => self.step(WARN, "?", &format!("{TOOL}{name}{TOOL:#} waits for your approval")),
            "parameters_required" => self.step(WARN, "?", &format!("{name} waits for your values")),
            "approval_decided" => {
                let reason = data["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
                self.step(DIM, "·", &format!("{name} was {}{reason}", text("/decision")))
            }
            "tool_result_received" => self.step(DIM, "·", &format!("the server has the result of {name}")),
            "tool_started" => {
                self.step(DIM, "·", &format!("{name} {} {DIM}on the server{DIM:#}", brief(&data["arguments"])))
            }
            "tool_progress" => {
                let done = data["progress"].as_f64().unwrap_or_default();
                self.progress(&progress_line(name, done, data["total"].as_f64(), data["message"].as_str()))
            }
            "tool_finished" if data["success"] == true && data.get("largeResult").is_some() => {
                let size = &data["largeResult"]["size"];
                self.step(GOOD, "✓", &format!("{name} {DIM}returned {size} bytes, too many to show{DIM:#}"))
            }
            "tool_finished" if data["success"] == true => {
                self.step(GOOD, "✓", &format!("{name} {}", brief(&data["result"])))
            }
            "tool_finished" => self.step(BAD, "✗", &format!("{name}: {}", text("/error/message"))),
            "agent_response" => {
                text("/response").clone_into(&mut self.answer);
                Ok(())
            }
            "error" => self.step(BAD, "✗", &format!("{} [{}]", text("/message"), text("/code"))),
            "complete" => self.complete(text("/status")),
            _ => Ok(()),
        }
    }

    /// Shows an event that means another thing if it is of another agent than the one that was asked: its text is not the
    /// answer, and its end not the end. False if it does not.
    fn show_other(&mut self, event: &str, agent: &str, data: &Value) -> io::Result<bool> {
        let text = |field: &str| data[field].as_str().unwrap_or_default();
        match event {
            // The call that asked the agent has the text as its result.
            "agent_response" | "agent_response_delta" => {}
            "agent_thinking" | "complete" if self.detail == Detail::Calls => {}
            "agent_thinking" if data["attempt"].as_u64() > Some(1) => {
                self.step(WARN, "↻", &format!("{agent}: the model is asked again"))?;
            }
            "agent_thinking" => self.step(DIM, "·", &format!("{agent} is thinking"))?,
            "error" => self.step(BAD, "✗", &format!("{agent}: {} [{}]", text("message"), text("code")))?,
            "complete" if text("status") == "completed" => self.step(GOOD, "✓", &format!("{agent} completed"))?,
            "complete" => self.step(BAD, "✗", &format!("{agent} {}", text("status")))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// This program stops watching; the query continues.
    pub(in crate::commands) fn left_behind(&mut self, url: &str) -> io::Result<()> {
        self.end_text()?;
        self.print(&format!(
            "the query continues without this client\n  see it:    curl '{url}'\n  cancel it: curl -X PATCH '{url}/cancel'"
        ))
    }

    pub(in crate::commands) fn left_behind_at(&mut self, endpoint: &str) -> io::Result<()> {
        self.end_text()?;
        self.print(&format!("the task continues without this client, at {endpoint}; the same --name continues it"))
    }

    fn complete(&mut self, status: &str) -> io::Result<()> {
        self.end_text()?;
        let is_on_terminal = self.live && self.answer == self.streamed;
        if !self.answer.is_empty() && !is_on_terminal {
            writeln!(stdout(), "{}", printable(&self.answer))?;
        }
        match status {
            "completed" if self.detail == Detail::Calls => Ok(()),
            "completed" => self.step(GOOD, "✓", status),
            _ => self.step(BAD, "✗", status),
        }
    }

    fn stream(&mut self, turn: u64, text: &str) -> io::Result<()> {
        if turn != self.turn {
            self.turn = turn;
            self.streamed.clear();
        }
        self.streamed.push_str(text);
        if !self.live {
            return Ok(());
        }
        self.end_progress()?;
        self.in_text = true;
        write!(stdout(), "{}", printable(text))?;
        stdout().flush()
    }

    /// Shows how far a call is, on a terminal: the last line is replaced by each report.
    fn progress(&mut self, line: &str) -> io::Result<()> {
        if !io::stderr().is_terminal() {
            return Ok(());
        }
        self.end_text()?;
        self.in_progress = true;
        write!(stderr(), "  {DIM}·{DIM:#} {line}")?;
        stderr().flush()
    }

    /// Removes the progress of a call from the terminal.
    pub(in crate::commands) fn end_progress(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_progress) { write!(stderr(), "\r\x1b[K") } else { Ok(()) }
    }

    fn end_text(&mut self) -> io::Result<()> {
        self.end_progress()?;
        if std::mem::take(&mut self.in_text) { writeln!(stdout()) } else { Ok(()) }
    }

    fn step(&mut self, style: Style, mark: &str, text: &str) -> io::Result<()> {
        self.end_text()?;
        if self.detail == Detail::Calls {
            return self.print(&format!("  {style}{mark}{style:#} {text}"));
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        self.print(&format!("{DIM}{seconds:8.3} s{DIM:#}  {style}{mark}{style:#} {text}"))
    }

    fn print(&self, line: &str) -> io::Result<()> {
        if self.detail == Detail::Events { Ok(()) } else { writeln!(stderr(), "{line}") }
    }
}

impl Observer for Screen {
    fn warning(&mut self, text: &str) -> io::Result<()> {
        self.step(WARN, "!", text)
    }

    fn event(&mut self, event: &Event, data: &Value) -> io::Result<()> {
        self.show(event, data)
    }

    fn ran(&mut self, call: &OpenCall, outcome: &Result<Value, String>) -> io::Result<()> {
        let tool = &call.name;
        match outcome {
            Ok(result) => self.step(GOOD, "←", &format!("{TOOL}{tool}{TOOL:#} {}", brief(result))),
            Err(error) => self.step(BAD, "←", &format!("{TOOL}{tool}{TOOL:#} failed: {}", one_line(error))),
        }
    }

    fn not_accepted(&mut self, call: &OpenCall, error: &ClientError) -> io::Result<()> {
        self.step(WARN, "!", &format!("the result of {} was not accepted: {error}", call.name))
    }

    fn undecided(&mut self, undecided: Undecided<'_>) -> io::Result<()> {
        let Undecided { call: OpenCall { id, name: tool, .. }, query, wanted, data } = undecided;
        let server = self.client.as_ref().map(server_arguments).unwrap_or_default();
        let (wants, how) = match wanted {
            Wanted::Approval => (
                "approval",
                format!(
                    "  approve it: bosun approvals approve {query} {id}{server}\n  \
                     reject it:  bosun approvals reject {query} {id}{server}"
                ),
            ),
            Wanted::Values => {
                let url = self.client.as_ref().map(|client| client.query_url(query)).unwrap_or_default();
                let body = json!({"toolCallId": id, "toolResult": values_template(data)});
                ("values", format!("  send them: curl '{url}/tool-result' -d '{body}'"))
            }
        };
        self.step(WARN, "!", &format!("{tool} waits for {wants}, and there is no more input; decide from elsewhere:"))?;
        self.print(&how)?;
        self.print("  this client waits for it; Ctrl-C leaves the query to the server")
    }

    fn lost(&mut self, error: &ClientError) -> io::Result<()> {
        self.step(WARN, "!", &format!("{error}; retrying"))
    }

    fn reconnected(&mut self) -> io::Result<()> {
        self.step(GOOD, "↻", "reconnected; the query continues where it was")
    }
}

/// The options with which another command asks the same server.
fn server_arguments(client: &Client) -> String {
    let namespace = client.namespace().map(|namespace| format!(" --namespace {namespace}")).unwrap_or_default();
    format!(" --server {}{namespace}", client.server())
}

/// The values that a request for parameters asks for, each to be replaced. Only plain names: a model has written them, and
/// they become a part of a command.
fn values_template(request: &Value) -> Value {
    let is_plain = |path: &&str| path.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.[]".contains(letter));
    let parameters = request["parameters"].as_array().into_iter().flatten();
    let paths = parameters.filter_map(|parameter| parameter["path"].as_str()).filter(is_plain);
    paths.map(|path| (path.to_owned(), Value::from("…"))).collect::<serde_json::Map<_, _>>().into()
}

/// How far a call is, on one line.
pub(in crate::commands) fn progress_line(tool: &str, done: f64, total: Option<f64>, message: Option<&str>) -> String {
    let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = message.map(|message| format!(": {}", one_line(message))).unwrap_or_default();
    format!("{} {done}{of}{message}", one_line(tool))
}

fn brief(value: &Value) -> String {
    value.as_str().map_or_else(|| one_line(&value.to_string()), one_line)
}

/// One line of bounded length.
fn one_line(text: &str) -> String {
    clip(&text.replace(char::is_control, " "), SHOWN)
}

/// The text without control characters: a model repeats whatever it has read.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(done: f64, total: Option<f64>, message: Option<&str>, expect: &str) {
        assert_eq!(progress_line("import", done, total, message), expect);
    }

    #[test]
    fn progress_is_one_line_of_what_is_known() {
        check(3.0, Some(10.0), Some("reading"), "import 3 of 10: reading");
        check(0.5, None, None, "import 0.5");
        check(1.0, None, Some("two\nlines\u{1b}[2J"), "import 1: two lines [2J");
    }
}
