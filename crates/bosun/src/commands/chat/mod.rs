//! `bosun chat`: talks to an agent over one conversation.
//!
//! Each line is a query of the same `conversationId`, so the server shows the agent what was said before. The
//! program keeps nothing itself: another one goes on with the conversation by its id.

mod input;

use std::{convert::Infallible, future::pending, io::Write, pin::pin, process::ExitCode};

use anstream::stderr;
use anstyle::{AnsiColor, Style};
use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ask::{AgentOptions, Asker, Detail, Screen, made_up_name};
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
  Ctrl-C cancels the answer that is being given, or discards the line. Ctrl-D ends.

Examples:
  bosun chat --agent assistant --tools tools.json --run disk_space='df -h .'
  printf '%s\\n' 'My name is Ada.' 'Who am I?' | bosun chat --agent assistant

Where standard input is no terminal, each of its lines is asked in turn, answers go to standard output and everything
else to standard error; exit code 1 means that a question was not answered.")]
pub(crate) struct Chat {
    #[command(flatten)]
    options: AgentOptions,
    /// The conversation to go on with; a new one where absent
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
    /// Ctrl-C came twice: the query goes on, and this program does not wait for it.
    Left,
}

impl Chat {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let asker = self.options.open()?;
        check_agent(&asker).await?;
        let conversation = Conversation {
            is_continued: self.conversation.is_some(),
            id: self.conversation.unwrap_or_else(|| made_up_name("chat")),
            asker,
        };
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
        conversation.hold(Input::open()?, interrupts).await
    }
}

/// A name that no agent has is found before a line is typed. A key without the right to list them finds it later.
async fn check_agent(asker: &Asker) -> anyhow::Result<()> {
    let agents = match asker.client.names("agents").await {
        Ok(agents) => agents,
        Err(error) if error.code() == Some("right_missing") => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let name = &asker.agent;
    anyhow::ensure!(
        agents.contains(name),
        match agents.as_slice() {
            [] => format!("there is no agent `{name}`: the server has no agents here"),
            _ => format!("there is no agent `{name}` here, but: {}", agents.join(", ")),
        }
    );
    Ok(())
}

struct Conversation {
    asker: Asker,
    id: String,
    is_continued: bool,
}

impl Conversation {
    /// Asks line after line until there are no more.
    async fn hold(&self, mut input: Input, mut interrupts: Signal) -> anyhow::Result<ExitCode> {
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
                // A person asks something else; the rest of a pipe is not asked.
                Ok(Ended::Cancelled) if is_terminal => {}
                Ok(Ended::Cancelled | Ended::Left) => return Ok(ExitCode::from(INTERRUPTED)),
                // The next question may fare better: the server may be back by then.
                Err(error) => {
                    writeln!(stderr(), "{BAD}error{BAD:#}: {error:#}")?;
                    unanswered += 1;
                }
            }
        }
        if is_terminal {
            self.take_leave()?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(if unanswered == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Asks one question. The first Ctrl-C cancels it, the second one leaves it.
    async fn ask(&self, question: &str, interrupts: &mut Signal) -> anyhow::Result<Ended> {
        let name = made_up_name("chat");
        let mut query = self.asker.query(&name, question);
        query["conversationId"] = self.id.as_str().into();
        let session = self.asker.session(&name);
        let mut screen = Screen::new(Detail::Calls);
        {
            let mut playing = pin!(session.play(&query, &mut screen));
            tokio::select! {
                completed = &mut playing => {
                    return Ok(if completed? { Ended::Answered } else { Ended::Unanswered });
                }
                _ = interrupts.recv() => {}
            }
            let cancelling = async {
                session.cancel().await;
                // How the query ended is told by its stream.
                pending::<Infallible>().await
            };
            tokio::select! {
                // The answer may have been faster.
                completed = &mut playing => {
                    return Ok(if completed? { Ended::Answered } else { Ended::Cancelled });
                }
                never = cancelling => match never {},
                _ = interrupts.recv() => {}
            }
        }
        screen.left_behind(&self.asker.client.queries_url(&format!("/{name}")))?;
        Ok(Ended::Left)
    }

    fn greet(&self, input: &Input) -> anyhow::Result<()> {
        let (agent, server, id) = (&self.asker.agent, self.asker.client.server(), &self.id);
        let begins = if self.is_continued { "goes on with" } else { "begins" };
        let mut stderr = stderr();
        writeln!(stderr, "{BOLD}{agent}{BOLD:#} {DIM}at {server} {begins} conversation {id}{DIM:#}")?;
        if input.is_terminal() {
            writeln!(stderr, "{DIM}Ctrl-C cancels an answer, Ctrl-D ends{DIM:#}")?;
        }
        Ok(())
    }

    fn take_leave(&self) -> anyhow::Result<()> {
        let (agent, id) = (&self.asker.agent, &self.id);
        writeln!(stderr(), "{DIM}go on with it: bosun chat --agent {agent} --conversation {id}{DIM:#}")?;
        Ok(())
    }
}
