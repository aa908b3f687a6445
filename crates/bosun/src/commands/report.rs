//! Reports about a file, on standard error.

use anstyle::{AnsiColor, Style};
use bosun_convert::{Severity, ToolProblem};
use serde_json::{Value, json};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const PLACE: Style = Style::new().bold();
const ASIDE: Style = AnsiColor::Cyan.on_default();

/// Prints a problem: `file:line:column: error[code]: message`, then the path and what to do.
pub(crate) fn print(file: &str, problem: &ToolProblem) {
    let style = match problem.severity {
        Severity::Error => ERROR,
        Severity::Warning => WARNING,
    };
    let (severity, code) = (problem.severity.as_str(), problem.code);
    let (file, message) = (printable(file), printable(&problem.message));
    let place = problem.place;
    anstream::eprintln!("{PLACE}{file}:{place}{PLACE:#}: {style}{severity}[{code}]{style:#}: {message}");
    if !problem.path.is_empty() {
        anstream::eprintln!("    {ASIDE}at{ASIDE:#} {}", printable(&problem.path));
    }
    if let Some(hint) = &problem.hint {
        anstream::eprintln!("    {ASIDE}hint{ASIDE:#} {}", printable(hint));
    }
}

/// A problem as data.
pub(crate) fn to_json(file: &str, problem: &ToolProblem) -> Value {
    json!({
        "file": file, "line": problem.place.line, "column": problem.place.column, "path": problem.path,
        "severity": problem.severity.as_str(), "code": problem.code, "message": problem.message, "hint": problem.hint,
    })
}

/// `1 error`, `2 errors`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Text of an untrusted file, without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() && letter != '\n' { '?' } else { letter }).collect()
}
