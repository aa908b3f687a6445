//! ARK's YAML resources of `kind: Tool`.
//!
//! The same files are Bosun's own configuration, so an unknown field is a fault. Resource names are DNS names; a tool
//! whose name is not one is renamed when it is written, with a warning.

mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

const API_VERSION: &str = "ark.mckinsey.com/v1alpha1";

/// Annotations of a resource for fields that its specification lacks.
const CATEGORY: &str = "category";
const VERSION: &str = "version";
