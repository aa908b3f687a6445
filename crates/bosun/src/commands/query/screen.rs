//! How a run looks on the terminal.
//!
//! The answer goes to standard output and everything about how it came to be to standard error, so
//! that `answer=$(bosun query …)` is the answer and nothing else. Where standard output is a
//! terminal, the answer is written there while the model still speaks. With `--json`, standard
//! output gets the events as they came, and nothing else is said.

use std::{
    io::{IsTerminal, Write},
    time::Instant,
};

use anstream::{eprintln, print, println};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::client::{ClientError, Event};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const TOOL: Style = AnsiColor::Cyan.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Of arguments and results, this much is shown.
const SHOWN: usize = 100;

#[derive(Debug)]
pub(super) struct Screen {
    begun: Instant,
    json: bool,
    /// Text is shown as it arrives.
    live: bool,
    /// The cursor stands behind text of the model.
    in_text: bool,
    /// The turn whose text is being streamed, and that text.
    turn: u64,
    streamed: String,
    answer: String,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        let live = !json && std::io::stdout().is_terminal();
        Self {
            begun: Instant::now(),
            json,
            live,
            in_text: false,
            turn: 0,
            streamed: String::new(),
            answer: String::new(),
        }
    }

    pub(super) fn asking(&mut self, agent: &str, input: &str) {
        self.say(&format!("{BOLD}{agent}{BOLD:#}  {input}"));
    }

    pub(super) fn event(&mut self, event: &Event, data: &Value) {
        if self.json {
            let line = match &event.id {
                Some(id) => json!({ "event": event.name, "id": id, "data": data }),
                None => json!({ "event": event.name, "data": data }),
            };
            println!("{line}");
            return;
        }
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match event.name.as_str() {
            "agent_thinking" if data["attempt"].as_u64() > Some(1) => {
                self.streamed.clear();
                self.step(WARN, "↻", "the model is asked again; what it said of this turn is void");
            }
            "agent_thinking" => self.step(DIM, "·", "thinking"),
            "agent_response_delta" => self.stream(data["turn"].as_u64().unwrap_or_default(), text("/delta")),
            "tool_call" => {
                self.step(TOOL, "→", &format!("{TOOL}{}{TOOL:#} {}", text("/name"), brief(&data["arguments"])));
            }
            "tool_result_received" => self.step(DIM, "·", &format!("the server has the result of {}", text("/name"))),
            "tool_started" => {
                let call = format!("{} {}", text("/name"), brief(&data["arguments"]));
                self.step(DIM, "·", &format!("{call} {DIM}on the server{DIM:#}"));
            }
            "tool_finished" if data["success"] == true => {
                self.step(GOOD, "✓", &format!("{} {}", text("/name"), brief(&data["result"])));
            }
            "tool_finished" => self.step(BAD, "✗", &format!("{}: {}", text("/name"), text("/error/message"))),
            "agent_response" => text("/response").clone_into(&mut self.answer),
            "error" => self.step(BAD, "✗", &format!("{} [{}]", text("/message"), text("/code"))),
            "complete" => self.complete(text("/status")),
            _ => {}
        }
    }

    /// A local command has ended.
    pub(super) fn served(&mut self, tool: &str, outcome: &Result<String, String>) {
        match outcome {
            Ok(result) => self.step(GOOD, "←", &format!("{TOOL}{tool}{TOOL:#} {}", clip(result))),
            Err(error) => self.step(BAD, "←", &format!("{TOOL}{tool}{TOOL:#} failed: {}", clip(error))),
        }
    }

    /// The result came too late to matter.
    pub(super) fn not_needed(&mut self, tool: &str, error: &ClientError) {
        self.step(WARN, "!", &format!("the result of {tool} was not taken: {error}"));
    }

    pub(super) fn lost(&mut self, error: &ClientError) {
        self.step(WARN, "!", &format!("{error}; trying again"));
    }

    pub(super) fn back(&mut self) {
        self.step(GOOD, "↻", "connected again; the run goes on where it was");
    }

    /// This program stops watching; the query does not stop.
    pub(super) fn left_behind(&mut self, url: &str) {
        self.say(&format!("the query goes on without this client\n  see it:    curl '{url}'\n  cancel it: curl -X PATCH '{url}/cancel'"));
    }

    fn complete(&mut self, status: &str) {
        self.end_text();
        // What was streamed is on the terminal already.
        if !self.answer.is_empty() && !(self.live && self.answer == self.streamed) {
            println!("{}", printable(&self.answer));
        }
        let (style, mark) = if status == "completed" { (GOOD, "✓") } else { (BAD, "✗") };
        self.step(style, mark, status);
    }

    fn stream(&mut self, turn: u64, text: &str) {
        if turn != self.turn {
            self.turn = turn;
            self.streamed.clear();
        }
        self.streamed.push_str(text);
        if self.live {
            print!("{}", printable(text));
            // A terminal that has gone away is noticed at the next line.
            let _ = std::io::stdout().flush();
            self.in_text = true;
        }
    }

    fn end_text(&mut self) {
        if std::mem::take(&mut self.in_text) {
            println!();
        }
    }

    fn step(&mut self, style: Style, mark: &str, text: &str) {
        self.end_text();
        let seconds = self.begun.elapsed().as_secs_f64();
        self.say(&format!("{DIM}{seconds:8.3} s{DIM:#}  {style}{mark}{style:#} {text}"));
    }

    fn say(&self, line: &str) {
        if !self.json {
            eprintln!("{line}");
        }
    }
}

fn brief(value: &Value) -> String {
    value.as_str().map_or_else(|| clip(&value.to_string()), clip)
}

/// One line, and not too long.
fn clip(text: &str) -> String {
    let mut line: String =
        text.chars().take(SHOWN).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if text.chars().nth(SHOWN).is_some() {
        line.push('…');
    }
    line
}

/// The text without what a terminal would obey: a model repeats whatever it has read somewhere.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')).collect()
}
