//! The results: a line of JSON for machines, and in the end a table for people.
//!
//! A [`Figure`] is one row and one line: its name, its value, its floor in the same run, its goal, and the command that
//! measures it again. `line` is for what has no goal: the machine, and the raw rounds of a figure.

use std::{fs, process::Command, time::Duration};

use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Report {
    commit: String,
    command: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: [String; 5],
    verdict: Verdict,
}

/// Whether a goal was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached,
    Partly,
    Missed,
    /// There is no goal.
    None,
}

impl Verdict {
    pub(crate) fn of(reached: bool) -> Self {
        if reached { Self::Reached } else { Self::Missed }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Partly => "partly",
            Self::Missed => "missed",
            Self::None => "",
        }
    }
}

/// The goal of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
    /// The second is still acceptable.
    AtLeastOr(f64, f64),
    /// Times the floor.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// At most this much more than the floor.
    AboveFloorAtMost(f64),
}

/// One measured figure.
#[derive(Debug)]
pub(crate) struct Figure<'a> {
    pub(crate) what: &'a str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The same for the floor, or for whatever it is compared with, in the same run.
    pub(crate) floor: Option<f64>,
    /// The ratio to the floor, if it is not simply the quotient: the median of rounds.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Goal,
    /// The number of trials.
    pub(crate) n: usize,
    pub(crate) note: String,
    /// Further members of the line of JSON.
    pub(crate) details: Value,
}

impl Default for Figure<'_> {
    fn default() -> Self {
        Self {
            what: "",
            value: 0.0,
            unit: "",
            floor: None,
            ratio: None,
            goal: Goal::None,
            n: 0,
            note: String::new(),
            details: Value::Null,
        }
    }
}

impl Figure<'_> {
    fn ratio(&self) -> Option<f64> {
        self.ratio.or_else(|| self.floor.filter(|floor| *floor > 0.0).map(|floor| self.value / floor))
    }

    fn verdict(&self) -> Verdict {
        let ratio = |reached: fn(f64, f64) -> bool, goal| {
            self.ratio().map_or(Verdict::None, |ratio| Verdict::of(reached(ratio, goal)))
        };
        match self.goal {
            Goal::None => Verdict::None,
            Goal::AtMost(most) => Verdict::of(self.value <= most),
            Goal::AtLeast(least) => Verdict::of(self.value >= least),
            Goal::AtLeastOr(least, _) if self.value >= least => Verdict::Reached,
            Goal::AtLeastOr(_, acceptable) if self.value >= acceptable => Verdict::Partly,
            Goal::AtLeastOr(..) => Verdict::Missed,
            Goal::RatioAtMost(most) => ratio(|ratio, most| ratio <= most, most),
            Goal::RatioAtLeast(least) => ratio(|ratio, least| ratio >= least, least),
            Goal::AboveFloorAtMost(more) => {
                self.floor.map_or(Verdict::None, |floor| Verdict::of(self.value <= floor + more))
            }
        }
    }

    fn goal(&self) -> String {
        let unit = self.unit;
        match self.goal {
            Goal::None => String::new(),
            Goal::AtMost(most) => format!("≤ {}", shown(most, unit)),
            Goal::AtLeast(least) => format!("≥ {}", shown(least, unit)),
            Goal::AtLeastOr(least, acceptable) => {
                format!("≥ {} (at least {})", shown(least, unit), shown(acceptable, unit))
            }
            Goal::RatioAtMost(most) => format!("≤ {most}×"),
            Goal::RatioAtLeast(least) => format!("≥ {least}×"),
            Goal::AboveFloorAtMost(more) => format!("≤ floor + {}", shown(more, unit)),
        }
    }
}

/// A number with a sensible number of digits, and its unit.
fn shown(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    let number = format!("{value:.digits$}");
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    let space = if unit.is_empty() { "" } else { " " };
    format!("{number}{space}{unit}")
}

pub(crate) fn micros(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 10.0
}

impl Report {
    pub(crate) fn begin() -> Self {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain", "-uno"])) {
            (Some(commit), Some(changes)) if changes.is_empty() => commit,
            (Some(commit), _) => format!("{commit}+changes"),
            (None, _) => "unknown".into(),
        };
        Self { commit, command: command(), rows: Vec::new() }
    }

    /// The machine on which the figures were measured.
    pub(crate) fn machine(&self) {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
        self.line(
            "machine",
            &json!({
                "cores": std::thread::available_parallelism().map(usize::from).unwrap_or_default(),
                "processor": model.trim_start_matches([' ', '\t', ':']),
                "kernel": read("/proc/sys/kernel/osrelease").trim(),
                // Other work on the machine makes every figure worse, and some of them worse than others.
                "load_before": load(),
            }),
        );
    }

    /// A line for machines only.
    pub(crate) fn line(&self, bench: &str, figures: &Value) {
        let mut line = json!({"bench": bench, "commit": self.commit});
        for (name, figure) in figures.as_object().into_iter().flatten() {
            line[name] = figure.clone();
        }
        println!("{line}");
    }

    /// A line and a row.
    pub(crate) fn figure(&mut self, figure: &Figure<'_>) {
        let (verdict, goal) = (figure.verdict(), figure.goal());
        let mut line = json!({
            "what": figure.what, "value": figure.value, "unit": figure.unit, "goal": goal, "floor": figure.floor,
            "ratio": figure.ratio(), "n": figure.n, "verdict": verdict.word(), "load": load(),
            "commit": self.commit, "cmd": self.command,
        });
        if !figure.note.is_empty() {
            line["note"] = figure.note.as_str().into();
        }
        for (name, detail) in figure.details.as_object().into_iter().flatten() {
            line[name] = detail.clone();
        }
        println!("{line}");
        let ratio = figure.ratio().map(|ratio| format!("{}×", shown(ratio, "")));
        let note = [ratio.unwrap_or_default(), figure.note.clone()].into_iter().filter(|part| !part.is_empty());
        self.row(
            figure.what,
            shown(figure.value, figure.unit),
            figure.floor.map(|floor| shown(floor, figure.unit)).unwrap_or_default(),
            note.collect::<Vec<_>>().join("; "),
            goal,
            verdict,
        );
    }

    /// A figure that should have been measured and was not. Never silent, never a failure of the rest.
    pub(crate) fn not_measured(&mut self, what: &str, why: &anyhow::Error) {
        let line = json!({
            "what": what, "value": null, "note": format!("not measured: {why:#}"), "commit": self.commit,
            "cmd": self.command,
        });
        println!("{line}");
        self.row(what, "not measured".into(), String::new(), why.to_string(), String::new(), Verdict::None);
    }

    /// A row for people only.
    pub(crate) fn row(
        &mut self,
        what: &str,
        ours: String,
        floor: String,
        note: String,
        goal: String,
        verdict: Verdict,
    ) {
        self.rows.push(Row { cells: [what.to_owned(), ours, floor, note, goal], verdict });
    }

    pub(crate) fn print_table(&self) {
        let titles = ["", "bosun", "floor", "", "goal"].map(str::to_owned);
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row.cells[column]).chain([&titles[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        let print = |cells: &[String; 5], verdict: &str| {
            let cells: Vec<_> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            println!("{}  {verdict}", cells.join("  ").trim_end());
        };
        println!();
        print(&titles, "");
        for row in &self.rows {
            print(&row.cells, row.verdict.word());
        }
    }
}

/// The load average of the machine, this bench included.
fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}

/// The command that measures the same again: `bench/run` adds the server.
fn command() -> String {
    let mut words = std::env::args().skip(2);
    let mut command = String::from("bench/run");
    while let Some(word) = words.next() {
        if word == "--server" {
            let _ = words.next();
        } else {
            command.push(' ');
            command.push_str(&word);
        }
    }
    command
}
