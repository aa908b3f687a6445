//! `bosun chat`: talks to an agent over one conversation.
//!
//! Each line is a query of the same `conversationId`, so the server shows the agent what was said before. The
//! program keeps nothing itself: another process can continue the conversation by its id.

mod input;

use std::{convert::Infallible, future::pending, io::Write, pin::pin, process::ExitCode};

use anstream::stderr;
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use bosun_client::Client;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ask::{AgentClient, AgentOptions, Detail, Screen, has_completed};
use input::{Input, Line};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// What the shell reports for a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Talk to an agent in the terminal, over one conversation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys:
  Enter asks, the arrow keys edit and bring back earlier lines.
  Ctrl-C cancels the current answer, or discards the line. Ctrl-D ends the chat.

Examples:
  bosun chat --agent assistant --tools tools.json --run disk_space='df -h .'
  printf '%s\\n' 'My name is Ada.' 'Who am I?' | bosun chat --agent assistant

If standard input is not a terminal, each of its lines is a question. Answers go to standard output and everything else
to standard error; exit code 1 means that a question was not answered.")]
pub(crate) struct Chat {
    #[command(flatten)]
    options: AgentOptions,
    /// The conversation to continue; default: a new one
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Answered,
    /// It failed; the screen says why.
    Unanswered,
    /// Ctrl-C has cancelled it.
    Cancelled,
    /// Ctrl-C came twice: the query continues, and this program does not wait for it.
    Left,
}

impl Chat {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let agent_client = self.options.open()?;
        check_target(&agent_client).await?;
        let conversation = Conversation {
            is_continued: self.conversation.is_some(),
            id: self.conversation.unwrap_or_else(|| Client::new_name("chat")),
            agent_client,
        };
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        conversation.run_to_end(Input::open()?, interrupts).await
    }
}

/// Reports an unknown agent or team before a line is typed, unless the key has no right to list them.
async fn check_target(agent_client: &AgentClient) -> anyhow::Result<()> {
    let kind = agent_client.kind;
    let existing = match agent_client.client.names(&format!("{kind}s")).await {
        Ok(existing) => existing,
        Err(error) if error.code() == Some("right_missing") => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let name = &agent_client.target;
    anyhow::ensure!(
        existing.contains(name),
        match existing.as_slice() {
            [] => format!("there is no {kind} `{name}`: the server has no {kind}s in this namespace"),
            _ => format!("there is no {kind} `{name}`; the server has: {}", existing.join(", ")),
        }
    );
    Ok(())
}

struct Conversation {
    agent_client: AgentClient,
    id: String,
    is_continued: bool,
}

impl Conversation {
    /// Asks line after line until there are no more.
    async fn run_to_end(&self, mut input: Input, mut interrupts: Signal) -> anyhow::Result<ExitCode> {
        self.greet(&input)?;
        let is_terminal = input.is_terminal();
        let mut unanswered = 0;
        loop {
            let line = tokio::select! {
                line = input.next() => line?,
                // On a terminal the editor reads Ctrl-C as a key.
                _ = interrupts.recv(), if !is_terminal => return Ok(ExitCode::from(INTERRUPTED)),
            };
            let question = match line {
                Line::Text(text) if text.trim().is_empty() => continue,
                Line::Text(text) => text,
                Line::Discarded => continue,
                Line::End => break,
            };
            match self.ask(&question, &mut interrupts).await {
                Ok(Ended::Answered) => {}
                Ok(Ended::Unanswered) => unanswered += 1,
                // On a terminal the user can ask something else; the remaining lines of a pipe are dropped.
                Ok(Ended::Cancelled) if is_terminal => {}
                Ok(Ended::Cancelled | Ended::Left) => return Ok(ExitCode::from(INTERRUPTED)),
                // The next question may succeed: the server may be back by then.
                Err(error) => {
                    writeln!(stderr(), "{BAD}error{BAD:#}: {error:#}")?;
                    unanswered += 1;
                }
            }
        }
        if is_terminal {
            self.print_how_to_continue()?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(if unanswered == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Asks one question. The first Ctrl-C cancels it, the second one leaves it.
    async fn ask(&self, question: &str, interrupts: &mut Signal) -> anyhow::Result<Ended> {
        let name = Client::new_name("chat");
        let question = self.agent_client.question(&name, question).conversation(&self.id);
        let mut screen = Screen::of_server(Detail::Calls, &self.agent_client.client);
        {
            let mut asking = pin!(question.observed_by(&mut screen));
            tokio::select! {
                answered = &mut asking => {
                    return Ok(if has_completed(answered)? { Ended::Answered } else { Ended::Unanswered });
                }
                _ = interrupts.recv() => {}
            }
            let cancelling = async {
                // One that cannot be cancelled is shown by the stream as well.
                let _ = self.agent_client.client.cancel(&name).await;
                // The stream reports how the query ended.
                pending::<Infallible>().await
            };
            tokio::select! {
                // The answer may have been faster.
                answered = &mut asking => {
                    return Ok(if has_completed(answered)? { Ended::Answered } else { Ended::Cancelled });
                }
                never = cancelling => match never {},
                _ = interrupts.recv() => {}
            }
        }
        screen.left_behind(&self.agent_client.client.query_url(&name))?;
        Ok(Ended::Left)
    }

    fn greet(&self, input: &Input) -> anyhow::Result<()> {
        let (agent, server, id) = (&self.agent_client.target, self.agent_client.client.server(), &self.id);
        let begins = if self.is_continued { "continues" } else { "begins" };
        let mut stderr = stderr();
        writeln!(stderr, "{BOLD}{agent}{BOLD:#} {DIM}at {server} {begins} conversation {id}{DIM:#}")?;
        if input.is_terminal() {
            writeln!(stderr, "{DIM}Ctrl-C cancels an answer, Ctrl-D ends{DIM:#}")?;
        }
        Ok(())
    }

    fn print_how_to_continue(&self) -> anyhow::Result<()> {
        let AgentClient { kind, target, .. } = &self.agent_client;
        writeln!(stderr(), "{DIM}continue with: bosun chat --{kind} {target} --conversation {}{DIM:#}", self.id)?;
        Ok(())
    }
}
