//! ARK's YAML resources of `kind: Tool`.
//!
//! The same files are Bosun's own configuration, so an unknown field is a fault. Resource names are
//! DNS names; a tool whose name is none is renamed when it is written, and that is said.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

const API_VERSION: &str = "ark.mckinsey.com/v1alpha1";

/// Annotations of a resource that say what its specification has no field for.
const CATEGORY: &str = "category";
const VERSION: &str = "version";
