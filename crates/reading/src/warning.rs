//! Warnings about what a converter could not carry over exactly.
//!
//! A warning never stops a conversion; it is how a converter avoids guessing silently. `path` is the position (a JSON
//! path, or `file:line:column` for source code), `code` is a stable `snake_case` noun, and `message` is a sentence for
//! people.

use std::fmt;

/// One remark of a converter about its result.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    pub path: String,
    pub code: &'static str,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} [{}]", self.path, self.message, self.code)
    }
}
