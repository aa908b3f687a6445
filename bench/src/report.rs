//! What was measured: a line of JSON for machines, and in the end a table for people.

use std::{fs, process::Command, time::Duration};

use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) struct Report {
    commit: String,
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
        Self { commit, rows: Vec::new() }
    }

    /// What the figures were made on.
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
                "load_before": read("/proc/loadavg").split(' ').next().unwrap_or_default(),
            }),
        );
    }

    pub(crate) fn line(&self, bench: &str, figures: &Value) {
        let mut line = json!({"bench": bench, "commit": self.commit});
        for (name, figure) in figures.as_object().into_iter().flatten() {
            line[name] = figure.clone();
        }
        println!("{line}");
    }

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
