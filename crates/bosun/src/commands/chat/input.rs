//! The lines of a conversation: typed in a line editor, or read from a pipe.
//!
//! Reading blocks and cannot be cancelled, so a thread of its own reads one line whenever one is requested. In between,
//! the terminal is in its usual mode: Ctrl-C is a signal again, and output needs no carriage returns. Earlier lines are
//! kept in memory only; they may be private.

use std::{
    io::{self, BufRead, IsTerminal},
    sync::mpsc,
};

use anyhow::Context;
use rustyline::{Config, DefaultEditor, error::ReadlineError};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PROMPT: &str = "> ";

/// The result of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C, before the line was entered.
    Discarded,
    /// Ctrl-D, or the end of the pipe.
    End,
}

#[derive(Debug)]
pub(super) struct Input {
    is_terminal: bool,
    wanted: mpsc::Sender<()>,
    lines: UnboundedReceiver<io::Result<Line>>,
}

impl Input {
    pub(super) fn open() -> anyhow::Result<Self> {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let mut reader = if is_terminal {
            let config = Config::builder().auto_add_history(true).build();
            let editor = DefaultEditor::with_config(config).context("the line editor cannot be started")?;
            Reader::Editor(Box::new(editor))
        } else {
            Reader::Pipe
        };
        let (wanted, requests) = mpsc::channel();
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            // Ends when the other side is gone.
            while requests.recv().is_ok() && sender.send(reader.read()).is_ok() {}
        });
        Ok(Self { is_terminal, wanted, lines })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next line; nothing is read ahead.
    pub(super) async fn next(&mut self) -> io::Result<Line> {
        // If the thread has ended, `recv` below says so.
        let _ = self.wanted.send(());
        self.lines.recv().await.unwrap_or_else(|| Err(io::Error::other("the reader of standard input has stopped")))
    }
}

enum Reader {
    Editor(Box<DefaultEditor>),
    Pipe,
}

impl Reader {
    fn read(&mut self) -> io::Result<Line> {
        match self {
            Self::Editor(editor) => match editor.readline(PROMPT) {
                Ok(text) => Ok(Line::Text(text)),
                Err(ReadlineError::Interrupted) => Ok(Line::Discarded),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(ReadlineError::Io(error)) => Err(error),
                Err(error) => Err(io::Error::other(error)),
            },
            Self::Pipe => {
                let mut text = String::new();
                let length = io::stdin().lock().read_line(&mut text)?;
                Ok(if length == 0 { Line::End } else { Line::Text(text.trim_end_matches(['\r', '\n']).to_owned()) })
            }
        }
    }
}
