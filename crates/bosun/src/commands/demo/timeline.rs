//! The timeline of the demonstration: time, side, and text.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use anstream::stdout;
use anstyle::{AnsiColor, Style};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
/// Wide enough for the texts, narrow enough for two windows next to each other.
const WIDTH: usize = 96;

const PAUSE: Duration = Duration::from_millis(1200);

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
    Disk,
}

impl Side {
    fn label(self) -> (Style, &'static str) {
        match self {
            Self::Client => (AnsiColor::Cyan.on_default(), "client"),
            Self::Server => (AnsiColor::Magenta.on_default(), "server"),
            Self::Disk => (AnsiColor::Yellow.on_default(), "disk"),
        }
    }
}

/// The emphasis of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emphasis {
    Plain,
    Good,
    Bad,
}

#[derive(Debug)]
pub(super) struct Timeline {
    begun: Instant,
}

impl Timeline {
    pub(super) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    pub(super) fn elapsed(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Pauses so that a reader at a terminal can follow. A pipe is not delayed.
    pub(super) async fn pause(&self) {
        if io::stdout().is_terminal() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The heading of a new part; `note` names its source.
    pub(super) fn scene(&self, title: &str, note: &str) -> io::Result<()> {
        let used = title.chars().count() + note.chars().count() + 8;
        let rule = "─".repeat(WIDTH.saturating_sub(used).max(3));
        writeln!(stdout(), "\n  {BOLD}{title}{BOLD:#} {DIM}{rule} {note}{DIM:#}\n")
    }

    pub(super) fn step(&self, side: Side, mark: &str, text: &str) -> io::Result<()> {
        self.with_emphasis(side, mark, Emphasis::Plain, text)
    }

    pub(super) fn with_emphasis(&self, side: Side, mark: &str, emphasis: Emphasis, text: &str) -> io::Result<()> {
        let (style, label) = side.label();
        let emphasis = match emphasis {
            Emphasis::Plain => Style::new(),
            Emphasis::Good => AnsiColor::Green.on_default().bold(),
            Emphasis::Bad => AnsiColor::Red.on_default().bold(),
        };
        writeln!(
            stdout(),
            "  {DIM}{:7.3} s{DIM:#}  {style}{label:<6}{style:#}  {emphasis}{mark}{emphasis:#}  {emphasis}{text}{emphasis:#}",
            self.elapsed()
        )
    }
}
