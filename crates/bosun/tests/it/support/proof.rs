//! The result of a proof: one line of JSON with what was run, how often, and the outcome.

use std::{process::Command, time::Instant};

use serde_json::{Value, json};

use crate::program::{PROGRAM, program};

/// The scale of a proof, from the environment; `make chaos` sets the large figures.
pub(crate) fn scale(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`, not a number")),
        Err(_) => default,
    }
}

/// The seed of this run: `BOSUN_SEED`, or a fixed one.
pub(crate) fn seed() -> u64 {
    scale("BOSUN_SEED", 20_261_115)
}

/// One proof in progress.
#[derive(Debug)]
pub(crate) struct Proof {
    test: &'static str,
    seed: u64,
    command: String,
    begun: Instant,
    violations: Vec<String>,
}

impl Proof {
    /// `scaling` are the variables, with their values, that make this run what it is.
    pub(crate) fn begin(test: &'static str, seed: u64, scaling: &[(&str, u64)]) -> Self {
        let mut variables: String = scaling.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        if std::env::var_os(PROGRAM).is_some() {
            variables += &format!("{PROGRAM}={} ", program().display());
        }
        let profile = if cfg!(debug_assertions) { "" } else { "--release " };
        let command = format!(
            "BOSUN_SEED={seed} {variables}cargo test {profile}-p bosun --test it -- --exact --nocapture {test}"
        );
        Self { test, seed, command, begun: Instant::now(), violations: Vec::new() }
    }

    pub(crate) fn violation(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }

    pub(crate) fn violations(&mut self, what: impl IntoIterator<Item = String>) {
        self.violations.extend(what);
    }

    /// Whether a promise was broken.
    pub(crate) fn is_broken(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Prints the line, and fails the test if a promise was broken. `n` is the number of trials; `figures` is an object
    /// with further results.
    #[expect(clippy::print_stdout, reason = "the line is what the proof is run for")]
    pub(crate) fn finish(self, n: u64, figures: &Value) {
        let mut line = json!({
            "test": self.test,
            "commit": commit(),
            "seed": self.seed,
            "n": n,
            "violations": self.violations.len(),
            // The rule of three: what n clean trials say about the next one, with 95 % confidence.
            "upper95": if self.violations.is_empty() && n > 0 { json!(3.0 / n as f64) } else { Value::Null },
            "seconds": (self.begun.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            "cmd": self.command,
        });
        for (name, figure) in figures.as_object().into_iter().flatten() {
            line[name] = figure.clone();
        }
        println!("{line}");
        let shown: Vec<_> = self.violations.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{} violations, among them:\n{}", self.violations.len(), shown.join("\n"));
    }
}

/// What was tested; a tree with changes in it says so.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}+changes"),
        (None, _) => "unknown".into(),
    }
}
