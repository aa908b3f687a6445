//! The Prometheus text format, version 0.0.4.
//!
//! `docs/decisions/014-metrics-text.md` has why `prometheus-client`, which writes OpenMetrics, is not used.

use std::fmt::Write as _;

use super::HistogramCounts;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

impl FamilyKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A family: samples of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: FamilyKind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Family {
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: FamilyKind,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind, labels, help }
    }

    /// A row of the page that lists all families.
    #[must_use]
    pub fn to_row(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {} | {} | {} |", self.name, self.kind.as_str(), labels.join(", "), self.help)
    }
}

/// The text that is being written.
#[derive(Debug, Default)]
pub struct MetricsText(String);

/// A family that is being written.
#[derive(Debug)]
pub struct Samples<'a> {
    text: &'a mut String,
    family: Family,
}

impl MetricsText {
    /// Begins the family of this name. A name that is not in the list is a bug; it is written without a description,
    /// and a test finds it.
    pub fn family(&mut self, families: &[Family], name: &'static str) -> Samples<'_> {
        let known = families.iter().find(|family| family.name == name).copied();
        if let Some(Family { name, kind, help, .. }) = known {
            // Writing into a string cannot fail.
            let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str());
        }
        Samples { text: &mut self.0, family: known.unwrap_or(Family::new(name, FamilyKind::Gauge, &[], "")) }
    }

    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

impl Samples<'_> {
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has floating-point numbers only")]
    pub fn count(&mut self, labels: &[&str], value: u64) {
        self.sample(labels, value as f64);
    }

    pub fn sample(&mut self, labels: &[&str], value: f64) {
        self.line("", labels, None, value);
    }

    #[expect(clippy::cast_precision_loss, reason = "Prometheus has floating-point numbers only")]
    pub fn histogram(&mut self, labels: &[&str], counts: &HistogramCounts) {
        for (bound, count) in &counts.buckets {
            self.line("_bucket", labels, Some(&bound.to_string()), *count as f64);
        }
        self.line("_bucket", labels, Some("+Inf"), counts.count as f64);
        self.line("_sum", labels, None, counts.sum);
        self.line("_count", labels, None, counts.count as f64);
    }

    fn line(&mut self, suffix: &str, labels: &[&str], bound: Option<&str>, value: f64) {
        let names = self.family.labels.iter().copied().chain(bound.map(|_| "le"));
        let values = labels.iter().copied().chain(bound);
        let pairs: Vec<_> = names.zip(values).map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{}{suffix}{labels} {value}", self.family.name);
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
