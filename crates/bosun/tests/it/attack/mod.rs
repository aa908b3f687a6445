//! The attacks that this server has seen, repeated against the real process.
//!
//! Each test is one attack. It prints one line of JSON, `{"attack": …, "ok": …}` with what was measured, and fails if
//! the attack succeeded. `make attack` runs them at full scale, `make test` in a short form; the variables
//! `BOSUN_ATTACK_…` set the scale. The server runs with a bounded address space, so that an attack that succeeds ends
//! the server and not the machine. The latency of `/health` is compared with an idle server's, so that a busy machine
//! is not mistaken for a busy server.

mod a2a_bodies;
mod bodies;
mod bombs;
mod growth;
mod hostile_models;
mod orphans;
mod process;
mod revocation;
mod rights;
mod schemas;
mod sockets;
mod swapped;
mod target;
mod tenants;
mod watch;
mod worst_body;

use std::time::Instant;

use serde_json::{Map, Value, json};

/// One attack, and its result.
#[derive(Debug)]
struct Attack {
    name: &'static str,
    begun: Instant,
    violations: Vec<String>,
    figures: Map<String, Value>,
}

impl Attack {
    fn begin(name: &'static str) -> Self {
        Self { name, begun: Instant::now(), violations: Vec::new(), figures: Map::new() }
    }

    /// The server did what it must not do.
    fn violation(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }

    /// A violation unless `holds`.
    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }

    fn figure(&mut self, name: &str, figure: impl Into<Value>) {
        self.figures.insert(name.to_owned(), figure.into());
    }

    /// The largest of several figures of one name.
    fn at_least(&mut self, name: &str, figure: f64) {
        let known = self.figures.get(name).and_then(Value::as_f64).unwrap_or_default();
        self.figure(name, (known.max(figure) * 10.0).round() / 10.0);
    }

    /// Prints the line, and fails the test if the attack succeeded.
    #[expect(clippy::print_stdout, reason = "the line is what the attack is run for")]
    fn finish(self) {
        let ok = self.violations.is_empty();
        let seconds = (self.begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        let mut line = json!({"attack": self.name, "ok": ok, "seconds": seconds});
        for (name, figure) in self.figures {
            line[name] = figure;
        }
        if !ok {
            line["violations"] = self.violations.len().into();
            line["first"] = self.violations[0].clone().into();
        }
        // The harness writes the name of the test without a line break.
        println!("\n{line}");
        let shown: Vec<_> = self.violations.iter().take(20).map(String::as_str).collect();
        assert!(ok, "{} violations, among them:\n{}", self.violations.len(), shown.join("\n"));
    }
}

/// Bytes as MiB, rounded up.
fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
