//! Cargo features that a build of the program may lack, and what it says when one is asked for.

use crate::commands::Usage;

/// The error of a command or setting whose code was left out of this build.
#[cfg_attr(all(feature = "standin", feature = "grpc"), expect(dead_code, reason = "this build has them all"))]
pub(crate) fn not_built(what: &str, feature: &str) -> Usage {
    Usage(format!(
        "this build has no {what}; build one that has it with `cargo install --path crates/bosun --features {feature}`"
    ))
}
